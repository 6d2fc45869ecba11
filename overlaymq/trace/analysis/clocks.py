"""How far apart the clocks of the nodes are, and one clock for all of them.

Nodes of one machine have one clock, and say so (``extra.clock`` of NODE rows). Two nodes that have measured
each other (CLOCK rows) know the difference of their clocks to half of the best round trip. Where such a
measurement is missing, the data says something: the fastest message from a to b took its delay plus the
difference of the clocks, the fastest one back its delay minus it; half of their difference is the clocks', if
both delays are alike. Where messages go one way only, nothing is corrected unless a message arrived before it
was sent, which no delay explains: then the clocks are moved by as much as makes that impossible.

Measurements are edges of a graph over the nodes, weighted by how wrong each can be. From one node of each
connected part, the way with the least sum of errors leads to every other: its sum of differences is that
node's offset. Each part's median offset is then set to zero. Parts that no edge joins cannot be compared;
their number is told.

One constant offset is taken for a node over the whole trace: clocks that drift, or are set while the run goes
on, are corrected on average only. The simulator's rows have virtual time (its nodes say so), and are never
corrected.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from overlaymq.trace import schema as S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

PAIRS_AT_MOST = 500_000
"""Messages looked at where CLOCK rows do not suffice: the fastest of some thousands will do. A guess."""

Clock = tuple[str, bytes]
"""(run, node)."""


@dataclass(frozen=True)
class Edge:
    """``b``'s clock minus ``a``'s, give or take ``error``."""

    a: Clock
    b: Clock
    difference: int
    error: int


@dataclass(frozen=True)
class Offset:
    """What is to be subtracted from a node's wall clock."""

    offset_ns: int
    error_ns: int
    group: int
    source: str


