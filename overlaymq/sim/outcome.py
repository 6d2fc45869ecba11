"""What came of one run of a plan, and whether its seed counts (design, section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.sim.invariants import Finding

if TYPE_CHECKING:
    from overlaymq.sim.scenario import Plan

NEEDED_NODES = 64
NEEDED_HITS = 20


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run. ``kind``: a, no live node was declared dead; b, one was; c, partitions."""

    scenario: str
    seed: int
    kind: str
    violations: list[Finding]
    excused: list[Finding]
    lookups: int
    delivered: int
    inconsistent: int
    """Delivered elsewhere than at the closest active live node."""
    contested: int
    """Delivered while yet another node might have answered."""
    redelivered: int
    unanswered: dict[str, int]
    declared: int
    given_up: int
    disagreements: int
    hits: dict[str, int]
    lost_messages: int
    fewest_nodes: int
    nodes: int
    events: int
    messages: int
    most_messages: float
    """Most messages a second and node, in any tick."""
    virtual_seconds: float
    cpu_seconds: float

    @property
    def enough_nodes(self) -> bool:
        """The first precondition of design section 8."""
        return self.fewest_nodes >= NEEDED_NODES

    @property
    def enough_hits(self) -> bool:
        """The second."""
        return sum(self.hits.values()) >= NEEDED_HITS

    @property
    def counted(self) -> bool:
        """Whether this seed counts."""
        return self.enough_nodes and self.enough_hits


def nothing(plan: Plan, violations: list[Finding]) -> Result:
    """The result of a run that did not end."""
    return Result(
        scenario=plan.scenario,
        seed=plan.seed,
        kind="a",
        violations=violations,
        excused=[],
        lookups=0,
        delivered=0,
        inconsistent=0,
        contested=0,
        redelivered=0,
        unanswered={},
        declared=0,
        given_up=0,
        disagreements=0,
        hits={},
        lost_messages=0,
        fewest_nodes=0,
        nodes=plan.nodes,
        events=0,
        messages=0,
        most_messages=0.0,
        virtual_seconds=0.0,
        cpu_seconds=0.0,
    )
