"""Tables for people: names for ids, milliseconds for nanoseconds, rows in a fixed order.

``TABLES`` says what each table is. The same text is in docs/analysis.md, on the report and above the table on
the terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

IN_MEMORY = 1_000_000
"""Rows of a table that are brought to the driver: of a longer one the first, and ``rows`` says how many."""

TABLES = {
    "runs": "Each run: when, how long, its nodes, topics and events, and what the tracers lost or left out.",
    "topics": "Each topic at a glance: expected, delivered and lost messages, redundancy, order, delay.",
    "losses": "Every lost (message, subscriber): whether it was announced, and the last node that had it.",
    "subscribers": "Each subscriber of each topic and publisher: expected, delivered, lost, delivered twice.",
    "latency": "Delay from publication to delivery, over all and by topic, strategy and hops.",
    "latency_cdf": "The same as curves: which share of messages took no longer.",
    "negative_latency": "Messages that seem to arrive before they were published: clocks that still differ.",
    "redundancy": "Payload receptions, duplicates among them, and RMR by topic (0: none came twice).",
    "order": "Messages delivered late or twice, by subscriber, and whether that breaks a promise.",
    "order_events": "Each run of deliveries that went back in its publisher's or in the root's order.",
    "drops": "What was discarded, refused, announced missing or left untraced, by reason.",
    "throughput": "Messages and bytes by topic and second.",
    "nodes": "What each node carried.",
    "links": "What each directed link carried.",
    "trees": "Each tree over time: nodes, roots, depth, children.",
    "repairs": "Each loss of a parent, and how long until there was another.",
    "relative_delay": "RAD and RMD: delay against sending directly, by publisher.",
    "clocks": "How far each node's clock was off, how sure that is, and by what it is known.",
    "incidents": "Faults that were injected, checks that failed, nodes that went down.",
}


@dataclass(frozen=True)
class Table:
    """A named result: its rows in memory, and the whole of it where that is longer."""

    name: str
    data: pa.Table
    rows: int
    whole: DataFrame | None = None

    @property
    def about(self) -> str:
        """What it is."""
        return TABLES[self.name]


@dataclass(frozen=True)
class Names:
    """What runs began, and what topics are called."""

    topics: dict[tuple[str, bytes], tuple[str, str]] = field(default_factory=dict)
    """Name and strategy by (run, topic id)."""
    starts: dict[str, int] = field(default_factory=dict)
    """Corrected time of the first event by run."""

    def topic(self, run: str, topic: bytes) -> str:
        """A topic's name, or its id where nobody named it."""
        return self.topics.get((run, topic), ("", ""))[0] or topic.hex()

    def strategy(self, run: str, topic: bytes) -> str:
        """A topic's strategy, where known."""
        return self.topics.get((run, topic), ("", ""))[1]

    def seconds(self, run: str, at_ns: int) -> float:
        """Since the run's first event."""
        return round((at_ns - self.starts.get(run, 0)) / 1e9, 6)


def made(name: str, rows: Iterable[dict[str, Any]], columns: Sequence[tuple[str, Any]]) -> Table:
    """A table from rows that are on the driver already."""
    data = pa.Table.from_pylist(list(rows), schema=pa.schema(columns))
    return Table(name, data, data.num_rows)


def presented(
    name: str,
    found: DataFrame,
    topics: DataFrame,
    columns: Sequence[str],
    order: Sequence[str],
    limit: int = IN_MEMORY,
) -> Table:
    """A table from a DataFrame: ids as hex digits, topics by name, ``columns`` alone, in ``order``."""
    if "topic_id" in found.columns:
        found = found.join(F.broadcast(topics), ["run_id", "topic_id"], "left").withColumns(
            {
                "topic": F.when(F.coalesce("topic", F.lit("")) != "", F.col("topic")).otherwise(
                    F.lower(F.hex("topic_id"))
                ),
                "strategy": F.coalesce("strategy", F.lit("")),
            }
        )
    for column, kind in found.dtypes:
        if kind == "binary":
            found = found.withColumn(column, F.lower(F.hex(column)))
    renamed = {"run_id": "run", "node_id": "node", "boot_id": "boot", "peer_id": "peer"}
    renamed |= {"msg_origin": "origin", "msg_epoch": "epoch", "msg_seq": "seq"}
    wanted = found.withColumnsRenamed(renamed).select(*columns)
    data = wanted.limit(limit + 1).toArrow()
    if data.num_rows <= limit:
        return Table(name, sorted_by(data, order), data.num_rows)
    rows = wanted.count()
    first = wanted.orderBy(*(_direction(one) for one in order)).limit(limit).toArrow()
    return Table(name, first, rows, wanted)


def _direction(column: str) -> Any:
    return F.col(column[1:]).desc() if column.startswith("-") else F.col(column)


def sorted_by(data: pa.Table, order: Sequence[str]) -> pa.Table:
    """In a fixed order, whatever order the workers gave; "-" before a name is descending."""
    keys = [
        (one.lstrip("-"), "descending" if one.startswith("-") else "ascending") for one in order
    ]
    if data.num_rows < 2:
        return data
    rest = [(one, "ascending") for one in data.column_names if one not in dict(keys)]
    return data.take(pc.sort_indices(data, sort_keys=keys + rest))
