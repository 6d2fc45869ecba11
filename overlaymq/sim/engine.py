"""The virtual-time driver: an event heap that performs the effects of any number of nodes.

Events are ordered by (time, sequence), so simultaneous ones happen in the order they were caused and a
seed fixes the whole run. Messages pass by reference, nothing recurses, and no clock is read: a
simulated minute takes as long as its events do.

A node is anything with ``handle(input, now) -> effects``. A crash is silent: timers and messages of a
crashed node vanish, unless its ``Faults`` say that links break loudly. Sending to a node that was
started again reaches the new one only if it was sent after the start, as a new connection would be.

The core cancels no timers, it ignores those that have gone stale. A timer that fires and brings about no
effect is therefore no event but a stale timer, counted apart. (A timer that only tidies the node's memory
counts as stale too: the engine sees effects, not state.)

A slow node takes its inputs one after the other. The time when it will be done with an input is known when
the input arrives, so the input goes back into the heap for that time, once. Inputs that ``feed``, ``start``
and ``perform`` hand over come from the node's own machine and do not wait.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from overlaymq.events import (
    Deliver,
    Measured,
    Notify,
    PeerFailed,
    Probe,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from overlaymq.ids import Id
from overlaymq.messages import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from overlaymq.events import Event, Input
    from overlaymq.messages import Batch, Message
    from overlaymq.sim.faults import Fate, Faults
    from overlaymq.sim.network import NetworkModel


class Driven(Protocol):
    """What the engine drives."""

    def handle(self, input: Any, now: float) -> Collection[Any]:
        """Take one input, return effects."""


class Host:
    """One life of a node: a restart makes a new one."""

    __slots__ = ("alive", "busy_until", "node", "peer")

    def __init__(self, peer: Peer, node: Driven) -> None:
        self.peer = peer
        self.node: Driven = node
        self.alive = True
        self.busy_until = 0.0
        """When a slow node will be done with all that it has received."""

    def end(self) -> None:
        """Whatever is still under way to it finds nobody."""
        self.alive = False
        self.node = NOBODY


class Nobody:
    """In place of a node that has crashed, so that its memory is free; also the agenda's."""

    __slots__ = ()

    def handle(self, input: Any, now: float) -> Collection[Any]:
        """Never called: only a host that is not alive has it."""
        return ()


NOBODY = Nobody()


class Waited:
    """An input that a slow node is done with."""

    __slots__ = ("input",)

    def __init__(self, input: Any) -> None:
        self.input = input


