"""Answering: who may have a link, and which data stream belongs to it.

Someone who proves an id that is linked already is either that node after a fault only it has noticed,
or a copied key. The incumbent is pinged: if it answers within a second, the newcomer is refused.

A refusal is a gRPC status with the reason in its details, so both sides can read it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from overlaymq.ids import short
from overlaymq.transport import codec, grpc_options, handshake
from overlaymq.transport.grpc_core import grpc
from overlaymq.transport.grpc_dialer import CONTROL, DATA, SIMULTANEOUS
from overlaymq.transport.grpc_link import Link, ServerStream, State, explain
from overlaymq.transport.handshake import Refused

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from overlaymq.messages import Peer
    from overlaymq.transport.grpc_engine import Engine

log = logging.getLogger("overlaymq.transport")

INCUMBENT_WAIT = 1.0
"""How long a linked peer has to answer when someone else proves its id (the issue's figure)."""


class Listener(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The answering half of an Engine: the two methods, as raw bytes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tokens: dict[bytes, Link] = {}  # of links whose data stream is on its way
        self.handshakes = 0
        self._handlers = {
            CONTROL: grpc.stream_stream_rpc_method_handler(self._control),
            DATA: grpc.stream_stream_rpc_method_handler(self._data),
        }

    def service(self, details: Any) -> Any:
        """gRPC asks who handles a call."""
        handler = self._handlers.get(details.method)
        if handler is None:
            self._engine.dropped("handshake: unknown method")
        return handler

    async def _control(self, _requests: Any, context: Any) -> None:
        await self._contained(self._serve_control(context), context)

    async def _data(self, _requests: Any, context: Any) -> None:
        await self._contained(self._serve_data(context), context)

    async def _contained(self, work: Coroutine[Any, Any, None], context: Any) -> None:
        """Refusals become a status with the reason; nothing a peer does raises into gRPC."""
        try:
            await work
        except Refused as refused:
            if refused.label:
                self._engine.dropped(f"handshake: {refused.label}")
            context.set_code(getattr(grpc.StatusCode, refused.code))
            context.set_details(str(refused))
        except asyncio.CancelledError:
            self._engine.dropped("handshake: broken off")
        except Exception as error:  # gRPC raises many types when a client vanishes half-way
            log.debug("handshake broken off: %s", explain(error))
            self._engine.dropped("handshake: broken off")

    async def _serve_control(self, context: Any) -> None:
        """A peer dialled."""
        if self.handshakes >= self._engine.config.max_links:
            raise Refused("too many handshakes at once", "too many", "RESOURCE_EXHAUSTED")
        self.handshakes += 1
        try:
            async with asyncio.timeout(self._engine.config.connect_timeout):
                link = await self._welcome(context)
        except TimeoutError:
            raise Refused("no hello in time", "no hello in time", "DEADLINE_EXCEEDED") from None
        except codec.Malformed as error:
            raise Refused(f"malformed hello: {error}", "malformed hello") from None
        finally:
            self.handshakes -= 1
        if link.state is not State.ENDED:  # else it was given up while the hello went out
            await self._serve(link, link.start_control(ServerStream(context)))

    async def _serve_data(self, context: Any) -> None:
        """A dialer's second stream; its token says which link it belongs to."""
        metadata = dict(context.invocation_metadata() or ())
        link = self.tokens.pop(metadata.get(handshake.TOKEN_KEY, b""), None)
        if link is None or link.state is State.ENDED:
            raise Refused("no such link", "unknown token", "UNAUTHENTICATED")
        await self._serve(link, link.start_data(ServerStream(context)))

    async def _serve(self, link: Link, tasks: list[asyncio.Task[None]]) -> None:
        """As long as the handler runs, the stream is open."""
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:  # gRPC's way to say that the client is gone
            link.fail("the other side is gone")

    async def _welcome(self, context: Any) -> Link:
        other = handshake.read_opening(context.invocation_metadata() or ())
        nonce = handshake.new_nonce()
        mine = handshake.Opening(self._engine.me.id, nonce, self._engine.me.incarnation)
        await context.send_initial_metadata(handshake.opening_metadata(mine))
        frame = await context.read()
        if frame is grpc.aio.EOF:
            raise Refused("no hello", "no hello")
        peer = handshake.check_hello(
            codec.decode_hello(frame), other, self._engine.me.id, nonce, dialer=True
        )
        grpc_options.check_peer(peer)
        await self._check_incumbent(peer)
        self._check_admission(peer)
        link = Link(self._engine, self._engine.lane_for(peer))
        link.token = handshake.new_nonce()
        self.tokens[link.token] = link
        self._engine.opened(link, peer, dialled=False)
        hello = handshake.make_hello(
            self._engine.identity, self._engine.me, other, dialer=False, token=link.token
        )
        try:
            await context.write(codec.encode_hello(hello))
        except BaseException:  # cancelled or failed, the link is gone; raised again below
            link.fail("the other side is gone")
            raise
        self._engine.loop.call_later(self._engine.config.connect_timeout, self._check_data, link)
        return link

    def _check_data(self, link: Link) -> None:
        if link.state is State.OPEN and not link.has_data:
            link.fail("it opened no data stream")

    async def _check_incumbent(self, peer: Peer) -> None:
        incumbent = self._engine.link_to(peer.id)
        if incumbent is None:
            return
        if (
            incumbent.state is State.CLOSING
        ):  # the other side has finished with it, or it would not dial
            incumbent.force()
            return
        answered = asyncio.Event()
        incumbent.ping(lambda *_: answered.set())
        try:
            await asyncio.wait_for(answered.wait(), INCUMBENT_WAIT)
        except TimeoutError:
            incumbent.fail("it does not answer, and has dialled anew")
            return
        if incumbent.state is State.OPEN:
            raise Refused(
                f"id in use: {short(peer.id)} is linked already (is its key file used twice?)",
                "id in use",
                "ALREADY_EXISTS",
            )

    def _check_admission(self, peer: Peer) -> None:
        """Without waiting: from here to ``_opened`` nothing may change."""
        if self._engine.closing:
            raise Refused("the node leaves", "closing", "UNAVAILABLE")
        if peer.id == self._engine.me.id:
            raise Refused("that is this node's own id", "own id")
        if peer.id in self._engine.dialer.committed and self._engine.me.id < peer.id:
            raise Refused("simultaneous dial: mine to you is kept", "", SIMULTANEOUS)
        if self._engine.link_to(peer.id) is not None:
            raise Refused("another link of this id came first", "id in use", "ALREADY_EXISTS")
        if (
            len(self._engine.lanes) >= self._engine.config.max_links
            and self._engine.least_used(None) is None
        ):
            raise Refused("too many links", "too many links", "RESOURCE_EXHAUSTED")
