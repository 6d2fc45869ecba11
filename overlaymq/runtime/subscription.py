"""Subscriptions: a bounded buffer between the node and the application's ``async for``.

The buffer holds batches; ``when_full`` says what happens when they hold more messages or bytes than the
bounds. ``block`` keeps a batch's credit back, so that the publisher slows down or the topic's flow mode
decides; it may overshoot by one batch. The dropping policies are exact to the message. Everything dropped
is counted and announced as ``Lagged``.

Receiving is a cancellation point every time and a scheduling point every 64 messages (a full checkpoint
costs more than the message). A message is taken in the same step that returns it, so cancelling a receive
loses nothing. Each iteration over a subscription takes from the same buffer.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec
import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from overlaymq.errors import BufferFull, Closed, ConfigError
from overlaymq.events import Lagged, Missed, Ready, Repaired
from overlaymq.runtime.message import Arrived
from overlaymq.trace.schema import CLOSED
from overlaymq.transport.codec import Malformed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from overlaymq.config import DeliveryConfig
    from overlaymq.core.flow import Transit
    from overlaymq.events import SubscriptionEvent
    from overlaymq.messages import Batch, Descriptor
    from overlaymq.runtime.driver import Driver
    from overlaymq.runtime.message import Message

CHECKPOINT_MASK = 63  # every 64 messages; design.md section 3
FULL = "the buffer is full"
POLICIES = ("block", "drop_oldest", "drop_newest", "latest", "fail")


class Last(msgspec.Struct, frozen=True):
    """``since=Last(n)``: begin with up to n recent messages from the root's history."""

    count: int


class SubscriptionStatistics(msgspec.Struct, frozen=True):
    """What a subscription has seen. ``delivered`` = ``taken`` + ``dropped`` + ``buffered``."""

    delivered: int
    taken: int
    dropped: int
    skipped_upstream: int
    missed: int
    malformed: int
    buffered: int
    buffered_bytes: int
    events_dropped: int


