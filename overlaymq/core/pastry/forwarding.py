"""Moving routed messages: per-hop acknowledgement, immediate reroute, and holding.

Every hop is acknowledged as soon as the message is accepted (MSPastry, DSN 2004). The deadline adapts
per neighbour as TCP's does (srtt + 4 * var, gains 1/8 and 1/4; FreePastry). When it passes, the neighbour
is suspected and probed, and the message takes another way at once, at most ``config.reroutes`` times.
Before the first acknowledgement, the neighbour's distance as measured, told or seen in a probe makes the
configured first deadline shorter, so that a dead entry met for the first time costs half a second on a LAN.

A message is held, within bounds, while this node is not active yet, while it has no lease for the key, and
while the liveness of its owner is in doubt; it is routed again when the leaf set changes, a lease comes or a
suspicion is settled.

An acknowledgement that comes too late still counts: the message is taken care of, and is not sent again if
it was held meanwhile; and its round trip, known because every try has a number of its own, makes the next
deadline longer. Without this, whoever waits for a node that is merely slow sends it the same messages over
and over, and it never catches up.

A message whose acknowledgement was lost travels twice. Its source has given it a random number, so a hop
knows what the same neighbour hands over again (and acknowledges it again), and the owner what it has
delivered already. At a hop the number of hops is part of the key: a message that comes round because two
nodes disagree for a moment is no copy, neither of what was accepted nor of what was settled late. Random
rather than counted: a restarted source begins anew, and nobody can use up numbers that another will need.
Deviation: MSPastry does not say how copies are told.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from overlaymq.core.pastry.recent import Recent
from overlaymq.core.pastry.routing import Way, next_hop
from overlaymq.ids import rank, shared_digits
from overlaymq.messages import Departing, JoinRequest, LeafProbe, Routed, RoutedAck

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer

MAX_HOPS = 64
MAX_ACK_TIMEOUT = 10.0
ROUND_TRIPS_KEPT = 256
FIRST_FLOOR = 10
"""The first deadline in units of ``ack_timeout_min``, beside the distance: the transport's round trip
says little about how busy the node above it is. A guess."""
SERIAL_BITS = 63
RETRACTED_KEPT = 1024
"""Tries given up that may still be acknowledged: a guess."""


class Pending:
    """A message handed to a neighbour that has not acknowledged it."""

    __slots__ = ("avoid", "peer", "routed", "sent_at")

    def __init__(self, routed: Routed, peer: Peer, sent_at: float, avoid: tuple[Id, ...]) -> None:
        self.routed = routed
        self.peer = peer
        self.sent_at = sent_at
        self.avoid = avoid


class Forwarding:
    """See the module's text."""

    __slots__ = (
        "_accepted",
        "_delivered",
        "_distances",
        "_held",
        "_hold_timer_set",
        "_pending",
        "_retracted",
        "_round_trips",
        "_settled",
        "_state",
    )

    def __init__(self, state: State) -> None:
        self._state = state
        self._pending: dict[int, Pending] = {}
        self._retracted: dict[int, Pending] = {}
        self._settled: Recent[tuple[Id, int, int]] = Recent(RETRACTED_KEPT)
        self._held: list[tuple[Routed, float]] = []
        self._hold_timer_set = False
        self._round_trips: dict[Id, tuple[float, float]] = {}
        self._distances: dict[Id, float] = {}
        self._accepted: Recent[tuple[Id, int, int]] = Recent(state.config.recent_messages)
        self._delivered: Recent[tuple[Id, int]] = Recent(state.config.recent_messages)

    @property
    def held(self) -> int:
        """How many messages wait."""
        return len(self._held)

    def route(self, key: Id, body: Message, randomize: bool) -> None:
        """Start a message at this node."""
        self.move(self.original(key, body, randomize))

    def original(self, key: Id, body: Message, randomize: bool = False) -> Routed:
        """A message of this node's own that no other is like."""
        state = self._state
        number = state.random.getrandbits(SERIAL_BITS)
        return Routed(key, state.me, state.next_serial(), 0, body, randomize, number)

    def receive(self, peer: Peer, routed: Routed) -> None:
        """A neighbour hands a message over."""
        state = self._state
        if not 0 <= routed.hops < MAX_HOPS:
            state.drop("pastry: too many hops")
            return
        body = routed.body
        if not state.active and isinstance(body, JoinRequest) and body.joiner.id == peer.id:
            state.admission.refuse_unready(peer)
            return
        if not state.joining.admitted:
            # The previous hop has it from before this node started over. Not acknowledged either.
            state.send(peer, Departing())
            return
        if len(self._held) >= state.config.held_messages:
            # Not acknowledged either: the previous hop looks for another way.
            state.drop("pastry: too many messages held")
            return
        state.send(peer, RoutedAck(routed.serial))
        number = routed.origin_serial
        if number and self._accepted.seen((peer.id, number, routed.hops)):
            state.counters.duplicates += 1
            return
        if peer.id != routed.source.id:
            state.repair.patch_hole(peer, routed.key)
        self.move(routed)

    def move(self, routed: Routed, avoid: tuple[Id, ...] = (), until: float | None = None) -> None:
        """Deliver, forward or hold. ``until`` is how long it may still be held, if it was before."""
        state = self._state
        absent: tuple[Id, ...] = ()
        if isinstance(routed.body, JoinRequest):
            absent = (routed.body.joiner.id, *state.arrivals)
            if not state.admission.may_pass(routed):
                return
        way, peer = next_hop(state, routed.key, avoid, absent, routed.randomize)
        if way is Way.HOLD or (way is Way.DELIVER and not self._may_deliver(routed)):
            self._hold(routed, until)
        elif way is Way.DELIVER:
            self._deliver(routed)
        else:
            state.counters.rare += way is Way.RARE
            self._forward(routed, peer, avoid)

    def _may_deliver(self, routed: Routed) -> bool:
        # What serves the ring itself needs no lease: it would wait for what it is to bring about.
        state = self._state
        if isinstance(routed.body, JoinRequest | LeafProbe):
            return state.active
        return state.active and state.leases.cover(routed.key, state.now)

    def acked(self, peer: Peer, ack: RoutedAck) -> None:
        """The neighbour has the message; its round trip sets the next deadline."""
        pending = self._pending.get(ack.serial) or self._retracted.get(ack.serial)
        if pending is None or pending.peer.id != peer.id:
            return
        if self._pending.pop(ack.serial, None) is None:
            del self._retracted[ack.serial]
            self._settled.seen(passage(pending.routed))
        sample = self._state.now - pending.sent_at
        known = self._round_trips.get(peer.id)
        if known is None:
            if len(self._round_trips) >= ROUND_TRIPS_KEPT:
                del self._round_trips[next(iter(self._round_trips))]
            self._round_trips[peer.id] = (sample, sample / 2)
        else:
            mean, deviation = known
            error = sample - mean
            self._round_trips[peer.id] = (
                mean + error / 8,
                deviation + (abs(error) - deviation) / 4,
            )

    def takes(self, id_: Id, seconds: float) -> None:
        """A round trip to a node was seen by other means than an acknowledgement."""
        distances = self._distances
        if id_ not in distances and len(distances) >= ROUND_TRIPS_KEPT:
            del distances[next(iter(distances))]
        distances[id_] = seconds

    def knows(self, id_: Id) -> bool:
        """Whether anything is known about the time this node takes."""
        if id_ in self._round_trips or id_ in self._distances:
            return True
        return self._state.table.distance(id_) < inf

    def deadline(self, peer: Peer) -> float:
        """How long this neighbour may take to acknowledge."""
        config = self._state.config
        known = self._round_trips.get(peer.id)
        if known is None:
            distance = self._distances.get(peer.id)
            if distance is None:
                distance = self._state.table.distance(peer.id)
            generous = 4 * distance + FIRST_FLOOR * config.ack_timeout_min
            return min(generous, config.ack_timeout_first)
        mean, deviation = known
        # On a steady network the deviation tends to zero and a deadline of srtt alone would misfire.
        return min(mean + max(4 * deviation, config.ack_timeout_min), MAX_ACK_TIMEOUT)

    def ack_due(self, serial: int) -> None:
        """The deadline of a hop has passed."""
        pending = self._pending.get(serial)
        if pending is None:
            return
        self._state.liveness.suspect(pending.peer)
        if serial in self._pending:
            self._reroute(serial)

    def reroute_from(self, id_: Id) -> None:
        """This neighbour is in doubt or gone: what it has not acknowledged takes another way."""
        for serial in [s for s, pending in self._pending.items() if pending.peer.id == id_]:
            if serial in self._pending:
                self._reroute(serial)

    def release(self) -> None:
        """Something has changed: try what is held again."""
        held, self._held = self._held, []
        for routed, until in held:
            if not routed.origin_serial or passage(routed) not in self._settled:
                self.move(routed, until=until)

    def hand_back(self, members: tuple[Peer, ...]) -> None:
        """This node is no longer where held messages belong: its former leaves find who is."""
        if not members:
            return
        held, self._held = self._held, []
        for routed, _ in held:
            if not isinstance(routed.body, JoinRequest):
                key = routed.key
                self._forward(routed, min(members, key=lambda peer: rank(key, peer.id)), ())

    def hold_due(self) -> None:
        """Give up what has waited too long."""
        state = self._state
        kept = [item for item in self._held if item[1] > state.now]
        expired = len(self._held) - len(kept)
        self._held = kept
        self._hold_timer_set = False
        if expired:
            state.drop("pastry: held too long", expired)
        if kept:
            self._set_hold_timer(min(until for _, until in kept) - state.now)

    def forget(self, id_: Id) -> None:
        """A dead node's round trip is of no use."""
        self._distances.pop(id_, None)
        self._round_trips.pop(id_, None)

    def _deliver(self, routed: Routed) -> None:
        state = self._state
        if isinstance(routed.body, JoinRequest):
            state.admission.accept(routed.body)
            return
        if isinstance(routed.body, LeafProbe):
            state.maintenance.met_by_routing(routed.source)
            return
        number = routed.origin_serial
        if number and self._delivered.seen((routed.source.id, number)):
            state.counters.duplicates += 1
            return
        state.counters.delivered += 1
        hops = state.hops
        while len(hops) <= routed.hops:
            hops.append(0)
        hops[routed.hops] += 1
        state.effects.extend(state.application.deliver(routed, state.now))

    def _forward(self, routed: Routed, peer: Peer, avoid: tuple[Id, ...]) -> None:
        state = self._state
        if isinstance(routed.body, JoinRequest):
            routed = state.admission.with_rows(routed)
        elif not isinstance(routed.body, LeafProbe):
            routed, chosen, effects = state.application.forward(routed, peer, state.now)
            state.effects.extend(effects)
            if chosen is None:
                return
            peer = chosen
        if len(self._pending) >= state.config.held_messages:
            state.drop("pastry: too many messages unacknowledged")
            return
        state.counters.forwarded += 1
        serial = state.next_serial()
        self._pending[serial] = Pending(routed, peer, state.now, avoid)
        state.send(
            peer,
            Routed(
                routed.key,
                routed.source,
                serial,
                routed.hops + 1,
                routed.body,
                routed.randomize,
                routed.origin_serial,
            ),
        )
        state.set_timer("ack", self.deadline(peer), serial)

    def _reroute(self, serial: int) -> None:
        state = self._state
        pending = self._pending.pop(serial)
        if len(self._retracted) >= RETRACTED_KEPT:
            del self._retracted[next(iter(self._retracted))]
        self._retracted[serial] = pending
        avoid = (*pending.avoid, pending.peer.id)
        if len(avoid) > state.config.reroutes:
            state.drop("pastry: rerouted too often")
            return
        state.counters.rerouted += 1
        self.move(pending.routed, avoid)

    def _hold(self, routed: Routed, until: float | None) -> None:
        state = self._state
        if len(self._held) >= state.config.held_messages:
            state.drop("pastry: too many messages held")
            return
        state.counters.held += until is None
        if until is None:
            until = state.now + self._patience()
        self._held.append((routed, until))
        self._set_hold_timer(until - state.now)
        if state.joining.admitted and not state.leaf_set_complete():
            state.repair.close_gap()

    def _set_hold_timer(self, delay: float) -> None:
        if not self._hold_timer_set:
            self._hold_timer_set = True
            self._state.set_timer("held", max(delay, 0.0))

    def _patience(self) -> float:
        # Long enough for a suspicion that starts now, and for some more that it uncovers.
        config = self._state.config
        probing = config.probe_timeout * (config.probe_retries + 1)
        return 4 * probing if self._state.active else max(4 * probing, config.join_retry_max)


def passage(routed: Routed) -> tuple[Id, int, int]:
    """Tells a message's way through this node from that of its copies, and from when it comes round again."""
    return routed.source.id, routed.origin_serial, routed.hops


def lacked_entry(previous: Peer, me: Peer, key: Id, bits: int) -> int | None:
    """The row in which the previous hop lacked an entry for the key, if its hop shows that."""
    before = shared_digits(previous.id, key, bits)
    return before if shared_digits(me.id, key, bits) == before else None
