"""Every tracer keeps the contract, and the suite finds those that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.testing import ListTracer, check_tracer
from overlaymq.trace import schema
from overlaymq.trace.conformance import CHECKS, NODE

if TYPE_CHECKING:
    from overlaymq.trace.conformance import Check
    from overlaymq.trace.schema import Row

    from .conftest import Desk


class Lists:
    def __init__(self, kind: type[ListTracer] = ListTracer, **settings: Any) -> None:
        self.kind = kind
        self.settings = settings
        self.last = ListTracer()

    def make(self, **settings: Any) -> ListTracer:
        self.last = self.kind(**settings, **self.settings)
        return self.last

    def read(self) -> list[Row]:
        return self.last.rows


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_list_keeps_the_contract(check: Check) -> None:
    lists = Lists()
    check(lists.make, lists.read)


def test_a_short_list_keeps_the_contract() -> None:
    """What does not fit is counted and told."""
    lists = Lists(limit=3)
    tracer = lists.make()
    for _ in range(5):
        tracer.note(NODE, schema.FAULT)
    tracer.close()
    assert tracer.tally.lost == 2
    assert [row.msg_count for row in tracer.rows if row.event == schema.TRACE_LOSS] == [2]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_files_keep_the_contract(check: Check, desk: Desk) -> None:
    check(desk.make, desk.read)


class Forgetful(ListTracer):
    """Loses every third event and says nothing."""

    def _add(self, *values: object) -> None:
        super()._add(*values)
        if self._recorded % 3 == 0:
            self.rows.pop()


class Fickle(ListTracer):
    """Draws its sample anew at each node."""

    def messages(self, node: Any, event: str, batch: Any, *facts: Any, **more: Any) -> None:
        self._below = None
        if self.sample == 1.0 or (batch.first + node.incarnation) % 4 == 0:
            super().messages(node, event, batch, *facts, **more)


class Brittle(ListTracer):
    """Raises at what it does not like."""

    def _add(self, *values: object) -> None:
        if any(isinstance(value, int) and value.bit_length() > 63 for value in values[9:12]):
            raise OverflowError
        super()._add(*values)


@pytest.mark.parametrize("kind", [Forgetful, Fickle, Brittle])
def test_the_suite_finds_what_breaks_the_contract(kind: type[ListTracer]) -> None:
    lists = Lists(kind)
    with pytest.raises((AssertionError, OverflowError)):
        check_tracer(lists.make, lists.read)
