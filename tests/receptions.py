"""A count of what comes in over a node's links, kept by tests apart from the node and its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.messages import Batch, BatchRefused, Routed

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Message

Name = tuple[int, int, int]
"""Of a run: publisher, epoch, first number."""


class Receptions:
    """Messages that came in, and those among them that the node had already.

    A node has what came before, unless it refused that because it was not the root. Its own is no news to it
    by gossip; a tree brings it back once. A message that reached the root of a tree twice is spread twice,
    under two numbers, unless the topic is ordered: then only those know who subscribe to it.
    """

    def __init__(self, me: Id, topic: Id, strategy: str, *, ordered: bool, reads: bool) -> None:
        self._me = me
        self._topic = topic
        self._gossip = strategy == "scamp"
        self._by_number = not ordered and not self._gossip
        self._reads = reads
        self._had: set[tuple[int, ...]] = set()
        self._unsure: dict[Name, Batch] = {}
        self.received = 0
        self.again = 0

    def came(self, message: Message) -> None:
        """Over a link."""
        if isinstance(message, Batch) and message.topic == self._topic:
            self.received += message.count
            for number in range(message.first, message.last + 1):
                self.again += self._knew(message, number)
            if not message.root_sequence and not self._gossip:
                self._unsure[message.origin, message.epoch, message.first] = message

    def went(self, message: Message) -> None:
        """Over a link."""
        body = message.body if isinstance(message, Routed) else message
        if isinstance(body, BatchRefused) and body.topic == self._topic:
            batch = self._unsure.pop((body.origin, body.epoch, body.first), None)
            if batch is not None:
                for number in range(batch.first, batch.last + 1):
                    self._had -= set(self._names(batch, number))

    def _names(self, batch: Batch, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of a message, and of this copy of it."""
        message = (batch.origin, batch.epoch, number)
        return message, (*message, batch.root, batch.root_epoch, batch.root_sequence)

    def _knew(self, batch: Batch, number: int) -> bool:
        message, copy = self._names(batch, number)
        came, came_so = message in self._had, copy in self._had
        self._had |= {message, copy}
        own = batch.origin == self._me
        if self._by_number:
            return (came_so and batch.root_sequence > 0) or (came and self._reads and not own)
        return came or (own and self._gossip)
