"""The fan-out's figures as a table for people and as rows for scripts.

Each figure is the median of its own runs. Loss alone is summed: a system that loses in one run of
three does lose. Ratios compare medians, each system with three it might be chosen over; the ways to set up
overlaymq are compared with each other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .trial import Figures, Plan

BASELINES = ["nats", "zenoh", "grpc-stream"]
HEADINGS = ["system", "messages", "deliveries/s", "MB/s", "CPU s/M", "p50 ms", "p99 ms", "lost"]
RATIOS: dict[str, Callable[[Figures], float]] = {
    "speed": lambda figures: figures.deliveries_per_second,
    "CPU": lambda figures: figures.cpu_per_million,
    "p50": lambda figures: figures.p50_ms,
}


@dataclass(frozen=True)
class Row:
    plan: Plan
    runs: list[Figures]

    @property
    def median(self) -> Figures:
        columns = {name: [asdict(run)[name] for run in self.runs] for name in asdict(self.runs[0])}
        lost = sum(columns.pop("loss"))
        middle = {name: median(values) for name, values in columns.items()}
        return type(self.runs[0])(**middle, loss=lost)

    def as_json(self) -> dict[str, Any]:
        return asdict(self.plan) | asdict(self.median) | {"runs": [asdict(r) for r in self.runs]}


def print_table(rows: list[Row], size: int) -> None:
    if not rows:
        return
    plan = rows[0].plan
    print(f"\n{size} B to {plan.subscribers} subscribers, median of {len(rows[0].runs)}")
    _print_columns([HEADINGS, *(_figures(row) for row in rows)])
    if len({row.plan.messages for row in rows}) > 1:
        few = min(rows, key=lambda row: row.plan.messages).plan
        print(f"{few.name} is slow and was sent only {few.messages:,} messages.")
    _print_ratios(rows)


def _figures(row: Row) -> list[str]:
    middle = row.median
    return [
        row.plan.name,
        f"{row.plan.messages:,}",
        f"{middle.deliveries_per_second:,.0f}",
        f"{middle.bytes_per_second / 1e6:,.0f}",
        f"{middle.cpu_per_million:.2f}",
        f"{middle.p50_ms:.2f}",
        f"{middle.p99_ms:.2f}",
        f"{middle.loss:,}",
    ]


def _print_ratios(rows: list[Row]) -> None:
    found = {row.plan.name: row.median for row in rows}
    ways = [row.plan.name for row in rows if row.plan.variant]
    baselines = [*[name for name in BASELINES if name in found], *ways[:-1]]
    if not baselines or len(rows) < 2:
        return
    print()
    headings = [f"{what} / {name}" for what in RATIOS for name in baselines]
    lines = [
        [
            system,
            *(_ratio(of(middle), of(found[name])) for of in RATIOS.values() for name in baselines),
        ]
        for system, middle in found.items()
    ]
    _print_columns([["times", *headings], *lines])


def _ratio(mine: float, theirs: float) -> str:
    return f"{mine / theirs:.2f}" if theirs else "-"


def _print_columns(lines: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]), flush=True)
