"""pyzmq's PUB/SUB pattern over TCP, with blocking sockets: libzmq has a thread of its own.

There is no high-water mark, because a PUB socket drops what exceeds it without a word. Its queues
are then bounded by the size of the burst alone.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import zmq

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from . import Receiver

LOOP: Literal["asyncio", "trio"] = "asyncio"
UNLIMITED = 0


class Publisher:
    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.address = socket.getsockopt_string(zmq.LAST_ENDPOINT)

    async def wait_subscribers(self, count: int) -> None:
        pass

    async def burst(self, payload: bytes, count: int) -> None:
        send = self._socket.send
        for _ in range(count):
            send(payload)

    async def send(self, payload: bytes) -> None:
        self._socket.send(payload)


@asynccontextmanager
async def publisher(broker: str) -> AsyncIterator[Publisher]:
    with zmq.Context() as context, context.socket(zmq.PUB) as socket:
        socket.setsockopt(zmq.SNDHWM, UNLIMITED)
        socket.bind("tcp://127.0.0.1:0")
        yield Publisher(socket)


async def subscriber(address: str, receiver: Receiver) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.setsockopt(zmq.RCVHWM, UNLIMITED)
        socket.subscribe(b"")
        socket.connect(address)
        while True:
            payload = socket.recv()
            receiver.take(payload)
