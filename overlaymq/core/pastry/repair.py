"""Closing gaps after a failure (Scribe JSAC II-B; Pastry Middleware 2001; protocols.md 1.5, 1.8).

*Leaf set*: the extreme live member of the short side knows the nodes beyond; it is asked, and whom it
names is heard from before being added. If a whole side is gone, or nobody on it could help, the table's
nearest node that way is asked. Who is found so may be from anywhere: whether it is a neighbour, ``reach``
knows.

*Routing table*, lazily: another entry of the same row is asked for its entry of that slot, then entries of
the next row, which share as many digits and cover wider ground. First this node looks at what it knows.
A fitting member of the neighbourhood set is nearer than anybody who could be named. Leaves fit only slots
of so few nodes that the leaf set knows nearly all of them, and where it covers the slot's whole range and
has nobody for it, nobody exists. (The original asks in each case.)

*Hole patching* (FreePastry): a neighbour whose hop did not lengthen the prefix lacked an entry; it is sent
this node's row, not more often than the throttle allows.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from overlaymq.core.pastry.forwarding import lacked_entry
from overlaymq.core.pastry.leafset import HALF_RING
from overlaymq.ids import RING, digit, shared_digits
from overlaymq.messages import Row, RowOffer, SlotReply, SlotRequest, StateRequest

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

REPAIRS_KEPT = 64
PATCHED_KEPT = 64
OUTSIDERS_ASKED = 4
"""How many of each side when the nearest did not help: a guess. A node that was cut off finds out by them
that it is alone."""


class Repair:
    """``_repairs``: slot -> whom to ask, the one being asked last. ``_gap``: the leaf set when it was last
    asked to be filled."""

    __slots__ = ("_gap", "_patched", "_repairs", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._repairs: dict[int, list[Peer]] = {}
        self._patched: dict[Id, float] = {}
        self._gap: tuple[Peer, ...] = ()

    def after_loss(self, peer: Peer, slot: int | None, was_leaf: bool, was_neighbour: bool) -> None:
        """A node has left the tables."""
        state = self._state
        for waiting in [s for s, asked in self._repairs.items() if asked[-1].id == peer.id]:
            self._ask_next(waiting)
        if slot is not None and not self._refill(slot):
            self._start(slot)
        if was_neighbour:
            nearest = state.neighbourhood.peers[:1]
            for neighbour in nearest:
                serial = state.next_question(neighbour)
                state.send(neighbour, StateRequest(serial, neighbours=True))
        if was_leaf:
            state.liveness.tell_leaves()

    def close_gap(self, named: tuple[Peer, ...] = ()) -> None:
        """The leaf set has a gap. Whoever is named on the short side knows best who else there is; else its
        extreme is asked or, if none answers, the nearest outsider of that side."""
        state = self._state
        me = state.me.id
        for side, extreme in state.leaves.short_sides():
            beyond = [peer for peer in named if side * (peer.id - me) % RING < HALF_RING]
            if state.liveness.probe_named(tuple(beyond)):
                continue
            if extreme is not None and extreme.id not in state.suspects:
                state.liveness.probe(extreme)
            else:
                self.ask_outsiders(side, 1)

    def fill_leaf_set(self) -> None:
        """There is a gap, and no question is under way. Who was asked last time and could not help is not
        asked alone again: that would go on for ever."""
        state = self._state
        members = state.leaves.ring
        self.close_gap()
        if members == self._gap:
            for side in (1, -1):
                self.ask_outsiders(side)
        self._gap = members

    def ask_outsiders(self, side: int, count: int = OUTSIDERS_ASKED) -> None:
        """Probe the nearest nodes that way that are not in the leaf set."""
        state = self._state
        me = state.me.id
        outsiders = [peer for peer in state.table.peers if state.leaves.get(peer.id) is None]
        outsiders.sort(key=lambda peer: side * (peer.id - me) % RING)
        for peer in outsiders[:count]:
            state.liveness.probe(peer)

    def asked(self, peer: Peer, request: SlotRequest) -> None:
        """A node repairs its table; what this one knows fits if they share the row's prefix."""
        state = self._state
        table = state.table
        if not (0 <= request.row < table.rows and 0 <= request.column < 1 << table.bits):
            state.drop("pastry: a slot that cannot be")
            return
        shared = shared_digits(state.me.id, peer.id, table.bits)
        entry = table.at(request.row, request.column) if shared >= request.row else None
        state.send(peer, SlotReply(request.row, request.column, entry))

    def answered(self, peer: Peer, reply: SlotReply) -> None:
        """The answer to this node's own question; anything else is ignored."""
        state = self._state
        slot = (reply.row << state.table.bits) | reply.column
        asked = self._repairs.get(slot)
        if asked is None or asked[-1].id != peer.id:
            state.drop("pastry: an answer nobody asked for")
            return
        entry = reply.entry
        if entry is None or entry.id in state.failed or entry.id == state.me.id:
            self._ask_next(slot)
        elif state.table.slot(entry.id) != slot:
            state.drop("pastry: an entry of another slot")
            self._ask_next(slot)
        else:
            del self._repairs[slot]
            if state.table.wants(entry.id):
                state.measure(entry)

    def patch_hole(self, previous: Peer, key: Id) -> None:
        """Send the previous hop the row in which it lacked an entry."""
        state = self._state
        bits = state.table.bits
        row = lacked_entry(previous, state.me, key, bits)
        if row is None or state.leaves.get(previous.id) is not None or row >= state.table.rows:
            return
        if state.table.at(row, digit(key, row, bits)) is None:
            return
        patched_at = self._patched.pop(previous.id, None)
        if patched_at is not None and state.now - patched_at < state.config.hole_patch_every:
            self._patched[previous.id] = patched_at
            return
        if len(self._patched) >= PATCHED_KEPT:
            del self._patched[next(iter(self._patched))]
        self._patched[previous.id] = state.now
        state.send(previous, RowOffer(Row(row, state.table.row(row))))

    def _refill(self, slot: int) -> bool:
        """Whether what this node knows settles who is to be in a slot."""
        state = self._state
        table, suspects = state.table, state.suspects
        for distance, neighbour in state.neighbourhood.entries:
            if table.slot(neighbour.id) == slot and neighbour.id not in suspects:
                table.consider(neighbour, distance)
                return True
        found = False
        for leaf in state.leaves.members:
            doubtful = leaf.id in suspects or leaf.id in state.arrivals
            if table.slot(leaf.id) == slot and not doubtful:
                table.consider(leaf, inf)
                state.measure(leaf)
                found = True
        low, high = table.span(slot)
        within = state.reach.covers(low) and state.reach.covers(high)
        return found or (within and state.leaves.span(low, high))

    def _start(self, slot: int) -> None:
        state = self._state
        # A repair that is under way starts anew: its question may have been lost.
        self._repairs.pop(slot, None)
        if len(self._repairs) >= REPAIRS_KEPT:
            # Should its answer come, that is counted then.
            del self._repairs[next(iter(self._repairs))]
        row = slot >> state.table.bits
        candidates = list(state.table.row(row + 1)) if row + 1 < state.table.rows else []
        state.random.shuffle(candidates)
        same_row = list(state.table.row(row))
        state.random.shuffle(same_row)
        # Asked from the end. The first one stands for the node just lost.
        self._repairs[slot] = [*candidates, *same_row, state.me]
        self._ask_next(slot)

    def _ask_next(self, slot: int) -> None:
        state = self._state
        asked = self._repairs[slot]
        asked.pop()
        while asked and (state.known(asked[-1].id) is None or asked[-1].id in state.suspects):
            asked.pop()
        if not asked or slot_filled(state, slot):
            del self._repairs[slot]
            return
        bits = state.table.bits
        state.send(asked[-1], SlotRequest(slot >> bits, slot & ((1 << bits) - 1)))


def slot_filled(state: State, slot: int) -> bool:
    """Whether something else has filled the slot meanwhile."""
    bits = state.table.bits
    return state.table.at(slot >> bits, slot & ((1 << bits) - 1)) is not None
