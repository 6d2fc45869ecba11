"""`overlaymq sim`: what is printed, what is written, and how it ends."""

from __future__ import annotations

import builtins
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from overlaymq.cli import main
from overlaymq.sim import compare
from overlaymq.sim.experiments import runner
from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Row, Series, Settings
from overlaymq.sim.topology.transit_stub import TransitStubParameters

if TYPE_CHECKING:
    from pathlib import Path


def _findings(settings: Settings) -> Findings:
    settings.progress("trying", 1, 2)
    high = 10.0 if settings.nodes < 100 else 0.0
    row = Row(id="P1", metric="a figure", published="about 5", measured=5.25, low=1, high=high)
    series = Series(title="t", x_label="x", y_label="y", curves={"c": Curve([1], [2])})
    return Findings(rows=[row], events=settings.seed, series={"curve": series})


@pytest.fixture(autouse=True)
def one_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Experiment(name="trial", about="tries", ids=("P1",), nodes=10, run=_findings)
    monkeypatch.setattr(runner, "experiments", lambda: {"trial": trial})


def _sim(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["sim", *arguments])


def test_list() -> None:
    result = _sim("list")
    assert result.exit_code == 0
    assert "trial" in result.stdout
    assert "tries" in result.stdout


def test_list_as_json() -> None:
    line = json.loads(_sim("list", "--json").stdout)
    assert line == {"name": "trial", "about": "tries", "ids": ["P1"], "nodes": 10, "runs": 1}


def test_a_table_for_people() -> None:
    result = _sim("run", "trial")
    assert result.exit_code == 0
    for text in ("P1", "a figure", "about 5", "5.25", "1 to 10", "yes"):
        assert text in result.stdout


def test_the_last_line_of_json_is_the_object() -> None:
    result = _sim("run", "trial", "--json", "--seed", "4", "--nodes", "20")
    found = json.loads(result.stdout.splitlines()[-1])
    assert (found["experiment"], found["seed"], found["nodes"], found["events"]) == (
        *("trial", 4, 20, 4),
    )
    assert found["rows"][0]["ok"] is True


def test_a_row_outside_its_range_ends_with_one() -> None:
    result = _sim("run", "trial", "--nodes", "100", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["rows"][0]["ok"] is False


def test_figures_are_written(tmp_path: Path) -> None:
    result = _sim("run", "trial", "--out", str(tmp_path / "new"))
    assert result.exit_code == 0
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["trial-curve.csv", "trial-curve.png"]


def test_a_result_is_stored_with_its_command_and_reported(tmp_path: Path) -> None:
    stored, report = tmp_path / "trial.json", tmp_path / "report.md"
    assert _sim("run", "trial", "--seed", "2", "--save", str(stored)).exit_code == 0
    command = "overlaymq sim run trial --nodes 10 --seed 2"
    assert json.loads(stored.read_text())["command"] == command
    assert _sim("report", "--results", str(tmp_path), "--out", str(report)).exit_code == 0
    assert "| P1 | a figure | about 5 | 5.25 |" in report.read_text()


def test_where_a_result_goes_is_made_before_the_run(tmp_path: Path) -> None:
    stored = tmp_path / "new" / "trial.json"
    assert _sim("run", "trial", "--save", str(stored)).exit_code == 0
    assert json.loads(stored.read_text())["experiment"] == "trial"


@pytest.mark.parametrize("option", ["--save", "--out"])
def test_a_run_that_cannot_be_stored_is_not_begun(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Settings] = []

    def run(settings: Settings) -> Findings:
        begun.append(settings)
        return _findings(settings)

    trial = Experiment(name="trial", about="tries", ids=("P1",), nodes=10, run=run)
    monkeypatch.setattr(runner, "experiments", lambda: {"trial": trial})
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "below"
    result = _sim(
        "run", "trial", option, str(target / "trial.json" if option == "--save" else target)
    )
    assert result.exit_code == 1
    assert str(tmp_path / "file") in result.stderr
    assert begun == []


def test_an_unknown_experiment_is_wrong_usage() -> None:
    result = _sim("run", "nothing")
    assert result.exit_code == 2
    assert "there are: trial" in result.stderr


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_numpy(name: str, *rest: Any) -> Any:
        if name.startswith("overlaymq.sim.experiments"):
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_numpy)
    result = _sim("run", "trial")
    assert result.exit_code == 2
    assert "pip install 'overlaymq[sim]'" in result.stderr


def test_compare_shows_the_strategies_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On fewer routers than users get: routes take seconds. Reference: issue 6, a table and a picture."""
    few = TransitStubParameters(transit_domains=2, stubs=2, stub_routers=5, unit=0.0005)
    monkeypatch.setattr(compare, "ROUTERS", few)
    result = _sim("compare", "--nodes", "20", "--members", "5", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    heading, *rows = result.stdout.splitlines()
    assert all(name in heading for name in ("IP multicast", "Scribe", "SV", "SCAMP paper"))
    assert any(row.startswith("copies per delivery") for row in rows)
    assert (tmp_path / "compare.png").exists()
    assert set(json.loads((tmp_path / "compare.json").read_text())["reach"]) > {"Scribe", "SV"}


def test_compare_needs_enough_nodes_for_its_members() -> None:
    result = _sim("compare", "--nodes", "20", "--members", "21")
    assert result.exit_code == 2
    assert "--members: 21 of 20 nodes cannot subscribe" in result.stderr
