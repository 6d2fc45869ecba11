"""The data plane: publications in batches, and what links say about them.

A ``Batch`` is all that publications travel in, and its body is opaque to everything between the publisher
and the subscriber. It is the only Struct that is not frozen: it keeps its encoded form, so that a node that
sends it to many encodes it once. What a slow link dropped is said in its place, and credit is given back
for what has been taken.
"""

from __future__ import annotations

import msgspec

from overlaymq.ids import Id


class Batch(msgspec.Struct, gc=False):
    """Consecutive publications of one origin on one topic: ``count`` messages from sequence ``first``.

    A message's id is (origin, epoch, sequence). ``published_at`` is the origin's wall clock, in
    nanoseconds, when it opened the run. A payload above the chunk size travels as ``chunks`` batches of
    one sequence number. The first ``skip`` messages are not for the receiver (a replay cut inside a
    batch). ``behind``, on the way to the root of an ordered topic: so many numbers before ``first`` are on
    their way too, and come first. ``root``, ``root_epoch`` and ``root_sequence`` are given by the topic's
    root when it spreads the batch: who it is, how often the topic's root has changed as far as it knows, and
    the number of the batch's first message among all that it spread. ``wire`` caches the encoded form of one
    hop, for fan-out.
    """

    topic: Id
    origin: Id
    epoch: int
    first: int
    count: int
    body: bytes
    published_at: int = 0
    hop: int = 0
    root: Id = Id(0)
    root_epoch: int = 0
    root_sequence: int = 0
    chunk: int = 0
    chunks: int = 1
    skip: int = 0
    behind: int = 0
    wire: bytes | None = None

    @property
    def size(self) -> int:
        """What this batch counts for in bounds and credits: its bytes and a little for the header."""
        return len(self.body) + 64

    @property
    def last(self) -> int:
        """The sequence number of its last message."""
        return self.first + self.count - 1


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """Sent ahead of the next batch to a child that was too slow: this much of its share was dropped."""

    topic: Id
    messages: int
    bytes: int


class Credit(msgspec.Struct, frozen=True, gc=False):
    """Flow control between two drivers: ``total`` bytes of a topic are consumed since the link opened."""

    topic: Id
    total: int


class Window(msgspec.Struct, frozen=True, gc=False):
    """Said when a link opens: the ``delivery.window`` of this side. The smaller of the two holds for both."""

    bytes: int
