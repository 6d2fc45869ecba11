"""One suite for every strategy, on the memory transport, over gRPC and in the simulator.

It tries what an application relies on. The strategies' whole contract, with orders of messages that no real
link would give, is `check_strategy` (tests/core/test_strategies.py); this one adds real nodes and real links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from overlaymq import Upcalls
from overlaymq.core.supported import STRATEGIES, TREES
from tests.fields import FIELDS, SIZE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from overlaymq import Tree
    from overlaymq.messages import Batch
    from tests.fields import Field

TRIES = 400
"""Some twenty seconds: a root's lease must run out before another answers for its key."""


def _payloads(who: int, first: int, count: int) -> list[bytes]:
    return [b"%d from %d" % (number, who) for number in range(first, first + count)]


def _of(field: Field, reader: int, who: int) -> list[bytes]:
    return [payload for payload in field.got[reader] if payload.endswith(b"from %d" % who)]


async def _works(field: Field, readers: list[int], writers: list[int], first: int) -> None:
    """What is published from now on reaches every reader once, in each writer's order."""
    for number in range(first, first + 3):
        for who in writers:
            await field.publish(who, b"%d from %d" % (number, who))
    for reader in readers:
        for who in writers:
            wanted = _payloads(who, first, 3)
            await field.until(
                lambda reader=reader, who=who, wanted=wanted: (  # type: ignore[misc]
                    [one for one in _of(field, reader, who) if one in wanted] == wanted
                ),
                f"reader {reader} has {wanted}, got {field.got[reader]}",
            )


async def every_reader_gets_everything_in_order(field: Field) -> None:
    for reader in (0, 2, 4):
        await field.subscribe(reader)
    await field.count(1, 3)
    await _works(field, [0, 2, 4], list(range(SIZE)), 0)
    for reader in (0, 2, 4):
        assert len(field.got[reader]) == 3 * SIZE, "each once"


async def who_stops_gets_nothing_and_may_come_back(field: Field) -> None:
    await field.subscribe(1)
    await field.subscribe(3)
    await _works(field, [1, 3], [2], 0)
    await field.unsubscribe(3)
    await field.count(0, 1)
    await _works(field, [1], [2], 3)
    assert len(field.got[3]) == 3
    await field.subscribe(3)
    await _works(field, [1, 3], [2], 6)
    assert len(field.got[3]) == 3, "the time between is not made up for"


async def a_late_reader_gets_the_last_messages(field: Field) -> None:
    await field.subscribe(0)
    await _works(field, [0], [1], 0)
    await field.subscribe(2, last=2)
    await field.until(lambda: len(field.got[2]) >= 2, "the history has come")
    await _works(field, [0, 2], [1], 3)
    assert field.got[2] == _payloads(1, 1, 5)


async def what_an_upcall_stops_reaches_nobody_and_is_no_secret(field: Field) -> None:
    def on_forward(batch: Batch, tree: Tree) -> Batch | None:
        return None if b"secret" in batch.body else batch

    await field.subscribe(1)
    await field.subscribe(3)
    field.install(Upcalls(on_forward))
    await _works(field, [1, 3], [2], 0)
    await field.publish(2, b"secret")
    await field.pause()
    await _works(field, [1, 3], [2], 3)
    for reader in (1, 3):
        assert field.got[reader] == _payloads(2, 0, 6)
        gaps = [(gap.origin, gap.first, gap.last) for gap in field.missed[reader]]
        # An ordered topic's root stops it before it has a number: its publisher is told, and nobody else
        # has a number that is missing.
        assert gaps == ([(field.id(2), 3, 3)] if field.reliability == "fifo" else [])


async def survivors_go_on_without_the_root(field: Field) -> None:
    root = field.root()
    others = [number for number in range(SIZE) if number != root]
    for reader in (root, *others[:3]):
        await field.subscribe(reader)
    await _works(field, others[:3], others, 0)
    await field.kill(root)
    for reader in others[:3]:
        await _fed_again(field, reader, others[3])
    await _works(field, others[:3], others, 1000)


async def nothing_is_lost_when_the_root_leaves(field: Field) -> None:
    root = field.root()
    others = [number for number in range(SIZE) if number != root]
    readers, writer = others[:3], others[3]
    for reader in readers:
        await field.subscribe(reader)
    await field.count(writer, 3)
    await _works(field, readers, [writer], 0)
    for number in range(3, 20):
        await field.publish(writer, b"%d from %d" % (number, writer))
        if number == 10:
            await field.leave(root)
    for reader in readers:
        wanted = _payloads(writer, 0, 20)
        await field.until(
            lambda reader=reader, wanted=wanted: field.got[reader] == wanted,  # type: ignore[misc]
            f"reader {reader} has all, in order",
        )


async def _fed_again(field: Field, reader: int, writer: int) -> None:
    """What was under way in the failure may be lost; a message that comes shows that the repair is done."""
    before = len(_of(field, reader, writer))
    for number in range(100, 100 + TRIES):
        await field.publish(writer, b"%d from %d" % (number, writer))
        await field.pause()
        if len(_of(field, reader, writer)) > before:
            return
    raise AssertionError(f"reader {reader} is not fed again")


CHECKS: dict[str, Callable[[Field], Awaitable[None]]] = {
    check.__name__: check
    for check in (
        every_reader_gets_everything_in_order,
        who_stops_gets_nothing_and_may_come_back,
        a_late_reader_gets_the_last_messages,
        what_an_upcall_stops_reaches_nobody_and_is_no_secret,
        survivors_go_on_without_the_root,
    )
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    ("strategy", "reliability"),
    [*[(name, "fifo") for name in STRATEGIES], *[(name, "ordered") for name in TREES]],
)
@pytest.mark.parametrize("where", FIELDS)
async def test_a_strategy_keeps_its_word(
    where: str, strategy: str, reliability: str, check: str
) -> None:
    """Reference: issue 6, bar 5; issue 5, "`ordered` works on SV topics as on Scribe topics"."""
    await _check(CHECKS[check], FIELDS[where](strategy, reliability))


@pytest.mark.parametrize("reliability", ["fifo", "ordered"])
@pytest.mark.parametrize("where", FIELDS)
async def test_a_polite_tree_loses_nothing_when_its_root_leaves(
    where: str, reliability: str
) -> None:
    """Reference: issue 5, "departure"; the root stays until what is on its way to it has come."""
    await _check(nothing_is_lost_when_the_root_leaves, FIELDS[where]("sv", reliability))


async def _check(check: Callable[[Field], Awaitable[None]], field: Field) -> None:
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            await field.start(nursery)
            await check(field)
            nursery.cancel_scope.cancel()
