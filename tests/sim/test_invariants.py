"""What the checks of a fault run see: each must find what it is for, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from overlaymq.core.pastry.forwarding import Forwarding
from overlaymq.core.pastry.join import Joining, Phase
from overlaymq.events import PeerDead, Received
from overlaymq.ids import RING, Id
from overlaymq.messages import Departing, LookupRequest, Peer, Routed
from overlaymq.sim.invariants import (
    INVARIANTS,
    Invariant,
    answering,
    answering_for,
    both_own,
    covering,
    extents,
    gap,
    overlapping,
)
from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.ring import Ring
from overlaymq.sim.scenario import Action, Plan
from overlaymq.sim.workload import Trial

if TYPE_CHECKING:
    from overlaymq.core.pastry import Pastry
    from overlaymq.messages import JoinReply
    from overlaymq.sim.outcome import Result
    from overlaymq.sim.watched import WatchedNode

ALL = tuple(INVARIANTS)


def plan(**changes: object) -> Plan:
    quiet = Plan(
        scenario="test",
        seed=1,
        nodes=24,
        seconds=0.0,
        quiet=5.0,
        invariants=ALL,
        lookups_per_second=10.0,
        delay=0.01,
    )
    return replace(quiet, **changes)


@pytest.fixture
def built() -> Trial:
    """A ring of 24 nodes, watched, at rest."""
    trial = Trial(plan())
    trial._build()
    return trial


def found(trial: Trial, invariant: str) -> list[str]:
    return [finding.text for finding in trial.findings if finding.invariant == invariant]


def neighbours(trial: Trial) -> tuple[WatchedNode, WatchedNode]:
    first, second = trial.census.active[:2]
    return trial.census.nodes[first], trial.census.nodes[second]


def forget(node: WatchedNode, other: WatchedNode) -> None:
    """Take a node out of another's leaf set, as if it had been declared dead."""
    node.pastry.state.leaves.remove(other.pastry.me.id)
    node.trial._covers(node, extents(node.pastry))


# --- territories -----------------------------------------------------------------------------------


def edges(pastry: Pastry) -> list[tuple[Id, bool]]:
    """Keys at the ends of a node's range, and whether the node should own them."""
    me = pastry.me.id
    before, after = extents(pastry)
    if before + after + 1 >= RING:
        return [(me, True)]
    return [
        (Id((me - before) % RING), True),
        (Id((me - before - 1) % RING), False),
        (Id((me + after) % RING), True),
        (Id((me + after + 1) % RING), False),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 17, 40])
def test_a_range_ends_where_the_node_itself_says_that_it_does(size: int) -> None:
    ring = Ring(size, ConstantDelay())
    ring.grow(size)
    ring.settle()
    for node in ring.nodes.values():
        pastry = node.pastry
        for key, owned in edges(pastry):
            assert (pastry.owner(key) is pastry.me) == owned


def test_a_side_where_nobody_is_known_is_not_in_the_range() -> None:
    """Though the leaf set has a gap there, nodes elsewhere are known: the ring is not that small."""
    ring = Ring(5, ConstantDelay())
    ring.grow(40)
    ring.settle()
    pastry = next(iter(ring.nodes.values())).pastry
    for leaf in pastry.state.leaves.clockwise:
        pastry.state.leaves.remove(leaf.id)
    while pastry.state.reach.covers(Id((pastry.me.id + 1) % RING)):
        pastry.state.leaves.remove(pastry.state.leaves.members[0].id)
    assert extents(pastry)[1] == 0
    for key, owned in edges(pastry):
        assert (pastry.owner(key) is pastry.me) == owned


def test_what_a_node_may_answer_for_ends_where_it_says(built: Trial) -> None:
    built._run_for(10.0)
    for node in built.live():
        pastry, now = node.pastry, node.clock()
        before, after = answering(pastry, now)
        assert pastry.owns(Id((pastry.me.id - before) % RING), now)
        assert pastry.owns(Id((pastry.me.id + after) % RING), now)
        assert not pastry.owns(Id((pastry.me.id - before - 1) % RING), now)
        assert not pastry.owns(Id((pastry.me.id + after + 1) % RING), now)


