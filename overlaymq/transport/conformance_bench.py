"""What the transport conformance suite stands on: rigs, a recording node, and a bench of them.

A ``Rig`` says how to make transports of one kind. The ``Recorder`` stands in for the node: it
notes what it is told and judges every call by itself: on the trio thread, never from inside a
call into the transport, ``opened`` before anything else, one end to each beginning, nothing after
``aclose``.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from overlaymq.config import LinkConfig
from overlaymq.identity import Identity
from overlaymq.ids import Id, short
from overlaymq.messages import Batch, Message, Peer, Ping
from overlaymq.transport.memory import MemoryNetwork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from overlaymq.transport.base import Transport

LIMIT = 20.0  # seconds for one check, far above what any needs
PATIENT = {"connect_timeout": 3.0, "reconnect_min": 0.05, "reconnect_max": 0.2}
TOPIC = Id(7)


class Rig(ABC):
    """One kind of transport, and the network it lives in."""

    @abstractmethod
    def transport(
        self, identity: Identity, config: LinkConfig, *, incarnation: int, address: str
    ) -> Transport:
        """A transport that is not started; an empty address means any that is free."""

    @abstractmethod
    def unreachable(self) -> str:
        """An address where nobody listens."""

    async def pass_idle_time(self) -> None:
        """Make idle links notice it, where there is no clock to do so."""
        await trio.lowlevel.checkpoint()


class MemoryRig(Rig):
    """Transports of one MemoryNetwork."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()

    def transport(
        self, identity: Identity, config: LinkConfig, *, incarnation: int, address: str
    ) -> Transport:
        """See Rig."""
        if address:
            return self.network.transport(Peer(identity.id, address, incarnation), config)
        return self.network.transport(identity, config, incarnation=incarnation)

    def unreachable(self) -> str:
        """See Rig."""
        return "memory:nobody"

    async def pass_idle_time(self) -> None:
        """See Rig."""
        self.network.close_idle()
        await trio.lowlevel.checkpoint()


class Recorder:
    """An Inbox that notes what it is told, and every breach of the contract."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.messages: list[tuple[Peer, Message]] = []
        self.drops: dict[str, int] = {}
        self.breaches: list[str] = []
        self.open: dict[Id, Peer] = {}
        self.gone: list[Id] = []
        self.inside = False  # a call into the transport is under way
        self.finished = False
        self.poison: Message | None = None
        self._thread = threading.get_ident()
        self._changed = trio.Event()

    def _note(self, *entry: Any) -> None:
        self.log.append(entry)
        if threading.get_ident() != self._thread:
            self.breaches.append(f"{entry} on another thread")
        if self.inside:
            self.breaches.append(f"{entry} from inside a call into the transport")
        if self.finished:
            self.breaches.append(f"{entry} after aclose")
        self._changed.set()
        self._changed = trio.Event()

    def _must_be_open(self, peer: Peer, *entry: Any) -> None:
        if self.open.get(peer.id) != peer:
            self.breaches.append(f"{entry} while no link to {peer} is open")

    def opened(self, peer: Peer) -> None:
        self._note("opened", peer)
        if peer.id in self.open:
            self.breaches.append(f"a second link to {short(peer.id)} opened before the first ended")
        self.open[peer.id] = peer

    def received(self, peer: Peer, message: Message) -> None:
        self._note("received", short(peer.id), type(message).__name__)
        self._must_be_open(peer, "received", message)
        self.messages.append((peer, message))
        if self.poison is not None and message == self.poison:
            raise RuntimeError("the node fails on this message, as the check wants it to")

    def failed(self, peer: Peer, reason: str, gone: bool = False) -> None:
        self._note("failed", peer, reason)
        if gone:
            self.gone.append(peer.id)
        if not reason:
            self.breaches.append("failed without a reason")
        self.open.pop(peer.id, None)

    def closed(self, peer: Peer) -> None:
        self._note("closed", peer)
        self._must_be_open(peer, "closed")
        self.open.pop(peer.id, None)

    def measured(self, peer: Peer, seconds: float, offset: int | None = None) -> None:
        self._note("measured", peer, seconds)
        self._must_be_open(peer, "measured")

    def drained(self) -> None:
        self._note("drained")

    def dropped(self, reason: str, count: int) -> None:
        self._note("dropped", reason, count)
        self.drops[reason] = self.drops.get(reason, 0) + count

    def count(self, what: str, id_: Id | None = None) -> int:
        """How often this was told, of anyone or of one peer."""
        told = [entry for entry in self.log if entry[0] == what]
        return len(told) if id_ is None else sum(entry[1].id == id_ for entry in told)

    def numbers(self, sender: Id) -> list[int]:
        """The pings from one sender, in the order they came."""
        return [m.request for p, m in self.messages if p.id == sender and isinstance(m, Ping)]

    def firsts(self, sender: Id) -> list[int]:
        """The batches from one sender, in the order they came."""
        return [m.first for p, m in self.messages if p.id == sender and isinstance(m, Batch)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that was told makes this true."""
        while not condition():
            await self._changed.wait()


