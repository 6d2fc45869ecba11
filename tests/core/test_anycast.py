"""Anycast: who is asked, in which order, and how the search ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from overlaymq.config import Config, ScribeConfig
from overlaymq.core.dissemination.scribe import anycast
from overlaymq.core.dissemination.scribe.anycast import MAX_TO_VISIT, MAX_VISITED, passed_on
from overlaymq.core.reliability.upcalls import Upcalls
from overlaymq.events import Anycast, AnycastAnswered, Received
from overlaymq.ids import Id
from overlaymq.messages import AnycastOver, AnycastTaken, Peer, Routed, TreeAnycast
from tests.core.network import Network, described

if TYPE_CHECKING:
    from overlaymq.core.node import Node
    from overlaymq.core.reliability.upcalls import OnAnycast, Tree
    from overlaymq.sim.engine import Host

TOPIC = described("anycast")


def peers(count: int) -> list[Peer]:
    return [Peer(Id(number + 1), f"peer {number}") for number in range(count)]


def search(visited: int = 0, to_visit: list[Peer] | None = None) -> TreeAnycast:
    gone = tuple([Id((1 << 100) + number) for number in range(visited)])
    waiting = tuple(to_visit or ())
    return TreeAnycast(TOPIC.id, TOPIC, Peer(Id(0), "origin"), 1, b"", 1, 0, gone, waiting)


# --- one step --------------------------------------------------------------------------------------


def test_children_come_before_what_waited_and_the_parent_last() -> None:
    """Reference: FreePastry's anycast, by way of protocols.md 3.10."""
    me, child, waited, parent = peers(4)
    step = passed_on(search(to_visit=[waited]), me, [child], parent)
    assert step.peer == child
    assert isinstance(step.message, TreeAnycast)
    assert step.message.to_visit == (waited, parent)
    assert step.message.visited == (me.id,)


def test_nobody_is_visited_twice() -> None:
    me, child, waited = peers(3)
    message = replace(search(to_visit=[waited]), visited=(child.id,))
    step = passed_on(message, me, [child, waited], child)
    assert step.peer == waited
    assert isinstance(step.message, TreeAnycast)
    assert step.message.to_visit == ()


def test_the_last_node_tells_the_sender_how_many_accepted() -> None:
    (me,) = peers(1)
    step = passed_on(replace(search(), accepted=3), me)
    assert step.peer.address == "origin"
    assert step.message == AnycastOver(1, 3, False)


def test_what_a_search_cannot_carry_is_not_searched_and_said() -> None:
    me, *many = peers(MAX_TO_VISIT + 5)
    step = passed_on(search(), me, many)
    assert isinstance(step.message, TreeAnycast)
    assert len(step.message.to_visit) == MAX_TO_VISIT - 1
    assert step.message.cut
    step = passed_on(search(visited=MAX_VISITED), me, many)
    assert step.message == AnycastOver(1, 0, True)


# --- networks --------------------------------------------------------------------------------------


class Offers:
    """What was offered to whom, and who accepts."""

    def __init__(self, network: Network, willing: list[Node]) -> None:
        self.willing = [node.me.id for node in willing]
        self.offered: list[Id] = []
        for node in network.nodes.values():
            node.set_upcalls(TOPIC.id, Upcalls(on_anycast=self._offer(node.me.id)))

    def _offer(self, id_: Id) -> OnAnycast:
        def on_anycast(payload: bytes, origin: Peer, tree: Tree) -> bool:
            assert payload == b"work"
            self.offered.append(id_)
            return id_ in self.willing

        return on_anycast


@pytest.fixture
def network() -> Network:
    """Two hundred nodes, fifty of them members."""
    network = Network(1, 200, Config(scribe=ScribeConfig(collapse_after=0.0)))
    for node in network.sample(50):
        network.subscribe(node, TOPIC)
    network.run(5)
    return network


def asked(network: Network, sender: Node, wanted: int = 1) -> AnycastAnswered:
    network.events.clear()
    network.simulation.start(sender.me, Anycast(7, TOPIC, b"work", wanted))
    network.run(30)
    (answer,) = [event for _, event in network.events if isinstance(event, AnycastAnswered)]
    return answer


def outsider(network: Network) -> Node:
    return next(node for node in network.nodes.values() if network.place(node, TOPIC) is None)


