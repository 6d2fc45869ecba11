"""Does an application that computes delay the overlay it is embedded in?

Two nodes in two processes. One shares its trio thread with a task that computes in slices of pure
Python, with a checkpoint between them: the node and its links get their turn only there. Control round trips
go both ways, since a busy node may be slow to answer, slow to notice an answer, or both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import trio

import overlaymq

from .child import inbox, say
from .harness import Child, ChildFailed, crew, quantile, run

START_SECONDS = 60.0
WARM_UP_PINGS = 10


async def _compute(slice_seconds: float) -> None:
    while True:
        end = time.perf_counter() + slice_seconds
        number = 0
        while time.perf_counter() < end:
            number += 1
        await trio.lowlevel.checkpoint()


async def _ping(node: Any, peer: str, count: int, interval: float) -> list[float]:
    seconds = []
    for _ in range(count):
        seconds.append(await node.ping(peer))
        await trio.sleep(interval)
    return seconds


async def _node(seed: str, slice_seconds: float) -> None:
    next_order = inbox()
    async with (
        overlaymq.open_node(listen="127.0.0.1:0", seeds=[seed] if seed else []) as node,
        trio.open_nursery() as nursery,
    ):
        say(address=node.address, id=node.id)
        while True:
            order = await trio.to_thread.run_sync(next_order)
            if order["do"] == "compute":
                nursery.start_soon(_compute, slice_seconds)
                say(computing=True)
            else:
                found = await _ping(node, order["peer"], order["count"], order["interval"])
                say(seconds=found)


def _summary(name: str, seconds: list[float]) -> dict[str, Any]:
    ordered = sorted(second * 1e3 for second in seconds)
    return {
        "direction": name,
        "pings": len(ordered),
        "p50_ms": quantile(ordered, 0.5),
        "p99_ms": quantile(ordered, 0.99),
        "max_ms": ordered[-1],
    }


async def _measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    async with crew() as processes:

        async def start(name: str, seed: str) -> tuple[Child, dict[str, Any]]:
            child = await processes.start_python(
                name, "benchmarks.busy_application", "--node", seed, "--slice", str(options.slice)
            )
            return child, await child.hear(START_SECONDS)

        async def ping(child: Child, peer: str, count: int) -> list[float]:
            limit = START_SECONDS + count * (options.interval + 1)
            facts = await child.ask(
                "ping", limit, peer=peer, count=count, interval=options.interval
            )
            return [float(second) for second in facts["seconds"]]

        idle, idle_facts = await start("idle", "")
        busy, busy_facts = await start("busy", idle_facts["address"])
        await ping(idle, busy_facts["id"], WARM_UP_PINGS)
        rows = [_summary("both idle", await ping(idle, busy_facts["id"], options.pings))]
        await busy.ask("compute")
        rows.append(_summary("idle to busy", await ping(idle, busy_facts["id"], options.pings)))
        rows.append(_summary("busy to idle", await ping(busy, idle_facts["id"], options.pings)))
        return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.busy_application")
    parser.add_argument("--pings", type=int, default=500, help="round trips each way")
    parser.add_argument("--interval", type=float, default=0.01, help="seconds between two")
    parser.add_argument("--slice", type=float, default=0.005, help="seconds of computing at once")
    parser.add_argument("--json", action="store_true", help="one row of JSON a direction")
    parser.add_argument("--node", metavar="SEED", help=argparse.SUPPRESS)
    return parser.parse_args()


async def main(options: argparse.Namespace) -> int:
    try:
        rows = await _measure(options)
    except ChildFailed as error:
        print(error, file=sys.stderr)
        return 1
    for row in rows:
        if options.json:
            print(json.dumps(row))
        else:
            print(
                f"{row['direction']:<13} p50 {row['p50_ms']:7.2f} ms   p99 {row['p99_ms']:7.2f} ms"
                f"   max {row['max_ms']:7.2f} ms   ({row['pings']} round trips)"
            )
    return 0


if __name__ == "__main__":
    options = _arguments()
    if options.node is not None:
        trio.run(_node, options.node, options.slice)
    else:
        sys.exit(run(main(options)))
