"""How many nodes a repair takes, measured."""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, Any

from overlaymq.config import Config, ScribeConfig
from overlaymq.events import Received
from overlaymq.messages import Routed, TreeJoin, TreeJoins
from overlaymq.sim.faults import Faults
from tests.core.network import Network, described

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.sim.engine import Host

CRASHES = 6


def repairs(size: int) -> list[tuple[int, int]]:
    """Forwarders crash one by one: how many children each had, and how many nodes handled their joins."""
    bare = Config(scribe=ScribeConfig(max_children=0, collapse_after=0.0))
    network = Network(1, size, bare, Faults(link_break=0.05))
    topic = described("repair")
    for node in network.sample(size // 4):
        network.subscribe(node, topic)
    network.run(10)
    took_part: set[Id] = set()

    def on_input(now: float, host: Host, input: Any) -> None:
        message = input.message if isinstance(input, Received) else None
        body = message.body if isinstance(message, Routed) else message
        if isinstance(body, TreeJoin | TreeJoins):
            took_part.add(host.peer.id)

    network.simulation.on_input = on_input
    counted = []
    for _ in range(CRASHES):
        forwarders = [
            (node, len(place.children))
            for node in network.nodes.values()
            if (place := network.place(node, topic)) is not None
            and len(place.children) > 1
            and node is not network.root(topic)
        ]
        victim, children = network.random.choice(forwarders)
        took_part.clear()
        network.crash(victim)
        network.run(20)
        counted.append((children, len(took_part)))
    assert network.broken(topic) == []
    return counted


def test_only_a_logarithmic_number_of_nodes_takes_part_in_a_repair() -> None:
    """Each orphan's join meets the tree within a route; so its repair takes at most the nodes of a route, and
    sixteen times as many nodes in the network add one or so. Reference: Scribe JSAC III-B.1, SC-38."""
    means = {}
    for size in (128, 2048):
        counted = repairs(size)
        route = ceil(log(size, 16))
        assert all(handled <= orphans * route for orphans, handled in counted), counted
        handled = [handled for _, handled in counted]
        means[size] = sum(handled) / len(handled)
    assert means[2048] <= 3 * means[128], means
