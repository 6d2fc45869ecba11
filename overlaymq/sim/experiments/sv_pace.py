"""How the pace of joins shapes an SV tree: the same 4,096 subscribers at once, within seconds, one by one.

Each tree is of the same overlay as those of the experiment `sv`. RPF trees do not depend on the pace, so the
delays are told as ratios to theirs. The largest number of children shows what a quick tree costs: joins that
found nobody below them end at the root.
"""

from __future__ import annotations

from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import Experiment, Findings, Settings
from overlaymq.sim.experiments.scribe_figures import Rows
from overlaymq.sim.experiments.sv import NODES
from overlaymq.sim.experiments.sv_figures import measure_tree
from overlaymq.sim.published_strategies import SV_PACES, SV_SIZES
from overlaymq.sim.scribe_world import forget
from overlaymq.sim.sv_world import AT_REST, SvWorld
from overlaymq.sim.topology import TopologyNetwork
from overlaymq.sim.topology.mercator import Mercator


def run(settings: Settings) -> Findings:
    """One tree for every pace, on one network."""
    size = min(SV_SIZES[-1], settings.nodes // 4)
    world = SvWorld(
        settings.seed,
        TopologyNetwork(Mercator(settings.seed), settings.seed),
        settings.nodes,
        AT_REST,
    )
    world.build(settings.progress)
    rows = Rows([], judged=settings.nodes == NODES)
    pair = world.add_pair(size)
    with oracle.without_collector():
        for number, seconds in enumerate(SV_PACES):
            settings.progress("trees", number, len(SV_PACES))
            world.joins_within = seconds
            tree = measure_tree(world, world.repeat_pair(pair))
            rows.add(f"SV-pace/{seconds:g}", tree.sv.delay / tree.rpf.delay)
            rows.add(f"SV-pace/children {seconds:g}", float(tree.sv.children.max()))
    rows.add("SV-16", world.impolite, always=True)
    events = world.simulation.events
    forget(world)
    return Findings(rows=rows.rows, events=events, series={})


EXPERIMENT = Experiment(
    name="sv-pace",
    about="delay and fan-out of an SV tree whose subscribers join at once, within seconds, or one by one",
    ids=("SV-pace", "SV-16"),
    nodes=NODES,
    run=run,
)
