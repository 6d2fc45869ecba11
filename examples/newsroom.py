"""The same application on any strategy: the configuration file has the word.

    python examples/newsroom.py [FILE]          # newsroom.toml beside this program, unless you say otherwise

Four readers and a writer, each a node of its own. Change `strategy` in the file and run it again: the readers
get the same headlines in the same order, by another way. The first node to use a topic settles its
strategy; one that comes with another word gets what the topic has.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

import overlaymq

TOPIC = "news/local"
HEADLINES = [f"headline {number}" for number in range(1, 21)]


class Reader:
    """What one reader got."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.hops = 0

    async def read(
        self, config: str, seed: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Be a node, and read all headlines."""
        async with (
            overlaymq.open_node(config, listen="127.0.0.1:0", seeds=[seed]) as node,
            node.subscribe(TOPIC) as news,
        ):
            await news.wait_ready()
            task_status.started()
            while len(self.got) < len(HEADLINES):
                message = await news.receive()
                self.got.append(message.payload.decode())
                self.hops = max(self.hops, message.hops)


async def main(config: str) -> None:
    strategy = overlaymq.config.load(config).for_topic(TOPIC).strategy
    readers = [Reader() for _ in range(4)]
    async with overlaymq.open_node(config, listen="127.0.0.1:0") as writer:
        async with trio.open_nursery() as nursery:
            for reader in readers:
                await nursery.start(reader.read, config, writer.address)
            await writer.wait_subscribers(TOPIC, len(readers))
            for headline in HEADLINES:
                await writer.publish(TOPIC, headline.encode())
        same = all(reader.got == HEADLINES for reader in readers)
        hops = max(reader.hops for reader in readers)
        order = "in order" if same else "NOT in order"
        print(
            f"{strategy}: {len(readers)} readers got {len(HEADLINES)} headlines {order}, {hops} hops at most"
        )


if __name__ == "__main__":
    beside = Path(__file__).with_suffix(".toml")
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else str(beside))
