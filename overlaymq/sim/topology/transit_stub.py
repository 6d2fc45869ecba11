"""Transit-stub topologies, as GT-ITM makes them and as the Scribe paper used them.

A few transit domains, all joined to each other, carry the traffic between many stub domains; each stub
hangs on one transit router by one link. Everything lies on an integer grid and a link is as long as the
distance between its ends, rounded, in units of a millisecond.

- A domain is a random graph: distinct grid points, an edge between each pair with a fixed probability,
  drawn anew until it is connected.
- Sizes vary around their means while the totals stay exact (``spread``), so there are always as many
  routers as the means say: 5,050 on the defaults.
- Each vertex of the top-level graph adds one link for each of its edges, so two adjacent domains are
  joined by two links, between random routers.
- Policy weights make traffic inside a domain stay there and keep transit traffic out of the stubs.
  A unicast route is a shortest path by weight; its delay is the sum of its lengths, so it is not
  always the fastest.

``faithful`` reproduces a fault of the original: the settings of a transit domain are copied once before
the loop over the domains and overwritten with the stubs' inside it, so all transit domains but the first
are as small as a stub. It hardly moves the mean link (40.7 ms with the fault, 41.5 without) but the mean
one-way delay a lot: 518 and 706 ms. These also depend on how ties between routes are broken, as many are
equally heavy: fewest hops prefer a long link between domains to two short ones inside, and taking the
fastest instead gives 469 and 660 ms.

References: Zegura, Calvert and Bhattacharjee, "How to Model an Internetwork" (INFOCOM 1996); Castro,
Druschel, Kermarrec and Rowstron, "SCRIBE" (JSAC 2002), section IV.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import hypot, sqrt
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.topology.graph import Links, Topology, Tree, hop_diameter
from overlaymq.sim.topology.routes import Routes, shortest_routes

if TYPE_CHECKING:
    from overlaymq.sim.topology.graph import Delays

STUB, TRANSIT_STUB, TRANSIT, INTER_DOMAIN, STUB_STUB = range(5)
KINDS = ("stub", "transit-stub", "transit", "inter-domain", "stub-stub")

SPREAD = 3
"""GT-ITM moves this many units per entry when it varies sizes."""


@dataclass(frozen=True, slots=True)
class TransitStubParameters:
    """The sizes are those of the Scribe paper (section IV.A). It does not give the probabilities: these are
    of GT-ITM's sample ``ts600``, and the only ones found that give the paper's mean link and link count."""

    transit_domains: int = 10
    transit_routers: int = 5
    """Mean routers in a transit domain."""
    stubs: int = 10
    """Mean stub domains on a transit router."""
    stub_routers: int = 10
    """Mean routers in a stub domain."""
    top_edges: float = 1.0
    """The probability that two transit domains are adjacent."""
    transit_edges: float = 0.5
    stub_edges: float = 0.5
    extra_transit_stub: int = 0
    """Further links between random transit routers and stubs, as GT-ITM allows; the paper has none."""
    extra_stub_stub: int = 0
    unit: float = 0.001
    """Seconds per unit of length: makes the mean link 40.7 ms, as in the paper."""

    @property
    def total(self) -> int:
        """Routers, exactly."""
        per_transit_router = self.stubs * self.stub_routers + 1
        return self.transit_domains * self.transit_routers * per_transit_router


@dataclass(frozen=True, slots=True)
class Scales:
    """Sides of the squares in which things are placed: GT-ITM's own, from the sizes."""

    world: int
    transit: int
    stub: int

    @classmethod
    def of(cls, parameters: TransitStubParameters) -> Scales:
        """The largest domain that ``spread`` could make fits its square loosely."""
        world = round(sqrt(80 * parameters.total))
        transit = round(0.5 * world)
        most_transit = parameters.transit_routers + SPREAD * parameters.transit_domains
        most_stubs = parameters.stubs + SPREAD * most_transit
        most_stub_routers = parameters.stub_routers + SPREAD * most_stubs
        return cls(world, transit + transit % 2, round(sqrt(16 * most_stub_routers)))


