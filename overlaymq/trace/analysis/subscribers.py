"""Who should have got what: the periods in which nodes were subscribers of topics.

A period begins with READY (the first, or the first after an UNSUBSCRIBE) and ends with the last sign of life
as a subscriber, EXPECT or UNSUBSCRIBE, before the next one. Where READY is gone, because retention removes
the oldest files of a trace first, the first EXPECT that is left begins it. A message published within it is
expected. One published within ``grace`` of either end is uncertain, for a publisher cannot know of a reader
at once, nor a reader of a publisher: it counts as delivered if it was, and never as lost.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F

from overlaymq.trace import schema as S
from overlaymq.trace.analysis.kernel import Periods

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from overlaymq.trace.analysis.clocks import Clock, Offset

SIGNS = (S.READY, S.EXPECT, S.UNSUBSCRIBE)
NEVER = np.iinfo(np.int64).max // 4


def periods(control: DataFrame) -> DataFrame:
    """Every period: run, topic, node, life, its number, when it began and was last seen, by its own clock."""
    who = ("run_id", "topic_id", "node_id", "boot_id")
    in_order = Window.partitionBy(*who).orderBy("ts_mono_ns", "rank")
    # At the same instant: an end, then a beginning, then a sign of life.
    rank = (
        F.when(F.col("event") == S.UNSUBSCRIBE, 0).when(F.col("event") == S.READY, 1).otherwise(2)
    )
    before = F.lag("event").over(in_order)
    # The last EXPECT may be of the very instant of its UNSUBSCRIBE, and begins nothing then.
    later = F.col("ts_mono_ns") > F.lag("ts_mono_ns").over(in_order)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, -1)
    said = F.last(F.when(F.col("event") != S.EXPECT, F.col("event")), ignorenulls=True).over(so_far)
    ready = (F.col("event") == S.READY) & (said.isNull() | (said == S.UNSUBSCRIBE))
    left_over = (F.col("event") == S.EXPECT) & (
        before.isNull() | ((before == S.UNSUBSCRIBE) & later)
    )
    starts = ready | left_over
    signs = control.where(F.col("event").isin(*SIGNS)).withColumn("rank", rank)
    return (
        signs.withColumn("starts", starts.cast("int"))
        .withColumn("period", F.sum("starts").over(in_order))
        .where(F.col("period") > 0)
        .groupBy(*who, "period")
        .agg(
            F.min("ts_wall_ns").alias("begin_ns"),
            F.max("ts_wall_ns").alias("end_ns"),
            (F.max(F.col("event") == S.UNSUBSCRIBE)).alias("said_goodbye"),
        )
    )


def promises(control: DataFrame) -> DataFrame:
    """What subscribers were told of a topic: its reliability, and who does not want its own messages.

    EXPECT says it again, for those whose SUBSCRIBE is gone; in older traces it says nothing.
    """
    again = (F.col("event") == S.EXPECT) & F.get_json_object("extra", "$.reliability").isNotNull()
    return (
        control.where((F.col("event") == S.SUBSCRIBE) | again)
        .groupBy("run_id", "topic_id", "node_id", "boot_id")
        .agg(
            F.max(F.coalesce(F.get_json_object("extra", "$.reliability"), F.lit(""))).alias(
                "reliability"
            ),
            F.max(
                F.coalesce(F.get_json_object("extra", "$.receive_own"), F.lit("true")) != "false"
            ).alias("receive_own"),
        )
    )


def collected(
    found: DataFrame, promised: DataFrame, offsets: dict[Clock, Offset]
) -> dict[tuple[str, bytes], Periods]:
    """The periods in corrected time, by (run, topic), in the form the kernel wants."""
    reluctant = {
        (row.run_id, bytes(row.topic_id), bytes(row.node_id), row.boot_id)
        for row in promised.where(~F.col("receive_own")).collect()
    }
    times: dict[tuple[str, bytes], dict[tuple[bytes, int], list[tuple[int, int]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in found.collect():
        node = bytes(row.node_id)
        known = offsets.get((row.run_id, node))
        shift = known.offset_ns if known else 0
        of_topic = times[row.run_id, bytes(row.topic_id)]
        of_topic[node, row.boot_id].append((row.begin_ns - shift, row.end_ns - shift))
    return {
        topic: _arranged(topic, of_topic, reluctant) for topic, of_topic in sorted(times.items())
    }


def _arranged(
    topic: tuple[str, bytes],
    of_topic: dict[tuple[bytes, int], list[tuple[int, int]]],
    reluctant: set[tuple[str, bytes, bytes, int]],
) -> Periods:
    readers = sorted(of_topic)
    turns = max(len(spans) for spans in of_topic.values())
    begins = np.full((len(readers), turns), NEVER, dtype=np.int64)
    ends = np.full((len(readers), turns), -NEVER, dtype=np.int64)
    for index, reader in enumerate(readers):
        for turn, (begin, end) in enumerate(sorted(of_topic[reader])):
            begins[index, turn], ends[index, turn] = begin, end
    return Periods(
        nodes=[node for node, _ in readers],
        boots=np.array([boot for _, boot in readers], dtype=np.int64),
        begins=begins,
        ends=ends,
        receive_own=np.array([(*topic, *reader) not in reluctant for reader in readers]),
    )
