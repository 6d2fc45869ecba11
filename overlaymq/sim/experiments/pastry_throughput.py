"""How many messages a second one core routes (P8; Pastry, Middleware 2001).

The paper's nodes ran in one process on an emulated network, as ours do here: no message is encoded and none
leaves the process. A message is one that a node got and handed on or delivered; its acknowledgement, and what
the engine does for both, are part of its price. CPU time is counted, so other processes hardly matter, but
the machine does: the paper's had a 500 MHz Alpha. What a live node does, over sockets and with signed links,
is another matter: ``benchmarks``.
"""

from __future__ import annotations

import time

from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import Experiment, Findings, Settings, averaged
from overlaymq.sim.experiments.configs import QUIET
from overlaymq.sim.experiments.lookups import random_lookups
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.published import row
from overlaymq.sim.ring import Ring

LOOKUPS = 50_000
"""Some seconds of CPU."""


def run(settings: Settings) -> Findings:
    """Look random keys up and look at the clock."""
    ring = Ring(settings.seed, PlaneDelay(), QUIET)
    oracle.build(ring, settings.nodes, progress=settings.progress)
    started = time.process_time()
    lookups = random_lookups(ring, min(LOOKUPS, 20 * settings.nodes), settings.progress)
    seconds = time.process_time() - started
    handled = sum(lookup.hops for lookup in lookups)
    return Findings(rows=[row("P8", handled / seconds)], events=ring.simulation.events)


EXPERIMENT = Experiment(
    name="pastry-throughput",
    about="messages a second that one core routes, without a network",
    ids=("P8",),
    nodes=10_000,
    run=averaged(run),
)
