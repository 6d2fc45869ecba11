"""The root's part of an ordered topic: it gives every message its place, once.

Two steps, so that something may come between them: ``propose`` chooses the place, ``commit`` makes it so.
Here they follow each other at once; a replicated root would ask the others in between.

A publisher that hears nothing sends again, and after a change of root so does the former root. So the root
remembers which messages have their place, by the publisher's own number, and answers a second copy with the
place of the first. The memory is bounded; a copy that slips through gets a second place, and subscribers, who
know what they have had, drop it. Chunks of one message share its number and are told apart here only.
"""

from __future__ import annotations

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

Name = tuple["Id", int, int, int]


def name_of(batch: Batch) -> Name:
    """How a publisher calls a batch."""
    return (batch.origin, batch.epoch, batch.first, batch.chunk)


class Sequencer:
    """Places given by one node, in whatever epochs."""

    __slots__ = ("_again", "_places", "_seen")

    def __init__(self) -> None:
        self._places: OrderedDict[Name, Place] = OrderedDict()
        self._seen = Seen()
        self._again: dict[Name, None] = {}

    def allow(self, batch: Batch) -> None:
        """It may get another place: nobody will come to the one it has."""
        self._again[name_of(batch)] = None

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

    @staticmethod
    def propose(batch: Batch, epoch: Epoch, sequence: int) -> Batch:
        """The batch with the place it should get."""
        return msgspec.structs.replace(
            batch, root=epoch.root, root_epoch=epoch.counter, root_sequence=sequence, wire=None
        )

    def commit(self, batch: Batch, epoch: Epoch) -> None:
        """The place is given."""
        self._again.pop(name_of(batch), None)
        self._places[name_of(batch)] = Place(epoch, batch.root_sequence)
        if len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)
        if batch.chunks == 1:
            self._seen.add(batch.origin, batch.epoch, batch.first, batch.last)

    def window(self) -> tuple[Run, ...]:
        """For a successor: what has a place."""
        return tuple([Run(*run) for run in self._seen.latest(MAX_WINDOW)])

    def inherit(self, window: Iterable[Run]) -> None:
        """From a predecessor."""
        for run in window:
            self._seen.merge(run.origin, run.epoch, run.first, max(run.first, run.last))
