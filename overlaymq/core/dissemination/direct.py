"""direct: members register at the topic's root, which sends each batch to every member.

The papers' "naive multicast", and the right choice for a handful of subscribers: one hop from the root.
It is also the size test of the strategy contract.

Registrations are soft state: a member refreshes, a silent one expires. A publisher caches the root's
address and sends to it directly; an old root passes a batch on to the new one and tells the publisher.
When a closer node arrives, the old root hands its members over at once, before the newcomer is active, so
that no batch finds an empty table. While the root is not known, batches wait, bounded by the window.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar

import msgspec

from overlaymq.core.dissemination.base import Effects, Strategy, Surroundings
from overlaymq.events import (
    Deliver,
    Dropped,
    Members,
    Notify,
    ParentLost,
    Ready,
    Repaired,
    Route,
    Send,
    Sent,
    SetTimer,
    Timer,
)
from overlaymq.messages import (
    Batch,
    Descriptor,
    Handover,
    Message,
    Peer,
    Register,
    Registered,
    RootIs,
    RootQuery,
    Unregister,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from overlaymq.ids import Id


class Direct(Strategy):
    """See the module's text."""

    name: ClassVar[str] = "direct"

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._root: Peer | None = None
        self._members: dict[Id, Peer] = {}
        self._expires: dict[Id, float] = {}
        self._subscribed = False
        self._fed_by: Peer | None = None
        self._lost_parent = False
        self._last = 0
        self._waiting: deque[Batch] = deque()
        self._waiting_size = 0
        self._history: deque[Batch] = deque()
        self._history_messages = 0
        self._history_size = 0
        self._asked = False
        self._round = 0

    # --- what the application asks ---

    def subscribe(self, last: int, now: float) -> Effects:
        """Become a member."""
        self._subscribed = True
        self._last = last
        return self._join(now)

    def unsubscribe(self, now: float) -> Effects:
        """Stop being a member."""
        self._subscribed = False
        self._fed_by = None
        if self._is_root:
            self._forget(self.around.me.id)
            return []
        return [Send(self._root, Unregister(self.descriptor.id))] if self._root else []

    def publish(self, batch: Batch, now: float) -> Effects:
        """Deliver here, and send to the root, or hold until the root is known."""
        effects: Effects = [Deliver(batch)] if self._subscribed else []
        return effects + self._disseminate(batch, now)

    def count_members(self, now: float) -> Effects:
        """Ask the root."""
        if self._is_root:
            return [Notify(Members(self.descriptor.id, len(self._members)))]
        return [self._to_root(RootQuery(self.descriptor.id, self.descriptor))]

    # --- what peers say ---

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """From a peer, directly."""
        if isinstance(message, Batch):
            return self._receive_batch(peer, message, now)
        if isinstance(message, Register | RootQuery):
            # A refresh sent to a root that is no longer one goes on by the key.
            if self._is_root:
                return self.deliver(message, peer, now)
            return [Route(self.descriptor.key, message)]
        if isinstance(message, Registered):
            return self._registered(peer, message.members)
        if isinstance(message, RootIs):
            return self._told_root(message, now)
        if isinstance(message, Unregister):
            self._forget(peer.id)
        elif isinstance(message, Handover):
            return self._take_over(message, now)
        return []

    def deliver(self, message: Message, source: Peer, now: float) -> Effects:
        """At the root."""
        if isinstance(message, Register):
            return self._add(message.member, message.last, now)
        if isinstance(message, RootQuery):
            return [Send(source, self._root_is(self.around.me))]
        return []

    def root_changed(self, root: Peer | None, now: float) -> Effects:
        """Become root, hand over, or follow."""
        if root is None or root == self._root:
            return []
        me = self.around.me
        effects: Effects = []
        if self._is_root and self._members:
            members = tuple(self._members.values())
            effects.append(Send(root, Handover(self.descriptor, members)))
            told = self._root_is(root)
            effects += [Send(member, told) for member in members if member.id != me.id]
            self._members.clear()
            self._expires.clear()
        self._root = root
        if self._subscribed:
            effects += self._join(now)
        return effects + self._flush(now)

    def failed(self, peer: Peer, now: float) -> Effects:
        """A member is gone, or the root: find the new one."""
        self._forget(peer.id)
        if self._root is None or peer.id != self._root.id:
            return []
        self._root = None
        self._asked = False
        effects: Effects = []
        if self._subscribed:
            if self._fed_by is not None:
                self._lost_parent = True
                effects.append(Notify(ParentLost(self.descriptor.id, peer)))
            self._fed_by = None
            if self.around.upcalls.on_fault is not None:
                self.around.upcalls.on_fault(peer)
            effects += self._join(now)
        return effects

    def fired(self, timer: Timer, now: float) -> Effects:
        """Refresh or retry; at the root, expire."""
        if timer.round != self._round:
            return []
        self._asked = False
        for member in [member for member, when in self._expires.items() if when <= now]:
            self._forget(member)
        if self._subscribed and self._fed_by is None:
            self._root = self.around.me if self._is_root else None
        effects = self._join(now) if self._subscribed else []
        return effects + self._flush(now)

    # --- parts ---

    @property
    def _is_root(self) -> bool:
        return self._root is not None and self._root.id == self.around.me.id

    @property
    def kept(self) -> Collection[Peer]:
        """The members at the root, the root at members and publishers."""
        peers = list(self._members.values())
        return [*peers, self._root] if self._root else peers

    @property
    def idle(self) -> bool:
        """Nothing to do with the topic."""
        return not (self._subscribed or self._members or self._waiting)

    def _join(self, now: float) -> Effects:
        me = self.around.me
        if self._is_root:
            return [*self._add(me, self._last, now), self._timer()]
        register = Register(self.descriptor.id, me, self.descriptor, self._last)
        return [self._to_root(register), self._timer()]

    def _timer(self) -> SetTimer:
        self._round += 1
        rendezvous = self.around.rendezvous
        settled = self._fed_by is not None or not self._subscribed
        delay = rendezvous.refresh_every if settled else rendezvous.answer_timeout
        return SetTimer(Timer("topic", self.descriptor.id, self._round), delay)

    def _to_root(self, message: Message) -> Send | Route:
        if self._root is not None and not self._is_root:
            return Send(self._root, message)
        return Route(self.descriptor.key, message)

    def _root_is(self, root: Peer) -> RootIs:
        return RootIs(self.descriptor.id, root, len(self._members))

    def _add(self, member: Peer, last: int, now: float) -> Effects:
        new = member.id not in self._members
        if new and len(self._members) >= self.around.rendezvous.max_members:
            return [Notify(Dropped("too many members"))]
        self._members[member.id] = member
        self._expires[member.id] = now + self.around.rendezvous.expire_after
        if new and self.around.upcalls.on_join is not None:
            self.around.upcalls.on_join(member)
        if member.id == self.around.me.id:
            self._expires[member.id] = float("inf")
            return [*self._replay(member, last if new else 0), *self._registered(member, 0)]
        effects: Effects = [Send(member, Registered(self.descriptor.id, len(self._members)))]
        return effects + self._replay(member, last if new else 0)

    def _forget(self, member: Id) -> None:
        self._members.pop(member, None)
        self._expires.pop(member, None)

    def _registered(self, root: Peer, members: int) -> Effects:
        if not self._subscribed:
            return [] if self._is_root else [Send(root, Unregister(self.descriptor.id))]
        topic = self.descriptor.id
        fed_before = self._fed_by is not None
        self._fed_by = self._root = root
        self._last = 0
        effects: Effects = [] if fed_before else [self._timer(), Notify(Ready(topic))]
        if self._lost_parent:
            self._lost_parent = False
            effects.append(Notify(Repaired(topic, root)))
        return effects

    def _told_root(self, told: RootIs, now: float) -> Effects:
        effects: Effects = [Notify(Members(told.topic, told.members))]
        if self._is_root:
            return effects
        moved = self._root != told.root
        self._root = told.root
        if moved and self._subscribed:
            effects += self._join(now)
        return effects + self._flush(now)

    def _take_over(self, handover: Handover, now: float) -> Effects:
        effects: Effects = []
        for member in handover.members[: self.around.rendezvous.max_members]:
            effects += self._add(member, 0, now)
        return effects + self._flush(now)

    def _receive_batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        from_root = self._root is not None and peer.id == self._root.id
        if self._subscribed and from_root and not self._is_root:
            return [Deliver(batch)]
        effects = self._disseminate(batch, now)
        if self._is_root and self._subscribed:
            effects.append(Deliver(batch))
        elif self._root is not None and not self._is_root and not from_root:
            effects.append(Send(peer, self._root_is(self._root)))
        return effects

    def _disseminate(self, batch: Batch, now: float) -> Effects:
        # A newcomer that was handed members serves them even before it knows that it is the root.
        if self._is_root or (self._root is None and self._members):
            return self._fan_out(batch)
        if self._root is None:
            return self._hold(batch, now)
        if batch.hop > 8:  # two nodes that each take the other for the root; routing settles it
            return [Notify(Dropped("no root", batch.count)), *self._sent(batch, 0)]
        return [Send(self._root, _next_hop(batch)), *self._sent(batch, 1)]

    def _fan_out(self, batch: Batch) -> Effects:
        upcalls = self.around.upcalls
        passed = batch if upcalls.on_forward is None else upcalls.on_forward(batch)
        if passed is None:
            return [Notify(Dropped("stopped by on_forward", batch.count)), *self._sent(batch, 0)]
        onward = _next_hop(passed)
        self._remember(passed)
        skipped = (batch.origin, self.around.me.id)
        effects: Effects = [
            Send(member, onward) for id_, member in self._members.items() if id_ not in skipped
        ]
        return effects + self._sent(batch, len(effects))

    def _sent(self, batch: Batch, links: int) -> Effects:
        if batch.origin != self.around.me.id:
            return []
        return [Notify(Sent(batch.topic, batch.first, batch.count, links, batch.chunk))]

    def _hold(self, batch: Batch, now: float) -> Effects:
        # Publishers stop at one window of their own; the second is for batches in transit.
        if self._waiting_size + batch.size > 2 * self.around.delivery.window:
            return [Notify(Dropped("no root", batch.count)), *self._sent(batch, 0)]
        self._waiting.append(batch)
        self._waiting_size += batch.size
        if self._asked:
            return []
        self._asked = True
        query = Route(self.descriptor.key, RootQuery(self.descriptor.id, self.descriptor))
        self._round += 1
        retry = Timer("topic", self.descriptor.id, self._round)
        return [query, SetTimer(retry, self.around.rendezvous.answer_timeout)]

    def _flush(self, now: float) -> Effects:
        effects: Effects = []
        waiting, self._waiting, self._waiting_size = self._waiting, deque(), 0
        for batch in waiting:
            effects += self._disseminate(batch, now)
        return effects

    def _remember(self, batch: Batch) -> None:
        delivery = self.around.delivery
        if not delivery.history:
            return
        self._history.append(batch)
        self._history_messages += batch.count
        self._history_size += batch.size
        while self._history and (
            self._history_size > delivery.history_bytes
            or self._history_messages - self._history[0].count >= delivery.history
        ):
            oldest = self._history.popleft()
            self._history_messages -= oldest.count
            self._history_size -= oldest.size

    def _replay(self, member: Peer, last: int) -> Effects:
        chosen: list[Batch] = []
        wanted = last
        for batch in reversed(self._history):
            if wanted <= 0:
                break
            wanted -= batch.count if batch.chunk == 0 else 0
            chosen.append(msgspec.structs.replace(batch, skip=max(0, -wanted), wire=None))
        if member.id == self.around.me.id:
            return [Deliver(batch) for batch in reversed(chosen)]
        return [Send(member, _next_hop(batch)) for batch in reversed(chosen)]


def _next_hop(batch: Batch) -> Batch:
    return msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None)
