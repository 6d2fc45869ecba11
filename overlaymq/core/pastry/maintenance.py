"""Periodic upkeep, locality, and healing (FreePastry; MSPastry; protocols.md 1.8, 1.9).

Each activity has its own period and a random phase: leaf gossip with a random leaf, an exchange of each row
with a random entry of it (locality, empty slots), a look at a random neighbour.

Distances are symmetric enough: a node that has measured another tells it the figure, so the other need not
measure (MSPastry). It does so if it kept the other, or if the other is nearer than the farthest of its own
row: then it may well be the nearest for a slot of the other's, which is how tables improve when nodes arrive
(deviation: MSPastry tells all that it measured). Hearsay enters the routing table only once it was measured.

*Healing*: nodes lost and the seeds are remembered. Now and then one of them is handed a leaf probe routed to
this node's own id. In one ring it comes back and nothing happens. In another ring it reaches the node
closest to us there, which then probes us: the two leaf sets merge, and each new member carries the
merge on to its neighbours, all around.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.messages import (
    Announce,
    Departing,
    Distance,
    LeafProbe,
    Row,
    RowOffer,
    StateReply,
    StateRequest,
)

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.messages import Peer

MAX_DISTANCE = 3600.0
ROWS_ASKED = 32
SEED_SHARE = 0.2
"""How often healing tries a seed when nobody was lost: two rings may never have met. A guess."""


class Maintenance:
    """See the module's text."""

    __slots__ = ("_lost", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._lost: list[Peer] = []

    def start(self) -> None:
        """This node is active."""
        config, random = self._state.config, self._state.random
        self._state.set_timer("gossip", config.leaf_gossip_every * random.random())
        self._state.set_timer("rows", config.row_exchange_every * random.random())
        self._state.set_timer("neighbours", config.neighbour_check_every * random.random())
        self._state.set_timer("heal", config.heal_every * (0.5 + random.random() / 2))

    # --- periodic ----------------------------------------------------------------------------------

    def gossip_due(self) -> None:
        """Exchange leaf sets with a random leaf."""
        state = self._state
        leaves = state.leaves.ring
        if leaves:
            state.liveness.probe(leaves[state.random.randrange(len(leaves))])
        state.set_timer("gossip", state.config.leaf_gossip_every)

    def rows_due(self) -> None:
        """Exchange each row with a random entry of it."""
        state = self._state
        for number in range(state.table.depth - 1, -1, -1):
            entries = state.table.row(number)
            if entries:
                entry = entries[state.random.randrange(len(entries))]
                state.send(entry, RowOffer(Row(number, entries), reply=True))
        state.set_timer("rows", state.config.row_exchange_every)

    def neighbours_due(self) -> None:
        """See whether a random neighbour still lives; its loss makes another be asked for its set."""
        state = self._state
        neighbours = state.neighbourhood.peers
        if neighbours:
            state.liveness.probe(neighbours[state.random.randrange(len(neighbours))])
        state.set_timer("neighbours", state.config.neighbour_check_every)

    def heal_due(self) -> None:
        """Look for a ring that this one was parted from."""
        state = self._state
        self._lost = lost = [peer for peer in self._lost if state.known(peer.id) is None]
        if not lost and state.random.random() < SEED_SHARE:
            lost = [peer for peer in state.joining.seeds if state.leaves.get(peer.id) is None]
        if lost:
            peer = lost[state.random.randrange(len(lost))]
            probe = LeafProbe(state.leaves.ring)
            state.send(peer, state.forwarding.original(state.me.id, probe))
        state.set_timer("heal", state.config.heal_every)

    def remember(self, peer: Peer) -> None:
        """A node was lost; it may be alive in another ring."""
        self._lost = [lost for lost in self._lost if lost.id != peer.id]
        self._lost.append(peer)
        del self._lost[: -self._state.config.heal_history]

    def met_by_routing(self, source: Peer) -> None:
        """A healing probe ended here: its source is not in this ring, or it would have ended there."""
        state = self._state
        if source.id != state.me.id:
            state.failed.pop(source.id, None)
            state.liveness.probe(source)

    # --- distances and hearsay ---------------------------------------------------------------------

    def learn(self, peer: Peer, eager: bool = False) -> None:
        """Hearsay: measure it if it fills a slot, or, when eager, if it might be nearer."""
        state = self._state
        if peer.id in state.failed or peer.id == state.me.id:
            return
        occupant = state.table.occupant(peer.id)
        if occupant is None or (eager and occupant.id != peer.id):
            state.measure(peer)

    def get_to_know(self, peer: Peer) -> None:
        """Measure a node in the tables whose distance nothing has shown, for the first deadline."""
        state = self._state
        if not state.active or state.forwarding.knows(peer.id):
            return
        if state.leaves.get(peer.id) is not None or state.table.get(peer.id) is not None:
            state.measure(peer)

    def measured(self, peer: Peer, seconds: float) -> None:
        """This node's own measurement."""
        state = self._state
        if state.measuring.pop(peer.id, None) is None or peer.id in state.failed:
            return
        if not state.measuring:
            # A join leaves it large, and a dict never shrinks.
            state.measuring = {}
        is_new = self._consider(peer, seconds)
        if is_new or state.known(peer.id) is not None:
            state.forwarding.takes(peer.id, seconds)
        if state.active and (is_new or seconds < state.table.reach(peer.id)):
            # Its row is like this one's: a node as near as that may be the nearest for one of its slots.
            state.send(peer, Distance(seconds))

    def told_distance(self, peer: Peer, message: Distance) -> None:
        """The other side's measurement."""
        if not 0 <= message.seconds <= MAX_DISTANCE:
            self._state.drop("pastry: a distance that cannot be")
            return
        self._consider(peer, message.seconds)
        forwarding = self._state.forwarding
        if self._state.known(peer.id) is not None and not forwarding.knows(peer.id):
            forwarding.takes(peer.id, message.seconds)

    def _consider(self, peer: Peer, seconds: float) -> bool:
        state = self._state
        is_entry = state.table.consider(peer, seconds)
        is_neighbour = state.neighbourhood.add(peer, seconds)
        return is_entry or is_neighbour

    # --- exchanges ---------------------------------------------------------------------------------

    def announced(self, peer: Peer, message: Announce) -> None:
        """A node has become active."""
        state = self._state
        state.failed.pop(peer.id, None)
        if peer.incarnation:
            state.neighbourhood.renew(peer)
        state.arrivals.joined(peer.id)
        if state.active:
            state.add_leaf(peer)
        elif state.leaves.admits(peer.id):
            # It must say that it has this joiner, too.
            state.liveness.probe(peer)
        state.leases.announced(peer)
        state.table.consider(peer, float("inf"))
        self.get_to_know(peer)
        for row in state.valid_rows(peer, message.rows):
            for entry in row.entries:
                self.learn(entry)

    def offered(self, peer: Peer, offer: RowOffer) -> None:
        """A row of another node: hole patching, or the periodic exchange."""
        state = self._state
        for row in state.valid_rows(peer, (offer.row,)):
            if offer.reply:
                own = Row(row.number, state.table.row(row.number))
                state.send(peer, RowOffer(own))
            for entry in row.entries:
                self.learn(entry, eager=True)

    def asked(self, peer: Peer, request: StateRequest) -> None:
        """Give parts of this node's state."""
        state = self._state
        table = state.table
        wanted = request.rows[:ROWS_ASKED]
        if len(request.rows) > ROWS_ASKED or any(not 0 <= n < table.rows for n in wanted):
            state.drop("pastry: rows that cannot be")
            return
        state.send(
            peer,
            StateReply(
                request.serial,
                table.depth,
                tuple([Row(number, table.row(number)) for number in wanted]),
                state.leaves.ring if request.leaves else (),
                state.neighbourhood.peers if request.neighbours else (),
            ),
        )

    def state_reply(self, peer: Peer, reply: StateReply) -> None:
        """Second-stage locality, or the repair of the neighbourhood set."""
        state = self._state
        if state.joining.state_reply(peer, reply):
            return
        if state.asked.pop(reply.serial, None) != peer.id:
            state.drop("pastry: an answer nobody asked for")
            return
        if not state.asked:
            state.asked = {}
        for row in state.valid_rows(peer, reply.rows):
            for entry in row.entries:
                self.learn(entry, eager=True)
        for neighbour in state.listed(reply.neighbours, "neighbourhood"):
            if neighbour.id not in state.failed and state.neighbourhood.get(neighbour.id) is None:
                state.measure(neighbour)

    def leave(self) -> None:
        """Tell everyone that might use this node."""
        state = self._state
        goodbye = Departing(state.leaves.ring)
        for peer in state.everyone():
            state.send(peer, goodbye)
        state.active = False
