"""Large messages of an ordered topic: whole, or announced.

The root numbers every chunk, and chunks come to the reassembler in that order, after repair. So an incomplete
message does not wait for a slow link, as in other modes, but for a gap that is being repaired, or for its
publisher, which sends a chunk again until it is acknowledged. Both take longer than ``chunk_timeout``. Hence:

- It waits as long as a gap is open. A chunk that is given up is announced with its gap, as ``Missed``.
- When there is no gap, it waits ``keep_seconds``: nobody keeps anything for a repair longer than that.
- What has to go, after that or because all that wait exceed ``delivery.reassembly``, is ``Missed``, by the
  numbers of the chunks that were here. So are the chunks that come later: each number is delivered as a part
  of something, or announced, and the root does not count this subscriber among those that have the message.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from overlaymq.core.reliability.chunks import Reassembler, place_of
from overlaymq.core.reliability.reporting import Reporting
from overlaymq.core.reliability.seen import Seen
from overlaymq.events import Effect, Missed, Notify
from overlaymq.messages import Place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.config import DeliveryConfig
    from overlaymq.core.reliability.chunks import Partial
    from overlaymq.core.reliability.upcalls import ModeTree
    from overlaymq.ids import Id
    from overlaymq.messages import Batch


class Large(Reporting):
    """See the module's text."""

    def __init__(self, topic: Id, config: DeliveryConfig) -> None:
        super().__init__(topic, config)
        self._begin_large()

    def _begin_large(self) -> None:
        self._chunks = Reassembler(self.config, self.config.keep_seconds)
        self._abandoned = Seen()
        """Messages that were given up."""

    @abstractmethod
    def _missing(self) -> bool:
        """Whether a gap is being repaired."""

    def unsubscribed(self) -> None:
        """The next subscription begins when it begins."""
        super().unsubscribed()
        self._begin_large()

    def deliver(self, batch: Batch, now: float) -> list[Effect]:
        """Chunks come in the order of their numbers."""
        name = (batch.origin, batch.epoch, batch.first)
        if batch.chunks == 1 or name in self._seen:
            return super().deliver(batch, now)
        if name in self._abandoned:
            return self._missed([place_of(batch)])
        whole = self._chunks.add(batch, now)
        effects = self._abandon(self._chunks.excess())
        return effects if whole is None else effects + self._whole(whole, now)

    def _give_up_large(self, tree: ModeTree) -> None:
        """What nobody can bring any more."""
        if not self._missing():
            tree.effects += self._abandon(self._chunks.overdue(tree.now))

    def _abandon(self, partials: Iterable[Partial]) -> list[Effect]:
        effects: list[Effect] = []
        for partial in partials:
            one = partial.first
            self._abandoned.add(one.origin, one.epoch, one.first, one.last)
            effects += self._missed(partial.places)
        return effects

    def _missed(self, places: Iterable[Place]) -> list[Effect]:
        effects: list[Effect] = []
        for first, last in runs(places):
            self._below.missed(first, last)
            epoch = first.epoch
            gap = Missed(self.topic, epoch.root, first.sequence, last.sequence, epoch.counter)
            effects.append(Notify(gap))
        return effects


def runs(places: Iterable[Place]) -> list[tuple[Place, Place]]:
    """The same places, as few ranges."""
    ranges: list[tuple[Place, Place]] = []
    for place in sorted(places):
        if ranges and ranges[-1][1] == Place(place.epoch, place.sequence - 1):
            ranges[-1] = ranges[-1][0], place
        else:
            ranges.append((place, place))
    return ranges
