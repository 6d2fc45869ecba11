"""Messages brought together with their deliveries, wherever these were recorded.

The only wide step of the analysis: publications, deliveries, what subscriptions threw away and announced
misses are shuffled so that what is known of a message is in one place, and the kernel follows it there.
Messages travel in buckets of consecutive numbers; a run that reaches over a bucket's edge is cut there. The
kernel holds one partition at a time, so their number is chosen by the number of rows, and the buckets so that
many of them make a partition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from overlaymq.trace import schema as S
from overlaymq.trace.analysis import kernel
from overlaymq.trace.analysis.shipping import by_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

FOLLOWED = (S.PUBLISH, S.DELIVER, S.UNDELIVERABLE, S.MISS)
ROWS_AT_ONCE = 400_000
"""In one call of the kernel: some 200 MB. A guess that fits two at a time into a laptop."""
BUCKET_ROWS = 20_000
LEAST_BUCKET, MOST_BUCKET = 16, 65_536

RESULT = (
    "kind int, run_id string, topic_id binary, msg_origin binary, msg_epoch long, msg_seq long,"
    "node_id binary, boot_id long, hop int, bucket int, messages long, repeated long,"
    "unmatched long, delay_sum long, delay_least long, delay_most long, negative long,"
    "expected long, lost long, announced long, untaken long, uncertain long, published_ns long"
)

by_value(kernel)


def followed(
    events: DataFrame, world: kernel.World, *, rows: int, deliveries: int, published: int
) -> DataFrame:
    """What the kernel finds, all kinds in one table; the three numbers are of the rows that it will read."""
    size = bucket_size(deliveries, published)
    kind = (
        F.when(F.col("event") == S.PUBLISH, kernel.PUBLISHED)
        .when(F.col("event") == S.DELIVER, kernel.DELIVERED)
        .when(F.col("event") == S.UNDELIVERABLE, kernel.UNTAKEN)
        .otherwise(kernel.MISSED)
    )
    last_part = (F.col("event") != S.PUBLISH) | (F.col("chunk") == F.col("chunks") - 1)
    unread = (F.col("event") == S.UNDELIVERABLE) & (F.col("reason") == S.CLOSED)
    end = F.col("msg_seq") + F.col("msg_count")
    first = F.floor(F.col("msg_seq") / size)
    runs = (
        events.where(F.col("event").isin(*FOLLOWED) & last_part & ~unread)
        .where((F.col("msg_count") > 0) & (F.col("msg_seq") >= 0))
        .select(
            *("run_id", "topic_id", "msg_origin", "msg_epoch", "msg_seq", "node_id", "boot_id"),
            *("ts_wall_ns", "hop"),
            F.col("msg_count").cast("long").alias("msg_count"),
            kind.alias("kind"),
            F.explode(F.sequence(first, F.floor((end - 1) / size))).alias("part"),
        )
    )
    low = F.greatest(F.col("msg_seq"), F.col("part") * size)
    high = F.least(F.col("msg_seq") + F.col("msg_count"), (F.col("part") + 1) * size)
    cut = runs.withColumns({"msg_seq": low, "msg_count": high - low})
    partitions = max(1, math.ceil(rows / ROWS_AT_ONCE))
    together = cut.repartition(
        partitions, "run_id", "topic_id", "msg_origin", "msg_epoch", "part"
    ).drop("part")

    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return kernel.follow(batches, world)

    return together.mapInArrow(follow, RESULT)


def bucket_size(deliveries: int, published: int) -> int:
    """How many consecutive messages go together, by how many rows a message has."""
    wanted = BUCKET_ROWS * published / max(1, deliveries)
    return int(min(MOST_BUCKET, max(LEAST_BUCKET, 2 ** round(math.log2(max(1.0, wanted))))))


def delays(found: DataFrame) -> DataFrame:
    """How many messages took how long: by run, topic, hops and bucket of ``histogram``."""
    return (
        found.where(F.col("kind") == kernel.DELAY)
        .groupBy("run_id", "topic_id", "hop", "bucket")
        .agg(F.sum("messages").alias("messages"))
    )


def paths(found: DataFrame) -> DataFrame:
    """What each reader got of each publisher on each topic: how much, how often twice, how fast."""
    return (
        found.where(F.col("kind") == kernel.PATH)
        .groupBy("run_id", "topic_id", "msg_origin", "node_id", "boot_id")
        .agg(
            F.sum("messages").alias("delivered"),
            F.sum("repeated").alias("repeated"),
            F.sum("unmatched").alias("unmatched"),
            F.sum("delay_sum").alias("delay_sum"),
            F.min("delay_least").alias("delay_least"),
            F.max("delay_most").alias("delay_most"),
            F.sum("negative").alias("negative"),
        )
    )


def dues(found: DataFrame) -> DataFrame:
    """What each subscriber should have got of each publisher on each topic, and what of it was lost."""
    return (
        found.where(F.col("kind") == kernel.DUE)
        .groupBy("run_id", "topic_id", "msg_origin", "node_id", "boot_id")
        .agg(
            F.sum("expected").alias("expected"),
            F.sum("lost").alias("lost"),
            F.sum("uncertain").alias("uncertain"),
        )
    )


def lost(found: DataFrame) -> DataFrame:
    """Every (message, subscriber) that was expected and did not happen."""
    return found.where(F.col("kind") == kernel.LOST).select(
        *("run_id", "topic_id", "msg_origin", "msg_epoch", "msg_seq", "node_id", "boot_id"),
        *("published_ns",),
        (F.col("announced") > 0).alias("announced"),
        (F.col("untaken") > 0).alias("untaken"),
    )
