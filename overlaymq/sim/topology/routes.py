"""Shortest routes between all pairs of routers, with ties broken the same way everywhere.

Routes minimise the policy weight, then the hops. Both are folded into one integer, weight * 256 + hops,
which stays exact because a weight is at least 1, so a route has no more hops than weight, and distances
are checked to stay below 256. Among predecessors that are equally good the router with the smallest
number is taken. The choice depends on the source and on the router alone, so that the routes from one
source form a tree. It does depend on the direction: there and back may differ in delay (never in weight
or hops), since delay is no part of the comparison.

The algorithm is Bellman and Ford's, relaxing a router for all sources at once: a "distance" is a row of
numbers, one per source, and numpy takes the minimum over a router's neighbours. Two properties of
transit-stub graphs make that fast: few neighbours, and few hops, so that few sweeps are needed. Sweeps
go up and down in turns, which halves their number.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.topology.graph import directed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overlaymq.sim.topology.graph import Delays, Floats, Indexes, Links

WEIGHT = 256
"""The worth of one unit of weight in hops."""
UNREACHED = 1 << 29
BLOCK = 1024
"""Sources that are routed together: bounds the memory of the intermediate rows."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Matrices with a row per source."""

    parent: NDArray[np.uint16]
    delay: Delays
    hops: NDArray[np.uint8]

    def path(self, source: int, target: int) -> list[int]:
        """From end to end."""
        parents = self.parent[source]
        path = [target]
        while path[-1] != source:
            path.append(int(parents[path[-1]]))
        return path[::-1]


class Neighbourhood:
    """Per router: its neighbours by ascending number, the cost of the step, its length."""

    def __init__(self, routers: int, links: Links, weight: Indexes) -> None:
        ends, link = directed(routers, links)
        link %= len(links)
        cost = (weight[link] * WEIGHT + 1).astype(np.int32)
        length = links.length[link]
        bounds = np.searchsorted(ends, np.arange(routers + 1) * routers).tolist()
        slices = [slice(low, high) for low, high in itertools.pairwise(bounds)]
        around = ends % routers
        self.routers = [around[part] for part in slices]
        self.costs = [cost[part, None] for part in slices]
        self.lengths = [length[part] for part in slices]


def shortest_routes(routers: int, links: Links, weight: Indexes) -> Routes:
    """Route between all pairs; the graph must be connected."""
    if routers > np.iinfo(np.uint16).max:
        raise ValueError(f"{routers} routers do not fit a matrix of 16-bit numbers")
    around = Neighbourhood(routers, links, weight)
    routes = Routes(
        np.zeros((routers, routers), np.uint16),
        np.zeros((routers, routers), np.float32),
        np.zeros((routers, routers), np.uint8),
    )
    for first in range(0, routers, BLOCK):
        sources = np.arange(first, min(first + BLOCK, routers))
        distance = _distances(around, sources)
        parent, step = _parents(around, distance, sources)
        hops = distance % WEIGHT
        routes.parent[sources] = parent.T
        routes.hops[sources] = hops.T
        most = int(hops.max())
        for column, source in enumerate(sources):
            parents = routes.parent[source].astype(np.int64)
            routes.delay[source] = _delays(parents, step[:, column], most)
    return routes


def _distances(around: Neighbourhood, sources: Indexes) -> NDArray[np.int32]:
    """A row per router, a column per source."""
    routers = len(around.routers)
    distance = np.full((routers, len(sources)), UNREACHED, np.int32)
    distance[sources, np.arange(len(sources))] = 0
    order = [router for router in range(routers) if len(around.routers[router])]
    changed = True
    while changed:
        changed = False
        for router in order:
            row = distance[router]
            through = (distance[around.routers[router]] + around.costs[router]).min(axis=0)
            if not changed and (through < row).any():
                changed = True
            np.minimum(row, through, out=row)
        order.reverse()
    if distance.max() >= WEIGHT * WEIGHT:
        raise ValueError("the graph is not connected, or its routes are too heavy")
    return distance


def _parents(
    around: Neighbourhood, distance: NDArray[np.int32], sources: Indexes
) -> tuple[NDArray[np.uint16], Floats]:
    """The last router before each, by source, and the length of the step from there."""
    parent = np.zeros(distance.shape, np.uint16)
    step = np.zeros(distance.shape, np.float64)
    for router, neighbours in enumerate(around.routers):
        if len(neighbours):
            # argmin takes the first of equals, and neighbours ascend.
            best = (distance[neighbours] + around.costs[router]).argmin(axis=0)
            parent[router] = neighbours[best]
            step[router] = around.lengths[router][best]
    columns = np.arange(len(sources))
    parent[sources, columns] = sources
    step[sources, columns] = 0.0
    return parent, step


def _delays(parent: Indexes, step: Floats, hops: int) -> Floats:
    """Add up the steps of one source's routes, of at most so many hops.

    Each round doubles how far a sum reaches; at the source nothing is added any more.
    """
    delay, reached = step, parent
    for _ in range(hops.bit_length()):
        delay = delay + delay[reached]
        reached = reached[reached]
    return delay
