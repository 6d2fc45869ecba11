"""Their events and ours: nothing is lost on the way there and back that the other side can say."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from overlaymq import ids
from overlaymq.cli import main
from overlaymq.trace import arrow, files, libp2p, schema
from overlaymq.trace.libp2p import KINDS, from_libp2p, read_events, to_libp2p, write_events
from overlaymq.trace.schema import Row
from overlaymq.transport._pb.overlaymq.v1 import libp2p_trace_pb2 as pb

if TYPE_CHECKING:
    from pathlib import Path

NODE, PEER, ORIGIN = (ids.text(ids.hashed(name)) for name in (b"node", b"peer", b"origin"))
TOPIC = ids.text(ids.topic_id("prices"))
CARRIED = {
    "node_id",
    "event",
    "ts_wall_ns",
    "topic_id",
    "topic",
    "msg_origin",
    "msg_epoch",
    "msg_seq",
}
CARRIED |= {"msg_count", "peer_id"}


def maybe(**parts: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=parts)


raw = st.binary(max_size=6)
name = st.text(max_size=4)
meta = maybe(
    messages=st.lists(maybe(messageID=raw, topic=name), max_size=3),
    subscription=st.lists(maybe(subscribe=st.booleans(), topic=name), max_size=2),
    control=maybe(
        ihave=st.lists(maybe(topic=name, messageIDs=st.lists(raw, max_size=2)), max_size=2),
        iwant=st.lists(maybe(messageIDs=st.lists(raw, max_size=2)), max_size=2),
        graft=st.lists(maybe(topic=name), max_size=2),
        prune=st.lists(maybe(topic=name, peers=st.lists(raw, max_size=2)), max_size=2),
        idontwant=st.lists(maybe(messageIDs=st.lists(raw, max_size=2)), max_size=2),
    ),
)
parts = {
    "PUBLISH_MESSAGE": maybe(messageID=raw, topic=name),
    "REJECT_MESSAGE": maybe(messageID=raw, receivedFrom=raw, reason=name, topic=name),
    "DUPLICATE_MESSAGE": maybe(messageID=raw, receivedFrom=raw, topic=name),
    "DELIVER_MESSAGE": maybe(messageID=raw, topic=name, receivedFrom=raw),
    "ADD_PEER": maybe(peerID=raw, proto=name),
    "REMOVE_PEER": maybe(peerID=raw),
    "RECV_RPC": maybe(receivedFrom=raw, meta=meta),
    "SEND_RPC": maybe(sendTo=raw, meta=meta),
    "DROP_RPC": maybe(sendTo=raw, meta=meta),
    "JOIN": maybe(topic=name),
    "LEAVE": maybe(topic=name),
    "GRAFT": maybe(peerID=raw, topic=name),
    "PRUNE": maybe(peerID=raw, topic=name),
}


@st.composite
def their_event(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(sorted(parts)))
    fields: dict[str, Any] = {"type": kind, libp2p._PARTS[kind]: draw(parts[kind])}
    fields |= draw(maybe(peerID=raw, timestamp=st.integers(0, 2**63 - 1)))
    return pb.Libp2pTraceEvent(**fields)


@given(st.lists(their_event(), max_size=5))
def test_their_events_come_back_exactly(events: list[Any]) -> None:
    rows = list(from_libp2p(events, "r"))
    assert len(rows) >= len(events)
    assert [schema.decode(schema.encode(row)) for row in rows] == rows
    assert list(to_libp2p(rows)) == events


@pytest.mark.parametrize("as_json", [False, True])
@given(events=st.lists(their_event(), max_size=5))
def test_both_forms_of_a_file_hold_everything(events: list[Any], as_json: bool) -> None:
    file = io.BytesIO()
    assert write_events(file, events, as_json) == len(events)
    file.seek(0)
    assert list(read_events(file, as_json)) == events


def test_every_kind_has_a_place() -> None:
    kinds = set(pb.Libp2pTraceEvent.Type.keys())
    assert set(parts) == kinds == set(KINDS.values())
    fields = {field.name for field in pb.Libp2pTraceEvent.DESCRIPTOR.fields}
    assert set(libp2p._PARTS.values()) == fields - {"type", "peerID", "timestamp"}
    assert set(KINDS) <= set(schema.EVENTS)


def test_lines_are_as_go_writes_them() -> None:
    """Kinds and times are numbers, bytes are base64: what Go's encoder makes of their structs."""
    line = b'{"type":0,"peerID":"EiA=","timestamp":1574000000000000000,'
    line += b'"publishMessage":{"messageID":"AQI=","topic":"blocks"}}\n'
    (event,) = read_events(io.BytesIO(line), True)
    assert event.publishMessage.topic == "blocks"
    file = io.BytesIO()
    write_events(file, [event], True)
    assert file.getvalue() == line
    other = line.replace(b'"type":0', b'"type":"ON_NEW_OUTBOUND_STREAM"')
    other = other.replace(b"publishMessage", b"onNewOutboundStream").replace(
        b"messageID", b"peerID"
    )
    (added,) = read_events(io.BytesIO(other), True)
    assert (added.type, added.addPeer.peerID) == (4, b"\x01\x02")
    (named,) = read_events(io.BytesIO(line.replace(b'"type":0', b'"type":"PUBLISH_MESSAGE"')), True)
    assert named == event


