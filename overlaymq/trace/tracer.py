"""The tracer contract: who is told what happens to messages, and writes it down.

A tracer takes events from the nodes of one process (a live one has one node, a simulation many) and makes
rows of ``schema`` of them. It is called by drivers only, in the middle of their work, and promises:

- No call waits, and none raises, whatever the event holds and whatever the disk does.
- Each event becomes one row, or counts as lost (``Tally.lost``): recorded = written + waiting + lost. Rows
  are in the order of the calls. How many were lost is also said in the trace, by ``TRACE_LOSS`` rows; those
  are events of the tracer itself.
- What was recorded before ``flush`` is on its way: it is written soon, even if no event follows.
- Its memory is bounded.
- A problem that makes it give up is logged once, named in ``Tally.problem``, and everything after it is lost
  and counted.
- After ``close`` all that could be written is.

Calls come from one thread. *Sampling* is by message: a run of messages that is sampled at one node is sampled
at all, for the choice is a hash of its id. Events that are about no message in particular are always kept.

``overlaymq.testing.check_tracer`` is the conformance suite; it runs on every implementation. Off is no
tracer at all: a driver then holds None.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import msgspec

from overlaymq import ids
from overlaymq.trace import schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Peer

NOBODY = ids.Id(-1)
"""In place of an id: none."""

MOST_REASON = 500
"""Characters: a guess above all of ours."""

_M64 = (1 << 64) - 1
_SCALE = 1 << 32


class Tally(msgspec.Struct, frozen=True):
    """What a tracer has done, in events."""

    recorded: int
    written: int
    lost: int
    problem: str = ""
    """Why it has given up."""


class About(msgspec.Struct, frozen=True, gc=False):
    """What is known of a topic. ``ordered``: its messages have places in its root's order."""

    strategy: str = ""
    name: str = ""
    ordered: bool = False


UNKNOWN = About()


def lot(batch: Batch) -> int:
    """A number below 2**32 that every node draws alike for a run of messages (splitmix64's mixing)."""
    x = (batch.origin ^ (batch.origin >> 64)) & _M64
    x = (x + batch.epoch * 0x9E3779B97F4A7C15 + batch.first * 0xD1B54A32D192ED03) & _M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _M64
    return (x ^ (x >> 31)) >> 32


