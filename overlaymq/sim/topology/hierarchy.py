"""Hierarchical routing: first between autonomous systems, then inside each one.

The Internet does not take the shortest path between routers. A route crosses the fewest autonomous
systems (ASs); inside each it takes the fewest hops from where it came in to the router that is joined to
the next one. So it never leaves an AS and comes back, and it may be longer than need be.

Two ASs are joined by one link, so a route between two routers has three parts: from the source to its
AS's way out, from there to the way into the target's AS, and on to the target. The middle part depends
on the pair of ASs alone and is worked out once for all pairs; the outer parts are hops from border
routers, worked out once for all of them. A delay is then a handful of look-ups, and nothing of the size
of all pairs of routers is ever held. Only two routers of one AS need a search, which is remembered for a
bounded number of routers.

Ties between AS paths go to the smallest AS before the last, ties inside an AS to the smallest router, both
seen from the source: routes from one router form a tree, and the way back may be another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from overlaymq.sim.topology.graph import Links, Topology, Tree, directed
from overlaymq.sim.topology.routes import shortest_routes

if TYPE_CHECKING:
    from overlaymq.sim.topology.graph import Delays, Indexes

Hops = NDArray[np.uint8]

SEARCHES = 16_384
"""Routers whose hops inside their AS are remembered: at most the size of the AS in bytes each."""
TREES = 16
"""Sources whose trees are remembered, at six bytes a router."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Routes between ASs: matrices with a row per source AS, for the part between the border routers."""

    way_out: NDArray[np.uint16]
    """The directed inter-AS link by which a route leaves the first AS."""
    way_in: NDArray[np.uint16]
    """And the one by which it enters the last."""
    delay: Delays
    hops: NDArray[np.uint16]
    from_border: Hops
    """Hops from border routers to the routers of their AS, one border router after another."""
    row_at_source: Indexes
    """Per directed inter-AS link: add a router to find its hops from the link's source."""
    row_at_target: Indexes


