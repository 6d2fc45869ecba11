"""Plots as SVG text: lines and bars, with axes that end on round numbers.

Hand-made: a plotting library in the page would be some megabytes for what a few shapes say. Colours come from
the page's style sheet (classes c0, c1, ...), so that they suit a dark screen too. Each mark carries a
``title``, which browsers show when it is pointed at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 42
COLOURS = 8


@dataclass(frozen=True)
class Series:
    """A named line; ``steps`` draws it as a staircase."""

    name: str
    points: Sequence[tuple[float, float]]
    steps: bool = False


class Axis:
    """From values to places, and the round numbers between."""

    def __init__(
        self,
        low: float,
        high: float,
        begin: float,
        end: float,
        *,
        log: bool = False,
        tight: bool = False,
        whole: bool = False,
    ) -> None:
        """``tight``: ends where the values end; ``whole``: whole numbers only."""
        self.log = log
        if log:
            self.ticks = _decades(low, high)
            low, high = self.ticks[0], self.ticks[-1]
        else:
            self.ticks = _round_numbers(low, high)
            if whole:
                self.ticks = [tick for tick in self.ticks if tick == int(tick)]
            if tight:
                self.ticks = [tick for tick in self.ticks if low <= tick <= high]
            else:
                low, high = min(low, self.ticks[0]), max(high, self.ticks[-1])
        self._low, self._high = self._scale(low), self._scale(high)
        self._begin, self._end = begin, end

    def _scale(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def __call__(self, value: float) -> float:
        share = (self._scale(value) - self._low) / (self._high - self._low or 1)
        return self._begin + share * (self._end - self._begin)


def _decades(low: float, high: float) -> list[float]:
    first = math.floor(math.log10(low))
    last = max(first + 1, math.ceil(math.log10(high)))
    return [10.0**power for power in range(first, last + 1)]


def _round_numbers(low: float, high: float, wanted: int = 5) -> list[float]:
    span = high - low or abs(high) or 1.0
    rough = span / wanted
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = power * next(one for one in (1, 2, 5, 10) if one * power >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil((low + span) / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def short_number(value: float) -> str:
    """1.5k, 20M: for axes."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def lines(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    x_text: Callable[[float], str] = short_number,
    y_text: Callable[[float], str] = short_number,
    y_most: float | None = None,
    y_whole: bool = False,
) -> str:
    """Lines over a common axis, with a legend below if there is more than one."""
    points = [point for one in series for point in one.points if not log_x or point[0] > 0]
    if not points:
        return ""
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    across = Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT, log=log_x, tight=not log_x)
    highest = max(ys) if y_most is None else y_most
    up = Axis(min(0.0, *ys), highest, HEIGHT - BOTTOM, TOP, whole=y_whole)
    parts = [_grid(across, up, x, y, x_text, y_text)]
    for number, one in enumerate(series):
        shown = [point for point in one.points if not log_x or point[0] > 0]
        parts.append(_line(one, shown, across, up, number, x_text, y_text))
    legend = _legend([one.name for one in series]) if len(series) > 1 else ""
    return f"{_svg(''.join(parts), f'{y} over {x}')}{legend}"


def _line(
    one: Series,
    points: Sequence[tuple[float, float]],
    across: Axis,
    up: Axis,
    number: int,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
) -> str:
    path: list[str] = []
    for index, (x, y) in enumerate(points):
        place = f"{across(x):.1f} {up(y):.1f}"
        if index and one.steps:
            path.append(f"H{across(x):.1f}")
        path.append(f"{'L' if index else 'M'}{place}")
    colour = f"c{number % COLOURS}"
    every = max(1, len(points) // 60)
    dots = "".join(
        f'<circle class="hit" cx="{across(x):.1f}" cy="{up(y):.1f}" r="6">'
        f"<title>{escape(one.name)}: {x_text(x)}, {y_text(y)}</title></circle>"
        for x, y in points[::every]
    )
    return f'<path class="line {colour}" d="{"".join(path)}"/>{dots}'


def bars(
    values: Sequence[tuple[str, float]],
    *,
    x: str,
    y: str,
    y_text: Callable[[float], str] = short_number,
) -> str:
    """A bar for each value, in the order given; names are shown when pointed at."""
    if not values:
        return ""
    up = Axis(0.0, max(value for _, value in values) or 1.0, HEIGHT - BOTTOM, TOP)
    across = Axis(0.0, float(len(values)), LEFT, WIDTH - RIGHT)
    across.ticks = []
    width = (WIDTH - LEFT - RIGHT) / len(values)
    marks = "".join(
        f'<rect class="bar c0" x="{LEFT + index * width:.2f}" y="{up(value):.1f}" '
        f'width="{max(0.6, width * 0.86):.2f}" height="{max(0.0, HEIGHT - BOTTOM - up(value)):.1f}">'
        f"<title>{escape(name)}: {value:,.6g}</title></rect>"
        for index, (name, value) in enumerate(values)
    )
    return _svg(_grid(across, up, x, y, short_number, y_text) + marks, f"{y} by {x}")


def _grid(
    across: Axis,
    up: Axis,
    x: str,
    y: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
) -> str:
    floor = HEIGHT - BOTTOM
    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        f'<text class="tick" x="{LEFT - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{y_text(tick)}</text>'
        for tick in up.ticks
    ]
    parts += [
        f'<line class="grid" x1="{across(tick):.1f}" x2="{across(tick):.1f}" y1="{TOP}" y2="{floor}"/>'
        f'<text class="tick" x="{across(tick):.1f}" y="{floor + 16}" '
        f'text-anchor="middle">{x_text(tick)}</text>'
        for tick in across.ticks
    ]
    middle = (TOP + floor) / 2
    parts.append(
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}"/>'
        f'<text class="label" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" '
        f'text-anchor="middle">{escape(x)}</text>'
        f'<text class="label" transform="translate(13 {middle}) rotate(-90)" '
        f'text-anchor="middle">{escape(y)}</text>'
    )
    return "".join(parts)


def _svg(inside: str, about: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(about)}">{inside}</svg>'


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        f'<li><i class="c{number % COLOURS}"></i>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'
