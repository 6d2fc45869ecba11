"""A small simulated network of whole nodes for tests of trees: the ring complete, topics to subscribe to."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from overlaymq.config import Config
from overlaymq.core.dissemination.scribe import Scribe
from overlaymq.core.node import Node
from overlaymq.events import Publish, Subscribe, Unsubscribe
from overlaymq.ids import BITS, Id, rank, topic_id
from overlaymq.messages import Batch, Descriptor, Peer
from overlaymq.sim import oracle
from overlaymq.sim.engine import Simulation
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.tree_invariants import broken

if TYPE_CHECKING:
    from overlaymq.events import Event
    from overlaymq.sim.engine import Host
    from overlaymq.sim.faults import Faults


def described(name: str, strategy: str = "scribe") -> Descriptor:
    id_ = topic_id(name)
    return Descriptor(id_, name, "", id_, strategy, "best_effort", "lossy")


class Network:
    """Nodes on a plane, active from the start; what was delivered to whom, how often."""

    def __init__(
        self,
        seed: int,
        size: int,
        config: Config | None = None,
        faults: Faults | None = None,
        timers: bool = False,
    ) -> None:
        self.simulation = Simulation(seed, PlaneDelay(), faults)
        self.whole = config or Config()
        self.config = self.whole.pastry
        self.random = Random(seed)
        self.nodes: dict[Id, Node] = {}
        self.delivered: Counter[tuple[Id, Id, int]] = Counter()
        self.events: list[tuple[Id, Event]] = []
        self.published = 0
        oracle.build(self, size, with_timers=timers)
        self.simulation.on_deliver = self._on_deliver
        self.simulation.on_notify = self._on_notify

    def new_peer(self) -> Peer:
        return Peer(Id(self.random.getrandbits(BITS)), f"node-{len(self.nodes)}")

    def add(self, peer: Peer) -> Node:
        node = Node(peer, self.whole, self.simulation.node_random(peer.address))
        self.nodes[peer.id] = node
        self.simulation.add_node(peer, node)
        return node

    def sample(self, count: int) -> list[Node]:
        return self.random.sample(list(self.nodes.values()), count)

    def subscribe(self, node: Node, topic: Descriptor) -> None:
        self.simulation.start(node.me, Subscribe(topic))

    def unsubscribe(self, node: Node, topic: Descriptor) -> None:
        self.simulation.start(node.me, Unsubscribe(topic.id))

    def publish(self, node: Node, topic: Descriptor) -> int:
        self.published += 1
        batch = Batch(topic.id, node.me.id, 1, self.published, 1, b"")
        self.simulation.start(node.me, Publish(topic, batch))
        return self.published

    def crash(self, node: Node) -> None:
        self.simulation.crash(node.me)
        del self.nodes[node.me.id]

    def run(self, seconds: float) -> None:
        self.simulation.run_until(self.simulation.now + seconds)

    def root(self, topic: Descriptor) -> Node:
        return self.nodes[min(self.nodes, key=lambda id_: rank(topic.key, id_))]

    def place(self, node: Node, topic: Descriptor) -> Scribe | None:
        strategy = node.strategy(topic.id)
        return strategy if isinstance(strategy, Scribe) else None

    def members(self, topic: Descriptor) -> list[Node]:
        return [n for n in self.nodes.values() if (p := self.place(n, topic)) and p.member]

    def children(self, node: Node) -> int:
        """Over all topics."""
        topics = node.active_topics()
        places = [self.place(node, topic) for topic in topics]
        return sum(len(place.children) for place in places if place is not None)

    def broken(self, *topics: Descriptor) -> list[str]:
        return [
            f"{topic.name}: {text}" for topic in topics for text in broken(self.nodes, topic.id)
        ]

    def not_once(self, topic: Descriptor, number: int) -> list[str]:
        """Members that did not get a publication exactly once."""
        return [
            f"{node.me.address} got it {times} times"
            for node in self.members(topic)
            if (times := self.delivered[node.me.id, topic.id, number]) != 1
        ]

    def _on_deliver(self, host: Host, batch: Batch) -> None:
        self.delivered[host.peer.id, batch.topic, batch.first] += 1

    def _on_notify(self, host: Host, event: Event) -> None:
        self.events.append((host.peer.id, event))
