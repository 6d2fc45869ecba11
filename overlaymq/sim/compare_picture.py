"""The comparison of the strategies as one picture: costs as bars, and the reach after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overlaymq.sim.compare import IP, LABELS

if TYPE_CHECKING:
    from pathlib import Path

    from overlaymq.sim.compare import Comparison

BARS = ("rad", "copies", "node_max", "link_max", "control")
FIRST_SECONDS = 30.0


def draw(path: Path, found: Comparison) -> None:
    """Write a PNG; the same comparison gives the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3).ravel()
    for plot, measure in zip(axes, BARS, strict=False):
        _bars(plot, found, measure)
    _reach(axes[-1], found)
    work = found.workload
    figure.suptitle(
        f"{work.members} members among {work.nodes:,} nodes; {work.fail:.0%} of the nodes fail"
    )
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _bars(plot: Any, found: Comparison, measure: str) -> None:
    names = [name for name in found.ways if name != IP]
    values = [getattr(found.ways[name], measure) for name in names]
    drawn = plot.bar(names, values, color=[f"C{number}" for number in range(len(names))])
    plot.bar_label(drawn, fmt="%.3g")
    plot.margins(y=0.15)
    plot.set_title(LABELS[measure], fontsize=10)
    plot.tick_params(axis="x", labelsize=8)


def _reach(plot: Any, found: Comparison) -> None:
    for name, curve in found.reach.items():
        points = [point for point in curve if point[0] <= FIRST_SECONDS]
        plot.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    plot.set_title("reach by seconds after the failure", fontsize=10)
    plot.set_ylim(-0.03, 1.03)
    plot.grid(alpha=0.3)
    plot.legend(fontsize=8)
