"""Ordered topics on a few whole nodes in the simulator: what a root keeps, forgets, hands over, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.config import Config, PastryConfig
from overlaymq.core.node import Node
from overlaymq.events import EpochChanged, Join, Missed, Publish, Sequenced, Subscribe
from overlaymq.ids import Id, hashed, rank, topic_id
from overlaymq.messages import Batch, Descriptor, Peer, RootState
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import ConstantDelay

if TYPE_CHECKING:
    from overlaymq.events import Event
    from overlaymq.sim.engine import Host

NAME = "ordered"
TOPIC = Descriptor(topic_id(NAME), NAME, "", topic_id(NAME), "scribe", "ordered", "lossless")


class Network:
    def __init__(self, size: int, link_break: float | None = 0.2) -> None:
        self.simulation = Simulation(1, ConstantDelay(), Faults(link_break=link_break))
        self.nodes: dict[Id, Node] = {}
        self.told: list[tuple[Id, Event]] = []
        self.got: dict[Id, list[tuple[Id, int]]] = {}
        self.copies: list[RootState] = []
        self.published = 0
        self.simulation.on_notify = lambda host, event: self.told.append((host.peer.id, event))
        self.simulation.on_deliver = self._delivered
        self.simulation.on_send = self._sent
        for number in range(size):
            self.add(hashed(b"ordered", bytes([number])))

    def add(self, id_: Id) -> Node:
        peer = Peer(id_, f"node-{len(self.simulation.hosts)}")
        node = Node(peer, Config(pastry=PastryConfig()), self.simulation.node_random(peer.address))
        seeds = tuple(one.me for one in list(self.nodes.values())[:1])
        self.nodes[id_] = node
        self.simulation.add_node(peer, node)
        self.simulation.start(peer, Join(seeds))
        self.run(2)
        return node

    def _delivered(self, host: Host, batch: Batch) -> None:
        self.got.setdefault(host.peer.id, []).append((batch.origin, batch.first))

    def _sent(self, now: float, host: Host, peer: Peer, message: object, fate: str) -> None:
        if isinstance(message, RootState):
            self.copies.append(message)

    def run(self, seconds: float) -> None:
        self.simulation.run_until(self.simulation.now + seconds)

    def by_closeness(self) -> list[Node]:
        return sorted(self.nodes.values(), key=lambda node: rank(TOPIC.key, node.me.id))

    def subscribe(self, *nodes: Node) -> None:
        for node in nodes:
            self.simulation.start(node.me, Subscribe(TOPIC))

    def publish(self, node: Node) -> tuple[Id, int]:
        batch = Batch(TOPIC.id, node.me.id, 0, self.published, 1, b"x")
        self.published += 1
        self.simulation.start(node.me, Publish(TOPIC, batch))
        return batch.origin, batch.first

    def crash(self, node: Node) -> None:
        self.simulation.crash(node.me)
        del self.nodes[node.me.id]

    def events(self, kind: type) -> list[tuple[Id, Event]]:
        return [(id_, event) for id_, event in self.told if isinstance(event, kind)]


def test_a_root_that_forgot_the_topic_never_numbers_in_the_same_epoch_again() -> None:
    network = Network(4)
    publisher = network.by_closeness()[-1]
    epochs = []
    for _ in range(2):
        network.publish(publisher)
        network.run(5)
        _, event = network.events(Sequenced)[-1]
        assert isinstance(event, Sequenced)
        assert event.place is not None
        epochs.append(event.place.epoch)
        network.run(200)
        assert all(not node.active_topics() for node in network.nodes.values())
    assert epochs[0] < epochs[1]


def test_the_roots_state_is_copied_now_and_then_but_not_with_every_batch() -> None:
    """Reference: Scribe JSAC III-B, root state on the k = 5 closest."""
    network = Network(8)
    nodes = network.by_closeness()
    network.subscribe(nodes[-1])
    network.run(5)
    network.copies.clear()
    for _ in range(100):
        network.publish(nodes[-2])
        network.run(0.05)
    network.run(2)
    assert 4 * 4 <= len(network.copies) <= 4 * 8, "to four others, about once a second"
    assert network.copies[-1].status.last.sequence == 100
    assert network.copies[-1].window[0].last == 99


def test_a_closer_node_takes_over_and_nothing_is_lost() -> None:
    network = Network(8)
    nodes = network.by_closeness()
    network.subscribe(*nodes[2:5])
    network.run(5)
    sent = [network.publish(nodes[6]) for _ in range(5)]
    network.run(0.1)
    network.add(Id(TOPIC.key + 1))
    sent += [network.publish(nodes[6]) for _ in range(5)]
    network.run(20)
    assert all(network.got[node.me.id] == sent for node in nodes[2:5])
    assert network.events(Missed) == []
    changed = network.events(EpochChanged)
    assert {id_ for id_, _ in changed} == {node.me.id for node in nodes[2:5]}


def test_after_a_crash_of_the_root_its_replica_goes_on_with_the_next_epoch() -> None:
    network = Network(8)
    nodes = network.by_closeness()
    network.subscribe(*nodes[2:5])
    network.run(5)
    sent = [network.publish(nodes[6]) for _ in range(5)]
    network.run(3)
    network.crash(nodes[0])
    sent += [network.publish(nodes[6]) for _ in range(5)]
    network.run(60)
    for node in nodes[2:5]:
        assert network.got[node.me.id] == sent, "what was not acknowledged went to the new root"
    for _, event in network.events(EpochChanged):
        assert isinstance(event, EpochChanged)
        assert (event.old.counter, event.last_known, event.new.counter) == (1, 5, 2)
        assert event.new.root == nodes[1].me.id
