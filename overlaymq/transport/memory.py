"""A network inside one trio run: the transport contract without sockets, threads or a clock.

Everything that happens on the network is one entry in one queue, and one pump, woken through
trio's entry queue, performs the entries in order, control ahead of batches. So calls into a node
never nest inside its own calls, messages between two nodes keep their order, and a test that does
the same things sees the same order of events (as far as trio runs its own tasks in the same
order). Messages pass by reference.

Faults are for the asking: ``cut`` and ``heal`` break and mend the path between two addresses,
``crash`` takes a node away without goodbye. There is no clock, so nothing is idle by itself:
``close_idle`` says that the idle time has passed.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from overlaymq.config import LinkConfig
from overlaymq.errors import LinkRefused, OwnAddress
from overlaymq.ids import short
from overlaymq.messages import Batch, Peer
from overlaymq.transport.base import LinkInfo, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from overlaymq.ids import Id
    from overlaymq.messages import Message
    from overlaymq.transport.base import Inbox

log = logging.getLogger("overlaymq.transport")

ITSELF = "that is this node itself"
CONTROL_SIZE = 256  # what a control message counts for in bounds: by reference it has no size


class HasId(Protocol):
    """An identity, for all this transport needs of it."""

    @property
    def id(self) -> Id: ...


class MemoryNetwork:
    """Makes transports that reach each other, and breaks what lies between them."""

    def __init__(self, round_trip: float = 0.001) -> None:
        self.round_trip = round_trip
        self._queue: deque[Callable[[], None]] = deque()
        self._bulk: deque[Callable[[], None]] = deque()
        self._pumping = False
        self._hosts: dict[str, MemoryTransport] = {}
        self._cuts: set[frozenset[str]] = set()
        self._made = 0

    def transport(
        self, who: Peer | HasId, config: LinkConfig | None = None, *, incarnation: int = 0
    ) -> MemoryTransport:
        """A node's transport. A Peer says its address; an identity gets the next free one."""
        if isinstance(who, Peer):
            peer = who
        else:
            self._made += 1
            peer = Peer(who.id, f"memory:{self._made}", incarnation)
        return MemoryTransport(self, peer, config or LinkConfig())

    def cut(self, a: str, b: str) -> None:
        """Break the path between two addresses: their link fails, and new ones cannot be opened."""
        self._cuts.add(frozenset((a, b)))
        host = self._hosts.get(a)
        for side in list(host._sides.values()) if host else ():
            if side.other is not None and side.other.host.peer.address == b:
                self._break(side, f"the path from {a} to {b} is cut")

    def heal(self) -> None:
        """Mend every cut."""
        self._cuts.clear()

    def crash(self, address: str) -> None:
        """A node vanishes: no goodbye, and what it had queued is lost."""
        host = self._hosts.pop(address, None)
        if host is None:
            return
        host._dead = True
        for side in list(host._sides.values()):
            self._break(side, f"{address} is gone")

    def close_idle(self) -> None:
        """The idle time has passed: close every link that neither side keeps."""
        for host in list(self._hosts.values()):
            for side in list(host._sides.values()):
                other = side.other
                if (
                    other
                    and side.peer.id not in host._kept
                    and host.peer.id not in other.host._kept
                ):
                    host._say_goodbye(side)

    # --- Used by the transports ---------------------------------------------------------------

    def _soon(self, entry: Callable[[], None], *, bulk: bool = False) -> None:
        """Queue an entry; a bulky one comes after all that is there, as data does behind control."""
        (self._bulk if bulk else self._queue).append(entry)
        self._wake()

    def _wake(self) -> None:
        if not self._pumping:
            self._pumping = True
            trio.lowlevel.current_trio_token().run_sync_soon(self._pump)

    def _pump(self) -> None:
        # Only what is here now: two nodes that answer each other must not keep trio from its tasks.
        for queue in (self._queue, self._bulk):
            for _ in range(len(queue)):
                queue.popleft()()
        self._pumping = bool(self._queue or self._bulk)
        if self._pumping:
            trio.lowlevel.current_trio_token().run_sync_soon(self._pump)

    def _break(self, side: _Side, reason: str, gone: bool = False) -> None:
        """End a link at once: whatever is still in the queue for it finds its side detached."""
        other = side.other
        for end in (side, other):
            if end is not None and end.host._sides.get(end.peer.id) is end:
                del end.host._sides[end.peer.id]
                end.other = None
                # Ahead of all that is queued: a dial there may open the pair's next link.
                self._queue.appendleft(_failing(end, reason, gone))
                self._wake()

    def _gone(self, a: str, peer: Peer) -> bool:
        there = self._hosts.get(peer.address)
        return frozenset((a, peer.address)) not in self._cuts and (
            there is None or there.peer.id != peer.id
        )

    def _reachable(self, a: str, b: str) -> MemoryTransport | None:
        return None if frozenset((a, b)) in self._cuts else self._hosts.get(b)


