"""Events packed for the writer: a few bytes each, made in a microsecond, split into columns later.

The node's own thread only packs. An event becomes one ``struct`` of numbers; ids and words are numbers too,
places in tables that belong to the pack, so a pack is whole in itself and its tables end with it. Another
thread makes an Arrow batch of it, column by column, mostly without the interpreter (reference: spark.md
section 3, where this was twice as fast as lists).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute  # used by `take`, which would import it in the middle of the first batch

from overlaymq import ids
from overlaymq.trace import arrow, schema
from overlaymq.trace.tracer import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable

_IN_ORDER = (
    *("ts_wall_ns", "ts_mono_ns", "event", "node_id", "boot_id"),
    *(column.name for column in schema.COLUMNS[7:]),
)
"""What ``Tracer._add`` takes, in its order."""
_COLUMNS = {column.name: column for column in schema.COLUMNS}
_CODES = {schema.INT64: ("q", "<i8"), schema.INT32: ("i", "<i4")}
_PLACE = ("I", "<u4")

LAYOUT = struct.Struct(
    "<" + "".join(_CODES.get(_COLUMNS[name].kind, _PLACE)[0] for name in _IN_ORDER)
)
_DTYPE = np.dtype([(name, _CODES.get(_COLUMNS[name].kind, _PLACE)[1]) for name in _IN_ORDER])
assert _DTYPE.itemsize == LAYOUT.size

Key = TypeVar("Key")


class Table(dict[Key, int]):
    """Values by the order in which they were first asked for."""

    def __missing__(self, key: Key) -> int:
        place = self[key] = len(self)
        return place


class Pack:
    """Events of one batch. ``rows`` are structs of ``LAYOUT``; what they name is in the tables."""

    __slots__ = ("ids", "rows", "texts", "told", "words")

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.ids: Table[ids.Id] = Table({NOBODY: 0})
        self.words: Table[str] = Table({"": 0})
        self.texts: Table[str] = Table({"": 0})
        self.told = 0
        """Lost events that a row of it tells of."""

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, run: str) -> pa.RecordBatch:
        """As Arrow has it."""
        packed = np.frombuffer(b"".join(self.rows), _DTYPE)
        words, texts = _strings(self.words), _strings(self.texts)
        named = pa.array(_raw(self.ids), pa.binary())
        columns = []
        for column in schema.COLUMNS:
            if column.name == "run_id":
                columns.append(_constant(run, len(self)))
                continue
            if column.name == "schema_version":
                columns.append(pa.array(np.full(len(self), schema.SCHEMA_VERSION, np.int32)))
                continue
            values = pa.array(np.ascontiguousarray(packed[column.name]))
            if column.kind == schema.BINARY:
                values = named.take(values)
            elif column.kind == schema.TEXT:
                values = texts.take(values)
            elif column.kind == schema.WORD:
                values = pa.DictionaryArray.from_arrays(values.cast(pa.int32()), words)
            columns.append(values)
        return pa.RecordBatch.from_arrays(columns, schema=arrow.SCHEMA)


def _raw(known: Iterable[ids.Id]) -> list[bytes]:
    return [b"" if id_ == NOBODY else ids.to_bytes(id_) for id_ in known]


def _strings(known: Iterable[str]) -> pa.StringArray:
    """What a peer has said may be no text at all; the trace can stand that."""
    raw = [word.encode("utf-8", "replace") for word in known]
    return pa.array(raw, pa.binary()).cast(pa.string())


def _constant(word: str, length: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(length, np.int32)), pa.array([word], pa.string())
    )
