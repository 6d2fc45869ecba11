"""The stream written by hand again, between two trio programs, as one would do it without a library.

gRPC knows asyncio and threads, not trio. So the stream of `grpc_stream` runs in a thread of its own, and each
message crosses to it from the publisher's trio program and from it to the subscriber's, in the cheapest way
trio has. Nothing is addressed, counted, repaired or flow-controlled. overlaymq had such a thread, too, until
its latency was found to be that of the thread more than its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import trio

from . import grpc_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from . import Receiver

LOOP: Literal["asyncio", "trio"] = "trio"


class _Loop:
    """An asyncio loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        self._loop.call_soon_threadsafe(self._loop.create_task, work)

    async def perform(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run it there, wait for its result here."""
        done, token = trio.Event(), trio.lowlevel.current_trio_token()
        result: list[Any] = []

        async def run() -> None:
            result.append(await work)
            token.run_sync_soon(done.set)

        self.start(run())
        await done.wait()
        return result[0]


class Publisher:
    def __init__(self, loop: _Loop, feed: grpc_stream.Publisher) -> None:
        self._loop = loop
        self._feed = feed
        self.address = feed.address

    async def wait_subscribers(self, count: int) -> None:
        pass

    async def burst(self, payload: bytes, count: int) -> None:
        await self._loop.perform(self._feed.burst(payload, count))

    async def send(self, payload: bytes) -> None:
        self._loop.start(self._feed.send(payload))


@asynccontextmanager
async def publisher(broker: str) -> AsyncIterator[Publisher]:
    loop = _Loop()
    serving = grpc_stream.publisher(broker)
    feed = await loop.perform(serving.__aenter__())
    try:
        yield Publisher(loop, feed)
    finally:
        with trio.CancelScope(shield=True):
            await loop.perform(serving.__aexit__(None, None, None))


class _Relay:
    """Takes messages in the loop's thread and wakes trio once for all that have come."""

    def __init__(self) -> None:
        self.arrived: deque[bytes] = deque()
        self.lot = trio.lowlevel.ParkingLot()
        self._token = trio.lowlevel.current_trio_token()
        self.take: Callable[[bytes], None] = self._take

    def _take(self, payload: bytes) -> None:
        self.arrived.append(payload)
        self._token.run_sync_soon(self.lot.unpark, idempotent=True)


async def subscriber(address: str, receiver: Receiver) -> None:
    relay = _Relay()
    _Loop().start(grpc_stream.subscriber(address, relay))
    while True:
        await relay.lot.park()
        while relay.arrived:
            receiver.take(relay.arrived.popleft())
