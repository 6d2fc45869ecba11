"""Leases: no key is answered for twice, even while live nodes are taken for dead."""

from __future__ import annotations

from math import nextafter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlaymq.events import PeerFailed, Received, Send, SetTimer, Timer, TimerFired
from overlaymq.ids import RING, Id
from overlaymq.messages import Heartbeat, Lease
from overlaymq.sim.faults import Faults
from overlaymq.sim.ring import midpoint

from .rings import WatchedRing

if TYPE_CHECKING:
    from overlaymq.messages import Peer

LEASE = 10.0


def owners(ring: WatchedRing, key: Id) -> list[Id]:
    """Who would deliver a message for the key now, each by its own clock."""
    assert ring.simulation.faults is not None
    clocks = ring.simulation.faults.clocks
    found = []
    for id_ in ring.ids():
        pastry = ring.nodes[id_].pastry
        clock = clocks.get(pastry.me.address)
        now = ring.simulation.now if clock is None else clock.read(ring.simulation.now)
        if pastry.owns(key, now):
            found.append(id_)
    return found


def keys_of(ring: WatchedRing, peer: Peer) -> list[Id]:
    """Keys on either side of a node: next to it, and just inside its borders."""
    ids = ring.ids()
    at = ids.index(peer.id)
    left, right = ids[at - 1], ids[(at + 1) % len(ids)]
    borders = [midpoint(left, peer.id), midpoint(peer.id, right)]
    inside = [Id((borders[0] + 2) % RING), Id((borders[1] - 2) % RING)]
    return [peer.id, Id((peer.id - 1) % RING), Id((peer.id + 1) % RING), *inside]


@pytest.mark.parametrize(("rate", "seed"), [(1.0, 1), (1.0, 2), (0.95, 3), (1.05, 4)])
def test_a_node_cut_off_stops_before_its_keys_are_taken(rate: float, seed: int) -> None:
    """A live node that nobody hears is declared dead; at no time do two nodes answer for its keys, until
    it has found out that it is alone, a ring of its own. Its clock may be 5 % slow or fast.

    Reference: protocols.md 1.7 (FreePastry's leases)
    """
    faults = Faults()
    ring = WatchedRing(40, seed, faults=faults)
    ring.run(30)
    victim = ring.peers()[seed * 7]
    faults.skew(victim.address, rate)
    ring.run(20)
    keys = keys_of(ring, victim)
    assert all(owners(ring, key) == [victim.id] for key in keys)
    faults.part([[victim.address]])
    taken = 0
    while ring.nodes[victim.id].pastry.leaves():
        ring.run(0.1)
        found = [owners(ring, key) for key in keys]
        if ring.nodes[victim.id].pastry.leaves():
            assert max(len(ids) for ids in found) <= 1
            taken += any(ids not in ([], [victim.id]) for ids in found)
    assert taken
    ring.run(40)
    assert all(len(owners(ring, key)) == 2 for key in keys)


@given(
    st.integers(0, 39), st.integers(0, 39), st.lists(st.floats(0.1, 6.0), min_size=1, max_size=6)
)
@settings(max_examples=12)
def test_cuts_of_any_length_leave_at_most_one_owner(
    first: int, second: int, cuts: list[float]
) -> None:
    """Neighbours lose each other for a while, one way and then the other; keys never have two owners."""
    faults = Faults()
    ring = WatchedRing(40, 5, faults=faults)
    peers = ring.peers()
    one, other = peers[first], peers[second]
    keys = [key for peer in (one, other) for key in keys_of(ring, peer)]
    everybody = [peer.address for peer in peers]
    for number, seconds in enumerate(cuts):
        if number % 2:
            faults.cut([one.address], everybody)
        else:
            faults.cut(everybody, [other.address])
        for _ in range(round(seconds * 2)):
            ring.run(0.5)
            assert all(len(owners(ring, key)) <= 1 for key in keys)
        faults.heal()
        ring.run(1.0)
        assert all(len(owners(ring, key)) <= 1 for key in keys)
    ring.run(60)
    ring.assert_exact()
    assert all(len(owners(ring, key)) == 1 for key in keys)


