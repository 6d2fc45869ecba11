"""Finding and reading traces: finished files, segments of the killed and the living, nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from overlaymq.trace import arrow, files, schema
from overlaymq.trace.analysis import reading, relative
from overlaymq.trace.spark import SparkFailed, told

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark


def batch(first: int, count: int) -> pa.RecordBatch:
    rows = [
        schema.to_values(
            schema.Row(
                run_id="r",
                schema_version=schema.SCHEMA_VERSION,
                node_id="ab" * 16,
                event=schema.DELIVER,
                ts_wall_ns=number,
                ts_mono_ns=number,
                msg_seq=number,
                msg_count=1,
            )
        )
        for number in range(first, first + count)
    ]
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), arrow.SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow.SCHEMA)


def segment(path: Path, *batches: pa.RecordBatch) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    # No end of stream is written: nobody has closed it.
    sink = pa.OSFile(str(path), "wb")
    writer = pa.ipc.new_stream(sink, arrow.SCHEMA)
    for one in batches:
        writer.write_batch(one)
    sink.close()
    return path


def numbers(spark: SparkSession, *paths: Path) -> list[int]:
    rows = reading.read(spark, [str(path) for path in paths]).select("msg_seq").collect()
    return sorted(row.msg_seq for row in rows)


def test_finished_files_and_segments_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    here = tmp_path / "run"
    live = segment(files.open_segment(here, "n-1-000001"), batch(0, 5))
    assert files.compact(live) is not None
    segment(files.open_segment(here, "n-1-000002"), batch(5, 5), batch(10, 5))
    assert numbers(spark, tmp_path) == list(range(15))
    frame = reading.read(spark, [str(tmp_path)])
    assert frame.schema == reading.SCHEMA
    assert {bytes(row.node_id) for row in frame.collect()} == {b"\xab" * 16}


def test_a_torn_segment_gives_its_whole_batches(spark: SparkSession, tmp_path: Path) -> None:
    whole = segment(tmp_path / ".n-1-000001.arrows.open", batch(0, 5), batch(5, 5))
    whole.write_bytes(whole.read_bytes()[:-40])
    segment(tmp_path / ".n-1-000002.arrows.open")
    (tmp_path / ".n-1-000003.arrows.open").write_bytes(b"")
    assert numbers(spark, tmp_path) == list(range(5))


def test_a_segment_that_is_damaged_in_the_middle_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All that was behind the damage was missing without a word, and seemed lost."""
    path = segment(tmp_path / "a b" / ".n-1-000001.arrows.open", *(batch(n, 5) for n in range(3)))
    first = segment(tmp_path / "one.arrows", batch(0, 5)).stat().st_size
    raw = bytearray(path.read_bytes())
    raw[first + 8 : first + 40] = bytes(32)  # the description of the second batch
    path.write_bytes(raw)
    found = reading.find([str(tmp_path)])
    with pytest.raises(SparkFailed) as caught, told():
        reading.load(spark, found)
    assert str(caught.value) == f"{path} is damaged: `overlaymq trace recover` sets it aside"


def test_a_segment_that_is_finished_already_is_not_read_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = segment(files.open_segment(tmp_path, "n-1-000001"), batch(0, 5))
    copy = live.read_bytes()
    files.compact(live)
    live.write_bytes(copy)
    assert numbers(spark, tmp_path) == list(range(5))


def test_a_living_writer_may_go_on_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    """A segment that was finished between two readings ended the analysis: the second did not find it."""
    live = segment(files.open_segment(tmp_path, "n-1-000001"), batch(0, 5))
    found = reading.find([str(tmp_path)])
    frame = reading.load(spark, found).select("msg_seq")
    segment(live, batch(0, 5), batch(5, 5))
    assert frame.count() == 5, "the same rows each time"
    finished = files.compact(live)
    assert frame.count() == 5
    again = reading.load(spark, found)
    assert again.count() == 10, "what is finished is found by its other name"
    assert again.schema == reading.SCHEMA
    assert finished is not None
    finished.unlink()
    assert frame.count() == 5
    assert reading.load(spark, found).count() == 0, "removed for its age before anybody read it"


def test_a_single_file_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    finished = files.compact(segment(files.open_segment(tmp_path, "n-1-000001"), batch(0, 3)))
    assert finished is not None
    assert numbers(spark, finished) == [0, 1, 2]


def test_nothing_to_read_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(reading.NoTraces, match="no such file"):
        reading.find([str(tmp_path / "absent")])
    with pytest.raises(reading.NoTraces, match=r"trace\.directory"):
        reading.find([str(tmp_path)])


def test_a_baseline_is_a_table_of_delays(spark: SparkSession, tmp_path: Path) -> None:
    """An empty run is null in Spark, and was good for no run at all."""
    path = tmp_path / "delays.csv"
    path.write_text(f"run_id,node_id,peer_id,delay_ns\n,{'aa' * 16},{'bb' * 16},5\n")
    a, b = b"\xaa" * 16, b"\xbb" * 16
    found = relative.from_table(reading.read_baseline(spark, str(path)))
    assert found == {("", a, b): 5, ("", b, a): 5}
    path.write_text(f"node_id,peer_id,delay_ns\n{'aa' * 16},{'bb' * 16},soon\n")
    with pytest.raises(files.Unreadable, match="delay_ns=soon"):
        relative.from_table(reading.read_baseline(spark, str(path)))
    path.write_text("node_id,peer_id\n")
    with pytest.raises(files.Unreadable, match="no column delay_ns"):
        reading.read_baseline(spark, str(path))


def test_addresses_are_left_to_spark() -> None:
    assert reading.find(["s3a://bucket/traces"]).tables == ("s3a://bucket/traces",)
