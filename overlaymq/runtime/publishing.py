"""Publishing: a topic's open run, and receipts that grow.

``publish`` appends to the open run of its topic. A message after a silence goes at once (no Nagle delay).
Otherwise a run goes when the application pauses: the driver's flusher looks at the next scheduling step and
sends what has not grown since it last looked, so a loop that keeps publishing fills its run. A full run goes
at once, and none stays open longer than ``linger``. While the topic's links are busy writing, a run
waits for them. So batches are as large as the load makes them and no larger.

A run is bounded, and so are the bytes that were published and not yet consumed downstream (one window):
beyond that ``publish`` waits and ``publish_nowait`` raises. A receipt belongs to one message; the receipts
of one run share its state, so they cost next to nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio

from overlaymq.core.dissemination.tree_content import STOPPED
from overlaymq.core.flow import Transit
from overlaymq.errors import Closed, NotSupported, OverlayError, PayloadTooLarge, WouldBlock
from overlaymq.events import AskDelivery, Publish
from overlaymq.messages import Batch, Place
from overlaymq.transport.codec import encode_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from overlaymq.config import DeliveryConfig
    from overlaymq.events import Delivered, Sent, Sequenced
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer
    from overlaymq.runtime.driver import Driver

Stage = Literal["accepted", "sent", "sequenced", "committed", "delivered"]
NO_LINK = "every link was too slow for the topic's flow, or broke before there was room"
CHECKPOINT_EVERY = 64  # a power of two; design.md section 3
MAX_HEADERS = 65_536
"""Bytes of one message's headers, names and values: a guess."""
LONE = 1_000_000
"""Nanoseconds of silence after which a message is sent at once, without the flusher's look: a guess."""


class _Run:
    """Consecutive messages that will travel as one batch."""

    __slots__ = (
        "asked_at",
        "begin",
        "chunks",
        "count",
        "delivered",
        "end",
        "error",
        "fewest",
        "first",
        "headers",
        "links",
        "looked_at",
        "opened_at",
        "patience",
        "payloads",
        "place",
        "publisher",
        "sent",
        "sequenced",
        "settled",
        "size",
        "unplaced",
        "waiters",
    )

    def __init__(self, publisher: Publisher, first: int) -> None:
        self.publisher = publisher
        self.first = first
        self.payloads: list[bytes] = []
        self.headers: list[Mapping[str, str] | None] | None = None
        self.size = 0
        self.looked_at = 0
        self.patience = 0
        self.opened_at = 0
        self.chunks = 1  # that are not settled yet
        self.fewest: int | None = None
        self.links: int | None = None
        self.sent: trio.Event | None = None
        self.error = ""
        self.unplaced: int | None = None  # chunks without a place, on an ordered topic
        self.place: Place | None = None
        self.begin: Place | None = None  # of the chunk that comes first in the root's order
        self.end: Place | None = None  # of the last message, or of its last chunk
        self.sequenced: trio.Event | None = None
        self.asked_at = float("-inf")
        self.delivered: Delivered | None = None
        self.settled: trio.Event | None = None
        self.count = 0
        self.waiters = 0

    def put(self, chunk: int, place: Place | None, count: int) -> None:
        """The root has given a chunk its place; the message's is that of the first."""
        assert self.unplaced is not None
        self.unplaced -= 1
        if chunk == 0:
            self.place = place
        if place is not None:
            end = Place(place.epoch, place.sequence + count - 1)
            self.end = end if self.end is None else max(self.end, end)
            self.begin = place if self.begin is None else min(self.begin, place)
        if self.unplaced == 0 and self.sequenced is not None:
            self.sequenced.set()

    def fail(self, error: str) -> None:
        """It will never have a place."""
        self.error = self.error or error
        if self.sequenced is not None:
            self.sequenced.set()

    def settle(self, links: int, error: str = "") -> None:
        """A chunk was handed to so many links, or is lost; one lost chunk loses the message."""
        self.chunks -= 1
        self.fewest = links if self.fewest is None else min(links, self.fewest)
        self.error = self.error or error
        if not self.error and self.chunks == 0:
            self.links = self.fewest
        if self.sent is not None and (self.error or self.chunks == 0):
            self.sent.set()
        if self.error and self.sequenced is not None:
            self.sequenced.set()


