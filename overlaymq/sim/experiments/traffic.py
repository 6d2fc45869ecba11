"""Counting what nodes send to each other, by what it is for.

A *call* is a question and its answer, as the papers count remote procedure calls: the answer is not
counted again. A question that nobody answers is a call too, and so is each of its repetitions. Messages
that ask for nothing (a patched row, a distance told) count as one call each.

Three kinds of traffic are told apart, each a tuple of names below:

- ``EXCHANGES``: the calls by which a node that lost somebody finds a replacement: leaf probes that reach
  somebody, questions for a slot, for a row, for parts of a state, rows offered to patch a hole;
- ``VERIFICATION`` and ``MEASUREMENT``: leaf probes that find nobody, and pings for a distance. Pastry's own
  experiment (Middleware 2001) has neither: a call to a dead node fails at once there, and distances come
  from the coordinates of an emulated plane;
- the rest: heartbeats and leases, routed messages and their acknowledgements, arrivals, healing.

Which of these calls a failure has caused cannot be seen on the message. Upkeep sends leaf probes and row
offers, too, at a steady rate, so ``extra`` subtracts what the same ring sent in a window without failures.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from overlaymq.events import Probe
from overlaymq.messages import LeafProbe, LookupRequest, Routed, RowOffer

if TYPE_CHECKING:
    from typing import Any

    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host, Simulation
    from overlaymq.sim.faults import Fate

PROBE_LIVING = "leaf probe"
PROBE_DEAD = "leaf probe that finds nobody"
ROW_SWAP = "row exchange"
ROW_GIVEN = "row given"
MEASURE = "distance ping"
LOOKUP = "lookup"
LOOKUP_AGAIN = "lookup to nobody"

EXCHANGES = (PROBE_LIVING, "SlotRequest", "StateRequest", ROW_SWAP, ROW_GIVEN)
VERIFICATION = (PROBE_DEAD,)
MEASUREMENT = (MEASURE, "Distance")


class Traffic:
    """Watches a simulation. ``sent`` counts by kind; messages with a kind of their own are named above,
    all others bear the name of their class."""

    def __init__(self, simulation: Simulation) -> None:
        self.sent: Counter[str] = Counter()
        simulation.on_send = self._on_send
        simulation.on_effect = self._on_effect

    def calls(self) -> Counter[str]:
        """Calls by kind so far: a row given in answer to a row is not counted."""
        counts = Counter(self.sent)
        counts[ROW_GIVEN] -= counts[ROW_SWAP]
        return counts

    def control_messages(self) -> int:
        """Everything but lookups, acknowledgements included; a ping is two messages."""
        lookups = self.sent[LOOKUP] + self.sent[LOOKUP_AGAIN]
        return self.sent.total() + self.sent[MEASURE] - lookups

    def _on_send(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        self.sent[kind(message, fate)] += 1

    def _on_effect(self, now: float, host: Host, effect: Any) -> None:
        if type(effect) is Probe:
            self.sent[MEASURE] += 1


def kind(message: Message, fate: Fate) -> str:
    """What a message counts as."""
    if isinstance(message, LeafProbe):
        return PROBE_DEAD if fate == "nobody" else PROBE_LIVING
    if isinstance(message, RowOffer):
        return ROW_SWAP if message.reply else ROW_GIVEN
    if isinstance(message, Routed):
        if isinstance(message.body, LookupRequest):
            return LOOKUP_AGAIN if fate == "nobody" else LOOKUP
        return f"Routed {type(message.body).__name__}"
    return type(message).__name__


def extra(
    window: Counter[str], seconds: float, quiet: Counter[str], quiet_seconds: float
) -> dict[str, float]:
    """Calls of a window beyond those that as long a quiet window would have had."""
    scale = seconds / quiet_seconds
    kinds = sorted({*window, *quiet})
    return {name: window[name] - scale * quiet[name] for name in kinds}


def total(calls: dict[str, float], kinds: tuple[str, ...]) -> float:
    """The sum over some kinds."""
    return sum(calls.get(name, 0.0) for name in kinds)
