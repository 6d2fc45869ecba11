"""The kernel against a count that takes every run apart into messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.trace.analysis import histogram, kernel
from overlaymq.trace.analysis.kernel import DELIVERED, MISSED, PUBLISHED, UNTAKEN

Row = tuple[int, bytes, bytes, int, int, int, int]
"""Kind, node, origin, epoch, first, count, time."""

SECOND = 1_000_000_000
NODES = [bytes([65 + number]) * 16 for number in range(3)]
TOPIC = b"t" * 16
SCHEMA = pa.schema(
    [
        ("kind", pa.int32()),
        *(("run_id", pa.string()), ("topic_id", pa.binary()), ("msg_origin", pa.binary())),
        *(("msg_epoch", pa.int64()), ("msg_seq", pa.int64()), ("msg_count", pa.int64())),
        *(("node_id", pa.binary()), ("boot_id", pa.int64()), ("ts_wall_ns", pa.int64())),
        ("hop", pa.int32()),
    ]
)


def followed(rows: list[Row], world: kernel.World) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist(
        [
            {
                "kind": kind,
                "run_id": "r",
                "topic_id": TOPIC,
                "msg_origin": origin,
                "msg_epoch": epoch,
                "msg_seq": first,
                "msg_count": count,
                "node_id": node,
                "boot_id": 1,
                "ts_wall_ns": at,
                "hop": 1,
            }
            for kind, node, origin, epoch, first, count, at in rows
        ],
        schema=SCHEMA,
    )
    # Batches of three: nothing may depend on where a batch ends.
    batches = table.to_batches(max_chunksize=3)
    return [row for batch in kernel.follow(batches, world) for row in batch.to_pylist()]


def world(spans: list[list[tuple[int, int]]], receive_own: list[bool], grace: int) -> kernel.World:
    turns = max(len(one) for one in spans)
    begins = np.full((len(spans), turns), 10**17)
    ends = np.full((len(spans), turns), -(10**17))
    for index, one in enumerate(spans):
        for turn, (begin, end) in enumerate(one):
            begins[index, turn], ends[index, turn] = begin, end
    periods = kernel.Periods(
        NODES[: len(spans)], np.ones(len(spans), np.int64), begins, ends, np.array(receive_own)
    )
    return kernel.World({}, {("r", TOPIC): periods}, grace)


def numbered(
    told: list[tuple[bytes, bytes, tuple[int, int]]],
) -> set[tuple[bytes, bytes, int]]:
    """Runs taken apart into (node, origin, number)."""
    return {
        (node, origin, number)
        for node, origin, (first, count) in told
        for number in range(first, first + count)
    }


runs = st.tuples(st.integers(0, 30), st.integers(1, 6))
spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair))),
    min_size=1,
    max_size=2,
)


@given(
    published=st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 6)), max_size=8),
    delivered=st.lists(
        st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), runs), max_size=25
    ),
    missed=st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), runs), max_size=5),
    untaken=st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), runs), max_size=5),
    spans=st.lists(spans, min_size=3, max_size=3),
    receive_own=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_every_message_is_counted_as_one_by_one(
    published: list[tuple[bytes, int]],
    delivered: list[tuple[bytes, bytes, tuple[int, int]]],
    missed: list[tuple[bytes, bytes, tuple[int, int]]],
    untaken: list[tuple[bytes, bytes, tuple[int, int]]],
    spans: list[list[tuple[int, int]]],
    receive_own: list[bool],
) -> None:
    grace = 3
    rows: list[Row] = []
    next_number: Counter[bytes] = Counter()
    published_at: dict[tuple[bytes, int], int] = {}
    for step, (origin, count) in enumerate(published):
        first = next_number[origin]
        next_number[origin] += count
        rows.append((PUBLISHED, origin, origin, 1, first, count, step * 8))
        published_at |= {(origin, first + one): step * 8 for one in range(count)}
    for step, (node, origin, (first, count)) in enumerate(delivered):
        rows.append((DELIVERED, node, origin, 1, first, count, 100 + step))
    for node, origin, (first, count) in missed:
        rows.append((MISSED, node, origin, 1, first, count, 200))
    for node, origin, (first, count) in untaken:
        rows.append((UNTAKEN, node, origin, 1, first, count, 200))

    thrown = numbered(untaken)
    got: dict[bytes, Counter[tuple[bytes, int]]] = defaultdict(Counter)
    unmatched: Counter[tuple[bytes, bytes]] = Counter()
    first_time: dict[tuple[bytes, bytes, int], int] = {}
    for kind, node, origin, _, first, count, at in rows:
        for number in range(first, first + count) if kind == DELIVERED else ():
            if (origin, number) not in published_at:
                unmatched[node, origin] += 1
            elif (node, origin, number) not in thrown:
                got[node][origin, number] += 1
                first_time.setdefault((node, origin, number), at)
    told = numbered(missed)
    lost = {}
    for index, node in enumerate(NODES):
        for (origin, number), at in published_at.items():
            sure = any(begin + grace <= at <= end - grace for begin, end in spans[index])
            wanted = receive_own[index] or origin != node
            if sure and wanted and not got[node][origin, number]:
                message = (node, origin, number)
                lost[message] = (message in told, message in thrown)

    out = followed(rows, world(spans, receive_own, grace))
    assert {
        (row["node_id"], row["msg_origin"], row["msg_seq"]): (
            bool(row["announced"]),
            bool(row["untaken"]),
        )
        for row in out
        if row["kind"] == kernel.LOST
    } == lost
    paths = {(row["node_id"], row["msg_origin"]): row for row in out if row["kind"] == kernel.PATH}
    for (node, origin), row in paths.items():
        known = {n: c for (o, n), c in got[node].items() if o == origin}
        assert row["messages"] == len(known)
        assert row["repeated"] == sum(known.values()) - len(known)
        assert row["unmatched"] == unmatched[node, origin]
    assert set(paths) == {(node, origin) for node, origin, _ in delivered}
    delays = Counter(
        int(kernel.buckets_of(np.array([at - published_at[origin, number]]))[0])
        for (_, origin, number), at in first_time.items()
    )
    counted: Counter[int] = Counter()
    for row in out:
        if row["kind"] == kernel.DELAY:
            counted[row["bucket"]] += row["messages"]
    assert counted == delays
    assert sum(row["lost"] for row in out if row["kind"] == kernel.DUE) == len(lost)


def test_clocks_are_corrected_and_what_remains_negative_is_told() -> None:
    rows: list[Row] = [
        (PUBLISHED, NODES[0], NODES[0], 1, 0, 1, 1000),
        (DELIVERED, NODES[1], NODES[0], 1, 0, 1, 900),
    ]
    [path] = [row for row in followed(rows, kernel.World()) if row["kind"] == kernel.PATH]
    assert (path["delay_sum"], path["negative"]) == (-100, 1)
    corrected = kernel.World(offsets={("r", NODES[1]): -300})
    [path] = [row for row in followed(rows, corrected) if row["kind"] == kernel.PATH]
    assert (path["delay_sum"], path["negative"]) == (200, 0)


def test_what_a_subscription_throws_away_is_lost() -> None:
    """DELIVER is written before the buffer is asked: messages without room counted as delivered."""
    rows: list[Row] = [
        (PUBLISHED, NODES[0], NODES[0], 1, 0, 20, 0),
        (DELIVERED, NODES[1], NODES[0], 1, 0, 20, 1),
        (UNTAKEN, NODES[1], NODES[0], 1, 0, 5, 2),
        (UNTAKEN, NODES[1], NODES[0], 1, 5, 5, 3),
        (UNTAKEN, NODES[1], NODES[0], 1, 12, 3, 4),
    ]
    out = followed(rows, world([[(0, 0)], [(-50, 100)]], [False, True], 0))
    lost = [row for row in out if row["kind"] == kernel.LOST and row["node_id"] == NODES[1]]
    assert [row["msg_seq"] for row in lost] == [*range(10), 12, 13, 14]
    assert all(row["untaken"] and not row["announced"] for row in lost)
    [path] = [row for row in out if row["kind"] == kernel.PATH]
    assert (path["messages"], path["repeated"], path["delay_sum"]) == (7, 0, 7)
    [due] = [row for row in out if row["kind"] == kernel.DUE]
    assert (due["expected"], due["lost"]) == (20, 13)


def test_the_earlier_of_two_deliveries_counts_although_they_overlap() -> None:
    """A message that came alone and then again in a longer run had the delay of the run."""
    rows: list[Row] = [
        (PUBLISHED, NODES[0], NODES[0], 1, 0, 3, 0),
        (DELIVERED, NODES[1], NODES[0], 1, 2, 1, 10),
        (DELIVERED, NODES[1], NODES[0], 1, 0, 3, 50),
    ]
    [path] = [row for row in followed(rows, kernel.World()) if row["kind"] == kernel.PATH]
    assert (path["messages"], path["repeated"], path["delay_sum"]) == (3, 1, 10 + 50 + 50)


def test_epochs_of_a_publisher_are_apart() -> None:
    rows: list[Row] = [
        (PUBLISHED, NODES[0], NODES[0], 1, 0, 2, 0),
        (PUBLISHED, NODES[0], NODES[0], 2, 0, 2, 10),
        (DELIVERED, NODES[1], NODES[0], 2, 0, 2, 20),
    ]
    out = followed(rows, world([[(0, 0)], [(-50, 100)]], [True, True], 0))
    lost = [row for row in out if row["kind"] == kernel.LOST and row["node_id"] == NODES[1]]
    assert [(row["msg_epoch"], row["msg_seq"]) for row in lost] == [(1, 0), (1, 1)]


@given(st.integers(-(2**50), 2**50))
def test_a_bucket_holds_its_values_and_is_narrow(value: int) -> None:
    bucket = int(kernel.buckets_of(np.array([value]))[0])
    low, high = histogram.bounds_of(bucket)
    assert low <= value < high
    assert high - low <= max(1, abs(value) / 64 + 1)


def test_buckets_keep_the_order_of_values() -> None:
    values = np.arange(-5000, 5000)
    buckets = kernel.buckets_of(values)
    assert (np.diff(buckets) >= 0).all()


def test_percentiles_of_a_histogram() -> None:
    counts = {int(kernel.buckets_of(np.array([value]))[0]): 1 for value in range(1, 61)}
    assert histogram.percentile(counts, 0.5) == 30
    assert histogram.percentile(counts, 1.0) == 60
    assert histogram.percentile({}, 0.5) is None
    curve = histogram.cumulative(counts)
    assert curve[-1] == (60.0, 1.0)
    assert [share for _, share in curve] == sorted(share for _, share in curve)


def test_numbers_too_far_apart_are_refused_not_confused() -> None:
    rows: list[Row] = [
        (PUBLISHED, NODES[0], NODES[0], 1, 0, 1, 0),
        (PUBLISHED, NODES[0], NODES[0], 1, 1 << 41, 1, 1),
    ]
    with pytest.raises(ValueError, match="too far apart"):
        followed(rows, kernel.World())
