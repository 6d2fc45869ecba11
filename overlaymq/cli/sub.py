"""`overlaymq sub`: print what is published, who sent it, how many hops it made and how long it took.

Loss is never silent: with ``--events`` each loss is printed as it happens, and without it the sum is
told at the end.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click
import trio

from overlaymq import ids
from overlaymq.cli.opening import create_if_asked, opened
from overlaymq.cli.options import (
    ADMIN_ADDRESS,
    json_option,
    node_options,
    topic_options,
    verbose_option,
)
from overlaymq.cli.output import as_record, counted, described, put, put_json, say, short
from overlaymq.cli.running import Exit, Failure, run
from overlaymq.events import EpochChanged, Lagged, Missed, ParentLost, Repaired
from overlaymq.runtime.subscription import POLICIES, Last

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from overlaymq.cli.options import NodeOptions, TopicOptions
    from overlaymq.events import SubscriptionEvent
    from overlaymq.runtime.node import Node
    from overlaymq.runtime.subscription import Subscription, SubscriptionStatistics


@click.command()
@click.argument("topic")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many messages.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Give up after this time.")
@click.option("--events", "with_events", is_flag=True, help="Print losses and repairs too.")
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Begin with up to N recent messages."
)
@click.option(
    "--buffer", type=click.IntRange(1), metavar="N", help="Hold at most so many messages."
)
@click.option("--when-full", type=click.Choice(POLICIES), default="block", show_default=True)
@topic_options
@node_options
@json_option
@verbose_option
def sub(
    topic: str,
    count: int | None,
    timeout: float | None,
    with_events: bool,
    last: int | None,
    buffer: int | None,
    when_full: str,
    creation: TopicOptions,
    options: NodeOptions,
    as_json: bool,
    verbose: int,
) -> None:
    """Subscribe to TOPIC and print every message.

    With --json each message is one object on one line; with --events other lines have an "event".
    """
    printer = Printer(as_json)

    async def command() -> Exit:
        async with opened(options) as node:
            await create_if_asked(node, topic, creation)
            since = Last(last) if last else None
            async with node.subscribe(
                topic, buffer=buffer, when_full=when_full, since=since
            ) as messages:
                try:
                    await _follow(node, messages, printer, count, timeout, with_events)
                finally:
                    _tell_losses(messages.statistics())
        return Exit.OK

    run(command, verbose=verbose)


class Printer:
    """Prints messages and events, for people or as JSON lines."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def ready(self, node: Node, topic: str, with_events: bool) -> None:
        """The subscription is connected."""
        if self._as_json and with_events:
            facts = {"id": node.id, "address": node.address, "admin": node.admin_address}
            put_json({"event": "Ready", "topic": topic, **facts})
        usual = node.admin_address in ("", ADMIN_ADDRESS)
        where = node.address if usual else f"{node.address}, status on {node.admin_address}"
        say(f"subscribed to {topic!r} as {short(node.id)} on {where}; Ctrl-C ends")

    def message(self, message: Any) -> None:
        """Something was published."""
        if self._as_json:
            put_json(as_record(message))
        else:
            put(described(message))

    def event(self, event: SubscriptionEvent) -> None:
        """Something happened to the subscription."""
        text, facts = _told(event)
        if self._as_json:
            put_json({"event": type(event).__name__, **facts})
        else:
            put(f"! {text}")


def _told(event: SubscriptionEvent) -> tuple[str, dict[str, Any]]:
    """An event in words, and as plain values."""
    if isinstance(event, Missed):
        origin = ids.text(event.origin)
        text = f"missed #{event.first} to #{event.last} of {short(origin)}: they will not arrive"
        return text, {"origin": origin, "first": event.first, "last": event.last}
    if isinstance(event, EpochChanged):
        old, new = event.old, event.new
        text = (
            f"another root numbers now: epoch {new.counter}; of epoch {old.counter}, what came after "
            f"#{event.last_known} may not arrive"
        )
        return text, {"old": old.counter, "last_known": event.last_known, "new": new.counter}
    if isinstance(event, Lagged):
        lost = counted(event.dropped, "message")
        return f"too slow: {lost} dropped", {"dropped": event.dropped}
    if isinstance(event, ParentLost | Repaired):
        peer = ids.text(event.peer.id)
        gone = isinstance(event, ParentLost)
        text = "lost; looking for another way" if gone else "feeds this subscription now"
        return f"node {short(peer)} {text}", {"peer": peer, "address": event.peer.address}
    return "connected", {}


async def _follow(
    node: Node,
    messages: Subscription,
    printer: Printer,
    count: int | None,
    timeout: float | None,
    with_events: bool,
) -> None:
    with trio.move_on_after(timeout if timeout is not None else float("inf")) as patience:
        await messages.wait_ready()
        printer.ready(node, messages.topic, with_events)
        async with _beside(messages, printer, with_events):
            await _print_messages(messages, printer, count)
    if patience.cancelled_caught and count is not None:
        taken = messages.statistics().taken
        raise Failure(f"{taken} of {count} messages came within {timeout:g} s", Exit.TIMED_OUT)


async def _print_messages(messages: Subscription, printer: Printer, count: int | None) -> None:
    left = count
    async for message in messages:
        printer.message(message)
        if left is not None:
            left -= 1
            if not left:
                return


@asynccontextmanager
async def _beside(
    messages: Subscription, printer: Printer, with_events: bool
) -> AsyncIterator[None]:
    """While the body runs: print events, and notice when nobody reads our output any more."""
    async with trio.open_nursery() as nursery:
        if with_events:
            nursery.start_soon(_print_events, messages, printer)
        if stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
            nursery.start_soon(_end_with_reader, sys.stdout.fileno())
        yield
        nursery.cancel_scope.cancel()


async def _print_events(messages: Subscription, printer: Printer) -> None:
    async for event in messages.events():
        printer.event(event)


async def _end_with_reader(pipe: int) -> None:
    # The writing end of a pipe becomes "readable" only when its reader is gone.
    await trio.lowlevel.wait_readable(pipe)
    raise BrokenPipeError


def _tell_losses(seen: SubscriptionStatistics) -> None:
    lost = seen.dropped + seen.skipped_upstream + seen.missed
    if lost > 0:
        say(
            f"{counted(lost, 'message')} did not arrive: {seen.dropped} dropped here, "
            f"{seen.skipped_upstream} skipped on the way, {seen.missed} missed"
        )
