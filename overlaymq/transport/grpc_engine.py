"""A node's links on the I/O thread: dialling, answering, back-off, idleness, shutdown.

At most one link per peer. Two nodes that dial each other at once keep the dial of the lower id: a dial
is *committed* when its Hello goes out, and a node with a committed dial refuses the other's Hello if its
own id is the lower. The refused dialer waits for the link that must be on its way, and dials again if
it does not come. Nothing queued is lost, because queues belong to the lane, not to the dial.

Someone who proves an id that is linked already is either that node after a fault only it has noticed,
or a copied key. The incumbent is pinged: if it answers within a second, the newcomer is refused.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import grpc

from overlaymq.ids import Id, short
from overlaymq.messages import Peer
from overlaymq.transport import codec, grpc_options, handshake
from overlaymq.transport.grpc_lane import Lane
from overlaymq.transport.grpc_link import ClientStream, Link, ServerStream, State, explain
from overlaymq.transport.handshake import Refused

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Coroutine, Sequence

    from overlaymq.config import LinkConfig
    from overlaymq.identity import Identity
    from overlaymq.transport._io_thread import IoThread
    from overlaymq.transport.grpc import GrpcTransport

log = logging.getLogger("overlaymq.transport")

CONTROL = "/overlaymq.v1.Link/Control"
DATA = "/overlaymq.v1.Link/Data"
INCUMBENT_WAIT = 1.0
"""How long a linked peer has to answer when someone else proves its id (the issue's figure)."""
SIMULTANEOUS = "ABORTED"
"""The status that means: my dial to you wins, wait for it."""


class Engine:
    """Everything of one GrpcTransport that lives on the I/O thread."""

    def __init__(self, io: IoThread, identity: Identity, config: LinkConfig, me: Peer) -> None:
        self.io = io
        self.loop = io.loop
        self.identity = identity
        self.config = config
        self.me = me
        self.address_is_guess = False
        self.kept: frozenset[Id] = frozenset()
        self.lanes: dict[Id, Lane] = {}
        self.server: Any = None
        self.inbox_in = 0  # bytes of data received; the transport counts what was taken
        self.control_in = 0
        self.paused = False
        self._room = asyncio.Event()
        self._committed: dict[Id, object] = {}
        self._arrivals: dict[Id, list[asyncio.Future[None]]] = {}
        self._tokens: dict[bytes, Link] = {}
        self._backoff: dict[Id, tuple[float, float]] = {}  # not before, and the wait it came from
        self._handshakes = 0
        self._closing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._host: GrpcTransport

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that the shutdown waits for."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- Start and end ------------------------------------------------------------------------

    async def start(self, host: GrpcTransport, listen: str, advertise: str) -> None:
        """Listen. Raises ConfigError."""
        self._host = host
        server = grpc.aio.server(options=grpc_options.server_options(self.config))
        server.add_generic_rpc_handlers((Service(self),))
        port = grpc_options.bind(server, listen)
        address, self.address_is_guess = grpc_options.advertised(listen, advertise, port)
        self.me = Peer(self.me.id, address, self.me.incarnation)
        await server.start()
        self.server = server
        self.spawn(self._sweep())

    async def stop(self) -> None:
        """Drain, say goodbye, end; within the grace."""
        self._closing = True
        grace = self.config.grace
        try:
            async with asyncio.timeout(grace):
                dials = [lane.dial for lane in self.lanes.values() if lane.dial and not lane.link]
                if dials:  # something is queued there; it gets a part of the time
                    await asyncio.wait(dials, timeout=grace / 3)
                for lane in list(self.lanes.values()):
                    if lane.link is not None:
                        lane.link.close("the node leaves")
                while self.lanes:
                    await self._wait_any(grace / 2)
        except TimeoutError:
            pass
        await self._cut_off()

    async def _wait_any(self, longest: float) -> None:
        working = [task for task in self._tasks if task is not asyncio.current_task()]
        if working:
            await asyncio.wait(working, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0.01)

    async def _cut_off(self) -> None:
        for lane in list(self.lanes.values()):
            if lane.link is not None:
                lane.link.force()
                lane.link.fail("the node leaves")
            else:
                self._end_lane(lane, "the node leaves")
        if self.server is not None:
            await self.server.stop(0.1)
        left = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in left:
            if task.get_coro().__name__ != "close":  # type: ignore[union-attr]
                task.cancel()
        if left:
            await asyncio.wait(left, timeout=1)

    # --- Lanes --------------------------------------------------------------------------------

    def take(self, outbox: deque[Lane]) -> None:
        """Called by the trio thread's hand-over: these lanes have something to do."""
        while outbox:
            lane = outbox.popleft()
            lane.scheduled = False
            self._kick(lane)

    def _kick(self, lane: Lane) -> None:
        if lane.ended:
            if lane.watched:
                self.drained(lane)
            return
        if lane.abandoned:
            return
        current = self.lanes.get(lane.peer.id)
        if current is not lane:
            if current is not None and not current.abandoned:
                return  # the peer dialled first: the trio thread moves the items when it hears of it
            self.lanes[lane.peer.id] = lane
        if lane.link is not None:
            lane.link.kick()
        elif lane.kill:
            self._end_lane(lane, lane.kill)
        elif lane.dial is None:
            lane.dial = self.spawn(self._reach(lane))

    def _end_lane(self, lane: Lane, reason: str | None) -> None:
        if lane.ended:
            return
        lane.ended = True
        if self.lanes.get(lane.peer.id) is lane:
            del self.lanes[lane.peer.id]
        self._host.post_ended(lane, reason)
        if lane.watched:
            self.drained(lane)

    def _opened(self, link: Link, peer: Peer, *, dialled: bool) -> None:
        lane = link.lane
        lane.link = link
        lane.peer = peer
        lane.dialled = dialled
        self.lanes[peer.id] = lane
        self._backoff.pop(peer.id, None)
        self._host.post_opened(lane)
        for waiting in self._arrivals.pop(peer.id, ()):
            if not waiting.done():
                waiting.set_result(None)
        self._evict(link)

    def _lane_for(self, peer: Peer) -> Lane:
        lane = self.lanes.get(peer.id)
        return lane if lane is not None and not lane.abandoned else Lane(peer)

    def link_to(self, id_: Id) -> Link | None:
        """The open link to a peer."""
        lane = self.lanes.get(id_)
        return lane.link if lane is not None else None

    def ended(self, link: Link, reason: str | None) -> None:
        """A link is over: failed for a reason, or closed."""
        self._tokens.pop(link.token, None)
        lane = link.lane
        if reason is not None:
            self._back_off(lane.peer.id, first=True)
        self._end_lane(lane, reason)

    # --- What links report --------------------------------------------------------------------

    def measured(self, lane: Lane, seconds: float) -> None:
        self._host.post_measured(lane, seconds)

    def drained(self, lane: Lane) -> None:
        lane.watched = False
        self._host.post_drained()

    def dropped(self, reason: str, count: int = 1) -> None:
        self._host.post_dropped(reason, count)

    async def received_control(self, lane: Lane, envelopes: Sequence[bytes], size: int) -> None:
        self.control_in += size
        self._host.post_control(lane, envelopes, size)
        if self.control_in - self._host.control_taken > self.config.control_queue:
            await self._wait_room()  # the trio thread is stuck: not even control is read blindly

    async def received_data(self, lane: Lane, frame: bytes) -> None:
        self.inbox_in += len(frame)
        self._host.post_data(lane, frame)
        if self.inbox_in - self._host.data_taken > self.config.inbox:
            await self._wait_room()

    async def _wait_room(self) -> None:
        self._room.clear()
        self.paused = True
        while not self.has_room():
            await self._room.wait()
            self._room.clear()

    def has_room(self) -> bool:
        """Whether the trio thread has taken at least half of what may wait."""
        data = self.inbox_in - self._host.data_taken
        control = self.control_in - self._host.control_taken
        return data <= self.config.inbox // 2 and control <= self.config.control_queue // 2

    def resume(self) -> None:
        """From the trio thread: there is room again."""
        self._room.set()

    # --- Dialling -----------------------------------------------------------------------------

    def _back_off(self, id_: Id, *, first: bool = False) -> None:
        _, last = self._backoff.get(id_, (0.0, 0.0))
        wait = self.config.reconnect_min if first or not last else last * 2
        wait = min(wait, self.config.reconnect_max)
        self._backoff.pop(id_, None)
        self._backoff[id_] = (self.loop.time() + wait, wait)
        if len(self._backoff) > self.config.max_links:
            del self._backoff[next(iter(self._backoff))]

    async def _reach(self, lane: Lane) -> None:
        """Open a link for a lane, or end it."""
        id_ = lane.peer.id
        try:
            not_before, _ = self._backoff.get(id_, (0.0, 0.0))
            wait = not_before - self.loop.time()
            if wait > 0:
                await self._arrival(id_, min(wait, self.config.connect_timeout))
                if lane.link is None and wait > self.config.connect_timeout:
                    raise Refused("it failed before, and it is too early to dial again", "back-off")
            if lane.link is None:
                await self.connect(lane.peer.address, id_)
        except Refused as refused:
            if lane.link is None:
                if refused.label != "back-off":
                    self._back_off(id_)
                self._end_lane(lane, str(refused))
        finally:
            lane.dial = None
            if lane.link is None and not lane.abandoned:
                self._end_lane(lane, "no link came about")

    async def _arrival(self, id_: Id, longest: float) -> None:
        """Wait until the peer's own dial arrives, but not too long."""
        if self.link_to(id_) is not None:
            return
        waiting = self.loop.create_future()
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
        deadline = self.loop.time() + self.config.connect_timeout
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._dial(address, expected)
            except TimeoutError:
                raise Refused(
                    f"nobody answered at {address} within {self.config.connect_timeout:g} s",
                    "no answer",
                ) from None
            except _TheirsWins as theirs:
                await self._arrival(theirs.id, self.config.connect_timeout / 3)
                link = self.link_to(theirs.id)
                if link is not None:
                    return link.lane.peer
                deadline = max(deadline, self.loop.time() + self.config.connect_timeout / 3)
                if self._closing:
                    raise Refused("this node is closing", "closing") from None

    async def _dial(self, address: str, expected: Id | None) -> Peer:
        nonce = handshake.new_nonce()
        mine = handshake.Opening(self.me.id, nonce, self.me.incarnation)
        channel = grpc_options.make_channel(address, self.config)
        call = channel.stream_stream(CONTROL)(metadata=handshake.opening_metadata(mine))
        ours = object()
        other: handshake.Opening | None = None
        keep = False
        try:
            other = await self._read_opening(call, address, expected)
            link = self.link_to(other.id)
            if link is not None:
                return link.lane.peer
            self._committed[other.id] = ours
            self._learn_own_address(call)
            hello = handshake.make_hello(self.identity, self.me, other, dialer=True)
            await call.write(codec.encode_hello(hello))
            answer = await self._read_hello(call)
            peer = handshake.check_hello(answer, other, self.me.id, nonce, dialer=False)
            link = self.link_to(other.id)
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
            if other is not None and self._committed.get(other.id) is ours:
                del self._committed[other.id]
            if not keep:
                call.cancel()
                self.spawn(channel.close())

    async def _read_opening(
        self, call: Any, address: str, expected: Id | None
    ) -> handshake.Opening:
        metadata = tuple(await call.initial_metadata() or ())
        if not metadata or call.done():
            await call.read()  # raises what went wrong
        other = handshake.read_opening(metadata)
        if other.id == self.me.id:
            same = other.incarnation == self.me.incarnation
            raise Refused(
                f"{address} is this node itself"
                if same
                else f"the node at {address} has this node's own id: its key file was copied",
                "own id",
            )
        if expected is not None and other.id != expected:
            raise Refused(
                f"expected {short(expected)} at {address}, found {short(other.id)}", "another id"
            )
        return other

    async def _read_hello(self, call: Any) -> codec.Hello:
        frame = await call.read()
        if frame is grpc.aio.EOF:
            raise Refused("it hung up during the handshake", "hung up")
        return codec.decode_hello(frame)

    def _start_dialled(self, peer: Peer, token: bytes, channel: Any, call: Any) -> None:
        link = Link(self, self._lane_for(peer), channel)
        self._opened(link, peer, dialled=True)
        data = channel.stream_stream(DATA)(metadata=((handshake.TOKEN_KEY, token),))
        link.start_control(ClientStream(call))
        link.start_data(ClientStream(data))

    def _refusal(self, error: Any, address: str, other: handshake.Opening | None) -> Exception:
        code = error.code()
        text = explain(error)
        if code.name == SIMULTANEOUS and other is not None:
            return _TheirsWins(other.id)
        if code is grpc.StatusCode.UNAVAILABLE and other is None:
            return Refused(f"nobody answers at {address} ({text})", "no answer")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return Refused(f"{address} is a gRPC server, but not an overlaymq node", "not a node")
        return Refused(f"{address} refused the link: {text}", "refused by the other side")

    def _learn_own_address(self, call: Any) -> None:
        """Listening on a wildcard: others reach this node where it faced its first seed."""
        if not self.address_is_guess:
            return
        kind, _, address = call.peer().partition(":")
        if kind not in ("ipv4", "ipv6"):
            return
        host, port = grpc_options.split(address.replace("%5B", "[").replace("%5D", "]"))
        facing = grpc_options.local_address_facing(host, port)
        if facing is not None:
            _, own_port = grpc_options.split(self.me.address)
            self.me = Peer(self.me.id, grpc_options.join(facing, own_port), self.me.incarnation)
            self.address_is_guess = False
            self._host.post_address(self.me)

    # --- Answering ----------------------------------------------------------------------------

    async def serve_control(self, context: Any) -> None:
        """A peer dialled."""
        if self._handshakes >= self.config.max_links:
            raise Refused("too many handshakes at once", "too many", "RESOURCE_EXHAUSTED")
        self._handshakes += 1
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                link = await self._welcome(context)
        except TimeoutError:
            raise Refused("no hello in time", "no hello in time", "DEADLINE_EXCEEDED") from None
        except codec.Malformed as error:
            raise Refused(f"malformed hello: {error}", "malformed hello") from None
        finally:
            self._handshakes -= 1
        await self._serve(link, link.start_control(ServerStream(context)))

    async def serve_data(self, context: Any) -> None:
        """A dialer's second stream; its token says which link it belongs to."""
        metadata = dict(context.invocation_metadata() or ())
        link = self._tokens.pop(metadata.get(handshake.TOKEN_KEY, b""), None)
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
        mine = handshake.Opening(self.me.id, nonce, self.me.incarnation)
        await context.send_initial_metadata(handshake.opening_metadata(mine))
        frame = await context.read()
        if frame is grpc.aio.EOF:
            raise Refused("no hello", "no hello")
        peer = handshake.check_hello(
            codec.decode_hello(frame), other, self.me.id, nonce, dialer=True
        )
        await self._check_incumbent(peer)
        self._check_admission(peer)
        link = Link(self, self._lane_for(peer))
        link.token = handshake.new_nonce()
        self._tokens[link.token] = link
        self._opened(link, peer, dialled=False)
        hello = handshake.make_hello(self.identity, self.me, other, dialer=False, token=link.token)
        try:
            await context.write(codec.encode_hello(hello))
        except BaseException:
            link.fail("the other side is gone")
            raise
        self.loop.call_later(self.config.connect_timeout, self._check_data, link)
        return link

    def _check_data(self, link: Link) -> None:
        if link.state is State.OPEN and not link.has_data:
            link.fail("it opened no data stream")

    async def _check_incumbent(self, peer: Peer) -> None:
        incumbent = self.link_to(peer.id)
        if incumbent is None:
            return
        if (
            incumbent.state is State.CLOSING
        ):  # the other side has finished with it, or it would not dial
            incumbent.force()
            return
        answered = asyncio.Event()
        incumbent.ping(lambda _: answered.set())
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
        if self._closing:
            raise Refused("the node leaves", "closing", "UNAVAILABLE")
        if peer.id == self.me.id:
            raise Refused("that is this node's own id", "own id")
        if peer.id in self._committed and self.me.id < peer.id:
            raise Refused("simultaneous dial: mine to you is kept", "", SIMULTANEOUS)
        if self.link_to(peer.id) is not None:
            raise Refused("another link of this id came first", "id in use", "ALREADY_EXISTS")
        if len(self.lanes) >= self.config.max_links and self._least_used(None) is None:
            raise Refused("too many links", "too many links", "RESOURCE_EXHAUSTED")

    # --- Housekeeping -------------------------------------------------------------------------

    def _open_links(self) -> list[Link]:
        links = (lane.link for lane in self.lanes.values())
        return [link for link in links if link is not None and link.state is State.OPEN]

    def _least_used(self, newest: Link | None) -> Link | None:
        free = [
            link
            for link in self._open_links()
            if link is not newest and link.lane.peer.id not in self.kept
        ]
        return min(free, key=lambda link: link.last_used, default=None)

    def _evict(self, newest: Link) -> None:
        while len(self._open_links()) > self.config.max_links:
            link = self._least_used(newest)
            if link is None:
                return
            link.close("too many links")

    async def _sweep(self) -> None:
        """Close links that nobody needs."""
        idle = self.config.idle_timeout
        while not self._closing:
            await asyncio.sleep(idle / 4)
            now = self.loop.time()
            for link in self._open_links():
                lane = link.lane
                unused = not (lane.control or lane.data) and now - link.last_used > idle
                if unused and lane.peer.id not in self.kept:
                    link.close("idle")


class _TheirsWins(Exception):
    def __init__(self, id_: Id) -> None:
        super().__init__()
        self.id = id_


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The two methods, as raw bytes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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
        await self._contained(self._engine.serve_control(context), context)

    async def _data(self, _requests: Any, context: Any) -> None:
        await self._contained(self._engine.serve_data(context), context)

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