class Twin(Invariant):
    """Asks every node about every edge of every range: two overlap only if one has an edge of the other."""

    name = "twin"

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.inputs = self.compared = self.disagreements = self.contested = 0

    def handled(self, node: WatchedNode) -> None:
        self.inputs += 1
        if self.inputs % 50 == 0 or (self.disagreements < 100 and self._doubtful()):
            self._compare()

    def _doubtful(self) -> bool:
        nodes = [self.trial.census.nodes[id_] for id_ in self.trial.census.active]
        return bool(overlapping(nodes))

    def _compare(self) -> None:
        self.compared += 1
        live = self.trial.live()
        nodes = [self.trial.census.nodes[id_] for id_ in self.trial.census.active]
        pairs = overlapping(nodes)
        keys = [key for node in nodes for key, owned in edges(node.pastry) if owned]
        assert any(len(covering(live, key)) > 1 for key in keys) == bool(pairs)
        if pairs:
            self.disagreements += 1
            shared = any(both_own(low, high) for low, high in pairs)
            asked = []
            for node in nodes:
                before, after = answering(node.pastry, node.clock())
                me = node.pastry.me.id
                asked += [Id((me - before) % RING), Id((me + max(after, 0)) % RING)]
            assert any(len(answering_for(live, key)) > 1 for key in asked) == shared
            self.contested += shared


def test_comparing_neighbours_finds_what_asking_everyone_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a ring that is cut in two without the checks' knowledge, so that nodes disagree for a while."""
    monkeypatch.setitem(INVARIANTS, "twin", Twin)
    crashes = [Action(at=2.0 + i, do="crash", node=i) for i in range(3)]
    joins = [Action(at=2.5 + i, do="join", node=12 + i) for i in range(3)]
    rough = plan(
        nodes=12,
        seconds=40.0,
        loss=0.1,
        lookups_per_second=1.0,
        pastry={"leaf_set_size": 4},
        invariants=("one-owner", "one-claim", "twin"),
        actions=tuple(sorted([*crashes, *joins], key=lambda action: action.at)),
    )
    trial = Trial(rough)
    trial._build()
    trial.origin = trial.now
    trial._set_message_faults(rough)
    trial.faults.part([[f"node-{number}" for number in range(0, 12, 2)]])
    trial._follow_schedule()
    trial.faults.heal()
    trial._wait(30.0)
    twin = trial.invariants[-1]
    assert isinstance(twin, Twin)
    assert twin.compared > 100
    assert twin.disagreements >= 100
    assert bool(twin.contested) == bool(found(trial, "one-owner"))
    assert found(trial, "one-claim")


# --- one by one ------------------------------------------------------------------------------------


def test_a_healthy_ring_has_no_findings() -> None:
    result = Trial(plan(seconds=5.0)).run()
    assert result.violations == []
    assert result.kind == "a"
    assert result.delivered == result.lookups > 50


def test_one_claim_finds_neighbours_that_do_not_know_each_other(built: Trial) -> None:
    low, high = neighbours(built)
    forget(low, high)
    forget(high, low)
    assert gap(low, high) < 0
    assert found(built, "one-claim")


def test_one_owner_excuses_who_has_no_lease(built: Trial) -> None:
    """The leaf sets overlap, but the leases are of the neighbour that was forgotten."""
    low, high = neighbours(built)
    forget(low, high)
    forget(high, low)
    assert not found(built, "one-owner")


