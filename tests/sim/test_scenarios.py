"""Scenarios: what a file may say, what a seed makes of it, and a few seeds of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from overlaymq.cli import main
from overlaymq.errors import ConfigError
from overlaymq.sim import scenario as scenarios
from overlaymq.sim import soak, workload
from overlaymq.sim.invariants import INVARIANTS, Invariant
from overlaymq.sim.scenario import MIN_UP, Plan, load, load_plan, node_id, plan_toml, resolve

if TYPE_CHECKING:
    from pathlib import Path

    from overlaymq.ids import Id
    from overlaymq.sim.watched import WatchedNode

NAMES = scenarios.names()
SMALL = 20

FILE = """
about = "for tests"
nodes = [20, 30]
seconds = 10
quiet = 5
invariants = ["one-owner"]

[workload]
crashes = [2, 4]

[faults]
loss = [0.0, 0.05]
"""


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


# --- files -----------------------------------------------------------------------------------------


def test_there_are_eleven_kinds_of_trouble() -> None:
    assert NAMES == [
        "churn-and-loss",
        "clock-skew",
        "crashes-adjacent",
        "crashes-beyond",
        "flash-crowd",
        "heavy-loss",
        "neighbours-cut-off",
        "one-way-partition",
        "partition-and-heal",
        "restarts",
        "slow-nodes",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_is_valid_and_its_invariants_exist(name: str) -> None:
    scenario = load(name)
    assert set(scenario.invariants) <= set(INVARIANTS)
    assert {"one-owner", "delivered-at-closest"} <= set(scenario.invariants)
    # Leaf sets alone may overlap once the living are declared dead; leases must not.
    assert ("one-claim" in scenario.invariants) == (name != "heavy-loss")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("[faults]\nlos = 0.1", "los"),
        ("[faults]\nloss = 'much'", "$.faults.loss"),
        ("[network]\nmodel = 'ether'", "$.network.model"),
        ("colour = 'red'", "colour"),
        ("[[faults.partitions]]\nat = 3", "lasts"),
    ],
)
def test_an_error_names_the_key(line: str, key: str, tmp_path: Path) -> None:
    path = written(tmp_path / "wrong.toml", f"about = ''\ninvariants = []\n{line}")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert key in str(caught.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="churn-and-loss"):
        load("chrun-and-loss")


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = resolve(load("partition-and-heal"), "partition-and-heal", 3)
    path = written(tmp_path / "plan.toml", plan_toml(replace(plan, pastry={"lease": 12.0})))
    assert load_plan(path) == replace(plan, pastry={"lease": 12.0})
    assert scenarios.is_plan(path)


def test_a_wrong_setting_of_the_ring_is_named() -> None:
    with pytest.raises(ConfigError, match="leaf_set_sise"):
        scenarios.pastry_config({"leaf_set_sise": 8})


# --- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_fixes_the_plan(name: str) -> None:
    scenario = load(name)
    assert resolve(scenario, name, 5) == resolve(scenario, name, 5)
    assert resolve(scenario, name, 5) != resolve(scenario, name, 6)


def test_values_are_drawn_from_their_ranges_and_differ(tmp_path: Path) -> None:
    scenario = load(written(tmp_path / "s.toml", FILE))
    plans = [resolve(scenario, "s", seed) for seed in range(200)]
    losses = [plan.loss for plan in plans]
    assert 0.0 <= min(losses) < 0.005
    assert 0.045 < max(losses) <= 0.05
    assert {plan.nodes for plan in plans} == set(range(20, 31))


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_about_nodes_that_are_there(name: str) -> None:
    """Whoever goes is up, whoever returns is down, and enough are left for the seed to count."""
    for seed in range(1, 6):
        plan = resolve(load(name), name, seed)
        up = set(range(plan.nodes))
        gone: set[int] = set()
        for action in plan.actions:
            if action.do in ("crash", "leave"):
                up.remove(action.node)
                gone.add(action.node)
            elif action.do == "return":
                gone.remove(action.node)
                up.add(action.node)
            elif action.do == "join":
                assert action.node not in up | gone
                up.add(action.node)
            assert len(up) >= MIN_UP


def test_adjacent_crashes_are_of_neighbours() -> None:
    plan = resolve(load("crashes-adjacent"), "crashes-adjacent", 2)
    first = next(action for action in plan.actions if action.do == "crash")
    group = {a.node for a in plan.actions if a.do == "crash" and a.at == first.at}
    came = {a.node for a in plan.actions if a.do == "join" and a.at < first.at}
    ring = sorted({*range(plan.nodes), *came}, key=lambda number: node_id(plan.seed, number))
    places = sorted(ring.index(number) for number in group)
    rotations = [[(place + turn) % len(ring) for place in places] for turn in range(len(ring))]
    assert len(group) >= 3
    assert any(sorted(turned) == list(range(len(group))) for turned in rotations)


def test_groups_of_neighbours_are_cut_off_with_some_left_between() -> None:
    for seed in range(1, 6):
        plan = resolve(load("neighbours-cut-off"), "neighbours-cut-off", seed)
        part = next(action for action in plan.actions if action.do == "part")
        up = set(range(plan.nodes))
        for action in plan.actions:
            if action.at < part.at and action.do in ("join", "crash"):
                (up.add if action.do == "join" else up.remove)(action.node)
        ring = sorted(up, key=lambda number: node_id(plan.seed, number))
        marks = "".join("x" if number in part.nodes else "." for number in ring)
        first = marks.index(".x") + 1
        groups = (marks[first:] + marks[:first]).replace(".", " ").split()
        assert 2 <= len(groups) <= 3
        assert all(8 <= len(group) <= 20 for group in groups)


def test_nobody_joins_while_rings_merge() -> None:
    for seed in range(1, 10):
        plan = resolve(load("partition-and-heal"), "partition-and-heal", seed)
        healed = next(action.at for action in plan.actions if action.do == "heal")
        joins = [action.at for action in plan.actions if action.do in ("join", "return")]
        assert not any(healed <= at <= healed + plan.merge for at in joins)


# --- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_small_seed_of_every_scenario_holds(name: str) -> None:
    """``make soak`` runs them at full size, by the thousand."""
    result = workload.run(resolve(load(name), name, 1, SMALL))
    assert result.violations == []
    assert sum(result.hits.values()) > 0
    assert result.delivered + sum(result.unanswered.values()) == result.lookups


def test_a_whole_seed_of_churn_and_loss_counts() -> None:
    result = workload.run(resolve(load("churn-and-loss"), "churn-and-loss", 1))
    assert result.violations == []
    assert result.counted
    assert result.fewest_nodes >= 64
    assert result.lost_messages > 100


GAPS = [
    *[("partition-and-heal", seed) for seed in (5003, 5029, 5042, 5050, 5064, 5074, 5084, 5091)],
    ("neighbours-cut-off", 1),
    ("neighbours-cut-off", 6),
    ("crashes-beyond", 6),
    ("crashes-beyond", 8),
]
"""Seeds in which nodes took each other for neighbours over live ones, as l/2 adjacent ones were gone."""


@pytest.mark.parametrize(("name", "seed"), GAPS)
def test_nobody_leaps_over_a_gap(name: str, seed: int) -> None:
    plan = resolve(load(name), name, seed)
    seconds = 45.0 if plan.merge else plan.seconds
    watched = ("one-owner", "one-claim", "delivered-at-closest", "no-silent-loss")
    short = msgspec.structs.replace(
        plan,
        seconds=seconds,
        quiet=0.0,
        invariants=watched,
        actions=tuple(action for action in plan.actions if action.at < seconds),
    )
    assert workload.run(short).violations == []


class Fails(Invariant):
    """Does not like lookups."""

    name = "bounded"

    def delivered(self, node: WatchedNode, request: int, key: Id) -> None:
        if request == 3:
            self.found("a fourth lookup")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A scenario that no ring can pass."""
    monkeypatch.setitem(INVARIANTS, "bounded", Fails)
    monkeypatch.chdir(tmp_path)
    text = FILE.replace('"one-owner"', '"bounded"').replace("[20, 30]", "6")
    return written(tmp_path / "failing.toml", text)