class Simulation:
    """Hosts are found by address. To watch, set hooks; they cost nothing while they are None.

    ``on_input(now, host, input)`` is called before the node handles an input, ``on_effect`` before an effect
    is performed, ``on_send(now, host, peer, message, fate)`` when the fate of a message is known. Their
    ``now`` is the true time; what a skewed node believes is ``local_time(host)``.
    """

    __slots__ = (
        "_agenda",
        "_heap",
        "_sequence",
        "events",
        "faults",
        "horizon",
        "hosts",
        "messages",
        "network",
        "now",
        "on_deliver",
        "on_effect",
        "on_input",
        "on_notify",
        "on_send",
        "random",
        "seed",
        "stale_timers",
    )

    def __init__(self, seed: int, network: NetworkModel, faults: Faults | None = None) -> None:
        self.seed = seed
        self.network = network
        self.faults = faults
        self.random = Random(f"overlaymq network {seed}")
        """The chance of the faults, and of nothing else."""
        self.now = 0.0
        self.horizon = inf
        """Timers that would fire later than this are not kept: nobody will be there to see them."""
        self.events = 0
        self.stale_timers = 0
        self.messages = 0
        self.hosts: dict[str, Host] = {}
        self.on_input: Callable[[float, Host, Any], None] | None = None
        self.on_effect: Callable[[float, Host, Any], None] | None = None
        self.on_send: Callable[[float, Host, Peer, Message, Fate], None] | None = None
        self.on_deliver: Callable[[Host, Batch], None] | None = None
        self.on_notify: Callable[[Host, Event], None] | None = None
        self._heap: list[tuple[float, int, Host, Any]] = []
        self._sequence = 0
        self._agenda = Host(Peer(Id(0), ""), NOBODY)
        self._agenda.end()

    def node_random(self, name: str) -> Random:
        """A random source for one node, the same for the same seed and name."""
        return Random(f"overlaymq node {self.seed} {name}")

    def local_time(self, host: Host) -> float:
        """What a node's own clock shows now."""
        if self.faults is None or not self.faults.clocks:
            return self.now
        clock = self.faults.clocks.get(host.peer.address)
        return self.now if clock is None else clock.read(self.now)

    # --- the script of a run -----------------------------------------------------------------------

    def add_node(self, peer: Peer, node: Driven) -> Host:
        """Place a node at its address; whoever was there before has crashed."""
        before = self.hosts.get(peer.address)
        if before is not None:
            before.end()
        host = self.hosts[peer.address] = Host(peer, node)
        return host

    def start(self, peer: Peer, input: Input) -> None:
        """Hand a node an input now: its ``Join``, or any other command."""
        self.feed(self.hosts[peer.address], input)

    def crash(self, peer: Peer) -> None:
        """Silently: nobody is told."""
        self.hosts[peer.address].end()

    def schedule(self, delay: float, host: Host, input: Any) -> None:
        """Hand a node an input later."""
        self._sequence += 1
        heappush(self._heap, (self.now + delay, self._sequence, host, input))

    def at(self, time: float, function: Callable[[], None]) -> None:
        """Call a function at a virtual time, or at once if that has passed; it may call ``at`` again."""
        self._sequence += 1
        heappush(self._heap, (max(time, self.now), self._sequence, self._agenda, function))

    def feed(self, host: Host, input: Any) -> None:
        """Hand a node an input and perform what it asks for."""
        if host.alive:
            if self.on_input is not None:
                self.on_input(self.now, host, input)
            self.perform(host, host.node.handle(input, self.local_time(host)))

    # --- the loop ----------------------------------------------------------------------------------

    def run_until(self, time: float) -> None:
        """Run every event up to a time, and let it be that time."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            self._step()
        self.now = max(self.now, time)

    def run_while(self, condition: Callable[[], bool], limit: float = inf) -> bool:
        """Run while a condition holds, at most to a time; whether it ceased to hold."""
        heap = self._heap
        while condition():
            if not heap or heap[0][0] > limit:
                return False
            self._step()
        return True

    def _step(self) -> None:
        self.now, _, host, input = heappop(self._heap)
        if not host.alive:
            if host is self._agenda:
                input()
            return
        now = self.now
        if self.faults is not None:
            if type(input) is Waited:
                input = input.input
            elif self._must_wait(host, input):
                return
            now = self.local_time(host)
        if self.on_input is not None:
            self.on_input(self.now, host, input)
        effects = host.node.handle(input, now)
        if not effects and type(input) is TimerFired:
            self.stale_timers += 1
            return
        self.events += 1
        self.perform(host, effects)

    def _must_wait(self, host: Host, input: Any) -> bool:
        assert self.faults is not None
        seconds = self.faults.slowness.get(host.peer.address)
        if seconds is None:
            return False
        if seconds == 0.0 and host.busy_until < self.now:
            return False
        done = max(self.now, host.busy_until) + seconds
        host.busy_until = done
        self._sequence += 1
        heappush(self._heap, (done, self._sequence, host, Waited(input)))
        return True

    # --- effects -----------------------------------------------------------------------------------

    def perform(self, host: Host, effects: Iterable[Any]) -> None:
        """Perform a node's effects, in order."""
        for effect in effects:
            if self.on_effect is not None:
                self.on_effect(self.now, host, effect)
            kind = type(effect)
            if kind is Send:
                self._send(host, effect.peer, effect.message)
            elif kind is SetTimer:
                self._set_timer(host, effect)
            elif kind is Probe:
                self._probe(host, effect.peer)
            elif kind is Notify:
                if self.on_notify is not None:
                    self.on_notify(host, effect.event)
            elif kind is Deliver:
                if self.on_deliver is not None:
                    self.on_deliver(host, effect.batch)
            else:
                raise TypeError(f"a driver cannot perform {effect!r}")

    def _send(self, host: Host, peer: Peer, message: Message) -> None:
        self.messages += 1
        address = peer.address
        there = self.hosts.get(address)
        fate: Fate = "passed"
        if there is None or not there.alive or there.peer.id != peer.id:
            fate = "nobody"
            self._refuse(host, peer)
        elif self.faults is None:
            delay = self.network.delay(host.peer.address, address)
            self._sequence += 1
            received = Received(host.peer, message)
            heappush(self._heap, (self.now + delay, self._sequence, there, received))
        else:
            fate, extras = self.faults.fate(host.peer.address, address, self.random)
            for extra in extras:
                delay = self.network.delay(host.peer.address, address) + extra
                self.schedule(delay, there, Received(host.peer, message))
        if self.on_send is not None:
            self.on_send(self.now, host, peer, message, fate)

    def _refuse(self, host: Host, peer: Peer) -> None:
        if self.faults is not None and self.faults.link_break is not None:
            self.schedule(self.faults.link_break, host, PeerFailed(peer, "unreachable", True))

    def _set_timer(self, host: Host, effect: SetTimer) -> None:
        delay = effect.delay
        if self.faults is not None and host.peer.address in self.faults.clocks:
            delay /= self.faults.clocks[host.peer.address].rate
        if self.now + delay > self.horizon:
            return
        self._sequence += 1
        heappush(self._heap, (self.now + delay, self._sequence, host, TimerFired(effect.timer)))

    def _probe(self, host: Host, peer: Peer) -> None:
        source, target = host.peer.address, peer.address
        there = self.hosts.get(target)
        if there is None or not there.alive or there.peer.id != peer.id:
            self._refuse(host, peer)
            return
        network, faults = self.network, self.faults
        round_trip = network.delay(source, target) + network.delay(target, source)
        measured = round_trip
        if faults is not None:
            for one, other in ((source, target), (target, source)):
                _, extras = faults.fate(one, other, self.random)
                if not extras:
                    return
                round_trip += min(extras)
            clock = faults.clocks.get(source)
            measured = round_trip if clock is None else round_trip * clock.rate
        self.schedule(round_trip, host, Measured(peer, measured))
