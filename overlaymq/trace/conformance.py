"""The tracer contract as a suite: what tracer.py promises, tried on an implementation.

``check_tracer(make, read)`` runs every check on a tracer of its own. ``make(**settings)`` makes one (``run``,
``sample``, ``wall``, ``mono``), ``read()`` gives the rows of the last one made once that is closed.
``CHECKS`` names the checks, for test runners that want to run them one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from overlaymq import ids
from overlaymq.ids import Id
from overlaymq.messages import Batch, Peer
from overlaymq.trace import schema
from overlaymq.trace.tracer import About, lot

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from overlaymq.trace.schema import Row
    from overlaymq.trace.tracer import Tracer

    Read: TypeAlias = Callable[[], list[Row]]
    Check: TypeAlias = Callable[["Make", Read], None]

NODE = Peer(Id(5 << 100), "host:1", 17)
OTHER = Id(6 << 100)
TOPIC = ids.topic_id("prices")
CLOSE = 20.0
"""Seconds for a tracer to close, on a machine that is busy with other tests."""


class Make(Protocol):
    """Makes the tracer that is tried."""

    def __call__(self, **settings: Any) -> Tracer:
        """One with these settings, others as it likes."""


class Clock:
    """A wall and a monotonic clock that stand still until told."""

    def __init__(self) -> None:
        self.ticks = 0

    def wall(self) -> int:
        """Starts somewhere."""
        return 1_000_000 + self.ticks

    def mono(self) -> int:
        """Starts at zero."""
        return self.ticks


def expect(condition: bool, otherwise: str) -> None:
    """Raise unless it holds."""
    if not condition:
        raise AssertionError(otherwise)


def _batch(first: int = 0, count: int = 1, **fields: Any) -> Batch:
    return Batch(TOPIC, OTHER, 3, first, count, b"x" * count, **fields)


def rows_hold_what_was_said(make: Make, read: Read) -> None:
    """Every field of both kinds of events."""
    clock = Clock()
    tracer = make(run="a", wall=clock.wall, mono=clock.mono)
    clock.ticks = 100
    batch = _batch(
        7, 10, hop=2, chunk=1, chunks=3, root=Id(8 << 90), root_epoch=4, root_sequence=40
    )
    about = About("scribe", "prices", True)
    tracer.messages(
        NODE, schema.SEND, batch, about, OTHER, start=2, count=5, reason="r", since=1_000_060
    )
    tracer.note(
        NODE,
        schema.MISS,
        about,
        topic=TOPIC,
        origin=OTHER,
        epoch=2,
        first=5,
        count=6,
        root_epoch=7,
        root_seq=8,
        root=NODE.id,
        peer=OTHER,
        hop=9,
        size=10,
        reason="why",
        duration=11,
        extra=schema.packed(b=1),
    )
    tracer.close(CLOSE)
    common = {
        "run_id": "a",
        "schema_version": schema.SCHEMA_VERSION,
        "node_id": ids.text(NODE.id),
        "boot_id": 17,
        "strategy": "scribe",
        "topic_id": ids.text(TOPIC),
        "topic": "prices",
        "msg_origin": ids.text(OTHER),
        "peer_id": ids.text(OTHER),
    }
    sent = schema.Row(
        event=schema.SEND,
        ts_wall_ns=1_000_060,
        ts_mono_ns=60,
        msg_epoch=3,
        msg_seq=9,
        msg_count=5,
        chunk=1,
        chunks=3,
        root_epoch=4,
        root_seq=42,
        root_id=ids.text(Id(8 << 90)),
        hop=2,
        size_bytes=5,
        reason="r",
        duration_ns=40,
        **common,  # type: ignore[arg-type]
    )
    missed = schema.Row(
        event=schema.MISS,
        ts_wall_ns=1_000_100,
        ts_mono_ns=100,
        msg_epoch=2,
        msg_seq=5,
        msg_count=6,
        root_epoch=7,
        root_seq=8,
        root_id=ids.text(NODE.id),
        hop=9,
        size_bytes=10,
        reason="why",
        duration_ns=11,
        extra='{"b":1}',
        **common,  # type: ignore[arg-type]
    )
    found = read()
    expect(found == [sent, missed], f"expected {[sent, missed]}, read {found}")


def every_event_is_a_row_in_order(make: Make, read: Read) -> None:
    """More than any buffer holds, flushed now and then."""
    tracer = make()
    total = 5_000
    for number in range(total):
        tracer.messages(NODE, schema.PUBLISH, _batch(number))
        if number % 700 == 0:
            tracer.flush()
    tracer.close(CLOSE)
    tally = tracer.tally
    expect(tally.recorded == total, f"recorded {tally.recorded} of {total}")
    expect(tally.written + tally.lost == total, f"{tally} does not add up")
    found = [row.msg_seq for row in read() if row.event == schema.PUBLISH]
    expect(len(found) == tally.written, f"{len(found)} rows, {tally.written} written")
    expect(found == sorted(found), "rows have changed places")


def fields_that_are_not_given_are_empty(make: Make, read: Read) -> None:
    """The defaults of the schema."""
    tracer = make(wall=lambda: 5, mono=lambda: 6)
    tracer.note(None, schema.FAULT)
    tracer.close(CLOSE)
    expected = schema.Row(
        run_id="",
        schema_version=schema.SCHEMA_VERSION,
        event=schema.FAULT,
        ts_wall_ns=5,
        ts_mono_ns=6,
    )
    expect(read() == [expected], f"expected {expected}, read {read()}")


def nothing_that_a_peer_says_raises(make: Make, read: Read) -> None:
    """Numbers beyond a column, words that are none; each is a row or is counted."""
    tracer = make()
    tracer.messages(NODE, schema.RECV, _batch(1 << 63))
    tracer.messages(NODE, schema.RECV, _batch(0, hop=1 << 31))
    tracer.messages(NODE, schema.RECV, _batch(5))
    tracer.note(NODE, schema.DROP, reason="a" * 100_000)
    tracer.note(NODE, schema.DROP, reason="lone \udc80 surrogate")
    tracer.close(CLOSE)
    tally = tracer.tally
    expect(not tally.problem, f"it has given up: {tally.problem}")
    expect(tally.written + tally.lost == tally.recorded, f"{tally} does not add up")
    found = read()
    expect(any(row.msg_seq == 5 for row in found), "a good row is gone with the others")
    told = sum(row.msg_count for row in found if row.event == schema.TRACE_LOSS)
    expect(told == tally.lost, f"{told} of {tally.lost} lost events are told of")


def a_sample_is_of_messages_and_the_same_everywhere(make: Make, read: Read) -> None:
    """Whatever happens to a message, and at whichever node."""
    tracer = make(sample=0.25)
    total = 2_000
    for number in range(total):
        for event, node in ((schema.SEND, NODE), (schema.RECV, Peer(OTHER, "host:2", 1))):
            tracer.messages(node, event, _batch(number, hop=number % 3))
    tracer.note(NODE, schema.NODE, reason="down")
    tracer.close(CLOSE)
    found = read()
    sent = {row.msg_seq for row in found if row.event == schema.SEND}
    got = {row.msg_seq for row in found if row.event == schema.RECV}
    expect(sent == got, "a message is in the sample at one node and not at the other")
    expect(sent == {n for n in range(total) if lot(_batch(n)) < 1 << 30}, "another sample")
    # Four standard deviations of a binomial distribution.
    expect(abs(len(sent) - total / 4) < 4 * (total * 3 / 16) ** 0.5, f"{len(sent)} of {total}")
    expect(found[-1].event == schema.NODE, "what is about no message is gone")


def what_comes_after_the_end_is_counted(make: Make, read: Read) -> None:
    """And changes nothing."""
    tracer = make()
    tracer.note(NODE, schema.NODE, reason="up")
    tracer.close(CLOSE)
    tracer.note(NODE, schema.NODE, reason="down")
    tracer.flush()
    tracer.close(CLOSE)
    expect(tracer.tally.lost == 1, f"{tracer.tally}")
    expect([row.reason for row in read()] == ["up"], f"read {read()}")


CHECKS: tuple[Check, ...] = (
    rows_hold_what_was_said,
    every_event_is_a_row_in_order,
    fields_that_are_not_given_are_empty,
    nothing_that_a_peer_says_raises,
    a_sample_is_of_messages_and_the_same_everywhere,
    what_comes_after_the_end_is_counted,
)


def check_tracer(make: Make, read: Read) -> None:
    """Raise unless the tracers that ``make`` makes keep their contract."""
    for check in CHECKS:
        check(make, read)
