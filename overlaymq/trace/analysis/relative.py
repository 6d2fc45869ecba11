"""Relative delay: what the overlay costs in time against sending directly.

After the Scribe paper: RMD is the ratio of the maximum delay over the overlay to that of the baseline, RAD
the ratio of the average delays, both over all subscribers of one publisher on one topic. (The paper's
baseline is IP multicast.) Here the baseline is a table of one-way delays, ``node_id, peer_id, delay_ns``
(and ``run_id``, or empty for all runs), good in both directions: given by the caller who knows the network
or has measured it; else half of the best round trip that two nodes measured (CLOCK rows). The simulator has
no such rows and writes no table: its runs have no relative delay unless somebody gives one. Subscribers
without a baseline are left out of both sides, and their number is told.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from overlaymq.trace.files import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, Row

    from overlaymq.trace.analysis.clocks import Edge

Baseline = dict[tuple[str, bytes, bytes], int]
"""One-way delay by (run or "", node, node)."""


@dataclass(frozen=True)
class Relative:
    """One publisher on one topic."""

    run_id: str
    topic_id: bytes
    msg_origin: bytes
    subscribers: int
    without_baseline: int
    mean_ms: float
    baseline_mean_ms: float
    rad: float
    rmd: float


def from_clocks(edges: Iterable[Edge]) -> Baseline:
    """Half round trips."""
    best: Baseline = {}
    for edge in edges:
        _keep_least(best, edge.a[0], edge.a[1], edge.b[1], edge.error)
    return best


def from_table(table: DataFrame) -> Baseline:
    """A baseline that somebody else measured; ids as bytes or as hex digits. A row without a run is good for
    all runs."""
    best: Baseline = {}
    named = "run_id" in table.columns
    for row in table.collect():
        try:
            a, b = (_as_bytes(one) for one in (row.node_id, row.peer_id))
            delay = int(row.delay_ns)
        except (TypeError, ValueError):
            raise Unreadable(
                f"the baseline has a row without two ids and a number of nanoseconds: {_said(row)}"
            ) from None
        # An empty cell of a CSV is null in Spark.
        _keep_least(best, (row.run_id or "") if named else "", a, b, delay)
    return best


def _said(row: Row) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.asDict().items())


def _as_bytes(value: str | bytes | bytearray) -> bytes:
    return bytes.fromhex(value) if isinstance(value, str) else bytes(value)


def _keep_least(best: Baseline, run: str, a: bytes, b: bytes, delay: int) -> None:
    for key in ((run, a, b), (run, b, a)):
        best[key] = min(delay, best.get(key, delay))


def relative_delays(
    paths: Iterable[Row], baseline: Mapping[tuple[str, bytes, bytes], int]
) -> list[Relative]:
    """RAD and RMD of every publisher of whose subscribers at least one has a baseline.

    A subscriber's delay is its mean over all messages, so that one stall does not decide the maximum.
    """
    groups: dict[tuple[str, bytes, bytes], list[tuple[float, int | None]]] = defaultdict(list)
    for row in paths:
        run, origin, node = row.run_id, bytes(row.msg_origin), bytes(row.node_id)
        if node == origin or not row.delivered:
            continue
        direct = baseline.get((run, origin, node), baseline.get(("", origin, node)))
        groups[run, bytes(row.topic_id), origin].append((row.delay_sum / row.delivered, direct))
    found = []
    for (run, topic, origin), readers in sorted(groups.items()):
        overlay = [took for took, direct in readers if direct]
        base = [direct for _, direct in readers if direct]
        if base:
            found.append(
                Relative(
                    run_id=run,
                    topic_id=topic,
                    msg_origin=origin,
                    subscribers=len(base),
                    without_baseline=len(readers) - len(base),
                    mean_ms=fmean(overlay) / 1e6,
                    baseline_mean_ms=fmean(base) / 1e6,
                    rad=fmean(overlay) / fmean(base),
                    rmd=max(overlay) / max(base),
                )
            )
    return found
