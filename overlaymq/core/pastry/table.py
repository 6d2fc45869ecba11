"""The routing table: one node per (shared prefix length, next digit) (Scribe JSAC II, Fig. 1).

Row r holds nodes that share exactly r digits with this one, column d those with digit d next. Among the
candidates for a slot the nearest by the proximity metric is kept (Scribe JSAC II-A). An empty slot takes
anyone; a taken one changes hands only for a strictly smaller *measured* distance, so a node of unknown
distance never wins (FreePastry ``RouteSet.put`` with one slot).

Only the populated slots are stored: about 15 * log16 N of the 32 * 16.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from overlaymq.ids import BITS, Id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.messages import Peer


class RoutingTable:
    """Slots are numbered ``row * 2**bits + column``."""

    __slots__ = ("_distances", "_slots", "bits", "me", "rows")

    def __init__(self, me: Id, bits: int) -> None:
        self.me = me
        self.bits = bits
        self.rows = BITS // bits
        self._slots: dict[int, Peer] = {}
        self._distances: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def peers(self) -> Iterable[Peer]:
        """Every entry, in the order the slots were first filled."""
        return self._slots.values()

    @property
    def depth(self) -> int:
        """How many rows there are down to the last populated one."""
        return (max(self._slots) >> self.bits) + 1 if self._slots else 0

    def slot(self, id_: Id) -> int:
        """Where a node belongs. Meaningless for this node's own id."""
        # ids.shared_digits and ids.digit in one: joins ask this a thousand times each.
        bits = self.bits
        row = (BITS - (self.me ^ id_).bit_length()) // bits
        column = (id_ >> (BITS - bits * (row + 1))) & ((1 << bits) - 1)
        return (row << bits) | column

    def span(self, slot: int) -> tuple[Id, Id]:
        """The smallest and the largest id that belong into a slot."""
        row, column = slot >> self.bits, slot & ((1 << self.bits) - 1)
        below = BITS - self.bits * (row + 1)
        prefix = self.me >> (below + self.bits) << self.bits | column
        return Id(prefix << below), Id(((prefix + 1) << below) - 1)

    def at(self, row: int, column: int) -> Peer | None:
        """The entry of a slot."""
        return self._slots.get((row << self.bits) | column)

    def hop(self, key: Id) -> Peer | None:
        """The entry that shares one more digit with the key than this node does."""
        return self._slots.get(self.slot(key)) if key != self.me else None

    def row(self, number: int) -> tuple[Peer, ...]:
        """The entries of a row, by column."""
        first = number << self.bits
        slots = self._slots
        return tuple([slots[n] for n in range(first, first + (1 << self.bits)) if n in slots])

    def get(self, id_: Id) -> Peer | None:
        """The entry with this id."""
        entry = self._slots.get(self.slot(id_)) if id_ != self.me else None
        return entry if entry is not None and entry.id == id_ else None

    def distance(self, id_: Id) -> float:
        """The measured distance of an entry, or infinity."""
        return self._distances.get(self.slot(id_), inf) if self.get(id_) is not None else inf

    def reach(self, id_: Id) -> float:
        """The largest measured distance of an entry in the row that a node belongs into."""
        first = self.slot(id_) >> self.bits << self.bits
        known = self._distances
        return max((known.get(n, 0.0) for n in range(first, first + (1 << self.bits))), default=0.0)

    def wants(self, id_: Id) -> bool:
        """Whether the slot of this id is empty."""
        return id_ != self.me and self.slot(id_) not in self._slots

    def occupant(self, id_: Id) -> Peer | None:
        """Who has the slot of this id: that node, a rival, or nobody. Not for this node's own id."""
        return self._slots.get(self.slot(id_))

    def consider(self, peer: Peer, distance: float) -> bool:
        """Offer a node heard from or measured; whether it is new in the table now."""
        if peer.id == self.me:
            return False
        slot = self.slot(peer.id)
        entry = self._slots.get(slot)
        if entry is None:
            self._put(slot, peer, distance)
            return True
        if entry.id == peer.id:
            if peer.incarnation > entry.incarnation:
                self._slots[slot] = peer
            if distance < self._distances.get(slot, inf):
                self._distances[slot] = distance
            return False
        if distance >= self._distances.get(slot, inf):
            return False
        self._put(slot, peer, distance)
        return True

    def remove(self, id_: Id) -> bool:
        """Forget a node; whether it was an entry."""
        if self.get(id_) is None:
            return False
        slot = self.slot(id_)
        del self._slots[slot]
        self._distances.pop(slot, None)
        return True

    def _put(self, slot: int, peer: Peer, distance: float) -> None:
        self._slots[slot] = peer
        if distance < inf:
            self._distances[slot] = distance
        else:
            self._distances.pop(slot, None)
