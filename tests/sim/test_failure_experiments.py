"""Failures and churn: what the experiments count, against dumber ways of counting it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from overlaymq.events import Probe, Send
from overlaymq.ids import RING, Id, rank, shared_digits
from overlaymq.messages import (
    Heartbeat,
    LeafProbe,
    LookupRequest,
    Peer,
    Routed,
    Row,
    RowOffer,
)
from overlaymq.sim import oracle
from overlaymq.sim.experiments import pastry_churn, pastry_failures, traffic
from overlaymq.sim.experiments.pastry_churn import Change, Outcome, Setup, Trial, misplaced, twice
from overlaymq.sim.experiments.walk import Walk, closest, qualified, walk
from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.published import TARGETS, log16
from overlaymq.sim.ring import Delivery, Ring
from overlaymq.sim.topology import TransitStub, TransitStubParameters

if TYPE_CHECKING:
    from typing import Any

    from overlaymq.sim.engine import Host

SMALL = TransitStubParameters(transit_domains=2, transit_routers=2, stubs=2, stub_routers=3)
SMALL_LEAF_SETS = msgspec.structs.replace(pastry_churn.MSPASTRY, leaf_set_size=8)


def quiet_ring(nodes: int, seed: int = 1) -> Ring:
    ring = Ring(seed, ConstantDelay())
    oracle.build(ring, nodes)
    return ring


# --- traffic ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "fate", "kind"),
    [
        (LeafProbe(), "passed", traffic.PROBE_LIVING),
        (LeafProbe(), "lost", traffic.PROBE_LIVING),
        (LeafProbe(), "nobody", traffic.PROBE_DEAD),
        (RowOffer(Row(0), reply=True), "passed", traffic.ROW_SWAP),
        (RowOffer(Row(0)), "passed", traffic.ROW_GIVEN),
        (Routed(Id(1), Peer(Id(2), "a"), 1, 0, LookupRequest(1)), "passed", traffic.LOOKUP),
        (Routed(Id(1), Peer(Id(2), "a"), 1, 0, LookupRequest(1)), "nobody", traffic.LOOKUP_AGAIN),
        (Routed(Id(1), Peer(Id(2), "a"), 1, 0, LeafProbe()), "passed", "Routed LeafProbe"),
        (Heartbeat(0.0), "passed", "Heartbeat"),
    ],
)
def test_a_message_counts_as_one_kind(message: Any, fate: Any, kind: str) -> None:
    assert traffic.kind(message, fate) == kind


def test_control_traffic_is_every_message_but_lookups_and_two_for_a_ping() -> None:
    ring = Ring(3, ConstantDelay())
    ring.grow(30)
    ring.settle()
    counted = traffic.Traffic(ring.simulation)
    count = ring.simulation.on_effect
    assert count is not None
    expected = 0

    def recount(now: float, host: Host, effect: Any, count: Any = count) -> None:
        nonlocal expected
        if isinstance(effect, Probe):
            expected += 2
        elif isinstance(effect, Send):
            message = effect.message
            lookup = isinstance(message, Routed) and isinstance(message.body, LookupRequest)
            expected += not lookup
        count(now, host, effect)

    ring.simulation.on_effect = recount
    ring.grow(5)
    ring.random_lookups(100, 10.0)
    assert expected > 100
    assert counted.control_messages() == expected


def test_a_row_given_in_answer_is_part_of_the_call_that_asked() -> None:
    ring = quiet_ring(2)
    counted = traffic.Traffic(ring.simulation)
    one, other = ring.nodes.values()
    host = ring.simulation.hosts[one.pastry.me.address]
    ring.simulation.perform(host, [Send(other.pastry.me, RowOffer(Row(0), reply=True))])
    ring.simulation.run_until(1.0)
    assert counted.sent[traffic.ROW_GIVEN] == 1
    assert counted.calls()[traffic.ROW_SWAP] == 1
    assert counted.calls()[traffic.ROW_GIVEN] == 0


def test_upkeep_is_subtracted_for_as_long_as_the_window_was() -> None:
    window, quiet = Counter(a=100, b=7), Counter(a=10, c=2)
    assert traffic.extra(window, 30.0, quiet, 10.0) == {"a": 70.0, "b": 7.0, "c": -6.0}
    assert traffic.total({"a": 70.0, "b": 7.0}, ("a", "missing")) == 70.0


# --- walks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5, 19, 20, 30])
def test_the_closest_are_those_that_sorting_everyone_finds(count: int) -> None:
    random = Random(count)
    ids = sorted(Id(random.getrandbits(128)) for _ in range(20))
    keys = [Id(0), Id(RING - 1), *ids[:3], *(Id(random.getrandbits(128)) for _ in range(50))]
    for key in keys:
        dumb = tuple(sorted(ids, key=lambda id_: rank(key, id_))[:count])
        assert closest(ids, key, count) == dumb


def test_a_walk_is_the_way_that_a_message_takes() -> None:
    ring = quiet_ring(300)
    random = Random(5)
    ids = ring.ids()
    for _ in range(200):
        start, key = ids[random.randrange(300)], Id(random.getrandbits(128))
        request = ring.look_up(key, ring.nodes[start])
        ring.simulation.run_until(ring.simulation.now + 1.0)
        (delivery,) = ring.deliveries[request]
        found = walk(ring.nodes, start, key)
        assert found.delivered
        assert (found.path[-1], found.hops) == (delivery.at.id, delivery.hops)


def test_a_walk_past_the_dead_ends_at_the_closest_living_node() -> None:
    """Reference: Pastry's rule routes around failures while no l/2 adjacent nodes fail (JSAC 2002, II)."""
    ring = quiet_ring(300)
    ids = ring.ids()
    dead = {id_ for index, id_ in enumerate(ids) if index % 10 < 3}
    living = [id_ for id_ in ids if id_ not in dead]
    random = Random(7)
    for _ in range(300):
        start, key = living[random.randrange(len(living))], Id(random.getrandbits(128))
        found = walk(ring.nodes, start, key, dead)
        assert found.delivered
        assert not dead.intersection(found.path)
        assert found.path[-1] == min(living, key=lambda id_: rank(key, id_))


