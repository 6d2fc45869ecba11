"""One Spark session for all tests, one small trace with a known truth, and its analysis."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from benchmarks.trace_world import Plan, Truth
from benchmarks.traces import generate
from overlaymq.trace.analysis import reading, whole
from overlaymq.trace.spark import QUIET, session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

PLAN = Plan(
    events=40_000,
    nodes=14,
    topics=4,
    seconds=40.0,
    seed=7,
    loss=0.004,
    repeat=0.002,
    swap=0.002,
)


@dataclass(frozen=True)
class Small:
    """A trace, what is true of it, and what the analysis found."""

    directory: Path
    truth: Truth
    found: whole.Found


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        # Little data and many queries: code that is compiled well costs more than it saves.
        "spark.driver.extraJavaOptions": f"{QUIET} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    made = session("local[2]", memory="1g", settings=settings)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def small(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Small:
    directory = tmp_path_factory.mktemp("traces")
    truth = generate(PLAN, directory)
    assert json.loads((directory / "truth.json").read_text())["rows"] == truth.rows
    found = whole.analyse(reading.read(spark, [str(directory)]))
    return Small(directory, truth, found)
