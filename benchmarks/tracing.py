"""What tracing costs: fan-out with tracing off and on, in one run.

Bar 3 of the traces: at most 10 % of fan-out throughput. The same processes send one burst after the other,
and between two of them tracing is switched off or on in all. A pair of bursts are neighbours in time, so that
a noisy machine hits both alike; what counts is the median over the pairs of their ratio. CPU is that of all
processes for each million deliveries, the tracer's own thread included, and suffers less from noise than
speed does. Afterwards the traces are read back: they must have every message of the traced bursts. A last
burst without tracing leaves the disk the time for it.

With ``--apart`` each burst has processes of its own, and those that do not trace have not even loaded Arrow.

    python -m benchmarks.tracing [--strategies direct,scribe] [--sizes 100] [--pairs 10] [--apart]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from overlaymq.trace import files, schema

from .harness import crew, run
from .peers.overlaymq import TRACES
from .trial import Plan, Trial

BAR = 0.90
MESSAGES = {100: 500_000, 1024: 400_000, 65536: 8_000}
"""Enough for some seconds: tracing costs by the second too, when it flushes."""
MOST_SECONDS = 1800.0


class Burst(msgspec.Struct, frozen=True):
    """One burst: deliveries a second, CPU seconds for a million of them, and what was lost."""

    speed: float
    cpu: float
    lost: int


class Bursts(Trial):
    """Bursts of the same processes."""

    async def begin(self) -> None:
        """Until all are ready."""
        await self._start()
        await self._probe()

    async def burst(self, **details: bool) -> Burst:
        """One more."""
        phase = await self._phase("burst", count=self._plan.messages, **details)
        return Burst(phase.got / phase.seconds, phase.cpu * 1e6 / max(phase.got, 1), phase.lost)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracing", description=__doc__)
    parser.add_argument("--strategies", default="direct,scribe")
    parser.add_argument("--sizes", default="100", help="bytes a payload")
    parser.add_argument("--subscribers", type=int, default=8)
    parser.add_argument("--messages", type=int, help="of a burst")
    parser.add_argument("--pairs", type=int, default=10, help="of bursts")
    parser.add_argument("--apart", action="store_true", help="each burst in processes of its own")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _plan(options: argparse.Namespace, strategy: str, size: int, traced: bool) -> Plan:
    return Plan(
        system="overlaymq",
        variant=f"{strategy}/best_effort" + ("/traced" if traced else ""),
        size=size,
        subscribers=options.subscribers,
        messages=options.messages or MESSAGES.get(size, 20_000),
        paced_messages=0,
        paced_rate=1.0,
    )


def _orders(pairs: int) -> list[tuple[bool, bool]]:
    """Which of a pair comes first changes from pair to pair."""
    return [(number % 2 == 1, number % 2 == 0) for number in range(pairs)]


async def _together(
    options: argparse.Namespace, strategy: str, size: int
) -> list[dict[bool, Burst]]:
    async with asyncio.timeout(MOST_SECONDS), crew() as processes:
        bursts = Bursts(_plan(options, strategy, size, True), processes)
        await bursts.begin()
        await bursts.burst(traced=True)  # warms up what is slower at first
        pairs = [
            {traced: await bursts.burst(traced=traced) for traced in order}
            for order in _orders(options.pairs)
        ]
        await bursts.burst(traced=False)
        return pairs


async def _apart(options: argparse.Namespace, strategy: str, size: int) -> list[dict[bool, Burst]]:
    async def one(traced: bool) -> Burst:
        async with asyncio.timeout(MOST_SECONDS), crew() as processes:
            bursts = Bursts(_plan(options, strategy, size, traced), processes)
            await bursts.begin()
            return await bursts.burst()

    return [{traced: await one(traced) for traced in order} for order in _orders(options.pairs)]


def _traced(directory: Path) -> dict[str, int]:
    """How many messages the traces have, by event; a live segment is read too."""
    counts: dict[str, int] = {}
    for row in files.rows(files.files(directory)):
        if row.event in (schema.PUBLISH, schema.DELIVER, schema.TRACE_LOSS):
            counts[row.event] = counts.get(row.event, 0) + row.msg_count
    return counts


def _whole(counts: dict[str, int], plan: Plan, bursts: int) -> bool:
    """Whether the traces have every message of so many bursts; probes may come on top."""
    messages = bursts * plan.messages
    return (
        schema.TRACE_LOSS not in counts
        and counts.get(schema.PUBLISH, 0) >= messages
        and counts.get(schema.DELIVER, 0) >= messages * plan.subscribers
    )


def _report(name: str, pairs: list[dict[bool, Burst]], as_json: bool) -> bool:
    speeds = [pair[True].speed / pair[False].speed for pair in pairs]
    facts: dict[str, Any] = {
        "name": name,
        "load": os.getloadavg()[0],
        "speed_ratio": median(speeds),
        "cpu_ratio": median(pair[True].cpu / pair[False].cpu for pair in pairs),
        "off": [pair[False].speed for pair in pairs],
        "on": [pair[True].speed for pair in pairs],
        "cpu_off": median(pair[False].cpu for pair in pairs),
        "cpu_on": median(pair[True].cpu for pair in pairs),
        "lost": sum(burst.lost for pair in pairs for burst in pair.values()),
    }
    good = bool(facts["speed_ratio"] >= BAR)
    if as_json:
        print(json.dumps(facts), flush=True)
        return good
    print(
        f"{name}: tracing leaves {facts['speed_ratio']:.3f} of the speed and takes {facts['cpu_ratio']:.3f} "
        f"of the CPU, medians of {len(pairs)} pairs ({median(facts['on']):,.0f} of "
        f"{median(facts['off']):,.0f} deliveries/s, {facts['cpu_on']:.3f} of {facts['cpu_off']:.3f} s/M; "
        f"pairs {', '.join(f'{one:.2f}' for one in speeds)}; lost {facts['lost']}; "
        f"load {facts['load']:.1f}): {'within' if good else 'BELOW'} the bar of {BAR}",
        flush=True,
    )
    return good


async def main() -> int:
    options = _arguments()
    measure = _apart if options.apart else _together
    good = True
    for strategy in options.strategies.split(","):
        for size in map(int, options.sizes.split(",")):
            directory = Path(tempfile.mkdtemp(prefix="overlaymq-traces-"))
            os.environ[TRACES] = str(directory)
            try:
                pairs = await measure(options, strategy, size)
                good &= _report(f"{strategy}, {size} B", pairs, options.json)
                counts = _traced(directory)
                print(f"  the traces have {counts}", file=sys.stderr, flush=True)
                # Killed right after its burst, a process of its own has not flushed the last second.
                plan = _plan(options, strategy, size, True)
                if not options.apart and not _whole(counts, plan, options.pairs + 1):
                    print("  that is NOT every message of the traced bursts", file=sys.stderr)
                    good = False
            finally:
                shutil.rmtree(directory)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(run(main()))
