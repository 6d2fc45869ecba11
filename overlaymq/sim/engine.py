"""The virtual-time driver: an event heap that performs the effects of any number of nodes.

Events are ordered by (time, sequence), so simultaneous ones happen in the order they were caused and a
seed fixes the whole run. Messages pass by reference, nothing recurses, and no clock is read: a
simulated minute takes as long as its events do.

A node is anything with ``handle(input, now) -> effects``. A crash is silent: timers and messages of a
crashed node vanish, unless the network model says that links break loudly. Sending to a node that was
started again reaches the new one only if it was sent after the start, as a new connection would be.
"""

from __future__ import annotations

from heapq import heappop, heappush
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from overlaymq.events import Event, Input
    from overlaymq.messages import Batch, Peer
    from overlaymq.sim.network import NetworkModel


class Driven(Protocol):
    """What the engine drives."""

    def handle(self, input: Any, now: float) -> Iterable[Any]:
        """Take one input, yield effects."""


class Host:
    """One life of a node: a restart makes a new one."""

    __slots__ = ("alive", "node", "peer")

    def __init__(self, peer: Peer, node: Driven) -> None:
        self.peer = peer
        self.node = node
        self.alive = True


class Simulation:
    """Set ``on_deliver``, ``on_notify`` or ``on_effect`` to watch. Hosts are found by address."""

    __slots__ = (
        "_heap",
        "_sequence",
        "events",
        "hosts",
        "messages",
        "network",
        "now",
        "on_deliver",
        "on_effect",
        "on_notify",
        "random",
        "seed",
    )

    def __init__(self, seed: int, network: NetworkModel) -> None:
        self.seed = seed
        self.network = network
        self.random = Random(f"overlaymq network {seed}")
        self.now = 0.0
        self.events = 0
        self.messages = 0
        self.hosts: dict[str, Host] = {}
        self.on_deliver: Callable[[Host, Batch], None] | None = None
        self.on_notify: Callable[[Host, Event], None] | None = None
        self.on_effect: Callable[[float, Host, Any], None] | None = None
        self._heap: list[tuple[float, int, Host, Any]] = []
        self._sequence = 0

    def node_random(self, name: str) -> Random:
        """A random source for one node, the same for the same seed and name."""
        return Random(f"overlaymq node {self.seed} {name}")

    def add_node(self, peer: Peer, node: Driven) -> Host:
        """Place a node at its address; whoever was there before has crashed."""
        before = self.hosts.get(peer.address)
        if before is not None:
            before.alive = False
        host = self.hosts[peer.address] = Host(peer, node)
        return host

    def start(self, peer: Peer, input: Input) -> None:
        """Hand a node an input now: its ``Join``, or any other command."""
        self.feed(self.hosts[peer.address], input)

    def crash(self, peer: Peer) -> None:
        """Silently: nobody is told."""
        self.hosts[peer.address].alive = False

    def schedule(self, delay: float, host: Host, input: Any) -> None:
        """Hand a node an input later."""
        self._sequence += 1
        heappush(self._heap, (self.now + delay, self._sequence, host, input))

    def feed(self, host: Host, input: Any) -> None:
        """Hand a node an input and perform what it asks for."""
        if host.alive:
            self.perform(host, host.node.handle(input, self.now))

    def run_until(self, time: float) -> None:
        """Run every event up to a time, and let it be that time."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            self._step()
        self.now = max(self.now, time)

    def run_while(self, condition: Callable[[], bool], limit: float = float("inf")) -> bool:
        """Run while a condition holds, at most to a time; whether it ceased to hold."""
        heap = self._heap
        while condition():
            if not heap or heap[0][0] > limit:
                return False
            self._step()
        return True

    def _step(self) -> None:
        self.now, _, host, input = heappop(self._heap)
        if host.alive:
            self.events += 1
            self.perform(host, host.node.handle(input, self.now))

    def perform(self, host: Host, effects: Iterable[Any]) -> None:
        """Perform a node's effects, in order."""
        for effect in effects:
            if self.on_effect is not None:
                self.on_effect(self.now, host, effect)
            kind = type(effect)
            if kind is Send:
                self._send(host, effect)
            elif kind is SetTimer:
                self.schedule(effect.delay, host, TimerFired(effect.timer))
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

    def _send(self, host: Host, effect: Send) -> None:
        self.messages += 1
        source, target = host.peer.address, effect.peer.address
        there = self._reach(host, effect.peer)
        if there is not None:
            delay = self.network.delay(source, target)
            self._sequence += 1
            heappush(
                self._heap,
                (self.now + delay, self._sequence, there, Received(host.peer, effect.message)),
            )

    def _probe(self, host: Host, peer: Peer) -> None:
        if self._reach(host, peer) is not None:
            network, source, target = self.network, host.peer.address, peer.address
            round_trip = network.delay(source, target) + network.delay(target, source)
            self.schedule(round_trip, host, Measured(peer, round_trip))

    def _reach(self, host: Host, peer: Peer) -> Host | None:
        there = self.hosts.get(peer.address)
        if there is None or not there.alive or there.peer.id != peer.id:
            if self.network.link_break is not None:
                self.schedule(self.network.link_break, host, PeerFailed(peer, "unreachable"))
            return None
        if self.network.lost(host.peer.address, peer.address, self.random):
            return None
        return there
