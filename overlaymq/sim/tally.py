"""Which seeds of a trial count, and how many failed.

A seed counts only if it was hard enough: at least 64 nodes all the time, at least 20 faults that hit nodes
at work (roots, forwarders, members that pass messages on), and one ring of Pastry's in the end, without which
nothing above it can be judged (design, section 8). A tally tells how often each of that held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NEEDED_NODES = 64
NEEDED_HITS = 20


class Judged(Protocol):
    """What a tally wants to know of a seed."""

    @property
    def fewest(self) -> int:
        """Nodes that were up at any time."""

    @property
    def hits(self) -> int:
        """Faults that hit nodes at work."""

    @property
    def one_ring(self) -> bool:
        """Whether Pastry had one ring in the end."""

    @property
    def violations(self) -> Sequence[str]:
        """What was wrong."""


def counts(outcome: Judged) -> bool:
    """Whether the seed was hard enough."""
    enough = outcome.fewest >= NEEDED_NODES and outcome.hits >= NEEDED_HITS
    return enough and outcome.one_ring


class Tally(msgspec.Struct):
    """How many seeds were hard enough, which condition held how often, and how many failed."""

    seeds: int = 0
    counted: int = 0
    one_ring: int = 0
    enough_nodes: int = 0
    enough_hits: int = 0
    failed: int = 0

    def add(self, outcome: Judged) -> None:
        """One more."""
        self.seeds += 1
        self.counted += counts(outcome)
        self.one_ring += outcome.one_ring
        self.enough_nodes += outcome.fewest >= NEEDED_NODES
        self.enough_hits += outcome.hits >= NEEDED_HITS
        self.failed += bool(outcome.violations)

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {self.counted} counted (one ring in the end {self.one_ring}, "
            f"{NEEDED_NODES} nodes {self.enough_nodes}, {NEEDED_HITS} faults that hit {self.enough_hits}), "
            f"{self.failed} failed"
        )


def sum_of(tallies: Iterable[Tally]) -> Tally:
    """Of all kinds."""
    rows = [msgspec.structs.astuple(tally) for tally in tallies]
    return Tally(*[sum(column) for column in zip(*rows, strict=True)])