def test_the_published_rare_case_takes_any_node_that_qualifies() -> None:
    """And ours the best of them, so it needs fewer hops; both end at the same node.

    Reference: Pastry Middleware 2001, the routing procedure (protocols.md 1.2)
    """
    ring = quiet_ring(300)
    ids = ring.ids()
    random = Random(7)
    dead = set(random.sample(ids, 60))
    living = [id_ for id_ in ids if id_ not in dead]
    hops = {"any": 0, "best": 0}
    for _ in range(500):
        start, key = living[random.randrange(len(living))], Id(random.getrandbits(128))
        best, other = (walk(ring.nodes, start, key, dead, any_of) for any_of in (None, random))
        assert other.delivered
        assert other.path[-1] == best.path[-1]
        assert not dead.intersection(other.path)
        hops["best"] += best.hops
        hops["any"] += other.hops
        state = ring.nodes[start].pastry.state
        for peer in qualified(state, key, dead):
            assert shared_digits(peer.id, key, 4) >= shared_digits(start, key, 4)
            assert rank(key, peer.id) < rank(key, start)
    assert hops["any"] > hops["best"]


def test_hops_to_a_replica_end_at_the_first_one_met() -> None:
    way = Walk((Id(1), Id(2), Id(3), Id(4)), True)
    assert way.hops == 3
    assert way.hops_to({Id(3), Id(4)}) == 2
    assert way.hops_to({Id(1)}) == 0
    assert way.hops_to({Id(9)}) == 3


# --- pastry-failures -------------------------------------------------------------------------------


def test_runs_of_victims_are_adjacent_and_parted() -> None:
    ids = [Id(number) for number in range(100)]
    runs = pastry_failures.adjacent_victims(ids, 7, 4, 16)
    assert [run[0] for run in runs] == [0, 25, 50, 75]
    assert all(run == list(range(run[0], run[0] + 7)) for run in runs)
    with pytest.raises(ValueError, match="too few"):
        pastry_failures.adjacent_victims(ids, 7, 5, 16)


def test_lookups_are_judged_by_where_they_ended() -> None:
    ring = quiet_ring(20)
    ids = ring.ids()
    peers = [ring.nodes[id_].pastry.me for id_ in ids]
    ring.keys = {number: ids[number] for number in range(4)}
    ring.deliveries = {
        0: [Delivery(0, peers[0], 3, 1.0)],
        1: [Delivery(1, peers[2], 1, 1.0)],
        2: [Delivery(2, peers[2], 1, 1.0), Delivery(2, peers[3], 2, 2.0)],
    }
    assert pastry_failures.judge(ring, [0, 1, 2, 3]) == (1, 2, 3.0)


