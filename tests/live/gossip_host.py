"""A process with one member of a gossip topic; it obeys orders on its standard input, one JSON line each.

Run as ``python -m tests.live.gossip_host [SEED]``. It prints a line with its id and address once it has
joined, and one line for every order that it has carried out. It counts every copy of a
payload that its links bring.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import trio

import overlaymq
from overlaymq.events import Received
from overlaymq.messages import Batch
from tests.live.tree_host import say

if TYPE_CHECKING:
    from overlaymq.core.flow import Transit

TOPIC = "gossip"


class Host:
    """One node: what it published, what it got and when, and how many copies came."""

    def __init__(self, node: overlaymq.Node, nursery: trio.Nursery) -> None:
        self._node = node
        self._nursery = nursery
        self._got: dict[str, float] = {}
        self._repeated = 0
        self._copies = 0
        self._published: list[tuple[str, float]] = []
        self._watch_links()

    def _watch_links(self) -> None:
        driver = self._node._driver
        handle = driver.handle

        def watched(input_: Any, transit: Transit | None = None) -> None:
            if isinstance(input_, Received) and isinstance(input_.message, Batch):
                self._copies += input_.message.count
            handle(input_, transit)

        driver.handle = watched  # type: ignore[method-assign]

    async def obey(self, order: dict[str, Any]) -> None:
        """Carry out an order, and say so."""
        await getattr(self, f"_{order.pop('do')}")(**order)

    async def _subscribe(self) -> None:
        await self._nursery.start(self._follow)
        say(ready=True)

    async def _follow(self, task_status: trio.TaskStatus[None]) -> None:
        async with self._node.subscribe(TOPIC, receive_own=False) as subscription:
            await subscription.wait_ready()
            task_status.started()
            async for message in subscription:
                name = message.payload.decode()
                self._repeated += name in self._got
                self._got[name] = (time.time_ns() - message.published_at) / 1e9

    async def _publish(self, rate: float, seconds: float) -> None:
        self._nursery.start_soon(self._keep_publishing, rate, int(rate * seconds))
        say(publishing=True)

    async def _keep_publishing(self, rate: float, count: int) -> None:
        start = trio.current_time()
        for number in range(count):
            await trio.sleep_until(start + number / rate)
            name = f"{self._node.id} {number}"
            self._published.append((name, time.monotonic()))
            await self._node.publish(TOPIC, name.encode())

    async def _report(self) -> None:
        say(
            published=self._published,
            got=self._got,
            repeated=self._repeated,
            copies=self._copies,
            drops=self._node.statistics().drops,
        )


async def main(seeds: list[str]) -> None:
    config = overlaymq.Config(
        node=overlaymq.config.NodeConfig(listen="127.0.0.1:0", seeds=tuple(seeds)),
        defaults=overlaymq.config.TopicConfig(strategy="scamp"),
    )
    async with overlaymq.open_node(config) as node, trio.open_nursery() as nursery:
        say(id=node.id, address=node.address)
        host = Host(node, nursery)
        async for line in trio.wrap_file(sys.stdin):
            await host.obey(json.loads(line))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
