"""Single steps of the analysis on a handful of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.trace import schema
from overlaymq.trace.analysis import clocks, losses, order, subscribers, traffic
from overlaymq.trace.analysis.reading import SCHEMA
from overlaymq.trace.analysis.trees import Change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark

SECOND = 1_000_000_000
A, B, C, D = ("aa" * 16, "bb" * 16, "cc" * 16, "dd" * 16)
TOPIC = "ee" * 16


def row(event: str, node: str, at: int, **facts: Any) -> schema.Row:
    """A row of the topic; times are in milliseconds."""
    known: dict[str, Any] = {
        "run_id": "r",
        "topic_id": TOPIC,
        "topic": "t",
        "boot_id": 1,
        "ts_mono_ns": at * 1_000_000,
    }
    return schema.Row(
        schema_version=schema.SCHEMA_VERSION,
        event=event,
        node_id=node,
        ts_wall_ns=at * 1_000_000,
        **(known | facts),
    )


def carried(event: str, node: str, at: int, seq: int, **facts: Any) -> schema.Row:
    """A row about messages of A."""
    known = {"msg_origin": A, "msg_epoch": 1, "msg_seq": seq, "msg_count": 1}
    return row(event, node, at, **(known | facts))


def frame(spark: SparkSession, *rows: schema.Row) -> DataFrame:
    return spark.createDataFrame([schema.to_values(one) for one in rows], SCHEMA)


def test_a_period_begins_with_the_first_sign_that_retention_has_left(spark: SparkSession) -> None:
    """Pruning removes READY and SUBSCRIBE first: then nobody was expected to get anything."""
    told = schema.packed(reliability="fifo", receive_own=False)
    control = frame(
        spark,
        *(row(schema.EXPECT, B, at, extra=told) for at in (100, 1100, 2100)),
        row(schema.UNSUBSCRIBE, B, 2100),
        row(schema.READY, B, 5000),
        row(schema.EXPECT, B, 5000),
        row(schema.EXPECT, B, 6000),
    )
    found = sorted(
        (one.begin_ns // 1_000_000, one.end_ns // 1_000_000)
        for one in subscribers.periods(control).collect()
    )
    assert found == [(100, 2100), (5000, 6000)]
    [promise] = subscribers.promises(control).collect()
    assert (promise.reliability, promise.receive_own) == ("fifo", False)


def test_the_last_node_and_its_reason(spark: SparkSession) -> None:
    """The tree at publication decided alone, and reasons were those of any copy, even of its SEND."""
    send, recv, drop = schema.SEND, schema.RECV, schema.DROP
    events = frame(
        spark,
        *(carried(schema.PUBLISH, A, 1000, seq) for seq in range(5)),
        # 0: a new root got it, which fed the subscriber only much later.
        carried(recv, D, 1230, 0, peer_id=A),
        # 1: the parent of then got it and is gone; the next parent got it too, later.
        carried(recv, C, 1100, 1, peer_id=A),
        carried(recv, D, 2000, 1, peer_id=A),
        # 2: received twice, too late; other copies were lost or passed.
        carried(send, C, 1200, 2, peer_id=B, reason="passed"),
        carried(drop, C, 1210, 2, peer_id=B, reason="network: lost"),
        carried(recv, B, 1300, 2, peer_id=C),
        carried(drop, B, 1300, 2, reason="late"),
        # 3: sent, and lost on the way.
        carried(send, C, 1200, 3, peer_id=B, reason="lost"),
        carried(drop, C, 1200, 3, peer_id=B, reason="network: lost"),
        # In a run without trees: another node got it.
        carried(schema.PUBLISH, A, 1000, 0, run_id="flat"),
        carried(recv, D, 1230, 0, peer_id=A, run_id="flat"),
    )
    lost = spark.createDataFrame(
        [
            (run, bytes.fromhex(TOPIC), bytes.fromhex(A), 1, seq, bytes.fromhex(B), 1, SECOND)
            for run, seq in [*(("r", seq) for seq in range(5)), ("flat", 0)]
        ],
        "run_id string, topic_id binary, msg_origin binary, msg_epoch long, msg_seq long,"
        "node_id binary, boot_id long, published_ns long",
    )
    b, c, d = (bytes.fromhex(one) for one in (B, C, D))
    changes = {("r", bytes.fromhex(TOPIC)): [Change(0, b, c), Change(3 * SECOND, b, d)]}
    explained = losses.explained(lost, events, changes, 1, keep=lambda made: made.cache())
    found = {
        (one.run_id, one.msg_seq): (one.evidence, bytes(one.last_node).hex(), one.reason)
        for one in explained.collect()
    }
    assert found == {
        ("r", 0): ("ancestor", D, ""),
        ("r", 1): ("ancestor", D, ""),
        ("r", 2): ("subscriber", B, "late"),
        ("r", 3): ("link", C, "network: lost"),
        ("r", 4): ("publisher", A, ""),
        ("flat", 0): ("elsewhere", D, ""),
    }


def test_only_simulated_nodes_have_virtual_time(spark: SparkSession) -> None:
    """Imported traces have one clock for both columns, and were taken for simulated: never corrected."""
    simulated = schema.packed(clock=schema.VIRTUAL)
    control = frame(
        spark,
        row(schema.NODE, A, 0, run_id="simulated", extra=simulated),
        row(schema.NODE, B, 0, run_id="simulated", extra=simulated),
        row(schema.READY, A, 0, run_id="imported"),
    )
    assert clocks.virtual_runs(control) == {"simulated"}
    assert clocks.shared_edges(control) == []


def test_each_order_counts_what_came_twice_by_itself(spark: SparkSession) -> None:
    """A new root's second deliveries, further on in its order, hid two that had broken the root's order."""

    def deliver(at: int, origin: str, seq: int, place: int, epoch: int = 1) -> schema.Row:
        facts = {"msg_origin": origin, "root_id": D, "root_epoch": epoch, "root_seq": place}
        return carried(schema.DELIVER, C, at, seq, **facts)

    events = frame(
        spark,
        *(deliver(1, A, 0, 1), deliver(2, A, 1, 4)),
        *(deliver(3, B, 0, 2), deliver(4, B, 1, 3)),
        *(deliver(5, A, 0, 1, epoch=2), deliver(6, A, 1, 2, epoch=2)),
        *(deliver(7, B, 2, 4, epoch=2), deliver(8, B, 2, 4, epoch=2)),
    )
    told = schema.packed(reliability="ordered")
    promised = subscribers.promises(frame(spark, row(schema.SUBSCRIBE, C, 0, extra=told)))
    [found] = order.by_reader(order.went_back(events), events, promised).collect()
    assert (found.late, found.root_late, found.repeated) == (0, 2, 3)
    assert found.violations == 5


def test_parts_of_a_large_message_count_once(spark: SparkSession) -> None:
    """Six parts that came twice were six duplicates of one message."""
    parts = [{"chunk": number, "chunks": 6} for number in range(6)]
    events = frame(
        spark,
        *(carried(schema.RECV, B, 1, 0, **part) for part in parts * 2),
        *(carried(schema.DUPLICATE, B, 2, 0, **part) for part in parts),
        *(carried(schema.DROP, B, 2, 1, reason="not subscribed", **part) for part in parts),
        row(schema.DROP, B, 3, msg_count=4, reason="no room"),
        row(schema.TRACE_LOSS, B, 4, msg_count=7),
    )
    [node] = traffic.node_stress(traffic.sums(events)).collect()
    assert (node.received, node.duplicates, node.dropped, node.trace_lost) == (2, 1, 5, 7)
