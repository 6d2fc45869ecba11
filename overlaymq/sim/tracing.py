"""Traces of simulated networks: the same rows as from live nodes, by the same code, at virtual time.

Hangs on the engine's hooks, before those that are there already. ``trace.watching`` looks at each node as it
does at a live one; a node has no links, no buffers and no clock of its own here, so there are no rows about
those. A message that the network loses is a DROP with its fate, and what a workload does to its nodes is a
FAULT.

The tracer waits for the disk instead of losing events, so that a seed always gives the same rows in the same
order. Nothing in the run depends on being watched. For that reason a run is never added to one of the same
name: both would tell of the same messages, and every delivery would seem to happen twice.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from overlaymq.config import TraceConfig
from overlaymq.core.node import Node
from overlaymq.errors import ConfigError
from overlaymq.messages import Batch
from overlaymq.trace import schema
from overlaymq.trace.watching import BEAT_EVERY, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from overlaymq.events import Event, Input
    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host, Simulation
    from overlaymq.sim.faults import Fate
    from overlaymq.trace.tracer import Tracer

NANOSECONDS = 1_000_000_000
FOR_EVER = 1e9
"""Seconds: a segment of the simulator ends by its size, for only that is the same every time."""


class SimTrace:
    """Tells a tracer about all nodes of a simulation. Its clock is ``now``."""

    def __init__(self) -> None:
        self._at = 0
        self._tracer: Tracer | None = None
        self._watches: dict[str, tuple[Host, Watch]] = {}
        self._pending: tuple[Watch, Input] | None = None
        self._simulation: Simulation | None = None

    def now(self) -> int:
        """Virtual time, in nanoseconds: both clocks of the tracer."""
        return self._at

    def attach(self, simulation: Simulation, tracer: Tracer) -> None:
        """Watch a simulation from now on. Hooks that are set later replace this one's."""
        self._simulation, self._tracer = simulation, tracer
        self._at = _nanoseconds(simulation.now)
        simulation.on_input = _both(self._input, simulation.on_input)
        simulation.on_send = _both(self._sent, simulation.on_send)
        simulation.on_deliver = _both(self._delivered, simulation.on_deliver)
        simulation.on_notify = _both(self._notified, simulation.on_notify)
        for host in simulation.hosts.values():
            self._watch(host)
        self._beat_later()

    def fault(self, deed: str, peer: Peer | None = None) -> None:
        """A workload does something to a node, or to all."""
        assert self._simulation is not None
        assert self._tracer is not None
        self._settle(self._simulation.now)
        self._tracer.note(peer, schema.FAULT, reason=deed)

    def end(self) -> None:
        """The run is over: living nodes were there until now."""
        assert self._simulation is not None
        self._settle(self._simulation.now)
        self._beat_all()
        for host, watch in self._watches.values():
            if host.alive:
                watch.left()

    # --- the engine's hooks ---

    def _input(self, now: float, host: Host, input_: Any) -> None:
        self._settle(now)
        watch = self._watch(host)
        if watch is not None:
            watch.input(input_)
            self._pending = watch, input_

    def _sent(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        watch = self._watch(host)
        if watch is not None:
            watch.sent(peer, message, fate)
            if type(message) is Batch and fate in ("lost", "nobody", "cut"):
                watch.dropped(f"network: {fate}", message.count, message, peer.id)

    def _delivered(self, host: Host, batch: Batch) -> None:
        watch = self._watch(host)
        if watch is not None:
            watch.delivered(batch)

    def _notified(self, host: Host, event: Event) -> None:
        watch = self._watch(host)
        if watch is not None:
            watch.event(event)

    # --- parts ---

    def _settle(self, now: float) -> None:
        """What the last input has changed is told at its own time, then time goes on."""
        if self._pending is not None:
            watch, input_ = self._pending
            self._pending = None
            watch.after(input_)
        self._at = _nanoseconds(now)

    def _watch(self, host: Host) -> Watch | None:
        known = self._watches.get(host.peer.address)
        if known is not None and known[0] is host:
            return known[1]
        if not isinstance(host.node, Node) or self._tracer is None:
            return None
        watch = Watch(self._tracer, host.node, schema.VIRTUAL)
        self._watches[host.peer.address] = host, watch
        return watch

    def _beat_later(self) -> None:
        assert self._simulation is not None
        self._simulation.at(self._simulation.now + BEAT_EVERY, self._beat)

    def _beat(self) -> None:
        assert self._simulation is not None
        self._settle(self._simulation.now)
        self._beat_all()
        self._beat_later()

    def _beat_all(self) -> None:
        for host, watch in self._watches.values():
            if host.alive:
                watch.beat()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


def _both(first: Callable[..., None], second: Callable[..., None] | None) -> Callable[..., None]:
    if second is None:
        return first

    def both(*arguments: Any) -> None:
        first(*arguments)
        second(*arguments)

    return both


@contextmanager
def traced(simulation: Simulation, directory: Path, run: str) -> Iterator[SimTrace]:
    """Trace a simulation into files for the length of the block."""
    from overlaymq.trace import files
    from overlaymq.trace.writer import FileTracer

    if files.files(directory / run):
        raise ConfigError(
            f"{directory / run} holds a traced run already, and this one would be mixed with it: "
            "remove that folder, or name another directory"
        )
    trace = SimTrace()
    config = TraceConfig(directory=str(directory), run=run, segment_seconds=FOR_EVER, keep_bytes=0)
    seed = simulation.seed
    tracer = FileTracer(config, "sim", seed, wall=trace.now, mono=trace.now, patient=True)
    trace.attach(simulation, tracer)
    try:
        yield trace
        trace.end()
    finally:
        tracer.close(FOR_EVER)
        if tracer.tally.problem:
            raise OSError(f"the trace is not whole: {tracer.tally.problem}")