def test_one_owner_finds_two_that_may_both_answer(
    built: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high = neighbours(built)
    for node in (low, high):
        monkeypatch.setattr(type(node.pastry.state.leases), "cover", lambda *_: True)
    forget(low, high)
    forget(high, low)
    assert found(built, "one-owner")


def test_separated_nodes_may_disagree(built: Trial) -> None:
    low, high = neighbours(built)
    built._part(frozenset([low.number]), one_way=False)
    forget(low, high)
    forget(high, low)
    assert not found(built, "one-claim")


def test_delivered_at_closest_finds_a_delivery_elsewhere(built: Trial) -> None:
    low, high = neighbours(built)
    built.keys[0] = low.pastry.me.id
    routed = Routed(low.pastry.me.id, low.pastry.me, 1, 1, LookupRequest(0))
    built.delivered(low, 0, routed)
    assert not found(built, "delivered-at-closest")
    built.delivered(high, 0, routed)
    assert found(built, "delivered-at-closest")
    assert built.counts["inconsistent"] == 1


def test_a_node_may_deliver_in_the_moment_it_becomes_active(built: Trial) -> None:
    low, _ = neighbours(built)
    built.census.depart(low)
    built.keys[0] = low.pastry.me.id
    built.delivered(low, 0, Routed(low.pastry.me.id, low.pastry.me, 1, 1, LookupRequest(0)))
    assert not found(built, "delivered-at-closest")


def test_delivered_at_closest_finds_a_second_delivery(built: Trial) -> None:
    low, _ = neighbours(built)
    built.keys[0] = low.pastry.me.id
    routed = Routed(low.pastry.me.id, low.pastry.me, 1, 1, LookupRequest(0))
    built.delivered(low, 0, routed)
    built.delivered(low, 0, routed)
    assert "twice" in found(built, "delivered-at-closest")[0]


def lookup_under_way(trial: Trial) -> int:
    """One that has left its first node and is nowhere delivered."""
    while True:
        trial._look_up()
        request = len(trial.keys) - 1
        if request not in trial.ends:
            return request


def test_a_lookup_that_a_live_node_forgets_is_a_silent_loss(built: Trial) -> None:
    request = lookup_under_way(built)
    built.starts[request].pastry.state.forwarding._pending.clear()
    built.faults.loss = 1.0
    built.simulation._heap.clear()
    [invariant] = [i for i in built.invariants if i.name == "no-silent-loss"]
    invariant.end()
    assert found(built, "no-silent-loss")
    assert built.unanswered_by == {"lost silently": 1}


def test_a_counted_drop_is_no_silent_loss(built: Trial) -> None:
    request = lookup_under_way(built)
    start = built.starts[request]
    start.pastry.state.forwarding._pending.clear()
    start.routed_drops = 1
    assert not built.custody.account(built)
    assert built.unanswered_by == {"dropped and counted": 1}


def test_a_crash_takes_its_lookups_with_it(built: Trial) -> None:
    request = lookup_under_way(built)
    built._act(Action(at=0.0, do="crash", node=built.starts[request].number))
    assert not built.custody.account(built)
    assert built.unanswered_by == {"with a node that went": 1}


def test_custody_moves_with_the_acknowledgement(built: Trial) -> None:
    request = 0
    while request in built.ends or request not in built.keys:
        request = lookup_under_way(built)
        built._run_for(0.011)
    start = built.starts[request]
    first, _ = built.custody.holders[request]
    assert first is start
    built._run_for(0.010)
    assert start not in built.custody.holders.get(request, {})


def test_exact_when_quiet_finds_a_missing_leaf(built: Trial) -> None:
    low, high = neighbours(built)
    low.pastry.state.leaves.remove(high.pastry.me.id)
    [invariant] = [i for i in built.invariants if i.name == "exact-when-quiet"]
    invariant.end()
    texts = found(built, "exact-when-quiet")
    assert any("not exact" in text for text in texts)
    assert any("one-sided" in text for text in texts)


def test_exact_when_quiet_finds_a_node_that_is_not_active(built: Trial) -> None:
    joiner = Action(at=0.0, do="join", node=24)
    built._act(joiner)
    [invariant] = [i for i in built.invariants if i.name == "exact-when-quiet"]
    invariant.end()
    assert "not active" in found(built, "exact-when-quiet")[0]


def test_bounded_finds_what_grows(built: Trial) -> None:
    low, _ = neighbours(built)
    low.pastry.state.failed.update({Id(number): 0.0 for number in range(65)})
    [invariant] = [i for i in built.invariants if i.name == "bounded"]
    invariant.tick()
    assert "65 failed nodes" in found(built, "bounded")[0]


def test_one_root_per_component_finds_a_side_with_a_gap() -> None:
    """After the time to notice, each side must be a ring of its own; here it may not, as nothing is cut."""
    trial = Trial(plan(seconds=60.0, lookups_per_second=0.0))
    trial._build()
    trial._part(frozenset(range(12)), one_way=False)
    trial.faults.heal()
    trial._run_for(100.0)
    trial._tick()
    assert "nobody covers" in found(trial, "one-root-per-component")[0]


def test_a_parted_ring_has_one_root_on_each_side() -> None:
    side = tuple(range(10))
    parted = plan(
        seconds=80.0,
        quiet=5.0,
        merge=200.0,
        invariants=("one-owner", "one-claim", "delivered-at-closest", "one-root-per-component"),
        actions=(Action(at=1.0, do="part", nodes=side),),
    )
    trial = Trial(parted)
    result = trial.run()
    assert result.kind == "c"
    assert result.violations == []
    assert trial.healed_at - trial.parted_at > 60


# --- broken cores ----------------------------------------------------------------------------------


def rough() -> Plan:
    joins = [Action(at=1.0 + i / 4, do="join", node=24 + i) for i in range(12)]
    crashes = [Action(at=1.1 + i, do="crash", node=i) for i in range(4)]
    actions = tuple(sorted([*joins, *crashes], key=lambda action: action.at))
    return plan(seconds=20.0, quiet=30.0, loss=0.05, actions=actions, lookups_per_second=20.0)


def broken_by(result: Result) -> set[str]:
    return {finding.invariant for finding in result.violations}


def test_a_sound_core_is_found_sound() -> None:
    assert broken_by(Trial(rough()).run()) == set()


def test_a_joiner_that_waits_for_no_confirmation_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient = Joining.reply

    def eager(self: Joining, peer: Peer, reply: JoinReply) -> None:
        patient(self, peer, reply)
        if self.phase is Phase.CONFIRMING:
            self._state.add_leaf(peer)
            self._activate()

    monkeypatch.setattr(Joining, "reply", eager)
    assert "one-claim" in broken_by(Trial(rough()).run())


def test_a_core_that_loses_what_it_holds_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forwarding, "_hold", lambda *_: None)
    assert "no-silent-loss" in broken_by(Trial(rough()).run())


