"""The rendezvous of a gossip topic comes and goes; what it knows stays on the nodes around the key."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from overlaymq.config import RendezvousConfig
from overlaymq.core.dissemination.base import Standing
from overlaymq.core.dissemination.conformance_bench import TOPIC as TOPIC_OF_BENCH
from overlaymq.core.dissemination.conformance_bench import Bench, Seat
from overlaymq.core.dissemination.scamp import Scamp
from overlaymq.events import Depart, Leave, Ready, Received, Sent, Subscribe
from overlaymq.ids import RING, Id, distance, rank
from overlaymq.messages import Batch, Peer
from overlaymq.sim.faults import Faults
from tests.core.network import Network, described

if TYPE_CHECKING:
    from overlaymq.core.node import Node

TOPIC = described("met", "scamp")


def met(seed: int) -> tuple[Network, Node, list[Node], list[Node]]:
    """A network, the rendezvous, the members, and those that are neither."""
    network = Network(seed, 60, faults=Faults(link_break=0.1), timers=True)
    rendezvous, *rest = sorted(network.nodes.values(), key=lambda node: rank(TOPIC.key, node.me.id))
    members, rest = rest[-6:], rest[:-6]  # far from the key, so that none is told of its owner
    for node in members:
        network.subscribe(node, TOPIC)
        network.run(0.3)
    network.run(3)
    return network, rendezvous, members, rest


def gone(network: Network, node: Node, leaves: bool) -> None:
    if leaves:
        network.simulation.start(node.me, Depart())
        network.run(0.5)
        network.simulation.start(node.me, Leave())
        network.run(0.02)
    network.crash(node)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_published_after_the_rendezvous_has_gone_reaches_all(
    seed: int, leaves: bool
) -> None:
    """The next owner knew nobody, and its publisher was told that its batch had reached all there are."""
    network, rendezvous, members, (publisher, *_) = met(seed)
    gone(network, rendezvous, leaves)
    network.run(3)
    number = network.publish(publisher, TOPIC)
    network.run(30)
    assert [network.delivered[node.me.id, TOPIC.id, number] for node in members] == [1] * 6
    receipts = [event for id_, event in network.events if id_ == publisher.me.id]
    assert [event.links for event in receipts if isinstance(event, Sent)] == [1]


@pytest.mark.parametrize("leaves", [True, False])
def test_a_newcomer_finds_the_others_after_the_rendezvous_has_gone(leaves: bool) -> None:
    """It was told that it is the only member, was ready, and its history was empty."""
    network, rendezvous, members, (newcomer, *_) = met(3)
    old = [network.publish(members[0], TOPIC) for _ in range(3)]
    network.run(1)
    gone(network, rendezvous, leaves)
    network.run(1)
    network.simulation.start(newcomer.me, Subscribe(TOPIC, 3))
    ready = (newcomer.me.id, Ready(TOPIC.id))
    until = network.simulation.now + 40
    network.simulation.run_while(lambda: ready not in network.events, until)
    number = network.publish(members[1], TOPIC)
    network.run(3)
    got = [network.delivered[newcomer.me.id, TOPIC.id, one] for one in (*old, number)]
    assert got == [1] * 4


def test_who_comes_close_to_the_key_gets_a_copy_and_nobody_keeps_an_empty_one() -> None:
    network, rendezvous, members, rest = met(4)
    for node in (rendezvous, *rest[:2]):
        gone(network, node, leaves=False)
    network.run(60)  # the members refresh, and learn who the owner is
    assert all(node.strategy(TOPIC.id) for node in rest[2:6])
    for node in members:
        network.unsubscribe(node, TOPIC)
    times = RendezvousConfig()
    network.run(times.expire_after + 2 * times.refresh_every)
    assert [node.me for node in network.nodes.values() if node.strategy(TOPIC.id)] == []


def test_fifo_knows_after_a_second_subscription_that_it_is_on_a_mesh() -> None:
    """What had overtaken the first message began the stream, and that one was dropped as late. A rendezvous
    keeps the topic while it is not subscribed."""
    network = Network(1, 24, timers=True)
    topic = msgspec.structs.replace(TOPIC, reliability="fifo")
    rendezvous = network.root(topic)
    other = next(node for node in network.nodes.values() if node is not rendezvous)
    network.subscribe(other, topic)
    network.subscribe(rendezvous, topic)
    network.run(2)
    network.unsubscribe(rendezvous, topic)
    network.run(2)
    network.subscribe(rendezvous, topic)
    network.run(2)
    for number in (8, 7):
        batch = Batch(topic.id, Id(7), 1, number, 1, b"", hop=1)
        network.simulation.start(rendezvous.me, Received(other.me, batch))
    network.run(2)
    got = [network.delivered[rendezvous.me.id, topic.id, number] for number in (7, 8)]
    assert got == [1, 1]


def test_a_rendezvous_that_is_too_far_to_be_one_looks_for_its_successor() -> None:
    """It stayed one, beside the true one, for ever. Reference: test_strategies, a root that is too far."""
    bench = Bench(Scamp, Random(1))
    former = bench.owner
    first, second, late, publisher = bench.far[:4]
    bench.subscribe(first, second)
    bench.wait(1)
    away = distance(TOPIC_OF_BENCH, former.peer.id)
    for part in range(2, 7):  # they come at once, and push it out of sight of the key
        closer = Peer(Id((TOPIC_OF_BENCH + away // part) % RING), f"closer {part}")
        bench.seats[closer.id] = Seat(closer)
    strategy = bench._strategy(former)
    bench._perform(former, strategy.root_changed(None, bench.now))
    bench.wait(1)
    bench.subscribe(late)
    bench.wait(5)
    names = [bench.publish(seat) for seat in (first, late, publisher)]
    bench.wait(5)
    assert all(seat.got[name] for seat in (first, second, late) for name in names)
    assert strategy.standing == Standing("none")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("at_home", [True, False])
def test_who_is_left_alone_knows_it_at_once_and_takes_what_it_is_handed(
    seed: int, at_home: bool
) -> None:
    """It asked one that had just left to introduce it, and waited: its publisher's receipts waited too, and
    whoever subscribed meanwhile was given what was published before."""
    network = Network(seed, 24, timers=True)
    nodes = sorted(network.nodes.values(), key=lambda node: rank(TOPIC.key, node.me.id))
    leaves, publisher = nodes[-2:]
    stays = nodes[0 if at_home else -3]
    for node in (stays, leaves):
        network.subscribe(node, TOPIC)
        network.run(3)
    network.unsubscribe(leaves, TOPIC)
    network.run(0.5)
    network.publish(publisher, TOPIC)
    network.run(0.5)
    receipts = [event for id_, event in network.events if id_ == publisher.me.id]
    assert [event.links for event in receipts if isinstance(event, Sent)] == [1]
