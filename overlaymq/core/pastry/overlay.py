"""Pastry, composed of its parts: one object that takes inputs and yields effects.

``handle`` dispatches an input, then does once what the parts only marked as due: held messages are tried
again, and the application hears of a changed leaf set. Nothing here waits, logs or reads a clock.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from overlaymq import messages as m
from overlaymq.core.pastry.admission import Admission
from overlaymq.core.pastry.arrivals import Arrivals
from overlaymq.core.pastry.forwarding import Forwarding
from overlaymq.core.pastry.join import Joining
from overlaymq.core.pastry.leases import Leases
from overlaymq.core.pastry.liveness import Liveness
from overlaymq.core.pastry.maintenance import Maintenance
from overlaymq.core.pastry.reach import Reach
from overlaymq.core.pastry.repair import Repair
from overlaymq.core.pastry.routing import Way, next_hop
from overlaymq.core.pastry.state import Counters, State
from overlaymq.events import Join, LeafsChanged, Leave, Measured, PeerFailed, Received, TimerFired
from overlaymq.ids import Id
from overlaymq.messages import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from overlaymq.config import PastryConfig
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.pastry.application import Application
    from overlaymq.core.pastry.rider import Rider
    from overlaymq.events import Timer
    from overlaymq.messages import Message

PastryInput: TypeAlias = Received | TimerFired | PeerFailed | Measured | Join | Leave

# What a node may send before it is in the ring says nothing about whose handle is the current one.
FROM_OUTSIDERS = (m.StateRequest, m.JoinRefused, m.Routed, m.RoutedAck)


class PastrySnapshot(msgspec.Struct, frozen=True):
    """Pastry's state for `status`. ``hops[n]`` counts messages delivered here after n hops."""

    me: Peer
    active: bool
    phase: str
    leaves: tuple[Peer, ...]
    rows: int
    entries: int
    neighbours: tuple[Peer, ...]
    suspects: tuple[Peer, ...]
    held: int
    hops: tuple[int, ...]
    counters: Counters