class Reach(msgspec.Struct, frozen=True):
    """``had`` of ``members`` subscribers are known to have a message."""

    had: int
    members: int


class Receipt:
    """What became of one message: accepted first, then sent to so many links, and on an ordered topic
    sequenced: the root has given it a number, and delivered: all subscribers have it."""

    __slots__ = ("_run", "seq")

    def __init__(self, run: _Run, seq: int) -> None:
        self._run = run
        self.seq = seq

    @property
    def stage(self) -> Stage:
        """How far the message has come; what was dropped never comes further than accepted."""
        if self._run.unplaced == 0:
            known = self._run.delivered
            everywhere = known is not None and known.final and known.had == known.members
            return "delivered" if everywhere else "sequenced"
        return "accepted" if self._run.links is None or self._run.error else "sent"

    @property
    def links(self) -> int | None:
        """How many links it was handed to; None until then. 0: nobody is subscribed elsewhere."""
        return self._run.links

    @property
    def reach(self) -> Reach | None:
        """How many subscribers have it, as far as the root has told: somebody must have waited for it."""
        known = self._run.delivered
        return None if known is None else Reach(known.had, known.members)

    async def wait(self, stage: Stage) -> int:
        """Wait until the message has come this far; the number that belongs to the stage."""
        run = self._run
        if stage == "committed":
            raise NotSupported("'committed' receipts are not built yet; wait for 'delivered'")
        if stage in ("sequenced", "delivered") and run.unplaced is None:
            raise NotSupported(f"{stage!r} receipts need reliability='ordered'; wait for 'sent'")
        if stage not in ("accepted", "sent", "sequenced", "delivered"):
            raise ValueError(
                f"stage: expected 'accepted', 'sent', 'sequenced' or 'delivered', got {stage!r}"
            )
        await trio.lowlevel.checkpoint()
        if stage == "delivered":
            return await self._wait_delivered()
        if stage == "sequenced":
            return await self._wait_sequenced()
        if stage == "sent" and run.links is None and not run.error:
            if run.sent is None:
                run.sent = trio.Event()
            await run.sent.wait()
        if run.error:
            raise OverlayError(f"message {self.seq} was not sent: {run.error}")
        return self.seq if stage == "accepted" else run.links or 0

    async def _wait_sequenced(self) -> int:
        run = self._run
        if run.unplaced and not run.error:
            if run.sequenced is None:
                run.sequenced = trio.Event()
            await run.sequenced.wait()
        if run.unplaced:
            raise OverlayError(f"message {self.seq} was not sequenced: {run.error}")
        return 0 if run.place is None else run.place.sequence + self.seq - run.first

    async def _wait_delivered(self) -> int:
        await self._wait_sequenced()
        known = await self._run.publisher.wait_delivered(self._run)
        if known.had < known.members:
            raise OverlayError(
                f"message {self.seq} reached {known.had} of {known.members} subscribers; the others "
                "were told that they missed it"
            )
        return known.had

    def __repr__(self) -> str:
        return f"<Receipt {self.seq} {self.stage}>"


class OwnTransit(Transit):
    """One of this node's own batches: it is done when it was sent and no sink holds it."""

    __slots__ = ("chunk", "count", "publisher", "run", "sent", "settled")

    def __init__(self, publisher: Publisher, run: _Run, batch: Batch) -> None:
        super().__init__(None, publisher.descriptor.id, batch.size)
        self.publisher = publisher
        self.run = run
        self.chunk = batch.chunk
        self.count = batch.count if batch.chunk == 0 else 0
        self.sent: Sent | None = None
        self.settled = False

    def left(self) -> None:
        """See Transit."""
        self.publisher.left(self)


