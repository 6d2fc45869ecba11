"""`overlaymq pub`: publish messages, and fail loudly if nobody is there to get them.

What is published before a subscriber is connected is lost, so this waits for one first. It leaves only
when everything has been handed to the links, and asks every receipt: what no link took is no success.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING

import click
import trio

from overlaymq.cli.opening import create_if_asked, opened
from overlaymq.cli.options import json_option, node_options, topic_options, verbose_option
from overlaymq.cli.output import counted, put_json, say, short
from overlaymq.cli.running import Exit, Failure, run
from overlaymq.errors import OverlayError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable

    from overlaymq.cli.options import NodeOptions, TopicOptions
    from overlaymq.runtime.node import Node
    from overlaymq.runtime.publishing import Receipt

READ_SIZE = 64 * 1024
UNASKED = 4096
"""Receipts held before the oldest is asked: a guess, above what waits in one window."""


def _headers(_: click.Context, __: click.Parameter, given: Iterable[str]) -> dict[str, str]:
    headers = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {item!r}")
        if os.fsencode(item).decode(errors="ignore") != item:
            raise click.BadParameter(f"expected UTF-8, got {item!r}")
        headers[key] = value
    return headers


@click.command()
@click.argument("topic")
@click.argument("payloads", metavar="[PAYLOAD]...", nargs=-1)
@click.option(
    "--count", default=1, show_default=True, type=click.IntRange(1), help="Send each so often."
)
@click.option("--header", "headers", metavar="KEY=VALUE", multiple=True, callback=_headers)
@click.option(
    "--wait-subscribers",
    "subscribers",
    metavar="N",
    default=1,
    show_default=True,
    type=click.IntRange(0),
    help="Wait for this many subscribed nodes first; 0 publishes into the void.",
)
@click.option(
    "--timeout",
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each step may take.",
)
@topic_options
@node_options
@json_option
@verbose_option
def pub(
    topic: str,
    payloads: tuple[str, ...],
    count: int,
    headers: dict[str, str],
    subscribers: int,
    timeout: float,
    creation: TopicOptions,
    options: NodeOptions,
    as_json: bool,
    verbose: int,
) -> None:
    """Publish to TOPIC: each PAYLOAD, or each line of standard input if there is none or it is `-`."""

    async def command() -> Exit:
        async with opened(options) as node:
            await create_if_asked(node, topic, creation)
            reached = await _wait_subscribers(node, topic, subscribers, timeout)
            receipts = Receipts()
            async for payload in _read(payloads):
                for _ in range(count):
                    await receipts.add(await node.publish(topic, payload, headers=headers or None))
            await _drain(node, receipts, timeout)
            _report(node, topic, receipts, reached, as_json)
            receipts.check()
        return Exit.OK

    run(command, verbose=verbose)


class Receipts:
    """What became of the messages. Asked in their order, so that few are held at a time."""

    def __init__(self) -> None:
        self.sent = self.failed = 0
        self._unasked: deque[Receipt] = deque()
        self._reason = ""

    async def add(self, receipt: Receipt) -> None:
        """One more; may wait for the oldest."""
        self._unasked.append(receipt)
        if len(self._unasked) > UNASKED:
            await self._ask()

    async def ask_all(self) -> None:
        """Wait until nothing is open."""
        while self._unasked:
            await self._ask()

    async def _ask(self) -> None:
        try:
            await self._unasked[0].wait("sent")
            self.sent += 1
        except OverlayError as error:
            self.failed += 1
            self._reason = self._reason or str(error)
        self._unasked.popleft()

    def check(self) -> None:
        """Raise if something was dropped."""
        if self.failed:
            raise Failure(
                f"{counted(self.failed, 'message')} did not leave this node: {self._reason}",
                Exit.FAILED,
            )


async def _wait_subscribers(node: Node, topic: str, wanted: int, timeout: float) -> int | None:
    if not wanted:
        return None
    with trio.move_on_after(timeout):
        return await node.wait_subscribers(topic, wanted)
    who = "nobody subscribes" if wanted == 1 else f"fewer than {wanted} nodes subscribe"
    raise Failure(
        f"{who} to {topic!r} after {timeout:g} s; nothing was published. Start `overlaymq sub {topic}`, "
        "wait longer with --timeout, or publish all the same with --wait-subscribers 0",
        Exit.FAILED,
    )


async def _drain(node: Node, receipts: Receipts, timeout: float) -> None:
    """Wait until nothing is left here that a slow subscriber could still get."""
    with trio.move_on_after(timeout):
        await receipts.ask_all()
        if await node.drain(timeout):
            return
    raise Failure(f"not everything could be sent within {timeout:g} s", Exit.TIMED_OUT)


def _report(node: Node, topic: str, receipts: Receipts, reached: int | None, as_json: bool) -> None:
    sent = receipts.sent
    if as_json:
        facts = {
            "topic": topic,
            "published": sent,
            "failed": receipts.failed,
            "subscribers": reached,
        }
        put_json({**facts, "id": node.id, "address": node.address})
        return
    whom = "" if reached is None else f" to {counted(reached, 'subscribed node')}"
    say(f"published {counted(sent, 'message')} on {topic!r}{whom}, as {short(node.id)}")


async def _read(payloads: tuple[str, ...]) -> AsyncIterator[bytes]:
    for payload in payloads or ("-",):
        if payload == "-":
            async for line in _lines():
                yield line
        else:
            yield payload.encode(errors="surrogateescape")


def _read_block() -> Awaitable[bytes]:
    descriptor = sys.stdin.fileno()
    return trio.to_thread.run_sync(os.read, descriptor, READ_SIZE, abandon_on_cancel=True)


async def _lines() -> AsyncIterator[bytes]:
    """The lines of standard input, as they come. Cancelling leaves the thread to read in vain."""
    if sys.stdin.isatty():
        say("Type messages, one a line; Ctrl-D ends.")
    rest = b""
    while block := await _read_block():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest
