"""SV topics through the public interface: volunteers, order, history, and what status tells."""

from __future__ import annotations

import pytest
import trio

import overlaymq
from overlaymq import NotSupported
from overlaymq.config import Config, TopicConfig
from overlaymq.runtime.admin import status
from overlaymq.testing import network


async def test_subscribers_are_fed_and_volunteers_do_not_count() -> None:
    """Reference: issue 5, "Volunteers"."""
    async with network(6) as nodes:
        await nodes[0].create("news", strategy="sv")
        async with nodes[1].volunteer("news"), nodes[2].subscribe("news") as news:
            await news.wait_ready()
            assert await nodes[5].wait_subscribers("news") == 1
            await nodes[4].publish("news", b"hello")
            assert (await news.receive()).payload == b"hello"
            roles = {one["tree"]["role"] for one in status(nodes[1])["topics"]}
            assert roles <= {"volunteer", "root"}
            (told,) = status(nodes[2])["topics"]
            assert told["tree"]["role"] in ("subscriber", "root")
            assert set(told["tree"]) == {"role", "content", "joins"}


async def test_an_ordered_topic_works_in_sv_trees() -> None:
    """Reference: issue 5; one order for all, and the last messages for who comes late."""
    async with network(5) as nodes:
        await nodes[0].create("ledger", strategy="sv", reliability="ordered")
        async with nodes[1].subscribe("ledger") as one, nodes[2].subscribe("ledger") as two:
            await one.wait_ready()
            await two.wait_ready()
            for number in range(10):
                receipt = await nodes[number % 5].publish("ledger", b"%d" % number)
            await receipt.wait("sequenced")
            seen = [[(await sub.receive()).payload for _ in range(10)] for sub in (one, two)]
            assert seen[0] == seen[1]
            async with nodes[3].subscribe("ledger", since=overlaymq.Last(3)) as late:
                got = [(await late.receive()).payload for _ in range(3)]
            assert got == seen[0][-3:]


async def test_volunteering_by_pattern() -> None:
    """Reference: issue 5; [topics."news/*"] volunteer = true."""
    config = Config(topics={"news/*": TopicConfig(strategy="sv", volunteer=True)})
    async with network(8, config) as nodes, nodes[3].subscribe("news/local") as news:
        await news.wait_ready()
        await nodes[6].publish("news/local", b"hello")
        assert (await news.receive()).payload == b"hello"
        roles = [one["tree"]["role"] for node in nodes for one in status(node)["topics"]]
        assert "path" not in roles, "whoever is on the way is willing"


async def test_volunteering_for_another_strategy_is_refused() -> None:
    async with network(2) as nodes:
        await nodes[0].create("plain", strategy="direct")
        with pytest.raises(NotSupported, match="strategy='sv'"):
            async with nodes[1].volunteer("plain"):
                pass


async def test_a_dead_feeder_is_replaced() -> None:
    """Reference: SV 3, "Tree Repairs"; a node crashes, and those it fed are fed again."""
    async with network(8) as nodes:
        await nodes[0].create("feed", strategy="sv", root="creator")
        async with nodes[2].subscribe("feed") as feed:
            await feed.wait_ready()
            parent = status(nodes[2])["topics"][0]["tree"]["content"]["parent"]
            (victim,) = [node for node in nodes if node.id == parent["id"]]
            nodes.memory.crash(victim.address)
            publisher = next(node for node in nodes if node not in (victim, nodes[2]))
            with trio.fail_after(50):
                while True:
                    await publisher.publish("feed", b"again")
                    with trio.move_on_after(0.5):
                        assert (await feed.receive()).payload == b"again"
                        break
