"""Unfinished segments, read on the workers of a cluster.

Sent to them by value, as ``kernel`` is: pyarrow and the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Damaged(ValueError):
    """A segment is wrong before its end: what is behind would be missing without a word. Names it."""


def rows(named: Iterable[pa.RecordBatch], plain: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The whole batches of segments, with the columns of ``plain``. ``named``: the path of each, and that of
    the file it becomes."""
    for batch in named:
        for path, finished in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            for one in whole_batches(path, finished):
                yield from pa.Table.from_batches([one]).select(plain.names).cast(plain).to_batches()


def whole_batches(path: str, finished: str) -> Iterator[pa.RecordBatch]:
    """The batches of one segment as far as they are whole: its writer was killed, or is at work. It may have
    been finished since it was found, and even removed for its age."""
    try:
        file = pa.OSFile(path)
    except FileNotFoundError:
        try:
            made = pq.ParquetFile(finished)
        except FileNotFoundError:
            return
        with made:
            yield from made.iter_batches()
        return
    with file:
        size = file.size()
        try:
            with pa.ipc.open_stream(file) as stream:
                for batch in stream:
                    batch.validate(full=True)
                    yield batch
        except (pa.ArrowException, OSError):
            if file.tell() < size:
                raise Damaged(path) from None
            # Else torn: nothing comes after it.
