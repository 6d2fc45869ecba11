"""SV trees while nodes come and leave on purpose: nothing is lost where nobody has failed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from overlaymq.core.dissemination.conformance import CHECKS
from overlaymq.core.dissemination.sv import Sv
from overlaymq.events import Depart, Join, Leave, Missed
from overlaymq.ids import RING, Id, distance
from overlaymq.messages import Peer, Routed, SvJoin
from tests.core.network import Network, described

if TYPE_CHECKING:
    from overlaymq.core.node import Node
    from overlaymq.messages import Descriptor
    from overlaymq.sim.engine import Host


def place(node: Node, topic: Descriptor) -> Sv:
    strategy = node.strategy(topic.id)
    assert isinstance(strategy, Sv)
    return strategy


def fed(seed: int, topic: Descriptor) -> tuple[Network, list[Node], list[Node]]:
    """A network in which 15 nodes that are not the root are fed, and others that want nothing."""
    network = Network(seed, 60, timers=True)
    root = network.root(topic)
    others = [node for node in network.sample(40) if node is not root]
    members, rest = others[:15], others[15:]
    for node in members:
        network.subscribe(node, topic)
        network.run(0.3)
    network.run(8)
    return network, members, rest


@pytest.mark.parametrize("reliability", ["best_effort", "fifo", "ordered"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_when_the_root_moves(seed: int, reliability: str) -> None:
    """The new root fed nobody at first, and spread to nobody what came then. Reference: issue 5, "root change
    as in Scribe"."""
    topic = msgspec.structs.replace(described("moving", "sv"), reliability=reliability)
    network, members, rest = fed(seed, topic)
    root = network.root(topic)
    nearer = Id((topic.key + distance(topic.key, root.me.id) // 2) % RING)
    newcomer = Peer(nearer, "newcomer")
    network.add(newcomer)
    network.simulation.start(newcomer, Join((rest[0].me, rest[1].me)))
    numbers = []
    for _ in range(100):
        numbers.append(network.publish(rest[2], topic))
        network.run(0.05)
    network.run(20)
    assert network.root(topic).me == newcomer
    assert not place(root, topic).children, "it wants nothing, and is root no more"
    missed = [
        n for node in members for n in numbers if not network.delivered[node.me.id, topic.id, n]
    ]
    assert missed == []


def test_who_leaves_does_not_look_for_a_parent() -> None:
    """Its links fail as it leaves; the join that it sent then led others to where nobody was. Reference: SV
    3.2, departures are failures."""
    topic = described("leaving", "sv")
    network, members, _ = fed(1, topic)
    leaving = next(node for node in members if place(node, topic).children)
    below = place(leaving, topic).children
    joins: list[Peer] = []

    def on_send(now: float, host: Host, to: Peer, message: object, fate: object) -> None:
        if isinstance(message, Routed) and isinstance(message.body, SvJoin):
            joins.append(message.body.join.child)

    network.simulation.on_send = on_send
    network.simulation.start(leaving.me, Depart())
    network.simulation.start(leaving.me, Leave())
    network.crash(leaving)
    network.run(3)
    assert joins
    assert leaving.me not in joins
    for peer in below:
        assert place(network.nodes[peer.id], topic).parent is not None


def test_the_way_up_is_known_from_both_ends() -> None:
    """`status` showed subscribers without an RPF parent. Reference: SV 3.1, Figures 1 and 2."""
    topic = described("both trees", "sv")
    network, members, _ = fed(2, topic)
    for node in members:
        above = place(node, topic).rpf_parent
        assert above is not None
        assert node.me in place(network.nodes[above.id], topic).rpf_children


@pytest.mark.parametrize("reliability", ["best_effort", "fifo", "ordered"])
@pytest.mark.parametrize("wants", [False, True], ids=["root wants nothing", "root subscribes"])
@pytest.mark.parametrize("last", [1, 60], ids=["last words", "a stream"])
def test_nothing_is_lost_when_the_root_leaves(reliability: str, wants: bool, last: int) -> None:
    """It handed over when it went: what was on its way to it was lost, and the last of that without a word.
    Reference: issue 5, "root change as in Scribe"."""
    topic = msgspec.structs.replace(described("left", "sv"), reliability=reliability)
    network, members, rest = fed(2, topic)
    root, publisher = network.root(topic), rest[2]
    if wants:
        network.subscribe(root, topic)
        network.run(2)
    numbers = []

    def publish(times: int) -> None:
        for _ in range(times):
            numbers.append(network.publish(publisher, topic))
            network.run(0.05)

    publish(20)
    network.simulation.start(root.me, Depart())
    waited = 0
    while root.needed:
        waited += 1
        network.run(0.05)
    assert waited, "it must redirect what is on its way"
    network.simulation.start(root.me, Leave())
    network.crash(root)
    publish(last)
    network.run(20)
    lacking = {
        (node.me.address, n)
        for node in members
        for n in numbers
        if network.delivered[node.me.id, topic.id, n] != 1
    }
    assert lacking == set()
    told = [event for id_, event in network.events if id_ in {node.me.id for node in members}]
    assert not [event for event in told if isinstance(event, Missed)]


@pytest.mark.parametrize("reliability", ["fifo", "ordered"])
def test_a_root_that_has_drained_and_does_not_go_harms_nobody(reliability: str) -> None:
    """An application may drain a node long before it closes it."""
    topic = msgspec.structs.replace(described("drained", "sv"), reliability=reliability)
    network, members, rest = fed(1, topic)
    root, publisher, late = network.root(topic), rest[2], rest[3]
    numbers = []
    network.simulation.start(root.me, Depart())
    for number in range(80):
        if number == 60:
            network.subscribe(late, topic)
            network.run(5)
        numbers.append(network.publish(publisher, topic))
        network.run(0.1)
    assert not root.needed
    assert not place(root, topic).children
    network.simulation.start(root.me, Leave())
    network.crash(root)
    network.run(10)
    numbers.append(network.publish(publisher, topic))
    network.run(10)
    for node in members:
        got = [network.delivered[node.me.id, topic.id, number] for number in numbers]
        assert got == [1] * len(numbers)
    got = [network.delivered[late.me.id, topic.id, number] for number in numbers[60:]]
    assert got == [1] * len(numbers[60:])


@pytest.mark.parametrize("seed", [7, 10, 11])
def test_a_join_that_overtakes_the_news_is_not_forgotten(seed: int) -> None:
    """A node on the way still knew the branch of who had fed the joiner, and sent it there only: the joiner
    was without content until it tried again. Reference: SV 3.2.3, "sent up" is cleared with its link."""
    CHECKS["unsubscribing_stops_delivery"](Sv, Random(seed))
