"""A process with one node in a tree; it obeys orders on its standard input, one JSON line each.

Run as ``python -m tests.live.tree_host [SEED]``. It prints a line with its id and address once it has joined,
and one line for every order that it has carried out. It ends when its input ends. What a subscriber is given
and told is kept by the observer of the simulated trials, so both are judged alike.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec
import trio

import overlaymq
from overlaymq import ids
from overlaymq.config import Config, NodeConfig, ScribeConfig
from overlaymq.core.dissemination.tree_content import ContentTree
from overlaymq.events import EpochChanged, Missed
from overlaymq.messages import Batch, Epoch, Peer, Place
from overlaymq.sim.ordered_trial import Reader

if TYPE_CHECKING:
    from overlaymq.config import Reliability, Strategy
    from overlaymq.core.flow import Transit
    from overlaymq.runtime.publishing import Receipt

MAX_CHILDREN = 3
"""So few that a tree of 16 nodes has forwarders; the default is 64."""


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def written(place: Place) -> list[Any]:
    return [place.epoch.counter, ids.text(place.epoch.root), place.sequence]


class Host:
    """One node, and what it has published or been given."""

    def __init__(self, node: overlaymq.Node, nursery: trio.Nursery) -> None:
        self._node = node
        self._nursery = nursery
        self._receipts: list[Receipt] = []
        self._reader: Reader | None = None
        self._runs: list[list[Any]] = []
        self._events: list[list[Any]] = []

    async def obey(self, order: dict[str, Any]) -> None:
        """Carry out an order, and say so."""
        await getattr(self, f"_{order.pop('do')}")(**order)

    async def _subscribe(self, topic: str) -> None:
        driver = self._node._driver
        self._reader = Reader(driver.me, ids.topic_id(topic))
        deliver = driver._deliver

        def watch(batch: Batch, transit: Transit | None, now: float) -> None:
            self._given(batch)
            deliver(batch, transit, now)

        driver._deliver = watch  # type: ignore[method-assign]
        ready = trio.Event()
        self._nursery.start_soon(self._follow, topic, ready)
        await ready.wait()
        say(ready=True)

    async def _follow(self, topic: str, ready: trio.Event) -> None:
        async with self._node.subscribe(topic) as subscription, trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, subscription)
            await subscription.wait_ready()
            ready.set()
            async for _ in subscription:
                pass

    async def _listen(self, subscription: overlaymq.Subscription) -> None:
        async for event in subscription.events():
            assert self._reader is not None
            self._reader.tell(event)
            if isinstance(event, Missed):
                epoch = Epoch(event.epoch, event.origin)
                pair = [Place(epoch, event.first), Place(epoch, event.last)]
                self._events.append(["Missed", *map(written, pair)])
            elif isinstance(event, EpochChanged):
                before, after = Place(event.old, event.last_known), Place(event.new, 1)
                self._events.append(["EpochChanged", written(before), written(after)])

    def _given(self, batch: Batch) -> None:
        assert self._reader is not None
        self._reader.deliver(batch)
        place = Place(Epoch(batch.root_epoch, batch.root), batch.root_sequence)
        self._runs.append([time.monotonic(), batch.first, batch.count, written(place)])

    async def _publish(self, topic: str, rate: float, seconds: float, subscribers: int) -> None:
        await self._node.wait_subscribers(topic, subscribers)
        self._nursery.start_soon(self._keep_publishing, topic, rate, int(rate * seconds))
        say(publishing=True)

    async def _keep_publishing(self, topic: str, rate: float, count: int) -> None:
        start = trio.current_time()
        for number in range(count):
            await trio.sleep_until(start + number / rate)
            self._receipts.append(await self._node.publish(topic, b"%d" % number))

    async def _published(self) -> None:
        """How many were accepted, and where each that the root has acknowledged is."""
        places = []
        for receipt in self._receipts:
            if receipt.stage not in ("accepted", "sent"):
                place = receipt._run.place
                assert place is not None
                at = Place(place.epoch, place.sequence + receipt.seq - receipt._run.first)
                places.append([receipt.seq, written(at)])
        say(accepted=len(self._receipts), places=places)

    async def _tree(self, topic: str) -> None:
        place = self._node._driver.node.strategy(ids.topic_id(topic))
        assert isinstance(place, ContentTree)
        parent: Peer | None = place.parent
        say(
            children=[ids.text(child.id) for child in place.children],
            parent=None if parent is None else ids.text(parent.id),
        )

    async def _owner(self, topic: str) -> None:
        say(owner=(await self._node.lookup(ids.text(ids.topic_id(topic))))[0])

    async def _create(self, topic: str, strategy: Strategy, reliability: Reliability) -> None:
        await self._node.create(topic, strategy=strategy, reliability=reliability)
        say(created=True)

    async def _statistics(self) -> None:
        say(**msgspec.to_builtins(self._node.statistics()))

    async def _count(self) -> None:
        say(had=len(self._reader.had) if self._reader is not None else 0)

    async def _report(self) -> None:
        assert self._reader is not None
        say(runs=self._runs, events=self._events, faults=self._reader.faults)


CONFIG = Config(scribe=ScribeConfig(max_children=MAX_CHILDREN))


async def main(seeds: list[str], config: Config = CONFIG) -> None:
    place = NodeConfig(listen="127.0.0.1:0", seeds=tuple(seeds))
    config = msgspec.structs.replace(config, node=place)
    async with overlaymq.open_node(config) as node, trio.open_nursery() as nursery:
        say(id=node.id, address=node.address)
        host = Host(node, nursery)
        async for line in trio.wrap_file(sys.stdin):
            await host.obey(json.loads(line))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
