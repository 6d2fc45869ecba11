"""Trace files: what lies in a trace directory, and how it gets there whole.

    DIR/RUN/NODE-BOOT-000007.parquet           finished: any table reader takes the directory as it is
    DIR/RUN/.NODE-BOOT-000008.arrows.open      a live segment, an Arrow IPC stream
    DIR/RUN/.NODE-BOOT-000007.parquet.part     being made of a segment
    DIR/RUN/.NODE-BOOT-000006.arrows.bad       a segment that cannot be read, set aside

A segment is written by appending whole batches, so whoever is killed loses what it had not written and
nothing else: the reader takes batches up to where the file is torn. Names that begin with a dot are invisible
to Spark. A segment becomes Parquet under a dot-name, is synced to the disk, and is renamed; only then does
the segment go. So at every moment each row is in a whole file, and a row is in two only for the moment
between the rename and the removal (``recover`` makes the same file again).

A writer locks its segment before it gives it that name; until then it is called ``.arrows.new``. What
nobody has locked belongs to the dead: ``recover`` makes Parquet of it. That is done by the next writer in the
directory, and by whoever reads it. A leftover of another version, or one that the disk has damaged, is set
aside: it must not keep later writers from their work, and may still be worth something to somebody.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from overlaymq.errors import OverlayError
from overlaymq.trace import schema
from overlaymq.trace.arrow import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger("overlaymq.trace")

OPEN = ".arrows.open"
BAD = ".arrows.bad"
NEW = ".arrows.new"
PART = ".parquet.part"
FINISHED = re.compile(r"[\w.-]+-\d+-\d{6,}\.parquet")

STILLBORN = 600.0
"""Seconds after which a segment without a name will get none: a guess, far above what it takes."""
ROW_GROUP = 131_072
"""Rows that are held in memory at once when a segment becomes Parquet, some 25 MB: a guess."""

_NUMBERED = [column.name for column in schema.COLUMNS if column.name.startswith("ts_")]
_DICTIONARY = [
    column.name
    for column in schema.COLUMNS
    if column.name not in _NUMBERED and column.kind != schema.TEXT
]


class Unreadable(OverlayError):
    """A file is damaged, of another version, or no trace."""


def open_segment(directory: Path, name: str) -> Path:
    """Where a live segment of this name is."""
    return directory / f".{name}{OPEN}"


def finished_file(segment: Path) -> Path:
    """What a segment becomes."""
    return segment.with_name(segment.name[1:].removesuffix(OPEN) + ".parquet")


def next_number(directory: Path, name: str) -> int:
    """The first that no file of this name has: nobody's rows are ever written over."""
    taken = [-1]
    for before, ending in (("", ".parquet"), (".", OPEN), (".", BAD)):
        for path in directory.glob(f"{before}{name}-*{ending}"):
            number = path.name.removesuffix(ending).rpartition("-")[2]
            if number.isdecimal():
                taken.append(int(number))
    return max(taken) + 1


