"""A node's links, in turns of the loop: lanes and their links, idleness, shutdown.

At most one link per peer, whoever dialled (grpc_dialer.py, grpc_listener.py). Queues belong to lanes,
not to dials or links, so nothing queued is lost while it is being settled which link stays.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from overlaymq.messages import Peer
from overlaymq.transport import grpc_options
from overlaymq.transport.grpc_core import grpc
from overlaymq.transport.grpc_dialer import Dialer
from overlaymq.transport.grpc_lane import Lane
from overlaymq.transport.grpc_link import Link, State
from overlaymq.transport.grpc_listener import Listener

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Coroutine, Sequence

    from overlaymq.config import LinkConfig
    from overlaymq.identity import Identity
    from overlaymq.ids import Id
    from overlaymq.transport._io_loop import IoLoop
    from overlaymq.transport.grpc import GrpcTransport

log = logging.getLogger("overlaymq.transport")


class Engine:
    """Everything of one GrpcTransport that lives on the loop."""

    def __init__(self, io: IoLoop, identity: Identity, config: LinkConfig, me: Peer) -> None:
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
        self.dialer = Dialer(self)
        self.listener = Listener(self)
        self.closing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.host: GrpcTransport

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that the shutdown waits for."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- Start and end ------------------------------------------------------------------------

    async def start(self, host: GrpcTransport, listen: str, advertise: str) -> None:
        """Listen. Raises ConfigError."""
        self.host = host
        server = grpc.aio.server(options=grpc_options.server_options(self.config))
        server.add_generic_rpc_handlers((self.listener,))
        port = grpc_options.bind(server, listen)
        address, self.address_is_guess = grpc_options.advertised(listen, advertise, port)
        self.me = Peer(self.me.id, address, self.me.incarnation)
        await server.start()
        self.server = server
        self.spawn(self._sweep())

    async def stop(self) -> None:
        """Drain, say goodbye, end; within the grace."""
        self.closing = True
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
                self.end_lane(lane, "the node leaves")
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
        """These lanes have something to do."""
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
                return  # the peer dialled first: the node's side moves the items when it hears of it
            self.lanes[lane.peer.id] = lane
        if lane.link is not None:
            lane.link.kick()
        elif lane.kill:
            self.end_lane(lane, lane.kill)
        elif lane.dial is None:
            lane.dial = self.spawn(self.dialer.reach(lane))

    def end_lane(self, lane: Lane, reason: str | None) -> None:
        if lane.ended:
            return
        lane.ended = True
        if self.lanes.get(lane.peer.id) is lane:
            del self.lanes[lane.peer.id]
        if not lane.abandoned:
            self.host.post_ended(lane, reason)
        if lane.watched:
            self.drained(lane)

    def opened(self, link: Link, peer: Peer, *, dialled: bool) -> None:
        lane = link.lane
        lane.link = link
        lane.peer = peer
        lane.dialled = dialled
        self.lanes[peer.id] = lane
        self.host.post_opened(lane)
        self.dialer.arrived(peer.id)
        self._evict(link)

    def lane_for(self, peer: Peer) -> Lane:
        lane = self.lanes.get(peer.id)
        return lane if lane is not None and not lane.abandoned else Lane(peer)

    def link_to(self, id_: Id) -> Link | None:
        """The open link to a peer."""
        lane = self.lanes.get(id_)
        return lane.link if lane is not None else None

    def ended(self, link: Link, reason: str | None) -> None:
        """A link is over: failed for a reason, or closed."""
        self.listener.tokens.pop(link.token, None)
        lane = link.lane
        if reason is not None:
            self.dialer.back_off(lane.peer.id, first=True)
        self.end_lane(lane, reason)

    # --- What links report --------------------------------------------------------------------

    def measured(self, lane: Lane, seconds: float, ahead: int | None) -> None:
        self.host.post_measured(lane, seconds, ahead)

    def drained(self, lane: Lane) -> None:
        lane.watched = False
        self.host.post_drained()

    def dropped(self, reason: str, count: int = 1) -> None:
        self.host.post_dropped(reason, count)

    def received_control(self, lane: Lane, envelopes: Sequence[bytes], size: int) -> bool:
        """Hand them over; whether there is room for more: not even control is read blindly."""
        self.control_in += size
        self.host.post_control(lane, envelopes, size)
        return self.control_in - self.host.control_taken <= self.config.control_queue

    def received_data(self, lane: Lane, frame: bytes) -> bool:
        """Hand it over; whether there is room for more."""
        self.inbox_in += len(frame)
        self.host.post_data(lane, frame)
        return self.inbox_in - self.host.data_taken <= self.config.inbox

    async def wait_room(self) -> None:
        """Until the node has taken enough of what waits."""
        while True:
            self._room.clear()
            self.paused = True  # before the check: the node's side looks at it after each item
            if self.has_room():
                return
            await self._room.wait()

    def has_room(self) -> bool:
        """Whether the node has taken at least half of what may wait."""
        data = self.inbox_in - self.host.data_taken
        control = self.control_in - self.host.control_taken
        return data <= self.config.inbox // 2 and control <= self.config.control_queue // 2

    def resume(self) -> None:
        """There is room again."""
        self._room.set()

    # --- Housekeeping -------------------------------------------------------------------------

    def _open_links(self) -> list[Link]:
        links = (lane.link for lane in self.lanes.values())
        return [link for link in links if link is not None and link.state is State.OPEN]

    def least_used(self, newest: Link | None) -> Link | None:
        free = [
            link
            for link in self._open_links()
            if link is not newest and link.lane.peer.id not in self.kept
        ]
        return min(free, key=lambda link: link.last_used, default=None)

    def _evict(self, newest: Link) -> None:
        while len(self._open_links()) > self.config.max_links:
            link = self.least_used(newest)
            if link is None:
                return
            link.close("too many links")

    async def _sweep(self) -> None:
        """Close links that nobody needs."""
        idle = self.config.idle_timeout
        while not self.closing:
            await asyncio.sleep(idle / 4)
            now = self.loop.time()
            for link in self._open_links():
                lane = link.lane
                unused = not (lane.control or lane.data) and now - link.last_used > idle
                if unused and lane.peer.id not in self.kept:
                    link.close("idle")