class Pastry:
    """See the module's text."""

    __slots__ = ("_left", "state")

    def __init__(
        self, me: Peer, config: PastryConfig, random: Random, application: Application
    ) -> None:
        self.state = state = State(me, config, random, application)
        state.reach = Reach(state)
        state.leases = Leases(state)
        state.liveness = Liveness(state)
        state.forwarding = Forwarding(state)
        state.repair = Repair(state)
        state.joining = Joining(state)
        state.admission = Admission(state)
        state.arrivals = Arrivals(state)
        state.maintenance = Maintenance(state)
        self._left = False

    @property
    def me(self) -> Peer:
        """This node."""
        return self.state.me

    def carry(self, rider: Rider) -> None:
        """Let the layer above ride on heartbeats."""
        self.state.rider = rider

    @property
    def active(self) -> bool:
        """Whether this node delivers: its leaf set has confirmed it."""
        return self.state.active

    @property
    def kept(self) -> frozenset[Id]:
        """The ids of the peers whose links should stay open."""
        return frozenset([leaf.id for leaf in self.state.leaves.members])

    @property
    def ring_neighbours(self) -> frozenset[Id]:
        """The ids of the nodes to the left and to the right, which heartbeats go to."""
        reach = self.state.reach
        return frozenset([peer.id for peer in (reach.left, reach.right) if peer is not None])

    def leaves(self) -> tuple[Peer, ...]:
        """The leaf set, clockwise from its farthest counter-clockwise member."""
        return self.state.leaves.ring

    def owner(self, key: Id) -> Peer | None:
        """Who owns a key, if this node is near enough to know."""
        state = self.state
        if state.reach.covers(key):
            return state.leaves.closest(key)
        return None

    def next_hop(self, key: Id) -> Id | None:
        """Where a message to this key would go now; None if it would stay here or has to wait."""
        way, peer = next_hop(self.state, key)
        return None if not self.state.active or way in (Way.DELIVER, Way.HOLD) else peer.id

    def owns(self, key: Id, now: float) -> bool:
        """Whether this node may answer for a key now: the closest, in the ring, and under a lease."""
        state = self.state
        return state.active and self.owner(key) is state.me and state.leases.cover(key, now)

    def closest(self, key: Id, count: int) -> list[Peer]:
        """The closest to a key of this node and its leaf set, closest first."""
        return self.state.leaves.closest_many(key, count)

    def snapshot(self) -> PastrySnapshot:
        """What `status` shows."""
        state = self.state
        return PastrySnapshot(
            me=state.me,
            active=state.active,
            phase=state.joining.phase.value,
            leaves=state.leaves.ring,
            rows=state.table.depth,
            entries=len(state.table),
            neighbours=state.neighbourhood.peers,
            suspects=tuple(state.suspects.values()),
            held=state.forwarding.held,
            hops=tuple(state.hops),
            counters=msgspec.structs.replace(state.counters),
        )

    def route(self, key: Id, body: Message, now: float, randomize: bool = False) -> Effects:
        """Route a message to the node closest to the key (the papers' route)."""
        state = self.state
        outer, state.effects, state.now = state.effects, [], now
        if self._left:
            state.drop("pastry: this node has left")
        else:
            state.forwarding.route(key, body, randomize)
            self._finish()
        effects, state.effects = state.effects, outer
        return effects

    def handle(self, input: PastryInput, now: float) -> Effects:
        """Take one input."""
        state = self.state
        outer, state.effects, state.now = state.effects, [], now
        if not self._left:
            self._dispatch(input)
            self._finish()
        effects, state.effects = state.effects, outer
        return effects

    def adopt(
        self,
        leaves: Iterable[Peer],
        entries: Iterable[tuple[Peer, float]],
        neighbours: Iterable[tuple[Peer, float]],
        now: float,
        timers: bool = False,
    ) -> Effects:
        """Be active at once with tables that somebody else has filled, distances as round trips.

        Nobody is told of it, so whoever fills the tables of one node must fill those of all. Without
        timers the node never speaks unless it is spoken to.
        """
        state = self.state
        outer, state.effects, state.now = state.effects, [], now
        for leaf in leaves:
            state.leaves.add(leaf)
        for peer, distance in entries:
            state.table.consider(peer, distance)
        for peer, distance in neighbours:
            state.neighbourhood.add(peer, distance)
        state.reach.found_ring()
        state.on_leaves_changed()
        state.joining.become_active()
        state.leases.adopt(now if timers else inf)
        if timers:
            state.leases.start()
            state.maintenance.start()
        self._finish()
        effects, state.effects = state.effects, outer
        return effects

    def _dispatch(self, input: PastryInput) -> None:
        state = self.state
        if isinstance(input, Received):
            self._receive(input.peer, input.message)
        elif isinstance(input, TimerFired):
            due = TIMERS.get(input.timer.part)
            if due is not None:
                due(state, input.timer)
        elif isinstance(input, Measured):
            state.maintenance.measured(input.peer, input.seconds)
            state.joining.measured(input.peer, input.seconds)
        elif isinstance(input, PeerFailed):
            state.measuring.pop(input.peer.id, None)
            state.joining.peer_failed(input.peer)
            state.liveness.link_failed(input.peer, input.gone)
        elif isinstance(input, Join):
            state.joining.start(input.seeds)
        else:
            state.maintenance.leave()
            self._left = True

    def _receive(self, peer: Peer, message: Message) -> None:
        state = self.state
        handler = HANDLERS.get(type(message))
        if peer.id == state.me.id:
            # Only a copied key speaks with this node's id; it may ask to join, and is then refused.
            if isinstance(message, m.Routed) and isinstance(message.body, m.JoinRequest):
                state.forwarding.receive(peer, message)
            elif isinstance(message, m.JoinRefused):
                state.joining.refused(peer, message)
            else:
                state.drop("pastry: a peer with this node's own id")
            return
        if handler is None:
            state.liveness.heard(peer)
            state.effects.extend(state.application.receive(peer, message, state.now))
            return
        if not isinstance(message, FROM_OUTSIDERS):
            if not state.liveness.heard_member(peer):
                return
            state.admission.old_handle_answered(peer)
        state.liveness.heard(peer)
        handler(state, peer, message)

    def _finish(self) -> None:
        state = self.state
        while state.release_due or (state.leaves_changed and state.active):
            if state.release_due:
                state.release_due = False
                if state.forwarding.held:
                    state.forwarding.release()
            if state.leaves_changed and state.active:
                state.leaves_changed = False
                state.notify(LeafsChanged(state.leaves.ring))
                state.effects.extend(state.application.new_leafs(state.now))


