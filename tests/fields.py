"""Where a strategy can be tried: real nodes on the memory transport, over gRPC, or in the simulator.

A field has five nodes and one topic, and can be told the same things whatever it is made of. In the
simulator time is virtual: nothing waits. A node that is killed crashes on the memory transport and in the
simulator; over gRPC it shares our process and is cancelled, which ends its links
(`tests/live` has the kill -9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

import overlaymq
from overlaymq import ids
from overlaymq.config import AdminConfig, Config, PastryConfig, TopicConfig
from overlaymq.core.node import Node as CoreNode
from overlaymq.events import (
    CountMembers,
    Depart,
    Leave,
    Members,
    Missed,
    PeerFailed,
    Publish,
    Ready,
    Subscribe,
    Unsubscribe,
)
from overlaymq.messages import Batch, Descriptor, Peer
from overlaymq.sim import oracle
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import PlaneDelay
from overlaymq.testing import MemoryNetwork, open_memory_node

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from overlaymq.core.reliability.upcalls import Upcalls
    from overlaymq.events import Event
    from overlaymq.ids import Id
    from overlaymq.sim.engine import Host

SIZE = 5
NAME = "field"
TOPIC = ids.topic_id(NAME)
PATIENCE = 30.0
"""Seconds, true or virtual, after which a condition has failed."""

BRISK = PastryConfig(heartbeat_every=1.0, lease=2.0)
"""A crashed root's lease must run out before another answers for its key: not in ten seconds here."""


class Field(ABC):
    """Nodes by number; ``got`` is what each one's application has been given since it subscribed, ``missed``
    the gaps that it was told of."""

    def __init__(self, strategy: str, reliability: str) -> None:
        self.strategy = strategy
        self.reliability = reliability
        self.got: dict[int, list[bytes]] = {number: [] for number in range(SIZE)}
        self.missed: dict[int, list[Missed]] = {number: [] for number in range(SIZE)}

    @abstractmethod
    async def start(self, nursery: trio.Nursery) -> None:
        """Begin with all nodes in one ring."""

    @abstractmethod
    async def subscribe(self, number: int, last: int = 0) -> None:
        """And wait until the node is ready."""

    @abstractmethod
    async def unsubscribe(self, number: int) -> None:
        """And wait until the node knows."""

    @abstractmethod
    async def publish(self, number: int, payload: bytes) -> None:
        """From a node, subscribed or not."""

    @abstractmethod
    async def count(self, number: int, expected: int) -> None:
        """Wait until a node counts so many members."""

    @abstractmethod
    def install(self, upcalls: Upcalls) -> None:
        """On every node."""

    @abstractmethod
    async def kill(self, number: int) -> None:
        """End a node without its farewell to the topic."""

    @abstractmethod
    async def leave(self, number: int) -> None:
        """Close a node, as an application does that ends, and wait until it has gone."""

    @abstractmethod
    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Let time pass until something holds."""

    @abstractmethod
    async def pause(self) -> None:
        """The time between two tries."""

    @abstractmethod
    def id(self, number: int) -> Id:
        """Of a node."""

    def root(self) -> int:
        """Whose id is closest to the topic's."""
        return min(range(SIZE), key=lambda number: ids.rank(TOPIC, self.id(number)))