class Lock:
    """Held on a segment by its writer or by who makes Parquet of it; ends with its process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:  # whatever it is, the file must not stay open; raised again
            os.close(self._file)
            raise

    def release(self) -> None:
        """Let others have it."""
        os.close(self._file)


def batches(segment: Path) -> Iterator[pa.RecordBatch]:
    """The whole batches of a segment, live or torn. Raises ``Unreadable`` if it is wrong before its end."""
    with pa.OSFile(str(segment), "rb") as file:
        size = file.size()
        try:
            with pa.ipc.open_stream(file) as stream:
                _demand_columns(segment, stream.schema)
                for batch in stream:
                    batch.validate(
                        full=True
                    )  # a wrong length or place within would end the process
                    yield batch
        except (pa.ArrowException, OSError) as error:
            if file.tell() < size:
                why = str(error).partition("\n")[0]
                raise Unreadable(f"{segment} is damaged: {why}") from None
            # Else torn: its writer was killed in the middle of a batch, or is about to write one.


def _demand_columns(segment: Path, found: pa.Schema) -> None:
    if not found.equals(SCHEMA):
        raise Unreadable(f"{segment} has other columns than this version writes")


def demand_trace(path: Path) -> None:
    """Raises ``Unreadable`` if a file or segment is no trace of this version; reads only an end of it."""
    versions = _segment_versions(path) if path.name.endswith(OPEN) else _finished_versions(path)
    for version in versions - {schema.SCHEMA_VERSION}:
        raise Unreadable(
            f"{path} is a trace of version {version}, this overlaymq reads version {schema.SCHEMA_VERSION}: "
            "use the one that wrote it"
        )


def _segment_versions(segment: Path) -> set[int]:
    try:
        first = next(batches(segment), None)
    except Unreadable as error:
        raise Unreadable(f"{error}; `overlaymq trace recover` sets it aside") from None
    return set() if first is None else set(first.column("schema_version").to_pylist())


def _finished_versions(path: Path) -> set[int]:
    try:
        with pq.ParquetFile(path) as file:
            missing = {one.name for one in schema.COLUMNS} - set(file.schema_arrow.names)
            about = file.metadata
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError):
        raise Unreadable(
            f"{path} is no whole Parquet file: copy it again, or move it away"
        ) from None
    if missing:
        raise Unreadable(
            f"{path} is no trace, it has no column {min(missing)}: move it away, or name a folder of traces"
        )
    found = set()
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == "schema_version" and column.is_stats_set:
                found |= {column.statistics.min, column.statistics.max}
    return found


def rows(paths: list[Path]) -> Iterator[schema.Row]:
    """Every row of these files, Parquet or segments."""
    for path in paths:
        if path.name.endswith(OPEN):
            whole: Iterator[pa.RecordBatch] = batches(path)
        else:
            whole = pq.ParquetFile(path).iter_batches()
        for batch in whole:
            for values in batch.to_pylist():
                yield schema.from_values(values)


def files(directory: Path) -> list[Path]:
    """Finished files and segments below a directory, in order. A segment whose file is there is left out."""
    finished = sorted(path for path in directory.rglob("*.parquet") if path.name[0] != ".")
    segments = sorted(directory.rglob(f".*{OPEN}"))
    return finished + [one for one in segments if not finished_file(one).exists()]


# --- Parquet ---------------------------------------------------------------------------------------


def compact(segment: Path) -> Path | None:
    """Make Parquet of a segment and remove it; None if it held nothing. Its lock must be held."""
    final = finished_file(segment)
    part = segment.with_name(segment.name.removesuffix(OPEN) + PART)
    try:
        count = write_parquet(part, batches(segment))
        if count:
            os.replace(part, final)
            _sync(segment.parent)
    finally:
        part.unlink(missing_ok=True)
    segment.unlink(missing_ok=True)
    return final if count else None


def write_parquet(path: Path, whole: Iterator[pa.RecordBatch]) -> int:
    """Write batches as one file and wait until the disk has it; how many rows."""
    count = 0
    with pa.OSFile(str(path), "wb") as file, _writer(file) as writer:
        for table in _groups(whole):
            writer.write_table(table, row_group_size=ROW_GROUP)
            count += table.num_rows
    _sync(path)
    return count


def _writer(file: pa.OSFile) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        file,
        SCHEMA,
        compression="zstd",
        use_dictionary=_DICTIONARY,
        column_encoding=dict.fromkeys(_NUMBERED, "DELTA_BINARY_PACKED"),
    )


def _groups(whole: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in whole:
        held.append(batch)
        if sum(one.num_rows for one in held) >= ROW_GROUP:
            yield pa.Table.from_batches(held, SCHEMA).unify_dictionaries()
            held = []
    if held:
        yield pa.Table.from_batches(held, SCHEMA).unify_dictionaries()


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


# --- what is left over, and what is too old ---------------------------------------------------------


def recover(directory: Path, aside: list[Path] | None = None) -> list[Path]:
    """Make Parquet of what killed writers have left in a directory: the new files. What cannot be read is set
    aside, and named in ``aside``."""
    made: list[Path] = []
    unreadable: list[Path] = []
    reason = ""
    _sweep(directory)
    for segment in sorted(directory.glob(f".*{OPEN}")):
        try:
            lock = Lock(segment)
        except OSError:
            continue  # its writer lives, somebody else was faster, or it is another user's
        try:
            if segment.exists() and (final := compact(segment)) is not None:
                made.append(final)
        except Unreadable as error:
            unreadable.append(segment.rename(segment.with_name(_bad_name(segment))))
            reason = reason or str(error)
        finally:
            lock.release()
    if unreadable:
        log.warning("set aside as *%s: %d unreadable; %s", BAD, len(unreadable), reason)
    if aside is not None:
        aside += unreadable
    return made


def _bad_name(segment: Path) -> str:
    return segment.name.removesuffix(OPEN) + BAD


def _sweep(directory: Path) -> None:
    """Remove what its writer has not even named: it holds no row."""
    for path in directory.glob(f".*{NEW}"):
        with contextlib.suppress(FileNotFoundError):  # it has its name now
            if time.time() - path.stat().st_mtime > STILLBORN:
                path.unlink()


def prune(directory: Path, keep_bytes: int, keep_seconds: float) -> int:
    """Remove the oldest finished files beyond a size or an age (0: none); how many."""
    found = []
    for path in directory.glob("*.parquet"):
        if FINISHED.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):  # another writer prunes too
                found.append((path.stat().st_mtime, path, path.stat().st_size))
    total, removed = sum(size for _, _, size in found), 0
    oldest = time.time() - keep_seconds if keep_seconds else float("-inf")
    for changed, path, size in sorted(found):
        if changed >= oldest and (not keep_bytes or total <= keep_bytes):
            break
        path.unlink(missing_ok=True)
        total -= size
        removed += 1
    return removed
