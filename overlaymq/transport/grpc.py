"""The gRPC transport, as its node sees it.

    node -- send, send_batch --> Lane --> Engine, Link (in turns of the loop) --> gRPC
    node <-- Inbox <-- Mailbox <-- Engine, Link (in turns of the loop)        <-- gRPC

Messages are encoded here and cross to the links as bytes; what arrives is decoded here. The links open only
what concerns themselves (pings, goodbyes). The node is never called from inside one of its own calls, nor in
the middle of a link's work: what the links have for it waits in the mailbox until they are done.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from overlaymq.errors import Closed, LinkRefused, OwnAddress
from overlaymq.messages import Batch, Peer
from overlaymq.transport import _io_loop, codec, grpc_options
from overlaymq.transport.base import LinkInfo, Transport
from overlaymq.transport.grpc_dialer import ITSELF
from overlaymq.transport.grpc_engine import Engine
from overlaymq.transport.grpc_lane import Lane, Mailbox
from overlaymq.transport.handshake import Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Sequence

    from overlaymq.config import LinkConfig
    from overlaymq.identity import Identity
    from overlaymq.ids import Id
    from overlaymq.messages import Message
    from overlaymq.transport.base import Inbox

__all__ = ["GrpcTransport"]

T = TypeVar("T")
log = logging.getLogger("overlaymq.transport")


@functools.cache
def _warn_once() -> None:
    log.warning("links are authenticated but NOT encrypted yet: use trusted networks only")


class GrpcTransport(Transport):
    """See Transport for the contract. ``peer`` is this node's own address as told to others; when
    listening on a wildcard it becomes final with the first dial."""

    def __init__(
        self,
        identity: Identity,
        config: LinkConfig,
        listen: str,
        advertise: str = "",
        incarnation: int = 0,
    ) -> None:
        self.peer = Peer(identity.id, "", incarnation)
        self.control_taken = 0  # bytes; the engine compares them with what it received
        self.data_taken = 0
        self._identity = identity
        self._config = config
        self._listen = listen
        self._advertise = advertise
        self._pid = os.getpid()
        self._lanes: dict[Id, Lane] = {}
        self._outbox: deque[Lane] = deque()
        self._handed_over = False
        self._closed = False
        self._io: _io_loop.IoLoop
        self._engine: Engine
        self._inbox: Inbox
        self._mailbox: Mailbox

    # --- Life ---------------------------------------------------------------------------------

    async def start(self, inbox: Inbox) -> Peer:
        """See Transport. Raises ConfigError when the address cannot be used."""
        _io_loop.check_process(self._pid)
        grpc_options.split(self._listen)
        self._inbox = inbox
        self._io = _io_loop.acquire()
        self._mailbox = Mailbox(self._io.posted, self._inbox_raised)
        self._io.takers.append(self._mailbox.take)
        self._engine = Engine(self._io, self._identity, self._config, self.peer)
        try:
            with trio.CancelScope(shield=True):  # brief; a server that starts unseen never stops
                await self._perform(self._engine.start(self, self._listen, self._advertise))
        except BaseException:  # cancelled or failed, what was started must end; raised again below
            self._closed = True
            with trio.CancelScope(shield=True):
                await self._perform(self._engine.stop())
                self._io.takers.remove(self._mailbox.take)
                await _io_loop.release(self._io)
            raise
        self.peer = self._engine.me
        _warn_once()
        log.info("listening on %s", self.peer.address)
        return self.peer

    async def aclose(self) -> None:
        """See Transport."""
        if self._closed or not hasattr(self, "_engine"):
            self._closed = True
            await trio.lowlevel.checkpoint()
            return
        _io_loop.check_process(self._pid)
        self._closed = True
        with trio.CancelScope(shield=True):
            with trio.move_on_after(self._config.grace + 2):  # the engine keeps the grace
                await self._perform(self._engine.stop())
            self._mailbox.closed = True
            self._io.takers.remove(self._mailbox.take)
            await _io_loop.release(self._io)
        self._lanes.clear()

    async def connect(self, address: str) -> Peer:
        """See Transport."""
        self._check()
        grpc_options.split(address)
        try:
            return await self._perform(self._engine.dialer.connect(address))
        except Refused as refused:
            kind = OwnAddress if refused.label == ITSELF else LinkRefused
            raise kind(str(refused)) from None

    async def _perform(self, work: Coroutine[Any, Any, T]) -> T:
        """On the loop; the outcome comes after the events that it caused."""
        return await self._io.perform(work, self._mailbox.post)

    def _check(self) -> None:
        _io_loop.check_process(self._pid)
        if self._closed:
            raise Closed("the node has been closed")

    # --- Sending ------------------------------------------------------------------------------

    def send(self, peer: Peer, message: Message) -> None:
        """See Transport."""
        lane = self._lane(peer)
        if lane is None:
            return
        part = codec.encode(message)
        size = len(part)
        waiting = lane.control_handed - lane.control_written
        if waiting + size > self._config.control_queue or size > self._config.max_frame:
            self.post_dropped("control queue full", 1)
            lane.kill = "the control queue is full"
        else:
            lane.control.append(part)
            lane.control_handed += size
        self._schedule(lane)

    def send_batch(self, peer: Peer, batch: Batch) -> None:
        """See Transport."""
        lane = self._lane(peer)
        if lane is None:
            return
        part = codec.encode_batch(batch)
        size = len(part)
        if lane.backlog + size > self._config.data_queue:
            self.post_dropped("data queue full", batch.count)
        elif size > self._config.max_frame:
            self.post_dropped("batch larger than a frame", batch.count)
        else:
            lane.data.append(part)
            lane.data_handed += size
            self._schedule(lane)
            self._io.write()  # the first child has it while the last is still to be served

    def flush(self) -> None:
        """See Transport."""
        if self._handed_over:
            self._io.write()

    def backlog(self, peer: Peer) -> int:
        """See Transport."""
        lane = self._lanes.get(peer.id)
        return lane.backlog if lane is not None else 0

    def watch(self, peer: Peer) -> None:
        """See Transport."""
        lane = self._lanes.get(peer.id)
        if lane is None:
            self.post_drained()
        else:
            lane.watched = True
            self._schedule(lane)

    def probe(self, peer: Peer) -> None:
        """See Transport."""
        lane = self._lane(peer)
        if lane is not None:
            lane.probes += 1
            self._schedule(lane)

    def keep(self, peers: Collection[Id]) -> None:
        """See Transport."""
        self._check()
        self._engine.kept = frozenset(peers)

    def links(self) -> tuple[LinkInfo, ...]:
        """See Transport."""
        return tuple(
            LinkInfo(lane.peer, lane.dialled, lane.backlog)
            for lane in self._lanes.values()
            if lane.link is not None and not lane.ended
        )

    def _lane(self, peer: Peer) -> Lane | None:
        _io_loop.check_process(self._pid)
        if self._closed:
            self.post_dropped("sent after close", 1)
            return None
        lane = self._lanes.get(peer.id)
        if lane is None:
            if peer.id == self.peer.id:
                self.post_dropped("sent to itself", 1)
                return None
            lane = self._lanes[peer.id] = Lane(peer)
        return lane

    def _schedule(self, lane: Lane) -> None:
        if not lane.scheduled:
            lane.scheduled = True
            self._outbox.append(lane)
            if not self._handed_over:  # after the append: `_take` clears it before it looks
                self._handed_over = True
                self._io.call(self._take)

    def _take(self) -> None:
        """In a turn of the loop."""
        self._handed_over = False
        self._engine.take(self._outbox)

    # --- From the links -----------------------------------------------------------------------

    def post_opened(self, lane: Lane) -> None:
        self._mailbox.post(self._on_opened, lane)

    def post_ended(self, lane: Lane, reason: str | None) -> None:
        self._mailbox.post(self._on_ended, lane, reason)

    def post_control(self, lane: Lane, envelopes: Sequence[bytes], size: int) -> None:
        self._mailbox.post(self._on_control, lane, envelopes, size)

    def post_data(self, lane: Lane, frame: bytes) -> None:
        self._mailbox.post(self._on_data, lane, frame)

    def post_measured(self, lane: Lane, seconds: float, ahead: int | None) -> None:
        self._mailbox.post(self._inbox.measured, lane.peer, seconds, ahead)

    def post_drained(self) -> None:
        self._mailbox.post(self._inbox.drained)

    def post_dropped(self, reason: str, count: int) -> None:
        self._mailbox.post(self._inbox.dropped, reason, count)

    def post_address(self, me: Peer) -> None:
        self._mailbox.post(setattr, self, "peer", me)

    # --- Out of the mailbox -------------------------------------------------------------------

    def _on_opened(self, lane: Lane) -> None:
        id_ = lane.peer.id
        waiting = self._lanes.get(id_)
        self._lanes[id_] = lane
        if waiting is not None and waiting is not lane:
            waiting.abandoned = True
            waiting.move_to(lane)
            self._schedule(lane)
        self._inbox.opened(lane.peer)

    def _on_ended(self, lane: Lane, reason: str | None) -> None:
        id_ = lane.peer.id
        if self._lanes.get(id_) is lane:
            del self._lanes[id_]
            waiting = lane.control or lane.data or lane.probes > lane.probed
            if reason is None and waiting and not self._closed:
                # Handed over after the last frame was written: not lost, but for the next link.
                fresh = self._lanes[id_] = Lane(lane.peer)
                lane.move_to(fresh)
                self._schedule(fresh)
        if reason is None:
            self._inbox.closed(lane.peer)
        else:
            self._inbox.failed(lane.peer, reason, lane.gone)

    def _on_control(self, lane: Lane, envelopes: Sequence[bytes], size: int) -> None:
        self.control_taken += size
        if self._engine.paused:
            self._made_room()
        for envelope in envelopes:
            try:
                message = codec.decode(envelope)
            except codec.Malformed as error:
                self._malformed(lane, str(error))
                continue
            self._deliver(lane, message)

    def _on_data(self, lane: Lane, frame: bytes) -> None:
        self.data_taken += len(frame)
        if self._engine.paused:
            self._made_room()
        try:
            batches = codec.decode_data_frame(frame)
        except codec.Malformed as error:
            self._malformed(lane, str(error))
            return
        for batch in batches:
            self._deliver(lane, batch)

    def _deliver(self, lane: Lane, message: Message) -> None:
        try:
            self._inbox.received(lane.peer, message)
        except Exception:  # one message that the node cannot take must not cost its neighbours
            log.exception("a node could not take a %s", type(message).__name__)
            self._inbox_raised()

    def _inbox_raised(self) -> None:
        with contextlib.suppress(Exception):
            self._inbox.dropped("the node raised an exception", 1)

    def _malformed(self, lane: Lane, reason: str) -> None:
        self._inbox.dropped(f"malformed: {reason}", 1)
        lane.malformed += 1
        if lane.malformed > self._config.malformed_frames and not lane.kill:
            lane.kill = "too many malformed messages"
            self._schedule(lane)

    def _made_room(self) -> None:
        if self._engine.has_room():
            self._engine.paused = False
            self._io.call(self._engine.resume)
