"""Recent batches of a topic, for late joiners (``since=Last(n)``).

Bounded in messages and bytes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Batch


class History:
    """The last batches, oldest first."""

    __slots__ = ("_batches", "_bytes", "_max_bytes", "_max_messages", "_messages")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._batches: deque[Batch] | None = None  # an empty one takes 760 bytes, on every node
        self._messages = 0
        self._bytes = 0

    @property
    def messages(self) -> int:
        """How many are here."""
        return self._messages

    def clear(self) -> None:
        """Forget all: what comes next does not follow."""
        self._batches, self._messages, self._bytes = None, 0, 0

    def add(self, batch: Batch) -> None:
        """Keep a batch, forgetting the oldest beyond the bounds."""
        batches = self._batches
        if batches is None:
            batches = self._batches = deque()
        batches.append(batch)
        self._messages += messages_of(batch)
        self._bytes += batch.size
        while batches and (
            self._bytes > self._max_bytes
            or self._messages - messages_of(batches[0]) >= self._max_messages
        ):
            oldest = batches.popleft()
            self._messages -= messages_of(oldest)
            self._bytes -= oldest.size

    def last(self, count: int) -> list[Batch]:
        """The batches that hold the last ``count`` messages; the first may be cut by ``skip``."""
        chosen: list[Batch] = []
        begun: set[tuple[Id, int, int]] = set()
        wanted = count
        for batch in reversed(self._batches or ()):
            if wanted <= 0:
                break
            wanted -= messages_of(batch)
            if batch.chunk == 0:
                begun.add((batch.origin, batch.epoch, batch.first))
            chosen.append(msgspec.structs.replace(batch, skip=max(0, -wanted), wire=None))
        # Chunks whose first is out of reach are of no use to anyone.
        return [one for one in reversed(chosen) if (one.origin, one.epoch, one.first) in begun]


def messages_of(batch: Batch) -> int:
    """The chunks of one large message count once, at the chunk that comes first."""
    return batch.count if batch.chunk == 0 else 0
