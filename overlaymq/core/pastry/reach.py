"""How far a node knows everybody: what makes the nearest leaf a neighbour.

A leaf set says who is there, not that nobody else is. While at most l/2 - 1 adjacent nodes fail, the
difference does not show: the extreme leaf names those beyond it. If l/2 fail together, a whole half is
gone, and the nearest node that is left on that side may be anywhere; members from afar are in the set
already, as they came to help with the repair. Taking the nearest for the neighbour would leap over all who
live between the two. So a node keeps, for each side, its *reach*:

    Every active node of this ring within the reach is in the leaf set, or was verified dead by this node.

A member is a neighbour only if it is within reach. Only then is a lease asked of it or granted to it
(``leases``), and only keys between members within reach are known to have their owner in the leaf set. A side
without a neighbour is *torn*: nothing on it is answered for.

- Who founds a ring reaches all around. A joiner reaches no farther than its own id.
- A leaf probe and its answer carry the sender's reach with its leaf set. If it touches this node's, this one
  reaches as far as both together, but ends before the first node that was named to it and is not in its leaf
  set. Those being probed end it only until they have answered or are verified dead.
- A full leaf set drops the farther ones: the reach ends at its extremes.
- A death does not shorten it: that nobody is left there is known. The two ends of a gap of fewer than l nodes
  knew l/2 of them each, and so one in common: at their first contact they prove to be neighbours.

None of these adds what nobody knew, and whoever is in the reach of a node is named by it: by induction no two
neighbours leap over a third. Who joins later is confirmed by all whose reach it is in (``join``).

*A gap of l or more* has a middle that nobody reaches. A torn end asks everyone it knows, once, and then the
nearest nodes, again and again; each names those that are nearer, until the nearest is found. There may be
more than one gap, with live nodes between them who have not found out yet: these seek as well, and know
within a lease and a round of probes that they are torn. So only a side that has been torn for that long
(``search_seconds``) takes the nearest node that it has found, when that one answers once more and names
nobody between the two. Whom neither knows even so is in a ring of its own, and ``maintenance`` heals that.

Deviation: Pastry gives up at l/2 adjacent failures; FreePastry and MSPastry take the nearest node they know.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from overlaymq.ids import RING, Id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overlaymq.config import PastryConfig
    from overlaymq.core.pastry.state import State
    from overlaymq.messages import Peer

SIDES = (1, -1)
"""Clockwise and counter-clockwise."""
ALL_AROUND = RING - 1


def search_seconds(config: PastryConfig) -> float:
    """How long a torn side looks for nodes in a gap that nobody knows all of."""
    return config.lease + config.probe_timeout * (config.probe_retries + 1)


class Reach:
    """``_before`` and ``_after``: how far, counter-clockwise and clockwise, but for ``_unheard``, who are
    being probed. ``_torn``: since when a side (clockwise first) has no neighbour. ``_sought``: everyone
    known has been asked."""

    __slots__ = ("_after", "_before", "_seeking", "_sought", "_state", "_torn", "_unheard")

    def __init__(self, state: State) -> None:
        self._state = state
        self._before = self._after = 0
        self._unheard: tuple[Id, ...] = ()
        self._torn: tuple[float | None, float | None] = (None, None)
        self._seeking = self._sought = False

    # --- what it is --------------------------------------------------------------------------------

    def known(self) -> tuple[int, int]:
        """How far this node knows everybody, counter-clockwise and clockwise."""
        if self._unheard:
            self._look_at_unheard()
        before, after = self._before, self._after
        for id_ in self._unheard:
            before, after = self._ends_before(id_, before, after)
        return before, after

    @property
    def whole(self) -> bool:
        """Whether this node knows everybody there is."""
        before, after = self.known()
        return before + after >= ALL_AROUND

    @property
    def torn(self) -> bool:
        """Whether a side has no neighbour, though there may be one."""
        return not self.whole and (self.left is None or self.right is None)

    @property
    def right(self) -> Peer | None:
        """The neighbour clockwise, if it is known who that is."""
        leaves = self._state.leaves
        return leaves.right if leaves.offsets and leaves.offsets[0] <= self.known()[1] else None

    @property
    def left(self) -> Peer | None:
        """The neighbour counter-clockwise, if it is known who that is."""
        leaves = self._state.leaves
        near = leaves.offsets and RING - leaves.offsets[-1] <= self.known()[0]
        return leaves.left if near else None

    def beside(self, id_: Id) -> bool:
        """Whether a node is a neighbour."""
        return any(peer is not None and peer.id == id_ for peer in (self.left, self.right))

    def covers(self, key: Id) -> bool:
        """Whether the owner of a key is known to be this node or a leaf."""
        before, after = self.known()
        if before + after >= ALL_AROUND:
            return True
        offsets = self._state.leaves.offsets
        offset = (key - self._state.me.id) % RING
        last = bisect_right(offsets, after)
        if not offset or (last and offset <= offsets[last - 1]):
            return True
        first = bisect_left(offsets, RING - before)
        return first < len(offsets) and offset >= offsets[first]

    def in_gap(self, key: Id) -> bool:
        """Whether a key lies on a torn side, before the nearest member there."""
        if not self.torn:
            return False
        offsets = self._state.leaves.offsets
        offset = (key - self._state.me.id) % RING
        if not offsets:
            return True
        return (self.right is None and offset < offsets[0]) or (
            self.left is None and offset > offsets[-1]
        )

    # --- how it changes ----------------------------------------------------------------------------

    def found_ring(self) -> None:
        """There is nobody else, or somebody else knows that the leaf set is exact."""
        self._before = self._after = ALL_AROUND
        self._unheard = ()
        self.leaves_changed()

    def clear(self) -> None:
        """This node is not in the ring any more."""
        self._before = self._after = 0
        self._unheard = ()

    def leaves_changed(self) -> None:
        """A full leaf set may have dropped somebody. A side may have lost its neighbour."""
        leaves = self._state.leaves
        if leaves.full:
            self._after = min(self._after, leaves.offsets[leaves.half - 1])
            self._before = min(self._before, RING - leaves.offsets[leaves.half])
        self._watch()

    def told(self, peer: Peer, before: int, after: int, named: tuple[Peer, ...]) -> None:
        """A node has told its reach and its leaf set; those fitting this node's are being probed."""
        if self._complete():
            return
        # In a small ring it may be within reach on one side and be found across a gap on the other.
        self._bridge(peer)
        grown = self._joined((peer.id - self._state.me.id) % RING, before, after)
        if grown is None or grown == (self._before, self._after):
            return
        for other in (peer, *named):
            grown = self._allow_for(other, grown)
        self._before, self._after = grown
        self._state.on_leaves_changed()

    def _joined(self, place: int, before: int, after: int) -> tuple[int, int] | None:
        """This node's reach and that of another, if they touch. On a ring they may do so on both sides."""
        mine, touch = (self._before, self._after), False
        for at in (place, place - RING):
            if at - before <= mine[1] + 1 and at + after >= -mine[0] - 1:
                touch = True
                mine = max(mine[0], before - at), max(mine[1], at + after)
        if not touch:
            return None
        return (ALL_AROUND, ALL_AROUND) if sum(mine) >= ALL_AROUND else mine

    def _allow_for(self, peer: Peer, grown: tuple[int, int]) -> tuple[int, int]:
        state, id_ = self._state, peer.id
        if id_ == state.me.id or id_ in state.failed or state.leaves.get(id_) is not None:
            return grown
        shorter = self._ends_before(id_, *grown)
        if shorter == grown or self._ends_before(id_, self._before, self._after) != (
            self._before,
            self._after,
        ):
            # Beyond what is gained, or within what was known: it is to be confirmed like any newcomer.
            return grown
        if state.liveness.asks(id_):
            if id_ not in self._unheard:
                self._unheard = (*self._unheard, id_)
            return grown
        return shorter

    def awaits(self, id_: Id) -> bool:
        """Whether the reach ends before this node until it is verified."""
        return id_ in self._unheard

    def _look_at_unheard(self) -> None:
        state = self._state
        kept = []
        for id_ in self._unheard:
            if state.liveness.asks(id_):
                kept.append(id_)
            elif state.leaves.get(id_) is None and id_ not in state.failed:
                # It lives and did not say who else does.
                self._before, self._after = self._ends_before(id_, self._before, self._after)
        self._unheard = tuple(kept)

    def _ends_before(self, id_: Id, before: int, after: int) -> tuple[int, int]:
        offset = (id_ - self._state.me.id) % RING
        return min(before, RING - offset - 1), min(after, offset - 1)

    # --- torn sides --------------------------------------------------------------------------------

    def seek_due(self) -> None:
        """Ask who else there is beyond the reach."""
        state = self._state
        self._seeking = False
        if not state.joining.admitted:
            return
        if state.active and any(since is not None for since in self._torn):
            self._seek()
        for peer in self._beyond():
            state.liveness.probe(peer)
        self._watch()

    def _seek(self) -> None:
        state = self._state
        strangers = [peer for peer in state.everyone() if state.leaves.get(peer.id) is None]
        if not self._sought:
            self._sought = True
            for peer in strangers:
                state.liveness.probe(peer)
        elif strangers:
            for side in SIDES:
                state.repair.ask_outsiders(side)
        elif not len(state.leaves) and not state.liveness.probing and self._torn_long(1):
            self.found_ring()
            state.on_leaves_changed()

    def _beyond(self) -> Iterator[Peer]:
        """On each side that needs it the last member within reach, and the first that is not."""
        leaves = self._state.leaves
        before, after = self.known()
        last = bisect_right(leaves.offsets, after)
        if last < min(leaves.half, len(leaves)):
            yield from leaves.members[max(last - 1, 0) : last + 1]
        first = bisect_left(leaves.offsets, RING - before)
        if first > max(len(leaves) - leaves.half, 0):
            yield from leaves.members[first - 1 : first + 1]

    def _bridge(self, peer: Peer) -> None:
        """Take a node that has just spoken for the neighbour across a gap that nobody knows all of."""
        state, leaves = self._state, self._state.leaves
        bridged = False
        for side, nearest in ((1, leaves.right), (-1, leaves.left)):
            if nearest is None or nearest.id != peer.id or not self._torn_long(side):
                continue
            distance = side * (peer.id - state.me.id) % RING
            known = [*[other.id for other in state.everyone()], *state.liveness.asked()]
            if any(0 < side * (id_ - state.me.id) % RING < distance for id_ in known):
                continue
            bridged = True
            if side > 0:
                self._after = max(self._after, distance)
            else:
                self._before = max(self._before, distance)
        if bridged:
            if self._before + self._after >= ALL_AROUND:
                self._before = self._after = ALL_AROUND
            state.on_leaves_changed()

    def _torn_long(self, side: int) -> bool:
        state = self._state
        since = self._torn[0 if side > 0 else 1]
        return (
            state.active and since is not None and state.now - since >= search_seconds(state.config)
        )

    def _watch(self) -> None:
        """Note which sides are torn, and see to it that somebody is asked while any is not complete."""
        state = self._state
        if not state.joining.admitted:
            self._torn = (None, None)
            return
        whole = self.whole
        now = state.now
        right, left = self._torn
        self._torn = (
            None if whole or self.right is not None else now if right is None else right,
            None if whole or self.left is not None else now if left is None else left,
        )
        if self._torn == (None, None):
            self._sought = False
        if not self._seeking and not self._complete():
            self._seeking = True
            state.set_timer("reach", state.config.probe_timeout)

    def _complete(self) -> bool:
        """Whether it goes all around, or to the extremes of a full leaf set."""
        before, after = self.known()
        if before + after >= ALL_AROUND:
            return True
        leaves = self._state.leaves
        if not leaves.full:
            return False
        return (
            after >= leaves.offsets[leaves.half - 1]
            and before >= RING - leaves.offsets[leaves.half]
        )
