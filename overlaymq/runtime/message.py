"""What a subscriber gets.

Message objects are made last, when the subscriber takes them: until then a publication is an item of a
batch. ``published_at`` is the publisher's wall clock when it opened the run that the message travelled in;
on an idle link that is the moment of publishing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq import ids
from overlaymq.transport.codec import decode_body

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from overlaymq.messages import Batch

NO_HEADERS: Mapping[str, str] = {}


class Message(msgspec.Struct, frozen=True, gc=False):
    """One publication. Its id is (origin, epoch, seq): equal payloads are distinct messages."""

    payload: bytes
    topic: str
    origin: str
    epoch: int
    seq: int
    published_at: int
    hops: int
    headers: Mapping[str, str] = NO_HEADERS


class Arrived:
    """A batch in a subscription's buffer: its items ``start`` to ``stop`` are still to be taken."""

    __slots__ = ("batch", "headers", "origin", "payloads", "start", "stop", "topic")

    def __init__(self, topic: str, batch: Batch) -> None:
        self.topic = topic
        self.batch = batch
        self.start = batch.skip
        self.stop = batch.count
        self.origin = ""
        self.payloads: Sequence[bytes] = ()
        self.headers: list[dict[str, str]] | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    def open(self) -> None:
        """Decode the body; raises Malformed if the publisher wrote nonsense."""
        self.payloads, self.headers = decode_body(self.batch.body)
        self.stop = min(self.stop, len(self.payloads))
        self.origin = ids.text(self.batch.origin)

    def take(self) -> Message:
        """The next message."""
        index = self.start
        self.start = index + 1
        batch = self.batch
        return Message(
            self.payloads[index],
            self.topic,
            self.origin,
            batch.epoch,
            batch.first + index,
            batch.published_at,
            batch.hop,
            NO_HEADERS if self.headers is None else self.headers[index],
        )
