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
    from collections.abc import Mapping

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
    """A batch in a subscription's buffer: its items ``start`` to ``stop`` are still to be taken. What became
    of those before ``told`` is in the trace."""

    __slots__ = ("batch", "messages", "start", "stop", "told")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.start = self.told = batch.skip
        self.stop = batch.count
        self.messages: list[Message] = []

    def __len__(self) -> int:
        return self.stop - self.start

    def open(self, topic: str) -> None:
        """Make the messages; raises Malformed if the publisher wrote nonsense."""
        batch = self.batch
        payloads, headers = decode_body(batch.body)
        self.stop = min(self.stop, len(payloads))
        origin = ids.text(batch.origin)
        epoch, time, hops = batch.epoch, batch.published_at, batch.hop
        if headers is None:
            self.messages = [
                Message(payload, topic, origin, epoch, seq, time, hops)
                for seq, payload in enumerate(payloads, batch.first)
            ]
        else:
            self.messages = [
                Message(payload, topic, origin, epoch, seq, time, hops, header)
                for seq, (payload, header) in enumerate(
                    zip(payloads, headers, strict=True), batch.first
                )
            ]
