"""The part of `doctor` that talks to other nodes: seeds, step by step, and clocks.

Each step yields (verdict, text, advice). A seed that fails a step is not asked the next one, so the last
line about a seed says where it ends.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import trio

from overlaymq.cli.options import ADMIN_ADDRESS
from overlaymq.cli.running import Failure
from overlaymq.cli.status import ask
from overlaymq.errors import LinkRefused, OverlayError
from overlaymq.identity import Identity
from overlaymq.ids import short
from overlaymq.runtime.opening import facing_seed
from overlaymq.transport.grpc import GrpcTransport
from overlaymq.transport.grpc_options import split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from overlaymq.config import Config
    from overlaymq.messages import Message, Peer

Step = tuple[str, str, str]

TCP_TIMEOUT = 3.0
ADMIN_TIMEOUT = 2.0
CLOCK_TOLERANCE = 0.5
"""Seconds of clock difference that make latencies look wrong enough to tell: a guess."""
_HANDSHAKE_ADVICE = (
    "check that a node listens there, not something else or a node's status service, "
    "and run the same release of overlaymq on both"
)


async def check_seed(seed: str, config: Config) -> AsyncIterator[Step]:
    """Resolve, connect, shake hands."""
    try:
        host, port = split(seed)
    except OverlayError as error:
        yield "problem", str(error), "write host:port"
        return
    try:
        addresses = await _resolve(host, port)
    except OSError as error:
        advice = "check the name, or write the IP address"
        yield "problem", f"the name does not resolve: {error.strerror}", advice
        return
    if host not in addresses:
        yield "ok", f"resolves to {', '.join(addresses)}", ""
    refusal = await _tcp_refusal(host, port)
    if refusal:
        yield "problem", f"no TCP connection: {refusal}", "start the seed, or open its port"
        return
    yield "ok", "accepts TCP connections", ""
    yield await _handshake(seed, config)


async def _resolve(host: str, port: int) -> list[str]:
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _tcp_refusal(host: str, port: int) -> str:
    with trio.move_on_after(TCP_TIMEOUT):
        try:
            stream = await trio.open_tcp_stream(host, port)
        except OSError as error:
            return _reason(error)
        await stream.aclose()
        return ""
    return f"no answer within {TCP_TIMEOUT:g} s; a firewall may drop it"


def _reason(error: BaseException) -> str:
    """What the system said, under trio's summary of several attempts."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(error.exceptions[0])
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return _reason(error.__cause__) if error.__cause__ else str(error)


async def _handshake(seed: str, config: Config) -> Step:
    """Dial the seed as a stranger would, with a key of the moment."""
    facing = facing_seed("0.0.0.0:1", [seed]).rpartition(":")[0] or "127.0.0.1"
    transport = GrpcTransport(Identity.ephemeral(), config.link, f"{facing}:0")
    try:
        await transport.start(DeafInbox())
        started = time.perf_counter()
        peer = await transport.connect(seed)
        took = (time.perf_counter() - started) * 1000
    except LinkRefused as error:
        return "problem", f"no handshake: {error}", _HANDSHAKE_ADVICE
    finally:
        await transport.aclose()
    said = "" if peer.address == seed else f"; it says it is reached at {peer.address}"
    return "ok", f"node {short(peer.id)} let us in after {took:.0f} ms{said}", ""


async def check_clock(admin: str | None) -> Step:
    """Compare clocks with a running node, through its admin service."""
    address = admin or ADMIN_ADDRESS
    before = time.time_ns()
    try:
        facts = await ask(address, ADMIN_TIMEOUT)
    except Failure:
        text = f"not compared: no node answers status at {address}"
        return "note", text, "give --admin HOST:PORT of a running node to compare clocks"
    middle = (before + time.time_ns()) / 2
    seconds = (facts["time_ns"] - middle) / 1e9
    text = f"node {facts['id'][:8]} at {address} differs by {seconds * 1000:+.0f} ms"
    if abs(seconds) > CLOCK_TOLERANCE:
        return "problem", text, "synchronise the clocks (NTP): latencies are wrong by that much"
    return "ok", text, ""


class DeafInbox:
    """For a transport that only dials: whatever it is told does not matter."""

    def opened(self, peer: Peer) -> None:
        """See Inbox."""

    def received(self, peer: Peer, message: Message) -> None:
        """See Inbox."""

    def failed(self, peer: Peer, reason: str, gone: bool = False) -> None:
        """See Inbox."""

    def closed(self, peer: Peer) -> None:
        """See Inbox."""

    def measured(self, peer: Peer, seconds: float, offset: int | None = None) -> None:
        """See Inbox."""

    def drained(self) -> None:
        """See Inbox."""

    def dropped(self, reason: str, count: int) -> None:
        """See Inbox."""
