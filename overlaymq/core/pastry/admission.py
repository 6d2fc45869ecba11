"""Letting others in: what the nodes on a join request's way do (Scribe JSAC II-B; protocols.md 1.4).

Each hop adds the rows of its table that fit the joiner and that no earlier hop has given; the node closest
to the joiner's id answers with them and with its leaf set.

An id that is live elsewhere is a copied key: a node that knows another handle of the joiner's id probes it
first, and refuses the joiner for good if it answers. At the same address the old one must be gone.
A node that is not active itself refuses for now.

Deviation: Pastry has a joiner whose id is taken choose another; here the id follows from the node's key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.ids import shared_digits
from overlaymq.messages import JoinRefused, JoinReply, JoinRequest, Routed, Row

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

DUELS_KEPT = 64
COPIED_KEY = "this node id is already live at another address: is the key file a copy?"


class Admission:
    """``_duels``: contested id -> (old handle, the waiting request)."""

    __slots__ = ("_duels", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._duels: dict[Id, tuple[Peer, Routed]] = {}

    def refuse_unready(self, joiner: Peer) -> None:
        """This node is not in the ring itself."""
        self._state.send(joiner, JoinRefused("the seed has not joined yet"))

    def may_pass(self, routed: Routed) -> bool:
        """Whether a join request goes on; not while its id may be live elsewhere."""
        state = self._state
        if not isinstance(routed.body, JoinRequest):
            return True
        joiner = routed.body.joiner
        if joiner.id == state.me.id:
            if joiner.address != state.me.address:
                state.send(joiner, JoinRefused(COPIED_KEY, fatal=True))
            return False
        old = state.known(joiner.id)
        if old is None or (old.address == joiner.address and old.incarnation == joiner.incarnation):
            return True
        if old.address == joiner.address:
            if old.incarnation < joiner.incarnation:
                state.liveness.died(old)
            return True
        self._begin_duel(old, routed)
        return False

    def _begin_duel(self, old: Peer, routed: Routed) -> None:
        state = self._state
        if old.id not in self._duels and len(self._duels) >= DUELS_KEPT:
            state.drop("pastry: too many contested ids")
            return
        self._duels[old.id] = (old, routed)
        if not state.liveness.probe(old):
            del self._duels[old.id]

    def old_handle_answered(self, peer: Peer) -> None:
        """The node whose id was claimed lives: the claimant has a copy of its key."""
        duel = self._duels.get(peer.id)
        if duel is None or duel[0].address != peer.address:
            return
        routed = self._duels.pop(peer.id)[1]
        if isinstance(routed.body, JoinRequest):
            self._state.send(routed.body.joiner, JoinRefused(COPIED_KEY, fatal=True))

    def old_handle_died(self, peer: Peer) -> None:
        """The node whose id was claimed is gone: the request may go on."""
        duel = self._duels.pop(peer.id, None)
        if duel is not None:
            self._state.forwarding.move(duel[1])

    def with_rows(self, routed: Routed) -> Routed:
        """Add the rows of this node that fit the joiner and no earlier hop has given."""
        request = routed.body
        if not isinstance(request, JoinRequest):
            return routed
        rows = self._rows_for(request)
        return Routed(
            routed.key,
            routed.source,
            routed.serial,
            routed.hops,
            JoinRequest(request.joiner, rows),
            routed.randomize,
            routed.origin_serial,
        )

    def accept(self, request: JoinRequest) -> None:
        """This node is the closest to the joiner: let it in."""
        state = self._state
        rows = self._rows_for(request)
        leaves = tuple(leaf for leaf in state.leaves.ring if leaf.id != request.joiner.id)
        state.send(request.joiner, JoinReply(rows, leaves))

    def _rows_for(self, request: JoinRequest) -> tuple[Row, ...]:
        state = self._state
        table = state.table
        if len(request.rows) > table.rows:
            state.drop("pastry: too many rows")
            return ()
        given = len(request.rows)
        shared = shared_digits(state.me.id, request.joiner.id, table.bits)
        if shared >= table.rows:
            return request.rows
        added = [Row(number, table.row(number)) for number in range(given, shared)]
        # This node itself belongs into the last row it can give.
        if shared >= given:
            added.append(Row(shared, (*table.row(shared), state.me)))
        return (*request.rows, *added)
