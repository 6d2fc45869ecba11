"""Reach: who is a neighbour, where more nodes are gone than a leaf set survives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.config import PastryConfig
from overlaymq.core.pastry import Pastry
from overlaymq.core.pastry.reach import ALL_AROUND, search_seconds
from overlaymq.core.pastry.routing import Way, next_hop
from overlaymq.events import Received, Send
from overlaymq.ids import RING, Id, clockwise
from overlaymq.messages import LeafProbe, LeafProbeReply, Peer
from overlaymq.sim.faults import Faults

from .rings import WatchedRing
from .test_routing import Quiet

IDS = st.integers(0, RING - 1).map(Id)
SPANS = st.integers(0, ALL_AROUND)
DETECTED = 17.0
"""A lease, the probes of who held it, and those of the others, told by whoever was first."""


def alone(me: int = 1000, size: int = 4) -> Pastry:
    """A node that reaches no farther than its own id."""
    return Pastry(Peer(Id(me), "me"), PastryConfig(leaf_set_size=size), Random(1), Quiet())


def peer(id_: int) -> Peer:
    return Peer(Id(id_), f"at-{id_}")


def within(key: int, centre: int, before: int, after: int) -> bool:
    return (key - centre) % RING <= after or (centre - key) % RING <= before


def assert_sound(ring: WatchedRing, sides: list[set[Id]]) -> None:
    """Whoever is active within a node's reach, and on its side, is in its leaf set."""
    for side in sides:
        active = [ring.nodes[id_].pastry for id_ in sorted(side) if ring.nodes[id_].pastry.active]
        for pastry in active:
            before, after = pastry.state.reach.known()
            for other in active:
                if other is not pastry and within(other.me.id, pastry.me.id, before, after):
                    assert other.me.id in pastry.kept


# --- the rule --------------------------------------------------------------------------------------


@given(IDS, SPANS, SPANS, IDS, SPANS, SPANS, st.lists(IDS, max_size=8))
def test_two_reaches_that_touch_are_one_and_others_are_not(
    me: Id, before: int, after: int, other: Id, its_before: int, its_after: int, keys: list[Id]
) -> None:
    """What two nodes know together is what either knows, and only if nothing is between.

    Reference: reach.py (no published rule: Pastry, Middleware 2001, ends at l/2 - 1 adjacent failures)
    """
    node = alone(me)
    reach = node.state.reach
    reach._before, reach._after = before, after
    joined = reach._joined((other - me) % RING, its_before, its_after)
    ends = [me - before, me + after, other - its_before, other + its_after]
    if joined is None:
        assert not any(
            within(end + step, me, before, after) and within(end, other, its_before, its_after)
            for end in ends
            for step in (-1, 0, 1)
        )
        return
    for key in [*keys, *(end + step for end in ends for step in (-1, 0, 1))]:
        known = within(key, me, before, after) or within(key, other, its_before, its_after)
        assert within(key, me, *joined) == known or sum(joined) >= ALL_AROUND


@given(me=IDS, ids=st.lists(IDS, min_size=10, max_size=40, unique=True), key=IDS)
def test_a_full_set_covers_what_lies_between_its_extremes(me: Id, ids: list[Id], key: Id) -> None:
    """Reference: protocols.md 1.2 (the leaf set's range)"""
    node = alone(me, 8)
    node.state.reach.found_ring()
    for id_ in ids:
        node.state.add_leaf(peer(id_))
    leaves = node.state.leaves
    low, high = leaves.ring[0].id, leaves.ring[-1].id
    between = clockwise(low, key) <= clockwise(low, high)
    assert node.state.reach.covers(key) == between


def test_a_leaf_beyond_the_reach_is_no_neighbour() -> None:
    """It is asked for nothing, granted nothing, and keys on its side wait.

    Reference: reach.py; protocols.md 1.5 (repair works unless l/2 adjacent nodes failed together)
    """
    node = alone()
    state = node.state
    state.active = True
    for id_ in (1100, 1200, 900, 800):
        state.add_leaf(peer(id_))
    state.reach._before, state.reach._after = 200, 50
    assert state.reach.left == peer(900)
    assert state.reach.right is None
    assert state.reach.beside(Id(900))
    assert not state.reach.beside(Id(1100))
    assert node.owner(Id(960)) is node.me
    assert node.owner(Id(1040)) is None
    assert next_hop(state, Id(1040)) == (Way.HOLD, node.me)


def test_a_word_that_does_not_touch_the_reach_adds_nothing() -> None:
    """Reference: reach.py"""
    node = alone()
    state = node.state
    far = peer(5000)
    state.add_leaf(far)
    state.reach.told(far, 3999, 100, ())
    assert state.reach.known() == (0, 5100 - 1000)
    other = alone()
    other.state.add_leaf(far)
    other.state.reach.told(far, 3998, 100, ())
    assert other.state.reach.known() == (0, 0)


