"""The trees: their shape over time, and how long their repairs took."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from overlaymq.trace import schema as S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from overlaymq.trace.analysis.clocks import Clock, Offset

SAMPLES = 60
"""Looks at each tree over a run: as many as a plot shows."""


LINGER = 2_000_000_000
"""Nanoseconds: twice the time between two signs of life."""


@dataclass(frozen=True)
class Shape:
    """One tree at one time. ``roots`` are nodes that feed others and are fed by nobody; ``looped`` nodes are
    in a circle, or below one."""

    run_id: str
    topic_id: bytes
    at_ns: int
    nodes: int
    roots: int
    depth_mean: float
    depth_most: int
    children_most: int
    looped: int


@dataclass(frozen=True)
class Change:
    """A node's parent from ``at`` on; none if it was lost."""

    at: int
    node: bytes
    parent: bytes | None


def parent_changes(control: DataFrame, offsets: dict[Clock, Offset]) -> dict[Clock, list[Change]]:
    """Every change of a parent in corrected time, by (run, topic), in order."""
    changes: dict[Clock, list[Change]] = defaultdict(list)
    rows = (
        control.where(F.col("event").isin(S.PARENT_SET, S.PARENT_LOST))
        .select("run_id", "topic_id", "node_id", "peer_id", "event", "ts_wall_ns")
        .collect()
    )
    for row in rows:
        node = bytes(row.node_id)
        known = offsets.get((row.run_id, node))
        parent = bytes(row.peer_id) if row.event == S.PARENT_SET else None
        change = Change(row.ts_wall_ns - (known.offset_ns if known else 0), node, parent)
        changes[row.run_id, bytes(row.topic_id)].append(change)
    for of_topic in changes.values():
        of_topic.sort(key=lambda change: (change.at, change.parent is not None, change.node))
    return changes


def shapes(
    changes: dict[Clock, list[Change]], lives: dict[Clock, int], samples: int = SAMPLES
) -> list[Shape]:
    """Each tree at regular times; a node counts until ``LINGER`` after its last sign of life (``lives``)."""
    ends: dict[str, int] = {}
    for (run, _), last in lives.items():
        ends[run] = max(ends.get(run, last), last)
    found = []
    for (run, topic), of_topic in sorted(changes.items()):
        begin = of_topic[0].at
        end = max(ends.get(run, begin), of_topic[-1].at)
        parents: dict[bytes, bytes] = {}
        next_change = 0
        for sample in range(1, samples + 1):
            at = begin + (end - begin) * sample // samples
            while next_change < len(of_topic) and of_topic[next_change].at <= at:
                _apply(parents, of_topic[next_change])
                next_change += 1
            alive = {
                child: parent
                for child, parent in parents.items()
                if lives.get((run, child), at) + LINGER >= at
            }
            if alive:
                found.append(_shape(run, topic, at, alive))
    return found


def _apply(parents: dict[bytes, bytes], change: Change) -> None:
    if change.parent is None:
        parents.pop(change.node, None)
    else:
        parents[change.node] = change.parent


def _shape(run: str, topic: bytes, at: int, parents: dict[bytes, bytes]) -> Shape:
    depths, looped = depths_of(parents)
    children: dict[bytes, int] = defaultdict(int)
    for parent in parents.values():
        children[parent] += 1
    fed = [depth for depth in depths.values() if depth > 0]
    return Shape(
        run_id=run,
        topic_id=topic,
        at_ns=at,
        nodes=len(depths) + looped,
        roots=sum(depth == 0 for depth in depths.values()),
        depth_mean=fmean(fed) if fed else 0.0,
        depth_most=max(fed, default=0),
        children_most=max(children.values()),
        looped=looped,
    )


def depths_of(parents: dict[bytes, bytes]) -> tuple[dict[bytes, int], int]:
    """How far each node is from its root, and how many nodes never come to one."""
    depths: dict[bytes, int] = {parent: 0 for parent in parents.values() if parent not in parents}
    lost: set[bytes] = set()
    for start in parents:
        way = []
        node = start
        passed = set()
        while node not in depths and node not in lost and node not in passed:
            passed.add(node)
            way.append(node)
            node = parents[node]
        if node in depths:
            depths.update((one, step) for step, one in enumerate(reversed(way), depths[node] + 1))
        else:
            lost.update(way)
    return depths, len(lost)


def repairs(control: DataFrame) -> DataFrame:
    """Each loss of a parent, and how long until there was another.

    A node that says so itself (REPAIR, with how long it took) is believed; else the time from PARENT_LOST
    to the next PARENT_SET counts. A subscriber's loss that nothing follows is there too, with ``repaired``
    false; one after an UNSUBSCRIBE, or of a mere forwarder, is a parting and is not.
    """
    key = ("run_id", "topic_id", "node_id", "boot_id")
    rank = F.when(F.col("event").isin(S.UNSUBSCRIBE, S.PARENT_LOST), 0).otherwise(1)
    in_order = Window.partitionBy(*key).orderBy("ts_mono_ns", rank)
    until_now = in_order.rowsBetween(Window.unboundedPreceding, 0)
    subscribed = F.when(F.col("event") == S.SUBSCRIBE, True).when(
        F.col("event") == S.UNSUBSCRIBE, False
    )
    changes = F.col("event").isin(S.PARENT_LOST, S.PARENT_SET, S.REPAIR)
    ordered = (
        control.where(changes | F.col("event").isin(S.SUBSCRIBE, S.UNSUBSCRIBE))
        .withColumn("subscribed", F.last(subscribed, ignorenulls=True).over(until_now))
        .where(changes)
        .withColumns(
            {
                f"next_{name}": F.lead(name).over(in_order)
                for name in ("event", "ts_mono_ns", "peer_id")
            }
        )
        .withColumn("tells", F.max(_tells_repair().cast("int")).over(Window.partitionBy(*key)) == 1)
    )
    lost = F.col("event") == S.PARENT_LOST
    followed = lost & (F.col("next_event") == S.PARENT_SET) & ~F.col("tells")
    ended = lost & F.col("next_event").isNull() & F.coalesce("subscribed", F.lit(False))
    took = F.when(_tells_repair(), F.col("duration_ns")).when(
        followed, F.col("next_ts_mono_ns") - F.col("ts_mono_ns")
    )
    begun = F.col("ts_wall_ns") - F.when(_tells_repair(), F.col("duration_ns")).otherwise(0)
    return ordered.where(_tells_repair() | followed | ended).select(
        *key,
        begun.alias("ts_wall_ns"),
        F.when(lost, F.col("peer_id")).alias("old_parent"),
        F.when(_tells_repair(), F.col("peer_id"))
        .otherwise(F.col("next_peer_id"))
        .alias("new_parent"),
        took.isNotNull().alias("repaired"),
        took.alias("duration_ns"),
    )


def _tells_repair() -> Column:
    return (F.col("event") == S.REPAIR) & (F.col("duration_ns") >= 0)


def shape_rows(found: Iterable[Shape]) -> list[Shape]:
    """In the order of run, topic and time."""
    return sorted(found, key=lambda one: (one.run_id, one.topic_id, one.at_ns))
