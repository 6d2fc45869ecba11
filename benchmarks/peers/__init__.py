"""The systems that are compared, one module each, behind one small contract.

A module names the event loop it runs on and offers a `publisher` and a `subscriber`. Everything
that is measured stays outside: a subscriber hands each payload to `Receiver.take` and never ends of
its own accord, a publisher sends what it is given. So no system can be counted differently.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

TOPIC = "fan"
MODULES = {
    "overlaymq": "overlaymq",
    "zenoh": "zenoh",
    "pyzmq": "pyzmq",
    "nats": "nats",
    "grpc-stream": "grpc_stream",
    "grpc-trio": "grpc_trio",
}


class Receiver(Protocol):
    # Changes from phase to phase: look it up for each message, and only once the message is there.
    take: Callable[[bytes], None]


class Publisher(Protocol):
    # Where subscribers connect to.
    address: str

    async def wait_subscribers(self, count: int) -> None:
        """Wait as the system itself offers it; the probes that follow wait for all alike."""

    async def burst(self, payload: bytes, count: int) -> None:
        """Send as fast as the system allows without losing any."""

    async def send(self, payload: bytes) -> None:
        """Send one message now, without waiting for company."""


class Peer(Protocol):
    LOOP: Literal["asyncio", "trio"]

    def publisher(self, broker: str) -> AbstractAsyncContextManager[Publisher]: ...

    async def subscriber(self, address: str, receiver: Receiver) -> None: ...


class Broker(Protocol):
    """What a module adds whose system needs a third process."""

    def broker_command(self, folder: Path) -> list[str]: ...

    def broker_address(self, folder: Path) -> str | None:
        """The address once the broker has written it down, None until then."""


def load(system: str, variant: str = "") -> Peer:
    module = import_module(f"{__name__}.{MODULES[system]}")
    return cast("Peer", module.variant(variant) if variant else module)


def load_broker(system: str) -> Broker | None:
    # Only a system with a broker is imported by the measuring process.
    return cast("Broker", load(system)) if system == "nats" else None
