"""The bottleneck remover: no node feeds more than 64 others, over all groups (Scribe JSAC IV.E).

The main experiment is run twice on each network, without the remover and with it, and compared: how much more
the links carry for joining (joins and the messages that send a child away, but no probes, as in the paper),
how many probes a join costs, and whether delays suffer. Probes are those by which a child that is sent away
looks for another parent; a parent's own measuring of its children is shown beside them. A join is a member's;
as forwarders join too, probes per node that comes into a tree are shown beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.events import Probe
from overlaymq.messages import TreeDrop
from overlaymq.sim import oracle
from overlaymq.sim.experiments import scribe_figures as figures
from overlaymq.sim.experiments.base import Experiment, Findings, Settings
from overlaymq.sim.experiments.scribe import GROUPS, NODES
from overlaymq.sim.published import row
from overlaymq.sim.scribe_world import ANSWER, STILL, World, forget, moving, zipf_sizes
from overlaymq.sim.topology import TopologyNetwork, TransitStub

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Progress, Row
    from overlaymq.sim.faults import Fate
    from overlaymq.sim.topology.graph import Floats, Indexes

BOUND = 64
"""Children of a node over all groups (JSAC IV.E)."""
MOST_ROUNDS = 20
"""Waits for the last children to find a place."""


class Probes:
    """Counts probes: all of them, and those of children that were sent away."""

    def __init__(self, world: World) -> None:
        self.all = 0
        self.of_children = 0
        self.drops = 0
        self._send = world.simulation.on_send
        world.simulation.on_send = self._on_send
        world.simulation.on_effect = self._on_effect

    def _on_effect(self, now: float, host: Host, effect: Any) -> None:
        self.all += type(effect) is Probe

    def _on_send(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        if isinstance(message, TreeDrop):
            self.drops += 1
            if len(message.siblings) > 1:  # the only one is asked without measuring
                self.of_children += len(message.siblings)
        if self._send is not None:
            self._send(now, host, peer, message, fate)


class Run(msgspec.Struct):
    """One network, with or without the remover."""

    entries: Indexes
    joins: Indexes
    average_penalty: Floats
    looped: int
    members: int
    probes: Probes
    events: int


def run(settings: Settings) -> Findings:
    """Two runs on each network."""
    pairs = [
        (_measure(seed, settings, remover=False), _measure(seed, settings, remover=True))
        for seed in settings.seeds()
    ]
    rows = _rows(pairs)
    if settings.nodes != NODES:
        exact = ("SC-27", "SC-32")
        rows = [
            one if one.id in exact else msgspec.structs.replace(one, low=None, high=None)
            for one in rows
        ]
    without, with_ = pairs[0]
    series = {
        "entries": figures.node_figure(
            "Children table entries per node",
            {"with the remover": with_.entries, "without": without.entries},
        )
    }
    events = sum(one.events for pair in pairs for one in pair)
    return Findings(rows=rows, events=events, series=series)


def _measure(seed: int, settings: Settings, *, remover: bool) -> Run:
    def progress(stage: str, done: float, total: float) -> None:
        settings.progress(f"{'with' if remover else 'without'} the remover: {stage}", done, total)

    config = moving(max_children=BOUND) if remover else STILL
    world = World(seed, TopologyNetwork(TransitStub(seed), seed), settings.nodes, config)
    world.build(progress)
    with oracle.without_collector():
        found = _run(world, progress)
    forget(world)
    return found


def _run(world: World, progress: Progress) -> Run:
    groups = world.add_groups(zipf_sizes(len(world.nodes), GROUPS))
    probes = Probes(world)
    world.join(groups, progress)
    _settle(world)
    penalties = figures.Penalties()
    looped = 0
    for done, group in enumerate(groups):
        multicast = world.multicast(group)
        penalties.add(multicast)
        missed = bool(np.isnan(multicast.by_tree).any())
        looped += missed or bool(world.tree_faults(group))
        if done % 100 == 0:
            progress("multicasting", done, len(groups))
    return Run(
        world.node_stress()[1],
        world.joins.per_link(),
        np.array(penalties.average),
        looped,
        sum(len(group.members) for group in groups),
        probes,
        world.simulation.events,
    )


def _settle(world: World) -> None:
    """Until nobody is sent away any more."""
    for _ in range(MOST_ROUNDS):
        before = world.sent["TreeDrop"]
        world.simulation.run_until(world.simulation.now + 5 * ANSWER)
        if world.sent["TreeDrop"] == before:
            return


def _rows(pairs: list[tuple[Run, Run]]) -> list[Row]:
    removers = [pair[1] for pair in pairs]
    probes = [one.probes for one in removers]
    joined = [one.members for one in removers]
    rows = [
        row("SC-27", max(int(one.entries.max()) for one in removers)),
        row("SC-28", _more(pairs, lambda one: one.joins.sum())),
        row("SC-29", _more(pairs, lambda one: one.joins.max())),
        row("SC-30", _per([one.of_children for one in probes], joined)),
        row(
            "SC-30/nodes",
            _per([one.of_children for one in probes], [one.entries.sum() for one in removers]),
        ),
        row("SC-30/all", _per([one.all for one in probes], joined)),
        row("SC-30/drops", _per([one.drops for one in probes], joined)),
        row("SC-31", _more(pairs, lambda one: np.median(one.average_penalty))),
        row("SC-32", sum(one.looped for one in removers)),
    ]
    if len(pairs) > 1:
        rows.append(row("SC-27/sd", figures.spread_of_bins([one.entries for one in removers])))
    return rows


def _more(pairs: list[tuple[Run, Run]], of: Callable[[Run], float]) -> float:
    """A figure with the remover over the same without it, each averaged over networks."""
    return _per([of(with_) for _, with_ in pairs], [of(without) for without, _ in pairs])


def _per(counts: Sequence[float], over: Sequence[float]) -> float:
    return float(np.mean(counts) / np.mean(over))


EXPERIMENT = Experiment(
    name="scribe-bottleneck",
    about="at most 64 children per node: what joining, delays and probes cost",
    ids=("SC-27", "SC-28", "SC-29", "SC-30", "SC-31", "SC-32"),
    nodes=NODES,
    run=run,
)
