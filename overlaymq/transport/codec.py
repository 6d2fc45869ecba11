"""Messages to bytes and back.

Control messages: one generic mapping. For each Struct of ``messages`` the protobuf message of
the same name is looked up, and the type hints are compiled once into closures, so no message has
conversion code of its own. Id <-> 16 bytes, tuple <-> repeated, ``X | None`` <-> presence, the
``Message`` union <-> ``Envelope``. ``encode`` gives the bytes of a whole ControlFrame with one
envelope; protobuf's wire format makes the concatenation of frames a frame, so a writer only
joins.

Batches: the body is opaque and may be large, so it is never given to protobuf. ``encode_batch``
joins the encoded header with the body, ``decode_data_frame`` cuts the body out of the frame: one
copy each. What does not look as our encoder writes it goes through protobuf's own parser, so any
valid encoding is read.

Whatever arrives was written by a stranger: every decoder checks sizes and ranges, and raises
``Malformed`` with a short reason that is fit for a counter's name. Nothing else escapes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from google.protobuf.message import DecodeError

from overlaymq import messages
from overlaymq.errors import OverlayError
from overlaymq.ids import BYTES, Id
from overlaymq.messages import Batch, Message
from overlaymq.transport._pb.overlaymq.v1 import (
    admin_pb2,
    data_pb2,
    fuse_pb2,
    link_pb2,
    pastry_pb2,
    scamp_pb2,
    strategy_pb2,
    topics_pb2,
)

MAX_ITEMS = 4096  # entries of one list: a guess far above a leaf set or a routing table row
MAX_TEXT = 4096  # characters of one string: a guess above any topic name or reason
MAX_DEPTH = 4  # messages inside messages; the protocol needs two (Routed around anything)
MAX_COUNT = 1 << 20  # messages in one batch, and chunks of one message: a guess
MAX_HOP = 1024  # a batch that travelled further is going round in circles: a guess
LARGE = 16384  # from this size on, a payload cut by hand beats protobuf's extra copy: measured
LIMIT = 1 << 63  # numbers are sequence numbers, serials and clocks; half the range is headroom

Encoder = Callable[[Any], Any]
Decoder = Callable[[Any, int], Any]

# Fields of a Struct that stay at home.
LOCAL_FIELDS: dict[type, frozenset[str]] = {Batch: frozenset({"wire"})}


class Malformed(OverlayError):
    """Bytes that are not a message of ours; the text is the reason they are counted under."""


class Hello(msgspec.Struct, frozen=True):
    """The first frame each way on a control stream."""

    version: int
    id: Id
    public_key: bytes
    incarnation: int
    address: str
    signature: bytes
    token: bytes = b""


class Goodbye(msgspec.Struct, frozen=True):
    """The last thing said on a control stream."""

    reason: str
    refused: bool = False


class ControlFrame(msgspec.Struct):
    """A control frame whose envelopes are still encoded."""

    envelopes: Sequence[bytes]
    pings: Sequence[int]
    pongs: Sequence[int]
    goodbye: Goodbye | None
    clocks: Sequence[int] = ()


# --- The generic mapping --------------------------------------------------------------------------


def snake_case(name: str) -> str:
    """``JoinRequest`` is the envelope's field ``join_request``."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def twin(struct: type) -> Any:
    """The protobuf class of the same name."""
    for module in (pastry_pb2, topics_pb2, strategy_pb2, fuse_pb2, scamp_pb2, data_pb2, link_pb2):
        if hasattr(module, struct.__name__):
            return getattr(module, struct.__name__)
    raise TypeError(f"{struct.__name__} has no protobuf message of its name")


def fields(struct: type) -> dict[str, Any]:
    """The fields that travel, with their types."""
    hints = get_type_hints(struct)
    local = LOCAL_FIELDS.get(struct, frozenset())
    names = cast("Any", struct).__struct_fields__
    return {name: hints[name] for name in names if name not in local}


def _id_to_wire(id_: Id) -> bytes:
    return id_.to_bytes(BYTES, "big")


def _id_from_wire(raw: bytes, _depth: int) -> Id:
    if len(raw) != BYTES:
        raise Malformed("id length")
    return Id(int.from_bytes(raw, "big"))


def _text_from_wire(text: str, _depth: int) -> str:
    if len(text) > MAX_TEXT:
        raise Malformed("long text")
    return text


def _int_from_wire(number: int, _depth: int) -> int:
    if number >= LIMIT:
        raise Malformed("number out of range")
    return number


