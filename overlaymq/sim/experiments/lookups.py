"""Lookups by the protocol itself, and what is asked of them: hops, delay, stretch, and where routes meet.

Every lookup is a message through the engine, from a random node to a random key, as in the papers. What it
took is the virtual time until its delivery: without faults, the sum of the delays of its hops.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from overlaymq.ids import BITS, Id
from overlaymq.messages import LookupRequest, Peer, Routed
from overlaymq.sim.experiments.base import no_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.messages import Message
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.faults import Fate
    from overlaymq.sim.network import NetworkModel
    from overlaymq.sim.ring import PastryOnly, Ring

PER_SECOND = 10_000
"""Lookups a virtual second; only the number of messages under way depends on it."""
ANSWER_SECONDS = 60.0
REPORT_EVERY = 1000


class Lookup(msgspec.Struct, frozen=True, gc=False):
    """One lookup and what became of it."""

    source: Peer
    target: Peer
    hops: int
    seconds: float


def random_lookups(ring: Ring, count: int, progress: Progress = no_progress) -> list[Lookup]:
    """Random keys from random nodes."""
    nodes = list(ring.nodes.values())
    random = ring.random
    return lookups_of(
        ring,
        [(nodes[random.randrange(len(nodes))], Id(random.getrandbits(BITS))) for _ in range(count)],
        progress,
    )


def lookups_of(
    ring: Ring, wanted: Sequence[tuple[PastryOnly, Id]], progress: Progress = no_progress
) -> list[Lookup]:
    """These keys from these nodes; an error if one is not delivered exactly once."""
    simulation = ring.simulation
    asked: list[tuple[int, Peer, float]] = []
    for number, (start, key) in enumerate(wanted):
        asked.append((ring.look_up(key, start), start.pastry.me, simulation.now))
        simulation.run_until(simulation.now + 1 / PER_SECOND)
        if number % REPORT_EVERY == 0:
            progress("looking up", number, len(wanted))
    simulation.run_until(simulation.now + ANSWER_SECONDS)
    done = []
    for request, source, sent_at in asked:
        (delivery,) = ring.deliveries.pop(request)
        done.append(Lookup(source, delivery.at, delivery.hops, delivery.when - sent_at))
    return done


class Stretch(msgspec.Struct, frozen=True):
    """How much longer than the direct way routes are, in two ways."""

    of_means: float
    """Mean route delay over mean direct delay."""
    mean: float
    """The mean over lookups of route delay over direct delay."""
    ratios: list[float]


def stretch(network: NetworkModel, lookups: Sequence[Lookup]) -> Stretch:
    """Of the lookups that went anywhere."""
    routed = direct = 0.0
    ratios = []
    for lookup in lookups:
        if lookup.hops:
            straight = network.delay(lookup.source.address, lookup.target.address)
            routed += lookup.seconds
            direct += straight
            ratios.append(lookup.seconds / straight)
    return Stretch(routed / direct, sum(ratios) / len(ratios), ratios)


class Routes:
    """Watches a simulation and keeps the nodes that each lookup passes."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._passed: dict[int, list[Peer]] = {}
        ring.simulation.on_send = self._on_send

    def pop(self, request: int) -> list[Peer]:
        """From the source on; empty if the source is the owner. Forgotten by this."""
        return self._passed.pop(request, [])

    def _on_send(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        if isinstance(message, Routed) and isinstance(message.body, LookupRequest):
            self._passed.setdefault(message.body.request, [host.peer]).append(peer)


def first_shared(one: Sequence[Peer], other: Sequence[Peer]) -> Peer:
    """Where two routes to one key meet."""
    shared = {peer.id for peer in other}
    return next(peer for peer in one if peer.id in shared)


def delay_to(network: NetworkModel, route: Sequence[Peer], last: Peer) -> float:
    """The delay along a route up to one of its nodes."""
    total = 0.0
    for here, there in pairwise(route):
        if here.id == last.id:
            break
        total += network.delay(here.address, there.address)
    return total


def delay_past(network: NetworkModel, route: Sequence[Peer], length: float) -> float:
    """The delay along a route up to the end of its first hop of at least this length, or of the route."""
    total = 0.0
    for here, there in pairwise(route):
        hop = network.delay(here.address, there.address)
        total += hop
        if hop >= length:
            break
    return total
