"""How large views become by themselves (SCAMP 4.2, Figures 1, 2 and 5).

Nodes subscribe one after the other, each through a random member. The largest group has twice the nodes that
are asked for, as Figure 2 has twice those of Figure 1.
"""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from overlaymq.core.dissemination.scamp.views import Views
from overlaymq.ids import Id
from overlaymq.messages import Peer, ScampForward
from overlaymq.sim.experiments.base import Experiment, Findings, Series, Settings, histogram
from overlaymq.sim.experiments.scamp_figures import (
    MEDIUM,
    RUNS,
    grown,
    harmonic,
    judged,
    literal,
    mean,
)
from overlaymq.sim.published import row
from overlaymq.sim.scamp_world import TOPIC

if TYPE_CHECKING:
    from overlaymq.sim.experiments.base import Curve, Row
    from overlaymq.sim.scamp_world import Indexes

SMALL, SMALL_RUNS = 100, 100


def run(settings: Settings) -> Findings:
    """All sizes."""
    sizes: list[Indexes] = []
    steps, messages = [], 0
    for seed in settings.seeds():
        world = grown(seed, settings.nodes, literal(), settings.progress)
        sizes.append(world.sizes())
        steps.append(world.steps())
        messages += world.messages
    with_copy = grown(settings.seed, settings.nodes, literal(c=1), settings.progress)
    large = grown(settings.seed, 2 * settings.nodes, literal(), settings.progress)
    small = [
        float(grown(seed, SMALL, literal(), settings.progress).sizes().mean())
        for seed in range(settings.seed, settings.seed + SMALL_RUNS)
    ]
    nodes = settings.nodes
    rows = [
        *_formula(0, nodes, mean([float(one.mean()) for one in sizes])),
        *_formula(1, nodes, float(with_copy.sizes().mean())),
        row("SM-4", mean(steps)),
        row("SM-5", _receptions()),
        row("SM-6/mean", mean([float(one.mean()) for one in sizes])),
        row("SM-6/max", mean([float(one.max()) for one in sizes])),
        row("SM-7", float(large.sizes().mean())),
        row("SM-8", mean(small)),
        row("SM-11", float(with_copy.sizes().mean())),
    ]
    curves = {f"run {number + 1}": histogram(one.tolist()) for number, one in enumerate(sizes[:5])}
    series = {
        "views": _figure(f"Partial views, {nodes:,} nodes", curves),
        "views-large": _figure(
            f"Partial views, {2 * nodes:,} nodes", {"c = 0": histogram(large.sizes().tolist())}
        ),
        "views-c": _figure(
            f"Partial views, {nodes:,} nodes",
            {
                "c = 0": histogram(sizes[0].tolist()),
                "c = 1": histogram(with_copy.sizes().tolist()),
            },
        ),
    }
    spread = np.std([float(one.mean()) for one in sizes])
    notes = [f"standard deviation of the mean view over runs: {spread:.2f}"]
    events = messages + with_copy.messages + large.messages
    return Findings(
        rows=judged(rows, settings, MEDIUM, "SM-3", "SM-5"),
        events=events,
        series=series,
        notes=notes,
    )


def _formula(c: int, nodes: int, measured: float) -> list[Row]:
    expected = (c + 1) * (harmonic(nodes) - 1)
    room = 0.6 * (c + 1)
    metric = f"mean view, c={c}, n={nodes:,} (section 2.2)"
    published = f"(c+1) log n = {(c + 1) * math.log(nodes):.2f}"
    low, high = expected - room, expected + room
    return [
        row(f"SM-3/{c}", measured, metric=metric, published=published, low=low, high=high),
    ]


def _receptions() -> int:
    """How often a node deals with one and the same subscription."""
    me, other, subscriber = (Peer(Id(number), "") for number in range(3))
    views = Views(me, TOPIC, literal(), Random(1))
    views.begin(0.0)
    views.receive(other, ScampForward(TOPIC, other, 1), 0.0)
    views.receive(other, ScampForward(TOPIC, subscriber, 1, keep=True), 0.0)
    copy = ScampForward(TOPIC, subscriber, 2)  # it is known: each reception is passed on
    return sum(bool(views.receive(other, copy, 0.0)) for _ in range(100))


def _figure(title: str, curves: dict[str, Curve]) -> Series:
    return Series(
        title=title,
        x_label="entries of the partial view",
        y_label="share of nodes",
        curves=curves,
    )


EXPERIMENT = Experiment(
    name="scamp-views",
    about="the sizes of SCAMP's partial views, without anyone knowing the group's size",
    ids=("SM-3", "SM-4", "SM-5", "SM-6", "SM-7", "SM-8", "SM-11"),
    nodes=MEDIUM,
    runs=RUNS,
    run=run,
)
