"""Arrival: alone, together, through dead seeds, with a copied key, and back again."""

from __future__ import annotations

import sys
from math import inf

import pytest

from overlaymq.core.pastry.admission import COPIED_KEY
from overlaymq.core.pastry.join import Phase
from overlaymq.events import Join, Measured, Received
from overlaymq.ids import Id, rank
from overlaymq.messages import JoinRefused, LookupRequest, Peer
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import PlaneDelay

from .rings import WatchedRing


def test_without_seeds_a_node_founds_a_ring_and_owns_every_key() -> None:
    ring = WatchedRing(1)
    (node,) = ring.nodes.values()
    assert node.pastry.owner(Id(12345)) is node.pastry.me
    ring.assert_lookups(10)


@pytest.mark.parametrize("count", [2, 3, 9, 16, 17, 18, 19, 40])
def test_rings_of_every_size_are_exact(count: int) -> None:
    ring = WatchedRing(count)
    ring.run(5)
    ring.assert_exact()
    ring.assert_lookups(50)
    assert not ring.drops


@pytest.mark.parametrize("seed", range(5))
def test_concurrent_joins_through_one_seed(seed: int) -> None:
    ring = WatchedRing(1, seed)
    (founder,) = ring.peers()
    for _ in range(60):
        ring.join(ring.new_peer(), founder)
    assert ring.settle(30)
    ring.run(5)
    ring.assert_exact()
    ring.assert_lookups()


def test_neighbours_that_join_at_once_find_each_other() -> None:
    ring = WatchedRing(30)
    base = ring.ids()[3]
    seed = ring.peers()[20]
    for step in range(1, 21):
        ring.join(Peer(Id(base + step), f"adjacent-{step}"), seed)
    assert ring.settle(30)
    ring.run(2)
    ring.assert_exact()


def test_no_key_has_two_owners_while_nodes_join() -> None:
    """Nobody but an active node claims a key, two never do, and each lookup ends once."""
    ring = WatchedRing(40)
    sent: list[tuple[int, list[Id]]] = []
    for _ in range(40):
        active = sorted(id_ for id_, node in ring.nodes.items() if node.pastry.active)
        ring.grow(1, spacing=0)
        sent += [(request, active) for request in ring.random_lookups(5, 0.1)]
        for request, _ in sent[-5:]:
            key = ring.keys[request]
            claims = [n for n in ring.nodes.values() if n.pastry.owner(key) is n.pastry.me]
            assert len([node for node in claims if node.pastry.active]) <= 1
    ring.run(10)
    for request, active in sent:
        key = ring.keys[request]
        (end,) = ring.deliveries[request]
        assert rank(key, end.at.id) <= rank(key, ring.owner(key, active))


def test_a_lossy_network_delays_joins_but_prevents_none() -> None:
    faults = Faults(loss=0.05)
    ring = WatchedRing(1, faults=faults)
    ring.grow(60, spacing=0.2)
    assert ring.settle(200)
    faults.loss = 0.0
    ring.run(120)
    ring.assert_exact()


def test_a_dead_seed_is_passed_over() -> None:
    ring = WatchedRing(20)
    dead, alive = ring.peers()[:2]
    ring.crash(dead)
    ring.run(30)
    ring.join(ring.new_peer(), dead, alive)
    assert ring.settle(30)
    ring.run(2)
    ring.assert_exact()


def test_a_seed_that_has_not_joined_itself_refuses_for_now() -> None:
    ring = WatchedRing(5)
    slow, new = ring.new_peer(), Peer(Id(7), "new")
    ring.join(slow, Peer(Id(99), "nobody"))
    ring.join(new, slow)
    ring.run(5)
    assert not ring.nodes[new.id].pastry.active
    assert not ring.rejected


def test_a_message_for_a_joiner_is_held_until_it_is_active() -> None:
    ring = WatchedRing(30)
    new = ring.new_peer()
    node = ring.join(new, ring.peers()[0])
    request = ring.look_up(new.id, node)
    assert node.pastry.snapshot().held == 1
    assert request not in ring.deliveries
    ring.run(5)
    (end,) = ring.deliveries[request]
    assert end.at == new


def test_a_copied_key_is_refused_and_the_original_stays() -> None:
    ring = WatchedRing(40)
    original = ring.peers()[7]
    node = ring.nodes[original.id]
    ring.join(Peer(original.id, "thief", 5), ring.peers()[30])
    ring.run(20)
    assert ring.rejected == ["thief"]
    ring.nodes[original.id] = node
    ring.assert_exact()
    ring.assert_lookups()
    assert node.pastry.state.leaves.me.address != "thief"