def _float_from_wire(number: float, _depth: int) -> float:
    if not 0 <= number < float("inf"):  # also false for NaN
        raise Malformed("number out of range")
    return number


def _same(value: Any) -> Any:
    return value


def _unchanged(value: Any, _depth: int) -> Any:
    return value


_SCALARS: dict[Any, tuple[Encoder, Decoder]] = {
    Id: (_id_to_wire, _id_from_wire),
    int: (_same, _int_from_wire),
    float: (_same, _float_from_wire),
    bool: (_same, _unchanged),
    bytes: (_same, _unchanged),
    str: (_same, _text_from_wire),
}


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def optional(hint: Any) -> Any:
    """X of ``X | None``, or None if the hint is something else."""
    arguments = get_args(hint)
    if _is_union(hint) and len(arguments) == 2 and type(None) in arguments:
        return next(a for a in arguments if a is not type(None))
    return None


def _encoder(hint: Any) -> Encoder:
    if hint in _SCALARS:
        return _SCALARS[hint][0]
    if hint == Message:
        return _to_envelope
    inner = optional(hint)
    if inner is not None:
        encode_inner = _encoder(inner)
        return lambda value: None if value is None else encode_inner(value)
    if get_origin(hint) is tuple:
        item = _encoder(get_args(hint)[0])
        return _same if item is _same else lambda values: [item(value) for value in values]
    return _struct_encoder(hint)


def _struct_encoder(struct: type) -> Encoder:
    if struct in _ENCODERS:
        return _ENCODERS[struct]
    plan = [(name, _encoder(hint)) for name, hint in fields(struct).items()]

    def encode_struct(value: Any) -> dict[str, Any]:
        return {name: convert(getattr(value, name)) for name, convert in plan}

    _ENCODERS[struct] = encode_struct
    return encode_struct


def _decoder(hint: Any) -> Decoder:
    if hint in _SCALARS:
        return _SCALARS[hint][1]
    if hint == Message:
        return _from_envelope
    if get_origin(hint) is tuple:
        return _list_decoder(_decoder(get_args(hint)[0]))
    return _struct_decoder(optional(hint) or hint)


def _list_decoder(item: Decoder) -> Decoder:
    def decode_list(values: Any, depth: int) -> tuple[Any, ...]:
        if len(values) > MAX_ITEMS:
            raise Malformed("long list")
        return tuple([item(value, depth) for value in values])

    return decode_list


def _struct_decoder(struct: type) -> Decoder:
    if struct in _DECODERS:
        return _DECODERS[struct]
    plan = []
    for name, hint in fields(struct).items():
        # Presence: a missing sub-message is None where that is allowed, and malformed elsewhere.
        inner = optional(hint)
        is_message = (inner or hint) not in _SCALARS and get_origin(hint) is not tuple
        plan.append((name, _decoder(hint), is_message, inner is not None))
    check = _CHECKS.get(struct)

    def decode_struct(pb: Any, depth: int) -> Any:
        values: dict[str, Any] = {}
        for name, convert, is_message, may_miss in plan:
            if is_message and not pb.HasField(name):
                if not may_miss:
                    raise Malformed("missing field")
                values[name] = None
            else:
                values[name] = convert(getattr(pb, name), depth)
        made = struct(**values)
        if check is not None:
            check(made)
        return made

    _DECODERS[struct] = decode_struct
    return decode_struct


def _check_batch(batch: Batch) -> None:
    if not 1 <= batch.count <= MAX_COUNT or not 1 <= batch.chunks <= MAX_COUNT:
        raise Malformed("batch count")
    if batch.chunk >= batch.chunks or (batch.chunks > 1 and batch.count != 1):
        raise Malformed("batch chunk")
    if batch.skip >= batch.count:
        raise Malformed("batch skip")
    if batch.behind > batch.first:
        raise Malformed("batch behind")
    if batch.hop > MAX_HOP:
        raise Malformed("batch hop")
    first, root = batch.first + batch.count, batch.root_sequence + batch.count
    if max(batch.epoch, first, batch.published_at, batch.root_epoch, root) >= LIMIT:
        raise Malformed("number out of range")


def _to_envelope(message: Message) -> dict[str, Any]:
    # Nested dicts, not protobuf objects: a parent's constructor would copy those.
    name, convert = _BY_TYPE[type(message)]
    return {name: convert(message)}


def _from_envelope(envelope: Any, depth: int) -> Message:
    if depth <= 0:
        raise Malformed("nested too deep")
    name = envelope.WhichOneof("message")
    if name is None:
        raise Malformed("unknown message type")
    decoded: Message = _BY_NAME[name](getattr(envelope, name), depth - 1)
    return decoded


