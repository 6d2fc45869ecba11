"""Shrinking: what is beside the point goes, what makes a plan fail stays."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner
from msgspec.structs import replace

from overlaymq.cli import main
from overlaymq.sim import outcome, workload
from overlaymq.sim.invariants import INVARIANTS, Finding, Invariant
from overlaymq.sim.scenario import Action, Plan, load, load_plan, plan_toml, resolve
from overlaymq.sim.shrink import Shrinker

if TYPE_CHECKING:
    import pytest

    from overlaymq.sim.outcome import Result
    from overlaymq.sim.watched import WatchedNode


@cache
def big() -> Plan:
    return resolve(load("churn-and-loss"), "churn-and-loss", 1)


def run(plan: Plan) -> Result:
    """As if node 7's first crash after node 3's were a bug, at a loss of anything at all."""
    crashes = [action.node for action in plan.actions if action.do == "crash"]
    present = set(range(plan.nodes)) - set(plan.absent)
    fails = {3, 7} <= present and plan.loss > 0 and 3 in crashes and 7 in crashes
    found = [Finding(50.0, "one-owner", "two")] if fails else []
    return outcome.nothing(plan, found)


def failing() -> Plan:
    bug = (Action(at=10.0, do="crash", node=3), Action(at=20.0, do="crash", node=7))
    others = tuple(action for action in big().actions if action.node not in (3, 7))
    return replace(big(), actions=(*bug, *others))


def test_only_what_makes_it_fail_is_left() -> None:
    small = Shrinker(failing(), "one-owner", run=run).shrink()
    assert [(action.do, action.node) for action in small.actions] == [("crash", 3), ("crash", 7)]
    assert set(range(small.nodes)) - set(small.absent) == {3, 7}
    assert small.loss > 0
    assert (small.duplication, small.reordering, small.jitter) == (0.0, 0.0, 0.0)
    assert small.seconds < 21
    assert small.invariants == ("one-owner",)


def test_the_stated_times_are_kept() -> None:
    plan = failing()
    small = Shrinker(plan, "one-owner", run=run).shrink()
    assert (small.quiet, small.merge, small.seed) == (plan.quiet, plan.merge, plan.seed)


def test_another_violation_is_not_the_same() -> None:
    plan = failing()

    def other(tried: Plan) -> Result:
        name = "one-owner" if tried == plan else "bounded"
        return outcome.nothing(tried, [Finding(1.0, name, "")])

    assert Shrinker(plan, "one-owner", run=other).shrink() == plan


def test_it_ends_in_time() -> None:
    shrinker = Shrinker(failing(), "one-owner", seconds=0.0, run=run)
    assert shrinker.shrink() == failing()
    assert shrinker.tried == 0


class NoReturn(Invariant):
    """Does not like nodes that come back."""

    name = "bounded"

    def changed(self, node: WatchedNode) -> None:
        if node.pastry.me.incarnation and node.pastry.active:
            self.found("somebody is back")


def test_a_real_run_shrinks_to_a_file_that_fails_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(INVARIANTS, "bounded", NoReturn)
    monkeypatch.chdir(tmp_path)
    crashes = tuple(Action(at=1.0 + number, do="crash", node=number) for number in range(4))
    back = Action(at=12.0, do="return", node=2)
    plan = replace(
        big(), nodes=7, seconds=20.0, quiet=2.0, lookups_per_second=1.0, actions=(*crashes, back)
    )
    Path("whole.toml").write_text(plan_toml(plan))
    outcome = CliRunner().invoke(main, ["sim", "scenario", "whole.toml", "--shrink"])
    assert outcome.exit_code == 1
    small = load_plan("churn-and-loss-1-small.toml")
    assert [action.do for action in small.actions] == ["crash", "return"]
    assert small.nodes - len(small.absent) < plan.nodes
    assert [finding.invariant for finding in workload.run(small).violations] == ["bounded"]
    replayed = CliRunner().invoke(main, ["sim", "scenario", "churn-and-loss-1-small.toml"])
    assert replayed.exit_code == 1
    assert "somebody is back" in replayed.output
