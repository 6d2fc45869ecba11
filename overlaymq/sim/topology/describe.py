"""A transit-stub topology in figures, beside those that the Scribe paper gives or implies.

The paper states the routers, the mean delay of a core link (40.7 ms) and, counting a hundred LAN links on
each router, 1,035,295 directed links in all: 25,295 in the core. Its stress figures imply about 7.1 core
hops between random routers.
"""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.sim.topology.transit_stub import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.sim.topology.transit_stub import TransitStub

ROUTERS = 5050
MEAN_LINK_MS = 40.7
DIRECTED_LINKS = 25_295
MEAN_HOPS = 7.1


class Kind(msgspec.Struct, frozen=True):
    """Links that join the same kinds of domains."""

    links: float
    mean_ms: float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One topology, or the means over several."""

    seed: int | None
    routers: float
    directed_links: float
    mean_link_ms: float
    mean_degree: float
    mean_stub_degree: float
    mean_transit_degree: float
    kinds: dict[str, Kind]
    weights: tuple[float, ...]
    diameters: tuple[float, ...]
    mean_hops: float | None
    """Between two different routers, all pairs alike; None if routes were not worked out."""
    mean_delay_ms: float | None
    max_delay_ms: float | None


def describe(topology: TransitStub, seed: int | None = None, routes: bool = True) -> Figures:
    """The figures of one topology; routes are what costs time."""
    links, weights = topology.links, topology.weights
    degree = np.bincount(np.concatenate((links.a, links.b)), minlength=topology.routers)
    pairs = topology.routers * (topology.routers - 1)
    found = topology.routes if routes else None
    return Figures(
        seed=seed,
        routers=topology.routers,
        directed_links=2 * len(links),
        mean_link_ms=float(links.length.mean()) * 1e3,
        mean_degree=float(degree.mean()),
        mean_stub_degree=float(degree[~topology.transit].mean()),
        mean_transit_degree=float(degree[topology.transit].mean()),
        kinds={name: _kind(topology, kind) for kind, name in enumerate(KINDS)},
        weights=(weights.inter_domain, weights.transit_stub, weights.stub_stub),
        diameters=topology.diameters,
        mean_hops=None if found is None else float(found.hops.sum(dtype=np.int64)) / pairs,
        mean_delay_ms=None if found is None else 1e3 * float(found.delay.sum(dtype=float)) / pairs,
        max_delay_ms=None if found is None else 1e3 * float(found.delay.max()),
    )


def _kind(topology: TransitStub, kind: int) -> Kind:
    lengths = topology.links.length[topology.kinds == kind]
    return Kind(len(lengths), float(lengths.mean()) * 1e3 if len(lengths) else None)


def overall(seeds: Sequence[Figures]) -> Figures:
    """The mean of each figure; the greatest of the greatest delays."""

    def averaged(values: Sequence[float | None]) -> float | None:
        present = [value for value in values if value is not None]
        return mean(present) if present else None

    def kind(name: str) -> Kind:
        kinds = [figures.kinds[name] for figures in seeds]
        return Kind(mean(one.links for one in kinds), averaged([one.mean_ms for one in kinds]))

    longest = [figures.max_delay_ms for figures in seeds if figures.max_delay_ms is not None]
    return Figures(
        seed=None,
        routers=mean(figures.routers for figures in seeds),
        directed_links=mean(figures.directed_links for figures in seeds),
        mean_link_ms=mean(figures.mean_link_ms for figures in seeds),
        mean_degree=mean(figures.mean_degree for figures in seeds),
        mean_stub_degree=mean(figures.mean_stub_degree for figures in seeds),
        mean_transit_degree=mean(figures.mean_transit_degree for figures in seeds),
        kinds={name: kind(name) for name in KINDS},
        weights=tuple(map(mean, zip(*(figures.weights for figures in seeds), strict=True))),
        diameters=tuple(map(mean, zip(*(figures.diameters for figures in seeds), strict=True))),
        mean_hops=averaged([figures.mean_hops for figures in seeds]),
        mean_delay_ms=averaged([figures.mean_delay_ms for figures in seeds]),
        max_delay_ms=max(longest, default=None),
    )


def meets_bar(figures: Figures) -> bool:
    """5,050 routers; the mean core link within 0.3 ms and the core links within 1.5 % of the paper's."""
    return (
        figures.routers == ROUTERS
        and abs(figures.mean_link_ms - MEAN_LINK_MS) <= 0.3
        and abs(figures.directed_links - 25_300) <= 0.015 * 25_300
    )
