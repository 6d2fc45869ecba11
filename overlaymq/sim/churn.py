"""Churn: nodes that come, stay for a while, and go, without end.

Sessions and the times between them are exponential, as in the Poisson traces of MSPastry's evaluation
(DSN 2004; protocols.md 1.9), and given by their half-lives: the time after which half of the nodes that are
there now have gone. The mean is the half-life over ln 2.

Think of seats. A seat is taken for a session, then empty for a while, then taken again: by the same identity
with a larger incarnation (a restart), or by a new one. With N nodes at the start there are N seats taken
and N * off / session empty. That is the equilibrium of the process, so the population is N on average from
the first second on. Because exponential times have no memory, the nodes that are there at the start need no
past.

A session ends with a silent crash, or for a share of them with a graceful leave. Joining takes time and
sessions end meanwhile too, as they do for real. A node that somebody else has taken away (a scripted crash)
gives its seat up when its session would have ended.

    churn = Churn(ring, session_half_life=600.0)
    churn.start()
    ring.simulation.run_until(3600.0)

Schedules of faults need nothing of their own: ``simulation.at(60.0, faults.heal)``.
"""

from __future__ import annotations

from functools import partial
from math import log
from typing import TYPE_CHECKING

import msgspec

from overlaymq.messages import Peer

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from overlaymq.sim.ring import PastryOnly, Ring

SEEDS = 3
"""How many active nodes an arrival is told of, so that it survives the end of one: a guess."""
PATIENCE = 5.0
"""Seconds until an arrival that found nobody active tries again: a guess."""


def lifetime(random: Random, half_life: float) -> float:
    """An exponential time, half of which are shorter than the half-life."""
    return random.expovariate(log(2) / half_life)


class ChurnCounts(msgspec.Struct):
    """What has happened so far."""

    arrivals: int = 0
    """Nodes that nobody has met before."""
    returns: int = 0
    crashes: int = 0
    leaves: int = 0
    postponed: int = 0
    """Arrivals that found nobody active."""


class Churn:
    """Drives the membership of a ring. Shares and half-lives may be changed while it runs.

    ``off_half_life`` is a guess: long enough for a node to be declared dead before it returns, mostly.
    ``leave_share`` is 0 as in the papers, whose nodes all fail silently; ``return_share`` is a guess.
    """

    __slots__ = (
        "_random",
        "_running",
        "counts",
        "leave_share",
        "off_half_life",
        "return_share",
        "ring",
        "session_half_life",
    )

    def __init__(
        self,
        ring: Ring,
        session_half_life: float,
        off_half_life: float = 60.0,
        *,
        leave_share: float = 0.0,
        return_share: float = 0.5,
    ) -> None:
        self.ring = ring
        self.session_half_life = session_half_life
        self.off_half_life = off_half_life
        self.leave_share = leave_share
        self.return_share = return_share
        self.counts = ChurnCounts()
        self._random = ring.simulation.node_random("churn")
        self._running = False

    def start(self) -> None:
        """Begin, with the nodes that the ring has now. Once."""
        self._running = True
        taken = list(self.ring.nodes.values())
        for node in taken:
            self._begin_session(node)
        for _ in range(round(len(taken) * self.off_half_life / self.session_half_life)):
            self._after(self.off_half_life, partial(self._arrive, None))

    def stop(self) -> None:
        """Let whoever is there stay, for good."""
        self._running = False

    def _after(self, half_life: float, function: Callable[[], None]) -> None:
        simulation = self.ring.simulation
        simulation.at(simulation.now + lifetime(self._random, half_life), function)

    def _begin_session(self, node: PastryOnly) -> None:
        self._after(self.session_half_life, partial(self._end_session, node))

    def _end_session(self, node: PastryOnly) -> None:
        if not self._running:
            return
        me = node.pastry.me
        comes_back = self._random.random() < self.return_share
        if self.ring.nodes.get(me.id) is node:
            if self._random.random() < self.leave_share:
                self.ring.leave(me)
                self.counts.leaves += 1
            else:
                self.ring.crash(me)
                self.counts.crashes += 1
        self._after(self.off_half_life, partial(self._arrive, me if comes_back else None))

    def _arrive(self, before: Peer | None) -> None:
        if not self._running:
            return
        ring, simulation = self.ring, self.ring.simulation
        seeds = ring.random_seeds(SEEDS, self._random)
        if not seeds and ring.nodes:
            self.counts.postponed += 1
            simulation.at(simulation.now + PATIENCE, partial(self._arrive, before))
            return
        if before is not None and before.id not in ring.nodes:
            self.counts.returns += 1
            peer = Peer(before.id, before.address, before.incarnation + 1)
        else:
            self.counts.arrivals += 1
            peer = ring.new_peer(self._random)
        self._begin_session(ring.join(peer, *seeds))
