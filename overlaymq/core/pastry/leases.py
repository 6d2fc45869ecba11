"""Leases: the right to answer for keys, given by the two neighbours on the ring, for a while.

Confirmation (``join``) keeps one owner a key as long as no live node is declared dead. Messages get lost,
processes stall and networks part, so live nodes are. FreePastry closes that gap with leases
(PeriodicLeafSetProtocol; protocols.md 1.7), and so does this module:

- A node asks its left and its right neighbour every ``heartbeat_every`` seconds. The question is also its
  heartbeat, and an answer that does not come starts a probe, so the two share their cost.
- A neighbour grants the lease only if no other node is between the two in *its* leaf set, and it knows
  everybody there (``reach``). Otherwise it probes the one who asked, and the two leaf sets are brought
  together. Nor is anybody asked who may not be the neighbour.
- Whoever has granted a lease does not remove the other before it has run out, however dead it looks,
  unless the other says goodbye or its machine says that the process is gone.
- A node answers for a key only under a lease from the neighbour on the key's side, and only if it is
  nearer to the key than whoever granted it. Messages for other keys of its range wait.

So two nodes that answer for keys next to each other have agreed that they are neighbours, and a node that
was declared dead has stopped to answer before anybody takes its keys. The question carries the asker's
clock and the answer returns it: a lease counts from when it was asked for, by the clock of who holds it, and
from when it was granted by the clock of who gave it. Clocks need not agree, only run about equally fast.

Deviations: FreePastry asks every 20 s for 30 s, whoever asks is granted it, and a node without both leases
is not ready for any key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.pastry.leafset import HALF_RING
from overlaymq.ids import RING, rank
from overlaymq.messages import Departing, Heartbeat, Lease

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

HELD_SHARE = 0.9
"""How much of a lease its holder uses: clocks may run a tenth apart. A guess."""
PROMISES_KEPT = 32
"""Neighbours change when nodes arrive; a guess above any honest number of them within one lease."""


class Leases:
    """``_left`` and ``_right``: who granted the lease of that side, and when it was asked for.
    ``_promises``: to whom this node has granted one, and until when."""

    __slots__ = (
        "_asked_at",
        "_asked_left",
        "_asked_right",
        "_left",
        "_promises",
        "_right",
        "_round",
        "_state",
    )

    def __init__(self, state: State) -> None:
        self._state = state
        self._left: tuple[Id, float] | None = None
        self._right: tuple[Id, float] | None = None
        self._asked_left: Id | None = None
        self._asked_right: Id | None = None
        self._asked_at = 0.0
        self._round = 0
        self._promises: dict[Id, float] = {}

    # --- holding -----------------------------------------------------------------------------------

    def cover(self, key: Id, now: float) -> bool:
        """Whether this node may answer for a key that is in its range."""
        state = self._state
        if not len(state.leaves):
            return state.reach.whole
        me = state.me.id
        lease = self._right if (key - me) % RING < HALF_RING else self._left
        if lease is None:
            return False
        grantor, asked_at = lease
        if now >= asked_at + HELD_SHARE * state.config.lease:
            return False
        return rank(key, me) < rank(key, grantor)

    def start(self) -> None:
        """This node is active."""
        state = self._state
        self._ask()
        state.set_timer("heartbeat", state.config.heartbeat_every * state.random.random())

    def adopt(self, asked_at: float) -> None:
        """Take it that both neighbours were asked then, and have granted and asked in turn."""
        reach, lease = self._state.reach, self._state.config.lease
        left, right = reach.left, reach.right
        if left is not None and right is not None:
            self._left, self._right = (left.id, asked_at), (right.id, asked_at)
            self._promises = {left.id: asked_at + lease, right.id: asked_at + lease}

    def clear(self) -> None:
        """This node is no longer in the ring. What it promised, it keeps."""
        self._left = self._right = None
        self._asked_left = self._asked_right = None

    def heartbeat_due(self) -> None:
        """Ask both neighbours."""
        self._ask()
        self._state.liveness.forget_old_failures()
        self._state.set_timer("heartbeat", self._state.config.heartbeat_every)

    def leaves_changed(self) -> None:
        """A new neighbour is asked at once."""
        state = self._state
        if not state.active:
            return
        left, right = state.reach.left, state.reach.right
        new = (left is not None and left.id != self._asked_left) or (
            right is not None and right.id != self._asked_right
        )
        if new:
            self._ask()

    def retry_due(self, round_: int) -> None:
        """Ask again whom no answer came from, and see whether it lives."""
        state = self._state
        if round_ != self._round:
            return
        silent = self._silent()
        for peer in silent:
            self._beat(peer)
            state.liveness.probe(peer)
        if silent:
            self._set_retry()

    def announced(self, peer: Peer) -> None:
        """A neighbour has become active, and may have been asked before it could grant anything."""
        if self._state.active and any(silent.id == peer.id for silent in self._silent()):
            self._beat(peer)

    def granted(self, peer: Peer, lease: Lease) -> None:
        """A neighbour's answer."""
        state = self._state
        state.hear_rider(peer, lease.digest)
        if not state.now - state.config.lease <= lease.asked_at <= state.now:
            state.drop("pastry: a lease that nobody asked for")
            return
        left, right = state.reach.left, state.reach.right
        record = (peer.id, lease.asked_at)
        if left is not None and left.id == peer.id:
            self._left = record
        if right is not None and right.id == peer.id:
            self._right = record
        if state.forwarding.held:
            state.release_due = True

    def _ask(self) -> None:
        state = self._state
        left, right = state.reach.left, state.reach.right
        self._asked_left = None if left is None else left.id
        self._asked_right = None if right is None else right.id
        self._asked_at = state.now
        if left is None and right is None:
            self.clear()
            return
        if left is not None:
            self._beat(left)
        if right is not None and right.id != self._asked_left:
            self._beat(right)
        self._set_retry()

    def _beat(self, peer: Peer) -> None:
        state = self._state
        state.send(peer, Heartbeat(state.now, state.rider.digest(peer.id, state.now)))

    def _silent(self) -> list[Peer]:
        reach = self._state.reach
        silent: dict[Id, Peer] = {}
        for peer, lease in ((reach.left, self._left), (reach.right, self._right)):
            if peer is not None:
                grantor, asked_at = lease or (None, 0.0)
                if grantor != peer.id or asked_at < self._asked_at:
                    silent[peer.id] = peer
        return list(silent.values())

    def _set_retry(self) -> None:
        self._round += 1
        self._state.set_timer("lease", self._state.config.probe_timeout, 0, self._round)

    # --- granting ----------------------------------------------------------------------------------

    def asked(self, peer: Peer, question: Heartbeat) -> None:
        """A node takes this one for its neighbour."""
        state = self._state
        if not state.joining.admitted:
            # Whoever asks has this node in its leaf set.
            state.send(peer, Departing())
            return
        leaves = state.leaves
        if state.reach.beside(peer.id):
            if self._promise(peer.id):
                digest = state.rider.digest(peer.id, state.now)
                state.send(peer, Lease(question.asked_at, digest))
        elif leaves.get(peer.id) is not None or leaves.admits(peer.id):
            state.failed.pop(peer.id, None)
            state.liveness.probe(peer)

    def promised(self, id_: Id) -> float:
        """How long this node must still keep another, in seconds."""
        return self._promises.get(id_, 0.0) - self._state.now

    def release(self, id_: Id) -> None:
        """A node is certainly gone: no promise to it counts."""
        self._promises.pop(id_, None)

    def _promise(self, id_: Id) -> bool:
        state = self._state
        promises = self._promises
        if id_ not in promises and len(promises) >= PROMISES_KEPT:
            for old in [other for other, until in promises.items() if until <= state.now]:
                del promises[old]
            if len(promises) >= PROMISES_KEPT:
                state.drop("pastry: too many leases granted")
                return False
        promises[id_] = state.now + state.config.lease
        return True
