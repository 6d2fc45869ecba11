"""How many hops Pastry takes, and how much a node knows (PA-1, P2)."""

from __future__ import annotations

import math

from overlaymq.sim.experiments.base import Experiment, Findings, Series, Settings, histogram
from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.published import log16, row
from overlaymq.sim.ring import Ring

LOOKUPS = 200_000


def run(settings: Settings) -> Findings:
    """Look random keys up in a ring."""
    ring = Ring(settings.seed, ConstantDelay())
    ring.grow(settings.nodes)
    ring.settle()
    lookups = min(LOOKUPS, 20 * settings.nodes)
    requests = ring.random_lookups(lookups, 10.0)
    ring.simulation.run_until(ring.simulation.now + 5.0)
    hops = [ring.deliveries[request][0].hops for request in requests]
    shares = histogram(hops)
    return Findings(
        rows=[
            row("PA-1", sum(hops) / len(hops), high=math.ceil(log16(settings.nodes))),
        ],
        events=ring.simulation.events,
        series={
            "hops": Series(
                title=f"Hops of {lookups:,} lookups, {settings.nodes:,} nodes",
                x_label="hops",
                y_label="share of lookups",
                curves={"measured": shares},
                kind="bars",
            )
        },
    )


EXPERIMENT = Experiment(
    name="pastry-routing",
    about="hops and table sizes of Pastry as the ring grows",
    ids=("PA-1",),
    nodes=100_000,
    run=run,
)