def _unexpected(state: State, peer: Peer, message: Message) -> None:
    state.drop("pastry: a join request that is not routed")


# Keyed by the type that each handler takes: the checker cannot follow that, hence Any.
HANDLERS: dict[type, Callable[[State, Peer, Any], None]] = {
    m.Routed: lambda s, peer, message: s.forwarding.receive(peer, message),
    m.RoutedAck: lambda s, peer, message: s.forwarding.acked(peer, message),
    m.JoinRequest: _unexpected,
    m.JoinReply: lambda s, peer, message: s.joining.reply(peer, message),
    m.JoinRefused: lambda s, peer, message: s.joining.refused(peer, message),
    m.StateRequest: lambda s, peer, message: s.maintenance.asked(peer, message),
    m.StateReply: lambda s, peer, message: s.maintenance.state_reply(peer, message),
    m.LeafProbe: lambda s, peer, message: s.liveness.probed(peer, message),
    m.LeafProbeReply: lambda s, peer, message: s.liveness.answered(peer, message),
    m.Heartbeat: lambda s, peer, message: s.liveness.beat(peer, message),
    m.Lease: lambda s, peer, message: s.leases.granted(peer, message),
    m.Announce: lambda s, peer, message: s.maintenance.announced(peer, message),
    m.SlotRequest: lambda s, peer, message: s.repair.asked(peer, message),
    m.SlotReply: lambda s, peer, message: s.repair.answered(peer, message),
    m.RowOffer: lambda s, peer, message: s.maintenance.offered(peer, message),
    m.Distance: lambda s, peer, message: s.maintenance.told_distance(peer, message),
    m.Departing: lambda s, peer, message: s.liveness.departed(peer, message.leaves),
}

TIMERS: dict[str, Callable[[State, Timer], None]] = {
    "pastry.ack": lambda s, timer: s.forwarding.ack_due(timer.subject),
    "pastry.held": lambda s, _: s.forwarding.hold_due(),
    "pastry.join": lambda s, timer: s.joining.due(timer.round),
    "pastry.heartbeat": lambda s, _: s.leases.heartbeat_due(),
    "pastry.lease": lambda s, timer: s.leases.retry_due(timer.round),
    "pastry.probe": lambda s, timer: s.liveness.probe_due(Id(timer.subject), timer.round),
    "pastry.rumour": lambda s, timer: s.liveness.rumour_due(Id(timer.subject)),
    "pastry.deaths": lambda s, _: s.liveness.deaths_due(),
    "pastry.reach": lambda s, _: s.reach.seek_due(),
    "pastry.arrival": lambda s, timer: s.arrivals.due(Id(timer.subject), timer.round),
    "pastry.gossip": lambda s, _: s.maintenance.gossip_due(),
    "pastry.rows": lambda s, _: s.maintenance.rows_due(),
    "pastry.neighbours": lambda s, _: s.maintenance.neighbours_due(),
    "pastry.heal": lambda s, _: s.maintenance.heal_due(),
}
