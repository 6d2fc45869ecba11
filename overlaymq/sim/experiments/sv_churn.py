"""SV trees under churn: how many subscribers get a message while nodes fail silently (SV 5.4, Fig 13).

4,000 nodes, of which exactly half are up at any time. A little over half of them want to subscribe, so that
just under 1,024 that are up do. In every step one node crashes without a word and one of those that were down
joins the overlay, by Pastry's protocol, and subscribes if it wants to. Every node changes its state once, in
random order and evenly over two half-lives, so that after one half-life half of the first nodes are gone. As
the paper says, silent failures leave holes for a minute or more, and what cannot be delivered is dropped.

The root publishes every 10 seconds. It does not crash, though it may give way to a closer node that arrives:
while a root is silently dead nobody gets anything, and the paper's figure has no such time. A message's
*share* is how many of those that were subscribed when it was sent have ever got it. FUSE has the paper's
period and timeout and is alone in watching parents (``suspect_after`` is off), as in the paper. The overlay's
heartbeats are MSPastry's, every 30 seconds; SkipNet's are 60 seconds apart. Tables are those of our joins,
which know distances.

At every message the forwarding tree is followed upwards from every subscriber, to see whether it has a loop;
a node that is down ends the way.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.config import SvConfig
from overlaymq.events import Join, Joined, Publish, Subscribe
from overlaymq.messages import Batch
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.experiments.configs import NEVER
from overlaymq.sim.experiments.fuse import PAPER
from overlaymq.sim.experiments.scribe_figures import Rows
from overlaymq.sim.experiments.walk import closest
from overlaymq.sim.scribe_world import forget
from overlaymq.sim.sv_world import SvWorld
from overlaymq.sim.topology import TopologyNetwork
from overlaymq.sim.topology.mercator import Mercator

if TYPE_CHECKING:
    from overlaymq.events import Event
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.faults import Fate

NODES = 4_000
WANTING = 2_040 / NODES
"""The share that wants to subscribe: half of 2,040 is just under 1,024."""
HALF_LIVES = {"SV-12": 900.0, "SV-13": 1800.0}
PUBLISH_EVERY = 10.0
SEEDS = 3
"""How many nodes an arrival is told of."""
SETTLE = 120.0
"""Seconds from the last subscription to the first failure: everybody is fed by then."""
CHURNING = msgspec.structs.replace(PAPER, sv=SvConfig(beat_every=60.0, suspect_after=NEVER))


class Moment(msgspec.Struct, frozen=True):
    """One message: when it was sent, how many were subscribed, and how many loops there were."""

    at: float
    subscribed: int
    loops: int


class Churned:
    """One overlay, one topic, one half-life."""

    def __init__(self, seed: int, nodes: int, half_life: float, network: TopologyNetwork) -> None:
        self._up = nodes // 2
        self.world = SvWorld(seed, network, self._up, CHURNING)
        self.half_life = half_life
        self.moments: dict[tuple[Id, int], Moment] = {}
        self.got: Counter[tuple[Id, int]] = Counter()
        self._random = Random(f"overlaymq sv churn {seed}")
        self._wanting: dict[Id, None] = {}
        self._subscribed: dict[Id, None] = {}
        self._sent: Counter[Id] = Counter()

    def run(self, progress: Progress) -> None:
        """Build, subscribe, and let every node change its state."""
        world, simulation = self.world, self.world.simulation
        oracle.build(world, self._up, with_timers=True, progress=progress)
        simulation.on_deliver = self._delivered
        simulation.on_notify = self._notified
        simulation.on_send = self._seen
        self.group = world.add_pair(1).sv
        first = [node.me for node in world.nodes.values()]
        self._random.shuffle(first)
        for peer in self._random.sample(first, round(WANTING * len(first))):
            self._subscribe(peer)
            simulation.run_until(simulation.now + 0.05)
        simulation.run_until(simulation.now + SETTLE)
        began, length = simulation.now, 2 * self.half_life
        first.remove(self.group.root)
        for number, peer in enumerate(first):
            at = began + (number + 0.5) * length / len(first)
            simulation.at(at, partial(self._change, peer))
        while simulation.now < began + length:
            progress(f"half-life {self.half_life:g} s", simulation.now - began, length)
            self._publish(simulation.now - began)
            simulation.run_until(simulation.now + PUBLISH_EVERY)

    def shares(self) -> tuple[list[float], list[float]]:
        """When each message was sent, and which share of the subscribed got it."""
        at = [moment.at for moment in self.moments.values()]
        shares = [self.got[key] / one.subscribed for key, one in self.moments.items()]
        return at, shares

    # --- nodes that come and go ---

    def _change(self, victim: Peer) -> None:
        """One crashes, one arrives."""
        world, simulation = self.world, self.world.simulation
        simulation.crash(victim)
        del world.nodes[victim.id]
        self._subscribed.pop(victim.id, None)
        active = [node.me for node in world.nodes.values() if node.pastry.active]
        peer = world.new_peer()
        if self._random.random() < WANTING:
            self._wanting[peer.id] = None
        world.add(peer)
        simulation.start(peer, Join(tuple(self._random.sample(active, SEEDS))))

    def _notified(self, host: Host, event: Event) -> None:
        if isinstance(event, Joined) and self._wanting.pop(host.peer.id, 0) is None:
            self.world.simulation.at(0.0, partial(self._subscribe, host.peer))

    def _subscribe(self, peer: Peer) -> None:
        if peer.id in self.world.nodes:
            self._subscribed[peer.id] = None
            self.world.simulation.start(peer, Subscribe(self.group.descriptor))

    # --- messages ---

    def _publish(self, at: float) -> None:
        world, descriptor = self.world, self.group.descriptor
        active = sorted(id_ for id_, node in world.nodes.items() if node.pastry.active)
        root = world.nodes[closest(active, descriptor.key, 1)[0]].me
        self._sent[root.id] += 1
        number = self._sent[root.id]
        self.moments[root.id, number] = Moment(at, len(self._subscribed), self._loops())
        batch = Batch(descriptor.id, root.id, 1, number, 1, b"")
        world.simulation.start(root, Publish(descriptor, batch))

    def _delivered(self, host: Host, batch: Batch) -> None:
        self.got[batch.origin, batch.first] += 1

    def _seen(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        if type(message) is Batch:
            self.world.ask_whether_polite(host, message)

    def _loops(self) -> int:
        """Loops of the forwarding tree."""
        loops = 0
        seen: dict[Id, Id] = {}
        for start in self._subscribed:
            at: Id | None = start
            while at is not None and at not in seen:
                seen[at] = start
                at = self._above(at)
            loops += at is not None and seen[at] == start
        return loops

    def _above(self, id_: Id) -> Id | None:
        place = self.world.sv_place(self.group.descriptor.id, id_)
        return None if place is None or place.parent is None else place.parent.id


def run(settings: Settings) -> Findings:
    """Both half-lives, on one network a run."""
    rows = Rows([], judged=settings.nodes == NODES)
    curves: dict[str, Curve] = {}
    means: dict[str, list[float]] = {id_: [] for id_ in HALF_LIVES}
    lowest: dict[str, list[float]] = {id_: [] for id_ in HALF_LIVES}
    trends: list[float] = []
    impolite = loops = events = 0
    for seed in settings.seeds():
        for id_, half_life in HALF_LIVES.items():
            network = TopologyNetwork(Mercator(seed), seed)
            churned = Churned(seed, settings.nodes, half_life, network)
            churned.run(settings.progress)
            at, shares = churned.shares()
            curves.setdefault(f"half-life {half_life / 60:g} min", Curve(at, shares))
            means[id_].append(float(np.mean(shares)))
            lowest[id_].append(min(shares))
            if id_ == "SV-12":
                trends.append(_trend(at, shares, half_life))
            loops += sum(moment.loops for moment in churned.moments.values())
            impolite += churned.world.impolite
            events += churned.world.simulation.events
            forget(churned.world)
    for id_ in HALF_LIVES:
        rows.add(id_, min(lowest[id_]))
        rows.add(f"{id_}/mean", float(np.mean(means[id_])))
    rows.add("SV-12/trend", float(np.mean(trends)))
    rows.add("SV-13/more", float(np.mean(means["SV-13"]) - np.mean(means["SV-12"])))
    rows.add("SV-16", impolite, always=True)
    rows.add("SV-17/loops", loops, always=True)
    return Findings(rows=rows.rows, events=events, series={"churn": _figure(curves)})


def _trend(at: list[float], shares: list[float], half_life: float) -> float:
    """Change of the share in one half-life, over the second one: at the start all are fed."""
    later = [(when, share) for when, share in zip(at, shares, strict=True) if when >= half_life]
    when, share = zip(*later, strict=True)
    return float(np.polyfit(when, share, 1)[0]) * half_life


def _figure(curves: dict[str, Curve]) -> Series:
    return Series(
        title="Subscribers that receive a message",
        x_label="seconds of churn",
        y_label="share",
        curves=curves,
    )


EXPERIMENT = Experiment(
    name="sv-churn",
    about="half of 4,000 nodes are down, every node changes its state: share of subscribers fed",
    ids=("SV-12", "SV-13", "SV-16", "SV-17"),
    nodes=NODES,
    run=run,
)
