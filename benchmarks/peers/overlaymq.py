"""overlaymq through its public interface, one message a call: a creator-rooted topic.

A variant is `strategy/reliability`, or `strategy/reliability/traced`: then every process traces into a
folder of its own below the directory that the environment names."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import overlaymq

from . import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from . import Receiver


TRACES = "BENCHMARK_TRACES"
"""Where traced variants write. Not a setting of overlaymq: other variants must not see it."""


class Publisher:
    def __init__(self, node: Any) -> None:
        self._node = node
        self.address: str = node.address

    async def wait_subscribers(self, count: int) -> None:
        await self._node.wait_subscribers(TOPIC, count)

    async def burst(self, payload: bytes, count: int) -> None:
        publish = self._node.publish
        for _ in range(count):
            await publish(TOPIC, payload)

    async def send(self, payload: bytes) -> None:
        await self._node.publish(TOPIC, payload)


class Overlay:
    """One way to set it up."""

    LOOP: Literal["trio"] = "trio"

    def __init__(self, strategy: str, reliability: str, traced: str = "") -> None:
        self._strategy = strategy
        self._reliability = reliability
        self._trace = os.environ[TRACES] if traced else None
        self._tracing: list[tuple[Any, Any]] = []

    def switch(self, traced: bool) -> None:
        """Trace from now on, or not: the driver's one test, between two phases."""
        for driver, tracing in self._tracing:
            if not traced:
                tracing.tracer.flush()  # processes end by being killed
            driver.tracing = tracing if traced else None

    def _remember(self, node: Any) -> None:
        driver = node._driver
        self._tracing.append((driver, driver.tracing))

    @asynccontextmanager
    async def publisher(self, broker: str) -> AsyncIterator[Publisher]:
        async with overlaymq.open_node(listen="127.0.0.1:0", seeds=[], trace=self._trace) as node:
            self._remember(node)
            await node.create(
                TOPIC, strategy=self._strategy, reliability=self._reliability, root="creator"
            )
            yield Publisher(node)

    async def subscriber(self, address: str, receiver: Receiver) -> None:
        async with (
            overlaymq.open_node(listen="127.0.0.1:0", seeds=[address], trace=self._trace) as node,
            node.subscribe(TOPIC) as subscription,
        ):
            self._remember(node)
            await subscription.wait_ready()
            async for message in subscription:
                receiver.take(message.payload)


def variant(name: str) -> Overlay:
    return Overlay(*name.split("/"))
