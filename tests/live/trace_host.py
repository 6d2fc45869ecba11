"""A process with one traced node; it obeys orders on its standard input, one JSON line each.

Run as ``python -m tests.live.trace_host TRACES [SEED]``. It subscribes to the topics of all strategies, and
keeps a count of its own, apart from the trace: what it published and when, what it was given and in which
order, what came in over links and how much of that it had already. Times are the wall clock's, which all
processes of a machine share. When its input ends its node leaves, and it tells its count then: a node that
leaves hands over, which is in the traces too.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import trio

import overlaymq
from overlaymq import ids
from overlaymq.config import TopicConfig, TraceConfig
from tests.live.tree_host import say
from tests.receptions import Receptions

if TYPE_CHECKING:
    from overlaymq.messages import Message, Peer

TOPICS = {
    "scribe": TopicConfig(strategy="scribe", reliability="ordered"),
    "sv": TopicConfig(strategy="sv", reliability="fifo"),
    "scamp": TopicConfig(strategy="scamp", reliability="fifo"),
}


class Host:
    """One node and its count."""

    def __init__(self, node: overlaymq.Node, nursery: trio.Nursery) -> None:
        self._node = node
        self._nursery = nursery
        self._published: list[tuple[str, int, float]] = []
        self._got: dict[str, list[tuple[str, int]]] = {topic: [] for topic in TOPICS}
        self._ready: dict[str, float] = {}
        self._links = [
            Receptions(
                ids.Id(int(node.id, 16)),
                ids.topic_id(topic),
                one.strategy,
                ordered=one.reliability == "ordered",
                reads=True,
            )
            for topic, one in TOPICS.items()
        ]
        self._watch_links()

    def _watch_links(self) -> None:
        driver = self._node._driver
        received, send = driver.received, driver.transport.send

        def came(peer: Peer, message: Message) -> None:
            for links in self._links:
                links.came(message)
            received(peer, message)

        def went(peer: Peer, message: Message) -> None:
            for links in self._links:
                links.went(message)
            send(peer, message)

        driver.received = came  # type: ignore[method-assign]
        driver.transport.send = went  # type: ignore[method-assign]

    async def obey(self, order: dict[str, Any]) -> None:
        """Carry out an order, and say so."""
        await getattr(self, f"_{order.pop('do')}")(**order)

    async def _subscribe(self) -> None:
        for topic in TOPICS:
            await self._nursery.start(self._follow, topic)
        say(ready=True)

    async def _follow(self, topic: str, task_status: trio.TaskStatus[None]) -> None:
        async with self._node.subscribe(topic, receive_own=False) as subscription:
            await subscription.wait_ready()
            self._ready[topic] = time.time()
            task_status.started()
            async for message in subscription:
                self._got[topic].append((message.origin, message.seq))

    async def _publish(self, rate: float, seconds: float) -> None:
        self._nursery.start_soon(self._keep_publishing, rate, int(rate * seconds))
        say(publishing=True)

    async def _keep_publishing(self, rate: float, count: int) -> None:
        start = trio.current_time()
        for number in range(count):
            await trio.sleep_until(start + number / rate)
            for topic in TOPICS:
                at = time.time()
                receipt = await self._node.publish(topic, b"%d" % number)
                self._published.append((topic, receipt.seq, at))

    def report(self) -> None:
        """Say what was counted."""
        say(
            published=self._published,
            got=self._got,
            ready=self._ready,
            copies=sum(links.received for links in self._links),
            duplicates=sum(links.again for links in self._links),
        )


async def main(traces: str, seeds: list[str]) -> None:
    config = overlaymq.Config(
        node=overlaymq.config.NodeConfig(listen="127.0.0.1:0", seeds=tuple(seeds)),
        topics=TOPICS,
        trace=TraceConfig(directory=traces, run="live", flush_every=0.2),
    )
    async with overlaymq.open_node(config) as node, trio.open_nursery() as nursery:
        say(id=node.id, address=node.address)
        host = Host(node, nursery)
        async for line in trio.wrap_file(sys.stdin):
            await host.obey(json.loads(line))
        nursery.cancel_scope.cancel()
    host.report()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2:])
