"""Failure groups beside the published FUSE: how long it takes to make one and to hear of a signal or a crash,
what it costs, and how many fail for no reason when messages are lost (OSDI 2004; protocols.md 4.6).

As published: 400 nodes on a Mercator-like map of the Internet, 20 groups of each size from 2 to 32, a ping
every 60 s that may take 20 s. The ring is the oracle's, with MSPastry's heartbeats. Half of the groups are
signalled by a random member; then one member of each of the others crashes, one after the other. The rates
of steady state are those of one ring before and after the groups are made: pings go along edges where
heartbeats do not go, and there should be nothing else. Loss is the same on every way, both directions,
without any transport that repeats.

Deviations: FUSE's numbers of the cluster include setting up connections, its simulator's do not; ours have
none. FUSE's overlay pings all its neighbours without FUSE, Pastry does not, so here the rates differ by the
new edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.config import Config, FuseConfig
from overlaymq.core.fuse.bounds import notification_bound
from overlaymq.events import GroupCreated, GroupFailed, SignalGroup
from overlaymq.sim.experiments.base import Experiment, Findings, Series, Settings, averaged, cdf
from overlaymq.sim.experiments.configs import WIDE
from overlaymq.sim.faults import Faults
from overlaymq.sim.fuse_steady import Ring
from overlaymq.sim.published import row
from overlaymq.sim.topology import TopologyNetwork
from overlaymq.sim.topology.mercator import Mercator

if TYPE_CHECKING:
    from overlaymq.events import Event
    from overlaymq.ids import Id
    from overlaymq.messages import Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Row
    from overlaymq.sim.network import NetworkModel

NODES = 400
SIZES = (2, 4, 8, 16, 32)
SPACING = 2.0
SETTLE = 120.0
CRASH_SPACING = 20.0
LOSSES = (0.0, 0.058, 0.11)


class Plan(msgspec.Struct, frozen=True):
    """How much is done: so many groups of each size, and seconds of watching."""

    groups: int = 20
    steady: float = 600.0
    lossy: float = 1800.0


PAPER = Config(
    pastry=WIDE,
    fuse=FuseConfig(
        ping_every=60.0,
        edge_timeout=80.0,
        retry_every=5.0,
        answer_timeout=120.0,
        grace=5.0,
        backoff_max=30.0,
    ),
)
"""Period, timeout, grace and the 2 minutes that a root waits (A) are FUSE's. Its members wait 1 minute; here
they wait 2A + W, for a member must outwait its root."""
HEARD = notification_bound(PAPER.fuse, 1.0)
"""Who has not heard of a crash by then is never told (published: about 4 minutes)."""


class Watched(Ring):
    """A ring that knows when who heard what."""

    def __init__(
        self, seed: int, nodes: int, network: NetworkModel, groups: int, loss: float = 0.0
    ) -> None:
        faults = Faults()
        super().__init__(seed, nodes, PAPER, network, faults)
        self.members: dict[Id, list[Peer]] = {}
        self.asked: dict[Id, float] = {}
        self.made: dict[Id, float] = {}
        self.heard: dict[Id, list[float]] = {}
        self.simulation.on_notify = self.note
        for size in SIZES:
            for _ in range(groups):
                self.make(min(size, nodes))
        self.simulation.run_until(self.simulation.now + SETTLE)
        faults.loss = loss

    def make(self, size: int) -> None:
        """A group of so many random nodes."""
        peers = self.random.sample([node.me for node in self.nodes.values()], size)
        now = self.simulation.now
        group = self.make_group(peers)
        self.members[group], self.asked[group] = peers, now
        self.simulation.run_until(now + SPACING)

    def note(self, host: Host, event: Event) -> None:
        """A node was told."""
        if isinstance(event, GroupCreated):
            self.made[event.group] = self.simulation.now
        elif isinstance(event, GroupFailed):
            self.heard.setdefault(event.group, []).append(self.simulation.now)

    def creation(self, size: int) -> list[float]:
        """Seconds to make each group of this size."""
        return [
            self.made[group] - self.asked[group]
            for group, members in self.members.items()
            if len(members) == size and group in self.made
        ]


def _signal_half(ring: Watched) -> list[float]:
    """Seconds until each other member of every second group has heard."""
    seconds: list[float] = []
    for group in list(ring.members)[::2]:
        now = ring.simulation.now
        ring.simulation.start(ring.random.choice(ring.members[group]), SignalGroup(group))
        ring.simulation.run_until(now + SPACING + 5.0)
        seconds += [at - now for at in ring.heard[group]][1:]
    return seconds


def _crash_others(ring: Watched) -> tuple[list[float], int]:
    """Seconds until each member of the groups of a crashed node has heard; how many never have."""
    crashed: dict[Id, float] = {}
    gone: set[Id] = set()
    for group in list(ring.members)[1::2]:
        alive = [peer for peer in ring.members[group] if peer.id not in gone]
        if group in crashed or not alive:
            continue
        victim = ring.random.choice(alive)
        now = ring.simulation.now
        ring.simulation.crash(victim)
        del ring.nodes[victim.id]
        gone.add(victim.id)
        for other, members in ring.members.items():
            if victim in members and other not in ring.heard:
                crashed.setdefault(other, now)
        ring.simulation.run_until(now + CRASH_SPACING)
    ring.simulation.run_until(ring.simulation.now + HEARD)
    seconds, missing = [], 0
    for group, now in crashed.items():
        heard = ring.heard.get(group, [])
        up = sum(peer.id not in gone for peer in ring.members[group])
        missing += max(up - len(heard), 0)
        seconds += [at - now for at in heard]
    return seconds, missing


def run(settings: Settings) -> Findings:
    """As published."""
    network = TopologyNetwork(Mercator(settings.seed), settings.seed)
    return study(settings, Plan(), network)


def study(settings: Settings, plan: Plan, network: NetworkModel) -> Findings:
    """One ring for times and rates, one for each loss."""
    settings.progress("times", 0, 1)
    quiet = Ring(settings.seed, settings.nodes, PAPER, network)
    quiet.simulation.run_until(SETTLE)
    before = quiet.watch(plan.steady, 0, 0)
    ring = Watched(settings.seed, settings.nodes, network, plan.groups)
    creation = {size: ring.creation(size) for size in SIZES}
    after = ring.watch(plan.steady, len(ring.members), len(ring.members))
    signals = _signal_half(ring)
    crashes, missing = _crash_others(ring)
    events = quiet.simulation.events + ring.simulation.events
    rows: list[Row] = [
        row("FUSE-1", len(ring.members) - len(ring.made)),
        *(_creation_rows(creation)),
        row("FUSE-3/median", float(np.median(signals))),
        row("FUSE-3/max", max(signals)),
        row("FUSE-4/median", float(np.median(crashes))),
        row("FUSE-4/max", max(crashes)),
        row("FUSE-4/missing", missing),
        row("FUSE-5/without", before.messages / plan.steady),
        row("FUSE-5/with", after.messages / plan.steady),
        row("FUSE-5/edges", (after.edges - after.ring_edges) / 2),
        row("FUSE-5/more", after.fuse - after.expected),
    ]
    for number, loss in enumerate(LOSSES):
        settings.progress("loss", number, len(LOSSES))
        lossy = Watched(settings.seed, settings.nodes, network, plan.groups, loss)
        lossy.simulation.run_until(lossy.simulation.now + plan.lossy)
        rows.append(row(f"FUSE-6/{loss:g}", len(lossy.heard)))
        events += lossy.simulation.events
    return Findings(rows=rows, events=events, series=_series(creation, signals, crashes))


def _creation_rows(creation: dict[int, list[float]]) -> list[Row]:
    medians = {size: float(np.median(values)) for size, values in creation.items()}
    spread = {
        size: float(np.quantile(values, 0.75)) / medians[size] for size, values in creation.items()
    }
    rows = [row(f"FUSE-2/{size}", medians[size]) for size in SIZES]
    rows.append(row("FUSE-2/growth", medians[SIZES[-1]] / medians[SIZES[0]]))
    rows.append(row("FUSE-2/spread", spread[32] / spread[8]))
    return rows


def _series(
    creation: dict[int, list[float]], signals: list[float], crashes: list[float]
) -> dict[str, Series]:
    return {
        "creation": Series(
            title="Time to create a group",
            x_label="seconds",
            y_label="share of groups",
            curves={f"{size} members": cdf(values) for size, values in creation.items()},
            kind="cdf",
        ),
        "notices": Series(
            title="Time from failure to notice",
            x_label="seconds",
            y_label="share of notices",
            curves={"signals": cdf(signals), "crashes": cdf(crashes)},
            kind="cdf",
            log_x=True,
        ),
    }


EXPERIMENT = Experiment(
    name="fuse",
    about="failure groups: creation, notices, steady state and false alarms",
    ids=("FUSE-1", "FUSE-2", "FUSE-3", "FUSE-4", "FUSE-5", "FUSE-6"),
    nodes=NODES,
    run=averaged(run),
)
