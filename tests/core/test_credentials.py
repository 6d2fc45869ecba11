"""Credentials are carried and stored; what they are worth is decided elsewhere."""

from __future__ import annotations

from msgspec.structs import replace

from overlaymq.config import RendezvousConfig
from overlaymq.core.topics import MAX_CREDENTIALS, Topics, is_consistent, settled
from overlaymq.events import Subscribe
from overlaymq.ids import Id
from overlaymq.messages import Peer, TopicOpen
from overlaymq.testing import network
from tests.core.network import Network, described

TOPIC = replace(described("owned"), explicit=True, credentials=b"first")
ME, OTHER = Peer(Id(1), "me"), Peer(Id(2), "other")


class Alone:
    """A ring of one."""

    def owner(self, key: Id) -> Peer:
        return ME

    def closest(self, key: Id, count: int) -> list[Peer]:
        return [ME]


def test_a_descriptor_keeps_the_credentials_of_whoever_created_it_first() -> None:
    topics = Topics(ME, RendezvousConfig(), Alone())
    topics.asked(TopicOpen(1, TOPIC), OTHER)
    topics.asked(TopicOpen(2, replace(TOPIC, credentials=b"second")), OTHER)
    assert topics.held == (TOPIC,)


def test_rings_that_merge_agree_on_one() -> None:
    other = replace(TOPIC, credentials=b"second")
    assert settled(TOPIC, other) == settled(other, TOPIC)


def test_long_credentials_are_refused() -> None:
    assert is_consistent(replace(TOPIC, credentials=b"x" * MAX_CREDENTIALS))
    assert not is_consistent(replace(TOPIC, credentials=b"x" * (MAX_CREDENTIALS + 1)))


def test_a_parent_keeps_what_its_child_showed() -> None:
    network = Network(1, 60)
    topic = described("shown")
    shown = {}
    for number, node in enumerate(network.sample(20)):
        shown[node.me.id] = b"credentials %d" % number
        network.simulation.start(node.me, Subscribe(topic, credentials=shown[node.me.id]))
    network.run(5)
    kept = {
        id_: child.credentials
        for node in network.nodes.values()
        if (place := network.place(node, topic)) is not None
        for id_, child in place._children.items()
    }
    root = network.root(topic).me.id
    assert {id_: kept[id_] for id_ in shown if id_ != root} == {
        id_: what for id_, what in shown.items() if id_ != root
    }


async def test_an_application_gives_them_to_create_and_subscribe() -> None:
    async with network(3) as nodes:
        await nodes[0].create("t", strategy="scribe", credentials=b"mine")
        async with nodes[1].subscribe("t", credentials=b"member") as subscription:
            await subscription.wait_ready()
        held = [d for node in nodes for d in node._driver.node.topics.held]
        assert {descriptor.credentials for descriptor in held} == {b"mine"}
