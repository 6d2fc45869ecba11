"""What a publisher has sent to the root of an ordered topic and the root has not acknowledged.

It is sent again when the root has changed or does not answer in time; the root knows copies. A former root
keeps here, too, what it publishes again. Bounded by the window: beyond it publications wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Batch

Name = tuple["Id", int, int, int]


class Outbox:
    """Unacknowledged batches, oldest first, with the time each was last sent."""

    __slots__ = ("_batches", "size")

    def __init__(self) -> None:
        self._batches: dict[Name, tuple[Batch, float]] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: Batch, now: float) -> None:
        """Keep a batch, or note that it was sent again."""
        name = (batch.origin, batch.epoch, batch.first, batch.chunk)
        if name not in self._batches:
            self.size += batch.size
        self._batches[name] = (batch, now)

    def take(self, name: Name) -> Batch | None:
        """It was acknowledged, or is needed: the batch, if it was here."""
        held = self._batches.pop(name, None)
        if held is None:
            return None
        self.size -= held[0].size
        return held[0]

    def take_oldest(self) -> Batch | None:
        """What has been here for longest."""
        return self.take(next(iter(self._batches))) if self._batches else None

    def oldest(self, origin: Id) -> int | None:
        """The first number of this origin that is here."""
        return next((name[2] for name in self._batches if name[0] == origin), None)

    def sent_before(self, when: float) -> list[Batch]:
        """What was last sent at that time or earlier."""
        return [batch for batch, sent in self._batches.values() if sent <= when]
