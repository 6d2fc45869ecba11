"""One publisher, many subscriber processes: overlaymq beside what else one could take.

For each payload size, every system is measured once per run, in turn, so that a noisy minute of the
machine hits all alike; what is printed is the median of the runs. Speed is deliveries a second over
all subscribers at full speed, CPU is seconds per million deliveries over all processes, brokers
included, latency is taken at a slow fixed rate, loss is what subscribers missed in all runs.

overlaymq is measured with each combination of ``--strategies`` and ``--reliabilities`` that exists, each a
row of the same run, and the rows are compared with each other:

    python -m benchmarks.fanout --systems overlaymq --strategies direct,scribe \\
        --reliabilities best_effort,ordered
"""

from __future__ import annotations

import argparse
import json
import sys

from overlaymq.core.reliability.registry import NEEDS_TREE
from overlaymq.core.supported import TREES

from . import peers
from .harness import ChildFailed, run
from .report import Row, print_table
from .trial import Figures, Plan, run_trial

SIZES = [100, 1024, 65536]
# Enough for some seconds at full speed; one write a message is slower by one to two orders.
MESSAGES = {100: 200_000, 1024: 200_000, 65536: 4_000}
SLOW_MESSAGES = {100: 5_000, 1024: 5_000, 65536: 2_000}
SLOW_SYSTEMS = {"grpc-stream", "grpc-trio"}
BURST_BYTES = 256 * 1024 * 1024


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fanout", description=__doc__)
    parser.add_argument("--systems", type=_names, default=list(peers.MODULES))
    parser.add_argument("--strategies", type=_words, default=["direct"], help="of overlaymq")
    parser.add_argument(
        "--reliabilities", type=_words, default=["best_effort"], help="of overlaymq"
    )
    parser.add_argument("--sizes", type=_numbers, default=SIZES, help="bytes a payload")
    parser.add_argument("--subscribers", type=int, default=8)
    parser.add_argument("--messages", type=int, help="at full speed; by default as the size allows")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--paced-rate", type=float, default=250.0, help="messages a second")
    parser.add_argument("--paced-messages", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="one row of JSON a system and size")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(peers.MODULES):
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: expected some of {', '.join(peers.MODULES)}"
        )
    return names


def _words(text: str) -> list[str]:
    return text.split(",")


def _variants(options: argparse.Namespace, system: str) -> list[str]:
    """How a system is set up: overlaymq in several ways, the others in one."""
    if system != "overlaymq":
        return [""]
    return [
        f"{strategy}/{reliability}"
        for strategy in options.strategies
        for reliability in options.reliabilities
        if reliability not in NEEDS_TREE or strategy in TREES
    ]


def _numbers(text: str) -> list[int]:
    sizes = [int(size) for size in text.split(",")]
    if min(sizes) < 8:
        raise argparse.ArgumentTypeError("a payload holds a time stamp: at least 8 bytes")
    return sizes


def _messages(system: str, size: int, wanted: int | None) -> int:
    if wanted is not None:
        return wanted
    counts = SLOW_MESSAGES if system in SLOW_SYSTEMS else MESSAGES
    return counts.get(size) or min(counts[100], max(100, BURST_BYTES // size))


async def _measure(plan: Plan) -> Figures | None:
    try:
        return await run_trial(plan)
    except (ChildFailed, TimeoutError, ImportError, OSError) as error:
        reason = str(error) or type(error).__name__
        print(f"{plan.name}, {plan.size} B: {reason}", file=sys.stderr, flush=True)
        return None


async def _measure_size(options: argparse.Namespace, size: int) -> list[Row]:
    plans = [
        Plan(
            system=system,
            variant=variant,
            size=size,
            subscribers=options.subscribers,
            messages=_messages(system, size, options.messages),
            paced_messages=options.paced_messages,
            paced_rate=options.paced_rate,
        )
        for system in options.systems
        for variant in _variants(options, system)
    ]
    found: dict[Plan, list[Figures]] = {plan: [] for plan in plans}
    for number in range(1, options.runs + 1):
        for plan in plans:
            print(f"run {number}: {plan.name}, {size} B", file=sys.stderr, flush=True)
            if figures := await _measure(plan):
                found[plan].append(figures)
    return [Row(plan, found[plan]) for plan in plans if found[plan]]


async def main() -> int:
    options = _arguments()
    complete = True
    for size in options.sizes:
        rows = await _measure_size(options, size)
        variants = sum(len(_variants(options, system)) for system in options.systems)
        complete &= sum(len(row.runs) for row in rows) == options.runs * variants
        if options.json:
            for row in rows:
                print(json.dumps(row.as_json()), flush=True)
        else:
            print_table(rows, size)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(run(main()))
