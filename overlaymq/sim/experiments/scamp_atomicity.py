"""When a multicast reaches everyone (SCAMP 2.1 and 4.3.1, Figure 6).

Strong atomicity: every survivor is reached. First as the theory has it, with full membership and a fanout
of log n + k, without and with links that lose (SM-1, SM-2); then over SCAMP's views with c = 0 and c = 1.
Each graph is tried with many sets of failing nodes, the paper's once each: shares of ten runs are coarse.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.experiments.scamp_figures import RUNS, grown, judged, literal, mean
from overlaymq.sim.published import row
from overlaymq.sim.scamp_world import failing, reach_with_full_membership, share_reached

if TYPE_CHECKING:
    from overlaymq.sim.experiments.base import Row

NODES = 10_000
TRIES = 10
"""Sets of failing nodes on each graph."""
THEORY_NODES, THEORY_RUNS = 2_000, 200
LOSS = 0.3
SHARES = (10, 20, 30, 40)


def run(settings: Settings) -> Findings:
    """Theory, then graphs."""
    rows = _theory(settings)
    atomic: dict[int, dict[int, float]] = {}
    lowest, events = 1.0, 0
    for c in (0, 1):
        reached: dict[int, list[float]] = {share: [] for share in (0, *SHARES)}
        for seed in settings.seeds():
            world = grown(seed, settings.nodes, literal(c=c), settings.progress)
            events += world.messages
            graph, random = world.graph(), np.random.default_rng(seed)
            for share, found in reached.items():
                for _ in range(TRIES):
                    alive = failing(graph.count, share / 100, random, 0)
                    found.append(share_reached(graph, 0, alive))
        atomic[c] = {share: mean([one == 1.0 for one in found]) for share, found in reached.items()}
        partial = [one for share in (10, 20, 30) for one in reached[share] if one < 1.0]
        lowest = min([lowest, *partial])
    rows += [row(f"SM-12/{share}", atomic[0][share]) for share in (20, 30)]
    rows += [row(f"SM-13/{share}", atomic[1][share]) for share in SHARES]
    rows.append(row("SM-14", lowest))
    curves = {
        f"c = {c}": Curve(list(shares), list(shares.values())) for c, shares in atomic.items()
    }
    figure = Series(
        title=f"Atomic multicasts, {settings.nodes:,} nodes",
        x_label="% of nodes failed",
        y_label="share of multicasts that reach all",
        curves=curves,
        kind="line",
    )
    return Findings(
        rows=judged(rows, settings, NODES, "SM-1", "SM-2"),
        events=events,
        series={"atomic": figure},
    )


def _theory(settings: Settings) -> list[Row]:
    random = np.random.default_rng(settings.seed)
    alive = np.ones(THEORY_NODES, dtype=np.bool_)
    size = math.log(THEORY_NODES)

    def atomic(fanout: float) -> float:
        settings.progress("the theory", 0, 1)
        runs = [reach_with_full_membership(0, alive, fanout, random) for _ in range(THEORY_RUNS)]
        return mean([one == 1.0 for one in runs])

    rows = []
    for k in (0, 1, 2):
        limit = math.exp(-math.exp(-k))
        published = f"exp(-exp(-{k})) = {limit:.3f}"
        found = atomic(size + k)
        rows.append(row(f"SM-1/{k}", found, published=published, low=limit - 0.1, high=limit + 0.1))
    # A link that fails is as good as one that was not drawn.
    lossy = (size + 1) / (1 - LOSS)
    runs = [
        reach_with_full_membership(0, alive, lossy, random, loss=LOSS) for _ in range(THEORY_RUNS)
    ]
    return [*rows, row("SM-2", mean([one == 1.0 for one in runs]))]


EXPERIMENT = Experiment(
    name="scamp-atomicity",
    about="the share of multicasts that reach every survivor",
    ids=("SM-1", "SM-2", "SM-12", "SM-13", "SM-14"),
    nodes=NODES,
    runs=RUNS,
    run=run,
)
