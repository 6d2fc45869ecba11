"""The conformance suite on every transport we ship."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from overlaymq.transport.conformance import CHECKS, MemoryRig, Rig, run_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overlaymq.config import LinkConfig
    from overlaymq.identity import Identity
    from overlaymq.transport.base import Transport


class GrpcRig(Rig):
    """Transports on loopback ports."""

    def __init__(self) -> None:
        # Bound and not listening: connections are refused, and nobody else can get the port.
        self._nobody = socket.socket()
        self._nobody.bind(("127.0.0.1", 0))

    def transport(
        self, identity: Identity, config: LinkConfig, *, incarnation: int, address: str
    ) -> Transport:
        from overlaymq.transport.grpc import GrpcTransport

        listen = address or "127.0.0.1:0"
        return GrpcTransport(identity, config, listen, incarnation=incarnation)

    def unreachable(self) -> str:
        return f"127.0.0.1:{self._nobody.getsockname()[1]}"

    def close(self) -> None:
        self._nobody.close()


@pytest.fixture(params=["memory", "grpc"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    if request.param == "memory":
        yield MemoryRig()
        return
    made = GrpcRig()
    yield made
    made.close()


@pytest.mark.parametrize("name", CHECKS)
async def test_contract(name: str, rig: Rig) -> None:
    await run_check(name, rig)
