"""eclipse-zenoh, brokerless: subscribers dial the publisher over loopback TCP.

Scouting and gossip are off, so that the eight do not link up among themselves. So is shared memory,
which zenoh 1.10 takes by default above 3 KiB and which no network has. The publisher blocks
when a link is full, since zenoh's default drops. Calls block the event loop, which has nothing else
to do here: zenoh works in threads of its own.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import zenoh

from . import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from . import Receiver

LOOP: Literal["asyncio", "trio"] = "asyncio"


def _open(**endpoints: list[str]) -> Any:
    settings = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        # The only place that tells which port a listener on port 0 was given.
        "adminspace/enabled": True,
        "transport/shared_memory/enabled": False,
        "listen/endpoints": endpoints.get("listen", []),
        "connect/endpoints": endpoints.get("connect", []),
    }
    config = zenoh.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def _locator(session: Any) -> str:
    for reply in session.get(f"@/{session.info.zid()}/peer"):
        return str(json.loads(reply.ok.payload.to_string())["locators"][0])
    raise RuntimeError("zenoh's admin space did not answer")


class Publisher:
    def __init__(self, session: Any) -> None:
        self.address = _locator(session)
        self._publisher = session.declare_publisher(
            TOPIC,
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
        )

    async def wait_subscribers(self, count: int) -> None:
        pass

    async def burst(self, payload: bytes, count: int) -> None:
        put = self._publisher.put
        for _ in range(count):
            put(payload)

    async def send(self, payload: bytes) -> None:
        self._publisher.put(payload)


@asynccontextmanager
async def publisher(broker: str) -> AsyncIterator[Publisher]:
    with _open(listen=["tcp/127.0.0.1:0"]) as session:
        yield Publisher(session)


async def subscriber(address: str, receiver: Receiver) -> None:
    with _open(connect=[address]) as session:
        # The loop alone would not keep the subscription alive.
        subscription = session.declare_subscriber(TOPIC)
        for sample in subscription:
            receiver.take(sample.payload.to_bytes())
