"""Arrival: finding a near seed, collecting tables along the route, being confirmed, announcing.

1. *Nearest seed* (MSR-TR-2002-82 by way of FreePastry's PNS): from the seed's leaf set and then its rows,
   from the deepest up, step to whichever node is nearest by measurement; repeat row 0 until it stays.
2. *Join request* (Scribe JSAC II-B): routed by that node to the joiner's own id. Each hop adds the rows
   that fit the joiner and are still missing; the last one answers with them and its leaf set.
3. *Confirmation* (MSPastry): every leaf is probed, and whoever they name. The joiner is in each of their
   leaf sets before it is active, so no key has two owners. Until then it holds what it is to deliver.
   Concurrent joiners learn of each other through the leaves they share.
4. *Announcement and second stage* (Pastry Middleware 2001): the rows go to the nodes in them, and with them
   their distance, also to the neighbourhood set, whose tables it improves most; each is asked for its own
   row, and nearer nodes found there replace farther ones.

Each step ends in bounded time. The search and the request go on through the next entrance: the seeds, then
any node this one has heard of, for seeds die too. A confirmation that takes longer than ``confirm_seconds``
ends with a goodbye to everybody who may have this node in its leaf set, the messages held are handed
back, and the next attempt begins with an empty leaf set, so that only its own confirmations count.

What the nodes on the way do is in ``admission``, what the leaves do meanwhile in ``arrivals``.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from overlaymq.core.pastry.arrivals import confirm_seconds
from overlaymq.events import Joined, JoinRejected
from overlaymq.messages import (
    Announce,
    Departing,
    Distance,
    JoinRefused,
    JoinReply,
    JoinRequest,
    Row,
    StateReply,
    StateRequest,
)

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

ROW_ZERO_ROUNDS = 8
SECOND_STAGE_ASKED = 64
CONTACTS_TRIED = 8
"""How many nodes known by hearsay a round of entrances has beside the seeds: a guess."""
REQUESTS = 2
"""Join requests sent in one search: by the nearest node found, then by the entrance itself."""


class Phase(Enum):
    """Where a node is on its way in."""

    IDLE = "idle"
    ASKING = "asking a node of the search for its state"
    MEASURING = "measuring the nodes it named"
    REQUESTED = "waiting for the join reply"
    CONFIRMING = "waiting for the leaf set"
    ACTIVE = "active"
    REFUSED = "refused"


class Joining:
    """See the module's text."""

    __slots__ = (
        "_asks",
        "_candidates",
        "_distances",
        "_entrance",
        "_near",
        "_requests",
        "_round",
        "_row",
        "_serial",
        "_state",
        "_tries",
        "_untried",
        "_waiting",
        "_zero_rounds",
        "phase",
        "seeds",
    )

    def __init__(self, state: State) -> None:
        self._state = state
        self.phase = Phase.IDLE
        self.seeds: tuple[Peer, ...] = ()
        self._entrance: Peer | None = None
        self._untried: list[Peer] = []
        self._requests = 0
        self._tries = 0
        self._asks = 0
        self._round = 0
        self._serial = 0
        self._row: int | None = None
        self._zero_rounds = 0
        self._near: Peer | None = None
        self._candidates: dict[Id, Peer] = {}
        self._distances: dict[Id, float] = {}
        self._waiting: set[Id] = set()

    @property
    def admitted(self) -> bool:
        """Whether this node may be in leaf sets: it is in the ring, or being confirmed."""
        return self._state.active or self.phase is Phase.CONFIRMING

    # --- the joiner --------------------------------------------------------------------------------

    def start(self, seeds: tuple[Peer, ...]) -> None:
        """Enter through one of the seeds, or found a ring."""
        if self.phase is not Phase.IDLE:
            return
        self.seeds = tuple(seed for seed in seeds if seed.id != self._state.me.id)
        if not self.seeds:
            self._state.reach.found_ring()
            self._activate()
        else:
            self._untried = list(self.seeds)
            self._search(self._untried.pop(0), self._state.config.probe_timeout)

    def state_reply(self, peer: Peer, reply: StateReply) -> bool:
        """Whether this answer belongs to the search."""
        if self.phase is not Phase.ASKING or reply.serial != self._serial:
            return False
        state = self._state
        if self._row is None:
            named = state.listed(reply.leaves, "leaf set")
            self._row = min(reply.depth, state.config.seed_search_rows, state.table.rows)
        else:
            rows = [row for row in reply.rows[:1] if row.number == self._row]
            named = state.listed(rows[0].entries, "row") if rows else ()
        self._measure((peer, *named))
        return True

    def measured(self, peer: Peer, seconds: float) -> None:
        """A distance for the search."""
        if self.phase is Phase.MEASURING and peer.id in self._waiting:
            self._distances[peer.id] = seconds
            self._waiting.discard(peer.id)
            if not self._waiting:
                self._choose()

    def peer_failed(self, peer: Peer) -> None:
        """A seed or a candidate cannot be reached."""
        if self.phase is Phase.MEASURING and peer.id in self._waiting:
            self._waiting.discard(peer.id)
            if not self._waiting:
                self._choose()
        elif self._near is not None and peer.id == self._near.id:
            if self.phase is Phase.ASKING:
                self._unreachable()
            elif self.phase is Phase.REQUESTED:
                self._wait(self._state.config.join_retry)

    def due(self, round_: int) -> None:
        """A step has taken too long."""
        if round_ != self._round:
            return
        if self.phase is Phase.MEASURING:
            self._choose()
        elif self.phase is Phase.ASKING:
            self._ask_again()
        elif self.phase is Phase.REQUESTED:
            self._tries += 1
            if self._requests < REQUESTS:
                self._near = self._entrance
                self._request()
            else:
                self._next_entrance()
        elif self.phase is Phase.CONFIRMING:
            self._start_over()

    def reply(self, peer: Peer, reply: JoinReply) -> None:
        """The closest node has let this one in."""
        if self.phase is not Phase.REQUESTED:
            return
        state = self._state
        self.phase = Phase.CONFIRMING
        self._wait(confirm_seconds(state.config))
        for leaf in state.listed(reply.leaves, "leaf set"):
            if leaf.id not in state.failed and leaf.id != state.me.id:
                state.liveness.probe(leaf)
        state.liveness.probe(peer)
        if len(reply.rows) > state.table.rows:
            state.drop("pastry: too many rows")
            return
        for row in reply.rows:
            for entry in state.listed(row.entries, "row"):
                state.maintenance.learn(entry)
        if self._near is not None:
            serial = state.next_question(self._near)
            state.send(self._near, StateRequest(serial, neighbours=True))

    def refused(self, peer: Peer, refusal: JoinRefused) -> None:
        """Not now, not by this node, or never."""
        if self.phase is Phase.REQUESTED:
            if refusal.fatal:
                self.phase = Phase.REFUSED
                self._state.notify(JoinRejected(refusal.reason))
            elif peer == self._near != self._entrance and self._requests < REQUESTS:
                self._near = self._entrance
                self._request()
        elif self.phase is Phase.CONFIRMING and self._state.leaves.get(peer.id) is not None:
            self._start_over()

    def leaf_set_confirmed(self) -> None:
        """Every leaf has answered, and there is no gap."""
        if self.phase is not Phase.CONFIRMING:
            return
        if len(self._state.leaves):
            self._activate()
        else:
            self._start_over()

    def become_active(self) -> None:
        """Deliver from now on. Nothing periodic starts by this."""
        state = self._state
        self.phase = Phase.ACTIVE
        state.active = True
        state.reach.leaves_changed()
        state.leaves_changed = True
        state.release_due = True
        state.notify(Joined())

    def _search(self, entrance: Peer, patience: float) -> None:
        self._entrance = self._near = entrance
        self._row = None
        self._zero_rounds = 0
        self._requests = 0
        # Who was near in an earlier search may be dead now.
        self._distances = {}
        self._ask(patience)

    def _ask(self, patience: float) -> None:
        self.phase = Phase.ASKING
        self._asks = 0
        self._send_question(patience)

    def _send_question(self, patience: float) -> None:
        near = self._near
        if near is None:
            return
        state = self._state
        if not self._asks:
            # Kept when the question is asked again: a far node's answer may be to the first try.
            self._serial = state.next_serial()
        self._asks += 1
        rows = () if self._row is None else (self._row,)
        state.send(near, StateRequest(self._serial, rows, leaves=self._row is None))
        self._wait(patience)

    def _ask_again(self) -> None:
        config = self._state.config
        if self._asks <= config.probe_retries:
            self._send_question(config.probe_timeout)
        else:
            self._unreachable()

    def _unreachable(self) -> None:
        # A search that has gone some way ends where it began: better a far way in than another search.
        near = self._near
        if near is not None:
            self._state.unlearn(near.id)
        if near == self._entrance:
            self._next_entrance()
        else:
            self._near = self._entrance
            self._request()

    def _measure(self, peers: tuple[Peer, ...]) -> None:
        state = self._state
        self.phase = Phase.MEASURING
        self._candidates = {peer.id: peer for peer in peers if peer.id != state.me.id}
        unknown = [p for p in self._candidates.values() if p.id not in self._distances]
        self._waiting = {peer.id for peer in unknown}
        for peer in unknown:
            state.measure(peer)
        if unknown:
            self._wait(state.config.probe_timeout)
        else:
            self._choose()

    def _choose(self) -> None:
        previous = self._near
        reached = [p for p in self._candidates.values() if p.id in self._distances]
        if reached:
            self._near = min(reached, key=lambda peer: (self._distances[peer.id], peer.id))
            nearest = self._distances[self._near.id]
            # A node as near as the last one is no reason to move.
            if previous is not None and self._distances.get(previous.id, inf) <= nearest:
                self._near = previous
        row = self._row or 0
        if row > 0:
            self._row = row - 1
            self._ask(self._state.config.probe_timeout)
        elif self._near != previous and self._zero_rounds < ROW_ZERO_ROUNDS:
            self._row = 0
            self._zero_rounds += 1
            self._ask(self._state.config.probe_timeout)
        else:
            self._request()

    def _request(self) -> None:
        state = self._state
        if self._near is None:
            return
        self.phase = Phase.REQUESTED
        self._requests += 1
        request = JoinRequest(state.me)
        state.send(self._near, state.forwarding.original(state.me.id, request))
        self._wait(self._backoff())

    def _next_entrance(self) -> None:
        patience = self._state.config.probe_timeout
        if not self._untried:
            # All were tried: the next round is more patient.
            self._tries += 1
            patience = self._backoff()
            self._untried = [*self.seeds, *self._contacts()]
        self._search(self._untried.pop(0), patience)

    def _contacts(self) -> list[Peer]:
        state = self._state
        seeds = {seed.id for seed in self.seeds}
        known = [peer for peer in state.everyone() if peer.id not in seeds]
        state.random.shuffle(known)
        return known[:CONTACTS_TRIED]

    def _start_over(self) -> None:
        """Leave every leaf set this node may be in, and try again by the nodes it has met."""
        state = self._state
        self.phase = Phase.ASKING
        leaves = tuple([leaf for leaf in state.leaves.ring if leaf.id not in state.suspects])
        told = {peer.id: peer for peer in (*state.leaves.ring, *state.liveness.abandon())}
        for peer in told.values():
            state.send(peer, Departing())
        state.forwarding.hand_back(leaves)
        state.empty_leaf_set()
        self._untried = [*leaves[:CONTACTS_TRIED], *self._untried]
        self._next_entrance()

    def _backoff(self) -> float:
        config = self._state.config
        return min(config.join_retry * (1 << min(self._tries, 30)), config.join_retry_max)

    def _wait(self, seconds: float) -> None:
        self._round += 1
        self._state.set_timer("join", seconds, 0, self._round)

    def _activate(self) -> None:
        self.become_active()
        self._candidates, self._distances, self._waiting = {}, {}, set()
        self._state.leases.start()
        self._state.maintenance.start()
        self._announce()

    def _announce(self) -> None:
        state = self._state
        table = state.table
        rows = [Row(number, table.row(number)) for number in range(table.depth)]
        told = tuple(state.everyone())
        for peer in told:
            distance = min(table.distance(peer.id), state.neighbourhood.distance(peer.id))
            if distance < inf:
                state.send(peer, Distance(distance))
            is_entry = table.get(peer.id) is not None
            row = table.slot(peer.id) >> table.bits
            state.send(peer, Announce((rows[row],) if is_entry else ()))
        for peer in told[-SECOND_STAGE_ASKED:]:
            number = table.slot(peer.id) >> table.bits
            serial = state.next_question(peer)
            state.send(peer, StateRequest(serial, (number,)))
