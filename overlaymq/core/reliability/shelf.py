"""What a node keeps of an ordered topic: recent batches by place, for itself and for those below it.

There is a *shelf* for each epoch. It knows how far everything is settled (``next``), how far the epoch is
known to go (``last``), what is on it, and what is lost for good. Settled means delivered, or announced as
missed. A batch stays where its root put it: two nodes never cut a run of numbers differently.

The *buffer* is all shelves of a topic. It is bounded in time, messages and bytes, the oldest arrivals go
first (Scribe JSAC III-B.2: "buffer recent messages"; the paper bounds only the time). A batch that has to
go although it waits for one before it takes its place among the lost. What nobody will ask for again
(``stable``) goes before its time, but for the history that late joiners may want.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING

from overlaymq.core.reliability.history import messages_of
from overlaymq.messages import Epoch, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overlaymq.config import DeliveryConfig
    from overlaymq.messages import Batch

Range = tuple[int, int]


def epoch_of(batch: Batch) -> Epoch:
    """Whose number a batch carries."""
    return Epoch(batch.root_epoch, batch.root)


def end_of(batch: Batch) -> int:
    """The number of its last message."""
    return batch.root_sequence + batch.count - 1


class Shelf:
    """One epoch. ``start`` is where this node began; 0 if it follows only what others need."""

    __slots__ = ("_batches", "_firsts", "_lost", "claim", "last", "next", "skip", "start")

    def __init__(self) -> None:
        self.start = 0
        self.next = 0
        self.last = 0
        self.skip = 0
        """Messages at ``start`` that a late joiner did not ask for."""
        self.claim = 0
        """What is before this was there before its subscriber, who gets what is left, and misses nothing."""
        self._batches: dict[int, Batch] = {}
        self._firsts: list[int] = []
        self._lost: list[Range] = []

    def __len__(self) -> int:
        return len(self._batches)

    def begin(self, start: int) -> None:
        """Follow the epoch from this number on, or from an earlier one that is already here."""
        while (before := self.at(start - 1)) is not None:
            start = before.root_sequence
        self.start = self.next = start
        self.last = max(self.last, start - 1)

    def go_back(self, start: int, skip: int) -> None:
        """A subscriber has come that wants to begin earlier."""
        if start < self.next:
            self.claim = max(self.claim, self.next)
            self.start, self.next, self.skip = start, start, skip

    def begin_after(self, batch: Batch) -> None:
        """Leave out the batch that this node would begin with."""
        self.start = self.next = end_of(batch) + 1

    @property
    def begun(self) -> bool:
        """Whether this node follows the epoch itself."""
        return self.start > 0

    @property
    def settled(self) -> bool:
        """Whether nothing is missing as far as is known."""
        return self.next > self.last

    def add(self, batch: Batch) -> None:
        """Put a new batch on the shelf."""
        self._batches[batch.root_sequence] = batch
        insort(self._firsts, batch.root_sequence)
        self.last = max(self.last, end_of(batch))

    def remove(self, first: int) -> Batch:
        """Take a batch off; who needs it later is told that it is gone."""
        index = bisect_right(self._firsts, first) - 1
        del self._firsts[index]
        batch = self._batches.pop(first)
        if self.begun and first >= self.next:
            self.lose(first, end_of(batch))
        return batch

    def had(self, first: int) -> bool:
        """Whether a batch that begins so is here, or was."""
        return first in self._batches or (self.begun and self.start <= first < self.next)

    def at(self, sequence: int) -> Batch | None:
        """The batch that holds a message, if it is here."""
        index = bisect_right(self._firsts, sequence) - 1
        if index < 0:
            return None
        batch = self._batches[self._firsts[index]]
        return batch if sequence <= end_of(batch) else None

    def between(self, first: int, last: int) -> Iterator[Batch]:
        """What is here of a range, in order."""
        index = max(0, bisect_right(self._firsts, first) - 1)
        for key in self._firsts[index:]:
            if key > last:
                return
            batch = self._batches[key]
            if end_of(batch) >= first:
                yield batch

    def absent(self, first: int, last: int) -> list[Range]:
        """The parts of a range that are not here."""
        parts = []
        for batch in self.between(first, last):
            if batch.root_sequence > first:
                parts.append((first, batch.root_sequence - 1))
            first = end_of(batch) + 1
        if first <= last:
            parts.append((first, last))
        return parts

    def gaps(self) -> list[Range]:
        """What is missing, and not lost, as far as is known."""
        found = []
        for first, last in self.absent(self.next, self.last):
            for lost_first, lost_last in self._lost:
                if lost_last < first or lost_first > last:
                    continue
                if lost_first > first:
                    found.append((first, lost_first - 1))
                first = lost_last + 1
            if first <= last:
                found.append((first, last))
        return found

    def lose(self, first: int, last: int) -> None:
        """Give a range up: what is not here by the time its turn comes is missed."""
        insort(self._lost, (first, last))

    def lost_from(self, sequence: int) -> int:
        """Up to where everything from a number on is given up; less than it if it is not."""
        end = sequence - 1
        while self._lost and self._lost[0][0] <= end + 1:
            end = max(end, self._lost.pop(0)[1])
        if end >= sequence:
            here = next(self.between(sequence, end), None)
            if here is not None:
                self.lose(here.root_sequence, end)
                end = here.root_sequence - 1
        return end


class Buffer:
    """All shelves of a topic on one node, and their bounds."""

    __slots__ = ("_arrivals", "_config", "_messages", "_recent", "_shelves", "_size", "stable")

    def __init__(self, config: DeliveryConfig) -> None:
        self._config = config
        self.stable: Place | None = None
        """Nobody will ask for what is before this."""
        self._recent = 0
        """Messages, as late joiners count them."""
        self._shelves: dict[Epoch, Shelf] = {}
        self._arrivals: deque[tuple[float, Epoch, int]] = deque()
        self._messages = 0
        self._size = 0

    def __len__(self) -> int:
        return self._messages

    def shelf(self, epoch: Epoch) -> Shelf:
        """The shelf of an epoch."""
        shelf = self._shelves.get(epoch)
        if shelf is None:
            shelf = self._shelves[epoch] = Shelf()
        return shelf

    def find(self, epoch: Epoch) -> Shelf | None:
        """The shelf of an epoch, if there is one."""
        return self._shelves.get(epoch)

    def epochs(self) -> list[Epoch]:
        """Those that have a shelf, in order."""
        return sorted(self._shelves)

    def add(self, batch: Batch, now: float) -> None:
        """Keep a new batch, and let go what is beyond the bounds."""
        epoch = epoch_of(batch)
        self.shelf(epoch).add(batch)
        self._arrivals.append((now, epoch, batch.root_sequence))
        self._messages += batch.count
        self._recent += messages_of(batch)
        self._size += batch.size
        self.trim(now)

    def trim(self, now: float) -> None:
        """Let go what is too old, or too much, or of no use."""
        config, arrivals = self._config, self._arrivals
        oldest = now - config.keep_seconds
        while arrivals and (
            arrivals[0][0] < oldest
            or self._size > config.keep_bytes
            or self._messages > config.keep_messages
            or (self.stable is not None and self._is_of_no_use(*arrivals[0][1:]))
        ):
            _, epoch, first = arrivals.popleft()
            batch = self._shelves[epoch].remove(first)
            self._messages -= batch.count
            self._recent -= messages_of(batch)
            self._size -= batch.size

    def _is_of_no_use(self, epoch: Epoch, first: int) -> bool:
        """Everybody has it, and the history is full without it."""
        batch = self._shelves[epoch].at(first)
        assert batch is not None
        assert self.stable is not None
        if Place(epoch, end_of(batch)) >= self.stable:
            return False
        beyond = self._recent - messages_of(batch) >= self._config.history
        return beyond or self._size > self._config.history_bytes

    def forget(self, keep: set[Epoch]) -> None:
        """Drop the empty shelves of epochs that nobody speaks of any more."""
        for epoch in [one for one in self._shelves if one not in keep]:
            if not self._shelves[epoch]:
                del self._shelves[epoch]
