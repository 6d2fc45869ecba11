"""The same job on a cluster: a master and two workers of the pyspark package, and spark-submit.

More processes than a test of `make test` may have, so it is part of `make live`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from overlaymq.trace import job, output
from overlaymq.trace.analysis.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spark.conftest import Small

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class Service:
    """A Spark process whose log is read until it says a word."""

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(folder),
        }
        self.lines: list[str] = []
        self._said = threading.Condition()
        self.process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), name, "--host", "127.0.0.1", *arguments],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()

    def wait(self, pattern: str) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

        with self._said:
            assert self._said.wait_for(found, 120), self.lines
            match = found()
        assert match is not None
        return match

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._reader.join(30)
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    with ExitStack() as running:

        def start(name: str, *arguments: str) -> Service:
            service = Service(name, list(arguments), tmp_path)
            running.callback(service.stop)
            return service

        master = start(MASTER, "--port", "0", "--webui-port", "0")
        address = master.wait(r"Starting Spark master at (spark://\S+)")[1]
        for _ in range(2):
            worker = start(WORKER, "--cores", "1", "--memory", "1g", "--webui-port", "0", address)
            worker.wait("Successfully registered with master")
        yield address


def python_without_overlaymq(folder: Path) -> Path:
    """What workers of a cluster have: the libraries, but not us."""
    package = folder / "poison" / "overlaymq"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('overlaymq is not installed here')\n")
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{package.parent}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return script


def test_a_cluster_gives_the_same_tables(cluster: str, small: Small, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    output.write(small.found, alone)
    together = tmp_path / "together"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "JAVA_HOME")
    }
    environment.pop("PYSPARK_PYTHON", None)
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = [
        *("spark.executor.memory=512m", "spark.executor.cores=1", "spark.ui.enabled=false"),
        "spark.sql.shuffle.partitions=4",
        f"spark.pyspark.driver.python={sys.executable}",
        f"spark.pyspark.python={python_without_overlaymq(tmp_path)}",
    ]
    done = subprocess.run(
        [
            str(HOME / "bin" / "spark-submit"),
            *("--master", cluster),
            *(part for setting in settings for part in ("--conf", setting)),
            *(str(job.__file__), str(small.directory), "--out", str(together)),
        ],
        env={**environment, "SPARK_HOME": str(HOME)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    executors = set(re.findall(r"Granted executor ID (app-\S+)", done.stderr))
    assert len(executors) == 2, "both workers take part"
    for name in TABLES:
        mine, theirs = ((one / f"{name}.csv").read_bytes() for one in (alone, together))
        assert mine == theirs, name
    assert (together / "headline.json").read_bytes() == (alone / "headline.json").read_bytes()
    assert (together / "report.html").is_file()
