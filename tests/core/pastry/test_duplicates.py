"""A message whose acknowledgement was lost travels twice, and is delivered once."""

from __future__ import annotations

import pytest

from overlaymq.config import PastryConfig
from overlaymq.core.pastry.recent import Recent
from overlaymq.events import Received, Send
from overlaymq.ids import Id
from overlaymq.messages import LookupRequest, Peer, Routed, RoutedAck
from overlaymq.sim.faults import Faults

from .rings import WatchedRing

PREVIOUS = Peer(Id(1 << 120), "previous")
SOURCE = Peer(Id(1 << 121), "source")


def hand_over(ring: WatchedRing, routed: Routed, previous: Peer = PREVIOUS) -> list[Send]:
    """What the owner of everything does with a message."""
    (node,) = ring.nodes.values()
    effects = node.pastry.handle(Received(previous, routed), ring.simulation.now)
    return [effect for effect in effects if isinstance(effect, Send)]


@pytest.mark.parametrize("seed", [1, 2])
def test_lost_acknowledgements_deliver_nothing_twice(seed: int) -> None:
    faults = Faults()
    ring = WatchedRing(60, seed, faults=faults)
    faults.loss = 0.05
    requests = ring.random_lookups(500, 10)
    ring.run(40)
    assert all(len(ring.deliveries[request]) == 1 for request in requests)
    counters = [node.pastry.snapshot().counters for node in ring.nodes.values()]
    assert sum(counter.duplicates for counter in counters) > 20


def test_a_copy_by_the_same_or_another_hop_is_acknowledged_and_not_delivered() -> None:
    ring = WatchedRing(1)
    first = Routed(Id(5), SOURCE, 7, 1, LookupRequest(0), origin_serial=99)
    again = Routed(Id(5), SOURCE, 8, 1, LookupRequest(0), origin_serial=99)
    other = Peer(Id(1 << 122), "another hop")
    hand_over(ring, first)
    assert [send.message for send in hand_over(ring, again)] == [RoutedAck(8)]
    assert [send.message for send in hand_over(ring, again, other)] == [RoutedAck(8)]
    assert len(ring.deliveries[0]) == 1


def test_messages_without_a_number_or_with_another_are_no_copies() -> None:
    ring = WatchedRing(1)
    for number in (0, 0, 98, 99):
        hand_over(ring, Routed(Id(5), SOURCE, 7, 1, LookupRequest(0), origin_serial=number))
    assert len(ring.deliveries[0]) == 4


def test_a_restarted_source_is_not_taken_for_its_old_self() -> None:
    ring = WatchedRing(20)
    old = ring.peers()[3]
    for incarnation in (1, 2, 3):
        ring.crash(ring.nodes[old.id].pastry.me)
        node = ring.join(Peer(old.id, old.address, incarnation), ring.peers()[9])
        assert ring.settle()
        request = ring.look_up(ring.ids()[12], node)
        ring.run(3)
        assert len(ring.deliveries[request]) == 1


def test_the_memory_is_bounded_and_keeps_the_newest() -> None:
    ring = WatchedRing(1, config=PastryConfig(recent_messages=10))
    (node,) = ring.nodes.values()
    for number in range(1, 100):
        hand_over(ring, Routed(Id(5), SOURCE, 7, 1, LookupRequest(0), origin_serial=number))
    assert len(node.pastry.state.forwarding._accepted) == 10
    assert len(node.pastry.state.forwarding._delivered) == 10
    recent: Recent[int] = Recent(2)
    assert [recent.seen(key) for key in (1, 2, 1, 3, 1, 3)] == [
        False, False, True, False, False, True,
    ]  # fmt: skip
