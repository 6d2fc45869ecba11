"""For applications' own tests: a connected network without sockets, and the conformance suites.

    async with overlaymq.testing.network(5) as nodes:
        async with nodes[0].subscribe("prices") as prices:
            await prices.wait_ready()
            await nodes[4].publish("prices", b"AAPL 191.2")
            assert (await prices.receive()).payload == b"AAPL 191.2"

The nodes are real: only the transport is in memory. ``nodes.memory`` breaks and mends paths (``cut``,
``heal``, ``crash``), so that an application can test what it does when nodes fail.

``check_transport``, ``check_strategy`` (and ``check_ordered``, for trees) and ``check_tracer`` hold an
implementation of one's own to its contract; ``ListTracer`` keeps the trace of a node in memory.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from overlaymq import ids
from overlaymq.config import AdminConfig, Config
from overlaymq.core.dissemination.conformance import check_strategy
from overlaymq.core.dissemination.conformance_ordered import check_ordered
from overlaymq.messages import Peer
from overlaymq.runtime.opening import run_node
from overlaymq.trace.conformance import check_tracer
from overlaymq.trace.tracer import ListTracer
from overlaymq.transport.conformance import Rig, check_transport
from overlaymq.transport.memory import MemoryNetwork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from overlaymq.runtime.node import Node
    from overlaymq.trace.tracer import Tracer

__all__ = [
    "ListTracer",
    "MemoryNetwork",
    "Network",
    "Rig",
    "check_ordered",
    "check_strategy",
    "check_tracer",
    "check_transport",
    "network",
    "open_memory_node",
]


class Network(list["Node"]):
    """The nodes, in the order they joined, and the memory network between them."""

    def __init__(self, memory: MemoryNetwork) -> None:
        super().__init__()
        self.memory = memory


@asynccontextmanager
async def network(
    size: int,
    config: Config | None = None,
    *,
    seed: int = 0,
    tracers: Sequence[Tracer] = (),
) -> AsyncIterator[Network]:
    """That many connected nodes. The same seed gives the same node ids. ``tracers``: one for each of the
    first nodes, which will close it."""
    memory = MemoryNetwork()
    nodes = Network(memory)
    async with AsyncExitStack() as stack:
        for number in range(size):
            tracer = tracers[number] if number < len(tracers) else None
            node = await stack.enter_async_context(
                open_memory_node(
                    memory, config, name=f"{seed}/{number}", seeds=nodes[:1], tracer=tracer
                )
            )
            nodes.append(node)
        yield nodes


@asynccontextmanager
async def open_memory_node(
    memory: MemoryNetwork,
    config: Config | None = None,
    *,
    name: str,
    seeds: list[Node] | None = None,
    incarnation: int = 1,
    tracer: Tracer | None = None,
) -> AsyncIterator[Node]:
    """One more node on a memory network; its id is the hash of its name."""
    settings = config or Config()
    settings = msgspec.structs.replace(
        settings,
        node=msgspec.structs.replace(
            settings.node, seeds=tuple(node.address for node in seeds or ())
        ),
        admin=AdminConfig(enabled=False),
    )
    me = Peer(ids.hashed(name.encode()), f"memory:{name}", incarnation)
    async with run_node(settings, memory.transport(me, settings.link), tracer) as node:
        yield node
