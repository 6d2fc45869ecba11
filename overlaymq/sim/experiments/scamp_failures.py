"""What gossip over SCAMP's views reaches when nodes have failed (SCAMP 4.3, Figures 3 and 4).

Each node passes a message on once, to its whole view; with full membership, to log n members drawn from
all. The source is the first node of the group, whose view is large, or a random one.

A random source reaches nobody when its whole view has failed. That is rare, so it is not drawn but counted,
over all survivors of each graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.experiments.scamp_figures import (
    LARGE,
    RUNS,
    grown,
    judged,
    literal,
    mean,
    reach_after,
)
from overlaymq.sim.published import row
from overlaymq.sim.scamp_world import failing

if TYPE_CHECKING:
    from overlaymq.sim.experiments.base import Row
    from overlaymq.sim.scamp_world import Graph

SHARES = (0, 10, 20, 30, 40, 50, 60, 70)
SOURCES = 10
"""Random sources on each graph; the paper has one."""
NOBODY = 0.01
AS_GOOD = 0.05
"""Reaching less than the first share is reaching nobody; as full membership is within the second of it."""


def run(settings: Settings) -> Findings:
    """One graph a run."""
    first: dict[int, list[tuple[float, float]]] = {share: [] for share in SHARES}
    others: dict[int, list[tuple[float, float]]] = {10: [], 50: []}
    unheard: dict[int, list[float]] = {10: [], 50: []}
    events = 0
    for seed in settings.seeds():
        world = grown(seed, settings.nodes, literal(), settings.progress)
        events += world.messages
        graph = world.graph()
        random = np.random.default_rng(seed)
        for share in SHARES:
            first[share].append(reach_after(graph, share / 100, 0, random))
        for share, found in others.items():
            found += _from_anywhere(graph, share, random)
            unheard[share].append(graph.unheard(failing(graph.count, share / 100, random, 0)))
    rows: list[Row] = []
    for share in (10, 30, 50, 70):
        gaps = [scamp - full for scamp, full in first[share]]
        rows.append(row(f"SM-9/{share}", mean(gaps)))
    rows.append(row("SM-9/reach", mean([scamp for scamp, _ in first[50]])))
    for share, found in others.items():
        neither = [NOBODY <= scamp < full - AS_GOOD for scamp, full in found]
        rows.append(row(f"SM-10/{share}", sum(neither)))
        rows.append(row(f"SM-10/zeros {share}", mean(unheard[share])))
    return Findings(
        rows=judged(rows, settings, LARGE),
        events=events,
        series={"reach": _figure(first, settings.nodes)},
    )


def _from_anywhere(
    graph: Graph, share: int, random: np.random.Generator
) -> list[tuple[float, float]]:
    sources = random.integers(0, graph.count, SOURCES)
    return [reach_after(graph, share / 100, int(source), random) for source in sources]


def _figure(first: dict[int, list[tuple[float, float]]], nodes: int) -> Series:
    names = ("SCAMP", "full membership")
    return Series(
        title=f"Reach with failures, {nodes:,} nodes",
        x_label="% of nodes failed",
        y_label="share of survivors reached",
        curves={
            name: Curve(SHARES, [mean([pair[which] for pair in first[x]]) for x in SHARES])
            for which, name in enumerate(names)
        },
    )


EXPERIMENT = Experiment(
    name="scamp-failures",
    about="what gossip over SCAMP's views reaches while 0 to 70 % of the nodes have failed",
    ids=("SM-9", "SM-10"),
    nodes=LARGE,
    runs=RUNS,
    run=run,
)
