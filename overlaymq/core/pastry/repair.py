"""Closing gaps after a failure (Scribe JSAC II-B; Pastry Middleware 2001; protocols.md 1.5, 1.8).

*Leaf set*: the extreme live member of the short side knows the nodes beyond; it is asked, and whom it
names is heard from before being added. If a whole side is gone, the table's nearest node that way is
asked instead.

*Routing table*, lazily: another entry of the same row is asked for its entry of that slot, then entries of
the next row, which share as many digits and cover wider ground.

*Hole patching* (FreePastry): a neighbour whose hop did not lengthen the prefix lacked an entry; it is sent
this node's row, not more often than the throttle allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.pastry.forwarding import lacked_entry
from overlaymq.ids import RING, digit, shared_digits
from overlaymq.messages import Row, RowOffer, SlotReply, SlotRequest, StateRequest

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

REPAIRS_KEPT = 64
PATCHED_KEPT = 64


class Repair:
    """``_repairs``: slot -> whom to ask, the one being asked last."""

    __slots__ = ("_patched", "_repairs", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._repairs: dict[int, list[Peer]] = {}
        self._patched: dict[Id, float] = {}

    def after_loss(self, peer: Peer, slot: int | None, was_leaf: bool, was_neighbour: bool) -> None:
        """A node has left the tables."""
        state = self._state
        for waiting in [s for s, asked in self._repairs.items() if asked[-1].id == peer.id]:
            self._ask_next(waiting)
        if slot is not None:
            self._start(slot)
        if was_neighbour:
            nearest = state.neighbourhood.peers[:1]
            for neighbour in nearest:
                serial = state.next_question(neighbour)
                state.send(neighbour, StateRequest(serial, neighbours=True))
        if was_leaf:
            state.liveness.tell_leaves()

    def fill_leaf_set(self) -> None:
        """The leaf set has a gap: ask the extremes and the nearest outsider of each side."""
        state = self._state
        for extreme in state.leaves.extremes():
            if extreme.id not in state.suspects:
                state.liveness.probe(extreme)
        outsiders = [peer for peer in state.table.peers if state.leaves.get(peer.id) is None]
        if outsiders:
            me = state.me.id
            state.liveness.probe(min(outsiders, key=lambda peer: (peer.id - me) % RING))
            state.liveness.probe(min(outsiders, key=lambda peer: (me - peer.id) % RING))

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
