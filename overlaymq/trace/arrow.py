"""The columns of ``trace.schema`` as Arrow has them: of segments, and of Parquet files.

Words are dictionaries, for a run has few of them; Spark reads those as plain strings. Ids are plain
``binary``, not of a fixed size, so that there can be none. No column is nullable.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from overlaymq.trace.schema import BINARY, COLUMNS, INT32, INT64, TEXT, WORD, Row, to_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BATCH = 8192
"""Rows of a batch, as for the writer."""

TYPES = {
    BINARY: pa.binary(),
    WORD: pa.dictionary(pa.int32(), pa.string()),
    TEXT: pa.string(),
    INT32: pa.int32(),
    INT64: pa.int64(),
}

SCHEMA = pa.schema(
    [pa.field(column.name, TYPES[column.kind], nullable=False) for column in COLUMNS]
)


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows that come one by one, for those who are in no hurry."""
    remaining = iter(rows)
    while some := [to_values(row) for row in islice(remaining, BATCH)]:
        columns = [
            pa.array(values, TYPES[column.kind])
            for values, column in zip(zip(*some, strict=True), COLUMNS, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
