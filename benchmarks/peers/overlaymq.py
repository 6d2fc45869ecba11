"""overlaymq through its public interface, one message a call: a creator-rooted `direct` topic."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import overlaymq

from . import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from . import Receiver

LOOP: Literal["asyncio", "trio"] = "trio"


class Publisher:
    def __init__(self, node: Any) -> None:
        self._node = node
        self.address: str = node.address

    async def wait_subscribers(self, count: int) -> None:
        await self._node.wait_subscribers(TOPIC, count)

    async def burst(self, payload: bytes, count: int) -> None:
        publish = self._node.publish
        for _ in range(count):
            await publish(TOPIC, payload)

    async def send(self, payload: bytes) -> None:
        await self._node.publish(TOPIC, payload)


@asynccontextmanager
async def publisher(broker: str) -> AsyncIterator[Publisher]:
    async with overlaymq.open_node(listen="127.0.0.1:0", seeds=[]) as node:
        await node.create(TOPIC, strategy="direct", root="creator")
        yield Publisher(node)


async def subscriber(address: str, receiver: Receiver) -> None:
    async with (
        overlaymq.open_node(listen="127.0.0.1:0", seeds=[address]) as node,
        node.subscribe(TOPIC) as subscription,
    ):
        await subscription.wait_ready()
        async for message in subscription:
            receiver.take(message.payload)
