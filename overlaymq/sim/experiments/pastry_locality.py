"""How much longer Pastry's routes are than the direct way, and where two routes meet.

Each hop matches one more digit, so fewer nodes fit the next one and the nearest of them is farther: the
hops of a route grow geometrically, and the last one, to a node that proximity had no say in, dominates.
Stretch is the delay along the route over the direct delay from the source to the node that the key belongs
to. It is given as the mean over lookups of that ratio, which is what PA-5 and PA-6 are held to, and as the
ratio of the mean delays, which is what P3 is held to: there the published figure is a distance over that
with complete tables, and with complete tables a message goes directly. Both are shown for all.

PA-5 was published for networks of routers: the transit-stub network and Mercator, whose delays the authors
did not know, so that distance there is the number of links. P3's nodes are on a plane.

PA-7: two nodes at distance d send messages to the same key, whose node is much farther from both than d. How
far does each travel until the two routes meet? Held is the delay along the routes in the transit-stub
network, which the publications mean. Beside it: the direct delay to the node where they meet, the other
networks, and pairs and keys drawn without regard to distance. The figures show all of it over the distance
of the sources.

Why they do not meet sooner: hops shorter than d lead the two to different nodes as a rule, as the nodes near
the one are not those near the other. So they meet at the end of a hop that is about as long as d or longer.
Where the first hop of at least that length ends is a row of its own; hops grow several-fold from one to the
next, so it is well beyond d.
"""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING

import msgspec

from overlaymq.ids import BITS, Id
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import (
    Curve,
    Experiment,
    Findings,
    Row,
    Series,
    Settings,
    averaged,
    cdf,
)
from overlaymq.sim.experiments.configs import QUIET
from overlaymq.sim.experiments.lookups import (
    Routes,
    Stretch,
    delay_past,
    delay_to,
    first_shared,
    random_lookups,
    stretch,
)
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.published import row
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology import TopologyNetwork, TransitStub
from overlaymq.sim.topology.mercator import Mercator, MercatorParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overlaymq.messages import Peer
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.network import NetworkModel
    from overlaymq.sim.ring import PastryOnly

LOOKUPS = 20_000
"""P3 has 200,000. The error of the mean of so many ratios is below 0.01."""
PAIRS = 1_000
"""Pairs of nodes of each kind for PA-7: a guess, 100 for each of ten distances."""
BINS = 10
CANDIDATES = 20
"""Nodes drawn for each pair; the one whose distance is nearest to the wanted one is taken."""
MUCH_FARTHER = 2.0
"""What "much larger than d" is taken to mean: a guess."""
MOST_MERCATOR_NODES = 10_000
"""Its 102,639 routers make a row of distances costly, and nodes do not share them."""
HOP = 0.01
"""The delay of every link of the Mercator network but a node's own, which has the usual millisecond."""
SETTLE_SECONDS = 60.0


def _plane(seed: int) -> NetworkModel:
    return PlaneDelay(seconds=0.0)


def _transit_stub(seed: int) -> NetworkModel:
    return TopologyNetwork(TransitStub(seed), seed)


def _mercator(seed: int) -> NetworkModel:
    links = MercatorParameters(fast=(HOP, HOP), slow=(HOP, HOP), inside=HOP)
    return TopologyNetwork(Mercator(seed, links), seed)


MODELS: dict[str, Callable[[int], NetworkModel]] = {
    "plane": _plane,
    "transit-stub": _transit_stub,
    "Mercator": _mercator,
}


