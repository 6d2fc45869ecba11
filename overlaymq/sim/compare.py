"""The strategies side by side: one workload, and what each way to carry it costs and survives.

One topic has some members among many nodes. Every node is a whole ``core.node.Node`` with the default
settings, and everything periodic goes on as in a live one; only the Pastry tables were filled by the
oracle. All ways get the same network, ids, members, publishers and failures. The network is the
transit-stub one of the Scribe paper, ten times as fast (52 ms one way on average): our default time-outs
are not made for its half second. Penalties are ratios, so they do not see the difference.

A run is a rest without the topic, which shows what the ring itself sends; the members' joins; publications
by random members, which let trees of gossip form and are not measured; publications that are; then a share
of all nodes is killed at once, and the survivors go on publishing. Their first publication is sent in the
moment of the failure. Processes are killed, not machines: who keeps a link to a dead one is told when news
from there would arrive, and who sends to it is told after ``REFUSED`` seconds. A loss of machines is
noticed later, by missing heartbeats.

What is measured, of the publications before the failure unless it says otherwise:

- *delay penalty*: mean (RAD) and largest (RMD) delay over those of IP multicast from the same publisher,
  the mean over publications; *hops*: links of the overlay on the way to a member.
- *copies per delivery*: batches sent for each member that got one from another node. IP multicast has no
  such copies.
- *node stress*: batches that a forwarding node sends for a publication, and those of the busiest node.
  *Unwilling*: the share of batches sent by nodes that have not subscribed.
- *link stress*: copies on a physical link for each publication, over those that carried any, and on the
  busiest.
- *control*: messages other than batches for each member and second, without what the ring sent at rest.
- *reach*: the share of the surviving members that got a publication, whenever it came; of the first one,
  and of the last ``LATER``. *Repair*: seconds from the failure to the first publication from which on
  everyone got all.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.config import Config, ScampConfig
from overlaymq.events import PeerFailed, Publish
from overlaymq.messages import Batch
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import no_progress
from overlaymq.sim.faults import Faults
from overlaymq.sim.scribe_world import World, forget
from overlaymq.sim.topology import TransitStub
from overlaymq.sim.topology.network import TopologyNetwork
from overlaymq.sim.topology.stress import LinkStress, multicast_links
from overlaymq.sim.topology.transit_stub import TransitStubParameters
from overlaymq.sim.tracing import traced

if TYPE_CHECKING:
    from pathlib import Path

    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.faults import Fate
    from overlaymq.sim.topology.graph import Topology
    from overlaymq.sim.tracing import SimTrace

ROUTERS = TransitStubParameters(unit=0.0001)
"""A tenth of the paper's seconds per unit of length."""
SETTLE = 30.0
WINDOW = 30.0
"""Seconds of each stretch that is measured: six heartbeats."""
WARM_UP = 20
EVERY = 1.0
"""Seconds between publications."""
LATER = 10
ARRIVED = 10.0
"""Seconds that the last publication of a stretch may take."""
REFUSED = 0.1
"""Seconds until a message to a dead process comes back: about a round trip."""
IP = "IP multicast"


class Way(msgspec.Struct, frozen=True):
    """A strategy and its settings."""

    strategy: str
    config: Config = Config()


WAYS = {
    "Scribe": Way("scribe"),
    "SV": Way("sv"),
    "SCAMP paper": Way("scamp", Config(scamp=ScampConfig(mode="paper"))),
    "SCAMP": Way("scamp"),
}


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What all ways have to carry."""

    nodes: int = 1000
    members: int = 100
    seed: int = 1
    fail: float = 0.3


class Measures(msgspec.Struct, kw_only=True):
    """See the module's text. None: there is no such thing, or it did not come to pass."""

    rad: float
    rmd: float
    link_mean: float
    link_max: float
    hops_mean: float | None = None
    hops_max: float | None = None
    copies: float | None = None
    node_mean: float | None = None
    node_max: float | None = None
    unwilling: float | None = None
    control: float | None = None
    reach_before: float | None = None
    reach_first: float | None = None
    reach_later: float | None = None
    repair: float | None = None


LABELS = {
    "rad": "mean delay / IP multicast (RAD)",
    "rmd": "largest delay / IP multicast (RMD)",
    "hops_mean": "hops, mean",
    "hops_max": "hops, most",
    "copies": "copies per delivery",
    "node_mean": "node stress, mean of forwarders",
    "node_max": "node stress, busiest node",
    "unwilling": "share sent by nodes not subscribed",
    "link_mean": "link stress, mean",
    "link_max": "link stress, busiest link",
    "control": "control messages per member and second",
    "reach_before": "reach before the failure",
    "reach_first": "reach of the first message after it",
    "reach_later": "reach of the last messages",
    "repair": "seconds until repaired",
}


