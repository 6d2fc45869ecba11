"""What the parts of Pastry share: the tables, who is in doubt, and the effects being built.

A part changes the tables and appends effects here; ``overlay.Pastry`` hands the effects to the driver.
``suspects`` are nodes that did not answer in time: routed around, never removed for it. ``failed`` are
nodes verified dead (or departed), remembered for a while so that hearsay does not bring them back.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.pastry.leafset import LeafSet
from overlaymq.core.pastry.neighbourhood import Neighbourhood
from overlaymq.core.pastry.rider import NoRider, Rider
from overlaymq.core.pastry.table import RoutingTable
from overlaymq.events import Dropped, Notify, Probe, Send, SetTimer, Timer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from overlaymq.config import PastryConfig
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.pastry.admission import Admission
    from overlaymq.core.pastry.application import Application
    from overlaymq.core.pastry.arrivals import Arrivals
    from overlaymq.core.pastry.forwarding import Forwarding
    from overlaymq.core.pastry.join import Joining
    from overlaymq.core.pastry.leases import Leases
    from overlaymq.core.pastry.liveness import Liveness
    from overlaymq.core.pastry.maintenance import Maintenance
    from overlaymq.core.pastry.reach import Reach
    from overlaymq.core.pastry.repair import Repair
    from overlaymq.events import Event
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer, Row

FAILED_KEPT = 64
FAILED_SECONDS = 60.0
MEASURING_KEPT = 512
ASKED_KEPT = 256
SHORTEST_WAIT = 0.001
"""A timer for the rest of some time may fire a rounding error early, on a clock that runs at another rate.
What is left then is no longer than the clock can tell apart, and a timer for that would fire again and again
at the same instant. Below any wait that matters: a guess."""
LISTED_PEERS = 256
"""No honest node lists more peers than this in one field: anything longer is dropped unread."""


class Counters(msgspec.Struct, gc=False):
    """What this node's Pastry has done since it started."""

    delivered: int = 0
    forwarded: int = 0
    rare: int = 0
    held: int = 0
    rerouted: int = 0
    probes: int = 0
    suspected: int = 0
    failures: int = 0
    dropped: int = 0
    duplicates: int = 0


