"""The nodes of a run, with eyes, and who has which lookup.

A ``WatchedNode`` is the ring's own node; it tells the run what input it took and what came of it.

Custody of a lookup is with every node that has accepted it and has not heard that a next hop did. It follows
from acknowledgements alone, so it knows nothing of why a node handed a lookup on, and a node that forgets one
without counting it shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.events import TimerFired
from overlaymq.ids import Id, short
from overlaymq.messages import LookupRequest
from overlaymq.sim.ring import PastryOnly

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.pastry.overlay import PastryInput
    from overlaymq.messages import Peer, Routed
    from overlaymq.sim.workload import Trial

WORKING_SECONDS = 5.0
"""How recently a working node has worked: a guess, some lookups' lives."""

ROUTED_DROPS = frozenset(
    {
        "pastry: held too long",
        "pastry: rerouted too often",
        "pastry: too many messages held",
        "pastry: too many messages unacknowledged",
        "pastry: too many hops",
        "pastry: this node has left",
    }
)
"""Reasons under which a lookup may be dropped."""


class WatchedNode(PastryOnly):
    """A node of the ring that the run looks into."""

    __slots__ = (
        "alive",
        "duplicates",
        "extent",
        "handled_at",
        "latest",
        "number",
        "routed_drops",
        "sent",
        "trial",
        "worked_at",
    )

    def __init__(self, trial: Trial, number: int, me: Peer) -> None:
        super().__init__(trial.ring, me)
        self.trial = trial
        self.number = number
        self.alive = True
        self.duplicates = 0
        self.extent = (-1, -1)
        self.handled_at = 0.0
        self.worked_at = -WORKING_SECONDS
        self.routed_drops = 0
        self.sent: dict[int, int] = {}
        """Serial of an unacknowledged hop -> lookup."""
        self.latest: dict[int, int] = {}
        """Lookup -> its latest serial here."""

    @property
    def label(self) -> str:
        """For people: number, incarnation, and the first digits of the id."""
        me = self.pastry.me
        return f"node {self.number}.{me.incarnation} ({short(me.id)})"

    @property
    def working(self) -> bool:
        """Whether it is a root or forwarder at work."""
        recently = self.trial.now - self.worked_at <= WORKING_SECONDS
        return self.alive and self.pastry.active and recently

    def clock(self) -> float:
        """What this node's own clock shows now."""
        clock = self.trial.faults.clocks.get(self.pastry.me.address)
        rate = 1.0 if clock is None else clock.rate
        return self.pastry.state.now + (self.trial.now - self.handled_at) * rate

    def handle(self, input: PastryInput, now: float) -> Effects:
        """Pass it on, and look at what has changed."""
        trial = self.trial
        trial.current = input
        self.handled_at = trial.now
        probed = self._probed(input)
        effects = self.pastry.handle(input, now)
        trial.after(self, input, effects)
        if probed is not None:
            trial.probe_ended(self, probed, effects)
        return effects

    def _probed(self, input: PastryInput) -> Peer | None:
        if type(input) is not TimerFired or input.timer.part != "pastry.probe":
            return None
        probing = self.pastry.state.liveness._probing.get(Id(input.timer.subject))
        return None if probing is None else probing.peer

    def forward(
        self, routed: Routed, next_hop: Peer, now: float
    ) -> tuple[Routed, Peer | None, Effects]:
        """Let everything pass, and note it."""
        self.worked_at = self.trial.now
        self.trial.hops_due = True
        return routed, next_hop, []

    def deliver(self, routed: Routed, now: float) -> Effects:
        """A lookup ends here."""
        self.worked_at = self.trial.now
        if isinstance(routed.body, LookupRequest):
            self.trial.delivered(self, routed.body.request, routed)
        return []


class Custody:
    """Who has which lookup: whoever accepted it and has no acknowledgement from a next hop."""

    def __init__(self) -> None:
        self.holders: dict[int, dict[WatchedNode, None]] = {}

    def accepted(self, node: WatchedNode, request: int) -> None:
        """A node has it now."""
        holders = self.holders.get(request)
        if holders is not None:
            holders[node] = None

    def sent(self, node: WatchedNode, routed: Routed) -> None:
        """A node hands it on; it keeps it until the acknowledgement."""
        if isinstance(routed.body, LookupRequest):
            node.sent[routed.serial] = routed.body.request
            node.latest[routed.body.request] = routed.serial

    def acknowledged(self, node: WatchedNode, serial: int) -> None:
        """The next hop has it; an answer to an earlier try than the latest changes nothing."""
        request = node.sent.pop(serial, None)
        if request is not None and node.latest.get(request) == serial:
            del node.latest[request]
            self.holders.get(request, {}).pop(node, None)

    def delivered(self, request: int) -> None:
        """No more to follow."""
        self.holders.pop(request, None)

    def account(self, trial: Trial) -> list[tuple[WatchedNode, list[int]]]:
        """Tell the run why lookups were not answered; the ones nobody counted, by node."""
        silent: dict[WatchedNode, list[int]] = {}
        budgets: dict[WatchedNode, int] = {}
        for request, holders in sorted(self.holders.items()):
            if any(not node.alive for node in holders):
                trial.unanswered("with a node that went")
            elif any(request in carried(node) for node in holders):
                trial.unanswered("still on its way")
            elif not self._counted(holders, budgets):
                trial.unanswered("lost silently")
                last = next(reversed(holders), trial.starts[request])
                silent.setdefault(last, []).append(request)
            else:
                trial.unanswered("dropped and counted")
        return list(silent.items())

    def _counted(self, holders: dict[WatchedNode, None], budgets: dict[WatchedNode, int]) -> bool:
        for node in holders:
            left = budgets.get(node, node.routed_drops)
            if left > 0:
                budgets[node] = left - 1
                return True
        return False


def carried(node: WatchedNode) -> set[int]:
    """The lookups a node holds or waits to hear about."""
    forwarding = node.pastry.state.forwarding
    routed = [held for held, _ in forwarding._held]
    routed += [pending.routed for pending in forwarding._pending.values()]
    return {r.body.request for r in routed if isinstance(r.body, LookupRequest)}
