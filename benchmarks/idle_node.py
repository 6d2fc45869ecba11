"""What a node costs that has nothing to do: timers, keep-alives and maintenance alone.

Seventeen nodes make a ring in which each has the sixteen others as leaves. Sixteen live in two
processes, the seventeenth in one of its own, whose CPU time is read from outside once the ring has
settled, so that the reading itself costs the node nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import AsyncExitStack

import trio

import overlaymq

from .child import obey, say
from .harness import Child, ChildFailed, Crew, crew, run

HOSTS = 2
START_SECONDS = 120.0


async def _host(seed: str, count: int) -> None:
    # It follows no orders, but must notice when the measuring process is gone.
    obey(lambda order: None)
    async with AsyncExitStack() as nodes:
        for _ in range(count):
            node = await nodes.enter_async_context(
                overlaymq.open_node(listen="127.0.0.1:0", seeds=[seed] if seed else [])
            )
            seed = seed or node.address
        say(address=seed)
        await trio.sleep_forever()


async def _start(processes: Crew, name: str, seed: str, count: int) -> tuple[Child, str]:
    child = await processes.start_python(
        name, "benchmarks.idle_node", "--host", seed, "--count", str(count)
    )
    return child, str((await child.hear(START_SECONDS))["address"])


async def _measure(options: argparse.Namespace) -> float:
    async with crew() as processes:
        seed = ""
        for number in range(HOSTS):
            share = options.neighbours // HOSTS + (number < options.neighbours % HOSTS)
            _, seed = await _start(processes, f"host-{number}", seed, share)
        measured, _ = await _start(processes, "measured", seed, 1)
        await asyncio.sleep(options.settle)
        before = measured.cpu_seconds()
        await asyncio.sleep(options.seconds)
        measured.check_alive()
        return (measured.cpu_seconds() - before) / float(options.seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle_node")
    parser.add_argument("--neighbours", type=int, default=16)
    parser.add_argument("--settle", type=float, default=15.0, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds measured")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--host", metavar="SEED", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=1, help=argparse.SUPPRESS)
    return parser.parse_args()


async def main(options: argparse.Namespace) -> int:
    try:
        share = await _measure(options)
    except ChildFailed as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        facts = {"neighbours": options.neighbours, "seconds": options.seconds, "cpu_share": share}
        print(json.dumps(facts))
    else:
        print(
            f"a node with {options.neighbours} neighbours, idle for {options.seconds:g} s: "
            f"{share:.2%} of a core"
        )
    return 0


if __name__ == "__main__":
    options = _arguments()
    if options.host is not None:
        trio.run(_host, options.host, options.count)
    else:
        sys.exit(run(main(options)))
