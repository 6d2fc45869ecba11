"""A process that hosts several nodes and answers questions on its standard input, one JSON line each.

Run as ``python tests/live/host.py KEYS COUNT [SEED]``, KEYS being a folder for the nodes' keys, so that the
same nodes return when it is started again. It prints one line naming its nodes once all have joined,
then for each line ``{"node": i, "key": hex}`` the owner that node i finds, or for ``{"leaves": true}`` the
leaf sets. It ends when its input ends.
"""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio

import overlaymq


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


async def answer(nodes: list[overlaymq.Node], question: dict[str, Any]) -> dict[str, Any]:
    if "key" in question:
        with trio.move_on_after(5):
            owner, _, hops = await nodes[question["node"]].lookup(question["key"])
            return {"owner": owner, "hops": hops}
        return {"owner": None, "hops": 0}
    return {"leaves": [node.neighbours() for node in nodes]}


async def main(keys: Path, count: int, seeds: list[str]) -> None:
    async with AsyncExitStack() as stack:
        nodes: list[overlaymq.Node] = []
        for number in range(count):
            near = seeds or [node.address for node in nodes[:1]]
            nodes.append(
                await stack.enter_async_context(
                    overlaymq.open_node(
                        listen="127.0.0.1:0", seeds=near, key_file=keys / f"{number}.key"
                    )
                )
            )
        say({"nodes": [{"id": node.id, "address": node.address} for node in nodes]})
        lines = trio.wrap_file(sys.stdin)
        async for line in lines:
            say(await answer(nodes, json.loads(line)))


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
