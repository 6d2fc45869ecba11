"""The root's part of an ordered topic: it gives every message its place, once.

Two steps, so that something may come between them: ``propose`` chooses the place, ``commit`` makes it so.
Here they follow each other at once; a replicated root would ask the others in between.

A publisher that hears nothing sends again, and after a change of root so does the former root. So the root
remembers which messages have their place, by the publisher's own number, and answers a second copy with the
place of the first. The memory is bounded; a copy that slips through gets a second place, and subscribers, who
know what they have had, drop it. Chunks of one message share its number and are told apart here only.

What comes *early*, before others of its publisher that are still under way, is kept apart until they have
come. That is bounded, too: what finds no room is forgotten and sent again.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.reliability.seen import Seen
from overlaymq.messages import Place, Run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Epoch

MAX_PLACES = 16_384
"""Batches whose places are remembered, to answer copies: a guess, some windows of small batches."""
MAX_WINDOW = 256
"""Runs that a successor is told of: a guess, the publishers of a busy topic."""
MAX_PARTIAL = 1024
"""Large messages that are whole only in part: a guess."""

Name = tuple["Id", int, int, int]


def name_of(batch: Batch) -> Name:
    """How a publisher calls a batch."""
    return (batch.origin, batch.epoch, batch.first, batch.chunk)


class Sequencer:
    """Places given by one node, in whatever epochs."""

    __slots__ = ("_again", "_partial", "_places", "_seen")

    def __init__(self) -> None:
        self._places: OrderedDict[Name, Place] = OrderedDict()
        self._seen = Seen()
        self._partial: OrderedDict[tuple[Id, int, int], int] = OrderedDict()
        """Chunks of large messages that have a place."""
        self._again: OrderedDict[Name, None] = OrderedDict()
        """Those that may get another one. If another root gives it, this one is not told."""

    def allow(self, batch: Batch) -> None:
        """It may get another place: nobody will come to the one it has."""
        self._again[name_of(batch)] = None
        if len(self._again) > MAX_PLACES:
            self._again.popitem(last=False)

    def place(self, batch: Batch) -> Place | None:
        """Where a batch is already, as far as is remembered."""
        return self._places.get(name_of(batch))

    def is_copy(self, batch: Batch) -> bool:
        """Whether a batch has had a place before."""
        name = name_of(batch)
        if name in self._again:
            return False
        if name in self._places:
            return True
        return batch.chunks == 1 and (batch.origin, batch.epoch, batch.first) in self._seen

    def knows_before(self, batch: Batch) -> bool:
        """Whether what its publisher has published before, from 0 on, was placed here and nowhere else."""
        return not batch.first or self._seen.covers(batch.origin, batch.epoch, 0, batch.first - 1)

    @staticmethod
    def propose(batch: Batch, epoch: Epoch, sequence: int) -> Batch:
        """The batch with the place it should get."""
        return msgspec.structs.replace(
            batch,
            root=epoch.root,
            root_epoch=epoch.counter,
            root_sequence=sequence,
            behind=0,
            wire=None,
        )

    def commit(self, batch: Batch, epoch: Epoch) -> None:
        """The place is given."""
        self._again.pop(name_of(batch), None)
        self._places[name_of(batch)] = Place(epoch, batch.root_sequence)
        if len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)
        if batch.chunks == 1 or self._is_last_chunk(batch):
            self._seen.add(batch.origin, batch.epoch, batch.first, batch.last)

    def _is_last_chunk(self, batch: Batch) -> bool:
        """Whether the message is whole now."""
        key = (batch.origin, batch.epoch, batch.first)
        placed = self._partial.pop(key, 0) + 1
        if placed == batch.chunks:
            return True
        self._partial[key] = placed
        if len(self._partial) > MAX_PARTIAL:
            self._partial.popitem(last=False)
        return False

    def pass_over(self, batch: Batch) -> None:
        """It will not get a place, and nobody needs to wait for it."""
        if batch.chunks == 1 or self._is_last_chunk(batch):
            self._seen.add(batch.origin, batch.epoch, batch.first, batch.last)

    def is_early(self, batch: Batch) -> bool:
        """Whether others of its publisher that are under way come before it."""
        if not batch.behind or self.is_copy(batch):
            return False
        first, last = batch.first - batch.behind, batch.first - 1
        return not self._seen.covers(batch.origin, batch.epoch, first, last)

    def window(self) -> tuple[Run, ...]:
        """For a successor: what has a place."""
        return tuple([Run(*run) for run in self._seen.latest(MAX_WINDOW)])

    def inherit(self, window: Iterable[Run]) -> None:
        """From a predecessor."""
        for run in window:
            self._seen.merge(run.origin, run.epoch, run.first, max(run.first, run.last))


class Early:
    """Batches that wait for others of their publishers."""

    __slots__ = ("_batches", "_limit", "_size", "_streams")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._batches: dict[Name, tuple[Batch, float]] = {}
        self._streams: dict[tuple[Id, int], list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def __contains__(self, batch: Batch) -> bool:
        return name_of(batch) in self._batches

    def keep(self, batch: Batch, now: float) -> None:
        """Let it wait, if there is room."""
        name = name_of(batch)
        known, since = self._batches.get(name, (None, now))
        size = self._size + batch.size - (0 if known is None else known.size)
        if size > self._limit:
            return
        self._size = size
        self._batches[name] = batch, since  # one that is known may wait for fewer now
        if known is None:
            stream = self._streams.setdefault((batch.origin, batch.epoch), [])
            insort(stream, (batch.first, batch.chunk))

    def next(self, batch: Batch) -> Batch | None:
        """The first that waits of the same publisher."""
        stream = self._streams.get((batch.origin, batch.epoch))
        return None if not stream else self._batches[batch.origin, batch.epoch, *stream[0]][0]

    def take(self, batch: Batch) -> None:
        """It waits no longer."""
        held, _ = self._batches.pop(name_of(batch))
        self._size -= held.size
        key = (batch.origin, batch.epoch)
        self._streams[key].remove((batch.first, batch.chunk))
        if not self._streams[key]:
            del self._streams[key]

    def before(self, batch: Batch, first: int) -> list[Batch]:
        """Those of the same publisher before a number, in order; they wait no more."""
        stream = self._streams.get((batch.origin, batch.epoch), ())
        names = [(batch.origin, batch.epoch, *one) for one in stream if one[0] < first]
        freed = [self._batches[name][0] for name in names]
        for one in freed:
            self.take(one)
        return [msgspec.structs.replace(one, behind=0, wire=None) for one in freed]

    def overdue(self, since: float) -> list[Batch]:
        """Those that have waited from then on, or longer; they wait no more."""
        overdue = [batch for batch, kept_at in self._batches.values() if kept_at <= since]
        for batch in overdue:
            self.take(batch)
        return sorted(overdue, key=name_of)