class Hierarchical(Topology):
    """Routers are numbered AS by AS; ``starts`` holds each AS's first one, and the end.

    ``inner`` are links inside ASs, all equally long. ``outer`` are those between ASs, one for each pair.
    """

    def __init__(
        self, starts: Indexes, inner: tuple[Indexes, Indexes], outer: Links, inside: float
    ) -> None:
        self.routers = int(starts[-1])
        self.systems = len(starts) - 1
        self.inside = inside
        """Seconds per link inside an AS."""
        self.outer = outer
        self.links = Links(
            np.concatenate((inner[0], outer.a)),
            np.concatenate((inner[1], outer.b)),
            np.concatenate((np.full(len(inner[0]), inside), outer.length)),
        )
        self._starts = starts
        self._inner = np.concatenate(inner), np.concatenate(inner[::-1])
        self.system_of = np.repeat(np.arange(self.systems), np.diff(starts))
        self._system_of: list[int] = self.system_of.tolist()
        self._search = lru_cache(SEARCHES)(self._hops_inside)
        self._tree = lru_cache(TREES)(self._find_tree)

    # --- what a topology is asked ------------------------------------------------------------------

    def delay(self, source: int, target: int) -> float:
        """Along the route."""
        here, there = self._system_of[source], self._system_of[target]
        if here == there:
            return self.inside * self._search(source)[target - int(self._starts[here])]
        way_out, way_in, between, hops, row_at_source, row_at_target = self._views
        first = hops[row_at_source[way_out[here, there]] + source]
        last = hops[row_at_target[way_in[here, there]] + target]
        delay: float = between[here, there] + self.inside * (first + last)
        return delay

    def hops(self, source: int, target: int) -> int:
        """Links of the route."""
        here, there = self._system_of[source], self._system_of[target]
        if here == there:
            return self._search(source)[target - int(self._starts[here])]
        plan = self.plan
        first = plan.from_border[plan.row_at_source[plan.way_out[here, there]] + source]
        last = plan.from_border[plan.row_at_target[plan.way_in[here, there]] + target]
        return int(first) + int(plan.hops[here, there]) + int(last)

    def path(self, source: int, target: int) -> list[int]:
        """The route's routers."""
        parents = self.tree(source).parent
        path = [target]
        while path[-1] != source:
            path.append(int(parents[path[-1]]))
        return path[::-1]

    def delay_row(self, router: int) -> Delays:
        """From one router to all."""
        system = self._system_of[router]
        hops = self._hops_to_way_out(router)[self.system_of] + self._hops_in_last_system(router)
        delay: Delays = (self.plan.delay[system][self.system_of] + self.inside * hops).astype(
            np.float32
        )
        return delay

    def tree(self, source: int) -> Tree:
        """The routes from one router."""
        return self._tree(source)

    def _find_tree(self, source: int) -> Tree:
        plan, system = self.plan, self._system_of[source]
        local = self._hops_in_last_system(source)
        before, after = self._inner
        closer = local[before] + 1 == local[after]
        parent = np.full(self.routers, self.routers, np.int32)
        np.minimum.at(parent, after[closer], before[closer].astype(np.int32))
        ways_in = np.delete(plan.way_in[system], system).astype(np.int64)
        outer_source, outer_target = self._outer_ends
        parent[outer_target[ways_in]] = outer_source[ways_in]
        parent[source] = source
        until_last = self._hops_to_way_out(source) + plan.hops[system]
        return Tree(parent, (until_last[self.system_of] + local).astype(np.uint16))

    # --- the parts of routes -----------------------------------------------------------------------

    def _hops_to_way_out(self, source: int) -> Indexes:
        """Per target AS; none to the own."""
        plan, system = self.plan, self._system_of[source]
        rows = plan.row_at_source[plan.way_out[system]]
        rows[system] = -source
        hops: Indexes = plan.from_border[rows + source].astype(np.int64)
        hops[system] = 0
        return hops

    def _hops_in_last_system(self, source: int) -> Indexes:
        """Per router: from where a route comes into its AS, or from the source."""
        plan, system = self.plan, self._system_of[source]
        where = plan.row_at_target[plan.way_in[system]][self.system_of] + np.arange(self.routers)
        own = slice(int(self._starts[system]), int(self._starts[system + 1]))
        where[own] = 0
        hops: Indexes = plan.from_border[where].astype(np.int64)
        hops[own] = np.frombuffer(self._search(source), np.uint8)
        return hops

    def _hops_inside(self, router: int) -> bytes:
        system = self._system_of[router]
        first = int(self._starts[system])
        return search(self._graph_of(system), np.array([router - first])).tobytes()

    def _graph_of(self, system: int) -> csr_array:
        own = slice(int(self._starts[system]), int(self._starts[system + 1]))
        return self._graph[own, own]

    @cached_property
    def _graph(self) -> csr_array:
        ones = np.ones(len(self._inner[0]), np.float32)
        return csr_array((ones, self._inner), shape=(self.routers, self.routers))

    @cached_property
    def _outer_ends(self) -> tuple[Indexes, Indexes]:
        """Source and target of the directed inter-AS links."""
        a, b = self.outer.a, self.outer.b
        return np.concatenate((a, b)), np.concatenate((b, a))

    @cached_property
    def _views(self) -> tuple[memoryview, ...]:
        # Indexing a view gives a number at half the price of indexing the array.
        plan = self.plan
        return (
            plan.way_out.data,
            plan.way_in.data,
            plan.delay.data,
            plan.from_border.data,
            plan.row_at_source.data,
            plan.row_at_target.data,
        )

    # --- the plan ----------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> Plan:
        """Worked out when first asked for."""
        from_border, rows = self._search_from_borders()
        source, target = self._outer_ends
        shape = (self.systems, self.systems)
        plan = Plan(
            way_out=np.zeros(shape, np.uint16),
            way_in=np.zeros(shape, np.uint16),
            delay=np.zeros(shape, np.float32),
            hops=np.zeros(shape, np.uint16),
            from_border=from_border,
            row_at_source=rows[source],
            row_at_target=rows[target],
        )
        self._fill(plan)
        return plan

    def _search_from_borders(self) -> tuple[Hops, Indexes]:
        """Hops from border routers, in one row, and per border router what to add to find another's."""
        borders = np.unique(self._outer_ends[0])
        systems = self.system_of[borders]
        rows = np.zeros(self.routers, np.int64)
        pieces = []
        filled = 0
        bounds = np.searchsorted(systems, np.arange(self.systems + 1)).tolist()
        for system, (low, high) in enumerate(pairwise(bounds)):
            first, size = int(self._starts[system]), int(np.diff(self._starts)[system])
            ours = borders[low:high]
            pieces.append(search(self._graph_of(system), ours - first).ravel())
            rows[ours] = filled + np.arange(high - low) * size - first
            filled += (high - low) * size
        return np.concatenate(pieces), rows

    def _fill(self, plan: Plan) -> None:
        """Extend AS paths by one AS at a time, those to the nearest ASs first."""
        outer, systems = self.outer, self.systems
        between = Links(self.system_of[outer.a], self.system_of[outer.b], outer.length)
        keys, links = directed(systems, between)
        routes = shortest_routes(systems, between, np.ones(len(outer), np.int64))
        length = np.concatenate((outer.length, outer.length))
        source, _ = self._outer_ends
        way_out, way_in = plan.way_out.reshape(-1), plan.way_in.reshape(-1)
        delay, hops = plan.delay.reshape(-1), plan.hops.reshape(-1)
        order = np.argsort(routes.hops.ravel(), kind="stable")
        counts = np.bincount(routes.hops.ravel())
        for level, (low, high) in enumerate(pairwise(np.cumsum(counts).tolist()), 1):
            pair = order[low:high]
            parent = routes.parent.reshape(-1)[pair].astype(np.int64)
            last = links[np.searchsorted(keys, parent * systems + pair % systems)]
            way_in[pair] = last
            if level == 1:
                way_out[pair], delay[pair], hops[pair] = last, length[last], 1
                continue
            shorter = pair // systems * systems + parent
            across = plan.from_border[plan.row_at_target[way_in[shorter]] + source[last]]
            way_out[pair] = way_out[shorter]
            delay[pair] = delay[shorter] + self.inside * across + length[last]
            hops[pair] = hops[shorter] + across + 1


def search(graph: csr_array, sources: Indexes) -> Hops:
    """Hops from some vertices of a connected graph to all, breadth first, all sources at once."""
    size = graph.shape[0]
    columns = np.arange(len(sources))
    hops = np.zeros((len(sources), size), np.uint8)
    frontier = np.zeros((size, len(sources)), np.float32)
    frontier[sources, columns] = 1
    unseen = frontier == 0
    level = 0
    while unseen.any():
        level += 1
        new = (graph @ frontier > 0) & unseen
        if not new.any():
            raise ValueError("an autonomous system is not connected")
        hops.T[new] = level
        unseen &= ~new
        frontier = new.astype(np.float32)
    return hops
