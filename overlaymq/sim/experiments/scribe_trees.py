"""Whether Scribe's trees are what they must be: trees, at the right root, of exactly their members.

Routes to one key have no loops, since each hop matches a longer prefix or comes closer (JSAC III-A), so the
union of the members' routes is a tree whose root is the node closest to the topic id. One message then
takes exactly as many transmissions as the tree has edges, and every member gets it once. 100 topics of 10 to
1,000 members, evenly on a logarithmic scale, among 2,000 nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.published import row
from overlaymq.sim.scribe_world import World
from overlaymq.sim.topology import TopologyNetwork, TransitStub

if TYPE_CHECKING:
    from overlaymq.sim.scribe_world import Group

NODES = 2_000
TOPICS = 100
SMALLEST = 10


def run(settings: Settings) -> Findings:
    """One network a run."""
    faulty = unrooted = messages = edges = events = 0
    sizes, tree_sizes = [], []
    for seed in settings.seeds():
        world = World(seed, TopologyNetwork(TransitStub(seed), seed), settings.nodes)
        world.build(settings.progress)
        largest = settings.nodes // 2
        wanted = np.geomspace(SMALLEST, largest, TOPICS).round().astype(int).tolist()
        groups = world.add_groups(wanted)
        world.join(groups, settings.progress)
        for group in groups:
            multicast = world.multicast(group)
            size = world.tree_size(group)
            missed = bool(np.isnan(multicast.by_tree).any())
            stray = multicast.messages != size - 1
            faulty += missed or stray or bool(world.tree_faults(group))
            unrooted += not _is_rooted(world, group)
            messages += multicast.messages
            edges += world.entries(group)
            sizes.append(float(len(group.members)))
            tree_sizes.append(float(size))
        events += world.simulation.events
    rows = [
        row("SCRIBE-1", faulty),
        row("SCRIBE-1/root", unrooted),
        row("SCRIBE-1/edges", messages, low=edges, high=edges),
    ]
    return Findings(rows=rows, events=events, series={"trees": _figure(sizes, tree_sizes)})


def _is_rooted(world: World, group: Group) -> bool:
    """Whether the closest node takes itself for the root, and every other member has a path from it."""
    root = world.place(group, group.root.id)
    if root is None or root.path != (group.root.id,):
        return False
    places = [world.place(group, peer.id) for peer in group.members]
    return all(place is not None and place.path[0] == group.root.id for place in places)


def _figure(sizes: list[float], tree_sizes: list[float]) -> Series:
    return Series(
        title="Nodes in a tree",
        x_label="members",
        y_label="nodes",
        curves={"trees": Curve(sizes, tree_sizes), "members": Curve(sizes, sizes)},
        log_x=True,
    )


EXPERIMENT = Experiment(
    name="scribe-trees",
    about="100 topics of 10 to 1,000 members: every tree is one, and reaches exactly its members",
    ids=("SCRIBE-1",),
    nodes=NODES,
    run=run,
)
