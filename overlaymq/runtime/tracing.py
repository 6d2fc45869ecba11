"""A live node's trace: what ``trace.watching`` sees in the core, and what only the driver knows.

Beside the core's work, a live node has links that open and break, clocks that differ from other hosts', and
subscriptions whose buffers fill up and are emptied. A driver without a tracer holds None in place of this, so
that tracing costs one test where it is off.

Every ``flush_every`` seconds the tracer is flushed, every second the node says what it expects, and every
``clock_every`` seconds it asks the peers it has links to for their clocks. Those probes are the tracer's own:
their answers are not for the core, which must do the same with a trace and without one.
"""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from overlaymq import ids
from overlaymq.errors import ConfigError
from overlaymq.trace import schema
from overlaymq.trace.tracer import NOBODY
from overlaymq.trace.watching import BEAT_EVERY, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.config import TraceConfig
    from overlaymq.core.node import Node
    from overlaymq.messages import Batch, Peer
    from overlaymq.runtime.driver import Driver
    from overlaymq.runtime.message import Arrived
    from overlaymq.runtime.subscription import Subscription
    from overlaymq.trace.tracer import Tracer

CLOCKS = 64
"""Links whose clocks are compared at a time, the others' turn comes later: a guess."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
"""On Linux, a random number that is drawn when the machine starts."""
CLOSE_WAIT = 2.0
"""Seconds that a closing node waits for its trace to be written: a guess, as for the recorder."""


class TraceStatistics(msgspec.Struct, frozen=True):
    """What the tracer has done, in events; ``problem`` says why it has given up."""

    recorded: int
    written: int
    lost: int
    problem: str


def open_tracer(config: TraceConfig, me: Peer) -> Tracer | None:
    """The tracer that the configuration asks for."""
    if not config.directory:
        return None
    try:
        from overlaymq.trace.writer import FileTracer
    except ImportError as error:
        raise ConfigError(
            f"trace.directory: tracing needs {error.name}; install it with `pip install overlaymq[trace]`"
        ) from None
    return FileTracer(config, ids.text(me.id), me.incarnation, node=me)


def _clock() -> str:
    """One name for all processes that have this machine's clock; another one after it was started again."""
    try:
        machine = BOOT.read_text().strip()
    except OSError:
        machine = socket.gethostname()
    return ids.text(ids.hashed(machine.encode()))[:16]


class Tracing(Watch):
    """Tells a tracer about one live node."""

    def __init__(self, tracer: Tracer, core: Node, config: TraceConfig) -> None:
        super().__init__(tracer, core, _clock())
        self._config = config
        self._asked: Counter[ids.Id] = Counter()
        self._turn = 0

    def start(self, driver: Driver) -> None:
        """Begin the periodic work."""

        def every(seconds: float, work: Callable[[], None]) -> None:
            def again() -> None:
                work()
                driver.after(seconds, again)

            driver.after(seconds, again)

        driver.flow.given_up = []
        self.tracer.flush()  # the first is the slowest: better now than in the middle of the work
        every(self._config.flush_every, self.tracer.flush)
        every(BEAT_EVERY, self.beat)
        every(self._config.clock_every, lambda: self._ask_clocks(driver))

    async def aclose(self) -> None:
        """Write what is left."""
        self.left()
        await trio.to_thread.run_sync(self.tracer.close, CLOSE_WAIT)

    def statistics(self) -> TraceStatistics:
        """Counters, as a frozen value."""
        tally = self.tracer.tally
        return TraceStatistics(tally.recorded, tally.written, tally.lost, tally.problem)

    # --- links ---

    def link_up(self, peer: Peer) -> None:
        """A link is open."""
        self.tracer.note(self.me, schema.LINK_UP, peer=peer.id, extra=_address(peer))

    def link_down(self, peer: Peer, reason: str) -> None:
        """A link is gone."""
        self._asked.pop(peer.id, None)
        self.tracer.note(self.me, schema.LINK_DOWN, peer=peer.id, reason=reason)

    def _ask_clocks(self, driver: Driver) -> None:
        peers = [link.peer for link in driver.transport.links()]
        if len(peers) > CLOCKS:
            self._turn = (self._turn + CLOCKS) % len(peers)
            peers = (peers[self._turn :] + peers[: self._turn])[:CLOCKS]
        for peer in peers:
            if not self._asked[peer.id]:
                self._asked[peer.id] += 1
                driver.transport.probe(peer)

    def measured(self, peer: Peer, seconds: float, offset: int | None) -> bool:
        """A probe was answered; whether it was the tracer's own."""
        if offset is not None:
            self.tracer.note(
                self.me,
                schema.CLOCK,
                peer=peer.id,
                duration=round(seconds * 1e9),
                extra=schema.packed(offset_ns=offset),
            )
        return bool(self._asked.pop(peer.id, 0))

    def given_up(self, gone: list[tuple[ids.Id, Batch, str]]) -> None:
        """What flow control has dropped."""
        for peer, batch, reason in gone:
            self.dropped(reason, batch.count, batch, peer)
        gone.clear()

    # --- subscriptions ---

    def begins(self, topic: ids.Id, others: list[Subscription]) -> None:
        """A topic has one more subscription, the last of these."""
        if not any(one.receive_own for one in others):
            self.others_only.add(topic)
        elif topic in self.others_only:
            self.others_only.discard(topic)
            if len(others) > 1:
                self._about_topic(schema.SUBSCRIBE, topic)

    def consumed(self, arrived: Arrived) -> None:
        """The application has taken messages since the last time."""
        count = arrived.start - arrived.told
        if count > 0:
            self._some(schema.CONSUME, arrived.batch, arrived.told, count)
        arrived.told = arrived.start

    def undelivered(self, arrived: Arrived, start: int, count: int, reason: str) -> None:
        """A subscription gives messages up."""
        if count > 0:
            self._some(schema.UNDELIVERABLE, arrived.batch, start, count, reason)

    def _some(self, event: str, batch: Batch, start: int, count: int, reason: str = "") -> None:
        self.tracer.messages(
            self.me,
            event,
            batch,
            self.about(batch.topic),
            NOBODY,
            start=start,
            count=count,
            reason=reason,
        )


def _address(peer: Peer) -> str:
    return schema.packed(address=peer.address)
