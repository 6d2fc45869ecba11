"""One link: two streams, and a reader and a writer for each.

A writer sends whatever is waiting when it is free, as one frame: an idle link writes at once, a loaded
one grows its frames up to ``frame_size``. gRPC allows one write at a time, and its completion is the
backpressure of the network.

    OPEN --close(), or a goodbye heard--> CLOSING --all four done--> ENDED (closed)
    OPEN, CLOSING --anything unexpected--> ENDED (failed)

To close, a side writes what it has, says goodbye on the control stream, half-closes both streams and
reads on until the other side has done the same. So nothing that was written is lost in a close.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from overlaymq.transport import codec
from overlaymq.transport.grpc_core import grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from overlaymq.transport.grpc_engine import Engine
    from overlaymq.transport.grpc_lane import Lane

GOODBYE_WAIT = 1.0
"""How long one stream's end may precede the goodbye on the other: a guess."""
MAX_PONGS = 1024
"""Frames of pongs waiting to be written before the link is given up: a guess."""


class Stream(Protocol):
    """What client and server streams have in common."""

    async def read(self) -> bytes | None: ...
    async def write(self, frame: bytes) -> None: ...
    async def half_close(self) -> None: ...
    def abort(self) -> None: ...


class ClientStream:
    """The dialer's end."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.write = call.write
        self.half_close = call.done_writing

    async def read(self) -> bytes | None:
        frame = await self._call.read()
        return None if frame is grpc.aio.EOF else frame

    def abort(self) -> None:
        self._call.cancel()


class ServerStream:
    """The listener's end: it is half-closed when its handler returns (see Engine)."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.write = context.write

    async def read(self) -> bytes | None:
        frame = await self._context.read()
        return None if frame is grpc.aio.EOF else frame

    async def half_close(self) -> None:
        pass

    def abort(self) -> None:
        pass  # the handler waits for the tasks, which are cancelled


class State(enum.Enum):
    """See the module's text."""

    OPEN = "open"
    CLOSING = "closing"
    ENDED = "ended"


class Writer:
    """Drains one queue into one stream."""

    def __init__(
        self, link: Link, stream: Stream, queue: deque[bytes], urgent: deque[bytes]
    ) -> None:
        self._link = link
        self._stream = stream
        self._queue = queue
        self._urgent = urgent  # goes ahead of the queue
        self._idle: asyncio.Future[None] | None = None
        self._limit = link.engine.config.frame_size

    def kick(self) -> None:
        """Wake the writer if it has something to do: a step of it for nothing costs as much as a message."""
        due = self._queue or self._urgent or self._link.state is not State.OPEN
        if due and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def run(self, written: Callable[[int], None], last: Callable[[], bytes]) -> None:
        """Until the link closes and the queue is empty; ``last`` makes the final frame."""
        write = self._stream.write
        while True:
            while not self._queue and not self._urgent:
                if self._link.state is not State.OPEN:
                    if final := last():
                        await write(final)
                    await self._stream.half_close()
                    return
                self._idle = self._link.engine.loop.create_future()
                await self._idle
            frame, size = self._next_frame()
            await write(frame)
            written(size)

    def _next_frame(self) -> tuple[bytes, int]:
        """As many whole parts as fit, at least one; and how many bytes came from the queue."""
        parts: list[bytes] = []
        room = self._limit + self._limit // 16  # headers may go beyond: four full runs make a frame
        while self._urgent:
            parts.append(self._urgent.popleft())
        size = 0
        queue = self._queue
        while queue:
            length = len(queue[0])
            if parts and size + length > room:
                break
            parts.append(queue.popleft())
            size += length
        return (parts[0] if len(parts) == 1 else b"".join(parts)), size


