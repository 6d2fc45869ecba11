"""The trace format: one definition, and its twins agree with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.trace import schema
from overlaymq.trace.arrow import SCHEMA
from overlaymq.trace.schema import COLUMNS, Row, from_values, to_values
from overlaymq.transport._pb.overlaymq.v1 import trace_pb2

PROTOBUF_KINDS = {
    "bytes": schema.BINARY,
    "string": schema.WORD,
    "int32": schema.INT32,
    "int64": schema.INT64,
}

ids = st.one_of(st.just(""), st.binary(min_size=16, max_size=16).map(bytes.hex))
values = {
    schema.BINARY: ids,
    schema.WORD: st.text(max_size=5),
    schema.TEXT: st.text(),
    schema.INT32: st.integers(-(2**31), 2**31 - 1),
    schema.INT64: st.integers(-(2**63), 2**63 - 1),
}
rows = st.fixed_dictionaries(
    {column.name: values[column.kind] for column in COLUMNS if column.default is None},
    optional={column.name: values[column.kind] for column in COLUMNS if column.default is not None},
).map(lambda fields: msgspec.convert(fields, Row))


def test_every_field_and_every_event_is_explained() -> None:
    assert list(schema.FIELDS) == [column.name for column in COLUMNS]
    constants = {value for name, value in vars(schema).items() if name == value}
    assert constants == set(schema.EVENTS)


def test_the_protobuf_twin_has_the_same_fields_in_the_same_order() -> None:
    descriptor = trace_pb2.TraceRow.DESCRIPTOR
    kinds = {value: name.lower() for name, value in _protobuf_types().items()}
    declared = [(f.name, PROTOBUF_KINDS[kinds[f.type]]) for f in descriptor.fields]
    ours = [(c.name, schema.WORD if c.kind == schema.TEXT else c.kind) for c in COLUMNS]
    assert declared == ours
    assert [f.number for f in descriptor.fields] == list(range(1, len(COLUMNS) + 1))


def _protobuf_types() -> dict[str, int]:
    field = trace_pb2.TraceRow.DESCRIPTOR.fields[0]
    return {name[5:]: getattr(field, name) for name in dir(field) if name.startswith("TYPE_")}


def test_the_arrow_columns_are_the_fields() -> None:
    assert SCHEMA.names == [field.name for field in msgspec.structs.fields(Row)]
    assert not any(field.nullable for field in SCHEMA)
    assert SCHEMA.field("node_id").type == pa.binary()


@given(rows)
def test_a_row_survives_every_form(row: Row) -> None:
    assert schema.decode(schema.encode(row)) == row
    columns = dict(zip((c.name for c in COLUMNS), to_values(row), strict=True))
    assert from_values(columns) == row
    twin = trace_pb2.TraceRow(**columns)
    read = trace_pb2.TraceRow.FromString(twin.SerializeToString())
    assert from_values({c.name: getattr(read, c.name) for c in COLUMNS}) == row


def test_the_page_has_every_event_and_every_field() -> None:
    """docs/traces.md cannot drift: its tables are made of the schema."""
    root = Path(__file__).resolve().parents[2]
    make = "import runpy; made = runpy.run_path('docs/generate_traces.py');"
    make += "print(made['page'](made['TARGET'].read_text()), end='')"
    made = subprocess.run(
        [sys.executable, "-c", make], cwd=root, capture_output=True, text=True, check=True
    )
    page = (root / "docs" / "traces.md").read_text()
    assert page == made.stdout, "run: python docs/generate_traces.py"
    assert all(f"| `{name}` |" in page for name in [*schema.EVENTS, *schema.FIELDS])
