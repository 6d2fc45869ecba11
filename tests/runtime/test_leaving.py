"""A node that leaves takes nothing with it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import trio

from overlaymq import ids
from overlaymq.testing import network

if TYPE_CHECKING:
    import overlaymq
    from overlaymq.testing import Network

TOPIC = "t"
MORE = 50


async def _root_and_others(nodes: Network) -> tuple[overlaymq.Node, list[overlaymq.Node]]:
    id_, _, _ = await nodes[0].lookup(f"{ids.topic_id(TOPIC):032x}")
    root = next(node for node in nodes if node.id == id_)
    return root, [node for node in nodes if node is not root]


async def _publish_while(leaving: trio.Event, node: overlaymq.Node, sent: list[bytes]) -> None:
    """All the time until the root has left, and a little longer."""
    more = MORE
    while more:
        more -= leaving.is_set()
        sent.append(str(len(sent)).encode())
        receipt = await node.publish(TOPIC, sent[-1])
        await receipt.wait("sent")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", ["direct", "scribe", "sv"])
async def test_what_is_on_its_way_to_a_root_that_leaves_is_not_lost(
    strategy: str, seed: int
) -> None:
    """Its publishers have sent to it before they know."""
    async with network(6, seed=seed) as nodes:
        root, others = await _root_and_others(nodes)
        await others[0].create(TOPIC, strategy=strategy)
        sent: list[bytes] = []
        left = trio.Event()
        async with AsyncExitStack() as stack:
            readers = [
                await stack.enter_async_context(node.subscribe(TOPIC, buffer=100_000))
                for node in others[:2]
            ]
            for reader in readers:
                await reader.wait_ready()
            await others[-1].wait_subscribers(TOPIC, 2)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_publish_while, left, others[-1], sent)
                for _ in range(MORE):
                    await readers[0].receive()
                await root.leave()
                left.set()
            with trio.fail_after(20):
                late = [(await readers[0].receive()).payload for _ in range(len(sent) - MORE)]
                got = [(await readers[1].receive()).payload for _ in range(len(sent))]
        assert sorted(late, key=int) == sent[MORE:]
        assert sorted(got, key=int) == sent


async def test_a_root_that_nobody_writes_to_leaves_at_once() -> None:
    async with network(3) as nodes:
        root, others = await _root_and_others(nodes)
        await others[0].create(TOPIC, strategy="direct")
        async with root.subscribe(TOPIC) as subscription:
            await subscription.wait_ready()
        assert await root.drain(0.1)
