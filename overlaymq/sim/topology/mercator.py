"""A router-level Internet of the size that the SV-tree paper simulated: a stand-in for its measured map.

The paper used a map made by the Mercator prober: 102,639 routers, 142,303 links, 2,662 autonomous systems
(ASs) and 4,851 links between those. The map is not at hand, so one of the same counts is drawn:

- The AS graph grows by preferential attachment. Each new AS brings one link, and the rest are added as it
  grows between ASs that are there already, both ends preferential too: degrees follow a power law with
  an exponent of about 2.2, where attachment alone would give 3.
- AS sizes are drawn from a Pareto law, and the larger AS is the one with more links. That the two go
  together is measured (Tangmunarunkit and others, CCR 2001); that they do so perfectly is a simplification.
- Inside an AS routers attach preferentially to each other, and further links join random pairs: degrees
  have a heavy tail, as the map's have. Links between ASs end at random routers.

Latencies. The paper gives 97 % of the links 10 to 40 ms (OC3) and 3 % 300 to 500 ms (T3), and reports a
median round trip of 130 ms. Both cannot hold for every link: 65 ms one way are two or three OC3 links,
while a route on this map has 18 links, and on a real one about 15, with a 3 % chance of a T3 on each. So the
published latencies are applied to the links between ASs only, of which a route crosses two or three, and
links inside an AS take the same short time each. That time is the one free number. It is set so that the
median round trip is 130 ms on average over networks; single ones differ by several milliseconds, most of
all where a T3 link happens to join two large ASs.

Reference: Dunagan, Harvey, Jones, Theimer and Wolman, "Subscriber/Volunteer Trees", section 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.topology.graph import Links
from overlaymq.sim.topology.hierarchy import Hierarchical

if TYPE_CHECKING:
    from collections.abc import Sequence

Pair = tuple[int, int]

SHIFT = 0.47
"""An AS is preferred in proportion to its links less this. With 2,190 of 4,851 links added between old ASs
the rate equation gives an exponent of 1 + (2 - 0.5485 * shift) / 1.4515, here 2.2. The model is that of Bu
and Towsley (INFOCOM 2002)."""
TRIES = 20
"""Draws of two ASs that may be linked already before the link waits until the graph has grown."""


@dataclass(frozen=True, slots=True)
class MercatorParameters:
    """Counts and latencies of the SV-tree paper, section 4.1, unless said otherwise."""

    routers: int = 102_639
    links: int = 142_303
    systems: int = 2_662
    outer_links: int = 4_851
    """Between ASs."""
    size_exponent: float = 1.2
    """Of the Pareto law of AS sizes; a guess."""
    largest: int = 5_000
    """Routers in an AS at most; a guess."""
    fast: tuple[float, float] = (0.010, 0.040)
    """Seconds across an OC3 link, uniform."""
    slow: tuple[float, float] = (0.300, 0.500)
    """The same of a T3 link."""
    slow_share: float = 0.03
    inside: float = 0.0002
    """Seconds across a link inside an AS: set so that the median round trip is 130 ms on average."""

    def scaled(self, routers: int) -> MercatorParameters:
        """A smaller network with the same proportions."""
        share = routers / self.routers
        return replace(
            self,
            routers=routers,
            links=round(self.links * share),
            systems=max(2, round(self.systems * share)),
            outer_links=max(1, round(self.outer_links * share)),
            largest=max(2, round(self.largest * share)),
        )


class Mercator(Hierarchical):
    """One network of a seed."""

    def __init__(self, seed: int, parameters: MercatorParameters | None = None) -> None:
        self.parameters = settings = parameters or MercatorParameters()
        random = Random(f"overlaymq mercator {seed}")
        between = system_graph(random, settings.systems, settings.outer_links)
        sizes = _by_degree(system_sizes(random, settings), between)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        bounds = [range(low, high) for low, high in pairwise(starts.tolist())]
        inner = [link for routers in bounds for link in _attached(random, routers)]
        more = settings.links - settings.outer_links - len(inner)
        inner += _extra(random, bounds, inner, more)
        outer = [(random.choice(bounds[a]), random.choice(bounds[b])) for a, b in between]
        inner_ends, outer_ends = np.array(inner, np.int64), np.array(outer, np.int64)
        super().__init__(
            starts,
            (inner_ends[:, 0].copy(), inner_ends[:, 1].copy()),
            Links(
                outer_ends[:, 0].copy(),
                outer_ends[:, 1].copy(),
                np.array(_latencies(random, settings)),
            ),
            settings.inside,
        )


def system_graph(random: Random, systems: int, links: int) -> list[Pair]:
    """A connected graph without parallel links, with degrees that follow a power law."""
    if not systems - 1 <= links <= systems * (systems - 1) // 2:
        raise ValueError(f"{systems} systems cannot be joined by {links} links")
    between: dict[Pair, None] = {(0, 1): None}
    # A system stands here once for each of its links, so that a draw prefers the well connected.
    ends = [0, 1]
    degree = [1, 1, *[0] * (systems - 2)]

    def preferred() -> int:
        while True:
            system = random.choice(ends)
            if random.random() * degree[system] >= SHIFT:
                return system

    def join(one: int, other: int) -> bool:
        pair = min(one, other), max(one, other)
        if one == other or pair in between:
            return False
        between[pair] = None
        for system in pair:
            ends.append(system)
            degree[system] += 1
        return True

    more = links - (systems - 1)
    for new in range(2, systems):
        join(new, preferred())
        due = more * (new - 1) // (systems - 2) - (len(between) - new)
        for _ in range(due):
            any(join(preferred(), preferred()) for _ in range(TRIES))
    while len(between) < links:
        join(preferred(), random.randrange(systems))
    return list(between)


def system_sizes(random: Random, settings: MercatorParameters) -> list[int]:
    """Routers of each AS, at least one and exactly as many as wanted in all, the largest first."""
    systems, largest = settings.systems, settings.largest
    if not systems <= settings.routers <= systems * largest:
        raise ValueError(f"{settings.routers} routers do not fit {systems} systems")
    drawn = sorted(
        (random.paretovariate(settings.size_exponent) for _ in range(systems)), reverse=True
    )

    def at(scale: float) -> list[int]:
        return [min(max(int(weight * scale), 1), largest) for weight in drawn]

    low, high = 0.0, float(largest)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) <= settings.routers else (low, middle)
    sizes = at(low)
    missing = settings.routers - sum(sizes)
    while missing:
        for index in range(systems):
            if missing and sizes[index] < largest:
                sizes[index] += 1
                missing -= 1
    return sizes


def _by_degree(sizes: Sequence[int], between: Sequence[Pair]) -> list[int]:
    """Give the larger sizes to those with more links."""
    degree = [0] * len(sizes)
    for pair in between:
        for system in pair:
            degree[system] += 1
    ordered = [0] * len(sizes)
    ranked = sorted(range(len(sizes)), key=lambda system: -degree[system])
    for system, size in zip(ranked, sizes, strict=True):
        ordered[system] = size
    return ordered


def _attached(random: Random, routers: range) -> list[Pair]:
    """A tree: each router is linked to an earlier one, preferably one with many links."""
    tree: list[Pair] = []
    ends = [routers[0]]
    for new in routers[1:]:
        old = random.choice(ends)
        tree.append((old, new))
        ends += (old, new)
    return tree


def _extra(
    random: Random, bounds: Sequence[range], tree: Sequence[Pair], wanted: int
) -> list[Pair]:
    """Links between random pairs of one AS that are not linked yet."""
    room = sum(len(routers) * (len(routers) - 1) // 2 for routers in bounds) - len(tree)
    if not 0 <= wanted <= room // 2:
        raise ValueError(f"{wanted} more links inside the systems, with room for {room}")
    linked = set(tree)
    home = [routers for routers in bounds for _ in routers]
    extra: list[Pair] = []
    while len(extra) < wanted:
        one = random.randrange(len(home))
        other = random.choice(home[one])
        pair = min(one, other), max(one, other)
        if one != other and pair not in linked:
            linked.add(pair)
            extra.append(pair)
    return extra


def _latencies(random: Random, settings: MercatorParameters) -> list[float]:
    count = settings.outer_links
    slow = set(random.sample(range(count), round(settings.slow_share * count)))
    return [
        random.uniform(*(settings.slow if link in slow else settings.fast)) for link in range(count)
    ]
