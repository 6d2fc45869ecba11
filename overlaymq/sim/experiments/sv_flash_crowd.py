"""Flash crowds: 1,024 and 4,096 nodes subscribe at the same moment, and wait for content (SV 5.3, Fig 12).

The root publishes every 10 ms, so that the tree is always full of messages, until everybody has had one. A
subscriber's time is from its subscription to the first message. The overlay is that of the experiment `sv`:
16,000 nodes, which the paper does not say of this figure; two topics of one overlay, one crowd after the
other. The paper has five runs; `--runs` is the number of networks. In smaller
overlays crowds are smaller in proportion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlaymq.events import Publish, Subscribe
from overlaymq.messages import Batch
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import Experiment, Findings, Series, Settings, cdf
from overlaymq.sim.experiments.scribe_figures import Rows, thinned
from overlaymq.sim.experiments.sv import NODES
from overlaymq.sim.scribe_world import forget
from overlaymq.sim.sv_world import AT_REST, SvWorld
from overlaymq.sim.topology import TopologyNetwork
from overlaymq.sim.topology.mercator import Mercator

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.faults import Fate
    from overlaymq.sim.scribe_world import Group
    from overlaymq.sim.topology.graph import Floats

CROWDS = (1024, 4096)
PUBLISH_EVERY = 0.01
PATIENCE = 60.0
"""Seconds after which a subscriber counts as never fed."""
SOON = 2.0


class Crowd:
    """One group, whose members all subscribe now."""

    def __init__(self, world: SvWorld, group: Group) -> None:
        self.first: dict[Id, float] = {}
        self._world = world
        self._group = group
        self._began = 0.0
        self._published = 0

    def run(self) -> list[float]:
        """Seconds until each member has content; infinite for those that never do."""
        simulation, members = self._world.simulation, self._group.members
        simulation.on_deliver = self._delivered
        simulation.on_send = self._sent
        self._began = simulation.now
        for peer in members:
            simulation.start(peer, Subscribe(self._group.descriptor))
        self._publish()
        limit = self._began + PATIENCE
        simulation.run_while(lambda: len(self.first) < len(members), limit)
        simulation.run_until(simulation.now + self._world.settle)
        return [self.first.get(peer.id, float("inf")) for peer in members]

    def _publish(self) -> None:
        simulation, group = self._world.simulation, self._group
        if len(self.first) == len(group.members) or simulation.now > self._began + PATIENCE:
            return
        self._published += 1
        batch = Batch(group.descriptor.id, group.root.id, 1, self._published, 1, b"")
        simulation.start(group.root, Publish(group.descriptor, batch))
        simulation.at(simulation.now + PUBLISH_EVERY, self._publish)

    def _delivered(self, host: Host, batch: Batch) -> None:
        if batch.topic == self._group.descriptor.id and host.peer.id not in self.first:
            self.first[host.peer.id] = self._world.simulation.now - self._began

    def _sent(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        if type(message) is Batch:
            self._world.ask_whether_polite(host, message)


def run(settings: Settings) -> Findings:
    """One overlay a run; all subscribers of all runs together."""
    seconds: dict[int, list[float]] = {crowd: [] for crowd in CROWDS}
    impolite = faulty = events = 0
    for seed in settings.seeds():
        world = SvWorld(seed, TopologyNetwork(Mercator(seed), seed), settings.nodes, AT_REST)
        world.build(settings.progress)
        with oracle.without_collector():
            for crowd, times in seconds.items():
                settings.progress(f"a crowd of {crowd}", seed - settings.seed, settings.runs)
                group = world.add_pair(max(crowd * settings.nodes // NODES, 1)).sv
                times += Crowd(world, group).run()
                faulty += bool(world.tree_faults(group))
        impolite += world.impolite
        events += world.simulation.events
        forget(world)
    rows = Rows([], judged=settings.nodes == NODES)
    _crowd_rows(rows, {crowd: np.array(times) for crowd, times in seconds.items()})
    rows.add("SV-16", impolite, always=True)
    rows.add("SV-17/trees", faulty, always=True)
    return Findings(rows=rows.rows, events=events, series={"crowds": _figure(seconds)})


def _crowd_rows(rows: Rows, seconds: dict[int, Floats]) -> None:
    for crowd, times in seconds.items():
        rows.add(f"SV-10/{crowd}", float((times <= SOON).mean()))
        rows.add(f"SV-10/{crowd} all", float(times.max()))
        rows.add(f"SV-10/{crowd} median", float(np.median(times)))
    few, many = seconds.values()
    rows.add("SV-11/median", float(np.median(many) / np.median(few)))
    rows.add("SV-11/all", float(many.max() / few.max()))


def _figure(seconds: dict[int, list[float]]) -> Series:
    return Series(
        title="Time to first content in a flash crowd",
        x_label="seconds",
        y_label="share of subscribers",
        curves={f"{size:,} subscribers": thinned(cdf(all_)) for size, all_ in seconds.items()},
        kind="cdf",
    )


EXPERIMENT = Experiment(
    name="sv-flash-crowd",
    about="1,024 and 4,096 nodes subscribe at once: time to first content",
    ids=("SV-10", "SV-11", "SV-16", "SV-17"),
    nodes=NODES,
    run=run,
)