_ENCODERS: dict[type, Encoder] = {}
_DECODERS: dict[type, Decoder] = {}
_CHECKS: dict[type, Callable[[Any], None]] = {Batch: _check_batch}
KINDS: tuple[type, ...] = get_args(messages.Message)
_BY_TYPE = {kind: (snake_case(kind.__name__), _struct_encoder(kind)) for kind in KINDS}
_BY_NAME = {snake_case(kind.__name__): _struct_decoder(kind) for kind in KINDS}


# --- Control frames -------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """A whole ControlFrame that holds this message."""
    raw = link_pb2.Envelope(**_to_envelope(message)).SerializeToString()
    return b"\x0a" + _varint(len(raw)) + cast("bytes", raw)


def decode(raw: bytes) -> Message:
    """The message in one encoded envelope."""
    return _from_envelope(_parsed(link_pb2.Envelope, raw, "envelope"), MAX_DEPTH)


def encode_ping(number: int) -> bytes:
    """A ControlFrame that asks for a pong."""
    return b"\x10" + _varint(number)


def encode_pong(number: int, clock: int) -> bytes:
    """And the one that answers, with the wall clock."""
    return b"\x18" + _varint(number) + b"\x28" + _varint(clock)


def encode_goodbye(goodbye: Goodbye) -> bytes:
    """The last ControlFrame."""
    farewell = link_pb2.Goodbye(reason=goodbye.reason, refused=goodbye.refused)
    return cast("bytes", link_pb2.ControlFrame(goodbye=farewell).SerializeToString())


def decode_control_frame(raw: bytes) -> ControlFrame:
    """Open a frame, not its envelopes."""
    pb = _parsed(link_pb2.ControlFrame, raw, "control frame")
    envelopes = list(pb.envelopes)
    if not envelopes and not pb.pings and not pb.pongs and not pb.HasField("goodbye"):
        raise Malformed("control frame: empty")
    if max(len(pb.pings), len(pb.pongs), len(pb.clocks)) > MAX_ITEMS:
        raise Malformed("long list")  # each ping makes an answer ten times its size
    goodbye = None
    if pb.HasField("goodbye"):
        goodbye = Goodbye(pb.goodbye.reason[:MAX_TEXT], pb.goodbye.refused)
    return ControlFrame(envelopes, pb.pings, pb.pongs, goodbye, pb.clocks)


def encode_hello(hello: Hello) -> bytes:
    """The first frame of a control stream."""
    pb = link_pb2.Hello(
        **{name: getattr(hello, name) for name in Hello.__struct_fields__ if name != "id"},
        id=_id_to_wire(hello.id),
    )
    return cast("bytes", pb.SerializeToString())


def decode_hello(raw: bytes) -> Hello:
    """Read it; what it claims is still to be proved."""
    pb = _parsed(link_pb2.Hello, raw, "hello")
    if max(len(pb.public_key), len(pb.signature), len(pb.token), len(pb.address)) > 256:
        raise Malformed("hello: long field")
    return Hello(
        pb.version,
        _id_from_wire(pb.id, 0),
        pb.public_key,
        _int_from_wire(pb.incarnation, 0),
        pb.address,
        pb.signature,
        pb.token,
    )


def _parsed(kind: Any, raw: bytes, what: str) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise Malformed(f"{what}: not protobuf") from None


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# --- The data plane -------------------------------------------------------------------------------


def encode_body(
    payloads: Sequence[bytes], headers: Sequence[Mapping[str, str] | None] | None = None
) -> bytes:
    """The columns of a run of publications; done once, by the publisher."""
    tail = b""
    if headers is not None and any(headers):
        if len(headers) != len(payloads):
            raise ValueError("as many headers as payloads")
        column = [data_pb2.Headers(entries=item or {}) for item in headers]
        tail = data_pb2.Body(headers=column).SerializeToString()
    if payloads and len(payloads[0]) >= LARGE:
        parts: list[bytes] = []
        for payload in payloads:
            parts += (b"\x0a", _varint(len(payload)), payload)
        return b"".join((*parts, tail))
    encoded: bytes = data_pb2.Body(payloads=payloads).SerializeToString()
    return encoded + tail if tail else encoded


