"""Gossip topics through the public interface."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

import overlaymq
from overlaymq.testing import network

pytestmark = pytest.mark.trio


async def test_gossip_reaches_all_in_each_publishers_order_and_late_joiners_get_history() -> None:
    """Members and others publish; what a late joiner asked for comes first. Reference: SCAMP 2.2."""
    async with network(6) as nodes, AsyncExitStack() as stack:
        await nodes[0].create("news", strategy="scamp", reliability="fifo")
        subscriptions = [
            await stack.enter_async_context(node.subscribe("news")) for node in nodes[:4]
        ]
        for subscription in subscriptions:
            await subscription.wait_ready()
        await nodes[5].wait_subscribers("news", 4)
        for number in range(20):
            receipt = await nodes[5].publish("news", b"%d" % number)
        await receipt.wait("sent")
        for subscription in subscriptions:
            got = [(await subscription.receive()).payload for _ in range(20)]
            assert got == [b"%d" % number for number in range(20)]
        async with nodes[4].subscribe("news", since=overlaymq.Last(3)) as late:
            assert [(await late.receive()).payload for _ in range(3)] == [b"17", b"18", b"19"]
            await nodes[1].publish("news", b"from a member")
            assert (await late.receive()).payload == b"from a member"


async def test_what_gossip_cannot_promise_is_refused() -> None:
    async with network(1) as nodes:
        with pytest.raises(overlaymq.ConfigError, match="no root"):
            await nodes[0].create("ledger", strategy="scamp", reliability="ordered")
        with pytest.raises(overlaymq.ConfigError, match="close a circle"):
            await nodes[0].create("ledger", strategy="scamp", flow="lossless")
        await nodes[0].create("news", strategy="scamp", reliability="fifo")
        with pytest.raises(overlaymq.NotSupported, match="strategy='scribe'"):
            await nodes[0].anycast("news", b"to one of you")
        with pytest.raises(overlaymq.NotSupported, match="strategy='sv'"):
            async with nodes[0].volunteer("news"):
                pass
        receipt = await nodes[0].publish("news", b"in no common order")
        for stage in ("sequenced", "delivered"):
            with pytest.raises(overlaymq.NotSupported, match="ordered"):
                await receipt.wait(stage)
