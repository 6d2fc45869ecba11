"""Physical networks: routers, the links between them, and what every topology can be asked.

A topology is an undirected graph of routers. Unicast routes from one router form a tree: whatever two
destinations share, they share from the source on. That is what makes it possible to add up the traffic
of all destinations by pushing counts towards the source (``stress``), and it is also the tree of an IP
multicast from there.

A link carries traffic both ways and the two are counted apart: link ``i`` from ``a[i]`` to ``b[i]`` is
the directed link ``i``, the other way it is ``i + len(links)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints = NDArray[np.signedinteger[Any] | np.unsignedinteger[Any]]
Indexes = NDArray[np.int64]
Floats = NDArray[np.float64]
Delays = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Links:
    """Undirected links; parallel ones are allowed, and routes use the first of them."""

    a: Indexes
    b: Indexes
    length: Floats
    """Seconds one way."""

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True, slots=True)
class Tree:
    """All routes from one router: the router before each one on its route, and how many hops away."""

    parent: Ints
    hops: Ints


class Topology(ABC):
    """``routers`` are numbered from 0. Delays are seconds one way."""

    routers: int
    links: Links

    @abstractmethod
    def delay(self, source: int, target: int) -> float:
        """Along the route."""

    @abstractmethod
    def hops(self, source: int, target: int) -> int:
        """Links of the route."""

    @abstractmethod
    def path(self, source: int, target: int) -> list[int]:
        """The route's routers, both ends included."""

    @abstractmethod
    def delay_row(self, router: int) -> Delays:
        """The delay from one router to all. Not to be written to."""

    @abstractmethod
    def tree(self, source: int) -> Tree:
        """The routes from one router to all."""

    def link_indexes(self, source: Ints, target: Ints) -> Indexes:
        """The directed links between neighbours, pair by pair."""
        keys, indexes = self._directed
        wanted = source.astype(np.int64) * self.routers + target
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        if not np.array_equal(keys[found], wanted):
            raise ValueError("some of these routers are not neighbours")
        return indexes[found]

    @cached_property
    def _directed(self) -> tuple[Indexes, Indexes]:
        return directed(self.routers, self.links)


def directed(routers: int, links: Links) -> tuple[Indexes, Indexes]:
    """``source * routers + target`` for each pair of neighbours, ascending, and the link between them."""
    there, back = links.a * routers + links.b, links.b * routers + links.a
    # Both ways of a link stand together, so that of parallel links the first is found, either way.
    keys, first = np.unique(np.stack((there, back), axis=1).ravel(), return_index=True)
    return keys, first // 2 + first % 2 * len(links)


def hop_diameter(neighbours: Sequence[Sequence[int]]) -> int | None:
    """The most hops between two vertices of a small graph; None if it is not connected."""
    diameter = 0
    for start in range(len(neighbours)):
        distance = {start: 0}
        queue = [start]
        for here in queue:
            for there in neighbours[here]:
                if there not in distance:
                    distance[there] = distance[here] + 1
                    queue.append(there)
        if len(queue) < len(neighbours):
            return None
        diameter = max(diameter, distance[queue[-1]])
    return diameter
