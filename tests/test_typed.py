"""Codecs give back what was put in, refuse what is of another type, and never unpickle."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from hypothesis import given
from hypothesis import strategies as st

import overlaymq
from overlaymq.runtime.typed import CODECS, JsonCodec, MessagePackCodec, ProtobufCodec


class Price(msgspec.Struct):
    symbol: str
    cents: int


@given(st.binary())
def test_bytes_pass_as_they_are(value: bytes) -> None:
    assert CODECS["bytes"].encode(value) == CODECS["bytes"].decode(value) == value


@given(st.text())
def test_text_round_trips(value: str) -> None:
    assert CODECS["text"].decode(CODECS["text"].encode(value)) == value


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("name", ["json", "msgpack"])
@given(value=plain)
def test_plain_values_round_trip(name: str, value: Any) -> None:
    assert CODECS[name].decode(CODECS[name].encode(value)) == value


@pytest.mark.parametrize("kind", [JsonCodec, MessagePackCodec])
def test_a_typed_codec_gives_that_type_and_refuses_others(kind: Any) -> None:
    codec = kind(Price)
    assert codec.decode(codec.encode(Price("AAPL", 19120))) == Price("AAPL", 19120)
    with pytest.raises(msgspec.ValidationError, match="cents"):
        codec.decode(kind().encode({"symbol": "AAPL", "cents": "many"}))


@given(st.text())
def test_protobuf_messages_round_trip(text: str) -> None:
    codec = ProtobufCodec(StringValue)
    decoded = codec.decode(codec.encode(StringValue(value=text)))
    assert isinstance(decoded, StringValue)
    assert decoded.value == text


class Trap:
    """Unpickling this would run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a payload was unpickled",))


@pytest.mark.parametrize("name", ["json", "msgpack", "text"])
def test_a_pickle_is_just_a_bad_payload(name: str) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        CODECS[name].decode(pickle.dumps(Trap()))


def test_no_module_of_the_package_can_unpickle() -> None:
    """But the reader of flight records, which finds nothing but the core's own classes."""
    package = Path(overlaymq.__file__).parent
    for path in package.rglob("*.py"):
        if path == package / "runtime" / "record.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            for name in names:
                top = name.split(".")[0]
                assert top not in ("pickle", "marshal", "shelve", "dill"), f"{path}: {name}"
