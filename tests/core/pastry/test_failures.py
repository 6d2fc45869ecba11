"""Failures: silent and loud, one and many, graceful, false, and of the owner while it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overlaymq.events import PeerFailed, Received, Send
from overlaymq.ids import Id, shared_digits
from overlaymq.messages import Departing, LeafProbe, LeafProbeReply, Peer, SlotRequest
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import ConstantDelay, PlaneDelay
from overlaymq.sim.ring import midpoint

from .rings import WatchedRing

if TYPE_CHECKING:
    from overlaymq.sim.engine import Host


def test_a_silent_failure_is_noticed_and_repaired_without_traffic() -> None:
    ring = WatchedRing(50)
    ring.crash(ring.peers()[10])
    ring.run(15)
    ring.assert_exact()
    ring.assert_lookups()


@pytest.mark.parametrize("seed", range(5))
def test_seven_adjacent_failures_at_once_are_survived(seed: int) -> None:
    """l/2 - 1 is what the papers guarantee."""
    ring = WatchedRing(60, seed)
    for peer in ring.peers()[20:27]:
        ring.crash(peer)
    requests = ring.random_lookups(200, 20)
    ring.run(25)
    ring.assert_exact()
    ring.assert_right(requests)


@pytest.mark.parametrize("seed", range(5))
def test_a_lost_side_of_the_leaf_set_is_found_again_through_the_table(seed: int) -> None:
    """More than l/2 adjacent failures: some lookups are given up, with a count, but none is wrong."""
    ring = WatchedRing(60, seed)
    for peer in ring.peers()[20:34]:
        ring.crash(peer)
    requests = ring.random_lookups(200, 20)
    ring.run(40)
    ring.assert_exact()
    ring.assert_none_wrong(requests)
    lost = [request for request in requests if request not in ring.deliveries]
    assert len(lost) == sum(ring.drops.values())
    ring.assert_lookups(wait=20)


@pytest.mark.parametrize("side", [1 << 122, -(1 << 122)])
def test_a_joiner_that_finds_a_death_out_tells_of_it(side: int) -> None:
    """Its word makes the leaf quiet that finds it out at the same time, so it has to tell the others itself.

    Reference: MSPastry DSN 2004 (who finds a failure out tells its leaf set)
    """
    ring = WatchedRing(40, 5)
    ring.run(20)
    peers = ring.peers()
    ring.crash(peers[20])
    ring.run(0.5)
    ring.join(Peer(Id(peers[20].id + side), "newcomer"), peers[5])
    ring.run(35)
    ring.assert_exact()


def test_half_of_the_ring_fails_and_the_rest_heals() -> None:
    ring = WatchedRing(100)
    victims = ring.peers()
    ring.random.shuffle(victims)
    for peer in victims[:50]:
        ring.crash(peer)
    requests = ring.random_lookups(300, 20)
    ring.run(60)
    ring.assert_exact()
    ring.assert_none_wrong(requests)
    # Stale table entries are found by use, each after its first deadline.
    ring.assert_lookups(wait=5)


def test_a_ring_that_shrinks_below_the_leaf_set_knows_it_is_whole() -> None:
    ring = WatchedRing(30)
    for peer in ring.peers()[::2] + ring.peers()[1::4]:
        ring.crash(peer)
    ring.run(60)
    ring.assert_exact()
    ring.assert_lookups(50)


def test_loud_failures_are_verified_and_repaired_within_seconds() -> None:
    ring = WatchedRing(50, faults=Faults(link_break=0.01))
    victim = ring.peers()[10]
    ring.crash(victim)
    for peer in ring.peers():
        ring.simulation.start(peer, PeerFailed(victim, "connection refused", gone=True))
    ring.run(2.5)
    ring.assert_exact()
    ring.assert_lookups()


def test_a_broken_link_to_a_live_node_costs_nothing() -> None:
    ring = WatchedRing(50)
    for peer in ring.peers():
        for leaf in ring.nodes[peer.id].pastry.leaves():
            ring.simulation.start(peer, PeerFailed(leaf, "connection reset"))
    ring.run(1)
    ring.assert_exact()
    assert all(not node.pastry.snapshot().suspects for node in ring.nodes.values())
    assert all(not node.pastry.snapshot().counters.failures for node in ring.nodes.values())


def test_a_message_is_held_while_its_owner_is_only_suspected() -> None:
    ring = WatchedRing(50)
    owner, neighbour = ring.peers()[10], ring.peers()[11]
    node = ring.nodes[neighbour.id]
    ring.simulation.start(neighbour, PeerFailed(owner, "connection reset"))
    request = ring.look_up(owner.id, node)
    assert node.pastry.snapshot().held == 1
    ring.run(1)
    (end,) = ring.deliveries[request]
    assert end.at == owner


def test_a_message_for_a_dead_owner_goes_to_the_next_closest_once_the_death_is_verified() -> None:
    ring = WatchedRing(50)
    before, dead, after = ring.peers()[9:12]
    ring.crash(dead)
    key = Id(dead.id + 1)
    request = ring.look_up(key, ring.nodes[after.id])
    ring.run(3)
    assert request not in ring.deliveries
    ring.run(10)
    (end,) = ring.deliveries[request]
    assert end.at.id == ring.owner(key, ring.ids())
    assert end.at in (before, after)


def test_graceful_leave_is_repaired_in_two_round_trips_and_loses_nothing() -> None:
    ring = WatchedRing(50)
    leaver = ring.peers()[10]
    keys = [leaver.id, midpoint(leaver.id, ring.peers()[11].id)]
    ring.leave(leaver)
    requests = [ring.look_up(key, ring.nodes[ring.ids()[30]]) for key in keys]
    ring.run(0.5)
    ring.assert_exact()
    ring.run(5)
    ring.assert_right(requests)
    assert all(leaver.id not in node.pastry.kept for node in ring.nodes.values())


def test_a_node_that_left_does_nothing_more() -> None:
    ring = WatchedRing(3)
    node = ring.nodes[ring.ids()[0]]
    ring.leave(node.pastry.me)
    assert not node.pastry.active
    assert node.pastry.handle(PeerFailed(ring.peers()[0], "x"), 100.0) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_partition_heals_into_one_ring(seed: int) -> None:
    faults = Faults()
    ring = WatchedRing(60, seed, faults=faults)
    sides = {peer.address: index % 2 for index, peer in enumerate(ring.peers())}
    faults.part([[address for address, side in sides.items() if side == 1]])
    ring.run(120)
    halves: list[set[int]] = [set(), set()]
    for peer in ring.peers():
        halves[sides[peer.address]].add(peer.id)
    for peer in ring.peers():
        assert ring.nodes[peer.id].pastry.kept <= halves[sides[peer.address]]
    faults.heal()
    ring.run(240)
    ring.assert_exact()
    ring.assert_lookups()


def test_losses_alone_kill_nobody_for_good() -> None:
    faults = Faults(loss=0.02)
    ring = WatchedRing(50, faults=faults)
    ring.random_lookups(500, 60)
    ring.run(200)
    faults.loss = 0.0
    ring.run(120)
    ring.assert_exact()
    ring.assert_lookups()


def test_lost_table_entries_are_replaced() -> None:
    ring = WatchedRing(150)
    victims = ring.peers()
    ring.random.shuffle(victims)
    for peer in victims[:30]:
        ring.crash(peer)
    for _ in range(3):
        ring.random_lookups(1500, 20)
        ring.run(20)
    ids = ring.ids()
    empty = filled = 0
    for node in ring.nodes.values():
        table = node.pastry.state.table
        for column in range(16):
            if any(id_ >> 124 == column for id_ in ids) and column != table.me >> 124:
                present = table.at(0, column) is not None
                filled += present
                empty += not present
    assert empty <= 0.02 * filled


@pytest.mark.parametrize("delay", [0.0005, 0.02])
def test_a_dead_entry_met_for_the_first_time_costs_well_under_a_second(delay: float) -> None:
    ring = WatchedRing(100, network=ConstantDelay(delay))
    ring.run(5)
    for node in ring.nodes.values():
        state = node.pastry.state
        assert all(state.forwarding.deadline(peer) < 0.75 for peer in state.everyone())
    victims = ring.peers()[::10]
    asking = [
        (node, entry)
        for node in ring.nodes.values()
        for entry in node.pastry.state.table.peers
        if entry in victims and node.pastry.me not in victims and entry.id not in node.pastry.kept
    ]
    assert len(asking) > 20
    for victim in victims:
        ring.crash(victim)
    ids = ring.ids()
    for node, entry in asking:
        # A key that the dead entry leads to and that a living node owns.
        prefix = shared_digits(node.pastry.me.id, entry.id, 4) + 1
        keys = [i for i in ids if shared_digits(i, entry.id, 4) >= prefix]
        if keys and entry.id not in node.pastry.state.suspects:
            started = ring.simulation.now
            request = ring.look_up(keys[0], node)
            ring.simulation.run_while(lambda r=request: r not in ring.deliveries, started + 5)  # type: ignore[misc]
            assert ring.simulation.now - started < 1.6, "two dead entries in a row at most"


def test_deaths_within_a_probe_timeout_cost_one_round_of_probes() -> None:
    """And the first of them is told at once, or nearly."""
    ring = WatchedRing(40)
    ring.run(5)
    node = ring.nodes[ring.ids()[20]]
    sent: list[float] = []
    ring.simulation.on_effect = lambda now, host, effect: (
        sent.append(now)
        if host.node is node and isinstance(getattr(effect, "message", None), LeafProbe)
        else None
    )
    began = ring.simulation.now
    for peer in node.pastry.leaves()[4:12]:
        ring.leave(peer)
        ring.run(0.1)
    first_round = len(sent)
    assert sent[0] < began + 0.2
    ring.run(4)
    ring.assert_exact()
    # Sixteen new leaves are asked on the way, one or two at a time.
    assert first_round <= 16 + 16
    assert len(sent) <= 2 * 16 + 16


def test_half_of_the_ring_fails_without_a_storm() -> None:
    """Each survivor sends fewer leaf probes than there were nodes, and most go to dead ones."""
    ring = WatchedRing(100)
    ring.run(5)
    victims = ring.peers()
    ring.random.shuffle(victims)
    for peer in victims[:50]:
        ring.crash(peer)
    probes = {"live": 0, "dead": 0}

    def watch(_now: float, _host: Host, effect: object) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, LeafProbe):
            probes["live" if effect.peer.id in ring.nodes else "dead"] += 1

    ring.simulation.on_effect = watch
    ring.run(40)
    ring.assert_exact()
    # Eight new leaves and two or three rounds among sixteen.
    assert probes["live"] < 50 * 70
    # Half of about sixty known nodes, five tries each.
    assert probes["dead"] < 50 * 160


def test_a_death_is_told_once_and_each_gap_is_closed_by_asking_the_new_leaf() -> None:
    """About l nodes are told, and each of them asks one other; MSPastry's take l * l probes.

    Reference: Scribe JSAC II-B; protocols.md 1.5 and 1.9
    """
    ring = WatchedRing(100)
    probes = 0

    def watch(_now: float, _host: Host, effect: object) -> None:
        nonlocal probes
        if isinstance(effect, Send) and isinstance(effect.message, LeafProbe):
            probes += effect.peer.id in ring.nodes

    ring.simulation.on_effect = watch
    ring.run(60)
    quiet, probes = probes, 0
    for dead in ring.peers()[10::30]:
        ring.crash(dead)
        ring.run(20)
        ring.assert_exact()
    assert (probes - quiet) / 3 < 4 * 16


def test_a_leave_is_told_by_the_leaver_alone() -> None:
    """Each leaf only asks its new one, which the goodbye names.

    Reference: protocols.md 1.5
    """
    ring = WatchedRing(60)
    answers = 0

    def watch(_now: float, _host: Host, effect: object) -> None:
        nonlocal answers
        answers += isinstance(effect, Send) and isinstance(effect.message, LeafProbeReply)

    ring.simulation.on_effect = watch
    ring.leave(ring.peers()[10])
    ring.run(2)
    ring.assert_exact()
    assert answers <= 2 * 16


def test_a_lost_entry_is_replaced_by_a_neighbour_without_asking_anybody() -> None:
    """A member of the neighbourhood set that fits is nearer than anybody who could be named."""
    ring = WatchedRing(60, network=PlaneDelay())
    node = next(
        node
        for node in ring.nodes.values()
        if any(
            node.pastry.state.table.slot(other.id) == node.pastry.state.table.slot(entry.id)
            for entry in tuple(node.pastry.state.table.peers)
            for other in node.pastry.state.neighbourhood.peers
            if other.id != entry.id
        )
    )
    state = node.pastry.state
    lost, heir = next(
        (entry, other)
        for entry in tuple(state.table.peers)
        for other in state.neighbourhood.peers
        if other.id != entry.id and state.table.slot(other.id) == state.table.slot(entry.id)
    )
    effects = node.handle(Received(lost, Departing(())), ring.simulation.now)
    assert state.table.occupant(lost.id) == heir
    assert state.table.distance(heir.id) == state.neighbourhood.distance(heir.id)
    assert not any(isinstance(getattr(e, "message", None), SlotRequest) for e in effects)
