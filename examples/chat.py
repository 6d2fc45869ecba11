"""A chat room without a server: everybody's process is a node, and the room is a topic.

    python examples/chat.py ann                             # prints the address to join through
    python examples/chat.py bob --seed 127.0.0.1:PORT       # in another terminal

Type lines; Ctrl-D or Ctrl-C leaves. `fifo` keeps each speaker's lines in order and tells of any that
were lost.
"""

from __future__ import annotations

import argparse
import os
import sys

import msgspec
import trio

import overlaymq


class Line(msgspec.Struct):
    """What is said, and by whom: the topic's codec checks that it is one of these."""

    who: str
    text: str


async def speak(room: overlaymq.Topic[Line], who: str) -> None:
    """Publish what is typed, until the end of input. Ctrl-C does not wait for the next line."""
    keyboard = os.fdopen(os.dup(0))
    while text := await trio.to_thread.run_sync(keyboard.readline, abandon_on_cancel=True):
        await room.publish(Line(who, text.rstrip("\n")))


async def listen(lines: overlaymq.TypedSubscription[Line]) -> None:
    """Print what the others say."""
    async for line, message in lines:
        print(f"<{line.who}> {line.text}   ({message.hops} hops)", flush=True)


async def tell_losses(lines: overlaymq.TypedSubscription[Line]) -> None:
    """Losses are events, not silence."""
    async for event in lines.raw.events():
        if isinstance(event, overlaymq.Missed | overlaymq.Lagged):
            print(f"* some lines were lost: {event}", flush=True)


async def main(name: str, seeds: list[str]) -> None:
    async with overlaymq.open_node(listen="127.0.0.1:0", seeds=seeds) as node:
        print(f"* you are {name}; others join with --seed {node.address}", flush=True)
        await node.create("chat/lobby", reliability="fifo")
        room: overlaymq.Topic[Line] = node.topic("chat/lobby", overlaymq.JsonCodec(Line))
        async with room.subscribe(receive_own=False) as lines, trio.open_nursery() as nursery:
            await lines.wait_ready()
            print("* you are in the room", flush=True)
            nursery.start_soon(listen, lines)
            nursery.start_soon(tell_losses, lines)
            await speak(room, name)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A chat room without a server.")
    parser.add_argument("name")
    parser.add_argument("--seed", dest="seeds", action="append", default=[])
    arguments = parser.parse_args()
    ended: int | str = 0
    try:
        trio.run(main, arguments.name, arguments.seeds)
    except* KeyboardInterrupt:  # the star: out of a nursery it comes in a group
        ended = 130
    except* overlaymq.OverlayError as problems:
        ended = "\n".join(f"* {problem}" for problem in problems.exceptions)
    sys.exit(ended)