class Merging:
    """How far two messages went until they met, by the distance of their sources."""

    def __init__(self) -> None:
        self.apart: list[float] = []
        self.along: list[float] = []
        self.direct: list[float] = []
        self.long_hop: list[float] = []

    def add(self, network: NetworkModel, apart: float, routes: Sequence[list[Peer]]) -> None:
        """A pair: how far its nodes are apart, and the routes of their messages."""
        meeting = first_shared(*routes)
        self.apart.append(apart)
        self.along.append(_mean([delay_to(network, route, meeting) for route in routes]))
        self.direct.append(_mean([_direct(network, route[0], meeting) for route in routes]))
        self.long_hop.append(_mean([delay_past(network, route, apart) for route in routes]))

    def ratio(self, travelled: list[float]) -> float:
        """Mean distance to the meeting over mean distance of the sources."""
        return sum(travelled) / sum(self.apart) if self.apart else math.nan

    def bins(self) -> list[tuple[list[float], list[float]]]:
        """The distances of the sources and to the meeting along the routes, for each tenth of the pairs from
        the nearest to the farthest."""
        pairs = sorted(zip(self.apart, self.along, strict=True))
        parts = [
            pairs[number * len(pairs) // BINS : (number + 1) * len(pairs) // BINS]
            for number in range(BINS)
        ]
        return [([a for a, _ in part], [b for _, b in part]) for part in parts if part]

    def curve(self, value: Callable[[list[float], list[float]], float]) -> Curve:
        """A value of each bin over the mean distance of its sources."""
        bins = self.bins()
        return Curve(
            [_mean(apart) for apart, _ in bins], [value(apart, along) for apart, along in bins]
        )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def travelled(apart: list[float], along: list[float]) -> float:
    """How far each message went until they met."""
    return _mean(along)


def ratio_of_means(apart: list[float], along: list[float]) -> float:
    """What PA-7 is held to."""
    return _mean(along) / _mean(apart)


def mean_of_ratios(apart: list[float], along: list[float]) -> float:
    """Each pair counts the same."""
    return _mean([way / direct for direct, way in zip(apart, along, strict=True)])


class Place(msgspec.Struct):
    """What one network gave."""

    nodes: int
    stretch: Stretch
    far: Merging
    random: Merging
    events: int


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
    place = Place(
        nodes=nodes,
        stretch=stretch(network, lookups),
        far=_merging(ring, progress, far=True),
        random=_merging(ring, progress, far=False),
        events=ring.simulation.events,
    )
    del ring
    gc.collect()
    return place


def _merging(ring: Ring, progress: Progress, far: bool) -> Merging:
    """Send pairs of messages to the same keys and see where they meet."""
    network, simulation = ring.simulation.network, ring.simulation
    routes = Routes(ring)
    nodes = list(ring.nodes.values())
    ids = ring.ids()
    merging = Merging()
    for number in range(PAIRS):
        rank = (number % BINS + 0.5) / BINS if far else ring.random.random()
        one, other, apart = _pair(ring, nodes, rank)
        key = _key(ring, ids, one, other, MUCH_FARTHER * apart if far else 0.0)
        if key is None:
            continue
        requests = [ring.look_up(key, node) for node in (one, other)]
        simulation.run_until(simulation.now + SETTLE_SECONDS)
        passed = [
            routes.pop(request) or [node.pastry.me]
            for request, node in zip(requests, (one, other), strict=True)
        ]
        merging.add(network, apart, passed)
        if number % 100 == 0:
            progress("merging", number, PAIRS)
    return merging


def _direct(network: NetworkModel, source: Peer, target: Peer) -> float:
    return 0.0 if source.id == target.id else network.delay(source.address, target.address)


def _pair(ring: Ring, nodes: list[PastryOnly], rank: float) -> tuple[PastryOnly, PastryOnly, float]:
    """A random node and another; ``rank`` 0 takes the nearest of some random others, 1 the farthest."""
    delay, random = ring.simulation.network.delay, ring.random
    one = nodes[random.randrange(len(nodes))]
    me = one.pastry.me.address
    others = [node for node in random.sample(nodes, CANDIDATES) if node is not one]
    others.sort(key=lambda node: delay(me, node.pastry.me.address))
    other = others[int(rank * len(others))]
    return one, other, delay(me, other.pastry.me.address)


def _key(ring: Ring, ids: list[Id], one: PastryOnly, other: PastryOnly, away: float) -> Id | None:
    """A key whose node is farther than that from both, if one is found."""
    delay = ring.simulation.network.delay
    for _ in range(CANDIDATES):
        key = Id(ring.random.getrandbits(BITS))
        owner = ring.nodes[ring.owner(key, ids)].pastry.me.address
        if all(delay(node.pastry.me.address, owner) > away for node in (one, other)):
            return key
    return None


def _rows(places: dict[str, Place]) -> list[Row]:
    plane, transit_stub = places["plane"], places["transit-stub"]
    rows = [row("P3", plane.stretch.of_means)]
    for name in ("transit-stub", "Mercator"):
        metric = f"distance stretch, {name}, {places[name].nodes:,} nodes"
        rows.append(row("PA-5", places[name].stretch.mean, metric=metric))
    rows.append(row("PA-6", transit_stub.stretch.mean))
    far = transit_stub.far
    rows.append(row("PA-7", far.ratio(far.along)))
    for name, place in places.items():
        for kind, pairs in (("far keys", place.far), ("all keys", place.random)):
            for way, travelled in (("along", pairs.along), ("direct", pairs.direct)):
                if travelled is not far.along:
                    metric = f"the same, {name}, {kind}, {way}"
                    rows.append(row("PA-7/other", pairs.ratio(travelled), metric=metric))
    for name, place in places.items():
        metric = f"to the end of the first hop as long as the sources are apart, {name}, far keys"
        rows.append(row("PA-7/other", place.far.ratio(place.far.long_hop), metric=metric))
    rows.append(row("PA-5/other", plane.stretch.mean, metric="mean of the ratios, plane"))
    for name in ("transit-stub", "Mercator"):
        metric = f"mean route over mean direct delay, {name}"
        rows.append(row("PA-5/other", places[name].stretch.of_means, metric=metric))
    return rows


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
            y_label="seconds travelled until merged",
            curves=_merging_curves(places, {"": travelled}),
        ),
        "merging-ratio": Series(
            title="Where two routes to one key meet, over the distance of their sources",
            x_label="seconds between the sources",
            y_label="ratio",
            curves=_merging_curves(
                places, {", ratio of means": ratio_of_means, ", mean of ratios": mean_of_ratios}
            ),
        ),
    }


def _merging_curves(
    places: dict[str, Place], values: dict[str, Callable[[list[float], list[float]], float]]
) -> dict[str, Curve]:
    return {
        f"{name}, {kind}{words}": pairs.curve(value)
        for name, place in places.items()
        for kind, pairs in (("far keys", place.far), ("all keys", place.random))
        for words, value in values.items()
    }


EXPERIMENT = Experiment(
    name="pastry-locality",
    about="stretch of routes, and where two routes to one key meet, on three networks",
    ids=("PA-5", "PA-6", "PA-7", "P3"),
    nodes=100_000,
    run=averaged(run),
)
