"""The figures that come first, and the same in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from overlaymq.trace import schema as S

if TYPE_CHECKING:
    from overlaymq.trace.analysis.tables import Table

OFF_BY = 1.0
"""Milliseconds by which clocks may differ before it is worth a sentence. A guess."""


@dataclass(frozen=True)
class Sentence:
    """Something to know; ``good`` is None where it is neither good nor bad."""

    text: str
    good: bool | None = None


@dataclass(frozen=True)
class Headline:
    """One number for each question."""

    runs: int
    nodes: int
    topics: int
    events: int
    seconds: float
    published: int
    expected: int
    lost: int
    announced: int
    untaken: int
    delivered: int
    delivery_ratio: float | None
    unmatched: int
    duplicates: int
    rmr: float | None
    repeated: int
    violations: int
    late: int
    dropped: int
    p50_ms: float | None
    p99_ms: float | None
    most_ms: float | None
    negative: int
    clock_offset_ms: float
    clock_groups: int
    repairs: int
    unrepaired: int
    repair_p50_ms: float | None
    repair_most_ms: float | None
    trace_lost: int
    rad: float | None
    rmd: float | None
    sample: float
    sample_most: float
    sampled_unlike: bool

    @staticmethod
    def of(tables: dict[str, Table], summary: dict[str, Any]) -> Headline:
        """From the tables."""
        messages, latency = summary["messages"], summary["latency"]
        expected = _total(tables, "topics", "expected")
        received = messages.get(S.RECV, 0)
        duplicates = messages.get(S.DUPLICATE, 0)
        lost = _total(tables, "topics", "lost")
        repairs = tables["repairs"].data
        took = repairs["duration_ms"].drop_null()
        offsets = tables["clocks"].data["offset_ms"]
        runs = tables["runs"].data
        relative = tables["relative_delay"].data
        return Headline(
            runs=runs.num_rows,
            nodes=_total(tables, "runs", "nodes"),
            topics=tables["topics"].rows,
            events=summary["rows"],
            seconds=pc.max(runs["seconds"]).as_py() or 0.0,
            published=messages.get(S.PUBLISH, 0),
            expected=expected,
            lost=lost,
            announced=_total(tables, "topics", "announced"),
            untaken=_total(tables, "topics", "untaken"),
            delivered=_total(tables, "topics", "delivered"),
            delivery_ratio=1 - lost / expected if expected else None,
            unmatched=_total(tables, "topics", "unmatched"),
            duplicates=duplicates,
            rmr=duplicates / (received - duplicates) if received > duplicates else None,
            repeated=_total(tables, "topics", "repeated"),
            violations=_total(tables, "topics", "violations"),
            late=_total(tables, "topics", "late"),
            dropped=sum(messages.get(event, 0) for event in (S.DROP, S.REJECT, S.UNDELIVERABLE)),
            p50_ms=latency.get("p50_ms"),
            p99_ms=latency.get("p99_ms"),
            most_ms=latency.get("most_ms"),
            negative=latency["negative"],
            clock_offset_ms=max((abs(one) for one in offsets.to_pylist()), default=0.0),
            clock_groups=len(set(tables["clocks"].data["group"].to_pylist())),
            repairs=len(took),
            unrepaired=repairs.num_rows - len(took),
            repair_p50_ms=pc.quantile(took, 0.5)[0].as_py() if len(took) else None,
            repair_most_ms=pc.max(took).as_py(),
            trace_lost=_total(tables, "runs", "trace_lost"),
            rad=pc.mean(relative["rad"]).as_py(),
            rmd=pc.mean(relative["rmd"]).as_py(),
            sample=pc.min(runs["sample"]).as_py() or 1.0,
            sample_most=pc.max(runs["sample_most"]).as_py() or 1.0,
            sampled_unlike=not runs["sample"].equals(runs["sample_most"]),
        )

    @property
    def silent(self) -> int:
        """Lost, and neither announced nor thrown away by a subscription that had no room."""
        return self.lost - self.announced - self.untaken

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def sentences(self) -> list[Sentence]:
        """The same in words, the important first."""
        return [
            one
            for one in (
                self._delivery(),
                self._sampling(),
                self._order(),
                self._delay(),
                self._redundancy(),
                self._repair(),
                self._clocks(),
                self._tracing(),
            )
            if one is not None
        ]

    def _delivery(self) -> Sentence:
        if not self.expected:
            return Sentence("Nobody was a subscriber while something was published.")
        if not self.lost:
            return Sentence(
                f"All {self.expected:,} expected deliveries happened ({self.published:,} published).",
                True,
            )
        parts = {
            "without notice": self.silent,
            "announced": self.announced,
            "thrown away because a subscription had no room": self.untaken,
        }
        there = {how: count for how, count in parts.items() if count}
        told = "; ".join(
            f"{'all' if count == self.lost else f'{count:,}'} of them {how}"
            for how, count in there.items()
        )
        return Sentence(
            f"{self.lost:,} of {self.expected:,} expected deliveries were lost "
            f"({self.delivery_ratio:.4%} delivered): {told}.",
            False,
        )

    def _sampling(self) -> Sentence | None:
        if self.sample >= 1:
            return None
        if self.sampled_unlike:
            return Sentence(
                f"Nodes of one run traced different shares of the messages, {self.traced}: what seems lost "
                "may only be untraced.",
                False,
            )
        return Sentence(
            f"Only {self.traced} of the messages were traced (trace.sample): what was published, delivered, "
            "lost and carried is counted of these alone."
        )

    @property
    def traced(self) -> str:
        """The share of messages that was traced, in words."""
        if self.sample == self.sample_most:
            return f"{100 * self.sample:.3g} %"
        return f"{100 * self.sample:.3g} % to {100 * self.sample_most:.3g} %"

    def _order(self) -> Sentence:
        if self.violations:
            return Sentence(f"{self.violations:,} deliveries broke a promised order.", False)
        late = f" {self.late:,} came late on topics that promise no order." if self.late else ""
        twice = f" {self.repeated:,} were delivered twice." if self.repeated else ""
        return Sentence(f"No promised order was broken.{late}{twice}", not self.repeated or None)

    def _delay(self) -> Sentence | None:
        if self.p50_ms is None:
            return None
        return Sentence(
            f"Half of the messages arrived within {milliseconds(self.p50_ms)}, 99 % within "
            f"{milliseconds(self.p99_ms)}; the slowest took {milliseconds(self.most_ms)}."
        )

    def _redundancy(self) -> Sentence | None:
        if self.rmr is None:
            return None
        return Sentence(f"{self.duplicates:,} receptions were duplicates (RMR {self.rmr:.3f}).")

    def _repair(self) -> Sentence | None:
        if not self.repairs and not self.unrepaired:
            return None
        times = (
            f"half within {milliseconds(self.repair_p50_ms)}, the longest in "
            f"{milliseconds(self.repair_most_ms)}"
            if self.repairs
            else "none repaired"
        )
        open_ones = f"; {self.unrepaired:,} found no other" if self.unrepaired else ""
        if self.repairs + self.unrepaired == 1:
            then = f"there was another after {milliseconds(self.repair_most_ms)}"
            return Sentence(f"1 parent was lost: {then if self.repairs else 'there was no other'}.")
        return Sentence(
            f"{self.repairs + self.unrepaired:,} parents were lost: {times}{open_ones}."
        )

    def _clocks(self) -> Sentence | None:
        if self.negative:
            return Sentence(
                f"{self.negative:,} messages seem to arrive before they were published: the clocks differ by "
                "more than the traces tell.",
                False,
            )
        if self.clock_offset_ms >= OFF_BY:
            return Sentence(
                f"Clocks were up to {milliseconds(self.clock_offset_ms)} off; all times are corrected."
            )
        return None

    def _tracing(self) -> Sentence | None:
        if self.trace_lost:
            return Sentence(
                f"The tracers lost {self.trace_lost:,} events: what seems lost may only be untraced.",
                False,
            )
        if self.unmatched:
            return Sentence(
                f"{self.unmatched:,} deliveries are of messages whose publication is not in these traces: "
                "a publisher's trace is missing, or its oldest files were removed.",
                False,
            )
        return None


def _total(tables: dict[str, Table], name: str, column: str) -> int:
    return int(pc.sum(tables[name].data[column]).as_py() or 0)


def milliseconds(value: float | None) -> str:
    """A time as people say it."""
    if value is None:
        return "-"
    if abs(value) >= 10_000:
        return f"{value / 1000:,.1f} s"
    if abs(value) >= 100:
        return f"{value:,.0f} ms"
    return f"{value:.1f} ms" if abs(value) >= 1 else f"{value:.3f} ms"
