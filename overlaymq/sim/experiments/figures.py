"""The data of an experiment's figures as CSV, and drawn as the papers draw them as PNG.

Distributions over whole numbers are bars, cumulative ones are steps, everything else is lines through the
measured points. matplotlib is imported only when something is drawn, and draws without a display.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from overlaymq.sim.experiments.base import Series


def write(directory: Path, name: str, series: Series) -> list[Path]:
    """Write one figure's data and drawing; the files."""
    directory.mkdir(parents=True, exist_ok=True)
    data, drawing = directory / f"{name}.csv", directory / f"{name}.png"
    write_csv(data, series)
    draw(drawing, series)
    return [data, drawing]


def write_csv(path: Path, series: Series) -> None:
    """One line a point, with the curve it belongs to."""
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["curve", series.x_label, series.y_label])
        for name, curve in series.curves.items():
            out.writerows([name, x, y] for x, y in zip(curve.x, curve.y, strict=True))


def draw(path: Path, series: Series) -> None:
    """Draw a figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, (name, curve) in enumerate(series.curves.items()):
        _draw_curve(axes, series, index, name, curve.x, curve.y)
    if series.log_x:
        axes.set_xscale("log")
    if series.kind == "cdf":
        axes.set_ylim(0, 1)
    axes.set(title=series.title, xlabel=series.x_label, ylabel=series.y_label)
    axes.grid(alpha=0.3)
    if len(series.curves) > 1:
        axes.legend()
    # No date in the file: the same data gives the same bytes.
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _draw_curve(axes: Any, series: Series, index: int, name: str, x: Any, y: Any) -> None:
    if series.kind == "bars":
        width = 0.8 / len(series.curves)
        axes.bar([value - 0.4 + width * (index + 0.5) for value in x], y, width, label=name)
    elif series.kind == "cdf":
        axes.step(x, y, where="post", label=name)
    else:
        axes.plot(x, y, marker="o", markersize=3, label=name)