@dataclass(frozen=True, slots=True)
class Weights:
    """Policy weights of the links that leave a domain; a link inside one weighs 1."""

    inter_domain: int
    transit_stub: int
    stub_stub: int

    @classmethod
    def of(cls, top: int, transit: int, stub: int) -> Weights:
        """From the hop diameters of the top level, of transit domains and of stubs."""
        inter = _more_than_half(transit)
        up = _more_than_half(top * inter) + _more_than_half((top + 1) * transit)
        return cls(inter, up, stub + 2 * up)


def _more_than_half(number: int) -> int:
    return (number >> 1) + 1


@dataclass(slots=True)
class Domain:
    """A connected random graph on grid points."""

    points: list[tuple[int, int]]
    edges: list[tuple[int, int]]
    diameter: int


def random_domain(random: Random, size: int, scale: int, probability: float) -> Domain:
    """Distinct points of a square, drawn with their edges until all are connected."""
    while True:
        cells = random.sample(range(scale * scale), size)
        edges = [(i, j) for i in range(size) for j in range(i) if random.random() < probability]
        neighbours: list[list[int]] = [[] for _ in range(size)]
        for i, j in edges:
            neighbours[i].append(j)
            neighbours[j].append(i)
        diameter = hop_diameter(neighbours)
        if diameter is not None:
            return Domain([divmod(cell, scale) for cell in cells], edges, diameter)


def spread(random: Random, size: int, mean: int) -> list[int]:
    """Numbers of at least 1 with exactly this mean, varied by moving units about."""
    numbers = [mean] * size
    for _ in range(SPREAD * size):
        entry = random.randrange(size)
        if numbers[entry] > 1:
            numbers[entry] -= 1
            numbers[random.randrange(size)] += 1
    return numbers