class Publisher:
    """One topic's publications of this node."""

    def __init__(self, driver: Driver, descriptor: Descriptor, config: DeliveryConfig) -> None:
        self.descriptor = descriptor
        self._driver = driver
        self._config = config
        self._ask_every = driver.config.rendezvous.answer_timeout
        self._next = 0
        self._unsent: dict[tuple[int, int], OwnTransit] = {}
        self._unsettled: dict[tuple[int, int], OwnTransit] = {}
        """Given to the links, but none has it yet."""
        self._ordered = descriptor.reliability == "ordered"
        self._unplaced: dict[tuple[int, int], _Run] = {}
        self._undelivered: dict[tuple[Place, Place], _Run] = {}
        self._outstanding = 0
        self._room = trio.lowlevel.ParkingLot()
        self._turn = 0
        self._closed = False
        self._looked_after = False
        self._flushed_at = 0
        self.links: dict[Id, Peer] = {}
        self._run = self._new_run()

    def _new_run(self) -> _Run:
        run = _Run(self, self._next)
        run.unplaced = 1 if self._ordered else None
        return run

    # --- the application's side ---

    async def publish(self, payload: bytes, headers: Mapping[str, str] | None) -> Receipt:
        """Accept a message, waiting for room if need be."""
        self._turn += 1
        if self._turn % CHECKPOINT_EVERY:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()
        while self._outstanding + self._run.size >= self._config.window:
            await self._wait_room()
        return self._append(payload, headers)

    def publish_nowait(self, payload: bytes, headers: Mapping[str, str] | None) -> Receipt:
        """Accept a message, or raise WouldBlock."""
        if self._outstanding + self._run.size >= self._config.window:
            self.flush()  # a run may be larger than a small window
        if self._outstanding >= self._config.window:
            raise WouldBlock(
                f"{self._outstanding} bytes of {self.descriptor.name!r} are still on their way; "
                "use `await publish`, or publish less"
            )
        return self._append(payload, headers)

    async def publish_many(self, payloads: Iterable[bytes]) -> list[Receipt]:
        """Accept messages in one go, waiting for room as needed."""
        await trio.lowlevel.checkpoint()
        receipts = []
        for payload in payloads:
            while self._outstanding + self._run.size >= self._config.window:
                await self._wait_room()
            receipts.append(self._append(payload, None))
        return receipts

    # --- the driver's side ---

    def flush_if_idle(self) -> None:
        """Send the open run unless the topic's links are busy."""
        if self._run.payloads and not self._driver.is_busy(self):
            self._flush()

    def links_idle(self) -> None:
        """The links have written what they had.

        While the application goes on publishing, it is the flusher that sends the open run: cut short at each
        write, a burst would travel in a frame for every few messages."""
        if not self._looked_after:
            self.flush_if_idle()

    def flush(self) -> None:
        """Send the open run now, busy links or not."""
        if self._run.payloads:
            self._flush()

    def look(self) -> bool:
        """Send the open run if the application has paused; whether to look again."""
        run = self._run
        if not run.payloads:
            self._looked_after = False
            return False
        count = len(run.payloads)
        if count != run.looked_at:
            # trio runs the tasks of a step in random order, so an application that goes on publishing
            # may seem to stand still for one look; not for two.
            run.patience, run.looked_at = 1, count
        else:
            run.patience -= 1
        if run.patience >= 0 and time.time_ns() - run.opened_at < self._config.linger * 1e9:
            return True
        self._looked_after = False
        self.flush_if_idle()
        return False

    def sent(self, sent: Sent) -> None:
        """The strategy has handed a batch to links, or given it up."""
        transit = self._unsent.pop((sent.first, sent.chunk), None)
        if transit is None:
            return
        transit.sent = sent
        self._unsettled[sent.first, sent.chunk] = transit
        if sent.dropped:
            self._unplaced.pop((sent.first, sent.chunk), None)
        self.left(transit)
        if transit.pending == 0:
            self.released(transit)

    def left(self, transit: OwnTransit) -> None:
        """A batch waits for no link any more: the receipts can say how many links have it."""
        sent = transit.sent
        if sent is None or transit.settled or (transit.waiting and not sent.dropped):
            return
        links = sent.links - transit.skipped
        refused = NO_LINK if transit.skipped and links <= 0 else ""
        if refused and self._ordered and not sent.dropped:
            return  # it is sent again until the root has it
        self._settle(transit, links, sent.dropped or refused)

    def _settle(self, transit: OwnTransit, links: int, error: str = "") -> None:
        transit.settled = True
        self._unsettled.pop((transit.run.first, transit.chunk), None)
        transit.run.settle(links, error)

    def sequenced(self, event: Sequenced) -> None:
        """The root has given a batch its place, or the application has stopped it there."""
        again = self._unsettled.get((event.first, event.chunk))
        if again is not None:
            self._settle(again, 1)
        run = self._unplaced.pop((event.first, event.chunk), None)
        if run is not None and event.stopped:
            run.fail(STOPPED)
        elif run is not None:
            run.put(event.chunk, event.place, run.count)

    def delivered(self, event: Delivered) -> None:
        """The root has told who has some messages."""
        run = self._undelivered.get((event.first, event.last))
        if run is not None:
            run.delivered = event
            if event.final and run.settled is not None:
                run.settled.set()

    async def wait_delivered(self, run: _Run) -> Delivered:
        """Ask the root again and again until it has its last word: a root may crash, an answer get lost."""
        if run.place is None or run.begin is None or run.end is None:
            raise OverlayError("the root does not know any more where it has put the message")
        key = (run.begin, run.end)
        self._undelivered[key] = run
        run.settled = run.settled or trio.Event()
        run.waiters += 1
        try:
            while run.delivered is None or not run.delivered.final:
                if self._closed:
                    raise Closed("the node is closed")
                self._ask_delivered(run, *key)
                with trio.move_on_after(self._ask_every):
                    await run.settled.wait()
        finally:
            run.waiters -= 1
            if not run.waiters:
                self._undelivered.pop(key, None)
        return run.delivered

    def _ask_delivered(self, run: _Run, first: Place, last: Place) -> None:
        """Once for all that wait for the run."""
        now = trio.current_time()
        if now - run.asked_at >= self._ask_every:
            run.asked_at = now
            self._driver.handle(AskDelivery(self.descriptor, first, last))

    def transit(self, batch: Batch) -> OwnTransit | None:
        """The transit of one of this node's own batches, until it is sent."""
        return self._unsent.get((batch.first, batch.chunk))

    def released(self, transit: OwnTransit) -> None:
        """No sink holds a batch any more."""
        if transit.sent is None:
            return  # a strategy still holds it
        self._outstanding -= transit.size
        if self._outstanding < self._config.window:
            self._room.unpark_all()
        self.links_idle()

    def close(self, reason: str) -> None:
        """The node ends: whoever waits is told."""
        self._closed = True
        lost = len(self._run.payloads) + sum(transit.count for transit in self._unsent.values())
        if lost:
            self._driver.dropped("node closed", lost)
        for transit in [*self._unsent.values(), *self._unsettled.values()]:
            self._settle(transit, 0, reason)
        for run in self._unplaced.values():
            run.fail(reason)
        for run in self._undelivered.values():
            if run.settled is not None:
                run.settled.set()
        if self._run.payloads:
            self._run.settle(0, reason)
        self._room.unpark_all()

    @property
    def pending(self) -> bool:
        """Whether something accepted is not yet with the links."""
        return bool(self._run.payloads or self._unsent)

    # --- parts ---

    async def _wait_room(self) -> None:
        if self._closed:
            raise Closed("the node is closed")
        self.flush_if_idle()
        if self._outstanding + self._run.size >= self._config.window:
            await self._room.park()
        if self._closed:
            raise Closed("the node is closed")

    def _append(self, payload: bytes, headers: Mapping[str, str] | None) -> Receipt:
        if self._closed:
            raise Closed("the node is closed")
        # All checks come before the sequence number is taken: a refused message must leave no gap.
        if type(payload) is not bytes:
            payload = _as_bytes(payload)
        size = len(payload)
        if headers:
            headers = _copied(headers)
            size += _encoded_size(headers)
        if len(payload) > self._config.chunk:
            return self._append_large(payload, headers)
        run = self._run
        lone = False
        if not run.payloads:
            run.opened_at = time.time_ns()
            lone = run.opened_at - self._flushed_at > LONE
        seq = self._next
        self._next = seq + 1
        if headers or run.headers is not None:
            run.headers = run.headers or [None] * len(run.payloads)
            run.headers.append(headers)
        run.payloads.append(payload)
        run.size += size
        if (
            run.size >= self._config.run_bytes
            or len(run.payloads) >= self._config.run_messages
            or (lone and not self._driver.is_busy(self))
        ):
            self._flush()
        elif not self._looked_after:
            self._looked_after = True
            run.looked_at = len(run.payloads)
            self._driver.look_after(self)
        return Receipt(run, seq)

    def _append_large(self, payload: bytes, headers: Mapping[str, str] | None) -> Receipt:
        if len(payload) > self._config.max_payload:
            raise PayloadTooLarge(
                f"{len(payload)} bytes; delivery.max_payload is {self._config.max_payload}: "
                "raise it on every node, or send a reference instead"
            )
        if self._ordered and len(payload) > self._config.keep_bytes:
            raise PayloadTooLarge(
                f"{len(payload)} bytes; what an ordered topic keeps for repair is bounded by "
                f"delivery.keep_bytes, {self._config.keep_bytes}: raise it on every node"
            )
        self.flush()
        run = self._run
        run.opened_at = time.time_ns()
        run.payloads.append(payload)
        run.headers = [headers] if headers else None
        self._next += 1
        self._flush()
        return Receipt(run, run.first)

    def _flush(self) -> None:
        run = self._run
        self._run = self._new_run()
        self._flushed_at = time.time_ns()
        body = encode_body(run.payloads, run.headers)
        run.count = count = len(run.payloads)
        run.payloads = []
        step = self._config.chunk
        chunks = max(1, -(-len(body) // step)) if len(body) > 2 * step else 1
        run.chunks = chunks
        if self._ordered:
            run.unplaced = chunks
        for chunk in range(chunks):
            part = body if chunks == 1 else body[chunk * step : (chunk + 1) * step]
            self._send(run, part, count, chunk, chunks)

    def _send(self, run: _Run, body: bytes, count: int, chunk: int, chunks: int) -> None:
        batch = Batch(
            topic=self.descriptor.id,
            origin=self._driver.me.id,
            epoch=self._driver.me.incarnation,
            first=run.first,
            count=count,
            body=body,
            published_at=run.opened_at,
            chunk=chunk,
            chunks=chunks,
        )
        self._unsent[run.first, chunk] = OwnTransit(self, run, batch)
        if self._ordered:
            self._unplaced[run.first, chunk] = run
        self._outstanding += batch.size
        self._driver.handle(Publish(self.descriptor, batch))


def _copied(headers: Mapping[Any, Any]) -> dict[str, str]:
    """They are encoded later, with their run; what the application does with its own till then is not
    published."""
    for key, value in headers.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"headers are str to str, not {key!r}: {value!r}")
    return dict(headers)


def _encoded_size(headers: Mapping[str, str]) -> int:
    try:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in headers.items())
    except UnicodeEncodeError as error:
        raise ValueError(f"headers are text that UTF-8 can encode: {error}") from None
    if size > MAX_HEADERS:
        raise PayloadTooLarge(
            f"headers of {size} bytes; the most is {MAX_HEADERS}: put it into the payload"
        )
    return size


def _as_bytes(payload: object) -> bytes:
    if isinstance(payload, bytearray | memoryview | bytes):
        return bytes(payload)
    raise TypeError(
        f"a payload is bytes, not {type(payload).__name__}; "
        "for other values use node.topic(name, codec=...)"
    )
