"""nats-py against a nats-server of its own, whose CPU time counts with the rest.

Both ends drop for a consumer that falls behind: the server at `max_pending`, the client at its
pending limits. All are raised above what a burst can hold. The client writes from a background
task, which a lone message wakes; a burst ends with a flush that the server has answered. A callback
receives, because nats-py's iterator makes a task for each message and costs four times as much.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import nats

from . import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from . import Receiver

LOOP: Literal["asyncio", "trio"] = "asyncio"
UNLIMITED = 0
FLUSH_SECONDS = 120
SERVER_SETTINGS = 'listen: "127.0.0.1:-1"\nmax_pending: 4GB\nwrite_deadline: "120s"\n'


def broker_command(folder: Path) -> list[str]:
    beside_python = Path(sys.executable).parent
    server = shutil.which("nats-server", path=beside_python) or shutil.which("nats-server")
    if server is None:
        raise FileNotFoundError("nats-server: install the peers extra")
    settings = folder / "server.conf"
    settings.write_text(SERVER_SETTINGS)
    return [server, "--config", str(settings), "--ports_file_dir", str(folder)]


def broker_address(folder: Path) -> str | None:
    for path in folder.glob("*.ports"):
        if text := path.read_text():
            return str(json.loads(text)["nats"][0])
    return None


class Publisher:
    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self.address = address

    async def wait_subscribers(self, count: int) -> None:
        pass

    async def burst(self, payload: bytes, count: int) -> None:
        publish = self._client.publish
        for _ in range(count):
            await publish(TOPIC, payload)
        await self._client.flush(FLUSH_SECONDS)

    async def send(self, payload: bytes) -> None:
        await self._client.publish(TOPIC, payload)


@asynccontextmanager
async def publisher(broker: str) -> AsyncIterator[Publisher]:
    client = await nats.connect(broker)
    try:
        yield Publisher(client, broker)
    finally:
        await client.close()


async def subscriber(address: str, receiver: Receiver) -> None:
    async def on_message(message: Any) -> None:
        receiver.take(message.data)

    client = await nats.connect(address)
    await client.subscribe(
        TOPIC, cb=on_message, pending_msgs_limit=UNLIMITED, pending_bytes_limit=UNLIMITED
    )
    await asyncio.Event().wait()
