"""A topic that remembers its last value for newcomers, and counts who reads it: five upcalls.

    python examples/upcalls.py

Every node of the tree keeps the last batch that passed (`on_forward`) and gives it to each child that joins
(`on_join`), unless the child had it before its former parent failed and says so (`on_fault`). A parent asks
its children to report (`on_note`), which they do every half second (`on_timer`): how many read below them.
"""

from __future__ import annotations

import trio

import overlaymq
from overlaymq.messages import Batch, Peer  # noqa: TC001 (an example reads better so)

CONFIG = overlaymq.Config(defaults=overlaymq.config.TopicConfig(strategy="scribe"))


class Retained:
    """The upcalls of one node, and what they remember."""

    def __init__(self, node: overlaymq.Node) -> None:
        self.last: Batch | None = None
        self.version = b""
        self.below: dict[int, int] = {}
        upcalls = (self.on_forward, self.on_join, self.on_fault, self.on_note, self.on_timer)
        node.set_upcalls("temperature", overlaymq.Upcalls(*upcalls))

    def on_forward(self, batch: Batch, tree: overlaymq.Tree) -> Batch:
        self.last, self.version = batch, str(batch.published_at).encode()
        return batch

    def on_join(self, join: overlaymq.Joining, tree: overlaymq.Tree) -> None:
        if self.last is not None and join.note != self.version:
            tree.send(join.peer, self.last)
        tree.tell(join.peer, b"report")

    def on_fault(self, join: overlaymq.Joining, tree: overlaymq.Tree) -> None:
        join.note = self.version

    def on_note(self, peer: Peer, note: bytes, tree: overlaymq.Tree) -> None:
        if note == b"report":
            tree.set_timer(0.5)
        else:
            self.below[peer.id] = int(note)

    def on_timer(self, token: int, tree: overlaymq.Tree) -> None:
        if tree.parent is not None:
            tree.tell(tree.parent, b"%d" % (tree.member + sum(self.below.values())))
            tree.set_timer(0.5)


async def display(number: int, seed: str, task_status: trio.TaskStatus[None]) -> None:
    async with overlaymq.open_node(CONFIG, listen="127.0.0.1:0", seeds=[seed]) as node:
        Retained(node)
        async with node.subscribe("temperature") as values:
            message = await values.receive()  # published before this node existed
            print(f"display {number} shows {message.payload.decode()}", flush=True)
            task_status.started()
            await trio.sleep_forever()


async def main() -> None:
    async with overlaymq.open_node(CONFIG, listen="127.0.0.1:0") as sensor:
        await sensor.create("temperature", root="creator")
        root = Retained(sensor)
        await sensor.publish("temperature", b"21.5 C")
        async with trio.open_nursery() as nursery:
            await nursery.start(display, 1, sensor.address)
            await nursery.start(display, 2, sensor.address)
            await trio.sleep(1.5)
            print(f"{sum(root.below.values())} displays read it", flush=True)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
