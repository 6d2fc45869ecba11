"""How much longer Pastry's routes are than the direct way, and where two routes meet.

Each hop matches one more digit, so fewer nodes fit the next one and the nearest of them is farther: the
hops of a route grow geometrically, and the last one, to a node that proximity had no say in, dominates.
Stretch is the delay along the route over the direct delay from the source to the node that the key belongs
to. It is given as the ratio of the means, as the papers' "distance travelled over distance" and Scribe's RAD
are, and as the mean of the ratios, in which a few neighbours whose message goes round the world weigh
most. The ratio of the means is the one that is held to the published range.

On the plane, a node with a complete table would reach the target directly, so P3's "distance with complete
tables" is the direct distance. PA-5 was published for topologies with routers, and is held there.

Two messages to the same key from nodes at distance d meet after each has gone about as far as d (PA-7): among
the candidates for a slot, near nodes choose the same. As published, keys are far: the key's node is
farther from both sources than they are from each other.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from overlaymq.ids import BITS, Id
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import (
    Curve,
    Experiment,
    Findings,
    Row,
    Series,
    Settings,
    cdf,
)
from overlaymq.sim.experiments.configs import QUIET
from overlaymq.sim.experiments.lookups import Routes, random_lookups, stretch, until_merged
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.published import row
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology import TopologyNetwork, TransitStub
from overlaymq.sim.topology.mercator import Mercator

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.sim.experiments.lookups import Stretch
    from overlaymq.sim.network import NetworkModel
    from overlaymq.sim.ring import PastryOnly

LOOKUPS = 50_000
"""P3 has 200,000. The error of the mean of so many ratios is below 0.01."""
PAIRS = 4_000
"""Pairs of nodes for PA-7: a guess, 400 for each of ten distances."""
BINS = 10
CANDIDATES = 20
"""Nodes drawn for each pair; the one whose distance is nearest to the wanted one is taken."""
MOST_MERCATOR_NODES = 20_000
"""Its 102,639 routers make a row of distances costly, and nodes do not share them."""
SETTLE_SECONDS = 60.0


def _plane(seed: int) -> NetworkModel:
    return PlaneDelay(seconds=0.0)


def _transit_stub(seed: int) -> NetworkModel:
    return TopologyNetwork(TransitStub(seed), seed)


def _mercator(seed: int) -> NetworkModel:
    return TopologyNetwork(Mercator(seed), seed)


MODELS: dict[str, Callable[[int], NetworkModel]] = {
    "plane": _plane,
    "transit-stub": _transit_stub,
    "Mercator": _mercator,
}


class Place:
    """What one network gave."""

    def __init__(self, nodes: int, stretch: Stretch, merging: Merging, events: int) -> None:
        self.nodes = nodes
        self.stretch = stretch
        self.merging = merging
        self.events = events


class Merging:
    """Distances travelled until two routes met, by the distance of their sources."""

    def __init__(self) -> None:
        self.apart: list[float] = []
        self.travelled: list[float] = []

    def add(self, apart: float, one: float, other: float) -> None:
        """A pair: how far its nodes are apart, and how far each message went alone."""
        self.apart.append(apart)
        self.travelled.append((one + other) / 2)

    @property
    def ratio(self) -> float:
        """Mean distance travelled over mean distance."""
        return sum(self.travelled) / sum(self.apart)

    def curve(self) -> Curve:
        """The same for each tenth of the pairs, from the nearest to the farthest."""
        pairs = sorted(zip(self.apart, self.travelled, strict=True))
        x, y = [], []
        for number in range(BINS):
            part = pairs[number * len(pairs) // BINS : (number + 1) * len(pairs) // BINS]
            if part:
                apart = sum(pair[0] for pair in part)
                x.append(apart / len(part))
                y.append(sum(pair[1] for pair in part) / apart)
        return Curve(x, y)


def run(settings: Settings) -> Findings:
    """One ring on each network."""
    places = {name: _measure(settings, name) for name in MODELS}
    return Findings(
        rows=_rows(places),
        events=sum(place.events for place in places.values()),
        series=_series(places),
    )


def _measure(settings: Settings, name: str) -> Place:
    nodes = settings.nodes
    if name == "Mercator":
        nodes = min(nodes, MOST_MERCATOR_NODES)

    def progress(stage: str, done: float, total: float) -> None:
        settings.progress(f"{name}: {stage}", done, total)

    network = MODELS[name](settings.seed)
    ring = Ring(settings.seed, network, QUIET)
    oracle.build(ring, nodes, progress=progress)
    lookups = random_lookups(ring, min(LOOKUPS, 20 * nodes), progress)
    place = Place(nodes, stretch(network, lookups), _merging(ring, progress), 0)
    place.events = ring.simulation.events
    del ring
    gc.collect()
    return place


def _merging(ring: Ring, progress: Callable[[str, float, float], None]) -> Merging:
    """Send pairs of messages to the same keys and see where they meet."""
    network, simulation = ring.simulation.network, ring.simulation
    routes = Routes(ring)
    nodes = list(ring.nodes.values())
    ids = ring.ids()
    merging = Merging()
    for number in range(min(PAIRS, 4 * len(nodes))):
        one, other, apart = _pair(ring, nodes, (number % BINS + 0.5) / BINS)
        key = _far_key(ring, ids, one, other, apart)
        if key is None:
            continue
        requests = [ring.look_up(key, node) for node in (one, other)]
        simulation.run_until(simulation.now + SETTLE_SECONDS)
        merging.add(apart, *until_merged(network, *(routes.of(request) for request in requests)))
        for request in requests:
            routes.forget(request)
        if number % 100 == 0:
            progress("merging", number, PAIRS)
    return merging


def _pair(ring: Ring, nodes: list[PastryOnly], rank: float) -> tuple[PastryOnly, PastryOnly, float]:
    """A random node and another; ``rank`` 0 takes the nearest of some random others, 1 the farthest."""
    delay, random = ring.simulation.network.delay, ring.random
    one = nodes[random.randrange(len(nodes))]
    me = one.pastry.me.address
    others = [node for node in random.sample(nodes, CANDIDATES) if node is not one]
    others.sort(key=lambda node: delay(me, node.pastry.me.address))
    other = others[int(rank * len(others))]
    return one, other, delay(me, other.pastry.me.address)


def _far_key(
    ring: Ring, ids: list[Id], one: PastryOnly, other: PastryOnly, apart: float
) -> Id | None:
    """A key whose owner is farther from both than they are from each other, if one is found."""
    delay = ring.simulation.network.delay
    for _ in range(CANDIDATES):
        key = Id(ring.random.getrandbits(BITS))
        owner = ring.nodes[ring.owner(key, ids)].pastry.me.address
        if all(delay(node.pastry.me.address, owner) > apart for node in (one, other)):
            return key
    return None


def _rows(places: dict[str, Place]) -> list[Row]:
    rows = [row("P3", places["plane"].stretch.of_means)]
    for name in ("transit-stub", "Mercator"):
        metric = f"distance stretch, {name}, {places[name].nodes:,} nodes"
        rows.append(row("PA-5", places[name].stretch.of_means, metric=metric))
    rows.append(row("PA-6", places["transit-stub"].stretch.of_means))
    for name, place in places.items():
        rows.append(row("PA-7", place.merging.ratio, metric=f"{_PA_7}, {name}"))
    for name, place in places.items():
        metric = f"mean of the ratios, {name}, {place.nodes:,} nodes"
        rows.append(row("PA-5/mean of ratios", place.stretch.mean, metric=metric))
    return rows


_PA_7 = "distance until two routes merge, over the distance of their sources"


def _series(places: dict[str, Place]) -> dict[str, Series]:
    return {
        "stretch": Series(
            title="Route delay over direct delay",
            x_label="stretch",
            y_label="share of lookups",
            curves={name: cdf(place.stretch.ratios) for name, place in places.items()},
            kind="cdf",
            log_x=True,
        ),
        "merging": Series(
            title="Where two routes to one key meet",
            x_label="seconds between the sources",
            y_label="distance travelled until merged, over that",
            curves={name: place.merging.curve() for name, place in places.items()},
        ),
    }


EXPERIMENT = Experiment(
    name="pastry-locality",
    about="stretch of routes, and where two routes to one key meet, on three networks",
    ids=("PA-5", "PA-6", "PA-7", "P3"),
    nodes=100_000,
    run=run,
)