class Subscription:
    """An async context manager and an async iterator of messages."""

    def __init__(
        self,
        driver: Driver,
        topic: str,
        find: Callable[[str], Awaitable[Descriptor]],
        config: DeliveryConfig,
        *,
        buffer: int | None = None,
        buffer_bytes: int | None = None,
        when_full: str = "block",
        receive_own: bool = True,
        since: Last | None = None,
        credentials: bytes = b"",
    ) -> None:
        if when_full not in POLICIES:
            raise ConfigError(
                f"when_full: expected one of {', '.join(POLICIES)}; got {when_full!r}"
            )
        self.topic = topic
        self.descriptor: Descriptor | None = None
        self.receive_own = receive_own
        self.credentials = credentials
        if since is not None and getattr(since, "count", 0) < 1:
            raise ConfigError(
                f"since: expected overlaymq.Last(n) with n of at least 1, got {since!r}"
            )
        self.since = since.count if since else 0
        self._driver = driver
        self._find = find
        self._limit = config.buffer if buffer is None else buffer
        self._byte_limit = config.buffer_bytes if buffer_bytes is None else buffer_bytes
        if self._limit < 1 or self._byte_limit < 1:
            raise ConfigError("buffer and buffer_bytes: expected at least 1")
        self._when_full = when_full
        self._config = config
        self._current: Arrived | None = None
        self._buffer: deque[Arrived] = deque()
        self._queued = 0
        self._queued_bytes = 0
        self._backlog: deque[tuple[Arrived, Transit]] = deque()
        self._blocked_since: float | None = None
        self._lot = trio.lowlevel.ParkingLot()
        self._ready = trio.Event()
        self._events = Events(config.event_buffer)
        self._overflowed = False
        self._entered = False
        self._closed = False
        self._failure = ""
        self._turn = 0
        self._delivered = self._dropped = self._upstream = self._missed = self._malformed = 0

    # --- the application's side ---

    async def __aenter__(self) -> Self:
        if self._entered:
            raise Closed(f"the subscription to {self.topic!r} was entered before; make another one")
        self._entered = True
        self.descriptor = await self._find(self.topic)
        self._driver.subscribe(self, self.descriptor)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        await trio.lowlevel.checkpoint_if_cancelled()

    def close(self) -> None:
        """Unsubscribe. What is buffered is given up and counted."""
        if not self._closed:
            self._driver.unsubscribe(self)
            self._end()

    def fail(self, reason: str) -> None:
        """The node ended by itself: who reads is told so, not that all is read."""
        self._failure = reason
        self.close()

    async def wait_ready(self) -> None:
        """Wait until what is published from now on arrives here."""
        self._check_open()
        await self._ready.wait()
        self._check_open()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        self._turn += 1
        if self._turn & CHECKPOINT_MASK:
            await checkpoint_if_cancelled()
        else:
            await checkpoint()
        # Read afresh after each wait: another task may have taken from the same buffer.
        while (current := self._current) is None or current.start >= current.stop:
            if self._advance() is None:
                if self._failure:
                    raise Closed(self._failure)
                if self._closed:
                    raise StopAsyncIteration
                self._check_overflow()
                self._driver.check_open()
                await self._lot.park()
        index = current.start
        current.start = index + 1
        return current.messages[index]

    async def receive(self) -> Message:
        """The next message; raises Closed after ``close``."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise Closed(f"the subscription to {self.topic!r} is closed") from None

    def batches(self) -> Batches:
        """Iterate over lists of messages: whatever one batch brought."""
        return Batches(self)

    def events(self) -> Events:
        """Iterate over what happened to this subscription: Missed, Lagged, ParentLost, Repaired ..."""
        if self.descriptor is None:
            self._check_open()
        return self._events

    def statistics(self) -> SubscriptionStatistics:
        """Counters, as a frozen value."""
        buffered = self._held()
        taken = self._delivered - self._dropped - buffered
        return SubscriptionStatistics(
            delivered=self._delivered,
            taken=taken,
            dropped=self._dropped,
            skipped_upstream=self._upstream,
            missed=self._missed,
            malformed=self._malformed,
            buffered=buffered,
            buffered_bytes=self._queued_bytes + sum(one.batch.size for one, _ in self._backlog),
            events_dropped=self._events.dropped,
        )

    # --- the driver's side ---

    def offer(self, batch: Batch, transit: Transit, flow: str, now: float) -> None:
        """A batch for this subscription; ``block`` may hold its transit."""
        arrived = Arrived(batch)
        self._delivered += len(arrived)
        if self._when_full == "block":
            self._offer_blocking(arrived, transit, flow, now)
        elif self._overflowed:
            self._undelivered(arrived, FULL)
            self._lag(len(arrived))
        else:
            self._accept(arrived)
            self._trim()
        self._lot.unpark_all()

    def happened(self, event: SubscriptionEvent) -> None:
        """Something to tell the application."""
        if isinstance(event, Ready):
            self._ready.set()
            return
        if isinstance(event, Missed):
            self._missed += event.last - event.first + 1
        elif isinstance(event, Lagged):
            self._upstream += event.dropped
        elif isinstance(event, Repaired):
            self._ready.set()
        self._events.put(event)

    @property
    def blocked_since(self) -> float | None:
        """Since when batches have waited for room."""
        return self._blocked_since if self._backlog else None

    def give_up(self) -> None:
        """Drop what waits for room: a patient topic goes on without this subscription."""
        while self._backlog:
            arrived, transit = self._backlog.popleft()
            self._undelivered(arrived, FULL)
            self._lag(len(arrived))
            self._driver.flow.let_go(transit)

    # --- the buffer ---

    def _offer_blocking(self, arrived: Arrived, transit: Transit, flow: str, now: float) -> None:
        if not self._backlog and self._room() > 0:
            self._blocked_since = None
            self._accept(arrived)
            return
        if self._blocked_since is None:
            self._blocked_since = now
        impatient = now >= self._blocked_since + self._config.patience
        if flow == "lossy" or (flow == "patient" and impatient):
            self._undelivered(arrived, FULL)
            self._lag(len(arrived))
            return
        transit.pending += 1
        self._backlog.append((arrived, transit))

    def _room(self) -> int:
        """Messages the buffer has room for; at most 0 if it is full in bytes."""
        return 0 if self._queued_bytes >= self._byte_limit else -self._excess()

    def _excess(self) -> int:
        """Messages beyond the bound."""
        return self._queued + (len(self._current) if self._current else 0) - self._limit

    def _held(self) -> int:
        blocked = sum(len(arrived) for arrived, _ in self._backlog)
        return self._queued + blocked + (len(self._current) if self._current else 0)

    def _accept(self, arrived: Arrived) -> None:
        self._buffer.append(arrived)
        self._queued += len(arrived)
        self._queued_bytes += arrived.batch.size

    def _trim(self) -> None:
        """Apply a dropping policy until the bounds hold again."""
        if self._when_full == "latest":
            self._drop_all_but_last()
        elif self._when_full in ("drop_newest", "fail"):
            # Only what just came can be too much.
            newest = self._buffer[-1]
            count = self._to_drop(newest)
            self._overflowed = self._when_full == "fail" and count > 0
            newest.stop -= count
            self._undelivered(newest, FULL, newest.stop, count)
            self._dropped_queued(newest, count)
        else:
            while self._excess() > 0 or self._queued_bytes > self._byte_limit:
                if self._current:
                    count = self._to_drop(self._current)
                    self._undelivered(self._current, FULL, self._current.start, count)
                    self._current.start += count
                    self._current.told = self._current.start
                    self._lag(count)
                else:
                    oldest = self._buffer[0]
                    count = self._to_drop(oldest)
                    self._undelivered(oldest, FULL, oldest.start, count)
                    oldest.start += count
                    oldest.told = oldest.start
                    self._dropped_queued(oldest, count)

    def _to_drop(self, arrived: Arrived) -> int:
        """How much of a batch must go; all of it if bytes are short, for those count by batch."""
        over_bytes = self._queued_bytes > self._byte_limit
        return len(arrived) if over_bytes else max(0, min(self._excess(), len(arrived)))

    def _dropped_queued(self, arrived: Arrived, count: int) -> None:
        """Messages at an end of the buffer are gone."""
        self._queued -= count
        if count:
            self._lag(count)
        if not len(arrived):
            self._queued_bytes -= arrived.batch.size
            if arrived is self._buffer[0]:
                self._buffer.popleft()
            else:
                self._buffer.pop()

    def _drop_all_but_last(self) -> None:
        kept = self._buffer.pop()
        if self._driver.tracing is not None:
            self._undelivered(kept, FULL, kept.start, len(kept) - 1)
            for one in [*self._buffer, self._current]:
                if one is not None:
                    self._undelivered(one, FULL)
        dropped = self._queued - 1 + (len(self._current) if self._current else 0)
        self._current = None
        kept.start = kept.told = kept.stop - 1
        self._buffer.clear()
        self._buffer.append(kept)
        self._queued = 1
        self._queued_bytes = kept.batch.size
        if dropped:
            self._lag(dropped)

    def _advance(self) -> Arrived | None:
        """Make the next batch current; None if there is none."""
        if self._current is not None and self._driver.tracing is not None:
            self._driver.tracing.consumed(self._current)
        self._current = None
        self._unblock()
        while self._buffer:
            current = self._buffer.popleft()
            self._queued -= len(current)
            self._queued_bytes -= current.batch.size
            expected = len(current)
            try:
                current.open(self.topic)
            except Malformed:
                self._undelivered(current, "malformed")
                self._malformed += expected
                self._dropped += expected
                self._unblock()
                continue
            # A batch may hold less than it says, even less than was dropped of it.
            current.start = min(current.start, current.stop)
            if len(current) < expected:
                self._malformed += expected - len(current)
                self._dropped += expected - len(current)
            self._current = current
            return current
        return None

    def _unblock(self) -> None:
        moved = False
        while self._backlog and self._room() > 0:
            arrived, transit = self._backlog.popleft()
            self._accept(arrived)
            self._driver.flow.let_go(transit)
            moved = True
        if not self._backlog:
            self._blocked_since = None
        elif moved:
            self._blocked_since = time.monotonic()
        if moved:
            self._driver.settle()

    def _undelivered(
        self, arrived: Arrived, reason: str, start: int | None = None, count: int | None = None
    ) -> None:
        """Tell the trace that messages of a batch are given up: those that were not taken, or some."""
        tracing = self._driver.tracing
        if tracing is not None:
            tracing.consumed(arrived)
            start = arrived.start if start is None else start
            tracing.undelivered(arrived, start, len(arrived) if count is None else count, reason)

    def _lag(self, count: int) -> None:
        self._dropped += count
        if self.descriptor is not None:
            self._events.put(Lagged(self.descriptor.id, count))

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the subscription to {self.topic!r} is closed")
        if self.descriptor is None:
            raise Closed("enter the subscription first: `async with node.subscribe(...) as ...`")

    def _check_overflow(self) -> None:
        if self._overflowed:
            raise BufferFull(
                f"the subscription to {self.topic!r} overflowed at {self._limit} messages or "
                f"{self._byte_limit} bytes; read faster, raise buffer=, or choose another when_full="
            )
        if self.descriptor is None:
            self._check_open()

    def _end(self) -> None:
        self._closed = True
        self._dropped += self._held()
        if self._driver.tracing is not None:
            for one in [self._current, *self._buffer, *(one for one, _ in self._backlog)]:
                if one is not None:
                    self._undelivered(one, CLOSED)
        for _, transit in self._backlog:
            self._driver.flow.let_go(transit)
        self._backlog.clear()
        self._buffer.clear()
        self._current = None
        self._queued = self._queued_bytes = 0
        self._lot.unpark_all()
        self._ready.set()
        self._events.close()
        self._driver.settle()


class Batches:
    """Lists of messages. A class, not a generator: a cancelled receive does not end it."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Message]:
        first = await self._subscription.__anext__()
        current = self._subscription._current
        if current is None:
            return [first]
        rest = current.messages[current.start : current.stop]
        current.start = current.stop
        return [first, *rest]


class Events:
    """What happened to a subscription, oldest first. Bounded: the oldest go first and are counted."""

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self._limit = limit
        self._events: deque[SubscriptionEvent] = deque()
        self._lot = trio.lowlevel.ParkingLot()
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SubscriptionEvent:
        await trio.lowlevel.checkpoint()
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            await self._lot.park()
        return self._events.popleft()

    def put(self, event: SubscriptionEvent) -> None:
        """Append, joining runs of Lagged into one."""
        latest = self._events[-1] if self._events else None
        if isinstance(event, Lagged) and isinstance(latest, Lagged):
            self._events[-1] = Lagged(event.topic, latest.dropped + event.dropped)
        else:
            self._events.append(event)
        if len(self._events) > self._limit:
            self._events.popleft()
            self.dropped += 1
        self._lot.unpark_all()

    def close(self) -> None:
        """No more events."""
        self._closed = True
        self._lot.unpark_all()
