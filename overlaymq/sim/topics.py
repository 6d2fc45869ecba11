"""A small workload of publications on all strategies, with a crash in the middle: what a live test does, at
virtual time.

Some nodes subscribe to one topic of each strategy. Random ones publish, some messages at a time. Then a node
is killed, the one that feeds the most others, and the rest goes on publishing. Who keeps a link to the dead
one is told when news from there would arrive, as its operating system would tell it.

The run keeps a count of its own (``Outcome``), by looking at what nodes are given and at nothing that they
say; so an analysis of its trace can be held against it. The same plan gives the same trace.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec

from overlaymq.config import (
    Config,
    FuseConfig,
    PastryConfig,
    RendezvousConfig,
    ScribeConfig,
    SvConfig,
)
from overlaymq.core.node import Node
from overlaymq.events import PeerFailed, Publish, Ready, Subscribe, Unsubscribe
from overlaymq.ids import BITS, Id, text, topic_id
from overlaymq.messages import Batch, Descriptor, Peer
from overlaymq.sim import oracle
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import PlaneDelay

if TYPE_CHECKING:
    from overlaymq.events import Event
    from overlaymq.sim.engine import Host
    from overlaymq.sim.tracing import SimTrace

RELIABILITIES = {"scribe": "ordered", "sv": "best_effort", "scamp": "fifo"}
"""The strategies, and what is promised on the topic of each: one of every kind."""
SETTLE = 10.0
"""Seconds until all are ready, and at the end until all has arrived that will."""
REFUSED = 0.1
"""Seconds until a message to a dead process comes back: about a round trip."""
BODY = 20
"""Bytes of a message."""

CONFIG = Config(
    pastry=PastryConfig(heartbeat_every=2.0, lease=4.0, leaf_set_size=8),
    rendezvous=RendezvousConfig(answer_timeout=1.0, refresh_every=10.0, expire_after=33.0),
    scribe=ScribeConfig(heartbeat_every=1.0, suspect_after=2.5),
    sv=SvConfig(beat_every=1.0, suspect_after=2.5, tentative=5.0, retry_max=8.0),
    fuse=FuseConfig(
        ping_every=2.0, edge_timeout=5.0, answer_timeout=2.0, grace=2.0, backoff_max=2.0
    ),
)
"""Times scaled down by two to five, so that a short run sees a whole repair."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is done. ``rate``: publications a second on each topic, of one to four messages."""

    nodes: int = 8
    subscribers: int = 6
    seconds: float = 20.0
    rate: float = 5.0
    crash: bool = True
    loss: float = 0.0
    doubled: float = 0.0
    """The shares of messages between nodes that are lost, and that arrive twice, while all publish."""
    seed: int = 1


class Reader(msgspec.Struct):
    """What one subscriber of one topic was given, as (publisher, number), in order."""

    node: str
    topic: str
    ready_at: float = -1.0
    got: list[tuple[str, int]] = []


class Outcome(msgspec.Struct, kw_only=True):
    """What happened, counted from outside."""

    published: list[tuple[str, str, int, float]] = []
    """Topic, publisher, number, seconds."""
    readers: list[Reader] = []
    crashed: str = ""
    crashed_at: float = -1.0
    seconds: float = 0.0


