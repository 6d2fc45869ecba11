"""Half of the members unsubscribe (SCAMP 4.4, Table 1 and Figure 7).

The views of those that stay must shrink by log 2, and a multicast reach almost as many as before. Nobody
repairs anything meanwhile: the worst case, as in the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.experiments.scamp_figures import MEDIUM, RUNS, grown, judged, literal, mean
from overlaymq.sim.published import row
from overlaymq.sim.scamp_world import share_reached

if TYPE_CHECKING:
    from overlaymq.sim.scamp_world import Flags, Graph, World

SHARES = (0, 10, 20, 30, 40, 50)
TRIES = 5
"""Sets of failing nodes for each share."""


def run(settings: Settings) -> Findings:
    """One group a run."""
    changes, events = [], 0
    before: dict[int, list[float]] = {share: [] for share in SHARES}
    after: dict[int, list[float]] = {share: [] for share in SHARES}
    for seed in settings.seeds():
        world = grown(seed, settings.nodes, literal(), settings.progress)
        random = np.random.default_rng(seed)
        _measure(world, before, random)
        mean_before = world.sizes().mean()
        leaving = random.permutation(np.arange(1, settings.nodes))[: settings.nodes // 2]
        settings.progress("unsubscribing", 0, 1)
        world.unsubscribe(leaving.tolist())
        changes.append(float(world.sizes().mean() - mean_before))
        _measure(world, after, random)
        events += world.messages
    falls = [mean(after[share]) - mean(before[share]) for share in SHARES]
    curves = {
        name: Curve(SHARES, [mean(found[share]) for share in SHARES])
        for name, found in (("before", before), ("after half have left", after))
    }
    figure = Series(
        title=f"Reach before and after half of {settings.nodes:,} nodes left",
        x_label="% of members failed",
        y_label="share of survivors reached",
        curves=curves,
    )
    rows = [
        row("SM-15", mean(changes)),
        row("SM-16", mean(falls)),
        row("SM-16/least", falls[0]),
        row("SM-16/most", min(falls)),
    ]
    return Findings(
        rows=judged(rows, settings, MEDIUM, "SM-15"), events=events, series={"reach": figure}
    )


def _measure(world: World, reached: dict[int, list[float]], random: np.random.Generator) -> None:
    graph = world.graph()
    members = np.array([node.member for node in world.nodes])
    for share, found in reached.items():
        found += [_reach(graph, members, share, random) for _ in range(TRIES if share else 1)]


def _reach(graph: Graph, members: Flags, share: int, random: np.random.Generator) -> float:
    alive = members.copy()
    order = random.permutation(np.flatnonzero(members)[1:])  # the source, the first of all, stays
    alive[order[: round(share / 100 * members.sum())]] = False
    return share_reached(graph, 0, alive)


EXPERIMENT = Experiment(
    name="scamp-unsubscribe",
    about="half of the members leave: views shrink by log 2, and reach hardly",
    ids=("SM-15", "SM-16"),
    nodes=MEDIUM,
    runs=RUNS,
    run=run,
)
