"""What all events add up to: sums by (event, topic, node, peer, reason), and what follows from them.

The traces are read once for it. Its rows are few (nodes times neighbours times topics), so stress of nodes
and links, redundancy, drops and the directory of nodes and topics cost next to nothing afterwards.
Every count is of messages: a row that stands for a run counts as the messages in it, and of a large
message that travels in parts only the last part counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from overlaymq.trace import schema as S

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

IN_PARTS = (S.PUBLISH, S.SEND, S.RECV, S.DUPLICATE, S.DROP, S.REJECT)
DATA = (
    *(S.PUBLISH, S.SEND, S.RECV, S.DELIVER, S.CONSUME, S.DUPLICATE),
    *(S.DROP, S.REJECT, S.UNDELIVERABLE, S.MISS, S.ROUTE_HOP),
)
"""Events that grow with the traffic; all others are the overlay's own life (``control``)."""
OVER_TIME = (S.PUBLISH, S.DELIVER, S.SEND, S.RECV, S.DUPLICATE, S.DROP, S.UNDELIVERABLE, S.MISS)
LOSS_EVENTS = (S.DROP, S.REJECT, S.UNDELIVERABLE, S.MISS, S.TRACE_LOSS)
SECOND = 1_000_000_000


def control(events: DataFrame) -> DataFrame:
    """The events of the overlay's own life."""
    return events.where(~F.col("event").isin(*DATA))


def whole_messages() -> Column:
    """How many messages a row counts for."""
    is_part = F.col("event").isin(*IN_PARTS) & (F.col("chunk") != F.col("chunks") - 1)
    return F.when(is_part, F.lit(0)).otherwise(F.col("msg_count")).cast("long")


def sums(events: DataFrame) -> DataFrame:
    """Messages, bytes and first and last time by event, topic, node, life, peer and reason.

    Names and strategies are keys too: the largest of some texts would make Spark sort instead of count.
    """
    who = ("run_id", "event", "topic_id", "node_id", "boot_id", "peer_id", "reason")
    return events.groupBy(*who, "topic", "strategy").agg(
        F.count("*").alias("rows"),
        F.sum(whole_messages()).alias("messages"),
        F.sum(F.greatest(F.col("size_bytes"), F.lit(0))).alias("bytes"),
        F.max("msg_count").alias("longest"),
        F.min("ts_wall_ns").alias("first_ns"),
        F.max("ts_wall_ns").alias("last_ns"),
    )


def nodes_seen(totals: DataFrame) -> DataFrame:
    """Every node and life that recorded something, and from when to when."""
    return (
        totals.where(F.col("node_id") != F.lit(b""))
        .groupBy("run_id", "node_id", "boot_id")
        .agg(
            F.sum("rows").alias("events"),
            F.min("first_ns").alias("first_ns"),
            F.max("last_ns").alias("last_ns"),
        )
    )


def topics_seen(totals: DataFrame) -> DataFrame:
    """Every topic that a message or a subscription named, with its name and strategy where known."""
    of_topics = (*DATA[:-1], S.SUBSCRIBE, S.READY, S.EXPECT, S.PARENT_SET)
    return (
        totals.where((F.col("topic_id") != F.lit(b"")) & F.col("event").isin(*of_topics))
        .groupBy("run_id", "topic_id")
        .agg(F.max("topic").alias("topic"), F.max("strategy").alias("strategy"))
    )


def _messages(*events: str) -> Column:
    return F.sum(F.when(F.col("event").isin(*events), F.col("messages")).otherwise(0))


def _bytes(*events: str) -> Column:
    return F.sum(F.when(F.col("event").isin(*events), F.col("bytes")).otherwise(0))


def node_stress(totals: DataFrame) -> DataFrame:
    """What each node carried: messages and bytes by what it did with them."""
    return totals.groupBy("run_id", "node_id").agg(
        _messages(S.PUBLISH).alias("published"),
        _messages(S.RECV).alias("received"),
        _messages(S.SEND).alias("sent"),
        _messages(S.DELIVER).alias("delivered"),
        _messages(S.CONSUME).alias("consumed"),
        _messages(S.DUPLICATE).alias("duplicates"),
        _messages(S.DROP, S.REJECT, S.UNDELIVERABLE).alias("dropped"),
        _messages(S.TRACE_LOSS).alias("trace_lost"),
        _bytes(S.RECV).alias("bytes_received"),
        _bytes(S.SEND).alias("bytes_sent"),
    )


def link_stress(totals: DataFrame) -> DataFrame:
    """What each directed link carried, as its sender saw it."""
    return (
        totals.where((F.col("event") == S.SEND) & (F.col("peer_id") != F.lit(b"")))
        .groupBy("run_id", "node_id", "peer_id")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.countDistinct("topic_id").alias("topics"),
        )
    )


def redundancy(totals: DataFrame) -> DataFrame:
    """Receptions, duplicates among them, and RMR by topic.

    RMR, relative message redundancy, is m / (n - 1) - 1 of m payload receptions where n nodes hold the
    message in the end. Every node but the origin receives it for the first time once, so summed over messages
    n - 1 are the receptions that were not duplicates. 0 is perfect; 1 means that everything came twice.
    """
    first = F.col("received") - F.col("duplicates")
    return (
        totals.where(F.col("event").isin(S.RECV, S.DUPLICATE, S.SEND, S.DELIVER))
        .groupBy("run_id", "topic_id")
        .agg(
            _messages(S.SEND).alias("sent"),
            _messages(S.RECV).alias("received"),
            _messages(S.DUPLICATE).alias("duplicates"),
        )
        .withColumn("rmr", F.when(first > 0, F.col("duplicates") / first))
    )


def drops(totals: DataFrame) -> DataFrame:
    """What was discarded, refused, announced as missing or not traced, by reason."""
    return (
        totals.where(F.col("event").isin(*LOSS_EVENTS))
        .groupBy("run_id", "topic_id", "event", "reason")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("rows").alias("times"),
            F.countDistinct("node_id").alias("nodes"),
        )
    )


def over_time(events: DataFrame, offsets: DataFrame, starts: DataFrame) -> DataFrame:
    """Messages and bytes by topic, event and second since the run's start, in corrected time."""
    corrected = F.col("ts_wall_ns") - F.coalesce(F.col("offset_ns"), F.lit(0)) - F.col("start")
    return (
        events.where(F.col("event").isin(*OVER_TIME))
        .join(F.broadcast(offsets), ["run_id", "node_id"], "left")
        .join(F.broadcast(starts), "run_id")
        .groupBy("run_id", "topic_id", "event", _second(corrected))
        .agg(
            F.sum(whole_messages()).alias("messages"),
            F.sum(F.greatest(F.col("size_bytes"), F.lit(0))).alias("bytes"),
        )
    )


def _second(nanoseconds: Column) -> Column:
    since = nanoseconds - F.pmod(nanoseconds, F.lit(SECOND))
    return (since / SECOND).alias("at_s")
