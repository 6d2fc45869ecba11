"""The command that prints the ring's bar."""

from __future__ import annotations

import math

import msgspec
import pytest

from overlaymq.sim.ring_check import Figures, Outcome, main

GOOD = Outcome(asked=100, delivered=100, correct=100, wrong_live=0, twice=0, mean_hops=1.5)


def figures(**changes: object) -> Figures:
    met = Figures(
        nodes=100,
        seed=1,
        all_joined=True,
        failed=10,
        hops_bound=2,
        inexact_leaf_sets=0,
        before=GOOD,
        during=GOOD,
        inexact_after_repair=0,
        after=GOOD,
        virtual_seconds=1.0,
        join_events=1,
        join_stale_timers=1,
        events=1,
        join_cpu_seconds=1.0,
        cpu_seconds=1.0,
        kilobytes_per_node=1.0,
    )
    return msgspec.structs.replace(met, **changes)


def test_it_prints_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "30", "--seed", "2", "--lookups", "50", "--json"]) == 0
    printed = msgspec.json.decode(capsys.readouterr().out, type=Figures)
    assert (printed.nodes, printed.seed, printed.failed) == (30, 2, 3)
    assert printed.misses() == []


def test_it_says_in_words_whether_all_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "20", "--lookups", "20"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "all met"


def test_a_ring_of_one_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--nodes", "1"])


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"all_joined": False}, "all joined"),
        ({"inexact_leaf_sets": 1}, "leaf sets after joining"),
        ({"before": msgspec.structs.replace(GOOD, correct=99)}, "lookups before"),
        ({"before": msgspec.structs.replace(GOOD, mean_hops=2.0)}, "mean hops"),
        ({"before": msgspec.structs.replace(GOOD, mean_hops=math.inf)}, "mean hops"),
        (
            {"during": msgspec.structs.replace(GOOD, delivered=98)},
            "99 % delivered during repair",
        ),
        (
            {"during": msgspec.structs.replace(GOOD, wrong_live=1)},
            "none at a wrong live node during repair",
        ),
        ({"inexact_after_repair": 1}, "leaf sets after repair"),
        ({"after": msgspec.structs.replace(GOOD, correct=99)}, "lookups after"),
    ],
)
def test_each_figure_can_miss(changes: dict[str, object], missed: str) -> None:
    assert figures().misses() == []
    assert figures(**changes).misses() == [missed]
