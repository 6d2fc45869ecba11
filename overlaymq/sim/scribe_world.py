"""A whole network for the Scribe paper's experiments: real nodes, its groups, and what they send.

The set-up is that of the JSAC paper, section IV.A: end nodes on a network of routers, Pastry complete and at
rest, and groups whose members are drawn uniformly. Every node is a ``core.node.Node``; only its Pastry tables
were filled without sending, as the paper's arrivals would (``arrived``). Members join one after the other, of
all groups mixed, by the strategy's own protocol through the engine; then the root of each group sends one
message.

Nothing fails here, so nothing periodic is wanted: heartbeats, refreshes and time-outs lie beyond the run's
horizon. What is sent is the paper's traffic, and the acknowledgements that our protocol adds to it; they are
told apart by their types.

A tree of Scribe is the union of the routes from its members to the root, so the order of joins makes no
difference to it, and neither does their pace; ``SPACING`` only keeps a join from overtaking the one before.
"""

from __future__ import annotations

import gc
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.config import Config, RendezvousConfig, ScribeConfig
from overlaymq.core.dissemination.scribe import Scribe
from overlaymq.core.dissemination.tree_content import ContentTree
from overlaymq.core.node import Node
from overlaymq.events import Publish, Subscribe
from overlaymq.ids import BITS, Id, topic_id
from overlaymq.messages import Batch, Descriptor, Peer, Routed, TreeDrop, TreeJoin
from overlaymq.sim import arrived
from overlaymq.sim.engine import Simulation
from overlaymq.sim.experiments.base import no_progress
from overlaymq.sim.experiments.configs import NEVER, QUIET
from overlaymq.sim.experiments.walk import closest
from overlaymq.sim.topology.stress import LinkStress, multicast_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from overlaymq.messages import Message
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.faults import Fate
    from overlaymq.sim.topology.graph import Floats, Indexes
    from overlaymq.sim.topology.network import TopologyNetwork

SPACING = 0.01
"""Seconds between two joins of any groups: a guess."""
SETTLE = 60.0
"""Seconds until every message has arrived; the longest route of all takes less than ten."""
ANSWER = 30.0
"""Seconds a node waits for an answer: longer than any message and its answer take."""
REPORT_EVERY = 4096
JOINING = (TreeJoin, TreeDrop)
"""What makes a tree: the papers' messages, without the acknowledgements that we add."""

STILL = Config(
    pastry=QUIET,
    rendezvous=RendezvousConfig(
        answer_timeout=NEVER, refresh_every=NEVER, expire_after=NEVER, max_members=1_000_000
    ),
    scribe=ScribeConfig(
        heartbeat_every=NEVER,
        suspect_after=NEVER,
        tell_every=NEVER,
        max_children=0,
        collapse_after=0.0,
    ),
)
"""Nothing periodic, and room for the largest group."""


def moving(max_children: int = 0, collapse_after: float = 0.0) -> Config:
    """The same with children that are sent elsewhere, which takes answers in time."""
    replace = msgspec.structs.replace
    return replace(
        STILL,
        scribe=replace(STILL.scribe, max_children=max_children, collapse_after=collapse_after),
        rendezvous=replace(STILL.rendezvous, answer_timeout=ANSWER),
    )


def zipf_sizes(nodes: int, groups: int) -> list[int]:
    """How many members the group of each rank has (JSAC IV.A): floor(N * r^-1.25 + 0.5)."""
    return [int(nodes * rank**-1.25 + 0.5) for rank in range(1, groups + 1)]


class Group(msgspec.Struct, frozen=True):
    """A topic, the node closest to its id, and who joins."""

    descriptor: Descriptor
    root: Peer
    members: tuple[Peer, ...]


class Multicast(msgspec.Struct):
    """One message of a group: seconds from the root to each other member, by both ways, and its cost."""

    by_tree: Floats
    by_ip: Floats
    messages: int

    @property
    def average_penalty(self) -> float:
        """RAD: mean delay over that of IP multicast."""
        return float(self.by_tree.mean() / self.by_ip.mean())

    @property
    def worst_penalty(self) -> float:
        """RMD: largest delay over that of IP multicast."""
        return float(self.by_tree.max() / self.by_ip.max())