class Tracer(ABC):
    """See the module's text for the contract."""

    def __init__(
        self,
        *,
        run: str = "",
        sample: float = 1.0,
        routes: bool = False,
        wall: Callable[[], int] = time.time_ns,
        mono: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.run = run
        self.sample = sample
        self.routes = routes
        """Whether somebody wants the hops of routed messages."""
        self._below = None if sample >= 1.0 else round(sample * _SCALE)
        self._wall = wall
        self._mono = mono

    def messages(
        self,
        node: Peer,
        event: str,
        batch: Batch,
        about: About = UNKNOWN,
        peer: Id = NOBODY,
        *,
        start: int = 0,
        count: int | None = None,
        reason: str = "",
        since: int = 0,
    ) -> None:
        """Something happened to a run of messages: to ``count`` of the batch from its ``start`` on, or to all
        of it. ``since``: it happened as early as this, by the wall clock."""
        if self._below is not None and lot(batch) >= self._below:
            return
        wall, mono, took = self._wall(), self._mono(), -1
        if since:
            took = max(0, wall - since)
            wall, mono = wall - took, mono - took
        places = (0, 0, NOBODY)
        if about.ordered and batch.root_sequence:
            places = (batch.root_epoch, batch.root_sequence + start, batch.root)
        size = len(batch.body)
        if count is None:
            count = batch.count - start
        if count != batch.count:  # nobody opens a body to see how large its parts are
            size = size * count // max(1, batch.count)
        self._add(
            wall,
            mono,
            event,
            node.id,
            node.incarnation,
            about.strategy,
            batch.topic,
            about.name,
            batch.origin,
            batch.epoch,
            batch.first + start,
            count,
            batch.chunk,
            batch.chunks,
            *places,
            peer,
            batch.hop,
            size,
            reason,
            took,
            "",
        )

    def note(
        self,
        node: Peer | None,
        event: str,
        about: About = UNKNOWN,
        *,
        topic: Id = NOBODY,
        origin: Id = NOBODY,
        epoch: int = 0,
        first: int = -1,
        count: int = 0,
        root_epoch: int = 0,
        root_seq: int = 0,
        root: Id = NOBODY,
        peer: Id = NOBODY,
        hop: int = -1,
        size: int = -1,
        reason: str = "",
        duration: int = -1,
        since: int | None = None,
        extra: str = "",
    ) -> None:
        """Anything else. It took ``duration``, or the time from ``since`` (see ``now``) to the row's own."""
        mono = self._mono()
        if since is not None:
            duration = mono - since
        if len(reason) > MOST_REASON:  # some are a peer's own words
            reason = reason[:MOST_REASON]
        self._add(
            self._wall(),
            mono,
            event,
            NOBODY if node is None else node.id,
            0 if node is None else node.incarnation,
            about.strategy,
            topic,
            about.name,
            origin,
            epoch,
            first,
            count,
            0,
            1,
            root_epoch,
            root_seq,
            root,
            peer,
            hop,
            size,
            reason,
            duration,
            extra,
        )

    def now(self) -> int:
        """By the monotonic clock of the rows."""
        return self._mono()

    @abstractmethod
    def _add(
        self,
        wall: int,
        mono: int,
        event: str,
        node: Id,
        boot: int,
        strategy: str,
        topic: Id,
        name: str,
        origin: Id,
        epoch: int,
        first: int,
        count: int,
        chunk: int,
        chunks: int,
        root_epoch: int,
        root_seq: int,
        root: Id,
        peer: Id,
        hop: int,
        size: int,
        reason: str,
        duration: int,
        extra: str,
    ) -> None:
        """One row: the fields of ``schema.Row`` after the first two, in order."""

    @abstractmethod
    def flush(self) -> None:
        """Send what has gathered on its way."""

    @abstractmethod
    def close(self, wait: float = 2.0) -> None:
        """Write what is left, waiting for the disk no longer than this. May be called from any thread."""

    @property
    @abstractmethod
    def tally(self) -> Tally:
        """What it has done so far."""


class ListTracer(Tracer):
    """Keeps the first ``limit`` rows in memory: for tests, and the contract's shortest form."""

    def __init__(self, *, limit: int = 100_000, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # checked by the base
        self.rows: list[schema.Row] = []
        self._limit = limit
        self._recorded = self._lost = 0
        self._closed = False

    def _add(self, *values: object) -> None:
        self._recorded += 1
        if self._closed or len(self.rows) >= self._limit:
            self._lost += 1
            return
        self.rows.append(_row(self.run, values))

    def flush(self) -> None:
        """Nothing waits."""

    def close(self, wait: float = 2.0) -> None:
        """No more rows."""
        if not self._closed and self._lost:
            self._limit += 1
            self.note(None, schema.TRACE_LOSS, count=self._lost, reason="the list is full")
        self._closed = True

    @property
    def tally(self) -> Tally:
        """All rows are written at once."""
        return Tally(self._recorded, self._recorded - self._lost, self._lost)


_IDS = {i for i, column in enumerate(schema.COLUMNS[2:]) if column.kind == schema.BINARY}
_NAMES = [column.name for column in schema.COLUMNS]


def _row(run: str, values: tuple[object, ...]) -> schema.Row:
    told = [
        ("" if value == NOBODY else ids.text(value)) if i in _IDS else value  # type: ignore[arg-type]
        for i, value in enumerate(values[3:5] + values[2:3] + values[0:2] + values[5:])
    ]
    fields = dict(zip(_NAMES, (run, schema.SCHEMA_VERSION, *told), strict=True))
    return msgspec.convert(fields, schema.Row)