def test_a_delimited_event_is_a_length_and_a_message() -> None:
    """The bytes themselves, by the wire format: type 3, a node, a time, a delivered message."""
    event = b"\x08\x03" + b"\x12\x02ab" + b"\x18\x05" + b"\x3a\x09" + b"\x0a\x02id" + b"\x12\x03top"
    (read,) = read_events(io.BytesIO(bytes([len(event)]) + event), False)
    assert (read.type, read.peerID, read.timestamp) == (3, b"ab", 5)
    assert (read.deliverMessage.messageID, read.deliverMessage.topic) == (b"id", "top")


def row(event: str, **fields: Any) -> Row:
    common = {"run_id": "", "schema_version": 2, "node_id": NODE, "ts_wall_ns": 7, "ts_mono_ns": 7}
    return msgspec.convert({**common, "event": event, **fields}, Row)


MESSAGES = {
    "topic": "prices",
    "topic_id": TOPIC,
    "msg_origin": ORIGIN,
    "msg_epoch": 1_700_000_000_000_000,
    "msg_seq": 5,
    "msg_count": 3,
}


@pytest.mark.parametrize(
    "event", ["PUBLISH", "DELIVER", "DUPLICATE", "REJECT", "SEND", "RECV", "DROP"]
)
def test_our_messages_come_back_one_by_one(event: str) -> None:
    """A run is three messages to them; what they have no word for is not asked."""
    peer = {} if event == "PUBLISH" else {"peer_id": PEER}
    ours = row(event, **MESSAGES, **peer)
    theirs = list(to_libp2p([ours]))
    assert len(theirs) == (1 if event in ("SEND", "RECV", "DROP") else 3)
    back = list(from_libp2p(theirs))
    assert [one.msg_seq for one in back] == [5, 6, 7]
    for one in back:
        for field in CARRIED - {"msg_seq", "msg_count"}:
            assert getattr(one, field) == getattr(ours, field), field


@pytest.mark.parametrize("event", [e for e in KINDS if e.startswith(("LINK", "VIEW"))])
def test_our_links_come_back(event: str) -> None:
    topic = {"topic": "prices", "topic_id": TOPIC, "reason": "partial"} if "VIEW" in event else {}
    ours = row(event, peer_id=PEER, **topic)
    (back,) = from_libp2p(to_libp2p([ours]))
    assert msgspec.structs.replace(back, strategy="", extra="") == ours


def test_who_joins_is_expected_until_its_last_event() -> None:
    ours = [
        row("SUBSCRIBE", topic="prices", topic_id=TOPIC),
        msgspec.structs.replace(row("LINK_UP", peer_id=PEER), ts_wall_ns=90, ts_mono_ns=90),
    ]
    back = list(from_libp2p(to_libp2p(ours)))
    assert [one.event for one in back] == ["SUBSCRIBE", "READY", "LINK_UP", "EXPECT"]
    assert back[-1].ts_wall_ns == 90
    gone = [*ours, row("UNSUBSCRIBE", topic="prices", topic_id=TOPIC)]
    assert "EXPECT" not in {one.event for one in from_libp2p(to_libp2p(gone))}


