"""The Scribe paper's main experiment: delay, node stress and link stress of 1,500 groups at once.

100,000 nodes on a transit-stub network of 5,050 routers; the group of rank r has floor(N*r^-1.25+0.5)
members, drawn uniformly; every member joins, then one message is multicast to each group from its root (JSAC
IV.A to IV.D). IP multicast is the union of the unicast routes from the same node. What the naive multicast
would do to links is counted, not run: `scribe-small-groups` runs it.

`scribe-delay`, `scribe-node-stress` and `scribe-link-stress` are the same run with a part of its rows. With
fewer nodes than published every group is smaller, and there are no ranges to hold the figures to.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

import msgspec

from overlaymq.sim import oracle
from overlaymq.sim.experiments import scribe_figures as figures
from overlaymq.sim.experiments.base import Experiment, Findings, Settings
from overlaymq.sim.scribe_world import World, forget, zipf_sizes
from overlaymq.sim.topology import TopologyNetwork, TransitStub
from overlaymq.sim.topology.stress import LinkStress

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.sim.experiments.base import Progress, Series
    from overlaymq.sim.experiments.scribe_figures import Found, Rows
    from overlaymq.sim.scribe_world import Group

NODES = 100_000
GROUPS = 1_500
TOPOLOGIES = 3
"""The paper has ten."""


class Part(msgspec.Struct, frozen=True):
    """A section of the paper: its rows and its figures."""

    ids: tuple[str, ...]
    rows: Callable[[Rows, list[Found]], None]
    series: Callable[[list[Found]], dict[str, Series]]


DELAY = Part(
    tuple(f"SC-{number}" for number in range(5, 15)), figures.delay_rows, figures.delay_series
)
NODE_STRESS = Part(("SC-15", "SC-16", "SC-17", "SC-18"), figures.node_rows, figures.node_series)
LINK_STRESS = Part(
    tuple(f"SC-{number}" for number in range(19, 27)), figures.link_rows, figures.link_series
)


def measure(
    network: TopologyNetwork, seed: int, nodes: int, sizes: list[int], progress: Progress
) -> Found:
    """Groups of these sizes on one network, from the first node to the last message."""
    world = World(seed, network, nodes)
    world.build(progress)
    groups = world.add_groups(sizes)
    with oracle.without_collector():
        found = _measure(world, groups, progress)
    forget(world)
    return found


def _measure(world: World, groups: list[Group], progress: Progress) -> Found:
    world.join(groups, progress)
    penalties = figures.Penalties()
    faulty = 0
    for done, group in enumerate(groups):
        multicast = world.multicast(group)
        penalties.add(multicast)
        edges = world.tree_size(group) - 1
        faulty += bool(world.tree_faults(group)) or multicast.messages != edges
        if done % 100 == 0:
            progress("multicasting", done, len(groups))
    return figures.gather(world, penalties, faulty, _naive_max(world))


def _naive_max(world: World) -> float:
    """The most messages on one link if each root sent to each member by itself."""
    stress = LinkStress(world.network)
    for group in world.groups:
        for peer in group.members:
            if peer.id != group.root.id:
                stress.count(group.root.address, peer.address)
    return float(stress.per_link().max())


def run_parts(settings: Settings, parts: tuple[Part, ...]) -> Findings:
    """Measure each network, and show some sections."""
    found = []
    for number, seed in enumerate(settings.seeds()):

        def progress(stage: str, done: float, total: float, number: int = number) -> None:
            settings.progress(f"network {number + 1} of {settings.runs}: {stage}", done, total)

        network = TopologyNetwork(TransitStub(seed), seed)
        sizes = zipf_sizes(settings.nodes, GROUPS)
        found.append(measure(network, seed, settings.nodes, sizes, progress))
    rows = figures.Rows(found, judged=settings.nodes == NODES)
    _set_up_rows(rows, found, settings)
    series: dict[str, Series] = {}
    for part in parts:
        part.rows(rows, found)
        series.update(part.series(found))
    return Findings(rows=rows.rows, events=sum(one.events for one in found), series=series)


def _set_up_rows(rows: Rows, found: list[Found], settings: Settings) -> None:
    law = [math.floor(settings.nodes * rank**-1.25 + 0.5) for rank in range(1, GROUPS + 1)]
    wrong = [sum(map(operator.ne, one.sizes, law)) for one in found]
    rows.add("SC-3", max(wrong), always=True)
    rows.mean("SC-4/max", lambda one: max(one.sizes))
    rows.mean("SC-4/min", lambda one: min(one.sizes))
    rows.mean("SC-4/sum", lambda one: sum(one.sizes))
    rows.add("SCRIBE-1", (sum(one.faulty for one in found)), always=True)


def experiment(name: str, about: str, *parts: Part) -> Experiment:
    """An experiment that shows these sections."""
    return Experiment(
        name=name,
        about=about,
        ids=("SC-3", "SC-4", *(id_ for part in parts for id_ in part.ids)),
        nodes=NODES,
        runs=TOPOLOGIES,
        run=lambda settings: run_parts(settings, parts),
    )


EXPERIMENT = experiment(
    "scribe",
    "delay, node stress and link stress of 1,500 groups, in one run",
    DELAY,
    NODE_STRESS,
    LINK_STRESS,
)
