"""The whole analysis: every table from the traces of one or many runs.

The events are read a handful of times, each time for a few columns only: for the sums, for the overlay's own
life (small, kept), for the messages' journeys, for the order of deliveries, for the course of time, and
once more if something was lost. Everything else works on what these leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F

from overlaymq.trace import schema as S
from overlaymq.trace.analysis import (
    clocks,
    histogram,
    journeys,
    kernel,
    losses,
    order,
    relative,
    sampling,
    subscribers,
    traffic,
    trees,
)
from overlaymq.trace.analysis.headline import Headline
from overlaymq.trace.analysis.tables import Names, Table, made, presented

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GRACE_SECONDS = 1.0
"""How long after READY, and before its last sign of life, a subscriber may miss a message without blame. A
guess: a join and its acknowledgement take some round trips, signs of life come once a second."""

Progress = Callable[[str, int, int], None]
STEPS = (
    "adding up",
    "the overlay's own life",
    "clocks",
    "subscribers",
    "following messages",
    "order",
    "losses",
    "trees",
    "over time",
    "tables",
)

PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


@dataclass(frozen=True)
class Found:
    """All results."""

    headline: Headline
    tables: dict[str, Table]


def analyse(
    events: DataFrame,
    *,
    grace: float = GRACE_SECONDS,
    baseline: DataFrame | None = None,
    progress: Progress | None = None,
) -> Found:
    """Every table from a DataFrame of events (``reading.read``)."""
    return _Analysis(events, grace, baseline, progress or (lambda text, done, total: None)).run()


class _Analysis:
    def __init__(
        self, events: DataFrame, grace: float, baseline: DataFrame | None, progress: Progress
    ) -> None:
        self.events = events
        self.spark = events.sparkSession
        self.grace = grace
        # Before all else: what is wrong with it should not be found after minutes.
        self.given = {} if baseline is None else relative.from_table(baseline)
        self.progress = progress
        self.tables: dict[str, Table] = {}
        self.kept: list[DataFrame] = []

    def run(self) -> Found:
        try:
            for done, (name, step) in enumerate(
                zip(
                    STEPS,
                    (
                        self._add_up,
                        self._keep_control,
                        self._set_clocks,
                        self._find_subscribers,
                        self._follow,
                        self._check_order,
                        self._explain_losses,
                        self._look_at_trees,
                        self._over_time,
                        self._tabulate,
                    ),
                    strict=True,
                )
            ):
                self.progress(name, done, len(STEPS))
                step()
            self.progress("done", len(STEPS), len(STEPS))
            return Found(Headline.of(self.tables, self.summary), self.tables)
        finally:
            for frame in self.kept:
                frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self.kept.append(frame)
        return frame.persist(StorageLevel.MEMORY_AND_DISK)

    def _add_up(self) -> None:
        self.totals = self._keep(traffic.sums(self.events))
        self.lives = traffic.nodes_seen(self.totals).collect()
        self.topics = self._keep(traffic.topics_seen(self.totals))
        by_event = (
            self.totals.groupBy("event")
            .agg(F.sum("rows"), F.sum("messages"), F.max("longest"))
            .collect()
        )
        carried = (S.PUBLISH, S.SEND, S.RECV, S.DELIVER, S.UNDELIVERABLE)
        self.longest = max((row[3] for row in by_event if row.event in carried), default=1)
        self.rows = {row.event: row[1] for row in by_event}
        self.messages = {row.event: row[2] or 0 for row in by_event}

    def _keep_control(self) -> None:
        self.control = self._keep(traffic.control(self.events))
        self.shares = sampling.shares(self.control)

    def _set_clocks(self) -> None:
        self.edges = clocks.measured_edges(self.control)
        known = clocks.shared_edges(self.control) + self.edges
        self.virtual = clocks.virtual_runs(self.control)
        real = [
            (row.run_id, bytes(row.node_id)) for row in self.lives if row.run_id not in self.virtual
        ]
        found = clocks.solved(real, known, [])
        if len({one.group for one in found.values()}) > len({run for run, _ in real}):
            fastest = clocks.fastest_messages(self.events, self.rows.get(S.SEND, 0))
            ours = set(real)
            told = clocks.edges_of_messages(
                (a, b, took) for a, b, took in fastest if a in ours and b in ours
            )
            found = clocks.solved(real, known, told)
        self.offsets = found
        rows = [(run, node, one.offset_ns) for (run, node), one in found.items() if one.offset_ns]
        self.offset_frame = self.spark.createDataFrame(
            rows, "run_id string, node_id binary, offset_ns long"
        )
        starts: dict[str, int] = {}
        self.last_seen: dict[clocks.Clock, int] = {}
        for row in self.lives:
            clock = (row.run_id, bytes(row.node_id))
            begin, end = (self._corrected(clock, at) for at in (row.first_ns, row.last_ns))
            starts[row.run_id] = min(begin, starts.get(row.run_id, begin))
            self.last_seen[clock] = max(end, self.last_seen.get(clock, end))
        named = {
            (row.run_id, bytes(row.topic_id)): (row.topic or "", row.strategy or "")
            for row in self.topics.collect()
        }
        self.names = Names(named, starts)

    def _corrected(self, clock: clocks.Clock, at: int) -> int:
        known = self.offsets.get(clock)
        return at - (known.offset_ns if known else 0)

    def _find_subscribers(self) -> None:
        self.promised = self._keep(subscribers.promises(self.control))
        self.periods = subscribers.collected(
            subscribers.periods(self.control), self.promised, self.offsets
        )

    def _follow(self) -> None:
        world = kernel.World(
            offsets={clock: one.offset_ns for clock, one in self.offsets.items() if one.offset_ns},
            periods=self.periods,
            grace_ns=int(self.grace * 1e9),
        )
        found = journeys.followed(
            self.events,
            world,
            rows=sum(self.rows.get(event, 0) for event in journeys.FOLLOWED),
            deliveries=self.rows.get(S.DELIVER, 0),
            published=self.messages.get(S.PUBLISH, 0),
        )
        self.found = self._keep(found)
        self.paths = self._keep(journeys.paths(self.found))
        self.dues = self._keep(journeys.dues(self.found))
        self.lost = journeys.lost(self.found)
        self.delays = journeys.delays(self.found).collect()

    def _check_order(self) -> None:
        self.back = self._keep(order.went_back(self.events))
        self.readers_order = self._keep(order.by_reader(self.back, self.events, self.promised))
        columns = ["run", "topic", "strategy", "node", "boot", "reliability"]
        columns += ["late", "root_late", "repeated", "violations"]
        self._present("order", self.readers_order, columns, ["run", "-violations", "topic", "node"])
        columns = ["run", "topic", "node", "boot", "order", "origin", "epoch", "seq", "msg_count"]
        columns += ["messages", "behind_epoch", "behind_seq", "at_s"]
        self._present(
            "order_events",
            self._when(self.back),
            columns,
            ["run", "topic", "node", "at_s", "seq"],
        )

    def _explain_losses(self) -> None:
        self.changes = trees.parent_changes(self.control, self.offsets)
        columns = ["run", "topic", "strategy", "origin", "epoch", "seq", "node", "boot"]
        columns += ["published_s", "announced", "untaken", "evidence", "last_node", "reason"]
        lost = self._keep(self.lost)
        if lost.limit(1).count():
            if self.rows.get(S.MISS):
                lost = self._keep(losses.announced_by_root(lost, self.events, self.longest))
            self.lost = lost
            lost = losses.explained(
                lost, self.events, self.changes, self.longest, self._keep, self.offset_frame
            )
        else:
            lost = lost.withColumns(
                {name: F.lit("") for name in ("evidence", "last_node", "reason")}
            )
        self._present(
            "losses",
            self._with_seconds(lost, "published_ns", "published_s"),
            columns,
            ["run", "topic", "origin", "epoch", "seq", "node"],
        )

    def _starts(self) -> DataFrame:
        return self.spark.createDataFrame(
            sorted(self.names.starts.items()), "run_id string, start long"
        )

    def _with_seconds(self, frame: DataFrame, column: str, name: str) -> DataFrame:
        since = F.round((F.col(column) - F.col("start")) / 1e9, 6)
        return frame.join(F.broadcast(self._starts()), "run_id", "left").withColumn(name, since)

    def _when(self, frame: DataFrame) -> DataFrame:
        """With ``at_s`` from the wall clocks of its nodes."""
        at = clocks.corrected(frame, self.offset_frame)
        return self._with_seconds(at, "ts_wall_ns", "at_s")

    def _present(self, name: str, frame: DataFrame, columns: list[str], ordered: list[str]) -> None:
        self.tables[name] = presented(name, frame, self.topics, columns, ordered)

    def _look_at_trees(self) -> None:
        self.shapes = trees.shapes(self.changes, self.last_seen)
        columns = ["run", "topic", "strategy", "at_s", "node", "boot", "repaired", "duration_ms"]
        columns += ["old_parent", "new_parent"]
        self._present(
            "repairs",
            self._when(trees.repairs(self.control)).withColumn(
                "duration_ms", F.col("duration_ns") / 1e6
            ),
            columns,
            ["run", "topic", "at_s", "node"],
        )

    def _over_time(self) -> None:
        self._present(
            "throughput",
            traffic.over_time(self.events, self.offset_frame, self._starts()),
            ["run", "topic", "strategy", "event", "at_s", "messages", "bytes"],
            ["run", "topic", "at_s", "event"],
        )

    def _tabulate(self) -> None:
        self._traffic_tables()
        self._delay_tables()
        self._subscriber_tables()
        self._tree_tables()
        self._clock_tables()
        self._run_tables()
        self._topic_table()

    def _traffic_tables(self) -> None:
        self._present(
            "nodes",
            traffic.node_stress(self.totals).where(F.col("node_id") != F.lit(b"")),
            [
                *("run", "node", "published", "received", "sent", "delivered", "consumed"),
                *("duplicates", "dropped", "trace_lost", "bytes_received", "bytes_sent"),
            ],
            ["run", "-sent", "node"],
        )
        self._present(
            "links",
            traffic.link_stress(self.totals),
            ["run", "node", "peer", "messages", "bytes", "topics"],
            ["run", "-messages", "node", "peer"],
        )
        self._present(
            "redundancy",
            traffic.redundancy(self.totals),
            ["run", "topic", "strategy", "sent", "received", "duplicates", "rmr"],
            ["run", "topic"],
        )
        self._present(
            "drops",
            traffic.drops(self.totals),
            ["run", "event", "reason", "topic", "strategy", "messages", "times", "nodes"],
            ["run", "event", "-messages", "reason", "topic"],
        )

    def _delay_tables(self) -> None:
        groups: dict[tuple[str, str, str], dict[int, int]] = {}
        for row in self.delays:
            topic = bytes(row.topic_id)
            keys = [("hops", str(row.hop))]
            if row.hop != 0:
                keys += [
                    ("all", ""),
                    ("topic", self.names.topic(row.run_id, topic)),
                    ("strategy", self.names.strategy(row.run_id, topic)),
                ]
            for scope, key in keys:
                counts = groups.setdefault((row.run_id, scope, key), {})
                counts[row.bucket] = counts.get(row.bucket, 0) + row.messages
        self.tables["latency"] = made(
            "latency",
            (
                {"run": run, "by": scope, "value": key} | _summary(counts)
                for (run, scope, key), counts in sorted(groups.items(), key=_natural)
            ),
            [
                *((name, pa.string()) for name in ("run", "by", "value")),
                *(("messages", pa.int64()), ("negative", pa.int64()), ("mean_ms", pa.float64())),
                *((name, pa.float64()) for name in (*PERCENTILES, "most_ms")),
            ],
        )
        self.tables["latency_cdf"] = made(
            "latency_cdf",
            (
                {"run": run, "by": scope, "value": key, "ms": value / 1e6, "share": share}
                for (run, scope, key), counts in sorted(groups.items(), key=_natural)
                for value, share in histogram.cumulative(counts)
            ),
            [
                *((name, pa.string()) for name in ("run", "by", "value")),
                *((name, pa.float64()) for name in ("ms", "share")),
            ],
        )

    def _subscriber_tables(self) -> None:
        key = ["run_id", "topic_id", "msg_origin", "node_id", "boot_id"]
        mean = F.when(F.col("delivered") > 0, F.col("delay_sum") / F.col("delivered") / 1e6)
        known = self.lost.groupBy(*key).agg(
            F.sum(F.col("announced").cast("long")).alias("announced"),
            F.sum((F.col("untaken") & ~F.col("announced")).cast("long")).alias("untaken"),
        )
        both = self._keep(
            self.paths.join(self.dues, key, "full").join(known, key, "left").fillna(0)
        )
        numbers = ("expected", "lost", "announced", "untaken", "delivered", "uncertain", "repeated")
        self.counted = _summed(both, (*numbers, "unmatched"))
        self._present(
            "subscribers",
            both.withColumns(
                {
                    "mean_ms": F.round(mean, 6),
                    "most_ms": F.when(F.col("delivered") > 0, F.col("delay_most") / 1e6),
                }
            ),
            [
                *("run", "topic", "strategy", "origin", "node", "boot", "expected", "lost"),
                *("announced", "untaken", "delivered", "uncertain", "repeated", "unmatched"),
                *("mean_ms", "most_ms"),
            ],
            ["run", "-lost", "topic", "origin", "node"],
        )
        self._present(
            "negative_latency",
            self.paths.where(F.col("negative") > 0).withColumn(
                "least_ms", F.col("delay_least") / 1e6
            ),
            ["run", "topic", "origin", "node", "negative", "delivered", "least_ms"],
            ["run", "least_ms", "topic", "origin", "node"],
        )
        base = relative.from_clocks(self.edges) | self.given
        found = relative.relative_delays(self.paths.collect(), base) if base else []
        self.tables["relative_delay"] = made(
            "relative_delay",
            (
                {"topic": self.names.topic(one.run_id, one.topic_id), "run": one.run_id}
                | {"origin": one.msg_origin.hex()}
                | {name: value for name, value in asdict(one).items() if not name.endswith("_id")}
                for one in found
            ),
            [
                *((name, pa.string()) for name in ("run", "topic", "origin")),
                *((name, pa.int64()) for name in ("subscribers", "without_baseline")),
                *((name, pa.float64()) for name in ("mean_ms", "baseline_mean_ms", "rad", "rmd")),
            ],
        )

    def _tree_tables(self) -> None:
        self.tables["trees"] = made(
            "trees",
            (
                {"run": one.run_id, "topic": self.names.topic(one.run_id, one.topic_id)}
                | {"at_s": self.names.seconds(one.run_id, one.at_ns)}
                | {name: value for name, value in asdict(one).items() if not name.endswith("_id")}
                for one in trees.shape_rows(self.shapes)
            ),
            [
                *(("run", pa.string()), ("topic", pa.string()), ("at_s", pa.float64())),
                *(("nodes", pa.int64()), ("roots", pa.int64()), ("depth_mean", pa.float64())),
                *((name, pa.int64()) for name in ("depth_most", "children_most", "looped")),
            ],
        )
        went_down = (F.col("event") == S.NODE) & (F.col("reason") == "down")
        special = self.control.where(F.col("event").isin(S.FAULT, S.CHECK) | went_down).drop(
            "topic_id"
        )
        self._present(
            "incidents",
            self._when(special),
            ["run", "at_s", "event", "reason", "node", "peer", "extra"],
            ["run", "at_s", "event", "node"],
        )

    def _clock_tables(self) -> None:
        self.tables["clocks"] = made(
            "clocks",
            (
                {"run": run, "node": node.hex(), "offset_ms": one.offset_ns / 1e6}
                | {"error_ms": one.error_ns / 1e6, "group": one.group, "source": one.source}
                for (run, node), one in sorted(self.offsets.items())
            ),
            [
                *(("run", pa.string()), ("node", pa.string()), ("offset_ms", pa.float64())),
                *(("error_ms", pa.float64()), ("group", pa.int64()), ("source", pa.string())),
            ],
        )

    def _run_tables(self) -> None:
        of_run: dict[str, dict[str, Any]] = {}
        for row in self.lives:
            clock = (row.run_id, bytes(row.node_id))
            one = of_run.setdefault(
                row.run_id,
                {"run": row.run_id, "start_ns": self.names.starts[row.run_id]}
                | {"end": 0, "events": 0, "nodes": set(), "virtual": row.run_id in self.virtual},
            )
            one["end"] = max(one["end"], self.last_seen[clock])
            one["events"] += row.events
            one["nodes"].add(clock)
        lost = {
            row.run_id: row.lost
            for row in self.totals.where(F.col("event") == S.TRACE_LOSS)
            .groupBy("run_id")
            .agg(F.sum("messages").alias("lost"))
            .collect()
        }
        self.tables["runs"] = made(
            "runs",
            (
                one
                | {"seconds": (one["end"] - one["start_ns"]) / 1e9, "nodes": len(one["nodes"])}
                | {"topics": sum(key[0] == run for key in self.names.topics)}
                | {"trace_lost": lost.get(run, 0)}
                | dict(
                    zip(("sample", "sample_most"), self.shares.get(run, (1.0, 1.0)), strict=True)
                )
                for run, one in sorted(of_run.items())
            ),
            [
                *(("run", pa.string()), ("start_ns", pa.int64()), ("seconds", pa.float64())),
                *((name, pa.int64()) for name in ("nodes", "topics", "events", "trace_lost")),
                *(("virtual", pa.bool_()), ("sample", pa.float64()), ("sample_most", pa.float64())),
            ],
        )

    def _topic_table(self) -> None:
        self.summary: dict[str, Any] = {
            "rows": sum(self.rows.values()),
            "messages": dict(self.messages),
        }
        overall: dict[int, int] = {}
        for row in self.delays:
            if row.hop != 0:
                overall[row.bucket] = overall.get(row.bucket, 0) + row.messages
        self.summary["latency"] = _summary(overall)
        published = {
            (row.run_id, bytes(row.topic_id)): row.messages
            for row in self.totals.where(F.col("event") == S.PUBLISH)
            .groupBy("run_id", "topic_id")
            .agg(F.sum("messages").alias("messages"))
            .collect()
        }
        promised = {
            (row.run_id, bytes(row.topic_id)): row.reliability
            for row in self.promised.groupBy("run_id", "topic_id")
            .agg(F.max("reliability").alias("reliability"))
            .collect()
        }
        violations = _summed(self.readers_order, ("violations", "late"))
        doubled = {
            (row["run"], row["topic"]): {"duplicates": row["duplicates"], "rmr": row["rmr"]}
            for row in self.tables["redundancy"].data.to_pylist()
        }
        delay = {
            (row["run"], row["value"]): row
            for row in self.tables["latency"].data.to_pylist()
            if row["by"] == "topic"
        }
        rows = []
        for run, topic in sorted(self.names.topics):
            key = (run, self.names.topic(run, topic))
            periods = self.periods.get((run, topic))
            line: dict[str, Any] = {
                "run": run,
                "topic": key[1],
                "strategy": self.names.strategy(run, topic),
            }
            line |= {"reliability": promised.get((run, topic), "")}
            line |= {"published": published.get((run, topic), 0)}
            line |= {"subscribers": len(periods.nodes) if periods else 0}
            line |= self.counted.get((run, topic), {}) | violations.get((run, topic), {})
            line |= doubled.get(key, {})
            if line.get("expected"):
                line["delivery_ratio"] = 1 - line["lost"] / line["expected"]
            line |= {
                name: delay[key][name] for name in ("p50_ms", "p99_ms", "most_ms") if key in delay
            }
            rows.append(line)
        numbers = [
            *("published", "subscribers", "expected", "lost", "announced", "untaken", "delivered"),
            *("uncertain", "repeated", "unmatched", "violations", "late", "duplicates"),
        ]
        self.tables["topics"] = made(
            "topics",
            (dict.fromkeys(numbers, 0) | row for row in rows),
            [
                *((name, pa.string()) for name in ("run", "topic", "strategy", "reliability")),
                *((name, pa.int64()) for name in numbers),
                *((name, pa.float64()) for name in ("rmr", "delivery_ratio")),
                *((name, pa.float64()) for name in ("p50_ms", "p99_ms", "most_ms")),
            ],
        )


def _natural(item: tuple[tuple[str, str, str], Any]) -> tuple[str, str, int, str]:
    """Hops as numbers, the rest as words."""
    (run, scope, key), _ = item
    return (run, scope, int(key) if scope == "hops" else 0, key)


def _summary(counts: dict[int, int]) -> dict[str, Any]:
    total = sum(counts.values())
    if not total:
        return {"messages": 0, "negative": 0}
    mean = sum(histogram.middle_of(bucket) * count for bucket, count in sorted(counts.items()))
    return (
        {
            "messages": total,
            "negative": sum(count for bucket, count in counts.items() if bucket < 0),
            "mean_ms": mean / total / 1e6,
            "most_ms": histogram.middle_of(max(counts)) / 1e6,
        }
    ) | {
        name: (histogram.percentile(counts, share) or 0.0) / 1e6
        for name, share in PERCENTILES.items()
    }


def _summed(frame: DataFrame, columns: tuple[str, ...]) -> dict[tuple[str, bytes], dict[str, int]]:
    """Sums by (run, topic)."""
    sums = (F.sum(name).alias(name) for name in columns)
    return {
        (row.run_id, bytes(row.topic_id)): {name: row[name] or 0 for name in columns}
        for row in frame.groupBy("run_id", "topic_id").agg(*sums).collect()
    }
