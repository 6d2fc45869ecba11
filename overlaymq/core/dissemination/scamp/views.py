"""SCAMP's membership: what one node knows of one topic's members, and how that comes about (SCAMP 2.2, 3).

A node has a *partial view*, the members it sends to, and an *in-view*, those that send to it: x is in the
partial view of y exactly when y is in the in-view of x. Views size themselves:

- *Subscription.* A newcomer's contact forwards the subscription to its whole view, and in c more copies.
  Whoever gets a copy keeps the newcomer with probability 1/(1 + view), or passes the copy on to a random
  member of its view. So a newcomer adds as many arcs as its contact has, and c + 1: with contacts drawn
  uniformly, views have (c + 1) ln n entries, though nobody knows n.
- *Discard.* A node that has had the same subscription more than ten times, over all its copies, drops it. In
  a group of fewer nodes than copies, they would go round for ever.
- *Unsubscription.* All but c + 1 of those that know the leaving node get one of its own view instead.
- *Lease.* A subscription ends by itself, everywhere; its node subscribes again just then, and keeps its view.
- *Heartbeats.* Everyone in the partial view gets them. Who hears none is isolated and subscribes again.
- *Indirection.* A subscription first walks to a contact that is near-uniform; see ``weights``.

*Drift.* Nothing in this pulls views towards ln n. A renewal takes as many arcs away as its node had holders,
and adds as many as its contact has neighbours: on average the same, if the contact is anyone. It is not.
Walks, and choices from a view, end more often at nodes that many hold, and these hold many; and who renews in
time has its old arcs for a moment beside the new ones, so contacts have larger views than they should. Either
way views grow with every lease. Even with exact means they would wander off by chance, a small group the
sooner. So in the default mode a renewal through the rendezvous, which counts the members, says in how many
copies it wants to be forwarded, (c + 1) ln n, whatever its contact has (``uniform_renewal``). New
subscriptions are as in the paper; whatever they, failures or repairs make of the views is put right within
one lease.

A pure machine: time is an argument, chance is the node's, messages go in and out. ``strategy`` runs it in a
node, ``sim.scamp_world`` runs a hundred thousand of them without any.

Deviations, all to keep views mutual, where the paper says nothing. The newcomer takes its contact into its
view when the contact has answered, so that the two agree. A node that takes an entry out of its view says so
to the entry, and a leaving node to its whole view. The one who takes over from a leaving node is told by its
new holder. Heartbeats also tell who holds whom, so a lost message is made up for by the next one; an entry of
the in-view that is silent is dropped. A contact without a view keeps the newcomer itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.scamp import weights
from overlaymq.core.dissemination.scamp.weights import Arc
from overlaymq.events import Send
from overlaymq.messages import (
    ScampAccepted,
    ScampBeat,
    ScampForget,
    ScampForward,
    ScampKept,
    ScampReplace,
    ScampSubscribe,
    ScampWeight,
)

if TYPE_CHECKING:
    from random import Random

    from overlaymq.config import ScampConfig
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer

MOST_RECEPTIONS = 10
"""SCAMP 2.2.1: who has received the same request more often discards it."""
REMEMBERED = 32
"""Subscriptions whose receptions are counted: a guess above the size of groups in which the count matters."""
MOST_HOPS = 10_000
"""A copy that has gone further was made to do harm: a guess above ten receptions by a thousand nodes."""
MOST_STEPS = 1_000
"""Of an indirection walk; twice a view is some forty: a guess."""
MOST_COPIES = 64
"""Extra copies of a subscription: who asks for more than ``scamp.c`` can be does so to do harm."""
INTRODUCED = 8
"""Members that a contact introduces to a newcomer: a guess."""
ENDING = 3
"""Heartbeats before its end that a lease may be renewed: a guess. Nodes look at their leases once in each."""
FOREVER = float("inf")


class Views:
    """One topic's membership at one node. ``limit`` bounds each view."""

    __slots__ = (
        "_config",
        "_passed",
        "_random",
        "_received",
        "_topic",
        "discarded",
        "ending",
        "inward",
        "kept",
        "limit",
        "me",
        "member",
        "partial",
        "serial",
        "until",
        "walked",
    )

    def __init__(
        self, me: Peer, topic: Id, config: ScampConfig, random: Random, limit: int = 100_000
    ) -> None:
        self.me = me
        self.member = False
        self.partial: dict[Id, Arc] = {}
        self.inward: dict[Id, Arc] = {}
        self.limit = limit
        self.serial = 0
        self.discarded = 0
        """Copies that came once too often, or had no way to go."""
        self.kept = 0
        """Copies that were kept here,"""
        self.walked = 0
        """and their hops."""
        self._topic = topic
        self.until = FOREVER
        """When the node's own lease ends."""
        self.ending = min(ENDING * config.heartbeat_every, config.lease / 2)
        """What is left of a lease when its node may have renewed it."""
        self._config = config
        self._random = random
        self._received: dict[tuple[Id, int], int] = {}
        self._passed = 0

    # --- the node's own subscription ---

    def subscribe(self, contact: Peer, now: float, last: int = 0, note: bytes = b"") -> list[Send]:
        """Become a member through this one."""
        self.begin(now)
        return [self._request(contact, self._config.c, renewal=False, last=last, note=note)]

    def begin(self, now: float) -> None:
        """Be a member, perhaps the only one."""
        self.member = True
        self.until = now + self._config.lease if self._config.lease else FOREVER

    def renew(
        self, contact: Peer, now: float, copies: int = 0, last: int = 0, note: bytes = b""
    ) -> list[Send]:
        """Subscribe again; the partial view stays as it is, unless there is none. ``copies``: see the
        module's text; in paper mode, those that are more than the contact's view."""
        if not self.partial:
            return self.subscribe(contact, now, last, note)
        self.begin(now)
        return [self._request(contact, copies, renewal=True, last=last, note=note)]

    def enough(self, members: int) -> int:
        """Copies for the renewal of a lease in a group of so many: (c + 1) ln n on average, and not none."""
        wanted = (self._config.c + 1) * math.log(max(1, members))
        return max(1, int(wanted + self._random.random()))

    def _request(
        self, contact: Peer, copies: int, *, renewal: bool, last: int = 0, note: bytes = b""
    ) -> Send:
        self.serial += 1
        request = ScampSubscribe(
            topic=self._topic,
            subscriber=self.me,
            serial=self.serial,
            copies=copies,
            renewal=renewal,
            lease=self._config.lease,
            last=last,
            note=note,
        )
        return Send(contact, request)

    def stand_in(self, backup: Peer, now: float, note: bytes = b"") -> Send:
        """Ask someone to hold this node in place of one that has failed."""
        self.serial += 1
        lease = self._lease_left(now)
        return Send(backup, ScampForward(self._topic, self.me, self.serial, 0, lease, True, note))

    def _lease_left(self, now: float) -> float:
        return left(self.until, now)

    def unsubscribe(self, now: float) -> list[Send]:
        """Leave: holders get members of this node's view instead, all but c + 1 of them (SCAMP 2.2.2)."""
        holders = [arc.peer for arc in self.inward.values()]
        others = list(self.partial.values())
        replaced = max(0, len(holders) - self._config.c - 1) if others else 0
        sends = []
        for number, holder in enumerate(holders):
            if number < replaced:
                other = others[number % len(others)]
                message = ScampReplace(self._topic, other.peer, left(other.time, now))
            else:
                message = ScampReplace(self._topic)
            sends.append(Send(holder, message))
        sends += [Send(arc.peer, ScampForget(self._topic)) for arc in others]
        self.member = False
        self.partial.clear()
        self.inward.clear()
        self._received.clear()
        return sends

    # --- messages ---

    def receive(self, peer: Peer, message: Message, now: float) -> list[Send]:
        """A message of the membership protocol; who is no member says so to those who take it for one."""
        if isinstance(message, ScampForward):
            return self._forwarded(message, now)
        if isinstance(message, ScampKept | ScampBeat):
            return self._held_by(peer, now)
        if isinstance(message, ScampSubscribe):
            return self._asked(message, now)
        if isinstance(message, ScampAccepted):
            return self._accepted(peer, message, now)
        if isinstance(message, ScampReplace):
            return self._replaced(peer, message, now)
        if isinstance(message, ScampForget):
            self.inward.pop(peer.id, None)
        elif isinstance(message, ScampWeight):
            self._weighed(peer, message)
        return []

    def _forwarded(self, copy: ScampForward, now: float) -> list[Send]:
        """Keep it with probability 1/(1 + view), or pass it on (Algorithm 2)."""
        subscriber = copy.subscriber.id
        partial = self.partial
        if not self.member or self._too_often(subscriber, copy.serial) or copy.hops >= MOST_HOPS:
            self.discarded += 1
            return []
        size = len(partial)
        known = partial.get(subscriber)
        if known is not None and known.time - now <= self.ending:
            size, known = size - 1, None  # it subscribes again because this ends
        if (
            known is None
            and subscriber != self.me.id
            and (copy.keep or self._random.random() * (size + 1) < 1)
            and size < self.limit
        ):
            self.kept += 1
            self.walked += copy.hops
            return [self._keep(copy.subscriber, copy.lease, now)]
        if not partial:
            self.discarded += 1
            return []
        onward = ScampForward(
            self._topic,
            copy.subscriber,
            copy.serial,
            copy.hops + 1,
            copy.lease,
            copy.keep,
            copy.note,
        )
        return [Send(self._anyone(), onward)]

    def _too_often(self, subscriber: Id, serial: int) -> bool:
        key = (subscriber, serial)
        received = self._received
        count = received.get(key, 0) + 1
        received[key] = count
        if len(received) > REMEMBERED:
            del received[next(iter(received))]
        return count > MOST_RECEPTIONS

    def _anyone(self) -> Peer:
        """A random member of the partial view."""
        partial = self.partial
        return list(partial.values())[int(self._random.random() * len(partial))].peer

    def _keep(self, subscriber: Peer, lease: float, now: float) -> Send:
        weight = weights.mean(self.partial.values()) if self._config.indirection else 1.0
        self.partial[subscriber.id] = Arc(subscriber, weight, now + lease if lease else FOREVER)
        return Send(subscriber, ScampKept(self._topic))

    def heard(self, holder: Id, now: float) -> bool:
        """A sign of life; whether it is of one that is known to hold this node, so that nothing changes."""
        known = self.inward.get(holder)
        if known is None:
            return False
        known.time = now
        return True

    def _held_by(self, holder: Peer, now: float) -> list[Send]:
        if self.heard(holder.id, now):
            return []
        if not self.member or len(self.inward) >= self.limit or holder.id == self.me.id:
            return [Send(holder, ScampReplace(self._topic))]
        self._add_inward(holder, now)
        return []

    def _add_inward(self, holder: Peer, now: float) -> None:
        weight = weights.mean(self.inward.values()) if self._config.indirection else 1.0
        self.inward[holder.id] = Arc(holder, weight, now)

    def _asked(self, request: ScampSubscribe, now: float) -> list[Send]:
        """A new subscription: let it walk, or be its contact (Algorithms 4 and 1)."""
        if not self.member:
            return [Send(request.subscriber, ScampReplace(self._topic))]
        sends = self._weighs_now()
        steps = request.steps
        if not request.walking:
            steps = 2 * len(self.partial) if self._config.indirection else 0
        own = request.subscriber.id == self.me.id
        if steps > 0 or own:
            return sends + self._pass_on(request, steps - 1)
        return sends + self._introduce(request, now)

    def _pass_on(self, request: ScampSubscribe, steps: int) -> list[Send]:
        if not self.partial:
            return []
        target = weights.drawn(self.partial.values(), self._random)
        left = min(max(0, steps), MOST_STEPS)
        return [Send(target, msgspec.structs.replace(request, walking=True, steps=left))]

    def _introduce(self, request: ScampSubscribe, now: float) -> list[Send]:
        """Be the contact (Algorithm 1)."""
        subscriber = request.subscriber
        lease, serial, note = request.lease, request.serial, request.note
        sends = []
        others = [arc.peer for arc in self.partial.values()]
        known = self.partial.get(subscriber.id)
        if not request.renewal or request.last:
            introduced = [peer for peer in others if peer.id != subscriber.id][-INTRODUCED:]
            mine = self._lease_left(now)
            accepted = ScampAccepted(self._topic, serial, mine, tuple(introduced))
            sends.append(Send(subscriber, accepted))
        ends = known is not None and known.time - now <= self.ending
        if len(others) == ends:
            return [*sends, self._keep(subscriber, lease, now)]
        copy = ScampForward(self._topic, subscriber, serial, 0, lease, False, note)
        counted = request.renewal and request.copies > 0 and not self._config.literal
        targets = [] if counted else others
        targets += [self._anyone() for _ in range(min(request.copies, MOST_COPIES))]
        return sends + [Send(target, copy) for target in targets]

    def _accepted(self, contact: Peer, accepted: ScampAccepted, now: float) -> list[Send]:
        """The contact is in the partial view, once it has said that it is the contact."""
        known = contact.id in self.partial or contact.id == self.me.id
        if known or not self.member or len(self.partial) >= self.limit:
            return []
        return [self._keep(contact, accepted.lease, now)]

    def _replaced(self, leaving: Peer, message: ScampReplace, now: float) -> list[Send]:
        if self.partial.pop(leaving.id, None) is None or message.by is None:
            return []
        by = message.by.id
        if by == self.me.id or by in self.partial:
            return []
        return [self._keep(message.by, message.lease, now)]

    # --- indirection ---

    def weigh(self) -> list[Send]:
        """Scale the weights of all arcs at this node, and tell the other ends (Algorithm 3)."""
        weights.scale(self.inward.values())
        weights.scale(self.partial.values())
        topic = self._topic
        return [
            *(Send(a.peer, ScampWeight(topic, a.weight, True)) for a in self.inward.values()),
            *(Send(a.peer, ScampWeight(topic, a.weight)) for a in self.partial.values()),
        ]

    def _weighs_now(self) -> list[Send]:
        if not self._config.indirection:
            return []
        self._passed += 1
        return self.weigh() if self._passed % self._config.weigh_every == 0 else []

    def _weighed(self, peer: Peer, message: ScampWeight) -> None:
        arc = (self.partial if message.backward else self.inward).get(peer.id)
        if arc is not None:
            arc.weight = message.weight

    # --- upkeep ---

    def beat(self) -> list[Send]:
        """Heartbeats for everyone in the partial view."""
        beat = ScampBeat(self._topic)
        return [Send(arc.peer, beat) for arc in self.partial.values()]

    def expire(self, now: float) -> list[Send]:
        """Drop what has no lease any more."""
        gone = [arc for arc in self.partial.values() if arc.time <= now]
        for arc in gone:
            del self.partial[arc.peer.id]
        return [Send(arc.peer, ScampForget(self._topic)) for arc in gone]

    def purge(self, now: float) -> list[Peer]:
        """Drop holders that have been silent for too long; who they were."""
        since = now - self._config.isolated_after
        silent = [arc.peer for arc in self.inward.values() if arc.time <= since]
        for peer in silent:
            del self.inward[peer.id]
        return silent

    def failed(self, peer: Id) -> bool:
        """Forget a member that is gone; whether it sent to this node."""
        self.partial.pop(peer, None)
        return self.inward.pop(peer, None) is not None


def left(until: float, now: float) -> float:
    """The rest of a lease, as it travels: 0 is one without end, so one that has just ended is not 0."""
    return 0.0 if until == FOREVER else max(until - now, 1e-3)


def newcomer(peer: Peer, message: Message) -> Peer | None:
    """Whom a message may bring into the partial view."""
    if isinstance(message, ScampForward | ScampSubscribe):
        return message.subscriber
    if isinstance(message, ScampAccepted):
        return peer
    return message.by if isinstance(message, ScampReplace) else None
