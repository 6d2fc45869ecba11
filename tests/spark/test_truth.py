"""The analysis finds what was planted in a synthetic trace: exactly that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.trace_report import compared
from overlaymq.trace.analysis.tables import TABLES

if TYPE_CHECKING:
    from tests.spark.conftest import Small

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark


def test_the_figures_are_the_planted_ones(small: Small) -> None:
    truth = small.truth
    planted = (truth.lost_total, truth.repeated, truth.late, truth.duplicates, truth.announced)
    assert all(planted), "a trace in which nothing went wrong tries nothing"
    pairs = compared(small.found.headline.as_dict(), truth)
    assert {name: found for name, (found, _) in pairs.items()} == {
        name: wanted for name, (_, wanted) in pairs.items()
    }


def test_every_lost_pair_is_named_with_the_last_node_that_had_it(small: Small) -> None:
    rows = small.found.tables["losses"].data.to_pylist()
    found = {
        (
            *(row["topic"], row["origin"], row["seq"], row["node"]),
            *(row["announced"], row["evidence"], row["last_node"]),
        )
        for row in rows
    }
    assert len(found) == len(rows)
    assert found == set(small.truth.lost_pairs)
    assert {pair[5] for pair in found} == {"link", "dropped", "subscriber"}


def test_clocks_are_found_within_what_they_claim(small: Small) -> None:
    rows = small.found.tables["clocks"].data.to_pylist()
    truth = small.truth.offsets_ms
    assert len(rows) == len(truth)
    # Only differences of clocks can be known.
    base = min(rows, key=lambda row: row["error_ms"])
    shift = truth[base["node"]] - base["offset_ms"]
    for row in rows:
        assert row["source"] == "CLOCK"
        error = abs(truth[row["node"]] - shift - row["offset_ms"])
        assert error <= row["error_ms"] + base["error_ms"] + 0.001
    assert small.found.headline.clock_offset_ms > 50


def test_delays_agree_with_an_independent_count(small: Small) -> None:
    """By pyarrow and the true clocks, message by message; clocks' errors and a bucket may lie between."""
    table = pq.read_table(small.directory / "synthetic")
    rows = table.select(
        ["event", "node_id", "topic_id", "msg_origin", "msg_seq", "msg_count", "ts_wall_ns"]
    ).to_pylist()
    offsets = {bytes.fromhex(node): round(ms * 1e6) for node, ms in small.truth.offsets_ms.items()}
    published, delays = {}, []
    seen = {  # what a subscription threw away is offered, not delivered
        ((row["topic_id"], row["msg_origin"], seq), row["node_id"])
        for row in rows
        if row["event"] == "UNDELIVERABLE"
        for seq in range(row["msg_seq"], row["msg_seq"] + row["msg_count"])
    }
    for row in sorted(rows, key=lambda row: (row["event"] != "PUBLISH", row["ts_wall_ns"])):
        at = row["ts_wall_ns"] - offsets[row["node_id"]]
        for seq in range(row["msg_seq"], row["msg_seq"] + row["msg_count"]):
            message = (row["topic_id"], row["msg_origin"], seq)
            if row["event"] == "PUBLISH":
                published[message] = at
            elif row["event"] == "DELIVER" and (message, row["node_id"]) not in seen:
                seen.add((message, row["node_id"]))
                delays.append(at - published[message])
    [overall] = [
        row for row in small.found.tables["latency"].data.to_pylist() if row["by"] == "all"
    ]
    assert overall["messages"] == len(delays)
    worst = max(row["error_ms"] for row in small.found.tables["clocks"].data.to_pylist())
    for name, share in (("p50_ms", 50), ("p99_ms", 99)):
        true = float(np.percentile(delays, share)) / 1e6
        assert abs(overall[name] - true) <= 2 * worst + 0.016 * true