class World:
    """A network of whole nodes; see the module's text."""

    settle = SETTLE
    joins_within: float | None = None
    """Seconds in which all join; without it, ``SPACING`` counts."""

    def __init__(
        self, seed: int, network: TopologyNetwork, nodes: int, config: Config = STILL
    ) -> None:
        self.simulation = Simulation(seed, network)
        self.simulation.horizon = NEVER / 2
        self.network = network
        self.config = config.pastry
        self.nodes: dict[Id, Node] = {}
        self.groups: list[Group] = []
        self.joins = LinkStress(network)
        self.batches = LinkStress(network)
        self.sent: Counter[str] = Counter()
        self._whole = config
        self._count = nodes
        self._random = Random(f"overlaymq groups {seed}")
        self._started = 0.0
        self._delays: dict[Id, float] = {}

    # --- building ----------------------------------------------------------------------------------

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""
        return Peer(Id(self._random.getrandbits(BITS)), f"node-{len(self.simulation.hosts)}")

    def add(self, peer: Peer) -> Node:
        """A node that has not started."""
        random = self.simulation.node_random(peer.address)
        node = self.nodes[peer.id] = Node(peer, self._whole, random)
        self.simulation.add_node(peer, node)
        return node

    def build(self, progress: Progress = no_progress) -> None:
        """Make the nodes and fill their tables."""
        arrived.build(self, self._count, progress)
        self.watch()

    def watch(self) -> None:
        """See what is sent and delivered from now on."""
        self.simulation.on_send = self._on_send
        self.simulation.on_deliver = self._on_deliver

    def add_groups(self, sizes: Sequence[int], strategy: str = "scribe") -> list[Group]:
        """Draw the members of groups of these sizes; nobody joins yet."""
        ids = sorted(self.nodes)
        peers = [self.nodes[id_].me for id_ in ids]
        added = []
        for size in sizes:
            name = f"group {len(self.groups)} of {self.simulation.seed}"
            topic = topic_id(name)
            descriptor = Descriptor(topic, name, "", topic, strategy, "best_effort", "lossy")
            root = self.nodes[closest(ids, topic, 1)[0]].me
            added.append(Group(descriptor, root, tuple(self._random.sample(peers, size))))
            self.groups.append(added[-1])
        return added

    # --- running -----------------------------------------------------------------------------------

    def join(self, groups: Iterable[Group], progress: Progress = no_progress) -> None:
        """Let all members of these groups join, in random order."""
        todo = [(group.descriptor, peer) for group in groups for peer in group.members]
        self._random.shuffle(todo)
        simulation = self.simulation
        spacing = SPACING if self.joins_within is None else self.joins_within / len(todo)
        for done, (descriptor, peer) in enumerate(todo):
            simulation.start(peer, Subscribe(descriptor))
            simulation.run_until(simulation.now + spacing)
            if done % REPORT_EVERY == 0:
                progress("joining", done, len(todo))
        simulation.run_until(simulation.now + self.settle)

    def multicast(self, group: Group) -> Multicast:
        """Send one message from the root, and wait until it is everywhere."""
        simulation, root = self.simulation, group.root
        self._delays = {}
        self._started = simulation.now
        before = self.sent["Batch"]
        batch = Batch(group.descriptor.id, root.id, 1, 1, 1, b"")
        simulation.start(root, Publish(group.descriptor, batch))
        simulation.run_until(simulation.now + self.settle)
        others = [peer for peer in group.members if peer.id != root.id]
        delay = self.network.delay
        return Multicast(
            np.array([self._delays.get(peer.id, np.nan) for peer in others]),
            np.array([delay(root.address, peer.address) for peer in others]),
            self.sent["Batch"] - before,
        )

    def _on_send(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        kind = type(message)
        self.sent[kind.__name__] += 1
        if kind is Batch:
            self.batches.count(host.peer.address, peer.address)
        elif kind in JOINING or (isinstance(message, Routed) and type(message.body) is TreeJoin):
            self.joins.count(host.peer.address, peer.address)

    def _on_deliver(self, host: Host, batch: Batch) -> None:
        if host.peer.id in self._delays:
            raise AssertionError("a message was delivered twice")
        self._delays[host.peer.id] = self.simulation.now - self._started

    # --- looking -----------------------------------------------------------------------------------

    def place(self, group: Group, id_: Id) -> Scribe | None:
        """A node's part in a tree, if it has one."""
        strategy = self.nodes[id_].strategy(group.descriptor.id)
        return strategy if isinstance(strategy, Scribe) else None

    def children(self, group: Group, id_: Id) -> tuple[Peer, ...]:
        """Whom a node feeds."""
        strategy = self.nodes[id_].strategy(group.descriptor.id)
        return strategy.children if isinstance(strategy, ContentTree) else ()

    def entries(self, group: Group) -> int:
        """Entries of all children tables of the group, also those that the root does not lead to."""
        return sum(len(self.children(group, id_)) for id_ in self.nodes)

    def node_stress(self) -> tuple[Indexes, Indexes]:
        """For every node, in ring order: children tables that are not empty, and entries in all."""
        tables, entries = [], []
        for id_ in sorted(self.nodes):
            node = self.nodes[id_]
            sizes = [
                len(strategy.children)
                for descriptor in node.active_topics()
                if isinstance(strategy := node.strategy(descriptor.id), Scribe)
            ]
            tables.append(sum(size > 0 for size in sizes))
            entries.append(sum(sizes))
        return np.array(tables), np.array(entries)

    def ip_stress(self) -> Indexes:
        """How many of the groups' IP multicasts pass each directed link."""
        stress = np.zeros(2 * len(self.network.topology.links) + 2 * len(self.nodes), np.int64)
        for group in self.groups:
            members = [peer.address for peer in group.members]
            stress[multicast_links(self.network, group.root.address, members)] += 1
        return stress

    def tree_size(self, group: Group) -> int:
        """Nodes of the tree, its root included."""
        return len(self._reached(group))

    def tree_faults(self, group: Group) -> list[str]:
        """What is wrong with a tree: nothing, if it reaches every member once and no node in vain."""
        faults = []
        reached = self._reached(group)
        if any(times > 1 for times in reached.values()):
            faults.append("a node has two parents, or feeds one above it")
        members = {peer.id for peer in group.members}
        if not members <= reached.keys():
            faults.append("a member is not in the tree")
        inside = members | {group.root.id}
        if any(not self.children(group, id_) for id_ in reached if id_ not in inside):
            faults.append("a forwarder feeds nobody")
        return faults

    def _reached(self, group: Group) -> dict[Id, int]:
        """How often each node is met from the root down, where it is met at all."""
        reached = {group.root.id: 1}
        waiting = [group.root.id]
        for id_ in waiting:
            for child in self.children(group, id_):
                reached[child.id] = reached.get(child.id, 0) + 1
                if reached[child.id] == 1:
                    waiting.append(child.id)
        return reached


def forget(world: World) -> None:
    """Free a world before the next one is built: its nodes refer to each other in circles."""
    world.nodes.clear()
    world.simulation.hosts.clear()
    gc.collect()