def test_a_failing_seed_prints_the_command_that_replays_it(
    failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak.main(["--scenario", failing, "--seeds", "7", "--jobs", "1"]) == 1
    out, err = capsys.readouterr()
    command = f"overlaymq sim scenario {failing} --seed 7"
    assert command in err
    assert "a fourth lookup" in err
    assert "failing" in out
    replayed = CliRunner().invoke(main, command.split()[1:])
    assert replayed.exit_code == 1
    assert "a fourth lookup" in replayed.output


def test_the_command_of_a_file_replays_the_very_seed(tmp_path: Path) -> None:
    """A seed that fails by chance must fail again."""
    file = written(tmp_path / "own.toml", FILE)
    task = soak.Task(file, 7, 8)
    replayed = CliRunner().invoke(main, [*task.command.split()[1:], "--json"])
    again, first = json.loads(replayed.stdout), soak.attempt(task)
    assert (again["events"], again["virtual_seconds"]) == (first.events, first.virtual_seconds)


def test_the_soak_tells_how_many_seeds_counted(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--scenario", "restarts", "--seeds", "1", "--nodes", "8", "--json"]
    assert soak.main([*arguments, "--jobs", "1"]) == 0
    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["seeds"], row["counted"], row["enough_nodes"]) == (1, 0, 0)
    assert sum(row["kinds"].values()) == 1


@pytest.mark.parametrize("seeds", ["5-1", "", "few"])
def test_a_soak_of_no_seeds_is_wrong_usage(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It would pass with nothing looked at."""
    with pytest.raises(SystemExit, match="2"):
        soak.main(["--seeds", seeds, "--jobs", "1"])
    assert "write 7 or 1-1000" in capsys.readouterr().err


def test_a_soak_without_processes_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        soak.main(["--seeds", "1", "--jobs", "0"])
    assert "--jobs" in capsys.readouterr().err


def test_a_soak_without_time_for_a_seed_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--seeds", "1", "--jobs", "1", "--minutes", "0"]) == 1
    assert "no seed was run" in capsys.readouterr().err


def test_an_exception_in_a_run_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(workload, "run", broken)
    result = soak.attempt(soak.Task("restarts", 1))
    assert "a bug" in result.violations[0].text


def test_too_many_deliveries_elsewhere_fail_the_seeds_with_false_deaths() -> None:
    totals = soak.Totals(scenario="s", lookups={"b": 99_999}, inconsistent={"b": 1})
    assert totals.too_inconsistent
    totals.lookups["b"] = 100_000
    assert not totals.too_inconsistent


def test_the_command_without_a_name_lists_the_scenarios() -> None:
    lines = CliRunner().invoke(main, ["sim", "scenario"]).output.splitlines()
    assert [line.split()[0] for line in lines] == NAMES


def test_the_command_shows_a_run_as_json() -> None:
    arguments = ["sim", "scenario", "restarts", "--seed", "2", "--nodes", "8", "--json"]
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 0
    result = json.loads(outcome.stdout)
    assert (result["scenario"], result["seed"], result["nodes"]) == ("restarts", 2, 8)
    assert result["counted"] is False