def test_stale_references_are_those_found_by_looking_everywhere() -> None:
    ring = quiet_ring(60)
    victims = [node.pastry.me for node in ring.nodes.values()][::7]
    for victim in victims:
        ring.crash(victim)
    dead = {victim.id for victim in victims}
    found = [0, 0, 0]
    for node in ring.nodes.values():
        snapshot = node.pastry.snapshot()
        for id_ in dead:
            found[0] += id_ in [peer.id for peer in snapshot.leaves]
            found[1] += node.pastry.state.table.get(id_) is not None
            found[2] += id_ in [peer.id for peer in snapshot.neighbours]
    assert pastry_failures.stale(ring, dead) == tuple(count / len(dead) for count in found)
    assert all(found)


def test_a_cost_of_a_constant_times_the_logarithm_does_not_grow() -> None:
    sizes = [500, 2_000, 8_000]
    assert pastry_failures.growth(sizes, [7 * log16(size) for size in sizes]) == pytest.approx(1.0)
    assert pastry_failures.growth(sizes, [size**0.5 for size in sizes]) > 1.0


def test_failures_add_hops() -> None:
    """Reference: Pastry, Middleware 2001: 2.73 hops, and 2.96 after failures without repair (P6)."""
    ring = quiet_ring(3000)
    dead = set(ring.random.sample(ring.ids(), 300))
    asked = pastry_failures.lookups(ring, 1500, dead)
    before = pastry_failures.measure_hops(ring, asked, ())
    after = pastry_failures.measure_hops(ring, asked, dead)
    assert before.closest < after.closest
    assert before.replica < after.replica
    assert before.replica < before.closest
    assert (before.astray, after.astray) == (0, 0)


def test_repair_loses_no_lookup_and_leaves_no_dead_leaf() -> None:
    ring = pastry_failures.oracle_ring(4, 100)
    victims = ring.random.sample([node.pastry.me for node in ring.nodes.values()], 10)
    asked = pastry_failures.lookups(ring, 250, {victim.id for victim in victims})
    pairs = [(start, lookup.key) for lookup in asked for start in lookup.starts]
    repair = pastry_failures.fail_and_repair(ring, victims, pairs, 60.0)
    assert (repair.lookups, repair.lost, repair.wrong) == (500, 0, 0)
    assert repair.stale_leaves == 0
    assert repair.calls[traffic.PROBE_LIVING] > 0
    assert repair.calls[traffic.PROBE_DEAD] > 0
    assert ring.wrong_leaf_sets() == []


def test_seven_adjacent_failures_lose_no_lookup() -> None:
    """Reference: delivery is guaranteed unless l/2 adjacent nodes fail at once (JSAC 2002, II; PA-3)."""
    asked, lost, wrong, _ = pastry_failures.adjacent_failures(seed=2, nodes=260, length=7)
    assert asked >= 500
    assert (lost, wrong) == (0, 0)


# --- pastry-churn ----------------------------------------------------------------------------------


def dumb_misplaced(
    changes: list[Change], deliveries: list[Delivery], keys: dict[int, Id]
) -> set[int]:
    wrong = set()
    for delivery in deliveries:
        active = set()
        for change in sorted(changes, key=lambda change: change.when):
            if change.when <= delivery.when and change.active:
                active.add(change.id)
            elif change.when <= delivery.when:
                active.discard(change.id)
        key = keys[delivery.request]
        if not active or min(active, key=lambda id_: rank(key, id_)) != delivery.at.id:
            wrong.add(delivery.request)
    return wrong


@pytest.mark.parametrize("seed", range(20))
def test_a_delivery_is_judged_by_who_was_active_at_that_moment(seed: int) -> None:
    random = Random(seed)
    peers = [Peer(Id(random.getrandbits(128)), f"node-{number}") for number in range(8)]
    changes = []
    for peer in peers:
        joined = random.random() * 10
        changes.append(Change(joined, peer.id, True))
        changes.append(Change(joined + random.random() * 10, peer.id, False))
    keys = {number: Id(random.getrandbits(128)) for number in range(40)}
    deliveries = [
        Delivery(number, peers[random.randrange(8)], 1, random.random() * 20) for number in keys
    ]
    random.shuffle(changes)
    assert misplaced(changes, deliveries, keys) == dumb_misplaced(changes, deliveries, keys)