def test_a_copied_key_that_asks_the_original_itself_is_refused() -> None:
    ring = WatchedRing(2)
    original, other = ring.peers()
    node = ring.nodes[original.id]
    ring.join(Peer(original.id, "thief", 5), other)
    ring.run(20)
    assert ring.rejected == ["thief"]
    ring.nodes[original.id] = node
    ring.assert_exact()


def test_a_refusal_names_the_reason() -> None:
    ring = WatchedRing(3)
    joiner = ring.join(ring.new_peer(), Peer(Id(1), "silent"))
    joiner.pastry.state.joining.phase = Phase.REQUESTED
    refusal = JoinRefused(COPIED_KEY, fatal=True)
    ring.simulation.start(joiner.pastry.me, Received(Peer(Id(1), "silent"), refusal))
    assert joiner.pastry.snapshot().phase == "refused"


@pytest.mark.parametrize("same_address", [True, False])
@pytest.mark.parametrize("after", [0.5, 60.0])
def test_a_crashed_node_returns_with_its_id(same_address: bool, after: float) -> None:
    ring = WatchedRing(40)
    gone = ring.peers()[7]
    ring.crash(gone)
    ring.run(after)
    address = gone.address if same_address else "moved"
    back = Peer(gone.id, address, gone.incarnation + 1)
    ring.join(back, ring.peers()[30])
    assert ring.settle(60)
    ring.run(5)
    ring.assert_exact()
    ring.assert_lookups()
    for node in ring.nodes.values():
        known = node.pastry.state.leaves.get(gone.id)
        assert known in (None, back)


def test_joining_twice_changes_nothing() -> None:
    ring = WatchedRing(3)
    peer = ring.peers()[0]
    ring.simulation.start(peer, Join((ring.peers()[1],)))
    ring.run(5)
    ring.assert_exact()


def test_a_joiner_enters_through_a_near_node() -> None:
    """The nearest-seed search ends within the nearest tenth of the ring."""
    network = PlaneDelay()
    ring = WatchedRing(80, network=network)
    for _ in range(5):
        new = ring.new_peer()
        node = ring.join(new, ring.peers()[0])
        ring.run(5)
        near = node.pastry.state.joining._near
        assert near is not None
        distances = sorted(
            network.delay(new.address, p.address) for p in ring.peers() if p.id != new.id
        )
        assert network.delay(new.address, near.address) <= distances[len(distances) // 5]


def test_an_arrival_improves_the_tables_of_those_it_is_near_to() -> None:
    """After the joins, and before any periodic exchange, nearly every entry is the nearest node that fits:
    an arrival tells its neighbourhood how far it is.

    Reference: Pastry Middleware 2001 by way of protocols.md 1.12 (P4: fewer than one entry a level is not)
    """
    network = PlaneDelay()
    ring = WatchedRing(200, network=network)
    ring.run(5)
    missed = 0
    for node in ring.nodes.values():
        table, me = node.pastry.state.table, node.pastry.me.address
        best: dict[int, float] = {}
        for peer in ring.peers():
            if peer.id != table.me and table.slot(peer.id) < 16:
                slot = table.slot(peer.id)
                best[slot] = min(best.get(slot, inf), network.delay(me, peer.address))
        for slot, distance in best.items():
            entry = table.at(0, slot)
            missed += entry is None or network.delay(me, entry.address) > 1.000001 * distance
    assert missed < 0.5 * len(ring.nodes)


def test_what_is_routed_before_the_join_waits_for_it() -> None:
    ring = WatchedRing(5)
    node = ring.join(ring.new_peer())
    assert node.pastry.active
    effects = node.pastry.route(Id(5), LookupRequest(0), ring.simulation.now)
    assert effects == []


def test_a_join_leaves_little_behind() -> None:
    """The round trips of nodes that were measured and not taken, and room for questions long answered."""
    ring = WatchedRing(80)
    state = ring.nodes[ring.ids()[0]].pastry.state
    entry = next(iter(state.table.peers))
    rival = Peer(Id(entry.id ^ 1), "rival")
    for peer, kept in ((entry, True), (rival, False)):
        state.measure(peer)
        ring.simulation.start(state.me, Measured(peer, 9.0))
        assert state.forwarding.knows(peer.id) == kept
    assert (
        sys.getsizeof(state.measuring)
        == sys.getsizeof(state.liveness._probing)
        == sys.getsizeof({})
    )