class Link:
    """See the module's text. ``lane`` is where its messages come from."""

    def __init__(self, engine: Engine, lane: Lane, channel: Any = None) -> None:
        self.engine = engine
        self.lane = lane
        self.state = State.OPEN
        self.token = b""
        self.last_used = engine.loop.time()
        self._channel = channel  # the dialer's
        self._streams: list[Stream] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unfinished = 4  # also while the data stream is still on its way
        self._urgent: deque[bytes] = deque()  # pings and pongs
        self._control: Writer | None = None
        self._data: Writer | None = None
        self._goodbye_heard = asyncio.Event()
        self._pings: dict[int, Callable[[float, int | None], None]] = {}
        self._serial = 0
        self._malformed = 0
        self._force: asyncio.TimerHandle | None = None
        self._reason = ""

    # --- Life ---------------------------------------------------------------------------------

    def start_control(self, stream: Stream) -> list[asyncio.Task[None]]:
        """Begin to read and write the control stream."""
        writer = self._control = Writer(self, stream, self.lane.control, self._urgent)
        tasks = [
            self._task(lambda: self._read_control(stream)),
            self._task(lambda: writer.run(self._control_written, self._goodbye)),
        ]
        self._streams.append(stream)
        self.kick()
        return tasks

    def start_data(self, stream: Stream) -> list[asyncio.Task[None]]:
        """The same for the data stream."""
        writer = self._data = Writer(self, stream, self.lane.data, deque())
        tasks = [
            self._task(lambda: self._read_data(stream)),
            self._task(lambda: writer.run(self._data_written, bytes)),
        ]
        self._streams.append(stream)
        return tasks

    @property
    def has_data(self) -> bool:
        return self._data is not None

    def _task(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task = self.engine.spawn(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """A reader or writer: its normal end counts towards the close, any other is a failure.

        The work is made here, because a link that fails at once cancels this before its first step."""
        try:
            await work()
        except asyncio.CancelledError:
            self.fail("the stream was cancelled")  # no-op when it was this side that did it
            raise
        except Exception as error:  # gRPC raises a dozen types here; all mean that the link broke
            self.fail(explain(error))
            return
        self._unfinished -= 1
        if not self._unfinished:
            self._end(None)

    def kick(self) -> None:
        """There may be something to do: the lane has more, or the link is closing."""
        lane = self.lane
        if lane.kill:
            self.fail(lane.kill)
            return
        while lane.probed < lane.probes:
            lane.probed += 1
            self.ping(lambda seconds, ahead: self.engine.measured(lane, seconds, ahead))
        for writer in (self._control, self._data):
            if writer is not None:
                writer.kick()
        if lane.watched and lane.backlog == 0:
            self.engine.drained(lane)

    def close(self, reason: str) -> None:
        """End the link as wished."""
        if self.state is not State.OPEN:
            return
        self.state = State.CLOSING
        self._reason = reason
        grace = self.engine.config.grace
        self._force = self.engine.loop.call_later(grace, self.force)
        self.kick()

    def force(self) -> None:
        """The other side takes too long over its goodbye."""
        if self.state is State.CLOSING:
            self._end(None)

    def fail(self, reason: str) -> None:
        """End the link now."""
        if self.state is not State.ENDED:
            self._end(reason)

    def _end(self, reason: str | None) -> None:
        if self.state is State.ENDED:
            return
        self.state = State.ENDED
        if self._force is not None:
            self._force.cancel()
        current = asyncio.current_task(self.engine.loop)
        unfinished = [task for task in self._tasks if task is not current]
        if unfinished or reason is not None:
            for stream in self._streams:
                stream.abort()
        for task in unfinished:
            task.cancel()
        if self._channel is not None:
            self.engine.spawn(self._channel.close())
        self._pings.clear()
        self.engine.ended(self, reason)

    # --- Control ------------------------------------------------------------------------------

    def ping(self, answered: Callable[[float, int | None], None]) -> None:
        """Measure the round trip between the two loops, and by how many nanoseconds the other wall
        clock is ahead, if it is told."""
        self._serial += 1
        started, wall = self.engine.loop.time(), time.time_ns()

        def answer(now: float, clock: int | None) -> None:
            took = now - started
            answered(took, None if clock is None else clock - wall - round(took * 5e8))

        self._pings[self._serial] = answer
        if len(self._pings) > 64:  # only a peer that never answers gets here
            del self._pings[next(iter(self._pings))]
        self._say(codec.encode_ping(self._serial))

    def _say(self, part: bytes) -> None:
        self._urgent.append(part)
        if self._control is not None:
            self._control.kick()

    def _goodbye(self) -> bytes:
        return codec.encode_goodbye(codec.Goodbye(self._reason))

    def _control_written(self, size: int) -> None:
        self.lane.control_written += size
        self.last_used = self.engine.loop.time()

    async def _read_control(self, stream: Stream) -> None:
        while self.state is not State.ENDED:  # a frame may be the reason to give the link up
            raw = await stream.read()
            if raw is None:
                break
            try:
                frame = codec.decode_control_frame(raw)
            except codec.Malformed as error:
                self._count_malformed(str(error))
                continue
            await self._on_control(frame, len(raw))
        if not self._goodbye_heard.is_set():
            self.fail("the other side hung up")

    async def _on_control(self, frame: codec.ControlFrame, size: int) -> None:
        if frame.pings:
            mine = time.time_ns()
            self._say(b"".join([codec.encode_pong(number, mine) for number in frame.pings]))
            if len(self._urgent) > MAX_PONGS:
                self.fail("it asks for answers and does not read them")
                return
        clocks: Sequence[int | None] = frame.clocks
        if len(clocks) != len(frame.pongs):  # an older node does not tell
            clocks = [None] * len(frame.pongs)
        for number, clock in zip(frame.pongs, clocks, strict=True):
            answered = self._pings.pop(number, None)
            if answered is not None:
                answered(self.engine.loop.time(), clock)
        if frame.envelopes:
            self.last_used = self.engine.loop.time()
            if not self.engine.received_control(self.lane, frame.envelopes, size):
                await self.engine.wait_room()
        if frame.goodbye is not None:
            if frame.goodbye.refused:
                self.fail(f"the other side gave up the link: {frame.goodbye.reason}")
                return
            self._goodbye_heard.set()
            self.close("goodbye")

    def _count_malformed(self, reason: str) -> None:
        self._malformed += 1
        self.engine.dropped(f"malformed: {reason}")
        if self._malformed > self.engine.config.malformed_frames:
            self.fail("too many malformed frames")

    # --- Data ---------------------------------------------------------------------------------

    def _data_written(self, size: int) -> None:
        lane = self.lane
        lane.data_written += size
        self.last_used = self.engine.loop.time()
        if lane.watched and lane.backlog == 0:
            self.engine.drained(lane)

    async def _read_data(self, stream: Stream) -> None:
        while True:
            frame = await stream.read()
            if frame is None:
                break
            self.last_used = self.engine.loop.time()
            if not self.engine.received_data(self.lane, frame):
                await self.engine.wait_room()
        if not self._goodbye_heard.is_set():
            # The end of this stream may overtake the goodbye on the other.
            await asyncio.wait_for(self._goodbye_heard.wait(), GOODBYE_WAIT)


def explain(error: BaseException) -> str:
    """A gRPC error in words for a log line."""
    if isinstance(error, grpc.aio.AioRpcError):
        details = str(error.details() or "").splitlines()
        return details[0][:200] if details else error.code().name.lower()
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}"[:200] if str(error) else type(error).__name__
