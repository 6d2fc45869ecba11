"""All nodes know only the first one (SCAMP 3.1 and 4.6, Figures 10 and 11).

With indirection, a subscription walks from there to a contact that is near-uniform. Each node scales its
weights after every tenth subscription that comes by it. Without it, views explode: at the paper's size each
of some forty million copies would take some hundred steps, so that case is run with ``NAIVE`` nodes, and
reported.
"""

from __future__ import annotations

import numpy as np

from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings, histogram
from overlaymq.sim.experiments.scamp_figures import (
    MEDIUM,
    RUNS,
    grown,
    judged,
    literal,
    mean,
    reach_after,
)
from overlaymq.sim.published import TARGETS, row

NAIVE = 500
SHARES = (0, 10, 20, 30, 40, 50, 60, 70)


def run(settings: Settings) -> Findings:
    """Both ways to find a contact, on one group each."""
    sizes: dict[str, list[float]] = {"random contact": [], "indirection": []}
    reached: dict[str, dict[int, list[float]]] = {
        name: {share: [] for share in SHARES} for name in sizes
    }
    curves: dict[str, Curve] = {}
    events = 0
    for seed in settings.seeds():
        for name in sizes:
            walks = name == "indirection"
            config = literal(indirection=walks)
            world = grown(seed, settings.nodes, config, settings.progress, single_contact=walks)
            events += world.messages
            sizes[name].append(float(world.sizes().mean()))
            curves.setdefault(name, histogram(world.sizes().tolist()))
            graph, random = world.graph(), np.random.default_rng(seed)
            for share, found in reached[name].items():
                found.append(reach_after(graph, share / 100, 0, random)[0])
            del world
    naive = grown(settings.seed, NAIVE, literal(), settings.progress, single_contact=True).sizes()
    rows = [
        *(
            row(f"SM-20/{what}", value, metric=TARGETS[f"SM-20/{what}"].metric.format(n=NAIVE))
            for what, value in (("mean", float(naive.mean())), ("sd", float(naive.std())))
        ),
        row("SM-21", mean(sizes["indirection"])),
        row("SM-22", mean(reached["indirection"][30]) - mean(reached["random contact"][30])),
    ]
    series = {
        "views": Series(
            title=f"Partial views, {settings.nodes:,} nodes",
            x_label="entries of the partial view",
            y_label="share of nodes",
            curves=curves,
        ),
        "reach": Series(
            title=f"Reach with failures, {settings.nodes:,} nodes",
            x_label="% of nodes failed",
            y_label="share of survivors reached",
            curves={
                name: Curve(SHARES, [mean(found[share]) for share in SHARES])
                for name, found in reached.items()
            },
        ),
    }
    return Findings(rows=judged(rows, settings, MEDIUM), events=events, series=series)


EXPERIMENT = Experiment(
    name="scamp-indirection",
    about="one contact for everybody, with walks to a near-uniform one",
    ids=("SM-20", "SM-21", "SM-22"),
    nodes=MEDIUM,
    runs=RUNS,
    run=run,
)
