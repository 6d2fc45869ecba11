"""Traces to and from the format of libp2p's Go pubsub library, so that their tools and ours read each
other's runs.

Theirs has one event for each message and thirteen kinds of them (peers.md 5.1), as length-delimited protobuf
or as lines of JSON. Ours to theirs: a run becomes one event for each message, or one RPC with all of them.
A message's id is 48 bytes: topic, origin, epoch and sequence. Theirs cannot say when something was consumed,
missed or repaired, whom to expect, what clocks differ by, how large or how far something was; such rows and
fields are left out, and the rows are counted.

Theirs to ours: node ids are hashed to our length, and so are message ids that are not ours; such a message is
the only one of its origin. Every row keeps the event that it was made of in ``extra.libp2p``, so that nothing
is lost on the way back. Joining a topic makes an expected receiver; since nobody says there how long it
lived, it is expected until its last event.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
from google.protobuf import json_format

from overlaymq import ids
from overlaymq.trace import schema
from overlaymq.trace.schema import Row
from overlaymq.transport._pb.overlaymq.v1 import libp2p_trace_pb2 as pb

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

STRATEGY = "libp2p"
"""In place of a strategy, in rows made of their events."""
MOST_BYTES = 64 << 20
"""Of one event: a guess far above any."""

Event = Any  # pb.Libp2pTraceEvent: generated code has no types that are checked

KINDS = {
    schema.PUBLISH: "PUBLISH_MESSAGE",
    schema.DELIVER: "DELIVER_MESSAGE",
    schema.DUPLICATE: "DUPLICATE_MESSAGE",
    schema.REJECT: "REJECT_MESSAGE",
    schema.SEND: "SEND_RPC",
    schema.RECV: "RECV_RPC",
    schema.DROP: "DROP_RPC",
    schema.LINK_UP: "ADD_PEER",
    schema.LINK_DOWN: "REMOVE_PEER",
    schema.SUBSCRIBE: "JOIN",
    schema.UNSUBSCRIBE: "LEAVE",
    schema.VIEW_ADD: "GRAFT",
    schema.VIEW_REMOVE: "PRUNE",
    schema.PARENT_SET: "GRAFT",
    schema.PARENT_LOST: "PRUNE",
    schema.CHILD_ADD: "GRAFT",
    schema.CHILD_REMOVE: "PRUNE",
}
"""Our events and theirs. GRAFT and PRUNE come back as changes of a view."""
_BACK = {theirs: ours for ours, theirs in reversed(KINDS.items())}
_BACK |= {"GRAFT": schema.VIEW_ADD, "PRUNE": schema.VIEW_REMOVE}
_PARTS = {
    name: "".join(word.title() if i else word.lower() for i, word in enumerate(name.split("_")))
    for name in KINDS.values()
}
_PARTS |= {"RECV_RPC": "recvRPC", "SEND_RPC": "sendRPC", "DROP_RPC": "dropRPC"}
"""The field that holds what belongs to a kind."""


_RENAMED = {
    "ON_NEW_OUTBOUND_STREAM": "ADD_PEER",
    "ON_CLOSED_OUTBOUND_STREAM": "REMOVE_PEER",
    "onNewOutboundStream": "addPeer",
    "onClosedOutboundStream": "removePeer",
}
"""What later releases call it; the numbers are the same (peers.md 5.1; the fields' names are a guess)."""


class Malformed(ValueError):
    """A file is not what it should be; says where."""


# --- files -----------------------------------------------------------------------------------------


def read_events(file: BinaryIO, as_json: bool) -> Iterator[Event]:
    """Their events, from lines of JSON or from delimited protobuf."""
    yield from _read_json(file) if as_json else _read_delimited(file)


def write_events(file: BinaryIO, events: Iterable[Event], as_json: bool) -> int:
    """Write them; how many."""
    count = 0
    for event in events:
        raw = _to_json(event) if as_json else _delimited(event.SerializeToString())
        file.write(raw)
        count += 1
    return count


def _delimited(raw: bytes) -> bytes:
    length, lead = len(raw), b""
    while length > 0x7F:
        lead += bytes([length & 0x7F | 0x80])
        length >>= 7
    return lead + bytes([length]) + raw


def _read_delimited(file: BinaryIO) -> Iterator[Event]:
    number = 0
    while (length := _varint(file, number)) is not None:
        raw = file.read(length)
        if len(raw) < length:
            raise Malformed(f"event {number}: the file ends in the middle of it")
        try:
            yield pb.Libp2pTraceEvent.FromString(raw)
        except Exception as error:  # protobuf's implementations each have their own
            raise Malformed(f"event {number}: {error}") from None
        number += 1


def _varint(file: BinaryIO, number: int) -> int | None:
    value = shift = 0
    while True:
        one = file.read(1)
        if not one:
            if shift:
                raise Malformed(f"event {number}: the file ends in the middle of it")
            return None
        value |= (one[0] & 0x7F) << shift
        if value > MOST_BYTES:
            raise Malformed(f"event {number}: {value} bytes; is this a file of delimited events?")
        if one[0] < 0x80:
            return value
        shift += 7


def _to_json(event: Event) -> bytes:
    """As Go's encoder has it: kinds and times are numbers, and the fields are in their order."""
    plain = json_format.MessageToDict(event, preserving_proto_field_name=True)
    plain = {"type": event.type, **plain}
    plain["type"] = event.type
    if event.HasField("timestamp"):
        plain["timestamp"] = event.timestamp
    return msgspec.json.encode(plain) + b"\n"


def _read_json(file: BinaryIO) -> Iterator[Event]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            plain = msgspec.json.decode(line, type=dict[str, Any])
            plain = {_RENAMED.get(key, key): value for key, value in plain.items()}
            kind = plain.get("type", 0)
            kind = _RENAMED.get(kind, kind)
            if kind not in _PARTS and kind not in range(len(_PARTS)):
                raise Malformed(f"line {number}: no event has the type {kind!r}")
            yield json_format.ParseDict(
                {**plain, "type": kind}, pb.Libp2pTraceEvent(), ignore_unknown_fields=True
            )
        except (msgspec.MsgspecError, json_format.ParseError, TypeError) as error:
            raise Malformed(f"line {number}: {error}") from None


# --- ours to theirs --------------------------------------------------------------------------------


def to_libp2p(rows: Iterable[Row], left_out: Counter[str] | None = None) -> Iterator[Event]:
    """Their events; ``left_out`` counts the rows that they have no word for, by event."""
    for row in rows:
        origin = _kept(row)
        if origin is not None:
            if origin:
                yield pb.Libp2pTraceEvent.FromString(origin)
        elif row.event in KINDS and row.chunk == row.chunks - 1:
            yield from _events(row)
        elif left_out is not None:
            left_out[row.event] += 1


def _kept(row: Row) -> bytes | None:
    """The event that a row was made of: empty if it was the second of such rows, None if there is none."""
    if row.strategy != STRATEGY or '"libp2p"' not in row.extra:
        return None
    return base64.b64decode(msgspec.json.decode(row.extra)["libp2p"])


def _events(row: Row) -> Iterator[Event]:
    kind = KINDS[row.event]
    topic = row.topic or row.topic_id
    peer = bytes.fromhex(row.peer_id)
    part: dict[str, Any]
    match kind:
        case "SEND_RPC" | "DROP_RPC" | "RECV_RPC":
            part = {"receivedFrom" if kind == "RECV_RPC" else "sendTo": peer}
            messages = [{"messageID": id_, "topic": topic} for id_ in _message_ids(row)]
            yield _event(row, kind, {**part, "meta": {"messages": messages}})
        case "ADD_PEER" | "REMOVE_PEER":
            yield _event(row, kind, {"peerID": peer})
        case "JOIN" | "LEAVE":
            yield _event(row, kind, {"topic": topic})
        case "GRAFT" | "PRUNE":
            yield _event(row, kind, {"peerID": peer, "topic": topic})
        case _:
            part = {"topic": topic}
            if kind != "PUBLISH_MESSAGE" and peer:
                part["receivedFrom"] = peer
            if kind == "REJECT_MESSAGE":
                part["reason"] = row.reason
            for id_ in _message_ids(row):
                yield _event(row, kind, {**part, "messageID": id_})


def _event(row: Row, kind: str, part: dict[str, Any]) -> Event:
    return pb.Libp2pTraceEvent(
        type=kind,
        peerID=bytes.fromhex(row.node_id),
        timestamp=row.ts_wall_ns,
        **{_PARTS[kind]: part},
    )


def _message_ids(row: Row) -> list[bytes]:
    if row.msg_seq < 0:
        return []  # a drop of nobody knows what
    lead = bytes.fromhex(row.topic_id) + bytes.fromhex(row.msg_origin)
    lead += row.msg_epoch.to_bytes(8, "big", signed=True)
    return [
        lead + number.to_bytes(8, "big")
        for number in range(row.msg_seq, row.msg_seq + row.msg_count)
    ]


# --- theirs to ours --------------------------------------------------------------------------------


def from_libp2p(events: Iterable[Event], run: str = "") -> Iterator[Row]:
    """Rows of their events, and EXPECT rows for who had joined, at the end of each."""
    joined: dict[tuple[str, str], int] = {}
    latest: dict[str, int] = {}
    for event in events:
        kind = pb.Libp2pTraceEvent.Type.Name(event.type)
        node = _id(event.peerID)
        latest[node] = max(event.timestamp, latest.get(node, event.timestamp))
        raw = base64.b64encode(event.SerializeToString()).decode()
        made = _rows(event, kind, node, run)
        for number, row in enumerate(made):
            yield msgspec.structs.replace(row, extra=schema.packed(libp2p="" if number else raw))
        topic = made[0].topic
        if kind == "JOIN":
            joined[node, topic] = event.timestamp
            yield _row(schema.READY, event.timestamp, node, run, topic)
        elif kind == "LEAVE":
            joined.pop((node, topic), None)
    for node, topic in joined:
        yield _row(schema.EXPECT, latest[node], node, run, topic)


def _rows(event: Event, kind: str, node: str, run: str) -> list[Row]:
    """At least one row for each event."""
    part = getattr(event, _PARTS[kind])
    ours = _BACK[kind]
    facts: dict[str, Any] = {}
    match kind:
        case "SEND_RPC" | "DROP_RPC" | "RECV_RPC":
            peer = _id(part.receivedFrom if kind == "RECV_RPC" else part.sendTo)
            return [
                _row(ours, event.timestamp, node, run, one.topic, peer, one.messageID)
                for one in part.meta.messages
            ] or [_row(ours, event.timestamp, node, run, "", peer)]
        case "ADD_PEER" | "REMOVE_PEER":
            return [_row(ours, event.timestamp, node, run, "", _id(part.peerID))]
        case "JOIN" | "LEAVE":
            return [_row(ours, event.timestamp, node, run, part.topic)]
        case "GRAFT" | "PRUNE":
            peer = _id(part.peerID)
            return [_row(ours, event.timestamp, node, run, part.topic, peer, reason="partial")]
    if kind != "PUBLISH_MESSAGE":
        facts["peer"] = _id(part.receivedFrom)
    if kind == "REJECT_MESSAGE":
        facts["reason"] = part.reason
    return [_row(ours, event.timestamp, node, run, part.topic, message=part.messageID, **facts)]


def _row(
    event: str,
    at: int,
    node: str,
    run: str,
    topic: str,
    peer: str = "",
    message: bytes = b"",
    reason: str = "",
) -> Row:
    facts: dict[str, Any] = {}
    if topic:
        facts = {"topic": topic, "topic_id": ids.text(ids.topic_id(topic))}
    if len(message) == 48:
        facts["topic_id"] = message[:16].hex()
        facts["msg_origin"] = message[16:32].hex()
        facts["msg_epoch"] = int.from_bytes(message[32:40], "big", signed=True)
        facts["msg_seq"] = int.from_bytes(message[40:], "big") & ((1 << 63) - 1)
    elif message:
        facts |= {"msg_origin": ids.text(ids.hashed(message)), "msg_seq": 0}
    if message:
        facts["msg_count"] = 1
    return Row(
        run_id=run,
        schema_version=schema.SCHEMA_VERSION,
        node_id=node,
        event=event,
        ts_wall_ns=at,
        ts_mono_ns=at,
        strategy=STRATEGY,
        peer_id=peer,
        reason=reason,
        **facts,
    )


def _id(peer: bytes) -> str:
    """Ours are 16 bytes; theirs are longer, and hashed."""
    if not peer:
        return ""
    return peer.hex() if len(peer) == ids.BYTES else ids.text(ids.hashed(peer))
