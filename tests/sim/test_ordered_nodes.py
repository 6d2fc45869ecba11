"""Ordered topics on a few whole nodes in the simulator: what a root keeps, forgets, hands over, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from overlaymq.config import Config, DeliveryConfig, PastryConfig
from overlaymq.core.dissemination.rooted_tree import RootedTree
from overlaymq.core.node import Node
from overlaymq.core.reliability.ordered import Ordered
from overlaymq.events import (
    Depart,
    EpochChanged,
    Join,
    Leave,
    Missed,
    Publish,
    Received,
    Sequenced,
    Subscribe,
)
from overlaymq.ids import Id, hashed, rank, topic_id
from overlaymq.messages import Batch, Descriptor, Handover, Peer, RootState
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import ConstantDelay

if TYPE_CHECKING:
    from overlaymq.core.reliability.upcalls import ModeTree
    from overlaymq.events import Event
    from overlaymq.sim.engine import Host

NAME = "ordered"
TOPIC = Descriptor(topic_id(NAME), NAME, "", topic_id(NAME), "scribe", "ordered", "lossless")


class Network:
    def __init__(
        self,
        size: int,
        link_break: float | None = 0.2,
        history: int = 1000,
        topic: Descriptor = TOPIC,
    ) -> None:
        self.topic = topic
        self.config = Config(pastry=PastryConfig(), delivery=DeliveryConfig(history=history))
        self.simulation = Simulation(1, ConstantDelay(), Faults(link_break=link_break))
        self.nodes: dict[Id, Node] = {}
        self.told: list[tuple[Id, Event]] = []
        self.got: dict[Id, list[tuple[Id, int]]] = {}
        self.copies: list[RootState] = []
        self.published: dict[Id, int] = {}
        self.simulation.on_notify = lambda host, event: self.told.append((host.peer.id, event))
        self.simulation.on_deliver = self._delivered
        self.simulation.on_send = self._sent
        for number in range(size):
            self.add(hashed(b"ordered", bytes([number])))

    def add(self, id_: Id) -> Node:
        peer = Peer(id_, f"node-{len(self.simulation.hosts)}")
        node = Node(peer, self.config, self.simulation.node_random(peer.address))
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
            self.simulation.start(node.me, Subscribe(self.topic))

    def buffered(self) -> list[int]:
        """How many messages are kept, by each node that keeps some."""
        held = [node._topics[TOPIC.id] for node in self.nodes.values() if TOPIC.id in node._topics]
        modes = [one.mode for one in held if isinstance(one.mode, Ordered)]
        return [len(mode._buffer) for mode in modes if len(mode._buffer)]

    def publish(self, node: Node) -> tuple[Id, int]:
        number = self.published.get(node.me.id, 0)
        batch = Batch(TOPIC.id, node.me.id, 0, number, 1, b"x")
        self.published[node.me.id] = number + 1
        self.simulation.start(node.me, Publish(self.topic, batch))
        return batch.origin, batch.first

    def leave(self, node: Node, drain: float = 5.0) -> None:
        """As the driver does it: while somebody needs the node it stays, but not for ever."""
        self.simulation.start(node.me, Depart())
        end = self.simulation.now + drain
        self.run(0.05)
        while node.needed and self.simulation.now < end:
            self.run(0.05)
        self.simulation.start(node.me, Leave())
        self.run(0.2)
        self.crash(node)

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


def test_the_roots_state_stays_on_the_closest_while_they_change_on_a_quiet_topic() -> None:
    """It was copied only when it changed: after its replicas had gone one by one, nobody had it."""
    network = Network(12)
    nodes = network.by_closeness()
    network.subscribe(nodes[9])
    network.run(5)
    network.publish(nodes[8])
    network.run(5)
    for gone in nodes[1:5]:
        network.crash(gone)
        network.run(20)
    closest = network.by_closeness()[1:5]
    held = [node._root_states.get(TOPIC.id) for node in closest]
    assert [one.status.last.sequence for one in held if one is not None] == [1, 1, 1, 1]
    network.copies.clear()
    network.run(60)
    assert network.copies == [], "nobody gets it twice"


def test_a_newcomer_that_becomes_the_next_root_is_given_the_last_ones_state() -> None:
    """It came after the root had died: it took itself for the first root, and so for one that knows all
    subscribers; receipts were too early."""
    network = Network(8, link_break=None)
    nodes = network.by_closeness()
    network.subscribe(nodes[6])
    network.run(5)
    network.publish(nodes[5])
    network.run(5)
    network.crash(nodes[0])
    newcomer = network.add(Id(TOPIC.key + 1))
    network.run(10)
    assert network.by_closeness()[0] is newcomer
    state = newcomer._root_states[TOPIC.id]
    assert (state.status.last.epoch.root, state.status.last.sequence) == (nodes[0].me.id, 1)


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


@pytest.mark.parametrize("strategy", ["scribe", "sv"])
def test_a_root_that_leaves_hands_over_and_nothing_is_lost(strategy: str) -> None:
    """It left without a word: what it had numbered and some lacked was gone, and announced as missed."""
    topic = msgspec.structs.replace(TOPIC, strategy=strategy)
    network = Network(8, link_break=None, topic=topic)
    nodes = network.by_closeness()
    root, publisher, members = nodes[0], nodes[6], nodes[2:4]
    network.subscribe(*members)
    network.run(5)
    faults = network.simulation.faults
    assert faults is not None
    faults.loss = 0.3
    sent = []
    for _ in range(10):
        sent.append(network.publish(root))
        network.run(0.01)
    network.run(0.1)
    faults.loss = 0.0
    sent += [network.publish(publisher) for _ in range(5)]
    network.leave(root)
    sent += [network.publish(publisher) for _ in range(5)]
    network.run(60)
    for node in members:
        assert sorted(network.got[node.me.id]) == sorted(sent)
    assert network.events(Missed) == []
    changed = [event for _, event in network.events(EpochChanged)]
    assert {event.new.root for event in changed if isinstance(event, EpochChanged)} == {
        nodes[1].me.id
    }


def test_two_roots_that_leave_one_after_the_other_hand_over_both() -> None:
    network = Network(8)
    nodes = network.by_closeness()
    network.subscribe(*nodes[2:5])
    network.run(5)
    sent = []
    for root in nodes[:2]:
        sent += [network.publish(nodes[6]) for _ in range(5)]
        network.leave(root)
    network.simulation.start(nodes[2].me, Depart())
    network.simulation.start(nodes[3].me, Depart())
    sent += [network.publish(nodes[6]) for _ in range(5)]
    network.run(20)
    assert network.got[nodes[4].me.id] == sent
    assert network.events(Missed) == []


def test_a_root_that_leaves_at_once_still_hands_over() -> None:
    network = Network(8)
    nodes = network.by_closeness()
    network.subscribe(*nodes[2:5])
    network.run(5)
    network.publish(nodes[6])
    network.run(0.1)
    heirs = []
    network.simulation.on_send = lambda now, host, peer, message, fate: (
        heirs.append(peer) if isinstance(message, Handover) else None
    )
    network.simulation.start(nodes[0].me, Leave())
    assert heirs == [nodes[1].me]


def test_a_publishers_order_holds_although_the_network_loses_single_messages() -> None:
    network = Network(8, link_break=None)
    nodes = network.by_closeness()
    network.subscribe(*nodes[2:5])
    network.run(5)
    assert network.simulation.faults is not None
    network.simulation.faults.loss = 0.2
    sent = []
    for _ in range(40):
        sent += [network.publish(nodes[6]), network.publish(nodes[0])]
        network.run(0.2)
    network.simulation.faults.loss = 0.0
    network.run(40)
    for node in nodes[2:5]:
        got = network.got[node.me.id]
        assert sorted(got) == sorted(sent)
        for publisher in (nodes[6], nodes[0]):
            own = [one for one in got if one[0] == publisher.me.id]
            assert own == sorted(own)


def test_everybody_lets_go_what_all_have_but_for_the_history() -> None:
    """Reference: issue 4, buffers are trimmed exactly."""
    network = Network(8, history=5)
    nodes = network.by_closeness()
    network.subscribe(*nodes[2:6])
    network.run(5)
    sent = [network.publish(nodes[7]) for _ in range(30)]
    network.run(1)
    kept = network.buffered()
    assert len(kept) >= 5
    assert set(kept) == {30}
    network.run(12)
    assert set(network.buffered()) == {5}
    network.simulation.start(nodes[1].me, Subscribe(TOPIC, 5))
    network.run(5)
    assert network.got[nodes[1].me.id] == sent[-5:]


def test_what_a_subscriber_lacks_is_kept_for_it_while_it_is_away() -> None:
    network = Network(8, history=5)
    nodes = network.by_closeness()
    network.subscribe(*nodes[2:6])
    network.run(5)
    away = nodes[5]
    faults = network.simulation.faults
    assert faults is not None
    faults.part([[away.me.address]])
    sent = [network.publish(nodes[0]) for _ in range(30)]
    network.run(30)
    assert max(network.buffered()) == 30
    faults.heal()
    network.run(60)
    assert sorted(network.got[away.me.id]) == sent


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


def mode_of(node: Node) -> Ordered:
    mode = node._topics[TOPIC.id].mode
    assert isinstance(mode, Ordered)
    return mode


def tree_of(node: Node, now: float) -> ModeTree:
    strategy = node.strategy(TOPIC.id)
    assert isinstance(strategy, RootedTree)
    return strategy._mode_sees(now)


def test_a_root_without_a_lease_does_not_say_that_all_have_a_message() -> None:
    """Pastry holds the joins of those that come back, and who was gone for long counted no more."""
    network = Network(6, link_break=None)
    nodes = network.by_closeness()
    root = nodes[0]
    network.subscribe(*nodes[1:4])
    network.run(5)
    network.publish(nodes[4])
    network.run(5)
    seconds = network.config.delivery.gap_timeout

    def vouches() -> bool:
        return mode_of(root)._vouches(seconds, tree_of(root, network.simulation.now))

    assert vouches()
    for node in nodes[1:]:
        network.crash(node)
    limit = network.simulation.now + 60
    network.simulation.run_while(
        lambda: root.pastry.owns(TOPIC.key, network.simulation.now), limit=limit
    )
    assert not root.pastry.owns(TOPIC.key, network.simulation.now)
    network.run(network.config.scribe.heartbeat_every)
    assert not vouches()


def test_a_mode_is_told_whether_there_is_a_way_to_the_root() -> None:
    network = Network(6)
    root, *others = network.by_closeness()
    network.subscribe(*others)
    assert not tree_of(others[-1], network.simulation.now).rooted
    network.run(5)
    assert all(tree_of(node, network.simulation.now).rooted for node in (root, *others))


def test_what_waits_at_the_root_comes_before_what_overtakes_it() -> None:
    """The publisher was told of a place for what it had to wait for, by another root."""
    network = Network(4)
    root, reader, _, publisher = network.by_closeness()
    network.subscribe(reader)
    network.run(5)
    for first, behind in ((5, 2), (6, 3), (7, 0)):
        batch = Batch(TOPIC.id, publisher.me.id, 0, first, 1, b"x", behind=behind)
        network.simulation.start(root.me, Received(publisher.me, batch))
    network.run(1)
    assert network.got[reader.me.id] == [(publisher.me.id, first) for first in (5, 6, 7)]
