"""Every lost (message, subscriber), and the last node that had it on the way to the subscriber.

Which node that is, is read off the traces, the surest evidence first:

- ``subscriber``: the subscriber itself received it (RECV), had no room for it (UNDELIVERABLE) or dropped it;
- ``link``: a node sent it (SEND) to the subscriber, where it was not received;
- ``dropped``: a node discarded it (DROP) on its way to the subscriber;
- ``ancestor``: the nearest of the subscriber's parents at the time that received or published it; or one
  that became a parent soon afterwards and got the message later still (a new root, for instance);
- ``elsewhere``: none of these had it, but others did: the one that got it last;
- ``publisher``: nothing nearer is known.

Of several nodes with the same evidence the one that had it last is named. The reason is what that node said
when it discarded the message. What became of a SEND is not a reason: other copies had other fates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from overlaymq.trace import schema as S
from overlaymq.trace.analysis import climbing, clocks
from overlaymq.trace.analysis.climbing import climbed
from overlaymq.trace.analysis.shipping import by_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from overlaymq.trace.analysis.climbing import Times
    from overlaymq.trace.analysis.clocks import Clock
    from overlaymq.trace.analysis.trees import Change

MESSAGE = ("run_id", "topic_id", "msg_origin", "msg_epoch", "msg_seq")
DEEDS = (S.PUBLISH, S.SEND, S.RECV, S.DROP, S.REJECT, S.UNDELIVERABLE)
DISCARDS = (S.DROP, S.REJECT, S.UNDELIVERABLE)
LEAST_BUCKET = 16
"""Numbers by which rows are preselected, unless a run is longer. A guess."""
EVIDENCE = ("subscriber", "link", "dropped", "ancestor", "elsewhere")
ANCESTOR, ELSEWHERE = 3, 4

by_value(climbing)


def evidence(
    events: DataFrame, wanted: DataFrame, longest: int, offsets: DataFrame | None = None
) -> DataFrame:
    """What nodes did with wanted messages: one row a message, node it concerns, and deed.

    ``wanted`` has a ``target``: a deed concerns the node that received, or the one that was to receive. Rows
    are preselected by buckets of numbers, so that only those that may matter are taken apart into messages.
    """
    to_peer = F.col("event").isin(S.SEND, S.DROP) & (F.col("peer_id") != F.lit(b""))
    where_to = F.when(to_peer, F.col("peer_id")).otherwise(F.col("node_id"))
    rows = (
        events.where(F.col("event").isin(*DEEDS))
        .where(F.col("chunk") == F.col("chunks") - 1)
        .select(
            *(*MESSAGE, "msg_count", "event", "reason", "ts_wall_ns"),
            where_to.alias("target"),
            F.col("node_id").alias("holder"),
        )
    )
    return _apart(_at(rows, offsets), wanted, longest, "target")


def _at(rows: DataFrame, offsets: DataFrame | None) -> DataFrame:
    """Rows with the time of their ``holder`` in the time of all."""
    if offsets is None:
        return rows
    return clocks.corrected(rows, offsets.withColumnRenamed("node_id", "holder"), "holder")


def _apart(rows: DataFrame, wanted: DataFrame, longest: int, *also: str) -> DataFrame:
    """Runs taken apart into messages, of those the wanted ones; they agree in the columns ``also`` too."""
    key = [*MESSAGE[:-1], *also]
    size = max(LEAST_BUCKET, longest)
    bucket = F.floor(F.col("msg_seq") / size).alias("bucket")
    # A run is no longer than a bucket: one that holds a message begins in its bucket or in the one before.
    near = F.explode(F.array(bucket, bucket - 1)).alias("bucket")
    buckets = wanted.select(*key, near).distinct()
    last = F.col("msg_seq") + F.col("msg_count") - 1
    return (
        rows.where((F.col("msg_seq") >= 0) & (F.col("msg_count") > 0))
        .withColumn("bucket", bucket)
        .join(buckets, [*key, "bucket"], "left_semi")
        .withColumn("first_seq", F.col("msg_seq"))
        .withColumn("msg_seq", F.explode(F.sequence(F.col("msg_seq"), last)))
        .join(wanted.select(*MESSAGE, *also).distinct(), [*MESSAGE, *also], "left_semi")
        .drop("msg_count", "bucket")
    )


def announced_by_root(lost: DataFrame, events: DataFrame, longest: int) -> DataFrame:
    """Lost pairs with ``announced`` also where the subscriber was told by the root's number.

    On ordered topics a gap is announced as places in the root's order. Which message had which place is read
    off the rows of those that carried it.
    """
    carried = F.col("event").isin(S.SEND, S.RECV, S.DELIVER) & (F.col("root_seq") > 0)
    rows = events.where(carried).select(*MESSAGE, "msg_count", "root_epoch", "root_seq")
    place = (F.col("root_seq") + F.col("msg_seq") - F.col("first_seq")).alias("place")
    places = (
        _apart(rows, lost, longest)
        .select(*MESSAGE, "root_epoch", place)
        .groupBy(*MESSAGE)
        .agg(F.max(F.struct("root_epoch", "place")).alias("at"))
        .select(*MESSAGE, "at.root_epoch", "at.place")
    )
    told = events.where((F.col("event") == S.MISS) & (F.col("root_seq") > 0)).select(
        "run_id", "topic_id", "node_id", "boot_id", "root_epoch", "root_seq", "msg_count"
    )
    pair = [*MESSAGE, "node_id", "boot_id"]
    covers = (F.col("root_seq") <= F.col("place")) & (
        F.col("place") < F.col("root_seq") + F.col("msg_count")
    )
    known = (
        lost.join(places, [*MESSAGE])
        .join(told, ["run_id", "topic_id", "node_id", "boot_id", "root_epoch"])
        .where(covers)
        .select(*pair)
        .distinct()
        .withColumn("by_root", F.lit(True))
    )
    return (
        lost.join(known, pair, "left")
        .withColumn("announced", F.col("announced") | F.coalesce("by_root", F.lit(False)))
        .drop("by_root")
    )


def ancestors(pairs: DataFrame, changes: dict[Clock, list[Change]]) -> DataFrame:
    """The chain of parents of each subscriber at the time the message was published, nearest first, and those
    that were above it soon afterwards (``later``)."""
    times: Times = {}
    for (run, topic), of_topic in changes.items():
        for change in of_topic:
            times.setdefault((run, topic, change.node), []).append((change.at, change.parent))

    def climb(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return climbed(batches, times)

    columns = (*MESSAGE, "node_id", "boot_id", "published_ns")
    schema = "run_id string, topic_id binary, msg_origin binary, msg_epoch long, msg_seq long,"
    schema += "node_id binary, boot_id long, distance int, ancestor binary, later boolean"
    return pairs.select(*columns).mapInArrow(climb, schema)


def explained(
    lost: DataFrame,
    events: DataFrame,
    changes: dict[Clock, list[Change]],
    longest: int,
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    offsets: DataFrame | None = None,
) -> DataFrame:
    """The lost pairs with ``last_node``, the ``evidence`` for it, and the ``reason`` it gave if any.

    ``longest``: no row stands for more messages than that. ``keep``: persists what is used several times.
    ``offsets``: of the nodes' clocks.
    """
    pair = [*MESSAGE, "node_id", "boot_id"]
    itself = lost.select(*pair, F.lit(0).alias("distance"), F.col("node_id").alias("target"))
    itself = itself.withColumn("later", F.lit(False))
    above = ancestors(lost, changes).withColumnRenamed("ancestor", "target")
    wanted = keep(itself.unionByName(above))
    had = (F.col("event") != S.SEND) & (F.col("holder") == F.col("target"))
    rank = (
        F.when(F.col("distance") > 0, F.when(had, ANCESTOR))
        .when(had, 0)
        .when(F.col("event") == S.SEND, 1)
        .otherwise(2)
    )
    when = F.col("ts_wall_ns")
    said = F.col("event").isin(*DISCARDS) & (F.col("reason") != "")
    holders = (
        wanted.join(evidence(events, wanted, longest, offsets), [*MESSAGE, "target"])
        .withColumn("rank", rank)
        .where(F.col("rank").isNotNull())
        .groupBy(*pair, "later", "distance", "holder")
        .agg(
            F.min(F.struct("rank", (-when).alias("latest"))).alias("deed"),
            F.min(when).alias("first"),
            F.max(F.when(said, F.struct(when, "reason"))).alias("said"),
        )
        .select("*", "deed.rank", "deed.latest", "said.reason")
    )
    facts = ("holder", "first", "reason")
    nearest = F.when(~F.col("later"), F.struct("rank", "distance", "latest", *facts))
    newest = F.when(F.col("later"), F.struct("first", "rank", "holder", "reason"))
    surest = holders.groupBy(*pair).agg(
        F.min(nearest).alias("nearest"), F.max(newest).alias("newest")
    )
    overtaken = (F.col("nearest.rank") == ANCESTOR) & (
        F.col("newest.first") > F.col("nearest.first")
    )
    later = F.col("nearest").isNull() | F.coalesce(overtaken, F.lit(False))
    best = {
        name: F.when(later, F.col(f"newest.{name}")).otherwise(F.col(f"nearest.{name}"))
        for name in ("rank", "holder", "reason")
    }
    named = keep(surest.select(*pair, *(column.alias(name) for name, column in best.items())))
    rest = lost.join(named, pair, "left_anti")
    others = elsewhere(events, rest, longest, offsets)
    others = rest.select(*pair).join(others, [*MESSAGE]).withColumn("reason", F.lit(""))
    every = named.unionByName(others.withColumn("rank", F.lit(ELSEWHERE)))
    word = F.get(F.array(*map(F.lit, EVIDENCE)), F.col("rank"))
    return (
        lost.join(every, pair, "left")
        .withColumn("evidence", F.coalesce(word, F.lit("publisher")))
        .withColumn("last_node", F.coalesce("holder", "msg_origin"))
        .fillna("", ["reason"])
        .drop("rank", "holder")
    )


def elsewhere(
    events: DataFrame, wanted: DataFrame, longest: int, offsets: DataFrame | None = None
) -> DataFrame:
    """Of each wanted message the node, other than its publisher, that got it last."""
    received = (F.col("event") == S.RECV) & (F.col("chunk") == F.col("chunks") - 1)
    rows = events.where(received & (F.col("node_id") != F.col("msg_origin"))).select(
        *(*MESSAGE, "msg_count", "ts_wall_ns"), F.col("node_id").alias("holder")
    )
    return (
        _apart(_at(rows, offsets), wanted, longest)
        .groupBy(*MESSAGE, "holder")
        .agg(F.min("ts_wall_ns").alias("first"))
        .groupBy(*MESSAGE)
        .agg(F.max(F.struct("first", "holder")).alias("last"))
        .select(*MESSAGE, "last.holder")
    )
