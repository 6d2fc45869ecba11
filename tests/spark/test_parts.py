"""Clocks, trees and ratios, without Spark."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from overlaymq.trace.analysis.clocks import Edge, edges_of_messages, solved
from overlaymq.trace.analysis.headline import Headline
from overlaymq.trace.analysis.relative import relative_delays
from overlaymq.trace.analysis.tables import TABLES
from overlaymq.trace.analysis.trees import Change, depths_of, shapes
from overlaymq.trace.report.page import _verdict

A, B, C, D = (("r", bytes([65 + number]) * 16) for number in range(4))
SECOND = 1_000_000_000
ROOT = Path(__file__).resolve().parents[2]


def test_offsets_follow_the_surest_way() -> None:
    edges = [Edge(A, B, 100, 1), Edge(B, C, 50, 1), Edge(A, C, 999, 400)]
    found = solved([A, B, C], edges, [])
    assert found[C].offset_ns - found[A].offset_ns == 150
    assert found[C].error_ns == 2
    assert sorted(one.offset_ns for one in found.values())[1] == 0, "the median is the time"


def test_parts_that_nothing_joins_are_told_apart() -> None:
    found = solved([A, B, C, D], [Edge(A, B, 10, 1)], [])
    assert found[A].group == found[B].group
    assert len({one.group for one in found.values()}) == 3
    assert found[C].offset_ns == 0


def test_messages_both_ways_tell_the_difference() -> None:
    """A delay of 20 each way, and b is 500 ahead."""
    [edge] = edges_of_messages([(A, B, 520), (B, A, -480)])
    assert (edge.difference, edge.error) == (500, 20)
    found = solved([A, B], [], [edge])
    assert found[B].offset_ns - found[A].offset_ns == 500
    assert found[A].source == "messages"


def test_messages_one_way_move_clocks_only_against_reason() -> None:
    [plausible] = edges_of_messages([(A, B, 300)])
    assert plausible.difference == 0
    [impossible] = edges_of_messages([(A, B, -300)])
    assert impossible.difference == -300


def test_measurements_win_over_messages() -> None:
    found = solved([A, B, C], [Edge(A, B, 10, 1)], [Edge(B, C, 7, 5)])
    assert found[B].offset_ns - found[A].offset_ns == 10
    assert found[C].offset_ns - found[B].offset_ns == 7
    assert [found[one].source for one in (A, B, C)] == ["CLOCK", "CLOCK", "messages"]


def test_depths_and_circles() -> None:
    depths, looped = depths_of({b"b": b"a", b"c": b"b", b"d": b"c", b"x": b"y", b"y": b"x"})
    assert depths == {b"a": 0, b"b": 1, b"c": 2, b"d": 3}
    assert looped == 2


def test_shapes_change_with_parents_and_deaths() -> None:
    topic = ("r", b"t")
    changes = {
        topic: [
            Change(0, b"b", b"a"),
            Change(0, b"c", b"b"),
            Change(50 * SECOND, b"c", None),
            Change(50 * SECOND, b"c", b"a"),
        ]
    }
    lives = {("r", b"a"): 100 * SECOND, ("r", b"b"): 70 * SECOND, ("r", b"c"): 100 * SECOND}
    found = shapes(changes, lives, samples=10)
    assert [one.depth_most for one in found] == [2, 2, 2, 2, 1, 1, 1, 1, 1, 1]
    assert [one.nodes for one in found][-1] == 2, "b is gone"
    assert found[4].children_most == 2


def test_relative_delay_leaves_out_whom_it_cannot_compare() -> None:
    class Path:
        run_id, topic_id, msg_origin = "r", b"t", b"o"

        def __init__(self, node: bytes, mean: int) -> None:
            self.node_id, self.delivered, self.delay_sum = node, 2, 2 * mean

    paths = [Path(b"x", 20_000_000), Path(b"y", 40_000_000), Path(b"z", 7), Path(b"o", 1)]
    baseline = {("", b"o", b"x"): 10_000_000, ("r", b"o", b"y"): 10_000_000}
    [one] = relative_delays(paths, baseline)  # type: ignore[arg-type]
    assert (one.subscribers, one.without_baseline) == (2, 1)
    assert [one.rad, one.rmd] == pytest.approx([3.0, 4.0])


def test_what_full_subscriptions_threw_away_is_said_first() -> None:
    """A subscriber got 10 of 200, and the page said that everything was delivered."""
    known: dict[str, Any] = {"expected": 200, "lost": 190, "untaken": 190, "delivery_ratio": 0.05}
    headline = Headline(**{one.name: known.get(one.name, 0) for one in fields(Headline)})
    said = headline.sentences()[0]
    assert said.good is False
    assert "190 of 200" in said.text
    assert "all of them thrown away because a subscription had no room" in said.text
    assert headline.silent == 0
    assert _verdict(headline) == "190 thrown away by full subscriptions"


def test_one_lost_parent_is_no_distribution() -> None:
    known: dict[str, Any] = {"repairs": 1, "repair_p50_ms": 20.0, "repair_most_ms": 20.0}
    headline = Headline(**{one.name: known.get(one.name, 0) for one in fields(Headline)})
    texts = [sentence.text for sentence in headline.sentences()]
    assert "1 parent was lost: there was another after 20.0 ms." in texts


def test_every_table_is_documented() -> None:
    page = (ROOT / "docs" / "analysis.md").read_text()
    for name, about in TABLES.items():
        assert f"| `{name}` | {about} |" in page
