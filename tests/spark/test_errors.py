"""What users can set right is one line that says how, and said before Spark has worked for minutes."""

from __future__ import annotations

import logging
import signal
import socket
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.errors import PySparkRuntimeError

from overlaymq.cli import main
from overlaymq.trace import arrow, files, job, schema
from overlaymq.trace import spark as sparks
from overlaymq.trace.analysis import reading

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark


def trace(path: Path, version: int = schema.SCHEMA_VERSION, rows: int = 3) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = (
        schema.Row(
            run_id="r", schema_version=version, event="NODE", ts_wall_ns=number, ts_mono_ns=0
        )
        for number in range(rows)
    )
    files.write_parquet(path, arrow.batches(made))
    return path


def analyze(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, arguments)])


def one_line(result: Result, *words: str, code: int) -> None:
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr


# --- before Spark starts ---


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    """It was 177 lines of Java's."""
    path = trace(tmp_path / "r" / "n-1-000000.parquet")
    path.write_bytes(path.read_bytes()[:-30])
    one_line(analyze(tmp_path), path.name, "no whole Parquet file", "move it away", code=1)


def test_a_foreign_table_is_no_trace(tmp_path: Path) -> None:
    """It was analysed: nobody was a subscriber, no promised order was broken."""
    trace(tmp_path / "r" / "n-1-000000.parquet")
    pq.write_table(pa.table({"a": [1, 2], "event": ["x", "y"]}), tmp_path / "foreign.parquet")
    one_line(analyze(tmp_path), "foreign.parquet is no trace", "has no column", code=1)


def test_traces_of_another_version_are_refused(tmp_path: Path) -> None:
    trace(tmp_path / "n-1-000000.parquet", schema.SCHEMA_VERSION - 1)
    one_line(analyze(tmp_path), "version 1", "use the one that wrote it", code=1)


def test_a_segment_of_another_version_is_refused(tmp_path: Path) -> None:
    path = files.open_segment(tmp_path, "n-1-000000")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, pa.schema([])):
        pass
    one_line(analyze(tmp_path), path.name, "trace recover", code=1)


def test_a_file_that_goes_while_it_is_looked_for_is_no_error(tmp_path: Path) -> None:
    """Its writer lives, and removes its oldest."""
    path = trace(tmp_path / "n-1-000000.parquet")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        files.demand_trace(path)
    trace(tmp_path / "n-1-000001.parquet")
    (tmp_path / "n-1-000000.parquet").symlink_to(tmp_path / "nowhere")
    assert [one[-14:] for one in reading.find([str(tmp_path)]).tables] == ["000001.parquet"]


@pytest.mark.parametrize("master", ["foo", "local[0]", "spark://host", "http://host:7077"])
def test_a_master_that_spark_does_not_know(tmp_path: Path, master: str) -> None:
    """It was 55 lines, from a Java that was started for nothing."""
    trace(tmp_path / "n-1-000000.parquet")
    one_line(analyze(tmp_path, "--master", master), "--master", "local[2]", code=2)
    one_line(analyze(tmp_path, "--master", master, "--follow"), "--master", code=2)


def test_a_master_that_does_not_answer(tmp_path: Path) -> None:
    """Spark tried for a minute and a half, and ended with pages of text."""
    trace(tmp_path / "n-1-000000.parquet")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        master = f"spark://127.0.0.1:{nobody.getsockname()[1]}"
        one_line(analyze(tmp_path, "--master", master), master, "whether the cluster runs", code=1)


def test_a_memory_that_is_no_size(tmp_path: Path) -> None:
    trace(tmp_path / "n-1-000000.parquet")
    one_line(analyze(tmp_path, "--memory", "100m"), "--memory", "512m", code=2)
    one_line(analyze(tmp_path, "--memory", "much"), "--memory", "4g", code=2)


def test_a_place_that_cannot_be_written_to_is_said_first(tmp_path: Path) -> None:
    """It was noticed after the whole analysis, which was lost."""
    path = trace(tmp_path / "n-1-000000.parquet")
    one_line(analyze(tmp_path, "--out", path / "report"), "--out", "name another place", code=2)


def test_the_job_has_the_same_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "n-1-000000.parquet")
    assert job.main([str(tmp_path), "--out", str(path / "report")]) == 2
    assert job.main([str(tmp_path), "--master", "foo"]) == 2
    assert job.main([str(tmp_path / "absent")]) == 1
    assert capsys.readouterr().err.count("\n") == 3


# --- what only Spark finds ---


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: hdfs://a/b. SQLSTATE: 42K03",
            "hdfs://a/b: there is no",
        ),
        ("x\n: java.lang.OutOfMemoryError: Java heap space\n\tat a.b", "--memory"),
        ("Caused by: All masters are unresponsive! Giving up.", "--master"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "JAVA_HOME"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "s3"', "(s3)"),
    ],
)
def test_what_spark_says_is_said_shortly(said: str, words: str) -> None:
    with pytest.raises(sparks.SparkFailed) as caught, sparks.told():
        raise PySparkRuntimeError(said)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_nobody_foresaw_keeps_its_traceback() -> None:
    with pytest.raises(PySparkRuntimeError), sparks.told():
        raise PySparkRuntimeError("[UNRESOLVED_COLUMN] a bug of ours")
    with pytest.raises(ValueError, match="OutOfMemoryError"), sparks.told():
        raise ValueError("OutOfMemoryError")


def test_files_that_spark_cannot_read_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """One with a whole end but damaged within, and one that was removed meanwhile."""
    path = trace(tmp_path / "n-1-000000.parquet", rows=3000)
    raw = bytearray(path.read_bytes())
    raw[4:100] = bytes(96)
    path.write_bytes(raw)
    events = reading.read(spark, [str(tmp_path)])
    with pytest.raises(sparks.SparkFailed, match=r"000000\.parquet is damaged"), sparks.told():
        events.collect()
    trace(path)
    events = reading.read(spark, [str(tmp_path)])
    path.unlink()
    with pytest.raises(sparks.SparkFailed, match=r"000000\.parquet was removed"), sparks.told():
        events.collect()


# --- signals ---


def test_signals_interrupt_and_nothing_is_logged_of_it(caplog: pytest.LogCaptureFixture) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with sparks.interruptible():
        logging.getLogger().error("KeyboardInterrupt while sending command.")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not caplog.records
