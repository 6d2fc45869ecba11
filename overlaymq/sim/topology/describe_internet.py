"""A Mercator-like network in figures, beside those of the SV-tree paper."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from overlaymq.sim.topology.mercator import Mercator

PAIRS = 20_000
"""Random pairs of routers whose round trips are taken: the median's standard error is about 0.5 ms."""

ROUTES = 100
"""Those whose routes are followed, which takes longer."""


class InternetFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Round trips are in milliseconds, core only."""

    seed: int
    routers: int
    links: int
    systems: int
    outer_links: int
    mean_degree: float
    max_degree: int
    max_system: int
    """Routers of the largest AS."""
    mean_hops: float
    mean_systems_crossed: float
    """Links between ASs on a route."""
    median_round_trip: float
    round_trip_90: float
    """The 90th percentile."""
    round_trip_99: float


PUBLISHED = {
    "routers": 102_639,
    "links": 142_303,
    "systems": 2_662,
    "outer_links": 4_851,
    "median_round_trip": 130,
}


def describe_internet(topology: Mercator, seed: int) -> InternetFigures:
    """The figures of one network."""
    random = Random(f"overlaymq describe {seed}")
    pairs = [
        (random.randrange(topology.routers), random.randrange(topology.routers))
        for _ in range(PAIRS)
    ]
    trips = [1e3 * (topology.delay(a, b) + topology.delay(b, a)) for a, b in pairs]
    links, system = topology.links, topology.system_of
    degree = np.bincount(np.concatenate((links.a, links.b)))
    some = [topology.path(a, b) for a, b in pairs[:ROUTES]]
    crossed = [np.count_nonzero(np.diff(system[path])) for path in some]
    return InternetFigures(
        seed=seed,
        routers=topology.routers,
        links=len(links),
        systems=topology.systems,
        outer_links=len(topology.outer),
        mean_degree=float(degree.mean()),
        max_degree=int(degree.max()),
        max_system=int(np.bincount(system).max()),
        mean_hops=float(np.mean([topology.hops(a, b) for a, b in pairs])),
        mean_systems_crossed=float(np.mean(crossed)),
        median_round_trip=float(np.median(trips)),
        round_trip_90=float(np.percentile(trips, 90)),
        round_trip_99=float(np.percentile(trips, 99)),
    )