def test_one_of_many_willing_members_gets_it(network: Network) -> None:
    members = network.members(TOPIC)
    offers = Offers(network, members)
    answer = asked(network, outsider(network))
    assert answer.complete
    assert len(answer.accepted) == 1
    assert offers.offered == [answer.accepted[0].id]


def test_the_only_willing_member_is_found_wherever_it_is(network: Network) -> None:
    members = network.members(TOPIC)
    for willing in members[::10]:
        offers = Offers(network, [willing])
        answer = asked(network, outsider(network))
        assert [peer.id for peer in answer.accepted] == [willing.me.id]
        assert len(offers.offered) == len(set(offers.offered)), "nobody is asked twice"


def test_if_nobody_is_willing_everybody_was_asked_once_and_the_sender_is_told(
    network: Network,
) -> None:
    offers = Offers(network, [])
    answer = asked(network, outsider(network))
    assert answer == AnycastAnswered(7, (), True)
    assert sorted(offers.offered) == sorted(node.me.id for node in network.members(TOPIC))


def test_manycast_finds_as_many_as_are_wanted(network: Network) -> None:
    members = network.members(TOPIC)
    Offers(network, members[::3])
    answer = asked(network, outsider(network), wanted=5)
    assert answer.complete
    assert len({peer.id for peer in answer.accepted}) == 5
    answer = asked(network, outsider(network), wanted=40)
    assert answer.complete, "there are no more"
    assert {peer.id for peer in answer.accepted} == {node.me.id for node in members[::3]}


def test_the_sender_does_not_accept_its_own(network: Network) -> None:
    sender = network.members(TOPIC)[0]
    offers = Offers(network, [sender])
    assert asked(network, sender).accepted == ()
    assert sender.me.id not in offers.offered


def test_a_topic_without_members_answers_at_once(network: Network) -> None:
    empty = described("nobody here")
    sender = outsider(network)
    network.simulation.start(sender.me, Anycast(8, empty, b"work"))
    network.run(2)
    answers = [event for _, event in network.events if isinstance(event, AnycastAnswered)]
    assert answers == [AnycastAnswered(8, (), True)]
    assert network.root(empty).strategy(empty.id) is None, "a question leaves nothing behind"


def test_an_upcall_that_raises_does_not_accept(network: Network) -> None:
    def broken(payload: bytes, origin: Peer, tree: Tree) -> bool:
        raise RuntimeError("the application's mistake")

    for node in network.nodes.values():
        node.set_upcalls(TOPIC.id, Upcalls(on_anycast=broken))
    assert asked(network, outsider(network)).accepted == ()


def test_a_search_that_is_lost_ends_with_the_deadline(network: Network) -> None:
    members = network.members(TOPIC)
    Offers(network, [])
    for node in members[::2]:
        network.crash(node)
    answer = asked(network, outsider(network))
    assert not answer.complete


def test_the_search_begins_where_the_route_meets_the_tree(network: Network) -> None:
    """Reference: protocols.md 3.10: at the first tree node that the routed message meets."""
    Offers(network, [])
    first: list[Id] = []
    hops: list[Id] = []

    def on_input(now: float, host: Host, input: object) -> None:
        message = input.message if isinstance(input, Received) else None
        if isinstance(message, Routed) and isinstance(message.body, TreeAnycast):
            hops.append(host.peer.id)
        elif isinstance(message, TreeAnycast) and not first:
            first.append(message.visited[0])

    network.simulation.on_input = on_input
    for sender in [node for node in network.nodes.values() if network.place(node, TOPIC) is None][
        :20
    ]:
        first.clear()
        hops.clear()
        asked(network, sender)
        assert first == hops[-1:]
        assert all(network.nodes[id_].strategy(TOPIC.id) is None for id_ in hops[:-1])


def test_a_large_tree_is_searched_in_part(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anycast, "MAX_VISITED", 10)
    offers = Offers(network, [])
    answer = asked(network, outsider(network))
    assert not answer.complete
    assert 0 < len(offers.offered) <= 10


def test_stray_answers_are_nobodys(network: Network) -> None:
    node = outsider(network)
    for message in (AnycastTaken(99), AnycastOver(99, 1)):
        assert node.handle(Received(network.root(TOPIC).me, message), 0.0) == []
