"""Making a failing plan smaller: greedy delta debugging, as long as the same invariant breaks.

A plan is smaller with fewer actions, fewer nodes, fewer kinds of faults, or an earlier end. Each step tries
such a plan and keeps it if a run of it still breaks the invariant that the first finding of the original was
about. Lists (actions, nodes) lose halves first, then ever smaller parts (Zeller and Hildebrandt's ddmin,
without its complements: taking away is enough here). What it ends with is small, not minimal: chance inside a
run depends on everything before it, so a plan without an unimportant action may fail by other luck, or not.

The stated times (``quiet``, ``merge``) are never made shorter: without time to repair it, anything fails.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from overlaymq.sim import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from overlaymq.sim.outcome import Result
    from overlaymq.sim.scenario import Plan

CALM: tuple[dict[str, Any], ...] = (
    {"loss": 0.0},
    {"duplication": 0.0},
    {"reordering": 0.0},
    {"jitter": 0.0},
    {"link_break": None},
    {"hot_share": 0.0},
    {"model": "constant", "delay": 0.02},
)
"""The kinds of faults that may turn out to be beside the point."""
MARGIN = 0.001


class Shrinker:
    """``smaller`` is the smallest failing plan so far; ``tried`` counts runs."""

    def __init__(
        self,
        plan: Plan,
        invariant: str,
        seconds: float = 120.0,
        run: Callable[[Plan], Result] = workload.run,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.smaller = plan
        self.invariant = invariant
        self.tried = 0
        self._deadline = time.monotonic() + seconds
        self._run = run
        self._tell = tell

    def shrink(self) -> Plan:
        """Try everything until nothing helps, or time is up."""
        before = None
        while before != self.smaller and not self._late():
            before = self.smaller
            self._only_this_invariant()
            self._end_earlier()
            self._fewer_actions()
            self._fewer_nodes()
            self._fewer_kinds()
        return self.smaller

    def _late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _keep(self, plan: Plan) -> bool:
        """Whether this plan fails, too, and is the smallest now."""
        if plan == self.smaller or self._late():
            return False
        self.tried += 1
        result = self._run(plan)
        if all(finding.invariant != self.invariant for finding in result.violations):
            return False
        self.smaller = plan
        nodes = plan.nodes - len(plan.absent)
        self._tell(f"{nodes} nodes, {len(plan.actions)} actions, {plan.seconds:.0f} s")
        return True

    def _only_this_invariant(self) -> None:
        if self.invariant in self.smaller.invariants:
            self._keep(replace(self.smaller, invariants=(self.invariant,)))

    def _end_earlier(self) -> None:
        """End right after the first violation; a finding of the end stays where it is."""
        self.tried += 1
        times = [
            finding.at
            for finding in self._run(self.smaller).violations
            if finding.invariant == self.invariant
        ]
        if times and times[0] + MARGIN < self.smaller.seconds:
            self._keep(self._ending(times[0] + MARGIN))
        if self.smaller.actions:
            self._keep(self._ending(max(action.at for action in self.smaller.actions) + MARGIN))

    def _ending(self, seconds: float) -> Plan:
        plan = self.smaller
        actions = tuple(action for action in plan.actions if action.at <= seconds)
        return replace(plan, seconds=min(seconds, plan.seconds), actions=actions)

    def _fewer_actions(self) -> None:
        def without(some: Sequence[Any]) -> Plan:
            gone = {id(action) for action in some}
            kept = tuple(a for a in self.smaller.actions if id(a) not in gone)
            return replace(self.smaller, actions=kept)

        self._lose_parts(lambda: self.smaller.actions, without)

    def _fewer_nodes(self) -> None:
        def present() -> list[int]:
            absent = frozenset(self.smaller.absent)
            return [number for number in range(self.smaller.nodes) if number not in absent]

        def without(some: Sequence[int]) -> Plan:
            return replace(self.smaller, absent=tuple(sorted({*self.smaller.absent, *some})))

        self._lose_parts(present, without)

    def _lose_parts(
        self, items: Callable[[], Sequence[Any]], without: Callable[[Sequence[Any]], Plan]
    ) -> None:
        size = len(items()) // 2
        while size and not self._late():
            for part in _parts(items(), size):
                self._keep(without(part))
            size //= 2

    def _fewer_kinds(self) -> None:
        for change in CALM:
            self._keep(replace(self.smaller, **change))


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    # From the end: later actions depend on earlier ones, not the other way round.
    for start in range(len(items) - size, -1, -size):
        yield items[start : start + size]
