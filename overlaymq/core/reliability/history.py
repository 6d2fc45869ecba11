"""Recent batches of a topic at its root, for late joiners (``since=Last(n)``).

Bounded in messages and bytes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
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
        self._messages += batch.count
        self._bytes += batch.size
        while self._batches and (
            self._bytes > self._max_bytes
            or self._messages - self._batches[0].count >= self._max_messages
        ):
            oldest = self._batches.popleft()
            self._messages -= oldest.count
            self._bytes -= oldest.size

    def last(self, count: int) -> list[Batch]:
        """The batches that hold the last ``count`` messages; the first may be cut by ``skip``."""
        chosen: list[Batch] = []
        wanted = count
        for batch in reversed(self._batches):
            if wanted <= 0:
                break
            # The chunks of one large message count once, at the chunk that comes first.
            wanted -= batch.count if batch.chunk == 0 else 0
            chosen.append(msgspec.structs.replace(batch, skip=max(0, -wanted), wire=None))
        return chosen[::-1]
