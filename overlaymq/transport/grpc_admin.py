"""The admin service: one unary call, JSON both ways, on a server of its own.

It listens on loopback by default, tells everything and checks nobody, so it never shares the port that
peers use. Questions are answered outside the loop's turns, as everything that the node does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from overlaymq.config import LinkConfig
from overlaymq.errors import LinkRefused
from overlaymq.transport import _io_loop, codec, grpc_options
from overlaymq.transport.grpc_core import grpc
from overlaymq.transport.grpc_link import explain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from overlaymq.transport._io_loop import IoLoop

log = logging.getLogger("overlaymq.transport")

CALL = "/overlaymq.v1.Admin/Call"
ANSWER_WITHIN = 10.0
"""A question the node has not answered by then is given up: a guess."""


@asynccontextmanager
async def serve_admin(listen: str, handler: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address. ``handler`` runs in the trio run."""
    grpc_options.split(listen)
    loop = _io_loop.acquire()
    service = _Service(loop, trio.lowlevel.current_trio_token(), handler)
    try:
        with trio.CancelScope(shield=True):  # brief; a server that starts unseen is never stopped
            port = await loop.perform(service.start(listen))
        host, _ = grpc_options.split(listen)
        yield grpc_options.join(host, port)
    finally:
        with trio.CancelScope(shield=True):
            with trio.move_on_after(2):
                await loop.perform(service.stop())
            await _io_loop.release(loop)


async def call_admin(address: str, request: bytes, timeout: float = 5.0) -> bytes:
    """Ask the node whose admin service is there. Raises LinkRefused."""
    grpc_options.split(address)
    loop = _io_loop.acquire()
    try:
        answer, error = await loop.perform(_ask(address, request, timeout))
    except (grpc.aio.AioRpcError, codec.Malformed) as problem:
        raise LinkRefused(
            f"no overlaymq admin service answers at {address}: {explain(problem)}"
        ) from None
    finally:
        with trio.CancelScope(shield=True):
            await _io_loop.release(loop)
    if error:
        raise LinkRefused(f"the node at {address} could not answer: {error}")
    return answer


async def _ask(address: str, request: bytes, timeout: float) -> tuple[bytes, str]:
    async with grpc_options.make_channel(address, LinkConfig()) as channel:
        frame = codec.encode_admin_request(request)
        return codec.decode_admin_reply(await channel.unary_unary(CALL)(frame, timeout=timeout))


class _Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Lives on the loop; only ``_answer`` does not."""

    def __init__(
        self,
        loop: IoLoop,
        token: trio.lowlevel.TrioToken,
        handler: Callable[[bytes], bytes],
    ) -> None:
        self._loop = loop
        self._token = token
        self._handler = handler
        self._method = grpc.unary_unary_rpc_method_handler(self._call)
        self._server: Any = None

    def service(self, details: Any) -> Any:
        """gRPC asks who handles a call."""
        return self._method if details.method == CALL else None

    async def start(self, listen: str) -> int:
        """Listen, and return the port. Raises ConfigError."""
        server = grpc.aio.server(options=grpc_options.server_options(LinkConfig()))
        server.add_generic_rpc_handlers((self,))
        port = grpc_options.bind(server, listen)
        await server.start()
        self._server = server
        return port

    async def stop(self) -> None:
        """End; calls in progress get a moment."""
        if self._server is not None:
            await self._server.stop(0.2)

    async def _call(self, frame: bytes, context: Any) -> bytes:
        try:
            request = codec.decode_admin_request(frame)
        except codec.Malformed as error:
            return codec.encode_admin_reply(b"", str(error))
        answered = self._loop.create_future()
        try:
            self._token.run_sync_soon(self._answer, request, answered)
            return await asyncio.wait_for(answered, ANSWER_WITHIN)
        except trio.RunFinishedError:
            return codec.encode_admin_reply(b"", "the node has ended")
        except TimeoutError:
            return codec.encode_admin_reply(b"", "the node is too busy to answer")

    def _answer(self, request: bytes, answered: asyncio.Future[bytes]) -> None:
        """Called by trio."""
        try:
            reply = codec.encode_admin_reply(self._handler(request))
        except Exception as error:  # a question must not end the trio run
            log.exception("an admin request failed")
            reply = codec.encode_admin_reply(b"", f"{type(error).__name__}: {error}")
        with contextlib.suppress(RuntimeError):  # the loop may have been closed meanwhile
            self._loop.call(_settle, answered, reply)


def _settle(future: asyncio.Future[bytes], value: bytes) -> None:
    if not future.done():
        future.set_result(value)