class Endpoint:
    """A started transport, its recorder, and calls that are watched for re-entrance."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.inbox = Recorder()
        self.peer = Peer(Id(0), "")
        self.id = Id(0)

    async def start(self) -> Endpoint:
        self.peer = await self.transport.start(self.inbox)
        self.id = self.peer.id
        return self

    def call(self, name: str, *arguments: Any) -> Any:
        self.inbox.inside = True
        try:
            return getattr(self.transport, name)(*arguments)
        finally:
            self.inbox.inside = False

    def ping(self, to: Endpoint, *numbers: int) -> None:
        for number in numbers:
            self.call("send", to.peer, Ping(number))

    def batches(self, to: Endpoint, count: int, size: int = 100) -> None:
        for first in range(count):
            self.call("send_batch", to.peer, batch(first, size))

    def linked(self) -> set[Id]:
        return {link.peer.id for link in self.transport.links()}

    async def aclose(self) -> None:
        await self.transport.aclose()
        self.inbox.finished = True


def batch(first: int, size: int = 100) -> Batch:
    """A batch of one message whose bytes say which it is."""
    return Batch(TOPIC, TOPIC, 1, first, 1, first.to_bytes(4, "big") * (size // 4))


class Bench:
    """The nodes of one check."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.nodes: list[Endpoint] = []

    async def node(
        self,
        identity: Identity | None = None,
        *,
        incarnation: int = 1,
        address: str = "",
        **config: Any,
    ) -> Endpoint:
        settings = LinkConfig(**{**PATIENT, **config})
        transport = self.rig.transport(
            identity or Identity.ephemeral(), settings, incarnation=incarnation, address=address
        )
        node = Endpoint(transport)
        self.nodes.append(node)
        return await node.start()

    async def pair(self, **config: Any) -> tuple[Endpoint, Endpoint]:
        """Two nodes with an open link, dialled by the first."""
        a, b = await self.node(**config), await self.node(**config)
        assert await a.transport.connect(b.peer.address) == b.peer
        await a.inbox.until(lambda: b.id in a.inbox.open)
        await b.inbox.until(lambda: a.id in b.inbox.open)
        return a, b

    def story(self) -> str:
        lines = []
        for node in self.nodes:
            log = node.inbox.log
            shown = [*log[:15], f"... {len(log) - 30} more ...", *log[-15:]]
            lines.append(f"{short(node.id)} was told {shown if len(log) > 30 else log}")
        return "\n".join(lines)


@asynccontextmanager
async def open_bench(rig: Rig) -> AsyncIterator[Bench]:
    bench = Bench(rig)
    try:
        with trio.fail_after(LIMIT):
            yield bench
    except trio.TooSlowError:
        raise AssertionError(f"what was waited for never came\n{bench.story()}") from None
    finally:
        with trio.CancelScope(shield=True):
            for node in bench.nodes:
                await node.aclose()
    breaches = [breach for node in bench.nodes for breach in node.inbox.breaches]
    assert not breaches, "\n".join([*breaches, bench.story()])