def test_a_delivery_at_the_closest_active_node_is_in_its_place() -> None:
    near, far = Peer(Id(5), "near"), Peer(Id(50), "far")
    changes = [
        Change(0.0, far.id, True),
        Change(2.0, near.id, True),
        Change(4.0, near.id, False),
    ]
    keys = {number: Id(6) for number in range(4)}
    deliveries = [
        Delivery(0, far, 1, 1.0),
        Delivery(1, far, 1, 3.0),
        Delivery(2, near, 1, 3.0),
        Delivery(3, far, 1, 5.0),
    ]
    assert misplaced(changes, deliveries, keys) == {1}


def test_a_node_may_deliver_as_it_becomes_active() -> None:
    peer = Peer(Id(5), "node")
    delivery = Delivery(0, peer, 1, 3.0)
    assert misplaced([Change(3.0, peer.id, True)], [delivery], {0: Id(5)}) == set()


def test_a_node_that_failed_before_it_was_active_was_never_there() -> None:
    peer, other = Peer(Id(5), "node"), Peer(Id(9), "other")
    changes = [Change(1.0, other.id, True), Change(2.0, peer.id, False)]
    assert misplaced(changes, [Delivery(0, other, 1, 3.0)], {0: Id(5)}) == set()


def test_two_deliveries_at_one_node_are_no_inconsistency() -> None:
    one, other = Peer(Id(5), "node"), Peer(Id(9), "other")
    ends = {
        0: [Delivery(0, one, 1, 1.0), Delivery(0, one, 1, 2.0)],
        1: [Delivery(1, one, 1, 1.0), Delivery(1, other, 1, 2.0)],
    }
    assert twice(ends) == {1}


def small_trial(seed: int, loss: float = 0.0) -> Outcome:
    topology = TransitStub(seed, SMALL)
    setup = Setup("small", SMALL_LEAF_SETS, 300.0, 120.0, loss, warm_up=20.0)
    return Trial(seed, 30, topology, setup).run(lambda share: None)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return small_trial(1)


def test_churn_without_loss_delivers_lookups_in_the_right_place(outcome: Outcome) -> None:
    """Reference: MSPastry, DSN 2004: no inconsistent deliveries without link loss."""
    assert outcome.failures > 5
    assert outcome.lookups > 20
    assert outcome.inconsistent == 0
    assert outcome.false_deaths == 0
    assert outcome.stretch >= 1.0
    assert 20 * 120 < outcome.node_seconds < 40 * 120


def test_a_seed_fixes_a_trial() -> None:
    assert small_trial(2, loss=0.05) == small_trial(2, loss=0.05)


def test_outcomes_add_up(outcome: Outcome) -> None:
    both = outcome + outcome
    assert both.lookups == 2 * outcome.lookups
    assert both.overhead == pytest.approx(outcome.overhead)
    assert both.stretch == pytest.approx(outcome.stretch)
    assert both.median_stretch == pytest.approx(outcome.median_stretch)
    assert both.kinds["Heartbeat"] == 2 * outcome.kinds["Heartbeat"]


def test_only_published_circumstances_are_held_to_published_figures(outcome: Outcome) -> None:
    bounded = {
        setup.name
        for setup in pastry_churn.setups()
        for row in pastry_churn.rows(setup, outcome)
        if row.high is not None
    }
    assert bounded == {"MSPastry's configuration", "MSPastry's configuration, 5% loss"}


def test_every_row_of_churn_names_its_run(outcome: Outcome) -> None:
    for setup in pastry_churn.setups():
        made = pastry_churn.rows(setup, msgspec.structs.replace(outcome, lost=1))
        assert all(row.metric.endswith(setup.name) for row in made)
        assert {row.id for row in made} == set(pastry_churn.EXPERIMENT.ids)


def test_no_two_figures_of_a_failure_share_a_name() -> None:
    """Rows of one name are taken for runs of one figure, and averaged."""
    names = [(t.id, t.metric) for t in TARGETS.values() if t.id in ("P6", "P7", "PA-3", "PA-4")]
    assert len(names) == len(set(names))
