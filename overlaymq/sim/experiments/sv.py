"""The SV paper's trees at rest: delay, link stress and children per node, with RPF trees and IP multicast.

16,000 nodes on a map of the Internet with the paper's latencies, of which 16 to 4,096 subscribe; one message
from the root (SV 5.2, Fig 10 and 11). The paper has five runs with different seeds. Here each network has
five trees of every size, with other roots and other subscribers, and more of the small ones, which differ
more and cost less; `--runs` is the number of networks.

`sv-delay` and `sv-link-stress` are the same run with a part of its rows; `sv-proximity` is the same on tables
that prefer near nodes, which the paper's overlay did not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.sim import oracle
from overlaymq.sim.experiments import sv_figures as figures
from overlaymq.sim.experiments.base import Experiment, Findings, Settings
from overlaymq.sim.experiments.scribe_figures import Rows
from overlaymq.sim.published_strategies import SV_SIZES
from overlaymq.sim.scribe_world import forget
from overlaymq.sim.sv_world import AT_REST, SvWorld
from overlaymq.sim.topology import TopologyNetwork
from overlaymq.sim.topology.describe_internet import describe_internet
from overlaymq.sim.topology.mercator import Mercator

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.sim.experiments.base import Series
    from overlaymq.sim.experiments.sv_figures import Found

NODES = 16_000
TREES = 5
"""Of each size in a network, as many as the paper has runs,"""
MORE_TREES = {16: 40, 64: 20, 256: 10}
"""but more of these sizes."""


class Part(msgspec.Struct, frozen=True):
    """A section of the paper: its rows and its figures."""

    ids: tuple[str, ...]
    rows: Callable[[Rows, Found], None]
    series: Callable[[Found], dict[str, Series]]


DELAY = Part(("SV-6", "SV-7"), figures.delay_rows, figures.delay_series)
LINK_STRESS = Part(("SV-8", "SV-9"), figures.link_rows, figures.link_series)
CHILDREN = Part(("SV-18",), figures.children_rows, figures.children_series)


def measure(settings: Settings, trees: int | None = None, proximity: bool = False) -> Found:
    """Every tree of every network; ``trees`` of each size."""
    found = figures.Found([], 0, 0, [])
    sizes = [size for size in SV_SIZES if size <= settings.nodes // 2]
    for seed in settings.seeds():
        topology = Mercator(seed)
        described = describe_internet(topology, seed)
        found.round_trips.append((described.median_round_trip, described.round_trip_99))
        world = SvWorld(seed, TopologyNetwork(topology, seed), settings.nodes, AT_REST)
        world.proximity = proximity
        world.build(settings.progress)
        with oracle.without_collector():
            for size in sizes:
                count = MORE_TREES.get(size, TREES) if trees is None else trees
                for number in range(count):
                    settings.progress(f"{size} subscribers", number, count)
                    found.trees.append(figures.measure_tree(world, world.add_pair(size)))
        found.impolite += world.impolite
        found.events += world.simulation.events
        forget(world)
    return found


def findings(settings: Settings, found: Found, parts: tuple[Part, ...]) -> Findings:
    """Rows and figures; ranges hold at the published size."""
    rows = Rows([], judged=settings.nodes == NODES)
    figures.set_up_rows(rows, found)
    series: dict[str, Series] = {}
    for part in parts:
        part.rows(rows, found)
        series.update(part.series(found))
    return Findings(rows=rows.rows, events=found.events, series=series)


def experiment(name: str, about: str, *parts: Part) -> Experiment:
    """An experiment that shows these sections."""
    return Experiment(
        name=name,
        about=about,
        ids=("SV-4", "SV-16", "SV-17", *(id_ for part in parts for id_ in part.ids)),
        nodes=NODES,
        run=lambda settings: findings(settings, measure(settings), parts),
    )


EXPERIMENT = experiment(
    "sv",
    "delay, link stress and children of SV and RPF trees, in one run",
    DELAY,
    LINK_STRESS,
    CHILDREN,
)