class Comparison(msgspec.Struct, kw_only=True):
    """What was found: measures by way, and the reach of each publication around the failure."""

    workload: Workload
    runs: int
    ways: dict[str, Measures]
    reach: dict[str, list[tuple[float, float]]]
    """Seconds after the failure, and the share of survivors that got what was published then."""


class Publication:
    """One message: who sent it, when, and when others had it."""

    __slots__ = ("at", "delays", "hops", "source")

    def __init__(self, source: Peer, at: float) -> None:
        self.source = source
        self.at = at
        self.delays: dict[Id, float] = {}
        self.hops: dict[Id, int] = {}


class Stage(World):
    """A network of live nodes and one topic; what is sent is counted from the last ``restart`` on."""

    settle = SETTLE

    def __init__(self, workload: Workload, topology: Topology, way: Way) -> None:
        network = TopologyNetwork(topology, workload.seed)
        super().__init__(workload.seed, network, workload.nodes, way.config)
        self.workload = workload
        self.chance = Random(f"overlaymq compare {workload.seed}")
        self.alive: list[Peer] = []
        """The members that live."""
        self.publications: dict[tuple[Id, int], Publication] = {}
        self._numbers: Counter[Id] = Counter()
        self.trace: SimTrace | None = None
        self.restart()
        self.network.place_all(f"node-{number}" for number in range(workload.nodes))
        oracle.build(self, workload.nodes, with_timers=True)
        self.watch()
        (self.group,) = self.add_groups([workload.members], way.strategy)

    def restart(self) -> None:
        """Count anew."""
        self.control = 0
        self.by_node: Counter[Id] = Counter()
        self.stress = LinkStress(self.network)

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.simulation.run_until(self.simulation.now + seconds)

    def subscribe(self) -> None:
        """Let all members join."""
        self.join([self.group])
        self.alive = list(self.group.members)

    def publish(self, count: int) -> list[Publication]:
        """So many publications by random members, one after the other."""
        made = []
        for _ in range(count):
            made.append(self._publish(self.chance.choice(self.alive)))
            self.rest(EVERY)
        self.rest(ARRIVED)
        return made

    def _publish(self, source: Peer) -> Publication:
        descriptor = self.group.descriptor
        batch = Batch(descriptor.id, source.id, 1, self._numbers[source.id], 1, b"")
        self._numbers[source.id] += 1
        made = Publication(source, self.simulation.now)
        self.publications[batch.origin, batch.first] = made
        self.simulation.start(source, Publish(descriptor, batch))
        return made

    def fail(self) -> None:
        """Kill a share of all nodes; a member stays, so that there is somebody to publish."""
        simulation, workload = self.simulation, self.workload
        peers = [node.me for node in self.nodes.values() if node.me != self.alive[0]]
        dead = self.chance.sample(peers, round(workload.fail * len(self.nodes)))
        for peer in dead:
            simulation.crash(peer)
            if self.trace is not None:
                self.trace.fault("crash", peer)
            del self.nodes[peer.id]
        gone = {peer.id: peer for peer in dead}
        self.alive = [peer for peer in self.alive if peer.id not in gone]
        simulation.faults = Faults(link_break=REFUSED)
        for node in self.nodes.values():
            host = simulation.hosts[node.me.address]
            for id_ in sorted(node.kept() & gone.keys()):
                peer = gone[id_]
                delay = self.network.delay(peer.address, node.me.address)
                simulation.schedule(delay, host, PeerFailed(peer, "its process died", True))

    def reach(self, one: Publication) -> float:
        """The share of the living members that have it, its publisher aside."""
        others = [peer for peer in self.alive if peer != one.source]
        return sum(peer.id in one.delays for peer in others) / max(1, len(others))

    def _on_send(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        if type(message) is Batch:
            self.by_node[host.peer.id] += 1
            self.stress.count(host.peer.address, peer.address)
        else:
            self.control += 1

    def _on_deliver(self, host: Host, batch: Batch) -> None:
        one = self.publications[batch.origin, batch.first]
        if host.peer == one.source:
            return
        if host.peer.id in one.delays:
            raise AssertionError("a message was delivered twice")
        one.delays[host.peer.id] = self.simulation.now - one.at
        one.hops[host.peer.id] = batch.hop


def compare(
    workload: Workload,
    runs: int = 1,
    progress: Progress = no_progress,
    routers: TransitStubParameters | None = None,
    trace: Path | None = None,
) -> Comparison:
    """Run the workload on each way, with so many seeds; the means over them. ``trace``: where each is traced,
    in a folder by way and seed."""
    found: dict[str, list[Measures]] = {}
    curves: dict[str, list[list[tuple[float, float]]]] = {}
    steps = runs * len(WAYS)
    for run in range(runs):
        this = msgspec.structs.replace(workload, seed=workload.seed + run)
        topology = TransitStub(this.seed, routers or ROUTERS)
        for number, (name, way) in enumerate(WAYS.items()):
            progress(name, run * len(WAYS) + number, steps)
            stage = Stage(this, topology, way)
            with ExitStack() as stack:
                if trace is not None:
                    run_name = f"{name.lower().replace(' ', '-')}-{this.seed}"
                    stage.trace = stack.enter_context(traced(stage.simulation, trace, run_name))
                measures, by_ip, reach = _measure(stage)
            if not number:
                found.setdefault(IP, []).append(by_ip)
            found.setdefault(name, []).append(measures)
            curves.setdefault(name, []).append(reach)
            forget(stage)
    return Comparison(
        workload=workload,
        runs=runs,
        ways={name: _mean(measures) for name, measures in found.items()},
        reach={
            name: [
                (points[0][0], float(np.mean([share for _, share in points])))
                for points in zip(*lines, strict=True)
            ]
            for name, lines in curves.items()
        },
    )


def _measure(stage: Stage) -> tuple[Measures, Measures, list[tuple[float, float]]]:
    """A whole run: what this way did, what IP multicast would have done, and the reach over time."""
    stage.rest(SETTLE)
    stage.restart()
    stage.rest(WINDOW + ARRIVED)
    at_rest = stage.control
    stage.subscribe()
    stage.publish(WARM_UP)
    stage.restart()
    steady = stage.publish(round(WINDOW / EVERY))
    measures, by_ip = _steady(stage, steady, stage.control - at_rest)
    stage.fail()
    failed_at = stage.simulation.now
    after = stage.publish(round(WINDOW / EVERY))
    reach = [(one.at - failed_at, stage.reach(one)) for one in after]
    shares = [share for _, share in reach]
    measures.reach_first = shares[0]
    measures.reach_later = float(np.mean(shares[-LATER:]))
    measures.repair = repaired(reach)
    return measures, by_ip, reach


def repaired(reach: list[tuple[float, float]]) -> float | None:
    """The time of the first publication from which on all reached everyone, if there is one."""
    since = None
    for seconds, share in reversed(reach):
        if share < 1:
            break
        since = seconds
    return since


def _steady(stage: Stage, steady: list[Publication], control: int) -> tuple[Measures, Measures]:
    """Before the failure."""
    by_ip = _ip_multicast(stage, steady)
    members = {peer.id for peer in stage.group.members}
    sent = stage.by_node
    total, count = sum(sent.values()), len(steady)
    stress = stage.stress.per_link()
    used = stress[stress > 0] / count
    penalties = np.array([_penalties(stage, one) for one in steady])
    hops = [hop for one in steady for hop in one.hops.values()]
    measures = Measures(
        rad=float(penalties[:, 0].mean()),
        rmd=float(penalties[:, 1].mean()),
        link_mean=float(used.mean()),
        link_max=float(used.max()),
        hops_mean=float(np.mean(hops)),
        hops_max=float(max(hops)),
        copies=total / sum(len(one.delays) for one in steady),
        node_mean=total / count / len(sent),
        node_max=max(sent.values()) / count,
        unwilling=sum(sent[id_] for id_ in sorted(sent) if id_ not in members) / total,
        control=control / len(members) / (WINDOW + ARRIVED),
        reach_before=float(np.mean([stage.reach(one) for one in steady])),
    )
    return measures, by_ip


def _penalties(stage: Stage, one: Publication) -> tuple[float, float]:
    """Mean and largest delay over those of IP multicast to the same members."""
    delay, source = stage.network.delay, one.source.address
    ways = [
        (one.delays[peer.id], delay(source, peer.address))
        for peer in stage.group.members
        if peer.id in one.delays
    ]
    ours, ip = np.array(ways).T
    return float(ours.mean() / ip.mean()), float(ours.max() / ip.max())


def _ip_multicast(stage: Stage, steady: list[Publication]) -> Measures:
    network = stage.network
    addresses = [peer.address for peer in stage.group.members]
    stress = np.zeros(2 * len(network.topology.links) + 2 * len(network.node_of), np.int64)
    for one in steady:
        stress[multicast_links(network, one.source.address, addresses)] += 1
    used = stress[stress > 0] / len(steady)
    return Measures(rad=1.0, rmd=1.0, link_mean=float(used.mean()), link_max=float(used.max()))


def _mean(measures: list[Measures]) -> Measures:
    """Field by field; None where one of them has none."""
    means: dict[str, float | None] = {}
    for name in Measures.__struct_fields__:
        values = [getattr(one, name) for one in measures]
        means[name] = None if None in values else float(np.mean(values))
    return msgspec.convert(means, Measures)