def test_events_out_of_order_are_told_in_the_time_of_all(small: Small) -> None:
    """They had their own node's time, up to a quarter of a second off."""
    wanted = ["event", "node_id", "topic", "msg_origin", "msg_seq", "msg_count", "ts_wall_ns"]
    offsets = {node: round(ms * 1e6) for node, ms in small.truth.offsets_ms.items()}
    [run] = small.found.tables["runs"].data.to_pylist()
    first = small.found.tables["clocks"].data.to_pylist()[0]
    shift = (
        small.truth.offsets_ms[first["node"]] - first["offset_ms"]
    )  # only differences of clocks can be known
    at: dict[tuple[str, str, str, int], list[float]] = {}
    for row in pq.read_table(small.directory / "synthetic").select(wanted).to_pylist():
        if row["event"] == "DELIVER":
            node = row["node_id"].hex()
            when = row["ts_wall_ns"] - offsets[node] + shift * 1e6 - run["start_ns"]
            key = (node, row["topic"], row["msg_origin"].hex(), row["msg_seq"])
            at.setdefault(key, []).append(when / 1e9)
    worst = 2 * max(row["error_ms"] for row in small.found.tables["clocks"].data.to_pylist()) / 1e3
    rows = small.found.tables["order_events"].data.to_pylist()
    assert rows
    for row in rows:
        told = at[row["node"], row["topic"], row["origin"], row["seq"]]
        assert min(abs(one - row["at_s"]) for one in told) <= worst + 0.001


def test_repair_times_are_the_planted_ones(small: Small) -> None:
    rows = small.found.tables["repairs"].data.to_pylist()
    assert sorted(row["duration_ms"] for row in rows) == pytest.approx(
        sorted(small.truth.repairs_ms)
    )
    assert all(row["repaired"] for row in rows)


def test_trees_have_the_depth_of_their_fan_out(small: Small) -> None:
    rows = small.found.tables["trees"].data.to_pylist()
    assert {row["topic"] for row in rows} == {"scribe/0", "sv/1"}
    # Eight members with four children each: two levels below the root.
    assert {row["depth_most"] for row in rows} == {2}
    assert {row["roots"] for row in rows} == {1}
    assert not any(row["looped"] for row in rows)


def test_stress_adds_up(small: Small) -> None:
    tables = small.found.tables
    nodes, links = tables["nodes"].data.to_pylist(), tables["links"].data.to_pylist()
    assert sum(row["sent"] for row in nodes) == sum(row["messages"] for row in links) > 0
    assert len(nodes) == 14
    published = sum(
        row["messages"]
        for row in tables["throughput"].data.to_pylist()
        if row["event"] == "PUBLISH"
    )
    assert published == small.truth.published


def test_only_gossip_is_redundant(small: Small) -> None:
    rows = {row["strategy"]: row for row in small.found.tables["redundancy"].data.to_pylist()}
    assert 0.4 < rows["scamp"]["rmr"] < 0.6
    assert rows["scribe"]["rmr"] == rows["sv"]["rmr"] == rows["direct"]["rmr"] == 0


def test_drops_have_their_reasons(small: Small) -> None:
    rows = small.found.tables["drops"].data.to_pylist()
    by_reason: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["event"], row["reason"])
        by_reason[key] = by_reason.get(key, 0) + row["messages"]
    assert by_reason == {
        ("DROP", "lossy"): small.truth.lost["dropped"],
        ("UNDELIVERABLE", "buffer full"): small.truth.lost["subscriber"],
        ("MISS", ""): small.truth.announced,
    }


def test_a_killed_node_is_not_blamed(small: Small) -> None:
    """It dies at 60 % of the run and has no losses although the topics go on."""
    losses = small.found.tables["losses"].data.to_pylist()
    last = {row["node"] for row in small.found.tables["subscribers"].data.to_pylist()}
    blamed = {row["node"] for row in losses}
    killed = [node for node in small.truth.offsets_ms if node not in blamed and node in last]
    assert killed


def test_relative_delay_has_its_baseline_from_clocks(small: Small) -> None:
    rows = small.found.tables["relative_delay"].data.to_pylist()
    assert rows
    for row in rows:
        assert row["rad"] == pytest.approx(row["mean_ms"] / row["baseline_mean_ms"])
    assert 1 < float(np.mean([row["rad"] for row in rows])) < 10


def test_every_table_is_there_and_described(small: Small) -> None:
    assert set(small.found.tables) == set(TABLES)
