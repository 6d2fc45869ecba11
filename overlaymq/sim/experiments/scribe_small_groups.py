"""Many small groups: 30,000 of 11 members among 50,000 nodes (Scribe JSAC IV.F).

Hardly two routes of so small a group meet early, so a tree has long paths without branches. Beside Scribe as
it is: Scribe that collapses such paths, the naive multicast (our `direct`: the root sends to each member),
and IP multicast. Each of the first three is run on a network of its own with the same nodes, tables and
groups.

The paper builds the trees first and collapses them then, so here ``collapse_after`` is longer than all joins
take, and the network is watched until no tree changes any more. The naive multicast's children entries are
the members that its roots send to. With other numbers of nodes there are as many more or fewer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import Experiment, Findings, Settings
from overlaymq.sim.experiments.scribe_figures import link_figure, node_figure
from overlaymq.sim.published import row
from overlaymq.sim.published_strategies import PAPER_LAN_LINKS
from overlaymq.sim.scribe_world import ANSWER, SPACING, STILL, World, forget, moving
from overlaymq.sim.topology import TopologyNetwork, TransitStub

if TYPE_CHECKING:
    from overlaymq.config import Config
    from overlaymq.sim.experiments.base import Progress, Row
    from overlaymq.sim.topology.graph import Indexes

NODES = 50_000
GROUPS_PER_NODE = 0.6
MEMBERS = 11
MOST_ROUNDS = 20
"""A path of n forwarders is gone after a few rounds: each of them moves up at once."""


class Way(msgspec.Struct):
    """What one way of multicasting gave, over nodes and directed links."""

    tables: Indexes
    entries: Indexes
    stress: Indexes
    ip: Indexes
    lost: int
    events: int


def run(settings: Settings) -> Findings:
    """Three networks a seed; the means over seeds."""
    ways: dict[str, list[Way]] = {"Scribe": [], "collapse": [], "naive": []}
    for seed in settings.seeds():
        for name, found in ways.items():

            def progress(stage: str, done: float, total: float, name: str = name) -> None:
                settings.progress(f"{name}: {stage}", done, total)

            found.append(_measure(seed, settings.nodes, name, progress))
    links = PAPER_LAN_LINKS + 2 * len(TransitStub(settings.seed).links)
    rows = _rows(ways, links)
    if settings.nodes != NODES:
        rows = [msgspec.structs.replace(one, low=None, high=None) for one in rows]
    rows.append(row("SCRIBE-1", sum(way.lost for found in ways.values() for way in found)))
    events = sum(way.events for found in ways.values() for way in found)
    first = {name: found[0] for name, found in ways.items()}
    trees = {"Scribe": first["Scribe"], "Scribe, collapse": first["collapse"]}
    stress = {name: way.stress for name, way in first.items()} | {"IP": first["Scribe"].ip}
    series = {
        "tables": node_figure(
            "Children tables per node", {name: way.tables for name, way in trees.items()}
        ),
        "entries": node_figure(
            "Children table entries per node", {name: way.entries for name, way in trees.items()}
        ),
        "links": link_figure(stress, 1),
    }
    return Findings(rows=rows, events=events, series=series)


def _config(nodes: int, name: str) -> tuple[Config, float]:
    """The configuration of a way, and how long after the last join collapses begin."""
    if name != "collapse":
        return STILL, 0.0
    after = 2 * SPACING * MEMBERS * GROUPS_PER_NODE * nodes + ANSWER
    return moving(collapse_after=after), after


def _measure(seed: int, nodes: int, name: str, progress: Progress) -> Way:
    config, after = _config(nodes, name)
    world = World(seed, TopologyNetwork(TransitStub(seed), seed), nodes, config)
    world.build(progress)
    sizes = [MEMBERS] * int(GROUPS_PER_NODE * nodes)
    groups = world.add_groups(sizes, "direct" if name == "naive" else "scribe")
    with oracle.without_collector():
        world.join(groups, progress)
        if after:
            _collapse(world, after, progress)
        lost = 0
        children = np.zeros(nodes, np.int64)
        order = {id_: index for index, id_ in enumerate(sorted(world.nodes))}
        for done, group in enumerate(groups):
            multicast = world.multicast(group)
            lost += bool(np.isnan(multicast.by_tree).any())
            children[order[group.root.id]] += multicast.messages
            if done % 1000 == 0:
                progress("multicasting", done, len(groups))
        tables, entries = world.node_stress()
        if name == "naive":
            entries = children
        way = Way(
            tables,
            entries,
            world.batches.per_link(),
            world.ip_stress(),
            lost,
            world.simulation.events,
        )
    forget(world)
    return way


def _collapse(world: World, after: float, progress: Progress) -> None:
    """Wait until a whole round has moved nobody."""
    simulation = world.simulation
    for done in range(MOST_ROUNDS):
        progress("collapsing", done, MOST_ROUNDS)
        before = world.sent["TreeDrop"]
        simulation.run_until(simulation.now + after + 4 * ANSWER)
        if done and world.sent["TreeDrop"] == before:
            return


def _rows(ways: dict[str, list[Way]], links: int) -> list[Row]:
    scribe = ways["Scribe"]
    rows = []
    for part in ("tables", "entries"):
        counts = [np.bincount(getattr(way, part)) for way in scribe]
        peak = float(np.mean([int(count.argmax()) for count in counts]))
        tail = float(np.mean([len(count) - 1 for count in counts]))
        rows += [row(f"SC-33/{part}", peak), row(f"SC-33/{part} tail", tail)]
    for kind in ("Scribe", "naive", "collapse"):
        mean = float(np.mean([way.entries.mean() for way in ways[kind]]))
        rows.append(row(f"SC-34/{kind}", mean))
    stress = {kind: [way.stress for way in found] for kind, found in ways.items()}
    stress["IP multicast"] = [way.ip for way in scribe]
    for kind in ("Scribe", "IP multicast", "naive", "collapse"):
        mean = float(np.mean([one.sum() / links for one in stress[kind]]))
        rows.append(row(f"SC-35/{kind}", mean))
    return rows


EXPERIMENT = Experiment(
    name="scribe-small-groups",
    about="30,000 groups of 11: Scribe, with and without collapse, naive and IP multicast",
    ids=("SC-33", "SC-34", "SC-35"),
    nodes=NODES,
    run=run,
)