class Builder:
    """Draws one topology. Routers are numbered in the order of their making."""

    def __init__(self, seed: int, parameters: TransitStubParameters, faithful: bool) -> None:
        self.random = Random(f"overlaymq transit-stub {seed}")
        self.parameters = parameters
        self.faithful = faithful
        self.scales = Scales.of(parameters)
        self.points: list[tuple[int, int]] = []
        self.links: list[tuple[int, int, int]] = []
        self.domains: list[list[int]] = []
        """The routers of each transit domain."""
        self.stubs: list[list[int]] = []
        self.top_diameter = self.transit_diameter = self.stub_diameter = 0

    def build(self) -> None:
        """Everything, in the generator's order."""
        settings, random = self.parameters, self.random
        top = random_domain(random, settings.transit_domains, self.scales.world, settings.top_edges)
        self.top_diameter = top.diameter
        sizes = spread(random, settings.transit_domains, settings.transit_routers)
        for number, (size, place) in enumerate(zip(sizes, top.points, strict=True)):
            self._transit_domain(number, size, place)
        for one, other in top.edges:
            for source, target in ((one, other), (other, one)):
                ends = random.choice(self.domains[source]), random.choice(self.domains[target])
                self._link(*ends, INTER_DOMAIN)
        self._extra_links()

    def _transit_domain(self, number: int, size: int, place: tuple[int, int]) -> None:
        settings, scales, random = self.parameters, self.scales, self.random
        shrunk = self.faithful and number > 0
        scale = scales.stub if shrunk else scales.transit
        probability = settings.stub_edges if shrunk else settings.transit_edges
        x, y = (
            min(max(middle - scales.transit // 2, 0), scales.world - scales.transit)
            for middle in place
        )
        domain = random_domain(random, size, scale, probability)
        self.transit_diameter = max(self.transit_diameter, domain.diameter)
        routers = self._add(domain, (x, y), TRANSIT)
        self.domains.append(routers)
        for router, stubs in zip(routers, spread(random, size, settings.stubs), strict=True):
            for routers_in_stub in spread(random, stubs, settings.stub_routers):
                self._stub(router, routers_in_stub)

    def _stub(self, transit_router: int, size: int) -> None:
        scales, random = self.scales, self.random
        domain = random_domain(random, size, scales.stub, self.parameters.stub_edges)
        self.stub_diameter = max(self.stub_diameter, domain.diameter)
        x, y = self.points[transit_router]
        routers = self._add(domain, (self._stub_corner(x), self._stub_corner(y)), STUB)
        self.stubs.append(routers)
        self._link(transit_router, random.choice(routers), TRANSIT_STUB)

    def _stub_corner(self, near: int) -> int:
        low = max(0, near - self.scales.stub)
        high = min(near, self.scales.world - self.scales.stub)
        return self.random.randrange(low, high) if low < high else low

    def _extra_links(self) -> None:
        random = self.random
        for _ in range(self.parameters.extra_transit_stub):
            transit = random.choice(random.choice(self.domains))
            self._link(transit, random.choice(random.choice(self.stubs)), TRANSIT_STUB)
        for _ in range(self.parameters.extra_stub_stub):
            one, other = random.sample(self.stubs, 2)
            self._link(random.choice(one), random.choice(other), STUB_STUB)

    def _add(self, domain: Domain, corner: tuple[int, int], kind: int) -> list[int]:
        first = len(self.points)
        self.points += [(corner[0] + x, corner[1] + y) for x, y in domain.points]
        for one, other in domain.edges:
            self._link(first + one, first + other, kind)
        return list(range(first, len(self.points)))

    def _link(self, one: int, other: int, kind: int) -> None:
        self.links.append((one, other, kind))

    def lengths(self) -> list[int]:
        """In units, rounded as the generator does."""
        points = self.points
        return [
            round(hypot(points[a][0] - points[b][0], points[a][1] - points[b][1]))
            for a, b, _ in self.links
        ]


class TransitStub(Topology):
    """One topology of a seed. Routes are worked out when first asked for: seconds, and 180 MB."""

    def __init__(
        self, seed: int, parameters: TransitStubParameters | None = None, faithful: bool = True
    ) -> None:
        self.parameters = parameters or TransitStubParameters()
        builder = Builder(seed, self.parameters, faithful)
        builder.build()
        ends = np.array(builder.links, np.int64)
        self.routers = len(builder.points)
        self.links = Links(
            ends[:, 0].copy(),
            ends[:, 1].copy(),
            np.array(builder.lengths(), np.float64) * self.parameters.unit,
        )
        self.kinds = ends[:, 2].copy()
        """What each link joins: an index of ``KINDS``."""
        self.transit = np.zeros(self.routers, np.bool_)
        """Which routers are in transit domains."""
        for domain in builder.domains:
            self.transit[domain] = True
        self.diameters = builder.top_diameter, builder.transit_diameter, builder.stub_diameter
        """Hops across the top level, the widest transit domain, the widest stub."""
        self.weights = Weights.of(*self.diameters)

    @cached_property
    def routes(self) -> Routes:
        """Between all pairs."""
        weights = self.weights
        per_kind = [1, weights.transit_stub, 1, weights.inter_domain, weights.stub_stub]
        return shortest_routes(self.routers, self.links, np.array(per_kind)[self.kinds])

    @cached_property
    def _delays(self) -> memoryview:
        # Indexing a view gives a float at half the price of indexing the array.
        return self.routes.delay.data

    def delay(self, source: int, target: int) -> float:
        """Along the route."""
        return self._delays[source, target]

    def hops(self, source: int, target: int) -> int:
        """Links of the route."""
        return int(self.routes.hops[source, target])

    def path(self, source: int, target: int) -> list[int]:
        """The route's routers."""
        return self.routes.path(source, target)

    def delay_row(self, router: int) -> Delays:
        """From one router to all."""
        row: Delays = self.routes.delay[router]
        return row

    def delay_matrix(self) -> Delays:
        """From all routers to all."""
        return self.routes.delay

    def tree(self, source: int) -> Tree:
        """The routes from one router."""
        return Tree(self.routes.parent[source], self.routes.hops[source])
