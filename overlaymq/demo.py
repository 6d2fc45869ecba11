"""`make demo`: what overlaymq does, shown with real processes in about a minute.

Five processes form a ring over gRPC on this machine: this one, which publishes, and four that the command
line starts. Each act prints what it does and what came of it; an act that does not come true ends the
demo with an error. Every process started here is ended here, by its id.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import trio

import overlaymq
from overlaymq import ids
from overlaymq.cli.running import Exit, Failure, run
from overlaymq.demo_stage import SUBSCRIBERS, open_stage
from overlaymq.demo_traces import REPORT, trace_and_analyse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from overlaymq.demo_stage import Member, Stage

SETTINGS = """\
[delivery]
window = 262144            # bytes on the way to one subscriber before it counts as slow

[topics."prices/*"]
strategy = "direct"        # the topic's root sends to each subscriber: nobody waits for another
reliability = "fifo"       # in order per publisher, and gaps are announced

[topics."quotes/*"]
flow = "lossy"             # never wait for a slow subscriber

[topics."orders/*"]
flow = "lossless"          # wait for the slowest

[topics."news/sv"]
strategy = "sv"            # only who wants a topic carries it; without a word, Scribe trees

[topics."news/scamp"]
strategy = "scamp"         # gossip: gets through while nodes fail
"""
PATIENCE = 40.0
SPARK_PATIENCE = 240.0
FLOOD = 2_000
TICKS = 10_000


def title(text: str) -> None:
    """An act begins."""
    print(f"\n== {text}", flush=True)


def tell(text: str) -> None:
    """Something came of it."""
    print(f"   {text}", flush=True)


async def gather(stage: Stage, me: overlaymq.Node) -> None:
    """Act one: a ring."""
    title("Five processes, no broker")
    started = time.perf_counter()
    tell(f"This process runs a node, {me.id[:8]}, and founds an overlay at {me.address}.")
    dora = await stage.start("dora", me.address, "node")
    for name in SUBSCRIBERS:
        await stage.start(name, me.address, "sub", stage.topic, "--events")
    await dora.wait_for(lambda record: record.get("event") == "started")
    for member in stage.subscribers:
        await member.wait_for(lambda record: record.get("event") == "Ready")
    await me.wait_subscribers(stage.topic, len(SUBSCRIBERS))
    took = time.perf_counter() - started
    tell(f"dora joined through that address, and so did ann, bob and cy, in {took:.1f} s.")
    tell("Each proved its id with its key. (Links are not encrypted yet.)")
    owner, _, _ = await me.lookup(ids.text(ids.topic_id(stage.topic)))
    tell(f"ann, bob and cy subscribe to {stage.topic!r}. Its name hashes to a place on the ring,")
    tell(f"and dora ({owner[:8]}) is closest to it: she forwards the topic. (The name was")
    tell("chosen so that it falls to her, because she is the one who will be killed.)")


async def deliver(stage: Stage, me: overlaymq.Node) -> None:
    """Act two: messages arrive."""
    title("Publish, and everybody gets it")
    for text in ("AAPL 191.20", "MSFT 402.15"):
        receipt = await me.publish(stage.topic, text.encode())
        await receipt.wait("sent")
        for member in stage.subscribers:
            record = await member.got(text)
            tell(f"{member.name:4} got {text!r}: {record['hops']} hops, {record['latency_ms']} ms")


async def freeze(stage: Stage, me: overlaymq.Node) -> None:
    """Act three: a slow subscriber is told what it missed."""
    title("A subscriber that stops reading holds nobody up for long, and is told what it missed")
    cy, ann = stage.members["cy"], stage.members["ann"]
    cy.process.send_signal(signal.SIGSTOP)
    started = time.perf_counter()
    for number in range(FLOOD):
        await me.publish(stage.topic, f"tick {number}".ljust(1000).encode())
    await ann.got(f"tick {FLOOD - 1}".ljust(1000))
    took = time.perf_counter() - started
    tell(f"cy's process is frozen while {FLOOD:,} messages of 1 kB are published.")
    tell(
        f"ann had them all after {took:.1f} s: the topic waits 1 s for cy (patient), then goes on."
    )
    cy.process.send_signal(signal.SIGCONT)
    await publish_until_heard(me, stage.topic, "bell", [cy])
    with trio.move_on_after(5):  # the bell may be heard before the news of what was missed
        await cy.wait_for(lambda record: record.get("event") == "Missed")
    got = sum(record.get("payload", "").startswith("tick") for record in cy.records)
    dropped = sum(event["dropped"] for event in cy.told("Lagged"))
    gaps = ", ".join(f"#{event['first']} to #{event['last']}" for event in cy.told("Missed"))
    tell(f"cy wakes up. It got {got:,}, and was told that {dropped:,} were dropped because it was")
    tell("slow (we went on publishing until it heard us, so they can be a few more).")
    tell(f"The topic is fifo, so it was told which, too: {gaps}.")


async def publish_until_heard(
    me: overlaymq.Node, topic: str, word: str, members: list[Member]
) -> int:
    """Publish five times a second until every member has had one; how many were published."""
    published = 0

    async def publish() -> None:
        nonlocal published
        while True:
            published += 1
            await me.publish(topic, f"{word} {published}".encode())
            await trio.sleep(0.2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        for member in members:
            await member.wait_for(lambda record: record.get("payload", "").startswith(word))
        nursery.cancel_scope.cancel()
    return published


async def kill(stage: Stage, me: overlaymq.Node) -> None:
    """Act four: the ring heals."""
    title("Kill the process that forwards the topic")
    dora = stage.members["dora"]
    before = [len(member.told("Missed")) for member in stage.subscribers]
    dora.process.kill()
    await dora.process.wait()
    started = time.perf_counter()
    tell("dora is gone without a goodbye (kill -9). We go on publishing, five times a second.")
    published = await publish_until_heard(me, stage.topic, "after", stage.subscribers)
    took = time.perf_counter() - started
    owner, _, _ = await me.lookup(ids.text(ids.topic_id(stage.topic)))
    tell(f"After {took:.1f} s all three receive again: the ring has closed, and the node that is")
    tell(
        f"closest now ({owner[:8]}) forwards the topic. {published} messages were published meanwhile."
    )
    for member, seen in zip(stage.subscribers, before, strict=True):
        gaps = member.told("Missed")[seen:]
        lost = sum(event["last"] - event["first"] + 1 for event in gaps)
        tell(
            f"{member.name:4} was told that it missed {lost} of them."
            if lost
            else f"{member.name:4} missed none of them."
        )


async def configure(stage: Stage, me: overlaymq.Node) -> None:
    """Act five: the same code, other settings."""
    title("Settings come from configuration, not from code")
    tell(
        f"A subscriber with a small buffer pauses half a second; {TICKS:,} messages are published."
    )
    for topic in ("quotes/tea", "orders/tea"):
        async with me.subscribe(topic, buffer=100) as slow, trio.open_nursery() as nursery:
            await slow.wait_ready()
            nursery.start_soon(_publish_all, me, topic)
            await trio.sleep(0.5)
            seen = slow.statistics()
            while seen.taken + seen.dropped < TICKS:
                with trio.move_on_after(0.1):
                    await slow.receive()
                seen = slow.statistics()
        flow = "lossy" if topic.startswith("quotes") else "lossless"
        tell(f"{topic} ({flow}): it got {seen.taken:,}, and was told of {seen.dropped:,} dropped.")
    tell("The file that all five processes read:\n")
    print("".join(f"      {line}\n" for line in SETTINGS.splitlines()), end="", flush=True)


async def _publish_all(node: overlaymq.Node, topic: str) -> None:
    for number in range(TICKS):
        await node.publish(topic, str(number).encode())


async def _in_time(seconds: float, act: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    with trio.move_on_after(seconds) as patience:
        await act(*arguments)
    if patience.cancelled_caught:
        text = f"this did not come true within {seconds:g} s. {act.__doc__}"
        raise Failure(text, Exit.TIMED_OUT)


ACTS = (gather, deliver, freeze, kill, configure)
NEXT = """
== What to try next
   overlaymq sub prices            in one terminal, and in another
   overlaymq pub prices hi         they meet by themselves
   overlaymq status                what a running node knows
   overlaymq doctor                why a node cannot join
   examples/hello.py               the same from Python, in thirty lines
   docs/guide.md                   everything an application can do
   docs/strategies.md              which strategy suits whom
   overlaymq analyze DIR           what the traces of a run tell
   (without an activated environment the command is .venv/bin/overlaymq)"""


async def analyse(stage: Stage) -> None:
    """Act six: what happened, from the nodes' own traces."""
    title("Three strategies, traced, and Spark's word on them")
    await trace_and_analyse(stage.settings, REPORT, tell)


async def main() -> Exit:
    """Play every act."""
    started = time.perf_counter()
    async with open_stage(SETTINGS) as stage:
        async with overlaymq.open_node(stage.settings, key_file=stage.keys["me"]) as me:
            for act in ACTS:
                await _in_time(PATIENCE, act, stage, me)
        await stage.clear()
        await _in_time(SPARK_PATIENCE, analyse, stage)
    print(f"\nThat took {time.perf_counter() - started:.0f} s; every process has ended.")
    print(NEXT)
    return Exit.OK


if __name__ == "__main__":
    run(main)
