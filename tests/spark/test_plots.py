"""Plots of the report, from tables that are made here: no Spark is started."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from overlaymq.trace.analysis.tables import Table
from overlaymq.trace.report import plots

COLUMNS = {
    "runs": ("run",),
    "latency_cdf": ("run", "by", "value", "ms", "share"),
    "throughput": ("run", "event", "at_s", "messages"),
    "losses": ("run", "published_s", "announced", "untaken"),
    "trees": ("run", "topic", "at_s", "depth_most"),
    "repairs": ("run", "duration_ms"),
    "nodes": ("run", "node", "sent"),
    "links": ("run", "node", "peer", "messages"),
}


def tables(runs: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Each run delivers ten messages a second for three seconds, a millisecond slower than the one before."""
    made: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
    for number, run in enumerate(runs, 1):
        made["runs"].append((run,))
        for share in (0.5, 1.0):
            for by, value in (("strategy", "scribe"), ("topic", "news"), ("hops", "1")):
                made["latency_cdf"].append((run, by, value, number + share, share))
        for second in (0.0, 1.0, 2.0):
            for event in ("PUBLISH", "DELIVER", "SEND"):
                made["throughput"].append((run, event, second, 10))
            made["trees"].append((run, "news", second, number))
            made["losses"].append((run, second, False, False))
            made["repairs"].append((run, float(number)))
        made["nodes"] += [(run, "ab" * 16, 30), (run, "cd" * 16, 10)]
        made["links"].append((run, "ab" * 16, "cd" * 16, 30))
    return made


def drawn(runs: list[str], **rows: list[tuple[Any, ...]]) -> dict[str, tuple[str, str]]:
    """What each plot says, and its drawing."""
    found = SimpleNamespace(tables={})
    for name, of_table in (tables(runs) | rows).items():
        data = pa.Table.from_pylist(
            [dict(zip(COLUMNS[name], row, strict=True)) for row in of_table]
        )
        found.tables[name] = Table(name, data, len(of_table))
    return {title: (about, drawing) for title, about, drawing in plots.plots(found)}  # type: ignore[arg-type]


def legend(drawing: str) -> list[str]:
    return re.findall(r"</i>(.*?)</li>", drawing)


def test_runs_are_kept_apart() -> None:
    """The curves of all runs were joined to one line that went back and forth, and their rates added up."""
    shown = drawn(["first", "other"])
    for title, names in (
        ("Delay by strategy", ["first: scribe", "other: scribe"]),
        ("Delay by topic", ["first: news", "other: news"]),
        ("Delay by hops", ["first: 1", "other: 1"]),
        ("Throughput", ["first: delivered", "other: delivered"]),
        ("Losses over time", ["first: without notice", "other: without notice"]),
        ("Depth of the trees", ["first: news", "other: news"]),
        ("Repair times", ["first: repairs", "other: repairs"]),
    ):
        drawing = shown[title][1]
        assert legend(drawing) == names, title
        for path in re.findall(r'class="line[^>]* d="M([^"]*)"', drawing):
            across = [float(place) for place in re.findall(r"(?:^|L)([\d.]+) ", path)]
            assert across == sorted(across), f"{title}: a line that goes back"
    assert "<title>first: delivered: 1, 10</title>" in shown["Throughput"][1]
    assert "<title>other: abababab: 30</title>" in shown["Node stress"][1]
    assert "it carries 75.0% of all in first" in shown["Node stress"][0]


def test_one_run_needs_no_name() -> None:
    shown = drawn(["only"])
    assert legend(shown["Throughput"][1]) == ["published", "delivered", "sent"]
    assert not any("only" in about + drawing for about, drawing in shown.values())


def test_losses_are_of_the_kinds_that_the_headline_has() -> None:
    """What a full subscription threw away was drawn as lost without notice."""
    kinds = [(True, False), (True, True), (False, True), (False, True), (False, False)]
    shown = drawn(["only"], losses=[("only", 1.0, *kind) for kind in kinds])
    drawing = shown["Losses over time"][1]
    assert legend(drawing) == ["without notice", "for want of room", "announced"]
    for words in ("without notice: 1, 1", "for want of room: 1, 2", "announced: 1, 2"):
        assert f"<title>{words}</title>" in drawing
    about, drawing = drawn(["only"], losses=[("only", 1.0, False, True)])["Losses over time"]
    assert about.endswith(", all for want of room.")


def test_of_many_runs_the_slowest_are_drawn() -> None:
    about, drawing = drawn([f"r{number:02}" for number in range(20)])["Delay by strategy"]
    assert legend(drawing) == [f"r{number:02}: scribe" for number in range(12, 20)]
    assert "The 8 slowest of 20." in about
