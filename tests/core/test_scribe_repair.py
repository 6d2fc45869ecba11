"""How many nodes a repair takes, measured."""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.config import Config, ScribeConfig
from overlaymq.core.dissemination.rooted import Rooted
from overlaymq.events import PeerFailed, Received
from overlaymq.ids import Id
from overlaymq.messages import Peer, Routed, TreeJoin, TreeJoins
from overlaymq.sim.faults import Faults
from overlaymq.transport.codec import decode, decode_control_frame, encode
from tests.core.network import Network, described

if TYPE_CHECKING:
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


def test_a_node_with_many_topics_joins_again_with_a_message_for_each_next_hop() -> None:
    """Reference: FreePastry's buildManifests, by way of protocols.md 3.9."""
    bare = Config(scribe=ScribeConfig(max_children=0, collapse_after=0.0))
    network = Network(2, 150, bare, Faults(link_break=0.05))
    (busy,) = network.sample(1)
    topics = [described(f"many {number}") for number in range(300)]
    for topic in topics:
        network.subscribe(busy, topic)
    network.run(5)
    parents = [p.parent for topic in topics if (p := network.place(busy, topic)) and p.parent]
    lost = max(parents, key=parents.count)
    orphaned = parents.count(lost)
    assert orphaned > 10, "otherwise this shows nothing"
    sent: list[Routed] = []

    def on_send(now: float, host: Host, peer: Peer, message: object, fate: object) -> None:
        if host.peer == busy.me and isinstance(message, Routed):
            sent.append(message)

    network.simulation.on_send = on_send
    network.crash(network.nodes[lost.id])
    network.simulation.start(busy.me, PeerFailed(lost, "broken"))
    network.run(0.0)
    joins = [message for message in sent if isinstance(message.body, TreeJoin | TreeJoins)]
    together = [len(one.body.joins) for one in joins if isinstance(one.body, TreeJoins)]
    assert sum(together) + len(joins) - len(together) == orphaned
    assert len(joins) < orphaned / 3
    network.run(30)
    assert network.broken(*topics) == []


def test_joins_that_travel_together_survive_the_wire() -> None:
    topic = described("wire")
    child = Peer(Id(1), "child", 2)
    join = TreeJoin(topic.id, child, topic, 3, 4, b"note", serial=5, credentials=b"who I am")
    routed = Routed(topic.key, child, 1, 0, TreeJoins((join, join)))
    (envelope,) = decode_control_frame(encode(routed)).envelopes
    assert decode(envelope) == routed


@pytest.mark.parametrize("strategy", ["scribe", "direct"])
def test_a_publisher_that_takes_a_stranger_for_the_root_learns_better(strategy: str) -> None:
    network = Network(3, 60)
    topic = described("mistaken", strategy)
    member, publisher, stranger = network.sample(3)
    network.subscribe(member, topic)
    network.subscribe(publisher, topic)
    network.publish(publisher, topic)
    network.run(2)
    mistaken = publisher.strategy(topic.id)
    assert isinstance(mistaken, Rooted)
    mistaken._root = stranger.me
    network.publish(publisher, topic)
    network.run(5)
    number = network.publish(publisher, topic)
    network.run(5)
    assert network.delivered[member.me.id, topic.id, number] == 1
