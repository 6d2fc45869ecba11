"""The demo's last act: one workload on three strategies, traced, and analysed on Spark.

Six nodes of one more overlay, all in this process, subscribe to three topics that differ by one word of the
settings. They write delivery traces; when they have ended, ``overlaymq.trace`` reads the traces as it would
those of many hosts. Without the `spark` extra the act ends with a word on how to get it.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import trio

import overlaymq

if TYPE_CHECKING:
    from collections.abc import Callable

STRATEGIES = ("scribe", "sv", "scamp")
NODES = 6
MESSAGES = 300
MASTER = "local[2]"
REPORT = Path("artifacts", "demo", "report.html")


async def trace_and_analyse(settings: Path, report: Path, tell: Callable[[str], None]) -> None:
    """Publish on three strategies, then say what the traces tell."""
    if not all(find_spec(needed) for needed in ("pyarrow", "pyspark")):
        tell("Needs Spark, which is large: pip install 'overlaymq[spark]', and run this again.")
        return
    with tempfile.TemporaryDirectory(prefix="overlaymq-demo-traces-") as directory:
        await _publish(settings, Path(directory), tell)
        tell("Spark reads what they wrote (it takes a while to start).")
        started = time.perf_counter()
        for line in await _analyse(directory, report):
            tell(f"- {line}")
        tell(f"That took {time.perf_counter() - started:.0f} s. All of it, with pictures: {report}")


async def _publish(settings: Path, traces: Path, tell: Callable[[str], None]) -> None:
    async with AsyncExitStack() as stack:
        nodes: list[overlaymq.Node] = []
        for _ in range(NODES):
            seeds = [nodes[0].address] if nodes else []
            opened = overlaymq.open_node(settings, seeds=seeds, trace=traces)
            nodes.append(await stack.enter_async_context(opened))
        for strategy in STRATEGIES:
            await _publish_on(f"news/{strategy}", nodes, stack)
            tell(
                f"{MESSAGES} messages on a {strategy} topic: all {NODES - 1} subscribers have all."
            )


async def _publish_on(topic: str, nodes: list[overlaymq.Node], stack: AsyncExitStack) -> None:
    publisher, *others = nodes
    readers = [await stack.enter_async_context(node.subscribe(topic)) for node in others]
    for reader in readers:
        await reader.wait_ready()
    await publisher.wait_subscribers(topic, len(readers))
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(_take_all, reader)
        for number in range(MESSAGES):
            await publisher.publish(topic, b"message %d" % number)
            await trio.sleep(0.002)


async def _take_all(reader: overlaymq.Subscription) -> None:
    for _ in range(MESSAGES):
        await reader.receive()


async def _analyse(traces: str, report: Path) -> list[str]:
    """In a process of its own: a Java machine is best started by one without gRPC's threads."""
    job = [sys.executable, "-m", "overlaymq.trace.job", traces, "--master", MASTER]
    job += ["--out", str(report.parent)]
    done = await trio.run_process(job, capture_stdout=True, stderr=DEVNULL)
    with (report.parent / "topics.csv").open(newline="") as file:
        topics = [row for row in csv.DictReader(file) if int(row["published"])]
    return [
        *done.stdout.decode().splitlines(),
        *(
            f"{row['topic']}: {int(row['delivered']):,} deliveries, {row['lost']} lost, "
            f"{row['duplicates']} duplicates, half within {float(row['p50_ms']):.1f} ms."
            for row in topics
        ),
    ]
