"""Recent batches of a topic at its root, for late joiners (``since=Last(n)``).

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
        self._batches: deque[Batch] = deque()
        self._messages = 0
        self._bytes = 0

    def add(self, batch: Batch) -> None:
        """Keep a batch, forgetting the oldest beyond the bounds."""
        self._batches.append(batch)
        self._messages += _messages(batch)
        self._bytes += batch.size
        while self._batches and (
            self._bytes > self._max_bytes
            or self._messages - _messages(self._batches[0]) >= self._max_messages
        ):
            oldest = self._batches.popleft()
            self._messages -= _messages(oldest)
            self._bytes -= oldest.size

    def last(self, count: int) -> list[Batch]:
        """The batches that hold the last ``count`` messages; the first may be cut by ``skip``."""
        chosen: list[Batch] = []
        begun: set[tuple[Id, int, int]] = set()
        wanted = count
        for batch in reversed(self._batches):
            if wanted <= 0:
                break
            wanted -= _messages(batch)
            if batch.chunk == 0:
                begun.add((batch.origin, batch.epoch, batch.first))
            chosen.append(msgspec.structs.replace(batch, skip=max(0, -wanted), wire=None))
        # Chunks whose first is out of reach are of no use to anyone.
        return [one for one in reversed(chosen) if (one.origin, one.epoch, one.first) in begun]


def _messages(batch: Batch) -> int:
    """The chunks of one large message count once, at the chunk that comes first."""
    return batch.count if batch.chunk == 0 else 0
