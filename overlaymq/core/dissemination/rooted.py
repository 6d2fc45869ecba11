"""What every strategy with a root shares: finding it, caching it, and holding publications meanwhile.

A publisher asks for the root once, by routing to the topic's key, and sends to it directly from then on
(Scribe NGC 3.3). An old root passes a batch on to the new one and corrects the publisher. While the root is
not known, batches wait, bounded by two windows: publishers stop at one window of their own, the second is
for batches in transit.

A strategy that builds on this fills in ``_spread``, which disseminates a batch from the root.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.base import Effects, Strategy, Surroundings
from overlaymq.events import Deliver, Dropped, Members, Notify, Route, Send, Sent, SetTimer, Timer
from overlaymq.messages import RootIs, RootQuery

if TYPE_CHECKING:
    from overlaymq.messages import Batch, Descriptor, Message, Peer

MAX_HOPS_TO_ROOT = 8  # more means that nodes take each other for the root; routing will settle it


class Rooted(Strategy):
    """A strategy whose publications start at the owner of the topic's key."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._root: Peer | None = None
        self._subscribed = False
        self._waiting: deque[Batch] = deque()
        self._waiting_size = 0
        self._asking = 0

    @property
    def _is_root(self) -> bool:
        return self._root is not None and self._root.id == self.around.me.id

    @abstractmethod
    def _spread(self, batch: Batch, now: float) -> Effects:
        """At the root: disseminate."""

    @abstractmethod
    def _member_count(self) -> int:
        """At the root: how many members there are."""

    def publish(self, batch: Batch, now: float) -> Effects:
        """Deliver here, and send to the root, or hold until the root is known."""
        effects: Effects = [Deliver(batch)] if self._subscribed else []
        return effects + self._to_root(batch, now)

    def count_members(self, now: float) -> Effects:
        """Ask the root."""
        if self._is_root:
            return [Notify(Members(self.descriptor.id, self._member_count()))]
        return [self._ask_root(RootQuery(self.descriptor.id, self.descriptor))]

    def _ask_root(self, message: Message) -> Send | Route:
        if self._root is not None and not self._is_root:
            return Send(self._root, message)
        return Route(self.descriptor.key, message)

    def _root_is(self, root: Peer) -> RootIs:
        return RootIs(self.descriptor.id, root, self._member_count())

    def _to_root(self, batch: Batch, now: float) -> Effects:
        if self._is_root:
            return self._spread(batch, now)
        if self._root is None:
            return self._hold(batch)
        if batch.hop > MAX_HOPS_TO_ROOT:
            return [Notify(Dropped("no root", batch.count)), *self._sent(batch, 0, "no root")]
        return [Send(self._root, next_hop(batch)), *self._sent(batch, 1)]

    def _sent(self, batch: Batch, links: int, dropped: str = "") -> Effects:
        if batch.origin != self.around.me.id:
            return []
        return [Notify(Sent(batch.topic, batch.first, batch.count, links, batch.chunk, dropped))]

    def _hold(self, batch: Batch) -> Effects:
        limit = 2 * self.around.delivery.window
        if batch.chunks > 1 and batch.origin == self.around.me.id:
            limit += (
                self.around.delivery.max_payload
            )  # a publisher waits only after a whole message
        if self._waiting_size + batch.size > limit:
            return [Notify(Dropped("no root", batch.count)), *self._sent(batch, 0, "no root")]
        self._waiting.append(batch)
        self._waiting_size += batch.size
        return self._ask_again() if len(self._waiting) == 1 else []

    def _ask_again(self) -> Effects:
        """Ask for the root; the timer asks again while batches wait."""
        if not self._waiting:
            return []
        self._asking += 1
        return [
            Route(self.descriptor.key, RootQuery(self.descriptor.id, self.descriptor)),
            SetTimer(
                Timer("topic.root", self.descriptor.id, self._asking),
                self.around.rendezvous.answer_timeout,
            ),
        ]

    def _flush(self, now: float) -> Effects:
        """The root may be known now: send what waits."""
        effects: Effects = []
        waiting, self._waiting, self._waiting_size = self._waiting, deque(), 0
        for batch in waiting:
            effects += self._to_root(batch, now)
        return effects


def next_hop(batch: Batch) -> Batch:
    """The same batch, one hop further."""
    return msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None)
