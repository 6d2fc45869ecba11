"""The neighbourhood set M: the |M| nodes nearest by the proximity metric (Pastry Middleware 2001).

It is where a joining node's locality comes from and, with the other tables, what the rare case of
routing looks through. Only measured nodes enter.
"""

from __future__ import annotations

from bisect import insort
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Peer


class Neighbourhood:
    """The nearest nodes, nearest first; equal distances are ordered by id."""

    __slots__ = ("_entries", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: list[tuple[float, Id, Peer]] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Nearest first."""
        return tuple([peer for _, _, peer in self._entries])

    @property
    def entries(self) -> list[tuple[float, Peer]]:
        """With their distances, nearest first."""
        return [(distance, peer) for distance, _, peer in self._entries]

    def get(self, id_: Id) -> Peer | None:
        """The member with this id."""
        for _, known, peer in self._entries:
            if known == id_:
                return peer
        return None

    def distance(self, id_: Id) -> float:
        """How far a member is, or infinity."""
        return next((distance for distance, known, _ in self._entries if known == id_), inf)

    def add(self, peer: Peer, distance: float) -> bool:
        """Offer a measured node; whether it is new in the set."""
        entries = self._entries
        if len(entries) >= self.size and (distance, peer.id) >= entries[-1][:2]:
            return False
        new = not self.remove(peer.id)
        insort(entries, (distance, peer.id, peer))
        del entries[self.size :]
        return new

    def renew(self, peer: Peer) -> None:
        """Replace the handle of a node that has come back."""
        for index, (distance, known, old) in enumerate(self._entries):
            if known == peer.id and old.incarnation < peer.incarnation:
                self._entries[index] = (distance, known, peer)

    def remove(self, id_: Id) -> bool:
        """Forget a node; whether it was a member."""
        for index, entry in enumerate(self._entries):
            if entry[1] == id_:
                del self._entries[index]
                return True
        return False
