"""What an experiment is: a seeded question whose answer stands beside a published figure.

One module of this package is one experiment: it has a module-level ``EXPERIMENT`` and is found by that,
so adding one needs no other edit. ``run`` takes ``Settings`` and gives ``Findings``: rows (a measured
value, what was published, and the range it must lie in) and series (the data of a figure).

The range of a row comes from the published figure, from ``overlaymq.sim.published``, never from what was
measured. A row that lies outside is not ok, and the command that ran it fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measured value. A bound that is None is open."""

    id: str
    metric: str
    published: float | str
    measured: float
    low: float | None = None
    high: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the value lies in its range; a value that is not a number never does."""
        above = self.low is None or self.measured >= self.low
        below = self.high is None or self.measured <= self.high
        return above and below and self.measured == self.measured


class Curve(msgspec.Struct, frozen=True):
    """Points in order of x."""

    x: Sequence[float]
    y: Sequence[float]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The data of one figure: named curves over one axis."""

    title: str
    x_label: str
    y_label: str
    curves: dict[str, Curve]
    kind: Literal["cdf", "bars", "line"] = "line"
    log_x: bool = False


class Findings(msgspec.Struct, kw_only=True):
    """What an experiment found. ``events`` are those that the engine performed, over all runs."""

    rows: list[Row]
    events: int = 0
    series: dict[str, Series] = {}
    notes: list[str] = []


class Progress(Protocol):
    """Told now and then how far an experiment is."""

    def __call__(self, stage: str, done: float, total: float) -> None:
        """``stage`` is what is being done; ``done`` of ``total`` parts of it."""


def no_progress(stage: str, done: float, total: float) -> None:
    """Tell nobody."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked of every experiment."""

    nodes: int
    seed: int = 1
    runs: int = 1
    progress: Progress = no_progress

    def seeds(self) -> range:
        """A seed for each run: the given one and those after it."""
        return range(self.seed, self.seed + self.runs)


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A named experiment; ``nodes`` and ``runs`` are those of the publication."""

    name: str
    about: str
    ids: tuple[str, ...]
    nodes: int
    run: Callable[[Settings], Findings]
    runs: int = 1


def averaged(run: Callable[[Settings], Findings]) -> Callable[[Settings], Findings]:
    """An experiment whose rows are the means over its runs; its figures are those of the first."""

    def repeated(settings: Settings) -> Findings:
        found = [
            run(msgspec.structs.replace(settings, seed=seed, runs=1)) for seed in settings.seeds()
        ]
        measured: dict[tuple[str, str], list[Row]] = {}
        for findings in found:
            for row in findings.rows:
                measured.setdefault((row.id, row.metric), []).append(row)
        return Findings(
            rows=[
                msgspec.structs.replace(
                    rows[0], measured=sum(row.measured for row in rows) / len(rows)
                )
                for rows in measured.values()
            ],
            events=sum(findings.events for findings in found),
            series=found[0].series,
            notes=found[0].notes,
        )

    return repeated


def figure_text(value: float | str | None) -> str:
    """A value for people: four digits, or all of those before the point."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def range_text(low: float | None, high: float | None) -> str:
    """A range for people; empty if it is open on both sides."""
    if low is None and high is None:
        return ""
    if low is None:
        return f"<= {figure_text(high)}"
    if high is None:
        return f">= {figure_text(low)}"
    return f"{figure_text(low)} to {figure_text(high)}"


def cdf(values: Sequence[float]) -> Curve:
    """The cumulative distribution: for each value, the share of values that are not larger."""
    ordered = sorted(values)
    count = len(ordered)
    x: list[float] = []
    y: list[float] = []
    for index, value in enumerate(ordered):
        if index + 1 == count or ordered[index + 1] != value:
            x.append(value)
            y.append((index + 1) / count)
    return Curve(x, y)


def histogram(values: Sequence[int]) -> Curve:
    """The share of each whole number from 0 to the largest."""
    counts = [0] * (max(values) + 1)
    for value in values:
        counts[value] += 1
    return Curve(range(len(counts)), [count / len(values) for count in counts])
