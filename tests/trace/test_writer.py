"""Trace files: what is written is whole, survives a killed writer, and never harms the node."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlaymq import ids
from overlaymq.config import TraceConfig
from overlaymq.errors import ConfigError
from overlaymq.ids import Id
from overlaymq.messages import Batch, Peer
from overlaymq.runtime.tracing import open_tracer
from overlaymq.trace import arrow, files, schema
from overlaymq.trace.packing import Pack
from overlaymq.trace.tracer import NOBODY, About
from overlaymq.trace.writer import FileTracer

NODE = Peer(Id(5 << 100), "host:1", 17)
OTHER = Id(6 << 100)
ROWS = 100


def tracer(directory: Path, **config: object) -> FileTracer:
    return FileTracer(TraceConfig(directory=str(directory), **config), "ab" * 16, 7)  # type: ignore[arg-type]


def batch(first: int) -> Batch:
    return Batch(Id(9), OTHER, 1, first, 1, b"")


def write(to: FileTracer, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        to.messages(NODE, schema.SEND, batch(number))


def until(condition: object, what: str) -> None:
    """Wait for another thread or process."""
    deadline = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.005)  # a look at another process or a disk


def sequence(directory: Path) -> list[int]:
    found = files.rows(files.files(directory))
    return [row.msg_seq for row in found if row.event == schema.SEND]


# --- rows ---

numbers = st.integers(-(2**63), 2**63 - 1)
small = st.integers(-(2**31), 2**31 - 1)
words = st.text(max_size=8)
some_id = st.one_of(st.just(NOBODY), st.integers(0, 2**128 - 1).map(Id))
event = st.tuples(
    *(numbers, numbers, st.sampled_from(list(schema.EVENTS)), some_id, numbers, words, some_id),
    *(words, some_id, numbers, numbers, small, small, small, numbers, numbers, some_id, some_id),
    *(small, numbers, words, numbers, words),
)


@settings(max_examples=30, deadline=None)  # each example starts a thread and syncs a file
@given(events=st.lists(event, min_size=1, max_size=12), batch_rows=st.integers(1, 5))
def test_every_row_survives_writing_and_reading(
    events: list[tuple[object, ...]], batch_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("rows")
    one = tracer(directory, batch_rows=batch_rows, queue=100)
    for values in events:
        one._add(*values)  # type: ignore[arg-type]
    one.close(20)
    assert one.tally.written == len(events)
    (path,) = files.files(directory)
    read = pq.read_table(path).to_pylist()
    for values, row in zip(events, read, strict=True):
        wall, mono, kind, node, *rest = values
        raw = [_stored(value) for value in (node, rest[0], kind, wall, mono, *rest[1:])]
        assert list(row.values())[2:] == raw
        assert schema.from_values(row).ts_wall_ns == wall


def _stored(value: object) -> object:
    if value == NOBODY and isinstance(value, int):
        return _Either(b"", value)
    if isinstance(value, int):
        return _Either(ids.to_bytes(Id(value)) if value >= 0 else None, value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


class _Either:
    """A number, or the id that it is: the column knows."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return other in self.values

    __hash__ = None  # type: ignore[assignment]


def test_a_pack_is_whole_in_itself() -> None:
    """Its tables begin and end with it, so they are bounded by its rows."""
    pack = Pack()
    assert [*pack.ids] == [NOBODY]
    assert [pack.words["a"], pack.words["b"], pack.words["a"]] == [1, 2, 1]


# --- segments ---


def test_a_segment_is_invisible_until_it_is_finished(tmp_path: Path) -> None:
    one = tracer(tmp_path, run="first")
    write(one, ROWS)
    one.flush()
    here = tmp_path / "first"
    until(lambda: one.tally.written == ROWS, "written")
    assert [path.name for path in here.iterdir()] == [f".{'ab' * 16}-7-000000.arrows.open"]
    assert sequence(tmp_path) == list(range(ROWS)), "but readable"
    one.close(20)
    assert [path.name for path in here.iterdir()] == [f"{'ab' * 16}-7-000000.parquet"]
    assert sequence(tmp_path) == list(range(ROWS))


