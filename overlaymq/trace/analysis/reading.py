"""Traces as one DataFrame: finished Parquet files, and the segments that no writer has finished.

A writer that is killed, or still at work, leaves a segment: an Arrow stream named ``.NAME.arrows.open``.
Spark does not see files whose names begin with a dot, and knows no Arrow files, so segments are read by
pyarrow, on the workers, up to the last whole batch. A segment whose ``NAME.parquet`` lies beside it was
finished already and is passed over. Segments are looked for in local (or mounted) directories only.

The analysis reads its events several times, and a living writer goes on meanwhile: it appends to its segment,
and every half a minute finishes it. So segments are read once, into Spark's own files, and every reading of
the DataFrame sees the same rows. A finished file that is removed meanwhile (``trace.keep_bytes``) is missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import types as T

from overlaymq.errors import OverlayError
from overlaymq.trace.analysis import segments
from overlaymq.trace.analysis.shipping import by_value
from overlaymq.trace.files import OPEN, Unreadable, demand_trace, finished_file
from overlaymq.trace.schema import BINARY, COLUMNS, INT32, INT64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

_REMOTE = re.compile(r"^[a-z][a-z0-9+.-]+://", re.IGNORECASE)

_SPARK_TYPES: dict[str, T.DataType] = {
    BINARY: T.BinaryType(),
    INT32: T.IntegerType(),
    INT64: T.LongType(),
}

SCHEMA = T.StructType(
    [T.StructField(one.name, _SPARK_TYPES.get(one.kind, T.StringType())) for one in COLUMNS]
)
"""The columns as Spark has them. Given to every read: one torn file or an old one must not decide them."""

_ARROW_TYPES = {BINARY: pa.binary(), INT32: pa.int32(), INT64: pa.int64()}
_PLAIN = pa.schema([(one.name, _ARROW_TYPES.get(one.kind, pa.string())) for one in COLUMNS])


by_value(segments)


class NoTraces(OverlayError):
    """There is nothing to analyse."""


@dataclass(frozen=True)
class Sources:
    """What was found under the given paths."""

    tables: tuple[str, ...]
    segments: tuple[str, ...]


def find(paths: Sequence[str]) -> Sources:
    """The Parquet files and open segments under ``paths``; an address such as s3a://... is taken as it is.

    Raises ``Unreadable`` for what is no trace, before Spark has been started for it.
    """
    tables: list[str] = []
    left_over: list[str] = []
    for given in paths:
        if _REMOTE.match(given):
            tables.append(given)
            continue
        path = Path(given).absolute()
        if not path.exists():
            raise NoTraces(f"{given}: there is no such file or directory")
        # Segments first: one that is finished in between is found as a table.
        left_over += [str(one) for one in _below(path) if one.name.endswith(OPEN)]
        tables += [str(one) for one in _below(path) if _is_table(one)]
    left_over = sorted(one for one in left_over if str(finished_file(Path(one))) not in set(tables))
    if not tables and not left_over:
        raise NoTraces(
            f"no traces in {', '.join(paths)}: neither .parquet files nor {OPEN} segments; "
            "set trace.directory in the nodes' configuration, or name another directory"
        )
    return Sources(tuple(filter(_is_trace, tables)), tuple(filter(_is_trace, left_over)))


def _is_trace(path: str) -> bool:
    """Whether it is still there; raises ``Unreadable`` if it is something else."""
    if not _REMOTE.match(path):
        try:
            demand_trace(Path(path))
        except FileNotFoundError:  # its writer lives: a segment was finished, or an old file went
            return path.endswith(OPEN)
    return True


def _is_table(path: Path) -> bool:
    return path.suffix == ".parquet" and not path.name.startswith(".") and path.is_file()


def _below(path: Path) -> Iterable[Path]:
    return sorted(path.rglob("*")) if path.is_dir() else [path]


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """All events under ``paths``, one row each, in no order. What is in segments is read now, the rest when
    it is asked for."""
    return load(spark, find(paths))


def load(spark: SparkSession, found: Sources) -> DataFrame:
    """The same of what was found before."""
    parts = []
    if found.tables:
        reader = spark.read.option("recursiveFileLookup", "true")
        for address in filter(_REMOTE.match, found.tables):
            _demand_columns(address, reader.parquet(address).columns, SCHEMA.names)
        parts.append(reader.schema(SCHEMA).parquet(*found.tables))
    if found.segments:
        parts.append(read_segments(spark, found.segments))
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _demand_columns(source: str, found: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise Unreadable(f"{source} has no column {missing[0]}; wanted are {', '.join(wanted)}")


def read_baseline(spark: SparkSession, path: str) -> DataFrame:
    """One-way delays (``relative``) from a CSV with a header, or from Parquet."""
    if path.endswith(".csv"):
        table = spark.read.option("header", "true").csv(path)
    else:
        table = spark.read.parquet(path)
    _demand_columns(path, table.columns, ("node_id", "peer_id", "delay_ns"))
    return table


def read_segments(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The whole batches of unfinished segments, as they are now."""
    named = [(one, str(finished_file(Path(one)))) for one in paths]
    files = spark.createDataFrame(named, "path string, finished string")
    spread = files.repartition(min(len(paths), 4 * spark.sparkContext.defaultParallelism))

    def rows(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return segments.rows(named, _PLAIN)

    read_once = spread.mapInArrow(rows, SCHEMA)
    return read_once.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
