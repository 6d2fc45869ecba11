"""The leaf set: the l/2 nearest nodes on each side of this one (Scribe JSAC II; Pastry Middleware 2001).

It makes routing correct (the last hop is chosen in it) and survives up to l/2 - 1 adjacent failures.

All members stand in one list, ordered by how far they are clockwise. Its first l/2 are the clockwise
half, its last l/2 the counter-clockwise one, so each half is ordered and independent of the other, and
with fewer than l members the halves overlap by construction. A node that is in neither half is dropped.

Fewer than l members can mean two things: the ring is that small and every node is known, or a failure
has left a gap; and after more failures than that the nearest member need not be the neighbour. The leaf set
alone cannot tell; ``reach`` can. Only nodes heard from directly may be added (MSPastry).

Deviation: FreePastry keeps two lists and lets a half stay short after a removal. Here the other half
moves up, and the difference is made by ``reach``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from overlaymq.ids import RING, rank

if TYPE_CHECKING:
    from collections.abc import Container

    from overlaymq.ids import Id
    from overlaymq.messages import Peer

HALF_RING = RING // 2


class LeafSet:
    """See the module's text. Positions count clockwise from the owner of the set, who is not in it."""

    __slots__ = ("_cached", "_offsets", "_peers", "half", "me")

    def __init__(self, me: Peer, size: int) -> None:
        self.me = me
        self.half = size // 2
        self._offsets: list[int] = []
        self._peers: list[Peer] = []
        self._cached: tuple[Peer, ...] | None = None

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def full(self) -> bool:
        """Whether both halves have all their members, and share none."""
        return len(self._peers) >= 2 * self.half

    @property
    def ring(self) -> tuple[Peer, ...]:
        """The members clockwise, from the farthest counter-clockwise one."""
        if self._cached is None:
            split = self._split()
            self._cached = (*self._peers[split:], *self._peers[:split])
        return self._cached

    @property
    def members(self) -> list[Peer]:
        """The members by clockwise offset. Not a copy."""
        return self._peers

    @property
    def offsets(self) -> list[int]:
        """How far clockwise each of the members is. Not a copy."""
        return self._offsets

    @property
    def clockwise(self) -> list[Peer]:
        """The clockwise half, nearest first."""
        return self._peers[: self.half]

    @property
    def counterclockwise(self) -> list[Peer]:
        """The counter-clockwise half, nearest first."""
        return self._peers[::-1][: self.half]

    @property
    def right(self) -> Peer | None:
        """The nearest clockwise neighbour."""
        return self._peers[0] if self._peers else None

    @property
    def left(self) -> Peer | None:
        """The nearest counter-clockwise neighbour."""
        return self._peers[-1] if self._peers else None

    def get(self, id_: Id) -> Peer | None:
        """The member with this id."""
        offset = (id_ - self.me.id) % RING
        index = bisect_left(self._offsets, offset)
        if index < len(self._offsets) and self._offsets[index] == offset:
            return self._peers[index]
        return None

    def admits(self, id_: Id) -> bool:
        """Whether a node with this id would become a member."""
        offset = (id_ - self.me.id) % RING
        if not offset:
            return False
        index = bisect_left(self._offsets, offset)
        if index < len(self._offsets) and self._offsets[index] == offset:
            return False
        return not self.full or index != self.half

    def pick(self, peers: list[Peer]) -> list[Peer]:
        """Which of these would be members if all of them were added."""
        trial = LeafSet(self.me, 2 * self.half)
        trial._offsets, trial._peers = self._offsets.copy(), self._peers.copy()
        for peer in peers:
            trial.add(peer)
        return [peer for peer in peers if trial.get(peer.id) is not None]

    def add(self, peer: Peer) -> bool:
        """Add a node heard from directly, or renew its handle. Whether the set changed."""
        offset = (peer.id - self.me.id) % RING
        if not offset:
            return False
        index = bisect_left(self._offsets, offset)
        if index < len(self._offsets) and self._offsets[index] == offset:
            return self._renew(index, peer)
        if self.full and index == self.half:
            return False
        self._offsets.insert(index, offset)
        self._peers.insert(index, peer)
        if len(self._peers) > 2 * self.half:
            del self._offsets[self.half], self._peers[self.half]
        self._cached = None
        return True

    def remove(self, id_: Id) -> bool:
        """Forget a node; whether it was a member."""
        offset = (id_ - self.me.id) % RING
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets) or self._offsets[index] != offset:
            return False
        del self._offsets[index], self._peers[index]
        self._cached = None
        return True

    def clear(self) -> None:
        """Forget everybody."""
        self._offsets, self._peers, self._cached = [], [], None

    def span(self, low: Id, high: Id) -> bool:
        """Whether all ids from one clockwise to the other lie between the extreme members."""
        if not self._peers:
            return False
        first, last = self.ring[0].id, self.ring[-1].id
        return (low - first) % RING + (high - low) % RING <= (last - first) % RING

    def closest(self, key: Id, absent: Container[Id] = ()) -> Peer:
        """The owner of the key among this node and the members, as if ``absent`` did not exist."""
        offset = (key - self.me.id) % RING
        index = bisect_left(self._offsets, offset)
        below = self._step(index - 1, -1, absent)
        above = self._step(index, 1, absent)
        return below if rank(key, below.id) < rank(key, above.id) else above

    def closest_many(self, key: Id, count: int) -> list[Peer]:
        """This node and the members, the closest to the key first."""
        return sorted([self.me, *self._peers], key=lambda peer: rank(key, peer.id))[:count]

    def short_sides(self) -> list[tuple[int, Peer | None]]:
        """The sides that lack members: 1 for clockwise or -1, and the farthest member there, if any."""
        split = self._split()
        peers = self._peers
        short: list[tuple[int, Peer | None]] = []
        if split < self.half:
            short.append((1, peers[split - 1] if split else None))
        if len(peers) - split < self.half:
            short.append((-1, peers[split] if split < len(peers) else None))
        return short

    def _step(self, index: int, step: int, absent: Container[Id]) -> Peer:
        while 0 <= index < len(self._peers):
            if self._peers[index].id not in absent:
                return self._peers[index]
            index += step
        return self.me

    def _split(self) -> int:
        # A member belongs to its nearer side, unless that half is full: then it came in by the other.
        nearer = bisect_left(self._offsets, HALF_RING + 1)
        return min(max(nearer, len(self._offsets) - self.half), self.half)

    def _renew(self, index: int, peer: Peer) -> bool:
        if self._peers[index].incarnation >= peer.incarnation:
            return False
        self._peers[index] = peer
        self._cached = None
        return True
