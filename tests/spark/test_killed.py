"""A tracing node that is killed: all that it had flushed is read, and by Spark as it comes.

The node counts for itself what it published and was given, and says so when its tracer has flushed that. Then
it goes on until it is killed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from overlaymq.cli import main
from overlaymq.trace import files
from overlaymq.trace.analysis import reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark

ROOT = Path(__file__).parents[2]
NODE = """
import sys, trio, overlaymq
from overlaymq.config import Config, TraceConfig

async def main(directory):
    # Room for all that a slow disk keeps waiting: nothing may be dropped here.
    trace = TraceConfig(
        directory=directory, run="r", flush_every=0.05, segment_bytes=65536, queue=10_000
    )
    async with overlaymq.open_node(Config(trace=trace)) as node, node.subscribe("t") as mine:
        await mine.wait_ready()
        count = 0
        while True:
            receipt = await node.publish("t", b"x")
            message = await mine.receive()
            assert message.seq == receipt.seq == count
            count += 1
            if count % 500 == 0:
                recorded = node.statistics().trace.recorded
                while (now := node.statistics().trace).written < recorded:
                    assert not now.lost, now
                    await trio.sleep(0.005)  # the writer is another thread: polling
                print(count, flush=True)

trio.run(main, sys.argv[1])
"""
FINISHED = 3
"""Files that must be finished when the node is killed: a directory has both kinds then."""


@pytest.fixture
def flushed(tmp_path: Path) -> int:
    """How many messages the killed node had flushed, under ``tmp_path``."""
    with subprocess.Popen(
        [sys.executable, "-c", NODE, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as node:
        assert node.stdout is not None
        count = 0
        while len(list(tmp_path.glob("r/*.parquet"))) < FINISHED:
            count = int(node.stdout.readline())
        # The last word may be of before the last file; one more is of the segment too.
        count = int(node.stdout.readline())
        node.kill()
    return count


def messages(events: DataFrame, event: str) -> list[int]:
    rows = events.where(events.event == event).select("msg_seq", "msg_count").collect()
    return sorted(
        number for row in rows for number in range(row.msg_seq, row.msg_seq + row.msg_count)
    )


def test_what_a_killed_node_had_flushed_is_read_without_options(
    spark: SparkSession, tmp_path: Path, flushed: int
) -> None:
    """Bar 2 of the traces."""
    assert list(tmp_path.glob(f"r/.*{files.OPEN}")), "it was killed in the middle of a segment"
    finished = messages(spark.read.parquet(str(tmp_path / "r")), "PUBLISH")
    assert finished == list(range(len(finished))), "a leftover keeps nobody from the rest"
    analysed = messages(reading.read(spark, [str(tmp_path)]), "PUBLISH")
    done = CliRunner().invoke(main, ["trace", "recover", str(tmp_path)])
    assert done.exit_code == 0, done.output
    events = spark.read.parquet(str(tmp_path / "r"))
    # The last message counts as taken when the application asks for the next.
    for event, least in (("PUBLISH", flushed), ("DELIVER", flushed), ("CONSUME", flushed - 1)):
        found = messages(events, event)
        assert found == list(range(len(found))), event
        assert len(found) >= least, event
    assert len(finished) < flushed <= len(analysed) == len(messages(events, "PUBLISH"))
