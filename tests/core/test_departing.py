"""Leaving on purpose, and the root moving: nothing that is on its way is lost by either."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from overlaymq.config import Config, ScribeConfig
from overlaymq.core.dissemination.base import Effects, Surroundings
from overlaymq.core.dissemination.scribe import Scribe
from overlaymq.core.reliability.upcalls import Upcalls
from overlaymq.events import Depart, Leave, Send
from overlaymq.ids import Id
from overlaymq.messages import Batch, Descriptor, Handover, Peer, TreeJoin, TreeJoined
from tests.core.network import Network, described

if TYPE_CHECKING:
    from overlaymq.core.node import Node

NARROW = Config(scribe=ScribeConfig(max_children=2, collapse_after=0.0))
"""Few children a node, so that there are forwarders."""


def forwarders(network: Network, topic: Descriptor) -> list[Node]:
    root = network.root(topic)
    places = [(node, network.place(node, topic)) for node in network.nodes.values()]
    return [node for node, place in places if place and place.children and node is not root]


@pytest.mark.parametrize("seed", range(5))
def test_a_forwarder_passes_its_own_last_words_on_before_it_leaves(seed: int) -> None:
    """Its message goes to the root first, and comes back for those below it. Reference: Scribe JSAC III-A."""
    network = Network(seed, 40, NARROW)
    topic = described("last words")
    for node in network.sample(20):
        network.subscribe(node, topic)
    network.run(30)
    leaving = network.random.choice(forwarders(network, topic))
    number = network.publish(leaving, topic)
    network.simulation.start(leaving.me, Depart())
    waited = 0
    while leaving.needed:
        waited += 1
        network.run(0.05)
    assert waited, "otherwise this shows nothing"
    network.crash(leaving)
    network.run(1)
    assert network.not_once(topic, number) == []


def test_children_of_a_leaving_node_go_to_its_parent_and_miss_nothing() -> None:
    """They are fed until they have another parent. Reference: Scribe JSAC III-B.1, make before break."""
    network = Network(7, 40, NARROW)
    topic = described("handed on")
    members = network.sample(20)
    for node in members:
        network.subscribe(node, topic)
    network.run(30)
    leaving = network.random.choice(forwarders(network, topic))
    publisher = next(node for node in members if node is not leaving)
    network.simulation.start(leaving.me, Depart())
    numbers = []
    while leaving.needed:
        numbers.append(network.publish(publisher, topic))
        network.run(0.05)
    network.crash(leaving)
    numbers.append(network.publish(publisher, topic))
    network.run(5)
    assert [text for number in numbers for text in network.not_once(topic, number)] == []


@pytest.mark.parametrize("strategy", ["scribe", "direct"])
def test_a_root_that_leaves_hands_over_and_what_it_is_given_goes_on(strategy: str) -> None:
    """It handed over to nobody, and what was published until the ring was mended was lost."""
    network = Network(3, 40, timers=True)
    topic = described("passed on", strategy)
    root = network.root(topic)
    members = [node for node in network.sample(20) if node is not root]
    for node in members:
        network.subscribe(node, topic)
    network.run(30)
    publisher = members[0]
    numbers = [network.publish(publisher, topic)]
    network.simulation.start(root.me, Depart())
    for _ in range(40):
        numbers.append(network.publish(publisher, topic))
        network.run(0.05)
    assert not root.needed
    network.simulation.start(root.me, Leave())
    network.crash(root)
    for _ in range(40):
        numbers.append(network.publish(publisher, topic))
        network.run(0.05)
    network.run(5)
    lacking = {
        (node.me.address, number)
        for node in members
        for number in numbers
        if network.delivered[node.me.id, topic.id, number] != 1
    }
    assert lacking == set()


@pytest.mark.parametrize("strategy", ["scribe", "direct"])
def test_an_heir_stays_one_though_nobody_needs_it_before_the_root_has_gone(strategy: str) -> None:
    """It forgot the topic, and with it that it was the root: others took each other for it."""
    network = Network(2, 40, timers=True)
    topic = described("kept", strategy)
    root = network.root(topic)
    first, late = [node for node in network.sample(3) if node is not root][:2]
    network.subscribe(first, topic)
    network.run(10)
    network.unsubscribe(first, topic)
    network.simulation.start(root.me, Depart())
    network.run(60)
    network.subscribe(late, topic)
    network.run(5)
    standing = network.nodes[root.me.id].strategy(topic.id).standing  # type: ignore[union-attr]
    assert standing is None or not standing.rpf_children, "its way would break when this node goes"
    numbers = [network.publish(first, topic) for _ in range(3)]
    network.run(5)
    network.simulation.start(root.me, Leave())
    network.crash(root)
    for seconds in (1, 20):
        numbers.append(network.publish(first, topic))
        network.run(seconds)
    assert [network.delivered[late.me.id, topic.id, number] for number in numbers] == [1] * 5


def test_an_heir_that_dies_before_the_root_has_left_gives_it_its_part_back() -> None:
    network = Network(3, 40, timers=True)
    topic = described("back again")
    root = network.root(topic)
    members = [node for node in network.sample(20) if node is not root]
    for node in members:
        network.subscribe(node, topic)
    network.run(30)
    network.simulation.start(root.me, Depart())
    network.run(1)
    roles = {
        node: place.standing
        for node in network.nodes.values()
        if (place := network.place(node, topic))
    }
    heir = next(node for node, standing in roles.items() if standing and standing.role == "root")
    assert heir is not root
    network.crash(heir)
    network.run(60)
    number = network.publish(root, topic)
    network.run(5)
    assert network.not_once(topic, number) == []


def sent(effects: Effects, kind: type) -> list[Peer]:
    return [one.peer for one in effects if isinstance(one, Send) and isinstance(one.message, kind)]


def test_a_former_root_keeps_batches_back_until_its_successor_has_its_tree() -> None:
    """Otherwise the new root would spread them to nobody. Reference: Scribe JSAC III-B, root hand-over."""
    me, child, heir = (Peer(Id(number), f"node-{number}") for number in (1, 2, 3))
    config, topic = Config(), described("moving")
    around = Surroundings(
        me, Random(1), config.rendezvous, config.delivery, config.scribe, Upcalls()
    )
    root = Scribe(topic, around)
    root.root_changed(me, 0.0)
    root.receive(child, TreeJoin(topic.id, child, topic, 1, serial=1), 0.0)
    moved = root.root_changed(heir, 1.0)
    assert (sent(moved, Handover), sent(moved, TreeJoin)) == ([heir], [heir])
    batch = Batch(topic.id, me.id, 1, 0, 1, b"")
    assert sent(root.publish(batch, 1.1), Batch) == []
    serial = next(
        one.message.serial
        for one in moved
        if isinstance(one, Send) and isinstance(one.message, TreeJoin)
    )
    taken = root.receive(heir, TreeJoined(topic.id, (heir.id,), True, None, serial), 1.2)
    assert sent(taken, Batch) == [heir]