def measured_edges(control: DataFrame) -> list[Edge]:
    """From CLOCK rows: of each pair the measurement with the shortest round trip."""
    offset = F.get_json_object("extra", "$.offset_ns").cast("long")
    best = (
        control.where((F.col("event") == S.CLOCK) & (F.col("duration_ns") >= 0))
        .groupBy("run_id", "node_id", "peer_id")
        .agg(F.min(F.struct("duration_ns", offset.alias("offset"))).alias("best"))
        .where(F.col("best.offset").isNotNull())
        .collect()
    )
    return [
        Edge(
            (row.run_id, bytes(row.node_id)),
            (row.run_id, bytes(row.peer_id)),
            row.best.offset,
            max(1, row.best.duration_ns // 2),
        )
        for row in best
    ]


def corrected(frame: DataFrame, offsets: DataFrame, node: str = "node_id") -> DataFrame:
    """A frame whose ``ts_wall_ns`` is of the clock of ``node``, in the time of all."""
    at = F.col("ts_wall_ns") - F.coalesce(F.col("offset_ns"), F.lit(0))
    joined = frame.join(F.broadcast(offsets), ["run_id", node], "left")
    return joined.withColumn("ts_wall_ns", at).drop("offset_ns")


def virtual_runs(control: DataFrame) -> set[str]:
    """The runs whose nodes say that their time is the simulator's."""
    clock = F.get_json_object("extra", "$.clock")
    simulated = control.where((F.col("event") == S.NODE) & (clock == S.VIRTUAL))
    return {row.run_id for row in simulated.select("run_id").distinct().collect()}


def shared_edges(control: DataFrame) -> list[Edge]:
    """From NODE rows: nodes of one machine have one clock."""
    clock = F.get_json_object("extra", "$.clock")
    rows = (
        control.where((F.col("event") == S.NODE) & (clock != S.VIRTUAL))
        .select("run_id", "node_id", clock.alias("clock"))
        .distinct()
        .collect()
    )
    first: dict[tuple[str, str], Clock] = {}
    edges = []
    for run, node, name in sorted((row.run_id, bytes(row.node_id), row.clock) for row in rows):
        known = first.setdefault((run, name), (run, node))
        if known != (run, node):
            edges.append(Edge(known, (run, node), 0, 0))
    return edges


def fastest_messages(events: DataFrame, rows: int) -> list[tuple[Clock, Clock, int]]:
    """Of each link the least time from SEND to RECV, by the clocks of its two ends."""
    message = ["run_id", "topic_id", "msg_origin", "msg_epoch", "msg_seq", "chunk"]
    every = max(1, rows // PAIRS_AT_MOST)
    kept = F.pmod(F.xxhash64(*message), F.lit(every)) == 0
    sent = events.where((F.col("event") == S.SEND) & kept).select(
        *message,
        F.col("node_id").alias("a"),
        F.col("peer_id").alias("b"),
        F.col("ts_wall_ns").alias("sent"),
    )
    received = events.where((F.col("event") == S.RECV) & kept).select(
        *message,
        F.col("peer_id").alias("a"),
        F.col("node_id").alias("b"),
        F.col("ts_wall_ns").alias("received"),
    )
    took = F.col("received") - F.col("sent")
    found = (
        sent.join(received, [*message, "a", "b"])
        .groupBy("run_id", "a", "b")
        .agg(F.min(took).alias("least"))
        .collect()
    )
    return [((row.run_id, bytes(row.a)), (row.run_id, bytes(row.b)), row.least) for row in found]


def edges_of_messages(fastest: Iterable[tuple[Clock, Clock, int]]) -> list[Edge]:
    """Differences that the fastest messages tell: both ways, or one way against reason."""
    least = {(a, b): took for a, b, took in fastest}
    edges = []
    for (a, b), there in sorted(least.items()):
        back = least.get((b, a))
        if back is not None and a < b:
            edges.append(Edge(a, b, (there - back) // 2, max(1, abs(there + back) // 2)))
        elif back is None:
            # Nothing speaks against equal clocks unless the message arrived before it was sent.
            edges.append(Edge(a, b, min(there, 0), max(1, abs(there))))
    return edges


def solved(clocks: Iterable[Clock], measured: list[Edge], told: list[Edge]) -> dict[Clock, Offset]:
    """An offset for every clock: by measurements first, by what messages tell where these do not reach."""
    known = sorted(set(clocks))
    first = _spread(known, measured)
    groups = {offset.group for offset in first.values()}
    if len(groups) <= len({run for run, _ in known}) or not told:
        return first
    return _spread(known, measured + told, {edge.a for edge in measured} | {e.b for e in measured})


def _spread(
    clocks: list[Clock], edges: list[Edge], measured: set[Clock] | None = None
) -> dict[Clock, Offset]:
    near: dict[Clock, list[tuple[Clock, int, int]]] = {one: [] for one in clocks}
    for edge in edges:
        near.setdefault(edge.a, []).append((edge.b, edge.difference, edge.error))
        near.setdefault(edge.b, []).append((edge.a, -edge.difference, edge.error))
    found: dict[Clock, Offset] = {}
    group = 0
    for start in sorted(near):
        if start not in found:
            part = _reached(start, near)
            middle = median_low(offset for offset, _ in part.values())
            for one, (offset, error) in part.items():
                alone = len(part) == 1
                source = "alone" if alone else "CLOCK" if _by(one, measured) else "messages"
                found[one] = Offset(offset - middle, error, group, source)
            group += 1
    return found


def _by(clock: Clock, measured: set[Clock] | None) -> bool:
    return measured is None or clock in measured


def _reached(
    start: Clock, near: dict[Clock, list[tuple[Clock, int, int]]]
) -> dict[Clock, tuple[int, int]]:
    """Offset and error of every clock that edges lead to, by the least sum of errors."""
    done: dict[Clock, tuple[int, int]] = {}
    waiting = [(0, start, 0)]
    while waiting:
        error, one, offset = heapq.heappop(waiting)
        if one in done:
            continue
        done[one] = (offset, error)
        for other, difference, more in near[one]:
            if other not in done:
                heapq.heappush(waiting, (error + more, other, offset + difference))
    return done