class Live(Field):
    """Nodes of the runtime."""

    def __init__(self, strategy: str, reliability: str, over_grpc: bool) -> None:
        super().__init__(strategy, reliability)
        topic = TopicConfig(strategy=strategy, reliability=reliability)  # type: ignore[arg-type]
        self._config = Config(defaults=topic, admin=AdminConfig(enabled=False), pastry=BRISK)
        self._memory = None if over_grpc else MemoryNetwork()
        self._nodes: list[overlaymq.Node] = []
        self._hosts: dict[int, trio.CancelScope] = {}
        self._ends: dict[int, tuple[trio.Event, trio.Event]] = {}
        self._readers: dict[int, tuple[trio.CancelScope, trio.Event]] = {}

    async def start(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        for number in range(SIZE):
            await nursery.start(self._host, number)

    def _open(self, number: int) -> AbstractAsyncContextManager[overlaymq.Node]:
        first = self._nodes[:1]
        if self._memory is not None:
            return open_memory_node(self._memory, self._config, name=f"field/{number}", seeds=first)
        seeds = [node.address for node in first]
        return overlaymq.open_node(self._config, listen="127.0.0.1:0", seeds=seeds)

    async def _host(
        self, number: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        end, ended = self._ends[number] = trio.Event(), trio.Event()
        with trio.CancelScope() as scope:
            self._hosts[number] = scope
            async with self._open(number) as node:
                self._nodes.append(node)
                task_status.started()
                await end.wait()
        ended.set()

    async def subscribe(self, number: int, last: int = 0) -> None:
        self.got[number].clear()
        self.missed[number].clear()
        await self._nursery.start(self._read, number, last)

    async def _read(
        self,
        number: int,
        last: int,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        ended = trio.Event()
        since = overlaymq.Last(last) if last else None
        with trio.CancelScope() as scope, suppress(overlaymq.Closed):
            self._readers[number] = scope, ended
            async with self._nodes[number].subscribe(NAME, since=since) as subscription:
                self._nursery.start_soon(self._listen, number, subscription)
                await subscription.wait_ready()
                task_status.started()
                async for message in subscription:
                    self.got[number].append(message.payload)
        ended.set()

    async def _listen(self, number: int, subscription: overlaymq.Subscription) -> None:
        with suppress(overlaymq.Closed):
            async for event in subscription.events():
                if isinstance(event, Missed):
                    self.missed[number].append(event)

    async def unsubscribe(self, number: int) -> None:
        scope, ended = self._readers[number]
        scope.cancel()
        await ended.wait()

    async def publish(self, number: int, payload: bytes) -> None:
        await self._nodes[number].publish(NAME, payload)

    async def count(self, number: int, expected: int) -> None:
        with trio.fail_after(PATIENCE):
            while await self._nodes[number].wait_subscribers(NAME, expected) != expected:
                await self.pause()

    def install(self, upcalls: Upcalls) -> None:
        for node in self._nodes:
            node.set_upcalls(NAME, upcalls)

    async def kill(self, number: int) -> None:
        if self._memory is not None:
            self._memory.crash(self._nodes[number].address)
        self._hosts[number].cancel()

    async def leave(self, number: int) -> None:
        end, ended = self._ends[number]
        end.set()
        await ended.wait()

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        with trio.move_on_after(PATIENCE):
            while not holds():
                await self.pause()
            return
        raise AssertionError(f"not within {PATIENCE} s: {what}")

    async def pause(self) -> None:
        await trio.sleep(0.05)  # between two looks at a condition, or for real time to pass

    def id(self, number: int) -> Id:
        return ids.parse(self._nodes[number].id)


class Simulated(Field):
    """Whole core nodes on the simulator's engine."""

    def __init__(self, strategy: str, reliability: str) -> None:
        super().__init__(strategy, reliability)
        self.simulation = Simulation(1, PlaneDelay(), Faults(link_break=0.1))
        self.nodes: dict[Id, CoreNode] = {}
        self._whole = Config()
        self.config = self._whole.pastry
        self._descriptor = Descriptor(TOPIC, NAME, "", TOPIC, strategy, reliability, "patient")
        self._published = [0] * SIZE
        self._events: dict[int, list[Event]] = {number: [] for number in range(SIZE)}

    def new_peer(self) -> Peer:
        name = f"field/{len(self.nodes)}"
        return Peer(ids.hashed(name.encode()), name)

    def add(self, peer: Peer) -> CoreNode:
        random = self.simulation.node_random(peer.address)
        node = self.nodes[peer.id] = CoreNode(peer, self._whole, random)
        self.simulation.add_node(peer, node)
        return node

    async def start(self, nursery: trio.Nursery) -> None:
        oracle.build(self, SIZE, with_timers=True)
        self._peers = [node.me for node in self.nodes.values()]
        self._numbers = {peer.id: number for number, peer in enumerate(self._peers)}
        self.simulation.on_deliver = self._delivered
        self.simulation.on_notify = self._notified

    def _delivered(self, host: Host, batch: Batch) -> None:
        self.got[self._numbers[host.peer.id]].append(batch.body)

    def _notified(self, host: Host, event: Event) -> None:
        number = self._numbers[host.peer.id]
        self._events[number].append(event)
        if isinstance(event, Missed):
            self.missed[number].append(event)

    def _heard(self, number: int, kind: type) -> list[Event]:
        return [event for event in self._events[number] if isinstance(event, kind)]

    async def subscribe(self, number: int, last: int = 0) -> None:
        self.got[number].clear()
        self.missed[number].clear()
        self._events[number].clear()
        self.simulation.start(self._peers[number], Subscribe(self._descriptor, last))
        await self.until(lambda: bool(self._heard(number, Ready)), f"node {number} is ready")

    async def unsubscribe(self, number: int) -> None:
        self.simulation.start(self._peers[number], Unsubscribe(TOPIC))

    async def publish(self, number: int, payload: bytes) -> None:
        peer = self._peers[number]
        batch = Batch(TOPIC, peer.id, 1, self._published[number], 1, payload)
        self._published[number] += 1
        self.simulation.start(peer, Publish(self._descriptor, batch))
        self.simulation.run_until(self.simulation.now + 0.01)

    async def count(self, number: int, expected: int) -> None:
        def counted() -> bool:
            self.simulation.start(self._peers[number], CountMembers(self._descriptor))
            told = self._heard(number, Members)
            return bool(told) and isinstance(last := told[-1], Members) and last.count == expected

        await self.until(counted, f"node {number} counts {expected}")

    def install(self, upcalls: Upcalls) -> None:
        for node in self.nodes.values():
            node.set_upcalls(TOPIC, upcalls)

    async def kill(self, number: int) -> None:
        dead = self._peers[number]
        self.simulation.crash(dead)
        del self.nodes[dead.id]
        for node in self.nodes.values():
            if dead.id in node.kept():
                host = self.simulation.hosts[node.me.address]
                self.simulation.schedule(0.1, host, PeerFailed(dead, "its process died", True))

    async def leave(self, number: int) -> None:
        peer = self._peers[number]
        node = self.nodes[peer.id]
        self.simulation.start(peer, Depart())
        await self.until(lambda: not node.needed, "nobody needs the node")
        self.simulation.start(peer, Leave())
        self.simulation.run_until(self.simulation.now + 0.01)
        await self.kill(number)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        ends = self.simulation.now + PATIENCE
        while not holds():
            assert self.simulation.now < ends, f"not within {PATIENCE} s: {what}"
            await self.pause()

    async def pause(self) -> None:
        self.simulation.run_until(self.simulation.now + 0.1)

    def id(self, number: int) -> Id:
        return self._peers[number].id


FIELDS: dict[str, Callable[[str, str], Field]] = {
    "memory": lambda strategy, reliability: Live(strategy, reliability, over_grpc=False),
    "grpc": lambda strategy, reliability: Live(strategy, reliability, over_grpc=True),
    "simulator": Simulated,
}
