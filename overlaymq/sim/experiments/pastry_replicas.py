"""How often a lookup meets the replica that is nearest to who asks (P5; Pastry, Middleware 2001).

What is kept on the k = 5 nodes whose ids are closest to a key can be had from any of them, so a lookup ends
at the first that it meets. Hops begin short, so that is often the nearest. Not always: once the leaf set
covers the key, distance has no say any more.

The paper has 10,000 nodes on a plane, b = 3, l = 8, M = 16 and 100,000 lookups. Its heuristic guesses from
the density of ids when a lookup comes near the replicas, and then looks for the nearest of them. Ours, for
comparison, is told who they are: a node that knows some of them hands a lookup to the nearest of those.
Neither is part of the protocol, which ends at the closest id. 128 bits are no multiple of 3: the last two
are never reached by a table here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.pastry.routing import next_hop
from overlaymq.ids import BITS, Id
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings, averaged
from overlaymq.sim.experiments.configs import QUIET
from overlaymq.sim.experiments.walk import closest
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.published import row
from overlaymq.sim.ring import Ring

if TYPE_CHECKING:
    from collections.abc import Sequence

REPLICAS = 5
LOOKUPS_PER_NODE = 10
"""100,000 at 10,000 nodes, half of them by each rule."""
CONFIG = msgspec.structs.replace(QUIET, digit_bits=3, leaf_set_size=8, neighbourhood_size=16)


class Lookups:
    """Random lookups, and which replica each of them met: 0 is the nearest to who asked."""

    def __init__(self, ring: Ring) -> None:
        self._nodes = ring.nodes
        self._delay = ring.simulation.network.delay
        self._random = ring.random
        self._ids = ring.ids()

    def shares(self, count: int, informed: bool) -> list[float]:
        """The share of lookups that met each replica, nearest first."""
        met = [0] * REPLICAS
        for _ in range(count):
            key = Id(self._random.getrandbits(BITS))
            start = self._ids[self._random.randrange(len(self._ids))]
            replicas = closest(self._ids, key, REPLICAS)
            end = self.first(start, key, replicas, informed)
            met[sorted(replicas, key=lambda id_: self._away(start, id_)).index(end)] += 1
        return [number / count for number in met]

    def first(self, start: Id, key: Id, replicas: Sequence[Id], informed: bool) -> Id:
        """The first replica on the way."""
        here = start
        while here not in replicas:
            state = self._nodes[here].pastry.state
            known = [peer.id for peer in state.everyone() if peer.id in replicas]
            if informed and known:
                return min(known, key=lambda id_: self._away(here, id_))
            here = next_hop(state, key)[1].id
        return here

    def _away(self, one: Id, other: Id) -> float:
        if one == other:
            return 0.0
        return self._delay(self._nodes[one].pastry.me.address, self._nodes[other].pastry.me.address)


def run(settings: Settings) -> Findings:
    """Both rules on one ring."""
    ring = Ring(settings.seed, PlaneDelay(seconds=0.0), CONFIG)
    oracle.build(ring, settings.nodes, progress=settings.progress)
    lookups = Lookups(ring)
    found = {}
    for number, informed in enumerate((False, True)):
        settings.progress("looking up", number, 2)
        found[informed] = lookups.shares(LOOKUPS_PER_NODE * settings.nodes // 2, informed)
    return Findings(
        rows=[
            row("P5/closest", found[False][0]),
            row("P5/top2", sum(found[False][:2])),
            row("P5/informed closest", found[True][0]),
            row("P5/informed top2", sum(found[True][:2])),
        ],
        events=ring.simulation.events,
        series={
            "replicas": Series(
                title="Which of five replicas a lookup meets, nearest first",
                x_label="replica",
                y_label="share of lookups",
                curves={
                    "routing alone": Curve(range(1, REPLICAS + 1), found[False]),
                    "to the nearest known": Curve(range(1, REPLICAS + 1), found[True]),
                },
                kind="bars",
            )
        },
    )


EXPERIMENT = Experiment(
    name="pastry-replicas",
    about="how often a lookup meets the nearest of five replicas",
    ids=("P5",),
    nodes=10_000,
    run=averaged(run),
)
