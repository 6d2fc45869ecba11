"""Dialling: from an address to a proved link, with back-off and simultaneous dials.

Two nodes that dial each other at once keep the dial of the lower id. A dial is *committed* when its
Hello goes out, and a node with a committed dial refuses the other's Hello if its own id is the lower.
The refused dialer waits for the link that must be on its way, and dials again if it does not come.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from overlaymq.errors import ConfigError
from overlaymq.ids import Id, short
from overlaymq.messages import Peer
from overlaymq.transport import codec, grpc_options, handshake
from overlaymq.transport.grpc_core import grpc
from overlaymq.transport.grpc_link import ClientStream, Link, explain
from overlaymq.transport.handshake import Refused

if TYPE_CHECKING:
    from overlaymq.transport.grpc_engine import Engine
    from overlaymq.transport.grpc_lane import Lane

CONTROL = "/overlaymq.v1.Link/Control"
DATA = "/overlaymq.v1.Link/Data"
SIMULTANEOUS = "ABORTED"
"""The status that means: my dial to you wins, wait for it."""

NOBODY = "nobody listens"
"""The label of a connection that the other machine's system refused."""
ANOTHER = "another id"
ITSELF = "own address"
"""The label of an address where another node listens now."""


class Dialer:
    """The dialling half of an Engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.committed: dict[Id, object] = {}
        self.backoff: dict[Id, tuple[float, float]] = {}  # not before, and the wait it came from
        self._arrivals: dict[Id, list[asyncio.Future[None]]] = {}

    def arrived(self, id_: Id) -> None:
        """There is a link to this peer, whoever dialled."""
        self.backoff.pop(id_, None)
        for waiting in self._arrivals.pop(id_, ()):
            if not waiting.done():
                waiting.set_result(None)

    def back_off(self, id_: Id, *, first: bool = False) -> None:
        _, last = self.backoff.get(id_, (0.0, 0.0))
        wait = self._engine.config.reconnect_min if first or not last else last * 2
        wait = min(wait, self._engine.config.reconnect_max)
        self.backoff.pop(id_, None)
        self.backoff[id_] = (self._engine.loop.time() + wait, wait)
        if len(self.backoff) > self._engine.config.max_links:
            del self.backoff[next(iter(self.backoff))]

    async def reach(self, lane: Lane) -> None:
        """Open a link for a lane, or end it."""
        id_ = lane.peer.id
        try:
            not_before, _ = self.backoff.get(id_, (0.0, 0.0))
            wait = not_before - self._engine.loop.time()
            if wait > 0:
                await self._arrival(id_, min(wait, self._engine.config.connect_timeout))
                if lane.link is None and wait > self._engine.config.connect_timeout:
                    raise Refused("it failed before, and it is too early to dial again", "back-off")
            if lane.link is None:
                await self.connect(lane.peer.address, id_)
        except Refused as refused:
            if lane.link is None:
                if refused.label != "back-off":
                    self.back_off(id_)
                lane.gone = refused.label in (NOBODY, ANOTHER)
                self._engine.end_lane(lane, str(refused))
        finally:
            lane.dial = None
            if lane.link is None and not lane.abandoned:
                self._engine.end_lane(lane, "no link came about")

    async def _arrival(self, id_: Id, longest: float) -> None:
        """Wait until the peer's own dial arrives, but not too long."""
        if self._engine.link_to(id_) is not None:
            return
        waiting = self._engine.loop.create_future()
        self._arrivals.setdefault(id_, []).append(waiting)
        try:
            await asyncio.wait_for(waiting, longest)
        except TimeoutError:
            pass
        finally:
            waiters = self._arrivals.get(id_, [])
            if waiting in waiters:
                waiters.remove(waiting)
                if not waiters:
                    del self._arrivals[id_]

    async def connect(self, address: str, expected: Id | None = None) -> Peer:
        """Dial until there is a link, however it came about. Raises Refused."""
        deadline = self._engine.loop.time() + self._engine.config.connect_timeout
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._dial(address, expected)
            except ConfigError as error:  # hearsay of other nodes may be anything
                raise Refused(str(error), "address") from None
            except TimeoutError:
                raise Refused(
                    f"nobody answered at {address} within {self._engine.config.connect_timeout:g} s",
                    "no answer",
                ) from None
            except _TheirsWins as theirs:
                await self._arrival(theirs.id, self._engine.config.connect_timeout / 3)
                link = self._engine.link_to(theirs.id)
                if link is not None:
                    return link.lane.peer
                deadline = max(
                    deadline, self._engine.loop.time() + self._engine.config.connect_timeout / 3
                )
                if self._engine.closing:
                    raise Refused("this node is closing", "closing") from None

    async def _dial(self, address: str, expected: Id | None) -> Peer:
        nonce = handshake.new_nonce()
        mine = handshake.Opening(self._engine.me.id, nonce, self._engine.me.incarnation)
        channel = grpc_options.make_channel(address, self._engine.config)
        call = channel.stream_stream(CONTROL)(metadata=handshake.opening_metadata(mine))
        ours = object()
        other: handshake.Opening | None = None
        keep = False
        try:
            other = await self._read_opening(call, address, expected)
            await self._learn_own_address(address)
            link = self._engine.link_to(other.id)
            if link is not None:
                return link.lane.peer
            self.committed[other.id] = ours
            hello = handshake.make_hello(self._engine.identity, self._engine.me, other, dialer=True)
            await call.write(codec.encode_hello(hello))
            answer = await self._read_hello(call)
            peer = handshake.check_hello(answer, other, self._engine.me.id, nonce, dialer=False)
            grpc_options.check_peer(peer)
            link = self._engine.link_to(other.id)
            if link is not None:  # its dial came in meanwhile and was the one to keep
                return link.lane.peer
            keep = True
            self._start_dialled(peer, answer.token, channel, call)
            return peer
        except grpc.aio.AioRpcError as error:
            raise self._refusal(error, address, other) from None
        except codec.Malformed as error:
            raise Refused(f"{address} answered nonsense: {error}", "malformed hello") from None
        finally:
            if other is not None and self.committed.get(other.id) is ours:
                del self.committed[other.id]
            if not keep:
                call.cancel()
                self._engine.spawn(channel.close())

    async def _read_opening(
        self, call: Any, address: str, expected: Id | None
    ) -> handshake.Opening:
        metadata = tuple(await call.initial_metadata() or ())
        if not metadata or call.done():
            await call.read()  # raises what went wrong
        other = handshake.read_opening(metadata)
        if other.id == self._engine.me.id:
            if other.incarnation == self._engine.me.incarnation:
                raise Refused(f"{address} is this node itself", ITSELF)
            raise Refused(
                f"the node at {address} has this node's own id: its key file was copied", "own id"
            )
        if expected is not None and other.id != expected:
            raise Refused(
                f"expected {short(expected)} at {address}, found {short(other.id)}", ANOTHER
            )
        return other

    async def _read_hello(self, call: Any) -> codec.Hello:
        frame = await call.read()
        if frame is grpc.aio.EOF:
            raise Refused("it hung up during the handshake", "hung up")
        return codec.decode_hello(frame)

    def _start_dialled(self, peer: Peer, token: bytes, channel: Any, call: Any) -> None:
        link = Link(self._engine, self._engine.lane_for(peer), channel)
        self._engine.opened(link, peer, dialled=True)
        data = channel.stream_stream(DATA)(metadata=((handshake.TOKEN_KEY, token),))
        link.start_control(ClientStream(call))
        link.start_data(ClientStream(data))

    def _refusal(self, error: Any, address: str, other: handshake.Opening | None) -> Exception:
        code = error.code()
        text = explain(error)
        if code.name == SIMULTANEOUS and other is not None:
            return _TheirsWins(other.id)
        if code is grpc.StatusCode.UNAVAILABLE and other is None:
            label = NOBODY if "refused" in text.lower() else "no answer"
            return Refused(f"nobody answers at {address} ({text})", label)
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return Refused(f"{address} is a gRPC server, but not an overlaymq node", "not a node")
        return Refused(f"{address} refused the link: {text}", "refused by the other side")

    async def _learn_own_address(self, seed: str) -> None:
        """Listening on a wildcard: others reach this node where it faced its first seed."""
        engine = self._engine
        if not engine.address_is_guess:
            return
        host, port = grpc_options.split(seed)
        try:
            found = await engine.loop.getaddrinfo(host, port)
        except OSError:
            return
        facing = grpc_options.local_address_facing(str(found[0][4][0]), port)
        if facing is not None and engine.address_is_guess:
            _, own_port = grpc_options.split(engine.me.address)
            address = grpc_options.join(facing, own_port)
            engine.me = Peer(engine.me.id, address, engine.me.incarnation)
            engine.address_is_guess = False
            engine.host.post_address(engine.me)


class _TheirsWins(Exception):
    def __init__(self, id_: Id) -> None:
        super().__init__()
        self.id = id_