class State:
    """See the module's text."""

    __slots__ = (
        "active",
        "admission",
        "application",
        "arrivals",
        "asked",
        "config",
        "counters",
        "effects",
        "failed",
        "forwarding",
        "hops",
        "joining",
        "leases",
        "leaves",
        "leaves_changed",
        "liveness",
        "maintenance",
        "me",
        "measuring",
        "neighbourhood",
        "now",
        "random",
        "reach",
        "release_due",
        "repair",
        "rider",
        "serial",
        "suspects",
        "table",
    )

    admission: Admission
    arrivals: Arrivals
    forwarding: Forwarding
    joining: Joining
    leases: Leases
    liveness: Liveness
    maintenance: Maintenance
    reach: Reach
    repair: Repair

    def __init__(
        self, me: Peer, config: PastryConfig, random: Random, application: Application
    ) -> None:
        self.me = me
        self.config = config
        self.random = random
        self.application = application
        self.rider: Rider = NoRider()
        self.active = False
        self.now = 0.0
        self.effects: Effects = []
        self.leaves = LeafSet(me, config.leaf_set_size)
        self.table = RoutingTable(me.id, config.digit_bits)
        self.neighbourhood = Neighbourhood(config.neighbourhood_size)
        self.suspects: dict[Id, Peer] = {}
        self.failed: dict[Id, float] = {}
        self.measuring: dict[Id, float] = {}
        self.asked: dict[int, Id] = {}
        self.serial = 0
        self.leaves_changed = False
        self.release_due = False
        self.counters = Counters()
        self.hops: list[int] = []

    # --- effects -----------------------------------------------------------------------------------

    def send(self, peer: Peer, message: Message) -> None:
        """Give a message to a peer."""
        self.effects.append(Send(peer, message))

    def hear_rider(self, peer: Peer, digest: int) -> None:
        """Hand over what rode on a neighbour's message."""
        self.effects.extend(self.rider.heard(peer, digest, self.now))

    def set_timer(self, part: str, delay: float, subject: int = 0, round: int = 0) -> None:
        """Have ``TimerFired`` come back to the named part of Pastry."""
        timer = Timer("pastry." + part, subject, round)
        self.effects.append(SetTimer(timer, max(delay, SHORTEST_WAIT)))

    def notify(self, event: Event) -> None:
        """Tell the application."""
        self.effects.append(Notify(event))

    def drop(self, reason: str, messages: int = 1) -> None:
        """Count what is discarded."""
        self.counters.dropped += messages
        self.effects.append(Notify(Dropped(reason, messages)))

    def next_serial(self) -> int:
        """A number no other outstanding question of this node has."""
        self.serial += 1
        return self.serial

    def next_question(self, peer: Peer) -> int:
        """A serial whose answer will be accepted from this peer, once."""
        serial = self.next_serial()
        if len(self.asked) >= ASKED_KEPT:
            # Should its answer come, that is counted then.
            del self.asked[next(iter(self.asked))]
        self.asked[serial] = peer.id
        return serial

    def measure(self, peer: Peer) -> None:
        """Probe the distance of a node known by hearsay, unless that is under way."""
        if peer.id == self.me.id:
            return
        asked_at = self.measuring.get(peer.id)
        if asked_at is not None and self.now - asked_at < 2 * self.config.probe_timeout:
            return
        if len(self.measuring) >= MEASURING_KEPT:
            oldest = next(iter(self.measuring))
            if self.now - self.measuring.pop(oldest) < 2 * self.config.probe_timeout:
                self.drop("pastry: too many measurements")
        self.measuring[peer.id] = self.now
        self.effects.append(Probe(peer))

    # --- what is known -----------------------------------------------------------------------------

    def known(self, id_: Id) -> Peer | None:
        """The handle of a node in any of the tables."""
        return self.leaves.get(id_) or self.table.get(id_) or self.neighbourhood.get(id_)

    def everyone(self) -> Iterator[Peer]:
        """Every node in the leaf set, the routing table and the neighbourhood set, once."""
        seen = set()
        for peers in (self.leaves.ring, tuple(self.table.peers), self.neighbourhood.peers):
            for peer in peers:
                if peer.id not in seen:
                    seen.add(peer.id)
                    yield peer

    def outsider(self) -> Peer | None:
        """Some node that is known and not in the leaf set."""
        get = self.leaves.get
        for peer in self.table.peers:
            if get(peer.id) is None:
                return peer
        return None

    def whole_ring(self) -> bool:
        """Whether the leaf set is the whole ring."""
        return self.reach.whole

    def leaf_set_complete(self) -> bool:
        """Whether neither half has a gap."""
        return self.leaves.full or self.outsider() is None

    def listed(self, peers: tuple[Peer, ...], what: str) -> tuple[Peer, ...]:
        """A list of peers from a message, or nothing if it is absurdly long."""
        if len(peers) <= LISTED_PEERS:
            return peers
        self.drop(f"pastry: {what} is too long")
        return ()

    def valid_rows(self, peer: Peer, rows: tuple[Row, ...]) -> Iterator[Row]:
        """The rows of a sender that fit this node's table: it shares that many digits with us."""
        deepest = self.table.slot(peer.id) >> self.table.bits
        if len(rows) > self.table.rows:
            self.drop("pastry: too many rows")
            return
        for row in rows:
            if not 0 <= row.number <= deepest or len(row.entries) > LISTED_PEERS:
                self.drop("pastry: a row that cannot be")
            else:
                yield row

    # --- changes -----------------------------------------------------------------------------------

    def add_leaf(self, peer: Peer) -> None:
        """A node heard from directly enters the leaf set if it is near enough."""
        if self.leaves.add(peer):
            self.on_leaves_changed()

    def on_leaves_changed(self) -> None:
        """Bring what depends on the leaf set up to date; the upcalls come once, at the end."""
        self.leaves_changed = True
        self.release_due = True
        if self.arrivals:
            self.arrivals.prune()
        self.reach.leaves_changed()
        self.leases.leaves_changed()

    def empty_leaf_set(self) -> None:
        """Begin anew: nobody is near, in doubt or dead."""
        self.suspects.clear()
        self.failed.clear()
        self.leaves.clear()
        self.reach.clear()
        self.leases.clear()
        self.on_leaves_changed()

    def unlearn(self, id_: Id) -> None:
        """A node by hearsay that did not answer."""
        self.table.remove(id_)
        self.neighbourhood.remove(id_)

    def renew(self, peer: Peer) -> None:
        """A node has come back with a larger incarnation: its old handle is gone everywhere."""
        if self.leaves.get(peer.id) is not None:
            self.add_leaf(peer)
        if self.table.get(peer.id) is not None:
            self.table.consider(peer, inf)
        self.neighbourhood.renew(peer)

    def forget(self, peer: Peer) -> None:
        """Remove a node from every table and start what repairs them."""
        id_ = peer.id
        self.failed.pop(id_, None)
        self.failed[id_] = self.now
        if len(self.failed) > FAILED_KEPT:
            del self.failed[next(iter(self.failed))]
        self.suspects.pop(id_, None)
        self.release_due = True
        was_leaf = self.leaves.remove(id_)
        if was_leaf or self.reach.awaits(id_):
            self.on_leaves_changed()
        slot = self.table.slot(id_)
        was_entry = self.table.remove(id_)
        was_neighbour = self.neighbourhood.remove(id_)
        self.repair.after_loss(peer, slot if was_entry else None, was_leaf, was_neighbour)
