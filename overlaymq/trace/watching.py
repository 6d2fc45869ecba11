"""What happens to one node, told to a tracer: the same for the trio driver and the simulator.

A driver calls ``input`` before the core handles one, ``event`` for what the core notifies, ``sent`` and
``delivered`` when it performs those effects, and ``after`` when they are done. From these follow all rows but
those that only a live node has (links, subscriptions' buffers, clocks); ``runtime.tracing`` adds them.

The core tells nobody who its parents and children are. Where they may have changed, ``after`` compares a
topic's ``standing`` with what it was: for the topic that an input was about, for all of them when a peer has
gone, and once a second for all in any case (``beat``). Batches change no tree, so the data plane pays nothing
for this.

A node is an *expected* receiver from its first READY until its UNSUBSCRIBE, repairs in between included: what
it misses then is lost. While that lasts, ``beat`` says so (EXPECT), for a killed node says nothing; it says
again what SUBSCRIBE said, for retention may have removed that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq import ids
from overlaymq.events import (
    Dropped,
    Joined,
    LeafsChanged,
    Missed,
    ParentLost,
    PeerDead,
    PeerFailed,
    Publish,
    Ready,
    Received,
    Repaired,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from overlaymq.messages import Batch, Routed
from overlaymq.trace import schema
from overlaymq.trace.tracer import NOBODY, UNKNOWN, About

if TYPE_CHECKING:
    from overlaymq.core.node import Node
    from overlaymq.events import Event, Input
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Message, Peer
    from overlaymq.trace.tracer import Tracer

BEAT_EVERY = 1.0
"""Seconds between two EXPECT rows of a subscriber: a guess (docs/traces.md: what a killed node had last)."""
MOST_NAMES = 4096
"""Topics whose names are kept at hand: a guess."""
MANY = 256
"""A node with more children than this has them compared only once a second: a guess."""
DUPLICATE = "duplicate"
_REFUSED = (
    "of a stranger",
    "by a stranger",
    "malformed",
    "impossible",
    "unasked",
    "credit exceeded",
)


class _Place(msgspec.Struct):
    """Where a node stood in a topic when last looked at."""

    parent: Id | None = None
    children: dict[Id, None] = msgspec.field(default_factory=dict)
    view: dict[Id, None] = msgspec.field(default_factory=dict)
    in_view: dict[Id, None] = msgspec.field(default_factory=dict)


def is_refusal(reason: str) -> bool:
    """Whether something was discarded because its sender had no business to send it."""
    return any(word in reason for word in _REFUSED)


class Watch:
    """Tells a tracer about one node."""

    def __init__(self, tracer: Tracer, core: Node, clock: str = "") -> None:
        """``clock`` names the clock that this node's times are from, if others may share it."""
        self.tracer = tracer
        self.core = core
        self.me = core.me
        self.others_only: set[Id] = set()
        """Topics whose subscriptions do not want this node's own messages."""
        self._known: dict[Id, About] = {}
        self._places: dict[Id, _Place] = {}
        self._expected: dict[Id, bool] = {}
        self._subscriptions: dict[Id, Descriptor] = {}
        self._lost_at: dict[Id, int] = {}
        self._source = NOBODY
        self._look_at_all = False
        known = {"clock": clock} if clock else {}
        self._node("up", schema.packed(address=core.me.address, sample=tracer.sample, **known))

    # --- what a driver says ---

    def input(self, input_: Input) -> None:
        """The core is about to handle this."""
        if type(input_) is Received:
            self._source = input_.peer.id
            if type(input_.message) is Batch:
                self._messages(schema.RECV, input_.message, self._source)
            return
        self._source = NOBODY
        if type(input_) is Publish:
            self._learn(input_.descriptor)
            batch = input_.batch
            self.tracer.messages(
                self.me,
                schema.PUBLISH,
                batch,
                self.about(batch.topic),
                since=batch.published_at,
            )
        elif type(input_) is Subscribe:
            self._subscribed(input_.descriptor)
        elif type(input_) is Unsubscribe:
            self._unsubscribed(input_.topic)

    def sent(self, peer: Peer, message: Message, reason: str = "") -> None:
        """A message is handed to a link."""
        if type(message) is Batch:
            self._messages(schema.SEND, message, peer.id, reason)
        elif type(message) is Routed and self.tracer.routes:
            body = message.body
            self.tracer.note(
                self.me,
                schema.ROUTE_HOP,
                topic=message.key,
                origin=message.source.id,
                peer=peer.id,
                hop=message.hops,
                reason=reason,
                extra=schema.packed(kind=type(body).__name__),
            )

    def delivered(self, batch: Batch) -> None:
        """A batch is queued to this node's subscriptions."""
        self.tracer.messages(
            self.me, schema.DELIVER, batch, self.about(batch.topic), start=batch.skip
        )

    def dropped(
        self, reason: str, count: int, batch: Batch | None = None, peer: Id = NOBODY
    ) -> None:
        """Something was discarded."""
        event = schema.REJECT if is_refusal(reason) else schema.DROP
        if batch is None:
            self.tracer.note(self.me, event, count=count, peer=peer, reason=reason)
        else:
            self._messages(event, batch, peer, reason)

    def event(self, event: Event) -> None:
        """The core tells something."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def after(self, input_: Input) -> None:
        """The core has handled an input, and its effects are performed."""
        if type(input_) is Received and type(input_.message) is Batch:
            return
        if self._look_at_all or type(input_) is PeerFailed:
            self._look_at_all = False
            self._look_everywhere(MANY)
            return
        topic = _topic_of(input_)
        if topic is not None:
            self._look(topic, MANY)

    def beat(self) -> None:
        """Once every ``BEAT_EVERY`` seconds."""
        for topic, ready in self._expected.items():
            if ready:
                self._expect(topic)
        self._look_everywhere(None)

    def left(self) -> None:
        """The node ends."""
        self._node("down")

    # --- parts ---

    def about(self, topic: Id) -> About:
        """What is known of a topic."""
        known = self._known.get(topic)
        if known is None:
            strategy = self.core.strategy(topic)
            if strategy is None:
                return UNKNOWN
            known = self._learn(strategy.descriptor)
        return known

    def _learn(self, descriptor: Descriptor) -> About:
        known = self._known.get(descriptor.id)
        if known is None:
            if len(self._known) >= MOST_NAMES:
                self._known.clear()
            ordered = descriptor.reliability in ("ordered", "replicated")
            known = About(descriptor.strategy, descriptor.name, ordered)
            self._known[descriptor.id] = known
        return known

    def _messages(self, event: str, batch: Batch, peer: Id, reason: str = "") -> None:
        self.tracer.messages(self.me, event, batch, self.about(batch.topic), peer, reason=reason)

    def _about_topic(self, event: str, topic: Id, **facts: Any) -> None:
        self.tracer.note(self.me, event, self.about(topic), topic=topic, **facts)

    def _node(self, phase: str, extra: str = "") -> None:
        self.tracer.note(self.me, schema.NODE, reason=phase, extra=extra)

    # --- membership ---

    def _subscribed(self, descriptor: Descriptor) -> None:
        self._learn(descriptor)
        self._expected[descriptor.id] = False
        self._subscriptions[descriptor.id] = descriptor
        self._about_topic(schema.SUBSCRIBE, descriptor.id, extra=self._promise(descriptor.id))

    def _unsubscribed(self, topic: Id) -> None:
        if self._expected.pop(topic, False):
            self._expect(topic)
        self._subscriptions.pop(topic, None)
        self._lost_at.pop(topic, None)
        self._about_topic(schema.UNSUBSCRIBE, topic)

    def _expect(self, topic: Id) -> None:
        self._about_topic(schema.EXPECT, topic, extra=self._promise(topic))

    def _promise(self, topic: Id) -> str:
        """What a subscriber of a topic may rely on, and what it wants."""
        descriptor = self._subscriptions[topic]
        facts: dict[str, Any] = {"reliability": descriptor.reliability, "flow": descriptor.flow}
        if topic in self.others_only:
            facts["receive_own"] = False
        return schema.packed(**facts)

    # --- events ---

    def _joined(self, event: Joined) -> None:
        self._node("active")

    def _leaves(self, event: LeafsChanged) -> None:
        self._look_at_all = True
        leaves = schema.packed(leaves=[ids.text(leaf.id) for leaf in event.leaves])
        self.tracer.note(self.me, schema.LEAF_SET, extra=leaves)

    def _dead(self, event: PeerDead) -> None:
        self._look_at_all = True
        self.tracer.note(self.me, schema.LINK_DOWN, peer=event.peer.id, reason="declared dead")

    def _dropped(self, event: Dropped) -> None:
        if event.reason == DUPLICATE and event.batch is not None:
            self._messages(schema.DUPLICATE, event.batch, self._source)
        else:
            # The peer of a DROP is whom it was for, and what this node discards was for itself.
            sender = self._source if is_refusal(event.reason) else NOBODY
            self.dropped(event.reason, event.messages, event.batch, sender)

    def _missed(self, event: Missed) -> None:
        count = event.last - event.first + 1
        if self.about(event.topic).ordered:
            place = {"root": event.origin, "root_epoch": event.epoch, "root_seq": event.first}
            self._about_topic(schema.MISS, event.topic, count=count, **place)
        else:
            self._about_topic(
                schema.MISS,
                event.topic,
                origin=event.origin,
                epoch=event.epoch,
                first=event.first,
                count=count,
            )

    def _is_ready(self, event: Ready) -> None:
        if self._expected.get(event.topic) is False:
            self._expected[event.topic] = True
            self._about_topic(schema.READY, event.topic)
            self._expect(event.topic)

    def _parent_lost(self, event: ParentLost) -> None:
        self._lost_at.setdefault(event.topic, self.tracer.now())
        strategy = self.core.strategy(event.topic)
        if strategy is not None and strategy.mesh:  # there is no parent to compare
            self._about_topic(schema.PARENT_LOST, event.topic, peer=event.peer.id)

    def _repaired(self, event: Repaired) -> None:
        since = self._lost_at.pop(event.topic, None)
        self._about_topic(schema.REPAIR, event.topic, peer=event.peer.id, since=since)

    # --- trees and views ---

    def _look_everywhere(self, most: int | None) -> None:
        active = {descriptor.id: None for descriptor in self.core.active_topics()}
        for topic in [*active, *(topic for topic in self._places if topic not in active)]:
            self._look(topic, most)

    def _look(self, topic: Id, most: int | None) -> None:
        """Compare a topic's standing with what it was, unless that was too much to do it often."""
        was = self._places.get(topic)
        if was is not None and most is not None and len(was.children) > most:
            return
        strategy = self.core.strategy(topic)
        standing = None if strategy is None else strategy.standing
        now = _Place()
        if standing is not None:
            parent = standing.parent
            now = _Place(
                None if parent is None or parent.id == self.me.id else parent.id,
                {peer.id: None for peer in standing.children},
                {peer.id: None for peer in standing.view},
                {peer.id: None for peer in standing.in_view},
            )
        if was is None:
            if now == _Place():
                return
            was = _Place()
        self._places[topic] = now
        if strategy is None:
            del self._places[topic]
        if now != was:
            self._moved(topic, was, now)

    def _moved(self, topic: Id, was: _Place, now: _Place) -> None:
        if was.parent != now.parent:
            if was.parent is not None:
                self._about_topic(schema.PARENT_LOST, topic, peer=was.parent)
            if now.parent is not None:
                self._about_topic(schema.PARENT_SET, topic, peer=now.parent)
        self._changed(topic, was.children, now.children, schema.CHILD_ADD, schema.CHILD_REMOVE)
        views = (schema.VIEW_ADD, schema.VIEW_REMOVE)
        self._changed(topic, was.view, now.view, *views, reason="partial")
        self._changed(topic, was.in_view, now.in_view, *views, reason="in")

    def _changed(
        self,
        topic: Id,
        was: dict[Id, None],
        now: dict[Id, None],
        add: str,
        remove: str,
        reason: str = "",
    ) -> None:
        for peer in was:
            if peer not in now:
                self._about_topic(remove, topic, peer=peer, reason=reason)
        for peer in now:
            if peer not in was:
                self._about_topic(add, topic, peer=peer, reason=reason)


_HANDLERS: dict[type, Any] = {
    Joined: Watch._joined,
    LeafsChanged: Watch._leaves,
    PeerDead: Watch._dead,
    Dropped: Watch._dropped,
    Missed: Watch._missed,
    Ready: Watch._is_ready,
    ParentLost: Watch._parent_lost,
    Repaired: Watch._repaired,
}


def _topic_of(input_: Input) -> Id | None:
    """The topic that an input is about, if it is about one."""
    if type(input_) is TimerFired:
        return ids.Id(input_.timer.subject)
    about: Any = input_.message if type(input_) is Received else input_
    if type(about) is Routed:
        about = about.body
    topic = getattr(about, "topic", None)
    if topic is None:
        topic = getattr(getattr(about, "descriptor", None), "id", None)
    return ids.Id(topic) if isinstance(topic, int) else None