class Topics:
    """One run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = Random(f"overlaymq topics {plan.seed}")
        self.simulation = Simulation(plan.seed, PlaneDelay(), Faults(link_break=REFUSED))
        self.config = CONFIG.pastry
        self.nodes: dict[Id, Node] = {}
        self.outcome = Outcome()
        self.topics = [_descriptor(strategy) for strategy in RELIABILITIES]
        self._readers: dict[tuple[Id, Id], Reader] = {}
        self._numbers: dict[tuple[Id, Id], int] = {}
        oracle.build(self, plan.nodes, with_timers=True)
        self.simulation.on_deliver = self._delivered
        self.simulation.on_notify = self._notified

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""
        number = len(self.simulation.hosts)
        return Peer(Id(self.random.getrandbits(BITS)), f"node-{number}", 1)

    def add(self, peer: Peer) -> Node:
        """A node that has not started."""
        random = self.simulation.node_random(peer.address)
        node = self.nodes[peer.id] = Node(peer, CONFIG, random)
        self.simulation.add_node(peer, node)
        return node

    def run(self, trace: SimTrace | None = None) -> Outcome:
        """From the first subscription to the last."""
        simulation, plan = self.simulation, self.plan
        for topic in self.topics:
            for peer in self.random.sample(self._peers(), plan.subscribers):
                self._subscribe(peer, topic)
        simulation.run_until(SETTLE)
        assert simulation.faults is not None
        simulation.faults.loss, simulation.faults.duplication = plan.loss, plan.doubled
        crash_at = SETTLE + plan.seconds / 2
        end = SETTLE + plan.seconds
        while simulation.now < end:
            if plan.crash and not self.outcome.crashed and simulation.now >= crash_at:
                self._crash(trace)
            for topic in self.topics:
                self._publish(self.random.choice(self._peers()), topic)
            simulation.run_until(simulation.now + 1 / plan.rate)
        simulation.faults.loss = simulation.faults.duplication = 0.0
        simulation.run_until(simulation.now + SETTLE)
        for node, topic_ in self._readers:
            if node in self.nodes:
                simulation.start(self.nodes[node].me, Unsubscribe(topic_))
        self.outcome.seconds = simulation.now
        return self.outcome

    def _peers(self) -> list[Peer]:
        return [node.me for node in self.nodes.values()]

    def _subscribe(self, peer: Peer, topic: Descriptor) -> None:
        reader = Reader(text(peer.id), topic.name)
        self._readers[peer.id, topic.id] = reader
        self.outcome.readers.append(reader)
        self.simulation.start(peer, Subscribe(topic))

    def _publish(self, peer: Peer, topic: Descriptor) -> None:
        count = self.random.randint(1, 4)
        first = self._numbers.get((peer.id, topic.id), 0)
        self._numbers[peer.id, topic.id] = first + count
        now = self.simulation.now
        for number in range(first, first + count):
            self.outcome.published.append((topic.name, text(peer.id), number, now))
        batch = Batch(topic.id, peer.id, peer.incarnation, first, count, bytes(BODY * count))
        self.simulation.start(peer, Publish(topic, batch))

    def _crash(self, trace: SimTrace | None) -> None:
        """Kill the node that feeds the most others, and let their systems tell those with links to it."""
        victim = max(self.nodes.values(), key=self._feeds)
        peer = victim.me
        self.outcome.crashed, self.outcome.crashed_at = text(peer.id), self.simulation.now
        self.simulation.crash(peer)
        if trace is not None:
            trace.fault("crash", peer)
        del self.nodes[peer.id]
        for node in self.nodes.values():
            if peer.id in node.kept():
                host = self.simulation.hosts[node.me.address]
                delay = self.simulation.network.delay(peer.address, node.me.address)
                self.simulation.schedule(delay, host, PeerFailed(peer, "its process died", True))

    def _feeds(self, node: Node) -> int:
        strategies = (node.strategy(topic.id) for topic in self.topics)
        standings = (one.standing for one in strategies if one is not None)
        return sum(len(one.children) + len(one.view) for one in standings if one is not None)

    def _delivered(self, host: Host, batch: Batch) -> None:
        reader = self._readers[host.peer.id, batch.topic]
        origin = text(batch.origin)
        reader.got += [
            (origin, number) for number in range(batch.first + batch.skip, batch.last + 1)
        ]

    def _notified(self, host: Host, event: Event) -> None:
        if isinstance(event, Ready):
            reader = self._readers[host.peer.id, event.topic]
            if reader.ready_at < 0:
                reader.ready_at = self.simulation.now


def _descriptor(strategy: str) -> Descriptor:
    topic = topic_id(strategy)
    return Descriptor(topic, strategy, "", topic, strategy, RELIABILITIES[strategy], "patient")
