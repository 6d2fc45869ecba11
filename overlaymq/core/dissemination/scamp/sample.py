"""What a topic's rendezvous knows of its members: a bounded random sample, and how many there are.

A new subscriber needs a contact, a publisher that is no member needs some to hand its messages to. The owner
of the topic's key gives them. It keeps the members whose salted hashes are the smallest: a sample that does
not depend on who came when. Up to its bound it is all of them, so the count is exact. Beyond, it is what lies
below a threshold, and the count follows from that (as in a k-minimum-values sketch), with a relative error of
about 1 / sqrt(k). When many have left, the threshold is doubled; it counts once everybody has refreshed.

What is counted are registrations: members that have registered or refreshed within
``rendezvous.expire_after`` and have not left. Soft state: a crashed member is counted until then.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from overlaymq import ids

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from overlaymq.ids import Id
    from overlaymq.messages import Peer


class Sample:
    """The members with the smallest hashes."""

    __slots__ = ("_admits", "_bound", "_complete", "_entries", "_keep", "_raised", "_salt")

    def __init__(self, topic: Id, bound: int, keep: float) -> None:
        self._salt = ids.to_bytes(topic)
        self._bound = bound
        self._keep = keep
        self._entries: dict[Id, tuple[int, Peer, float]] = {}
        self._admits = ids.RING
        """Hashes below this are kept,"""
        self._complete = ids.RING
        """and below this, all members' are."""
        self._raised = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def peers(self) -> tuple[Peer, ...]:
        """All that are kept."""
        return tuple([peer for _, peer, _ in self._entries.values()])

    def first(self, wanted: int) -> tuple[Peer, ...]:
        """Those with the smallest hashes, so many of them."""
        smallest = nsmallest(wanted, self._entries.values(), key=lambda entry: entry[0])
        return tuple([peer for _, peer, _ in smallest])

    def add(self, member: Peer, now: float) -> None:
        """A member registers, or refreshes."""
        known = self._entries.get(member.id)
        rank = ids.hashed(self._salt, ids.to_bytes(member.id)) if known is None else known[0]
        if rank >= self._admits:
            return
        self._entries[member.id] = (rank, member, now + self._keep)
        if len(self._entries) > self._bound:
            worst = max(self._entries, key=lambda id_: self._entries[id_][0])
            self._admits = self._entries.pop(worst)[0]
            self._complete = min(self._complete, self._admits)

    def remove(self, member: Id) -> None:
        """A member has left."""
        self._entries.pop(member, None)

    def expire(self, now: float) -> None:
        """Forget those that have been silent for too long, and take more if there is room."""
        for member in [id_ for id_, entry in self._entries.items() if entry[2] <= now]:
            del self._entries[member]
        if self._complete < self._admits:
            if now >= self._raised + self._keep:
                self._complete = self._admits
        elif self._admits < ids.RING and len(self._entries) < self._bound // 2:
            self._admits = min(2 * self._admits, ids.RING)
            self._raised = now

    def count(self) -> int:
        """How many members there are, about."""
        below = sum(rank < self._complete for rank, _, _ in self._entries.values())
        return round(below * ids.RING / self._complete) if below else 0

    def draw(self, wanted: int, random: Random, without: Iterable[Id] = ()) -> tuple[Peer, ...]:
        """So many of them at random, but for these."""
        skipped = set(without)
        peers = [peer for id_, (_, peer, _) in self._entries.items() if id_ not in skipped]
        return tuple(peers if len(peers) <= wanted else random.sample(peers, wanted))
