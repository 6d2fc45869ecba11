"""Traces while they are written: sums that grow with every finished file.

Structured Streaming watches the directory. Spark sees a file when its writer has finished it
(``trace.segment_seconds`` in the nodes' configuration says how often), so figures lag by that much. Only
sums are followed: losses, delays and order need the whole run, and are ``analyze`` without ``--follow``.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from overlaymq.trace import schema as S
from overlaymq.trace.analysis.reading import SCHEMA
from overlaymq.trace.analysis.traffic import whole_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

EVERY = "2 seconds"
COUNTED = (S.PUBLISH, S.SEND, S.RECV, S.DELIVER, S.DUPLICATE, S.DROP, S.UNDELIVERABLE, S.MISS)
WORDS = {
    S.PUBLISH: "published",
    S.SEND: "sent",
    S.RECV: "received",
    S.DELIVER: "delivered",
    S.DUPLICATE: "duplicates",
    S.DROP: "dropped",
    S.UNDELIVERABLE: "untaken",
    S.MISS: "announced missing",
}


@dataclass
class Sums:
    """What has been seen so far."""

    topics: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    """Messages by event, by (run, topic)."""
    events: int = 0
    newest_ns: int = 0


def sums_of(events: DataFrame) -> DataFrame:
    """What is kept while files come: a row for each run, topic and event."""
    topic = F.when(F.col("topic") != "", F.col("topic")).otherwise(F.lower(F.hex("topic_id")))
    return events.groupBy("run_id", topic.alias("topic"), "event").agg(
        F.count("*").alias("rows"),
        F.sum(whole_messages()).alias("messages"),
        F.max("ts_wall_ns").alias("newest_ns"),
    )


@contextmanager
def following(
    spark: SparkSession, paths: Sequence[str], show: Callable[[Sums], None], *, once: bool = False
) -> Iterator[StreamingQuery]:
    """Call ``show`` with the sums whenever files have come; ``once``: for those that are there, then end."""
    streams = [
        spark.readStream.schema(SCHEMA)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .parquet(str(Path(path).absolute()) if "://" not in path else path)
        for path in paths
    ]
    events = streams[0]
    for stream in streams[1:]:
        events = events.unionByName(stream)

    def shown(batch: DataFrame, number: int) -> None:
        show(_collected(batch))

    writer = sums_of(events).writeStream.outputMode("complete").foreachBatch(shown)
    with tempfile.TemporaryDirectory(prefix="overlaymq-follow-") as checkpoints:
        writer = writer.option("checkpointLocation", checkpoints)
        when = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=EVERY)
        query = when.start()
        try:
            yield query
        finally:
            query.stop()


def _collected(batch: DataFrame) -> Sums:
    sums = Sums()
    for row in batch.collect():
        sums.events += row.rows
        sums.newest_ns = max(sums.newest_ns, row.newest_ns)
        if row.event in COUNTED and row.topic:
            of_topic = sums.topics.setdefault((row.run_id, row.topic), {})
            of_topic[row.event] = of_topic.get(row.event, 0) + row.messages
    return sums