def decode_body(body: bytes) -> tuple[Sequence[bytes], list[dict[str, str]] | None]:
    """Open a body, at the subscriber. No headers column: None."""
    if 1 < len(body) < 0x82 and body[0] == 0x0A and body[1] == len(body) - 2:
        return [body[2:]], None  # one short payload: what a paced publisher sends
    payloads: list[bytes] = []
    position = _cut_large(body, payloads)
    pb = _parsed(data_pb2.Body, body[position:] if position else body, "body")
    payloads += pb.payloads
    if not pb.headers:
        return payloads, None
    if len(pb.headers) != len(payloads):
        raise Malformed("body: headers and payloads differ")
    return payloads, [dict(item.entries) for item in pb.headers]


def _cut_large(body: bytes, into: list[bytes]) -> int:
    """Cut leading large payloads out with one copy each; where they end."""
    position, end = 0, len(body)
    while end - position > LARGE and body[position] == 0x0A:
        size, start = _read_varint(body, position + 1)
        if size < LARGE:
            break
        if size > end - start:
            raise Malformed("body: truncated")
        into.append(body[start : start + size])
        position = start + size
    return position


def encode_batch(batch: Batch) -> bytes:
    """A whole DataFrame that holds this batch; kept in ``batch.wire`` for the next child."""
    if batch.wire is not None:
        return batch.wire
    pb = data_pb2.Batch()  # set one by one: faster than by the constructor
    pb.topic = _id_to_wire(batch.topic)
    pb.origin = _id_to_wire(batch.origin)
    pb.epoch = batch.epoch
    pb.first = batch.first
    pb.count = batch.count
    pb.published_at = batch.published_at
    pb.hop = batch.hop
    if batch.root_sequence or batch.root:
        pb.root = _id_to_wire(batch.root)
        pb.root_epoch = batch.root_epoch
        pb.root_sequence = batch.root_sequence
    pb.chunk = batch.chunk
    pb.chunks = batch.chunks
    pb.skip = batch.skip
    if batch.behind:
        pb.behind = batch.behind
    rest: bytes = pb.SerializeToString()
    body = batch.body
    lead = b"\x0a" + _varint(len(body)) if body else b""
    total = _varint(len(lead) + len(body) + len(rest))
    batch.wire = wire = b"".join((b"\x0a", total, lead, body, rest))
    return wire


def decode_data_frame(raw: bytes) -> list[Batch]:
    """The batches of a frame, each body cut out with one copy."""
    batches = []
    position, end = 0, len(raw)
    while position < end:
        if raw[position] != 0x0A:
            raise Malformed("data frame: unknown field")
        size, position = _read_varint(raw, position + 1)
        if size > end - position:
            raise Malformed("data frame: truncated")
        batches.append(_decode_batch(raw, position, position + size))
        position += size
    if not batches:
        raise Malformed("data frame: empty")
    return batches


def _decode_batch(raw: bytes, position: int, end: int) -> Batch:
    body = b""
    if position < end and raw[position] == 0x0A:
        size, position = _read_varint(raw, position + 1)
        if size > end - position:
            raise Malformed("data frame: truncated")
        body = raw[position : position + size]
        position += size
    pb = _parsed(data_pb2.Batch, raw[position:end], "batch")
    batch = Batch(
        topic=_id_from_wire(pb.topic, 0),
        origin=_id_from_wire(pb.origin, 0),
        epoch=pb.epoch,
        first=pb.first,
        count=pb.count,
        body=pb.body or body,
        published_at=pb.published_at,
        hop=pb.hop,
        root=_id_from_wire(pb.root, 0) if pb.root else Id(0),
        root_epoch=pb.root_epoch,
        root_sequence=pb.root_sequence,
        chunk=pb.chunk,
        chunks=pb.chunks,
        skip=pb.skip,
        behind=pb.behind,
    )
    _check_batch(batch)
    return batch


def _read_varint(raw: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while position < len(raw) and shift < 35:  # no length here needs more than five bytes
        byte = raw[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise Malformed("data frame: bad length")


# --- The admin service ----------------------------------------------------------------------------


def encode_admin_request(json: bytes) -> bytes:
    """What `status` asks."""
    return cast("bytes", admin_pb2.AdminRequest(json=json).SerializeToString())


def decode_admin_request(raw: bytes) -> bytes:
    """And what the node reads."""
    return cast("bytes", _parsed(admin_pb2.AdminRequest, raw, "admin request").json)


def encode_admin_reply(json: bytes, error: str = "") -> bytes:
    """The node's answer."""
    return cast("bytes", admin_pb2.AdminReply(json=json, error=error).SerializeToString())


def decode_admin_reply(raw: bytes) -> tuple[bytes, str]:
    """The answer, and why there is none."""
    pb = _parsed(admin_pb2.AdminReply, raw, "admin reply")
    return pb.json, pb.error
