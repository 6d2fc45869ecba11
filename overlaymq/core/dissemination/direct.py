"""direct: members register at the topic's root, which sends each batch to every member.

The papers' "naive multicast", and the right choice for a handful of subscribers: one hop from the root.
It is also the size test of the strategy contract.

A batch on its way to the root carries no root sequence; the root gives it one when it spreads it. So a
member takes a spread batch from whichever root sends it, and only what is not yet spread goes on to the
root: during a hand-over, batches and the news of it come on different streams, in any order.

Registrations are soft state: a member refreshes, a silent one expires. When a closer node arrives, the old
root hands its members over at once, before the newcomer is active, so that no batch finds an empty table.
So does a root that leaves, to the next in the ring; till it has gone it names that one to those who ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from overlaymq.core.dissemination.base import Standing
from overlaymq.core.dissemination.children import Child
from overlaymq.core.dissemination.rooted import Rooted, next_hop
from overlaymq.core.reliability.history import History
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
    SetTimer,
    Timer,
)
from overlaymq.messages import (
    Batch,
    BatchRefused,
    Handover,
    Register,
    Registered,
    RootIs,
    RootQuery,
    Skipped,
    TreeNote,
    Unregister,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.messages import Descriptor, Message, Peer


STOPPED = "stopped by on_forward"


class Direct(Rooted):
    """See the module's text."""

    __slots__ = (
        "_departing",
        "_fed_by",
        "_history",
        "_last",
        "_lost_parent",
        "_note",
        "_round",
        "_spread_count",
    )

    name: ClassVar[str] = "direct"

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._history = History(around.delivery.history, around.delivery.history_bytes)
        self._departing = False
        self._fed_by: Peer | None = None
        self._lost_parent = False
        self._last = 0
        self._note = b""
        self._round = 0
        self._spread_count = 0

    @property
    def _above(self) -> Peer | None:
        return None if self._is_root else self._fed_by

    def subscribe(self, last: int, now: float, note: bytes = b"") -> Effects:
        """Become a member."""
        self._subscribed = True
        self._last, self._note = last, note
        return self._join(now)

    def unsubscribe(self, now: float) -> Effects:
        """Stop being a member."""
        self._subscribed = False
        self._fed_by = None
        self._children.pop(self.around.me.id, None)
        if self._root is None or self._is_root:
            return []
        return [Send(self._root, Unregister(self.descriptor.id))]

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """From a peer, directly."""
        match message:
            case Batch():
                return self._receive_batch(peer, message, now)
            case Register() | RootQuery():
                # A refresh sent to a root that is no longer one goes on by the key.
                if self._is_root:
                    return self.deliver(message, peer, now)
                onward: Effects = [Route(self.descriptor.key, message)]
                if self._root is not None and isinstance(message, RootQuery):
                    onward.append(Send(peer, self._root_is(self._root)))
                return onward
            case Registered():
                return self._registered(peer)
            case RootIs():
                return self._told_root(message, now)
            case BatchRefused():
                return self._batch_refused(peer, message, now)
            case Unregister():
                self._children.pop(peer.id, None)
            case TreeNote():
                return self._noted(peer, message, now)
            case Handover():
                return self._take_over(peer, message, now)
            case Skipped():
                return self._skipped(peer, message)
        return []

    def deliver(self, message: Message, source: Peer, now: float) -> Effects:
        """At the root, or at one that leaves and has handed over."""
        if self._root is not None and not self._is_root:
            if isinstance(message, Register):
                return [Send(self._root, message)]
            return [Send(source, self._root_is(self._root))]
        if isinstance(message, Register):
            return self._add(message.member, message.last, message.note, now)
        if isinstance(message, RootQuery):
            self._remember_writer(source)
            return [Send(source, self._root_is(self.around.me))]
        return []

    def root_changed(self, root: Peer | None, now: float) -> Effects:
        """Become root, hand over, or follow."""
        if self._doubts(root):
            return self._ask_again()
        if root is None or root == self._root:
            return []
        effects = self._hand_over(root) if self._is_root else []
        self._root = root
        if self._subscribed:
            effects += self._join(now)
        return effects + self._flush(now)

    def depart(self, now: float) -> Effects:
        """The next root is told when the node abdicates."""
        self._departing = True
        return []

    @property
    def needed(self) -> bool:
        """For what it holds for the root, or may still get."""
        return bool(self._waiting) or self._stays

    def failed(self, peer: Peer, now: float) -> Effects:
        """A member is gone, or the root: find the new one."""
        self._children.pop(peer.id, None)
        known = (self._root, self._fed_by)
        if all(one is None or one.id != peer.id for one in known):
            return []
        if self._root is not None and self._root.id == peer.id:
            self._root = None
        effects: Effects = []
        if self._subscribed:
            if self._fed_by is not None:
                self._lost_parent = True
                effects.append(Notify(ParentLost(self.descriptor.id, peer)))
            self._fed_by = None
            self._note, asked = self._told_fault(peer, now)
            effects += [*asked, *self._join(now)]
        return effects

    def fired(self, timer: Timer, now: float) -> Effects:
        """Ask again, refresh, or expire."""
        if timer.part == "topic.root":
            return self._ask_again() if timer.round == self._asking else []
        if timer.part == "topic.upcall":
            return self._timed(timer.round, now)
        if timer.part == "topic.stay":
            self._stays = False
            return []
        if timer.round != self._round:
            return []
        for id_ in [id_ for id_, member in self._children.items() if member.expires <= now]:
            del self._children[id_]
        if self._subscribed and self._fed_by is None and not self._is_root:
            self._root = None  # it did not answer; find it again by the key
        return self._join(now) if self._subscribed or self._children else []

    @property
    def kept(self) -> Collection[Peer]:
        """The members at the root, the root at members and publishers."""
        peers = [member.peer for member in self._children.values()]
        return [*peers, self._root] if self._root else peers

    @property
    def standing(self) -> Standing | None:
        """The root and its members."""
        me = self.around.me.id
        children = tuple([one.peer for id_, one in self._children.items() if id_ != me])
        role = "root" if self._is_root else "subscriber" if self._subscribed else "none"
        return Standing(role, self._above, children)

    @property
    def idle(self) -> bool:
        """Nothing to do with the topic."""
        return not (self._subscribed or self._children or self._waiting)

    # --- members ---

    def _join(self, now: float) -> Effects:
        """Register or refresh, and come back later; at the root, only the latter."""
        me = self.around.me
        if not self._subscribed:
            return [self._timer()]
        if self._is_root:
            return [*self._add(me, self._last, self._note, now), self._timer()]
        register = Register(self.descriptor.id, me, self.descriptor, self._last, self._note)
        return [self._ask_root(register), self._timer()]

    def _timer(self) -> SetTimer:
        self._round += 1
        rendezvous = self.around.rendezvous
        settled = self._fed_by is not None or not self._subscribed
        delay = rendezvous.refresh_every if settled else rendezvous.answer_timeout
        return SetTimer(Timer("topic", self.descriptor.id, self._round), delay)

    def _add(self, member: Peer, last: int, note: bytes, now: float) -> Effects:
        new = member.id not in self._children
        if new and len(self._children) >= self.around.rendezvous.max_members:
            return [Notify(Dropped("too many members"))]
        first = not self._children
        own = member.id == self.around.me.id
        expires = float("inf") if own else now + self.around.rendezvous.expire_after
        self._children[member.id] = Child(member, expires)
        asked = self._told_joined(member, note, now) if new else []
        replay = self._history.last(last) if new else []
        if own:
            return [*[Deliver(batch) for batch in replay], *self._registered(member), *asked]
        effects: Effects = [Send(member, Registered(self.descriptor.id, len(self._children)))]
        effects += [*asked, *[Send(member, batch) for batch in replay]]
        return [*effects, self._timer()] if first else effects

    def _member_count(self) -> int:
        return len(self._children)

    def _registered(self, root: Peer) -> Effects:
        if self._is_root and root.id != self.around.me.id:
            return []  # an answer from before this node became the root
        if not self._subscribed:
            return [] if self._is_root else [Send(root, Unregister(self.descriptor.id))]
        topic = self.descriptor.id
        fed_before = self._fed_by is not None
        self._fed_by = self._root = root
        self._last, self._note = 0, b""
        effects: Effects = [] if fed_before else [self._timer(), Notify(Ready(topic))]
        if self._lost_parent:
            self._lost_parent = False
            effects.append(Notify(Repaired(topic, root)))
        return effects

    def _told_root(self, told: RootIs, now: float) -> Effects:
        effects: Effects = [Notify(Members(told.topic, told.members))]
        if told.root.id == self.around.me.id or (self._is_root and not self._doubted):
            return effects
        if self._is_root:
            effects += self._hand_over(told.root)
        moved = self._root != told.root
        self._root = told.root
        self._believed(now)
        if moved and self._subscribed:
            effects += self._join(now)
        return effects + self._flush(now)

    def _hand_over(self, root: Peer) -> Effects:
        me = self.around.me.id
        members = tuple([member.peer for member in self._children.values()])
        told = self._root_is(root)
        self._children.clear()
        effects: Effects = [Send(root, Handover(self.descriptor, members))]
        effects += [Send(member, told) for member in members if member.id != me]
        return effects + self._linger(root) if self._departing else effects

    def _take_over(self, peer: Peer, handover: Handover, now: float) -> Effects:
        effects: Effects = []
        if self._root is not None and self._root.id == peer.id:
            self._root = self.around.me  # the ring will say so, too, when the old root has left
        for member in handover.members[: self.around.rendezvous.max_members]:
            effects += self._add(member, 0, b"", now)
        return effects + self._flush(now)

    # --- batches ---

    def _receive_batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        if batch.root_sequence:
            if self._subscribed:
                return [Deliver(batch)]
            return [Notify(Dropped("not subscribed", batch.count, batch))]
        if self._is_root:
            self._remember_writer(peer)
        effects = self._to_root(batch, now)
        if self._root is not None and not self._is_root:
            effects.append(Send(peer, self._root_is(self._root)))
        return effects

    def _to_root(self, batch: Batch, now: float) -> Effects:
        # A newcomer that was handed members serves them even before it knows that it is the root.
        if self._root is None and self._children:
            return self._spread(batch, now)
        return super()._to_root(batch, now)

    def _spread(self, batch: Batch, now: float) -> Effects:
        self._spread_count += 1
        offered = msgspec.structs.replace(batch, root_sequence=self._spread_count, wire=None)
        passed = self._passed(offered, now)
        effects = self._asked()
        if passed is None:
            effects.append(Notify(Dropped(STOPPED, batch.count, batch)))
            return effects + self._sent(batch, 0, STOPPED)
        onward = next_hop(passed)
        self._history.add(onward)
        me = self.around.me.id
        not_to = (batch.origin, me)
        sends: Effects = [
            Send(one.peer, onward) for id_, one in self._children.items() if id_ not in not_to
        ]
        effects += [*sends, *self._sent(batch, len(sends))]
        # This node's own batches were delivered here when they were published.
        if self._subscribed and batch.origin != me:
            effects.append(Deliver(passed))
        return effects
