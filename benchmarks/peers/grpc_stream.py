"""A server stream written by hand with grpc.aio, as one would without a messaging library.

The publisher serves; each subscriber is a client that holds one call open. A bounded queue per call
keeps a slow subscriber from growing the server, and makes the publisher wait instead of losing.
Each message is one write.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import grpc
from grpc import aio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from . import Receiver

LOOP: Literal["asyncio", "trio"] = "asyncio"
SERVICE = "fanout.Feed"
METHOD = "Follow"
QUEUE_MESSAGES = 1000
OPTIONS = [("grpc.so_reuseport", 0), ("grpc.enable_http_proxy", 0)]


class Publisher:
    def __init__(self) -> None:
        self.address = ""
        self._queues: list[asyncio.Queue[bytes]] = []

    async def follow(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE_MESSAGES)
        self._queues.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues.remove(queue)

    async def wait_subscribers(self, count: int) -> None:
        pass

    async def burst(self, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self.send(payload)

    async def send(self, payload: bytes) -> None:
        for queue in self._queues:
            await queue.put(payload)


@asynccontextmanager
async def publisher(broker: str) -> AsyncIterator[Publisher]:
    feed = Publisher()
    server = aio.server(options=OPTIONS)
    handler = grpc.unary_stream_rpc_method_handler(feed.follow)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
    )
    feed.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield feed
    finally:
        await server.stop(0)


async def subscriber(address: str, receiver: Receiver) -> None:
    async with aio.insecure_channel(address, options=OPTIONS) as channel:
        async for payload in channel.unary_stream(f"/{SERVICE}/{METHOD}")(b""):
            receiver.take(payload)
