"""Late joiners of trees: who asks for the last messages gets them, if somebody on its way holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from overlaymq.events import Dropped, Missed, Subscribe
from overlaymq.ids import Id
from overlaymq.messages import Batch, Descriptor
from tests.core.network import Network, described
from tests.sim.test_ordered_nodes import TOPIC
from tests.sim.test_ordered_nodes import Network as Ring

if TYPE_CHECKING:
    from overlaymq.sim.engine import Host

MODES = ("best_effort", "fifo", "ordered")
TREES = [(strategy, mode) for strategy in ("scribe", "sv") for mode in MODES]


def topic_of(strategy: str, reliability: str) -> Descriptor:
    return msgspec.structs.replace(described("late", strategy), reliability=reliability)


class Watched(Network):
    """What each node was given, in order."""

    def __init__(self, seed: int, size: int) -> None:
        super().__init__(seed, size, timers=True)
        self.got: dict[Id, list[int]] = {}

    def _on_deliver(self, host: Host, batch: Batch) -> None:
        super()._on_deliver(host, batch)
        numbers = range(batch.first + batch.skip, batch.last + 1)
        self.got.setdefault(host.peer.id, []).extend(numbers)


@pytest.mark.parametrize(("strategy", "reliability"), TREES)
def test_whoever_takes_its_join_a_late_joiner_gets_the_last_messages(
    strategy: str, reliability: str
) -> None:
    """Only those got some whose parent happened to hold them. A parent that has just joined holds none."""
    network = Watched(1, 100)
    topic = topic_of(strategy, reliability)
    first, *others = network.sample(31)
    network.subscribe(first, topic)
    network.run(2)
    numbers = [network.publish(first, topic) for _ in range(10)]
    network.run(2)
    for node in others[:15]:
        network.subscribe(node, topic)
        network.run(0.2)
    network.run(3)
    late = others[15:]
    for node in late:
        network.simulation.start(node.me, Subscribe(topic, 5))
        network.run(0.2)
    network.run(5)
    assert [network.got.get(node.me.id, []) for node in late] == [numbers[-5:]] * len(late)
    assert all(node.me.id not in network.got for node in others[:15]), "who did not ask gets none"


@pytest.mark.parametrize("reliability", MODES)
def test_a_forwarder_that_subscribes_later_gets_what_it_asks_for_and_those_below_do_not(
    reliability: str,
) -> None:
    """It was in the tree already, so nobody was asked."""
    network = Watched(2, 100)
    topic = topic_of("scribe", reliability)
    first, *others = network.sample(30)
    network.subscribe(first, topic)
    network.run(2)
    numbers = [network.publish(first, topic) for _ in range(10)]
    network.run(2)
    before = set(network.nodes) - {id_ for id_, n in network.nodes.items() if n.active_topics()}
    for node in others:
        network.subscribe(node, topic)
    network.run(3)
    forwarders = [
        node
        for id_, node in network.nodes.items()
        if id_ in before and (place := network.place(node, topic)) and not place.member
    ]
    assert forwarders, "otherwise this shows nothing"
    for node in forwarders:
        network.simulation.start(node.me, Subscribe(topic, 4))
    network.run(3)
    for node in forwarders:
        assert network.got[node.me.id] == numbers[-4:]
    assert all(node.me.id not in network.got for node in others)


@pytest.mark.parametrize("strategy", ["scribe", "sv"])
@pytest.mark.parametrize("seed", range(3))
def test_the_history_comes_first_and_joins_what_is_published_meanwhile(
    strategy: str, seed: int
) -> None:
    """Each publisher's order holds, with no gap between the two."""
    network = Watched(seed, 60)
    topic = topic_of(strategy, "fifo")
    publisher, *late = network.sample(11)
    network.subscribe(publisher, topic)
    network.run(2)
    for node in late:
        for _ in range(40):
            network.publish(publisher, topic)
            network.run(0.01)
        network.simulation.start(node.me, Subscribe(topic, 8))
    for _ in range(200):
        network.publish(publisher, topic)
        network.run(0.01)
    network.run(5)
    for node in late:
        got = network.got[node.me.id]
        assert got == list(range(got[0], network.published + 1))
    assert not [event for _, event in network.events if isinstance(event, Missed)]


@pytest.mark.parametrize("leaves", [False, True], ids=["a closer root came", "the root left"])
@pytest.mark.parametrize("strategy", ["scribe", "sv"])
def test_a_new_root_that_holds_nothing_names_one_that_does(strategy: str, leaves: bool) -> None:
    topic = msgspec.structs.replace(TOPIC, strategy=strategy, reliability="fifo", flow="lossy")
    ring = Ring(8, topic=topic)
    nodes = ring.by_closeness()
    ring.subscribe(*nodes[2:5])
    ring.run(5)
    sent = [ring.publish(nodes[6]) for _ in range(20)]
    ring.run(2)
    if leaves:
        ring.leave(nodes[0])
    else:
        ring.add(Id(TOPIC.key + 1))
    ring.run(10)
    sent += [ring.publish(nodes[6]) for _ in range(2)]
    ring.run(2)
    ring.simulation.start(nodes[5].me, Subscribe(topic, 10))
    ring.run(5)
    assert ring.got[nodes[5].me.id] == sent[-10:]


def test_a_late_joiner_of_a_topic_with_few_messages_gets_all() -> None:
    ring = Ring(8, topic=msgspec.structs.replace(TOPIC, reliability="fifo", flow="lossy"))
    nodes = ring.by_closeness()
    ring.subscribe(*nodes[1:4])
    ring.run(5)
    sent = [ring.publish(nodes[6]) for _ in range(3)]
    ring.run(2)
    ring.simulation.start(nodes[5].me, Subscribe(ring.topic, 10))
    ring.simulation.start(nodes[0].me, Subscribe(ring.topic, 10))
    ring.run(1)
    assert ring.got[nodes[5].me.id] == ring.got[nodes[0].me.id] == sent


def test_what_was_not_asked_for_is_no_history() -> None:
    """Anybody could send it."""
    network = Network(1, 20)
    topic = described("unasked")
    node, stranger = network.sample(2)
    network.subscribe(node, topic)
    network.run(2)
    batch = Batch(topic.id, stranger.me.id, 1, 0, 1, b"", root=node.me.id, root_sequence=1)
    place = network.place(node, topic)
    assert place is not None
    [dropped] = place.receive(stranger.me, batch, network.simulation.now)
    assert getattr(dropped, "event", None) == Dropped("unasked replay", 1, batch)