def test_the_reach_ends_before_who_is_named_and_not_heard() -> None:
    """Until it answers or is verified dead; and where the leaf set has no room for it, at its place.

    Reference: reach.py; MSPastry DSN 2004 (only nodes heard from directly are added)
    """
    node = alone(size=8)
    state = node.state
    state.active = True
    near, dead, far = peer(1100), peer(1200), peer(1300)
    state.add_leaf(far)
    state.liveness.probe(near)
    state.liveness.probe(dead)
    state.reach.told(far, 300, 500, (near, dead))
    assert state.reach.known() == (0, 99)
    state.liveness._probing.pop(near.id)
    state.add_leaf(near)
    assert state.reach.known() == (0, 199)
    assert state.reach.right == near
    del state.liveness._probing[dead.id]
    state.liveness.died(dead)
    assert state.reach.known() == (0, 800)
    state.reach.told(far, 300, 900, (peer(1900),))
    assert state.reach.known() == (0, 899), "nobody asks that one"


def test_a_full_leaf_set_reaches_to_its_extremes() -> None:
    """Whoever is beyond may have been dropped; deaths within take nothing away.

    Reference: reach.py; Scribe JSAC II (the leaf set)
    """
    node = alone()
    state = node.state
    state.active = True
    state.reach.found_ring()
    assert state.reach.whole
    for id_ in (1100, 1200, 900):
        state.add_leaf(peer(id_))
    assert state.reach.whole
    state.add_leaf(peer(700))
    assert state.reach.known() == (300, 200)
    for id_ in (1200, 1100):
        state.leaves.remove(Id(id_))
    assert state.reach.known() == (300, 200)
    assert state.reach.right is None


@pytest.mark.parametrize(("active", "asked"), [(True, {1200}), (False, set())])
def test_who_is_within_a_members_reach_and_not_named_by_it_is_verified(
    active: bool, asked: set[int]
) -> None:
    """Words of a death miss some leaves, and are forgotten; a leaf set that lacks the dead says it for ever.
    A joiner's lacks who has not answered yet.

    Reference: reach.py (every active node within the reach is in the leaf set, or was verified dead)
    """
    node = alone(size=8)
    state = node.state
    state.active = True
    for id_ in (900, 1100, 1200, 1300):
        state.add_leaf(peer(id_))
    reply = LeafProbeReply((peer(900), state.me), (), active, Id(300), Id(150))
    effects = node.handle(Received(peer(1100), reply), 100.0)
    probed = [e.peer.id for e in effects if isinstance(e, Send) and type(e.message) is LeafProbe]
    assert set(probed) == asked


# --- rings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 9, 16])
def test_a_small_ring_is_known_whole(count: int) -> None:
    """Reference: protocols.md 1.1 (fewer than l + 1 nodes)"""
    ring = WatchedRing(count)
    assert all(node.pastry.state.reach.whole for node in ring.nodes.values())


@pytest.mark.parametrize(
    ("gone", "island", "seed"), [(8, 0, 1), (15, 0, 2), (20, 3, 3), (12, 5, 4), (16, 0, 5)]
)
def test_nobody_within_reach_is_unknown_and_gaps_close_in_time(
    gone: int, island: int, seed: int
) -> None:
    """Adjacent nodes are cut off at once, or two groups with some left between. At no time does a node's
    reach hold an active node of its side that is not in its leaf set. The gaps are closed in stated time: at
    first contact if the nodes at their ends knew all of it, else after a search.

    Reference: reach.py; issue 3, bar 4 (c)
    """
    faults = Faults()
    ring = WatchedRing(90, seed, faults=faults)
    ring.run(30)
    peers = ring.peers()
    cut = peers[10 : 10 + gone]
    if island:
        cut += peers[10 + gone + island : 10 + 2 * gone + island]
    sides = [{peer.id for peer in cut}, {peer.id for peer in peers} - {peer.id for peer in cut}]
    faults.part([[peer.address for peer in cut]])
    large = gone >= ring.config.leaf_set_size
    limit = DETECTED + (search_seconds(ring.config) + 2 if large else 0)
    for _ in range(round(limit / 0.25)):
        ring.run(0.25)
        assert_sound(ring, sides)
    assert not any(ring.nodes[id_].pastry.state.reach.torn for id_ in sides[1])
    ring.run(20)
    assert not any(ring.nodes[id_].pastry.state.reach.torn for id_ in sides[0])
    faults.heal()
    ring.run(240)
    ring.assert_exact()


@pytest.mark.parametrize("seed", range(3))
def test_who_joins_in_a_gap_is_not_active_before_it_knows_who_is_beyond(seed: int) -> None:
    """Reference: protocols.md 1.7 (no node is active before its leaf set has confirmed it)"""
    ring = WatchedRing(60, seed)
    ring.run(30)
    peers = ring.peers()
    for victim in peers[10:30]:
        ring.crash(victim)
    ring.run(16)
    newcomer = Peer(Id(peers[20].id + 5), "newcomer")
    ring.join(newcomer, peers[40])
    for _ in range(160):
        ring.run(0.25)
        assert_sound(ring, [set(ring.ids())])
        reach = ring.nodes[newcomer.id].pastry.state.reach
        assert not (ring.nodes[newcomer.id].pastry.active and reach.torn)
    ring.assert_exact()