def test_what_they_have_no_word_for_is_counted() -> None:
    left_out: Counter[str] = Counter()
    rows = [row("CONSUME", **MESSAGES), row("EXPECT"), row("SEND", chunk=0, chunks=2, **MESSAGES)]
    assert list(to_libp2p(rows, left_out)) == []
    assert left_out == {"CONSUME": 1, "EXPECT": 1, "SEND": 1}


@pytest.mark.parametrize(
    ("content", "as_json", "error"),
    [
        (b"\x05ab", False, "event 0: the file ends"),
        (b"\xff" * 9, False, "delimited"),
        (b"\x01\xff", False, "event 0"),
        (b'{"type":0}\n{"type":', True, "line 2"),
        (b'{"type":"NO_SUCH_KIND"}\n', True, "line 1"),
    ],
)
def test_a_file_that_is_none_says_where(content: bytes, as_json: bool, error: str) -> None:
    with pytest.raises(libp2p.Malformed, match=error):
        list(read_events(io.BytesIO(content), as_json))


@pytest.mark.parametrize("suffix", ["pb", "ndjson"])
def test_the_command_converts_both_ways(tmp_path: Path, suffix: str) -> None:
    ours = [row("PUBLISH", **MESSAGES), row("DELIVER", peer_id=PEER, **MESSAGES), row("EXPECT")]
    source = tmp_path / "ours"
    source.mkdir()
    files.write_parquet(source / "a-1-000000.parquet", arrow.batches(ours))
    theirs = tmp_path / f"theirs.{suffix}"
    there = _convert(str(source), str(theirs), "--to", "libp2p")
    assert "wrote 6 events" in there
    assert "no word for 1 row: EXPECT 1" in there
    back = tmp_path / "back"
    assert "wrote 6 rows" in _convert(str(theirs), str(back), "--from", "libp2p", "--run", "x")
    read = list(files.rows(files.files(back)))
    assert [one.msg_seq for one in read] == [5, 6, 7, 5, 6, 7]
    assert {one.run_id for one in read} == {"x"}
    again = tmp_path / f"again.{suffix}"
    _convert(str(back), str(again), "--to", "libp2p")
    assert again.read_bytes() == theirs.read_bytes()
    assert "exists" in _convert(str(source), str(theirs), "--to", "libp2p", code=2)


def test_the_command_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text("nonsense\n")
    out = tmp_path / "out"
    assert "line 1" in _convert(str(tmp_path / "in.json"), str(out), "--from", "libp2p", code=1)
    assert "nothing to convert" in _convert(str(tmp_path / "in.json"), str(tmp_path / "o"), code=2)


def test_the_command_converts_lines_both_ways(tmp_path: Path) -> None:
    ours = [row("PUBLISH", **MESSAGES), row("EXPECT")]
    lines = tmp_path / "log.jsonl"
    lines.write_bytes(b"".join(map(schema.encode, ours)))
    _convert(str(lines), str(tmp_path / "trace"), "--from", "lines")
    assert list(files.rows(files.files(tmp_path / "trace"))) == ours
    _convert(str(tmp_path / "trace"), str(tmp_path / "again.jsonl"), "--to", "lines")
    assert (tmp_path / "again.jsonl").read_bytes() == lines.read_bytes()


def _convert(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["trace", "convert", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_extra_holds_the_event_itself() -> None:
    event = pb.Libp2pTraceEvent(type="JOIN", peerID=b"long id of theirs", join={"topic": "t"})
    subscribe, *_ = from_libp2p([event])
    kept = base64.b64decode(json.loads(subscribe.extra)["libp2p"])
    assert json_format.MessageToDict(pb.Libp2pTraceEvent.FromString(kept))["type"] == "JOIN"
    assert len(subscribe.node_id) == 32