class _Side:
    """One end of a link; without ``other`` it is being dialled or has ended."""

    def __init__(self, host: MemoryTransport, peer: Peer) -> None:
        self.host = host
        self.peer = peer
        self.other: _Side | None = None
        self.dialled = False
        self.waiting: list[tuple[Callable[[], None], bool]] = []
        self.backlog = 0
        self.control = 0
        self.watched = False

    @property
    def busy(self) -> bool:
        return bool(self.backlog or self.control)

    def written(self, size: int) -> None:
        self.backlog -= size
        if not self.backlog:
            self.settle()

    def settle(self) -> None:
        if self.watched:
            self.watched = False
            self.host._tell(lambda inbox: inbox.drained())


class MemoryTransport(Transport):
    """One node's end of a MemoryNetwork."""

    def __init__(self, network: MemoryNetwork, peer: Peer, config: LinkConfig) -> None:
        self.peer = peer
        self.config = config
        self._network = network
        self._inbox: Inbox | None = None
        self._sides: dict[Id, _Side] = {}  # the least recently used first
        self._kept: frozenset[Id] = frozenset()
        self._dead = False

    async def start(self, inbox: Inbox) -> Peer:
        """See Transport."""
        await trio.lowlevel.checkpoint()
        if self.peer.address in self._network._hosts:
            raise OSError(f"{self.peer.address} is already in use")
        self._inbox = inbox
        self._network._hosts[self.peer.address] = self
        return self.peer

    async def connect(self, address: str) -> Peer:
        """See Transport."""
        outcome: list[Peer | str] = []
        done = trio.Event()

        def dial() -> None:
            outcome.append(self._dial(address, None))
            done.set()

        self._network._soon(dial)
        await done.wait()
        if isinstance(outcome[0], str):
            kind = OwnAddress if outcome[0] == ITSELF else LinkRefused
            raise kind(f"{address}: {outcome[0]}")
        return outcome[0]

    def send(self, peer: Peer, message: Message) -> None:
        """See Transport."""
        side = self._side(peer)
        if side is None:
            return
        if side.control + CONTROL_SIZE > self.config.control_queue:
            self._tell(lambda inbox: inbox.dropped("control queue full", 1))
            self._network._break(side, "the control queue is full")
            return
        side.control += CONTROL_SIZE
        self._post(side, lambda: self._deliver(side, message, 0))

    def send_batch(self, peer: Peer, batch: Batch) -> None:
        """See Transport."""
        side = self._side(peer)
        if side is None:
            return
        size = batch.size
        if size > self.config.max_frame:
            self._tell(lambda inbox: inbox.dropped("batch larger than a frame", batch.count))
            return
        if side.backlog + size > self.config.data_queue:
            self._tell(lambda inbox: inbox.dropped("data queue full", batch.count))
            return
        side.backlog += size
        self._post(side, lambda: self._deliver(side, batch, size), bulk=True)

    def flush(self) -> None:
        """See Transport. What is sent here is on its way at once."""

    def backlog(self, peer: Peer) -> int:
        """See Transport."""
        side = self._sides.get(peer.id)
        return side.backlog if side else 0

    def watch(self, peer: Peer) -> None:
        """See Transport."""
        side = self._sides.get(peer.id)
        if side is not None and side.backlog:
            side.watched = True
        else:
            self._tell(lambda inbox: inbox.drained())

    def probe(self, peer: Peer) -> None:
        """See Transport."""
        side = self._side(peer)
        if side is not None:
            self._post(side, lambda: self._measure(side))

    def keep(self, peers: Collection[Id]) -> None:
        """See Transport."""
        self._kept = frozenset(peers)

    def links(self) -> tuple[LinkInfo, ...]:
        """See Transport."""
        return tuple(
            LinkInfo(side.peer, side.dialled, side.backlog)
            for side in self._sides.values()
            if side.other is not None
        )

    async def aclose(self) -> None:
        """See Transport."""
        if self._dead or self._inbox is None:
            await trio.lowlevel.checkpoint()
            return
        done = trio.Event()
        for side in list(self._sides.values()):
            self._say_goodbye(side, only_if_idle=False)
        self._network._soon(done.set, bulk=True)
        await done.wait()
        self._dead = True
        self._network._hosts.pop(self.peer.address, None)
        for side in list(self._sides.values()):
            self._network._break(side, "the node was closed")

    # --- Links --------------------------------------------------------------------------------

    def _side(self, peer: Peer) -> _Side | None:
        """The link to a peer, dialled now if there is none."""
        if self._dead or self._inbox is None:
            return None
        if peer.id == self.peer.id:
            self._tell(lambda inbox: inbox.dropped("sent to itself", 1))
            return None
        side = self._sides.pop(peer.id, None)
        if side is None:
            side = _Side(self, peer)
            dialled = side
            self._network._soon(lambda: self._dial_side(dialled))
        self._sides[peer.id] = side  # the most recently used is last
        return side

    def _post(self, side: _Side, entry: Callable[[], None], *, bulk: bool = False) -> None:
        if side.other is None:
            side.waiting.append((entry, bulk))
        else:
            self._network._soon(entry, bulk=bulk)

    def _dial_side(self, side: _Side) -> None:
        if self._sides.get(side.peer.id) is not side or side.other is not None:
            return  # it is over, or the other's dial was first
        outcome = self._dial(side.peer.address, side.peer.id)
        if isinstance(outcome, str):
            gone = self._network._gone(self.peer.address, side.peer)
            self._network._break(side, outcome, gone)

    def _dial(self, address: str, expected: Id | None) -> Peer | str:
        """Open a link; a text says why it could not be."""
        there = self._network._reachable(self.peer.address, address)
        if self._dead or there is None:
            return "nobody answers there"
        if there.peer.id == self.peer.id:
            return ITSELF if there is self else "it has this node's own id (a copied key)"
        if expected is not None and there.peer.id != expected:
            return f"expected {short(expected)}, found {short(there.peer.id)}"
        known = there._sides.get(self.peer.id)
        if known is not None and known.other is not None and known.other.host is not self:
            return f"id in use: {short(self.peer.id)} is linked from another address"
        if known is None or known.other is None:
            self._open(there)
        return there.peer

    def _open(self, there: MemoryTransport) -> None:
        ends = []
        for host, peer in ((self, there.peer), (there, self.peer)):
            side = host._sides.setdefault(peer.id, _Side(host, peer))
            side.peer = peer
            ends.append(side)
        ends[0].other, ends[1].other = ends[1], ends[0]
        ends[0].dialled = True
        for side in ends:
            host = side.host
            host._tell_now("opened", partial(_opened, side.peer))
            for entry, bulk in side.waiting:
                self._network._soon(entry, bulk=bulk)
            side.waiting.clear()
            host._evict(side)

    def _evict(self, newest: _Side) -> None:
        surplus = len(self._sides) - self.config.max_links
        for side in list(self._sides.values()):
            if surplus <= 0:
                return
            if side is not newest and side.other and side.peer.id not in self._kept:
                self._say_goodbye(side)
                surplus -= 1

    def _say_goodbye(self, side: _Side, *, only_if_idle: bool = True) -> None:
        """Half-close: takes effect behind what is queued."""

        def part() -> None:
            ends = [end for end in (side, side.other) if end is not None]
            if len(ends) == 1 or (only_if_idle and any(end.busy for end in ends)):
                return
            for end in ends:
                del end.host._sides[end.peer.id]
                end.other = None
                if end.busy:  # something is lost, so it did not end as this side wished
                    _failing(end, "the peer left while messages were under way")()
                    continue
                end.settle()
                end.host._tell_now("closed", partial(_closed, end.peer))

        self._network._soon(part, bulk=True)

    # --- Into the nodes -----------------------------------------------------------------------

    def _deliver(self, side: _Side, message: Message, size: int) -> None:
        other = side.other
        if size:
            side.written(size)
        else:
            side.control -= CONTROL_SIZE
        if other is not None:
            other.host._tell_now("received", lambda inbox: inbox.received(other.peer, message))

    def _measure(self, side: _Side) -> None:
        if side.other is not None:
            seconds = self._network.round_trip
            self._tell_now("measured", lambda inbox: inbox.measured(side.peer, seconds, 0))

    def _tell(self, call: Callable[[Inbox], None]) -> None:
        self._network._soon(lambda: self._tell_now("told", call))

    def _tell_now(self, what: str, call: Callable[[Inbox], None]) -> None:
        if self._dead or self._inbox is None:
            return
        try:
            call(self._inbox)
        except Exception:  # a bug in one node must not stop the others of this run
            log.exception("the node failed while it was told %r", what)


def _opened(peer: Peer, inbox: Inbox) -> None:
    inbox.opened(peer)


def _closed(peer: Peer, inbox: Inbox) -> None:
    inbox.closed(peer)


def _failing(side: _Side, reason: str, gone: bool = False) -> Callable[[], None]:
    def fail() -> None:
        side.settle()
        side.host._tell_now("failed", lambda inbox: inbox.failed(side.peer, reason, gone))

    return fail
