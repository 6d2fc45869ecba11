"""A few trials of failure groups under faults, and whether their observer would see what is wrong.

The long run is ``python -m overlaymq.sim.fuse_trial --seeds 1-1000``.
"""

from __future__ import annotations

import msgspec
import pytest

from overlaymq.events import GroupFailed
from overlaymq.ids import Id
from overlaymq.messages import Peer
from overlaymq.sim import fuse_steady
from overlaymq.sim.experiments import fuse
from overlaymq.sim.experiments.base import Settings
from overlaymq.sim.fuse_trial import BOUND, KINDS, Trial, Watch, summary
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.tally import NEEDED_NODES

GROUP = Id(7)
ROOT, MEMBER = Peer(Id(1), "node-1", 1), Peer(Id(2), "node-2", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_hears_once_and_in_time(kind: str) -> None:
    """Reference: issue 5, bar 3; protocols.md 4.4."""
    outcome = Trial(3, kind).run()
    assert outcome.violations == []
    assert outcome.fewest >= NEEDED_NODES
    assert outcome.failed > 0
    assert max(notice.seconds for notice in outcome.notices) <= BOUND
    if kind in ("calm", "crashes"):
        assert outcome.unprovoked == 0


def test_a_seed_is_one_run() -> None:
    """Reference: house rule, same seed, same trace."""
    facts = []
    for _ in range(2):
        outcome = msgspec.structs.replace(Trial(5, "partitions", nodes=66).run(), seconds=0.0)
        facts.append(msgspec.json.encode(outcome))
    assert facts[0] == facts[1]


def observed(*notices: tuple[Peer, float], end: float = 500.0) -> list[str]:
    """What the observer finds in a group that fails at 100, when these were notified."""
    trial = Trial(1, "calm")
    watch = trial.groups[GROUP] = Watch(ROOT, [ROOT, MEMBER], 0.0)
    watch.installed[MEMBER.id, MEMBER.incarnation] = 1.0
    watch.fails(100.0, "signal")
    for peer, when in notices:
        host = trial.simulation.add_node(peer, trial.simulation._agenda.node)
        trial.simulation.now = when
        trial._notified(host, GroupFailed(GROUP))
    trial.simulation.now = end
    trial._judge()
    return trial.violations


def test_the_observer_sees_who_was_left_out() -> None:
    """Reference: issue 5, bar 3, every member that stayed up."""
    assert observed((ROOT, 101.0), (MEMBER, 102.0)) == []
    assert len(observed((ROOT, 101.0))) == 1


def test_the_observer_sees_who_was_told_twice() -> None:
    """Reference: issue 5, bar 3, exactly once."""
    assert len(observed((ROOT, 101.0), (MEMBER, 102.0), (MEMBER, 103.0))) == 1


def test_the_observer_sees_who_was_told_too_late() -> None:
    """Reference: issue 5, bar 3, within the documented bound."""
    assert len(observed((ROOT, 101.0), (MEMBER, 100.5 + BOUND))) == 1


def test_the_observer_sees_who_has_nothing_to_do_with_it() -> None:
    """Reference: issue 5, bar 3; only those that installed it."""
    stranger = Peer(Id(3), "node-3", 1)
    assert len(observed((ROOT, 101.0), (MEMBER, 102.0), (stranger, 103.0))) == 1


def test_the_sums_name_the_failing_seeds() -> None:
    """Reference: the command's exit code."""
    outcome = Trial(4, "calm", nodes=66).run()
    wrong = msgspec.structs.replace(outcome, violations=["something"])
    total = summary([outcome, wrong])
    assert total.seeds == 2
    assert total.failing_seeds == [outcome.seed]


def test_a_quiet_ring_sends_pings_by_edges_and_not_by_groups() -> None:
    """Reference: issue 5, bar 3; protocols.md 4.6, steady-state load with and without groups."""
    none, few, many = (
        fuse_steady.measure(groups, 10, nodes=32, seconds=20.0) for groups in (0, 10, 100)
    )
    assert none.pings == 0
    assert few.pings == few.expected > 0
    assert (many.fuse, many.pings, many.edges) == (few.pings, few.pings, few.edges)
    assert none.heartbeats == few.heartbeats == many.heartbeats


def test_the_experiment_has_a_row_for_every_published_figure() -> None:
    """With few groups and short times. Reference: protocols.md 4.6."""
    few = fuse.Plan(groups=1, steady=120.0, lossy=60.0)
    findings = fuse.study(Settings(nodes=40), few, PlaneDelay())
    assert {row.id for row in findings.rows} == set(fuse.EXPERIMENT.ids)
    wrong = [row for row in findings.rows if not row.ok and row.id != "FUSE-2"]
    assert wrong == []  # of 2, a few groups say too little