def test_a_neighbour_keeps_whom_it_granted_a_lease() -> None:
    """A crashed node stays in its neighbours' leaf sets until its lease is over, and no longer than that
    and a last heartbeat's detection."""
    ring = WatchedRing(40)
    ring.run(30)
    peers = ring.peers()
    victim, neighbour = peers[10], ring.nodes[peers[11].id].pastry
    asked = ring.simulation.now
    while neighbour.state.leases.promised(victim.id) < LEASE - 0.2:
        ring.run(0.05)
        assert ring.simulation.now < asked + 6
    ring.crash(victim)
    for peer in ring.peers():
        ring.simulation.start(peer, PeerFailed(victim, "connection reset"))
    ring.run(8)
    assert victim.id in neighbour.kept
    ring.run(3)
    assert victim.id not in neighbour.kept


def test_no_lease_for_a_node_with_another_in_between() -> None:
    """Whoever is asked by a node that is not next to it probes it instead."""
    ring = WatchedRing(40)
    peers = ring.peers()
    me = ring.nodes[peers[10].id].pastry
    now = ring.simulation.now

    def answers(peer: Peer) -> set[str]:
        effects = me.handle(Received(peer, Heartbeat(now)), now)
        return {type(effect.message).__name__ for effect in effects if isinstance(effect, Send)}

    assert answers(peers[11]) == answers(peers[9]) == {"Lease"}
    assert answers(peers[12]) == {"LeafProbe"}


def test_a_lease_from_the_past_or_the_future_is_no_lease() -> None:
    ring = WatchedRing(40)
    peers = ring.peers()
    host = ring.simulation.hosts[peers[10].address]
    now = ring.simulation.now
    for asked_at in (now - LEASE - 1, now + 1, float("inf"), float("nan")):
        ring.simulation.feed(host, Received(peers[11], Lease(asked_at)))
    assert ring.drops["pastry: a lease that nobody asked for"] == 4


def test_promises_are_bounded() -> None:
    """Ever closer neighbours that ask and vanish get only so many leases."""
    ring = WatchedRing(20)
    peers = ring.peers()
    node = ring.nodes[peers[3].id].pastry
    host = ring.simulation.hosts[peers[3].address]
    for step in range(200, 100, -1):
        liar = type(peers[3])(Id((peers[3].id + step) % RING), f"liar-{step}")
        node.state.leaves.add(liar)
        ring.simulation.feed(host, Received(liar, Heartbeat(ring.simulation.now)))
    assert ring.drops["pastry: too many leases granted"] > 0


def test_a_newcomers_neighbours_answer_again_as_soon_as_it_is_active() -> None:
    """Whoever asked a joiner too early for a lease does not wait for the next heartbeat."""
    ring = WatchedRing(1, faults=Faults())
    founder = ring.peers()[0]
    newcomer = ring.join(ring.new_peer(), founder)
    ring.simulation.run_while(lambda: not newcomer.pastry.active)
    ring.run(0.2)
    keys = [Id(number * RING // 7) for number in range(7)]
    assert all(len(owners(ring, key)) == 1 for key in keys)


def test_two_nodes_part_and_each_has_all_keys_then() -> None:
    faults = Faults()
    ring = WatchedRing(2, faults=faults)
    ring.run(10)
    one, other = ring.peers()
    keys = [Id(number * RING // 7) for number in range(7)]
    assert all(len(owners(ring, key)) == 1 for key in keys)
    faults.part([[one.address]])
    ring.run(30)
    assert all(owners(ring, key) == [one.id, other.id] for key in keys)
    faults.heal()
    ring.run(200)
    assert all(len(owners(ring, key)) == 1 for key in keys)


def test_a_promise_that_lasts_a_rounding_error_longer_does_not_stop_time() -> None:
    """The timer of a probe waits for the rest of a lease; what rounding leaves of it is waited for once, by a
    time that the clock can tell (scenario clock-skew, seed 1).

    Reference: protocols.md 1.7 (FreePastry's leases)
    """
    ring = WatchedRing(20)
    ring.run(30)
    node = ring.nodes[ring.ids()[0]]
    state = node.pastry.state
    leaf = state.leaves.right
    assert leaf is not None
    ring.crash(leaf)
    state.liveness.probe(leaf)
    probing = state.liveness._probing[leaf.id]
    probing.tries = state.config.probe_retries + 1
    until = state.leases._promises[leaf.id]
    early = nextafter(until, 0.0)
    (effect,) = node.handle(TimerFired(Timer("pastry.probe", leaf.id, probing.round)), early)
    assert isinstance(effect, SetTimer)
    assert early + effect.delay > until
