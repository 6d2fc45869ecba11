"""How long a node remembers a topic, and that what it has forgotten does not come back."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from overlaymq.config import Config, RendezvousConfig
from overlaymq.core.supported import STRATEGIES
from overlaymq.events import (
    CountMembers,
    Members,
    Received,
    TimerFired,
)
from overlaymq.ids import rank
from overlaymq.messages import Handover, RootQuery, Routed
from tests.core.network import Network, described

if TYPE_CHECKING:
    from overlaymq.core.node import Node
    from overlaymq.messages import Descriptor, Message, Peer
    from overlaymq.sim.engine import Host

KEEP = Config().rendezvous.refresh_every


def questions(network: Network, node: Node) -> list[Message]:
    """What this node asks for a topic's root, from now on."""
    asked: list[Message] = []

    def on_send(now: float, host: Host, peer: Peer, message: Message, fate: object) -> None:
        if host.peer == node.me and isinstance(message, Routed):
            asked.append(message.body)

    network.simulation.on_send = on_send
    return asked


def pending(network: Network, node: Node) -> list[TimerFired]:
    """The timers of topics that this node has set."""
    mine = [event[3] for event in network.simulation._heap if event[2].peer == node.me]
    timers = [one for one in mine if isinstance(one, TimerFired)]
    return [
        one for one in timers if one.timer.part.startswith("topic.") or one.timer.part == "topic"
    ]


def stranger(network: Network, topic: Descriptor) -> Node:
    """A node that must ask who the root is."""
    ring = sorted(network.nodes.values(), key=lambda node: abs(node.me.id - topic.key))
    return ring[len(ring) // 2]


@pytest.mark.parametrize("strategy", ["scribe", "sv", "scamp"])
def test_one_tick_at_a_time_however_often_a_node_comes_back(strategy: str) -> None:
    """The tick of a forgotten strategy came to the next one, and was kept up beside that one's own."""
    network = Network(1, 40, timers=True)
    topic = described("ticks", strategy)
    stays, comes = network.sample(2)
    network.subscribe(stays, topic)
    network.run(1)
    for _ in range(20):
        network.subscribe(comes, topic)
        network.run(0.6)
        network.unsubscribe(comes, topic)
        network.run(0.2)
    network.subscribe(comes, topic)
    network.run(30)
    parts = Counter(one.timer.part for one in pending(network, comes))
    assert parts["topic.tick"] == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_timer_comes_back_only_to_the_strategy_that_set_it(strategy: str) -> None:
    """Rounds begin anew with each strategy, so a timer of the one before fitted a round of the next."""
    network = Network(1, 40)
    topic = described("rounds", strategy)
    stays, comes = sorted(network.nodes.values(), key=lambda node: rank(topic.key, node.me.id))[-2:]
    network.subscribe(stays, topic)
    network.run(1)
    network.subscribe(comes, topic)
    network.run(1)
    network.unsubscribe(comes, topic)
    network.run(0.01)
    earlier = pending(network, comes)
    assert earlier
    while comes.strategy(topic.id) is not None:  # gossip takes leave slowly
        network.run(1)
    network.subscribe(comes, topic)
    later = pending(network, comes)
    for one in earlier:
        assert one.timer not in [other.timer for other in later if other is not one]
        assert comes.handle(one, network.simulation.now) == []


@pytest.mark.parametrize(
    ("strategy", "reliability"),
    [
        ("direct", "best_effort"),
        ("scribe", "best_effort"),
        ("scribe", "ordered"),
        ("sv", "best_effort"),
        ("sv", "ordered"),
    ],
)
def test_a_publisher_remembers_the_root(strategy: str, reliability: str) -> None:
    """The first timer made it forget the topic: it asked every two seconds, and publications waited."""
    network = Network(1, 60)
    topic = replace(described("cached", strategy), reliability=reliability)
    (member,) = network.sample(1)
    network.subscribe(member, topic)
    network.run(5)
    publisher = stranger(network, topic)
    asked = questions(network, publisher)
    for _ in range(100):
        network.publish(publisher, topic)
        network.run(0.2)
    assert len([one for one in asked if isinstance(one, RootQuery)]) == 1
    network.run(KEEP - 1)
    assert publisher.strategy(topic.id) is not None
    network.run(5)
    assert publisher.strategy(topic.id) is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_publisher_forgets_topics_that_it_does_not_use(strategy: str) -> None:
    """Who knew the root without asking had no timer, and never forgot."""
    network = Network(1, 20)
    node = network.sample(1)[0]
    for number in range(40):
        topic = described(f"topic {number}", strategy)
        if number % 2:
            network.publish(node, topic)
        else:
            network.simulation.start(node.me, CountMembers(topic))
    network.run(1)
    assert len(node.active_topics()) == 40
    counted = [event for _, event in network.events if isinstance(event, Members)]
    assert len(counted) >= 20
    network.run(2 * KEEP + 5)
    assert all(not one.active_topics() for one in network.nodes.values())


def test_an_empty_hand_over_is_forgotten() -> None:
    """Nothing was set that would have made the node look at the topic again."""
    network = Network(1, 20)
    one, other = network.sample(2)
    topic = described("handed over", "direct")
    network.simulation.start(one.me, Received(other.me, Handover(topic)))
    assert one.active_topics() == (topic,)
    network.run(RendezvousConfig().expire_after + 2 * KEEP)
    assert one.active_topics() == ()
