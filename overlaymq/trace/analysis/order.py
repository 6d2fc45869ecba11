"""Order: what came after something that should have come later.

Within one life of a subscriber, deliveries are put in the order of its own monotonic clock. A message is
*back* if one of the same publisher with a higher (epoch, number) was delivered before it: that is either a
second delivery of the same message, or it is *late*. ``fifo`` promises that none is late; ``ordered`` and
``replicated`` promise further that the root's (epoch, number) never goes back, whoever published. A message
may be back in one order and not in the other: what a new root delivers again is further on in the root's. So
each order has its own count of what came twice, and a message that is back in both is one violation. Of a run
its beginning is back, in either order, so the longer of the two beginnings is what is back at all. On topics
that promise nothing, late messages are counted all the same, as reordered, and are no violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from overlaymq.trace import schema as S

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PROMISING = ("fifo", "ordered", "replicated")
BY_PUBLISHER, BY_ROOT = "publisher", "root"
_READER = ("run_id", "node_id", "boot_id", "topic_id")


def went_back(events: DataFrame) -> DataFrame:
    """Every run of deliveries that goes back, by its publisher's order or by the root's.

    ``messages`` are how many of the run are back, ``behind_seq`` the highest number delivered before.
    """
    deliveries = events.where((F.col("event") == S.DELIVER) & (F.col("msg_count") > 0)).select(
        *_READER,
        *("msg_origin", "msg_epoch", "msg_seq", "root_epoch", "root_seq"),
        *("ts_wall_ns", "ts_mono_ns", "msg_count"),
    )
    by_publisher = _back(
        deliveries,
        (*_READER, "msg_origin"),
        F.col("msg_epoch"),
        F.col("msg_seq"),
    ).withColumn("order", F.lit(BY_PUBLISHER))
    by_root = _back(
        deliveries.where(F.col("root_seq") > 0), _READER, F.col("root_epoch"), F.col("root_seq")
    ).withColumn("order", F.lit(BY_ROOT))
    return by_publisher.unionByName(by_root)


def _back(deliveries: DataFrame, keys: tuple[str, ...], epoch: Column, first: Column) -> DataFrame:
    last = first + F.col("msg_count") - 1
    # Rows of the same instant are taken to be in order.
    so_far = (
        Window.partitionBy(*keys)
        .orderBy("ts_mono_ns", epoch, first)
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    highest = F.max(F.struct(epoch.alias("epoch"), last.alias("number"))).over(so_far)
    same_epoch = F.least(F.col("msg_count").cast("long"), F.col("highest.number") - first + 1)
    back = F.when(epoch < F.col("highest.epoch"), F.col("msg_count").cast("long")).when(
        epoch == F.col("highest.epoch"), same_epoch
    )
    return (
        deliveries.withColumn("highest", highest)
        .withColumn("messages", back)
        .where(F.col("messages") > 0)
        .select(
            *_READER,
            *("msg_origin", "msg_epoch", "msg_seq", "msg_count", "ts_wall_ns", "ts_mono_ns"),
            "messages",
            F.col("highest.epoch").alias("behind_epoch"),
            F.col("highest.number").alias("behind_seq"),
        )
    )


def came_twice(events: DataFrame, back: DataFrame) -> DataFrame:
    """Second deliveries by topic and reader, and those of them that had the same place in the root's order.

    Only the streams in which something went back can have any.
    """
    stream = (*_READER, "msg_origin", "msg_epoch")
    deliveries = (
        events.where((F.col("event") == S.DELIVER) & (F.col("msg_count") > 0))
        .select(*stream, "msg_seq", "msg_count", "root_epoch", "root_seq")
        .join(F.broadcast(back.select(*stream).distinct()), [*stream], "left_semi")
        .withColumn("shift", F.col("root_seq") - F.col("msg_seq"))
    )
    at_root = F.when(F.col("root_seq") > 0, _known_before((*stream, "root_epoch", "shift")))
    return (
        deliveries.withColumn("again", _known_before(stream))
        .withColumn("again_at_root", F.coalesce(at_root, F.lit(0)))
        .groupBy(*_READER)
        .agg(F.sum("again").alias("repeated"), F.sum("again_at_root").alias("root_repeated"))
    )


def _known_before(keys: tuple[str, ...]) -> Column:
    """How many messages of a run are in those before it by number; over all runs, what is there twice."""
    end = F.col("msg_seq") + F.col("msg_count")
    lower = (
        Window.partitionBy(*keys)
        .orderBy("msg_seq", "msg_count")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    reach = F.coalesce(F.max(end).over(lower), F.col("msg_seq"))
    return F.greatest(F.least(reach, end) - F.col("msg_seq"), F.lit(0)).cast("long")


def by_reader(back: DataFrame, events: DataFrame, promised: DataFrame) -> DataFrame:
    """Late messages by topic and reader, and which of them break a promise.

    Second deliveries are back by definition and are not late.
    """
    run = (*_READER, "msg_origin", "msg_epoch", "msg_seq", "msg_count", "ts_mono_ns")
    by_publisher = F.when(F.col("order") == BY_PUBLISHER, F.col("messages")).otherwise(0)
    by_root = F.when(F.col("order") == BY_ROOT, F.col("messages")).otherwise(0)
    counted = (
        back.groupBy(*run)
        .agg(F.sum(by_publisher).alias("one"), F.sum(by_root).alias("other"))
        .groupBy(*_READER)
        .agg(
            F.sum("one").alias("back"),
            F.sum("other").alias("root_back"),
            F.sum(F.greatest("one", "other")).alias("out_of_order"),
        )
    )
    promise = promised.groupBy(*_READER).agg(F.max("reliability").alias("reliability"))
    promising = F.col("reliability").isin(*PROMISING)
    return (
        counted.join(came_twice(events, back), [*_READER], "left")
        .join(promise, [*_READER], "left")
        .fillna(0, ["repeated", "root_repeated"])
        .fillna("", ["reliability"])
        .withColumns(
            {
                "late": F.col("back") - F.col("repeated"),
                "root_late": F.col("root_back") - F.col("root_repeated"),
                "violations": F.when(promising, F.col("out_of_order")).otherwise(0),
            }
        )
        .select(*_READER, "reliability", "late", "root_late", "repeated", "violations")
    )