# --- false deaths and hits -------------------------------------------------------------------------


def declare(trial: Trial, at: WatchedNode, dead: Peer) -> None:
    trial._notified(trial.simulation.hosts[at.pastry.me.address], PeerDead(dead))


def test_a_live_node_declared_dead_is_counted(built: Trial) -> None:
    low, high = neighbours(built)
    built.current = None
    declare(built, low, high.pastry.me)
    assert built.counts == {"declared": 1}


def test_a_goodbye_is_no_declaration(built: Trial) -> None:
    low, high = neighbours(built)
    built.current = Received(high.pastry.me, Departing())
    declare(built, low, high.pastry.me)
    assert built.counts == {}


def test_a_dead_or_earlier_or_separated_node_is_rightly_declared(built: Trial) -> None:
    low, high = neighbours(built)
    built.current = None
    me = high.pastry.me
    declare(built, low, Peer(me.id, me.address, me.incarnation - 1))
    built._part(frozenset([low.number]), one_way=True)
    declare(built, low, me)
    built.sides = frozenset()
    built._act(Action(at=0.0, do="crash", node=high.number))
    declare(built, low, me)
    assert built.counts == {}


def test_only_a_crash_of_a_working_node_is_a_hit(built: Trial) -> None:
    built._run_for(10.0)
    low, high = neighbours(built)
    low.worked_at = built.now - 1.0
    built._act(Action(at=0.0, do="crash", node=low.number))
    built._act(Action(at=0.0, do="crash", node=high.number))
    assert built.hits == {"crash": 1, "cut": 0, "slow": 0}


def test_a_finding_about_ownership_is_excused_by_a_false_death(built: Trial) -> None:
    low, high = neighbours(built)
    forget(low, high)
    forget(high, low)
    assert built._result(0.0).violations
    built.count("declared")
    result = built._result(0.0)
    assert (result.kind, result.violations) == ("b", [])
    assert result.excused
