"""The analysis as a job: what ``overlaymq analyze`` runs, and what spark-submit runs on a cluster.

    spark-submit --master spark://HOST:7077 .../overlaymq/trace/job.py hdfs:///traces --out /reports/today

The driver needs overlaymq with its ``spark`` extra. The workers need Python, numpy and pyarrow, and must
see the traces under the same path; overlaymq itself need not be installed there. Results are written where
the driver runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overlaymq.trace.analysis.whole import Found


def perform(
    paths: Sequence[str],
    *,
    master: str | None = None,
    memory: str | None = None,
    grace: float | None = None,
    baseline: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Found:
    """Analyse the traces under ``paths`` in this process's Spark session, or in a new one."""
    from overlaymq.trace.analysis import reading, whole
    from overlaymq.trace.spark import DRIVER_MEMORY, interruptible, session, told

    sources = reading.find(paths)
    if progress:
        progress("starting Spark", 0, len(whole.STEPS))
    spark = session(master, memory=memory or DRIVER_MEMORY)
    with told(), interruptible():
        return whole.analyse(
            reading.load(spark, sources),
            grace=whole.GRACE_SECONDS if grace is None else grace,
            baseline=None if baseline is None else reading.read_baseline(spark, baseline),
            progress=progress,
        )


class _Steps:
    """Tells how long each step took, on standard error."""

    def __init__(self) -> None:
        self._name, self._began = "", time.perf_counter()

    def __call__(self, name: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if self._name:
            print(f"{now - self._began:7.1f} s  {self._name}", file=sys.stderr)
        self._name, self._began = name, now


def main(arguments: Sequence[str] | None = None) -> int:
    """Without click and rich: for spark-submit, which brings its own progress and logs."""
    from overlaymq.errors import ConfigError, OverlayError
    from overlaymq.trace.output import FORMATS, demand_place, write

    parser = argparse.ArgumentParser(prog="overlaymq.trace.job", description="Analyse traces.")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--master", help="where to run, if spark-submit did not say")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write tables and report here")
    parser.add_argument("--format", choices=FORMATS, default="csv")
    parser.add_argument("--grace", type=float, help="seconds after READY that count as uncertain")
    parser.add_argument("--baseline", metavar="FILE", help="one-way delays, for RAD and RMD")
    parser.add_argument("--json", action="store_true", help="print the headline as JSON")
    parser.add_argument("--steps", action="store_true", help="say how long each step takes")
    given = parser.parse_args(arguments)
    try:
        if given.out is not None:
            demand_place(given.out)
        found = perform(
            given.paths,
            master=given.master,
            grace=given.grace,
            baseline=given.baseline,
            progress=_Steps() if given.steps else None,
        )
    except KeyboardInterrupt:
        return 130
    except OverlayError as error:
        print(f"overlaymq: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    if given.json:
        print(json.dumps(found.headline.as_dict()))
    else:
        for sentence in found.headline.sentences():
            print(sentence.text)
    if given.out is not None:
        written = write(found, given.out, given.format, ", ".join(given.paths))
        print(f"wrote {written[0]} and {len(written) - 1} more files", file=sys.stderr)
    return 0


if __name__ == "__main__":
    # spark-submit puts this file's directory first, where "schema" and "spark" are not what others mean.
    sys.path[:] = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent]
    sys.exit(main())
