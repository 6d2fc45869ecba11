"""The trace format: one flat row an event, the same from a live node and from the simulator.

Rows are flat so that a table reader (Parquet, Spark, a line of ``jq``) needs to know nothing else. ``Row`` is
the one definition. What is written elsewhere is derived from it or tested against it: the columns of the
Arrow and Parquet files (``trace.arrow``), the line of JSON below, and the protobuf twin
(``protos/overlaymq/v1/trace.proto``).

A row may stand for a run: ``msg_count`` consecutive messages of one origin from ``msg_seq``. So tracing costs
by the batch. A message's id is (``msg_origin``, ``msg_epoch``, ``msg_seq``) within its topic, the origin and
life of its publisher and the number that it gave. A field that an event has no use for has its default; no
column is ever null.

Ids are 32 hex digits here and in JSON, 16 bytes in columns and in protobuf, empty for none. Times are
nanoseconds: ``ts_wall_ns`` is the host's time of day, which another host may see differently (``CLOCK`` rows
say how much), and ``ts_mono_ns`` orders the rows of one process. In the simulator both are virtual time. What
has no field of its own is a JSON object in ``extra``, keys in order.

The events follow the delivery-trace proposal that libp2p's pubsub traces were widened to (peers.md 5.4).
``NODE``, ``FAULT`` and ``CHECK`` are ours: a run of the simulator tells what was done to it, and which
invariant did not hold.

A row is written as one line of JSON with its fields in the order of the class and defaults left out, so equal
rows are equal bytes. A field that is added goes to the end; one that changes raises ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

SCHEMA_VERSION = 2

NODE = "NODE"
LEAF_SET = "LEAF_SET"
LINK_UP = "LINK_UP"
LINK_DOWN = "LINK_DOWN"
PUBLISH = "PUBLISH"
SEND = "SEND"
RECV = "RECV"
DELIVER = "DELIVER"
CONSUME = "CONSUME"
DUPLICATE = "DUPLICATE"
REJECT = "REJECT"
DROP = "DROP"
UNDELIVERABLE = "UNDELIVERABLE"
MISS = "MISS"
REPAIR = "REPAIR"
SUBSCRIBE = "SUBSCRIBE"
READY = "READY"
UNSUBSCRIBE = "UNSUBSCRIBE"
PARENT_SET = "PARENT_SET"
PARENT_LOST = "PARENT_LOST"
CHILD_ADD = "CHILD_ADD"
CHILD_REMOVE = "CHILD_REMOVE"
VIEW_ADD = "VIEW_ADD"
VIEW_REMOVE = "VIEW_REMOVE"
ROUTE_HOP = "ROUTE_HOP"
CLOCK = "CLOCK"
EXPECT = "EXPECT"
TRACE_LOSS = "TRACE_LOSS"
FAULT = "FAULT"
CHECK = "CHECK"

EVENTS = {
    NODE: "a node's life; `reason`: up, active, down; `extra.clock`: the clock's name, virtual if simulated",
    LEAF_SET: "the leaf set is different; `extra.leaves`: its members, clockwise",
    LINK_UP: "a link to `peer_id` is open",
    LINK_DOWN: "the link to `peer_id` broke or its peer was declared dead; `reason`: why",
    PUBLISH: "a run of messages enters the overlay here, at its origin",
    SEND: "a run is handed to the link to `peer_id`; `reason`: its fate, in the simulator",
    RECV: "a run came in from `peer_id`",
    DELIVER: "a run is queued to a local subscription: whole messages, each once",
    CONSUME: "the application has taken a run from its subscription",
    DUPLICATE: "a run that this node had already came again, from `peer_id`",
    REJECT: "something from `peer_id` was refused; `reason`: why",
    DROP: "`msg_count` messages were discarded; `reason`: why; `peer_id`: for whom, if for another",
    UNDELIVERABLE: "a subscription had no room or could not read a run; `reason`: which, or closed",
    MISS: "announced to the application: these messages will not arrive",
    REPAIR: "`peer_id` feeds the topic again after its parent was lost; `duration_ns`: for how long",
    SUBSCRIBE: "a subscription begins; `extra`: reliability, flow, and receive_own if it is false",
    READY: "what is published from now on arrives at this node's subscriptions",
    UNSUBSCRIBE: "a subscription ends",
    PARENT_SET: "`peer_id` feeds this node on the topic from now on",
    PARENT_LOST: "`peer_id` does so no more",
    CHILD_ADD: "this node feeds `peer_id` on the topic from now on",
    CHILD_REMOVE: "it does so no more",
    VIEW_ADD: "`peer_id` is in a gossip view; `reason`: partial (gossip goes to it) or in (comes from it)",
    VIEW_REMOVE: "it is in that view no more",
    ROUTE_HOP: "a routed message is passed to `peer_id`; `hop` counts from 1; `extra.kind`: what it is",
    CLOCK: "`extra.offset_ns`: `peer_id`'s wall clock minus this node's; `duration_ns`: the round trip",
    EXPECT: "a live and ready subscriber: said at READY, then about once a second; `extra`: as of SUBSCRIBE",
    TRACE_LOSS: "the tracer itself has lost `msg_count` events; `reason`: why",
    FAULT: "what a scenario did; `reason`: the deed",
    CHECK: "an invariant did not hold; `reason`: its name",
}
"""Every event, and what it says."""

CLOSED = "closed"
"""Reason of UNDELIVERABLE where the application itself ended the subscription before it had read a run."""

VIRTUAL = "virtual"
"""The clock of simulated nodes (``extra.clock`` of NODE)."""

BINARY = "binary"
WORD = "dictionary"
TEXT = "string"
INT32 = "int32"
INT64 = "int64"

Id = Annotated[str, Meta(extra={"column": BINARY})]
Word = Annotated[str, Meta(extra={"column": WORD})]
"""A string of which a run has few."""
Text = Annotated[str, Meta(extra={"column": TEXT})]
Int32 = Annotated[int, Meta(extra={"column": INT32})]
Int64 = Annotated[int, Meta(extra={"column": INT64})]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One event."""

    run_id: Word
    schema_version: Int32
    node_id: Id = ""
    boot_id: Int64 = 0
    event: Word
    ts_wall_ns: Int64
    ts_mono_ns: Int64
    strategy: Word = ""
    topic_id: Id = ""
    topic: Word = ""
    msg_origin: Id = ""
    msg_epoch: Int64 = 0
    msg_seq: Int64 = -1
    msg_count: Int32 = 0
    chunk: Int32 = 0
    chunks: Int32 = 1
    root_epoch: Int64 = 0
    root_seq: Int64 = 0
    root_id: Id = ""
    peer_id: Id = ""
    hop: Int32 = -1
    size_bytes: Int64 = -1
    reason: Word = ""
    duration_ns: Int64 = -1
    extra: Text = ""