def test_segments_roll_by_size_and_are_parquet_then(tmp_path: Path) -> None:
    one = tracer(tmp_path, batch_rows=ROWS, segment_bytes=4096, queue=100)
    write(one, 5 * ROWS)
    one.close(20)
    finished = sorted(tmp_path.glob("*.parquet"))
    assert len(finished) == 5
    assert sequence(tmp_path) == list(range(5 * ROWS))


def test_segments_roll_by_age_even_if_nothing_happens(tmp_path: Path) -> None:
    one = tracer(tmp_path, segment_seconds=0.05)
    write(one, ROWS)
    one.flush()
    until(lambda: list(tmp_path.glob("*.parquet")), "rolled")
    assert sequence(tmp_path) == list(range(ROWS))
    one.close(20)


def test_old_files_go_first(tmp_path: Path) -> None:
    (tmp_path / "notes.parquet").write_bytes(b"of somebody else")
    one = tracer(tmp_path, batch_rows=ROWS, segment_bytes=4096, keep_bytes=1, queue=100)
    write(one, 5 * ROWS)
    one.close(20)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.parquet"]
    one = tracer(tmp_path, batch_rows=ROWS, segment_bytes=4096, keep_bytes=0, queue=100)
    write(one, 5 * ROWS)
    one.close(20)
    written = sorted(tmp_path.glob("ab*.parquet"))
    size = written[0].stat().st_size
    for age, path in enumerate(reversed(written)):
        os.utime(path, (time.time() - 100 * age, time.time() - 100 * age))
    assert files.prune(tmp_path, 0, 350.0) == 1, "by age"
    assert files.prune(tmp_path, 2 * size + size // 2, 0.0) == 2, "by size"
    assert sorted(tmp_path.glob("ab*.parquet")) == written[3:]


def test_a_segment_that_begins_is_nobody_s_leftover(tmp_path: Path) -> None:
    """Nodes that start together look for leftovers while the others make their segments."""
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            files.recover(tmp_path)

    with ThreadPoolExecutor(2) as threads:
        looking = [threads.submit(look) for _ in range(2)]
        try:
            for number in range(60):
                one = FileTracer(TraceConfig(directory=str(tmp_path)), f"{number:032}", 7)
                write(one, 3)
                one.close(20)
                assert one.tally.problem == ""
                assert one.tally.written == 3
        finally:
            stop.set()
    assert all(one.result() is None for one in looking)
    assert len(sequence(tmp_path)) == 180


# --- killed writers ---

KILLED = """
import sys
from pathlib import Path
from tests.trace.test_writer import tracer, write, ROWS
one = tracer(Path(sys.argv[1]), batch_rows=1000)
for turn in range(3):
    write(one, ROWS, turn * ROWS)
    one.flush()
while one.tally.written < 3 * ROWS: pass
write(one, 7, 10_000)  # in memory only
print("ready", flush=True)
sys.stdin.read()
"""


def killed_writer(directory: Path) -> None:
    """Runs a writer in a process of its own up to a point, and kills it there."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert files.recover(directory) == [], "what a living writer has is left alone"
        process.send_signal(signal.SIGKILL)


def test_a_killed_writer_loses_only_what_it_had_not_flushed(tmp_path: Path) -> None:
    """Bar 2 of the traces."""
    killed_writer(tmp_path)
    assert sequence(tmp_path) == list(range(3 * ROWS))
    next_one = tracer(tmp_path)
    write(next_one, 1, 5000)
    next_one.close(20)
    assert not list(tmp_path.glob(".*")), "its leftovers are Parquet now"
    assert sorted(sequence(tmp_path)) == [*range(3 * ROWS), 5000]


def test_a_torn_batch_costs_no_other(tmp_path: Path) -> None:
    killed_writer(tmp_path)
    (segment,) = tmp_path.glob(".*")
    whole = segment.read_bytes()
    lengths = []
    for cut in [*range(0, len(whole), 97), len(whole)]:
        segment.write_bytes(whole[:cut])
        found = sequence(tmp_path)
        assert found == list(range(len(found)))
        lengths.append(len(found))
    assert set(lengths) == {0, ROWS, 2 * ROWS, 3 * ROWS}
    assert lengths == sorted(lengths)


def test_recovery_may_be_interrupted_anywhere(tmp_path: Path) -> None:
    """Killed before the rename there is a part; killed after it, file and segment."""
    killed_writer(tmp_path)
    (segment,) = tmp_path.glob(".*")
    raw = segment.read_bytes()
    part = segment.with_name(segment.name.replace(".arrows.open", files.PART))
    part.write_bytes(b"half a file")
    (made,) = files.recover(tmp_path)
    segment.write_bytes(raw)
    assert sequence(tmp_path) == list(range(3 * ROWS)), "no row twice"
    assert files.recover(tmp_path) == [made]
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    assert sequence(tmp_path) == list(range(3 * ROWS))


def test_what_never_got_its_name_is_swept_up_after_a_while(tmp_path: Path) -> None:
    new, old = (tmp_path / f".{name}-1-000000{files.NEW}" for name in "no")
    new.touch()
    old.touch()
    os.utime(old, (1, 1))
    assert files.recover(tmp_path) == []
    assert list(tmp_path.iterdir()) == [new]


def test_an_empty_segment_leaves_nothing(tmp_path: Path) -> None:
    files.open_segment(tmp_path, "x-1-000000").write_bytes(b"")
    assert files.recover(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def leftover(directory: Path, columns: pa.Schema = arrow.SCHEMA) -> Path:
    """A segment that nobody holds, of two batches, maybe with other columns than ours."""
    values = {pa.binary(): b"", pa.int32(): 0, pa.int64(): 0}
    rows = [{field.name: values.get(field.type, "x") for field in columns}] * ROWS
    segment = files.open_segment(directory, "other-1-000000")
    directory.mkdir(parents=True, exist_ok=True)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        pa.OSFile(str(segment), "wb") as file,
        pa.ipc.new_stream(file, columns, options=options) as to,
    ):
        for _ in range(2):
            to.write_table(pa.Table.from_pylist(rows, schema=columns))
    return segment


def test_a_leftover_of_another_version_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the tracing of every later node in its directory, with all columns of both in the log."""
    segment = leftover(tmp_path, pa.schema([one for one in arrow.SCHEMA if one.name != "root_id"]))
    raw = segment.read_bytes()
    for life in range(2):
        one = tracer(tmp_path)
        write(one, ROWS, life * ROWS)
        one.close(20)
        assert one.tally.problem == ""
    assert sequence(tmp_path) == list(range(2 * ROWS))
    (told,) = (record.getMessage() for record in caplog.records)
    assert "1 unreadable" in told
    assert len(told.splitlines()) == 1
    (bad,) = tmp_path.glob(".*")
    assert bad.name.endswith(files.BAD)
    assert bad.read_bytes() == raw, "somebody may have a use for it"


def test_a_damaged_leftover_is_set_aside_or_read(tmp_path: Path) -> None:
    """A flipped bit ended tracing too, by what Parquet could not store. Wherever it is, recovery goes on."""
    segment = leftover(tmp_path)
    raw = segment.read_bytes()
    aside: list[Path] = []
    for place in range(0, len(raw), max(1, len(raw) // 120)):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << place % 8
        segment.write_bytes(damaged)
        files.recover(tmp_path, aside)
        assert not segment.exists()
    assert len(aside) > 10
    assert {path.name for path in aside} == {".other-1-000000.arrows.bad"}
    assert files.next_number(tmp_path, "other-1") == 1, "nor is that name given again"


def test_leftovers_that_cannot_be_moved_do_not_end_tracing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong with what others have left, the writer's own rows may go well."""
    segment = leftover(tmp_path)
    files.finished_file(segment).mkdir()  # where its Parquet should go
    one = tracer(tmp_path)
    write(one, ROWS)
    one.close(20)
    assert one.tally.problem == ""
    assert one.tally.written == ROWS
    assert "stay as they are" in caplog.text


# --- what must not harm the node ---


@pytest.fixture
def small_files() -> object:
    """No file may be larger than 64 KiB: a disk that is full, to a process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(one: FileTracer, rows: int) -> int:
    """Give it rows that do not compress, batch by batch, until it has given up; how many."""
    written = 0
    while not one.tally.problem and written < rows:
        for number in range(500):
            one.note(NODE, schema.DROP, origin=ids.hashed(str(written + number).encode()))
        written += 500
        one.flush()
        until(lambda: _settled(one), "written or given up")
    return written


def _settled(one: FileTracer) -> bool:
    return one.tally.written == one.tally.recorded or bool(one.tally.problem)


def test_a_full_disk_ends_tracing_and_nothing_else(
    tmp_path: Path, small_files: object, caplog: pytest.LogCaptureFixture
) -> None:
    one = tracer(tmp_path)
    with caplog.at_level(logging.INFO):
        written = fill(one, 100_000)
        assert "too large" in one.tally.problem
        for _ in range(10):
            one.note(NODE, schema.DROP)
            one.flush()
        one.close(20)
    tally = one.tally
    assert tally.recorded == written + 10
    assert tally.written + tally.lost == tally.recorded
    assert 0 < tally.written < written
    assert [record.levelname for record in caplog.records] == ["ERROR"], "one line"
    assert "tracing has ended" in caplog.text
    assert len(list(files.rows(files.files(tmp_path)))) == tally.written, "and that is readable"


def _mounted(directory: Path) -> bool:
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(directory)]
    try:
        return subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def test_a_full_file_system_ends_tracing_and_nothing_else(tmp_path: Path) -> None:
    if not _mounted(tmp_path):
        pytest.skip("only root may mount a file system")
    try:
        one = tracer(tmp_path)
        fill(one, 100_000)
        one.close(20)
        assert "No space left" in one.tally.problem
        assert one.tally.written + one.tally.lost == one.tally.recorded
        assert len(list(files.rows(files.files(tmp_path)))) == one.tally.written
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def _all_written(one: FileTracer) -> bool:
    one.flush()
    return one.tally.written + one.tally.lost == one.tally.recorded


def test_what_the_disk_is_too_slow_for_is_counted_and_told(tmp_path: Path) -> None:
    """Batches of ten take longer to write than to make, by far."""
    one = tracer(tmp_path, batch_rows=10, queue=1)
    write(one, 3_000)
    assert 0 < one.tally.lost < one.tally.recorded
    until(lambda: _all_written(one), "the disk is idle again")
    write(one, 5, 100_000)
    one.close(20)
    tally = one.tally
    assert tally.recorded == tally.written + tally.lost
    found = list(files.rows(files.files(tmp_path)))
    assert sum(row.msg_count for row in found if row.event == schema.TRACE_LOSS) == tally.lost
    numbers = [row.msg_seq for row in found if row.event == schema.SEND]
    assert numbers == sorted(numbers)
    assert numbers[-5:] == [*range(100_000, 100_005)]


def test_a_directory_that_cannot_be_made_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        tracer(tmp_path / "file")


def test_ordered_topics_have_places(tmp_path: Path) -> None:
    one = tracer(tmp_path)
    numbered = Batch(Id(9), OTHER, 1, 5, 3, b"", root=OTHER, root_epoch=2, root_sequence=70)
    one.messages(NODE, schema.RECV, numbered, About("scribe", "a", True), start=1)
    one.messages(NODE, schema.RECV, numbered, About("scribe", "a", False))
    one.close(20)
    places = [
        (row.root_epoch, row.root_seq, row.root_id) for row in files.rows(files.files(tmp_path))
    ]
    assert places == [(2, 71, ids.text(OTHER)), (0, 0, "")]


def test_a_nodes_lost_events_are_told_as_its_own(tmp_path: Path) -> None:
    """Rows without a node are in no node's sums: its trace seemed whole."""
    config = TraceConfig(directory=str(tmp_path))
    one = open_tracer(config, NODE)
    assert one is not None
    one.note(NODE, schema.MISS, count=1 << 40)  # no row holds that
    one.close(20.0)
    [row] = files.rows(files.files(tmp_path / config.run))
    assert (row.event, row.node_id, row.msg_count) == (schema.TRACE_LOSS, ids.text(NODE.id), 1)