FIELDS = {
    "run_id": "one run over all hosts (`trace.run`)",
    "schema_version": f"of this format: {SCHEMA_VERSION}",
    "node_id": "who recorded it",
    "boot_id": "that node's incarnation: one life of it",
    "event": "what happened",
    "ts_wall_ns": "when, by the wall clock of the recording host",
    "ts_mono_ns": "when, by the monotonic clock of the recording process",
    "strategy": "the topic's strategy, where known",
    "topic_id": "the topic, or the key of a routed message",
    "topic": "the topic's name, where known",
    "msg_origin": "who published the messages",
    "msg_epoch": "the publisher's incarnation",
    "msg_seq": "number of the first message of the run",
    "msg_count": "how many consecutive messages the row stands for",
    "chunk": "which part of a large message; only the last one counts as the message",
    "chunks": "in how many parts it travels",
    "root_epoch": "epoch of an ordered topic's root",
    "root_seq": "place of the first message in that root's order; 0 for none",
    "root_id": "that root",
    "peer_id": "the other node",
    "hop": "overlay links that the messages have come over",
    "size_bytes": "payload bytes of the whole run",
    "reason": "why, or which kind",
    "duration_ns": "how long it took",
    "extra": "a JSON object, keys in order, for what has no column",
}
"""Every field, and what it says."""


class Column(msgspec.Struct, frozen=True):
    """A field of ``Row`` as tables have it; ``kind`` is one of the five above."""

    name: str
    kind: str
    default: str | int | None


def _columns() -> tuple[Column, ...]:
    hints = get_type_hints(Row, include_extras=True)
    fields = msgspec.structs.fields(Row)
    return tuple(
        Column(
            field.name,
            hints[field.name].__metadata__[0].extra["column"],
            None if field.default is msgspec.NODEFAULT else field.default,
        )
        for field in fields
    )


COLUMNS = _columns()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Row)


def encode(row: Row) -> bytes:
    """One line, with its end."""
    return _encoder.encode(row) + b"\n"


def decode(line: bytes) -> Row:
    """A row from its line."""
    return _decoder.decode(line)


def packed(**facts: Any) -> str:
    """The ``extra`` of a row: JSON, keys in order."""
    return msgspec.json.encode(facts, order="deterministic").decode()


def to_values(row: Row) -> tuple[Any, ...]:
    """The row as a table has it: in the order of ``COLUMNS``, ids as bytes."""
    return tuple(
        bytes.fromhex(value) if column.kind == BINARY else value
        for column, value in zip(COLUMNS, msgspec.structs.astuple(row), strict=True)
    )


def from_values(values: dict[str, Any]) -> Row:
    """A row from a table's: the other way round."""
    fields = {
        column.name: values[column.name].hex() if column.kind == BINARY else values[column.name]
        for column in COLUMNS
    }
    return Row(**fields)
