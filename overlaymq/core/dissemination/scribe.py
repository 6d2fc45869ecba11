"""scribe: a multicast tree per topic, grown from the routes of joins (Scribe JSAC III-A, NGC 3).

A node joins by routing to the topic's key. The first node on the way takes it as a child and stops the
message; if that node is not in the tree yet it becomes a *forwarder* and joins in turn. So the tree is the
union of the routes from the members to the root, and a join costs only what is new in it. The root gives
each batch its place in the topic's sequence and sends it to its children, and so on down.

- *Acknowledgement.* The parent answers with the path from the root to itself (FreePastry). A member is
  ready once that path begins at the root. A child that is on its parent's path has found a loop and joins
  again by a randomised route; whoever meets a join of a node on its own path lets it pass.
- *Soft state.* Children refresh, parents send heartbeats where no batch did; who is silent is forgotten or
  left (Scribe JSAC III-B.1). A broken link or a verified death is acted upon at once.
- *Repair.* Whoever loses its parent joins again; Pastry routes around the dead node. Its subtree stays.
- *The root moves.* A node that becomes the owner of the key leaves its parent. The old root hands over,
  and joins the new one as a child, so its tree moves as one. It sequences nothing from then on.
- *Copies.* While a node changes its parent, two may feed it. Whatever comes twice, by the root's number, is
  dropped; a second parent that keeps sending is told to stop.

Sizes of subtrees travel with joins and refreshes, so the root knows how many members there are.

Deviations: the papers' node learns its parent with the first message; ours is told. The papers do not say
what a forwarder does with the message of a node it cannot take; ours passes it on towards the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from overlaymq.core.dissemination.rooted import Rooted
from overlaymq.core.reliability.history import History
from overlaymq.core.reliability.seen import Seen
from overlaymq.events import (
    Deliver,
    Dropped,
    Lagged,
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
    Handover,
    RootIs,
    RootQuery,
    Skipped,
    TreeBeat,
    TreeJoin,
    TreeJoined,
    TreeLeave,
    TreeRefresh,
    TreeRefused,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Message, Peer

STOPPED = "stopped by on_forward"
MAX_DEPTH = 128
"""A path longer than this is a loop, or a lie: routes of 100,000 nodes have five hops."""
TICKS = 1e6
"""A root numbers from its clock's microseconds on, so that one that has forgotten the topic in between
never gives a number twice."""


class Child:
    """An entry of the children table."""

    __slots__ = ("expires", "members", "peer")

    def __init__(self, peer: Peer, expires: float, members: int) -> None:
        self.peer = peer
        self.expires = expires
        self.members = members


class Scribe(Rooted):
    """See the module's text."""

    name: ClassVar[str] = "scribe"

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._children: dict[Id, Child] = {}
        self._parent: Peer | None = None
        self._path: tuple[Id, ...] = ()
        self._rooted = False
        self._heir = False
        self._joining = False
        self._repairing = False
        self._ready = False
        self._round = 0
        self._last = 0
        self._epoch = 0
        self._sequence = 0
        self._seen = Seen()
        self._history = History(around.delivery.history, around.delivery.history_bytes)
        self._ticking = False
        self._parent_heard = self._refreshed_at = self._spread_at = 0.0
        self._told_size = self._joined_size = 0
        self._told_at = float("-inf")
        self._will_tell = False

    # --- the application ---

    def subscribe(self, last: int, now: float) -> Effects:
        """Become a member; a forwarder is in the tree already."""
        self._subscribed = True
        effects: Effects = [Deliver(batch) for batch in self._history.last(last)]
        if self._rooted:
            return effects + self._announce_ready() + self._tell_size(now)
        self._last = 0 if effects else last
        return effects + self._join(now)

    def unsubscribe(self, now: float) -> Effects:
        """Stop being a member; children are still served."""
        self._subscribed = self._ready = False
        return self._prune(now)

    # --- messages ---

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """From a peer, directly."""
        match message:
            case Batch():
                return self._receive_batch(peer, message, now)
            case TreeJoin():
                taken = self._take(message, now)
                return [self._refuse(message.child, True)] if taken is None else taken
            case TreeJoined():
                return self._joined(peer, message, now)
            case TreeRefused():
                return self._refused(peer, message, now)
            case TreeLeave():
                return self._lost_child(peer.id, now)
            case TreeRefresh():
                return self._refreshed(peer, message, now)
            case TreeBeat():
                return self._beat(peer, now)
            case RootQuery():
                return self._asked_root(peer, message)
            case RootIs():
                return self._told_root(message, now)
            case Handover():
                return self._inherit(message, now)
            case Skipped():
                return self._skipped(peer, message)
        return []

    def forward(self, message: Message, next_hop: Peer, now: float) -> tuple[bool, Effects]:
        """A join that passes ends here, unless it is this node's own or would make a loop."""
        if not isinstance(message, TreeJoin):
            return True, []
        taken = self._take(message, now)
        return (True, []) if taken is None else (False, taken)

    def deliver(self, message: Message, source: Peer, now: float) -> Effects:
        """At the root."""
        if isinstance(message, RootQuery):
            return [Send(source, self._root_is(self.around.me))]
        if not isinstance(message, TreeJoin) or message.child.id == self.around.me.id:
            return []
        taken = self._take(message, now)
        if taken is not None:
            return taken
        return [Notify(Dropped("too many children")), self._refuse(message.child, False)]

    def root_changed(self, root: Peer | None, now: float) -> Effects:
        """Become the root, hand over, or remember who it is."""
        if root is None or root == self._root:
            return []
        was_root, self._root = self._is_root, root
        effects: Effects = []
        if self._is_root:
            effects += self._become_root(now)
        elif was_root:
            effects += self._hand_over(root, now)
        return effects + self._flush(now)

    def failed(self, peer: Peer, now: float) -> Effects:
        """A child is gone, or the parent: join anew."""
        if self._root is not None and self._root.id == peer.id:
            self._root = None
        effects = self._lost_child(peer.id, now)
        if self._parent is not None and self._parent.id == peer.id:
            effects += self._lost_parent(now)
        return effects

    def fired(self, timer: Timer, now: float) -> Effects:
        """Ask again, keep the soft state, or tell the size."""
        match timer.part:
            case "topic.root":
                return self._ask_again() if timer.round == self._asking else []
            case "topic.join" if timer.round == self._round and self._joining:
                self._joining = False
                return self._join(now)
            case "topic.tick":
                return self._tick(now)
            case "topic.size":
                self._will_tell = False
                return self._tell_size(now)
        return []

    @property
    def kept(self) -> Collection[Peer]:
        """The tree's links, and the way of publications to the root."""
        above = {peer.id: peer for peer in (self._parent, self._root) if peer is not None}
        above.pop(self.around.me.id, None)
        return (*above.values(), *[child.peer for child in self._children.values()])

    @property
    def idle(self) -> bool:
        """No part in the tree, and nothing waits."""
        return not (
            self._wanted or self._waiting or self._joining or self._heir or self._parent is not None
        )

    @property
    def path(self) -> tuple[Id, ...]:
        """The way from the top of the tree down to this node."""
        return (*self._path, self.around.me.id)

    @property
    def children(self) -> tuple[Peer, ...]:
        """Who is fed by this node."""
        return tuple([child.peer for child in self._children.values()])

    @property
    def _wanted(self) -> bool:
        return self._subscribed or bool(self._children)

    # --- joining and leaving ---

    def _join(self, now: float, randomize: bool = False, root: Peer | None = None) -> Effects:
        if self._is_root:
            return self._become_root(now)
        if self._joining or self._parent is not None or not self._wanted:
            return []
        self._joining = True
        self._round += 1
        self._joined_size = self._member_count()
        descriptor = self.descriptor
        join = TreeJoin(descriptor.id, self.around.me, descriptor, self._joined_size, self._last)
        wait = SetTimer(
            Timer("topic.join", descriptor.id, self._round), self.around.rendezvous.answer_timeout
        )
        return [Send(root, join) if root else Route(descriptor.key, join, randomize), wait]

    def _joined(self, peer: Peer, joined: TreeJoined, now: float) -> Effects:
        if self._is_root or not self._wanted:
            self._joining = False
            return [Send(peer, TreeLeave(self.descriptor.id))]
        if self.around.me.id in joined.path or len(joined.path) > MAX_DEPTH:
            return self._looped(peer, now)
        effects: Effects = []
        former, self._parent = self._parent, peer
        if former is not None and former.id != peer.id:
            effects.append(Send(former, TreeLeave(self.descriptor.id)))
        if former is None or former.id != peer.id:
            self._told_size, self._told_at = self._joined_size, now
            self._refreshed_at = now
        self._joining, self._last, self._parent_heard = False, 0, now
        effects += self._set_path(joined.path, joined.rooted)
        return effects + self._start_ticking() + self._announce_ready() + self._tell_size(now)

    def _set_path(self, path: tuple[Id, ...], rooted: bool) -> Effects:
        if path == self._path and rooted == self._rooted:
            return []
        self._path, self._rooted = path, rooted
        effects: Effects = []
        for id_ in [id_ for id_ in path if id_ in self._children]:
            effects.append(self._refuse(self._children.pop(id_).peer, True))
        news = self._news()
        return effects + [Send(child.peer, news) for child in self._children.values()]

    def _news(self) -> TreeJoined:
        return TreeJoined(self.descriptor.id, self.path, self._rooted)

    def _announce_ready(self) -> Effects:
        topic = self.descriptor.id
        if not self._rooted:
            return []
        repaired, self._repairing = self._repairing, False
        if not self._subscribed:
            return []
        effects: Effects = [] if self._ready else [Notify(Ready(topic))]
        self._ready = True
        if repaired and self._parent is not None:
            effects.append(Notify(Repaired(topic, self._parent)))
        elif repaired:
            effects.append(Notify(Repaired(topic, self.around.me)))
        return effects

    def _looped(self, peer: Peer, now: float) -> Effects:
        self._joining = False
        effects: Effects = [Send(peer, TreeLeave(self.descriptor.id))]
        if self._parent is not None and self._parent.id != peer.id:
            return effects
        self._parent, self._rooted = None, False
        return effects + self._join(now, randomize=True)

    def _refused(self, peer: Peer, refused: TreeRefused, now: float) -> Effects:
        if self._parent is not None:
            if self._parent.id != peer.id:
                return []
            return self._lost_parent(now, refused.looped)
        if not self._joining or not refused.looped:
            return []  # the timer asks again, and later
        self._joining = False
        return self._join(now, randomize=True)

    def _lost_parent(self, now: float, randomize: bool = False) -> Effects:
        lost, self._parent = self._parent, None
        self._path, self._rooted, self._joining = (), False, False
        if lost is None or not self._wanted:
            return []
        effects: Effects = []
        self._repairing = True
        if self._subscribed:
            self._ready = False
            effects.append(Notify(ParentLost(self.descriptor.id, lost)))
        if self.around.upcalls.on_fault is not None:
            self.around.upcalls.on_fault(lost)
        return effects + self._join(now, randomize)

    def _prune(self, now: float) -> Effects:
        """Leave the tree if nobody here needs it; otherwise only the size has changed."""
        if self._wanted or self._parent is None:
            return self._tell_size(now)
        parent, self._parent = self._parent, None
        self._path, self._rooted = (), False
        return [Send(parent, TreeLeave(self.descriptor.id))]

    # --- children ---

    def _take(self, join: TreeJoin, now: float) -> Effects | None:
        """Make a node a child; None if it must look elsewhere."""
        child = join.child
        if child.id in self.path:
            return None
        known = self._children.get(child.id)
        if known is None and len(self._children) >= self.around.rendezvous.max_members:
            return None
        expires = now + self.around.rendezvous.expire_after
        self._children[child.id] = Child(child, expires, join.members)
        effects: Effects = [Send(child, self._news())]
        if known is None:
            if self.around.upcalls.on_join is not None:
                self.around.upcalls.on_join(child)
            effects += [Send(child, batch) for batch in self._history.last(join.last)]
        return effects + self._start_ticking() + self._join(now) + self._tell_size(now)

    def _refuse(self, child: Peer, looped: bool) -> Send:
        return Send(child, TreeRefused(self.descriptor.id, looped))

    def _lost_child(self, id_: Id, now: float) -> Effects:
        return [] if self._children.pop(id_, None) is None else self._prune(now)

    def _refreshed(self, peer: Peer, refresh: TreeRefresh, now: float) -> Effects:
        child = self._children.get(peer.id)
        if child is None:
            return [self._refuse(peer, False)]
        child.expires = now + self.around.rendezvous.expire_after
        child.members = refresh.members
        return self._tell_size(now)

    def _member_count(self) -> int:
        below = sum([child.members for child in self._children.values()])
        return below + self._subscribed

    def _tell_size(self, now: float) -> Effects:
        """The parent learns of a changed subtree at once, but not of each change of a burst."""
        size = self._member_count()
        if self._parent is None or size == self._told_size:
            return []
        wait = self._told_at + self.around.scribe.tell_every - now
        if wait <= 0:
            self._told_size, self._told_at = size, now
            return [Send(self._parent, TreeRefresh(self.descriptor.id, size))]
        if self._will_tell:
            return []
        self._will_tell = True
        return [SetTimer(Timer("topic.size", self.descriptor.id), wait)]

    # --- soft state ---

    def _start_ticking(self) -> Effects:
        if self._ticking:
            return []
        self._ticking = True
        timer = Timer("topic.tick", self.descriptor.id)
        return [SetTimer(timer, self.around.scribe.heartbeat_every)]

    def _tick(self, now: float) -> Effects:
        self._ticking = False
        effects: Effects = []
        for id_ in [id_ for id_, child in self._children.items() if child.expires <= now]:
            effects += self._lost_child(id_, now)
        topic, config = self.descriptor.id, self.around.scribe
        if now - self._spread_at >= config.heartbeat_every:
            beat = TreeBeat(topic)
            effects += [Send(child.peer, beat) for child in self._children.values()]
        if self._parent is not None:
            if now - self._parent_heard >= config.suspect_after:
                effects.append(Send(self._parent, TreeLeave(topic)))
                effects += self._lost_parent(now)
            elif now - self._refreshed_at >= self.around.rendezvous.refresh_every:
                self._refreshed_at = now
                effects.append(Send(self._parent, TreeRefresh(topic, self._member_count())))
        if self._parent is None and not self._children:
            return effects
        return effects + self._start_ticking()

    def _beat(self, peer: Peer, now: float) -> Effects:
        if self._parent is not None and self._parent.id == peer.id:
            self._parent_heard = now
            return []
        return self._disown(peer)

    def _disown(self, peer: Peer) -> Effects:
        """Somebody takes this node for a child. While a join is under way, it may well become one."""
        return [] if self._joining else [Send(peer, TreeLeave(self.descriptor.id))]

    # --- the root ---

    def _become_root(self, now: float) -> Effects:
        effects: Effects = []
        if self._parent is not None:
            effects.append(Send(self._parent, TreeLeave(self.descriptor.id)))
            self._parent = None
        self._joining = self._heir = False
        self._begin_epoch(now)
        return effects + self._set_path((), True) + self._announce_ready()

    def _begin_epoch(self, now: float) -> None:
        if not self._sequence:
            self._epoch += 1
            self._sequence = int(now * TICKS) + 1

    def _hand_over(self, root: Peer, now: float) -> Effects:
        self._sequence = 0
        self._rooted = False
        heritage = Handover(self.descriptor, (), self._epoch)
        return [Send(root, heritage), *self._join(now, root=root)]

    def _inherit(self, heritage: Handover, now: float) -> Effects:
        """The old root has stopped; until this node knows better, it acts as the root."""
        self._epoch = max(self._epoch, heritage.epoch)
        if self._is_root:
            return []
        if self._root is None:
            self._heir = True
            self._begin_epoch(now)
        return self._flush(now)

    def _asked_root(self, peer: Peer, query: RootQuery) -> Effects:
        if self._is_root:
            return [Send(peer, self._root_is(self.around.me))]
        onward: Effects = [Route(self.descriptor.key, query)]
        if self._root is not None:
            onward.append(Send(peer, self._root_is(self._root)))
        return onward

    def _told_root(self, told: RootIs, now: float) -> Effects:
        effects: Effects = [Notify(Members(told.topic, told.members))]
        if not self._is_root:
            self._root = told.root
        return effects + self._flush(now)

    def _to_root(self, batch: Batch, now: float) -> Effects:
        if self._root is None and self._heir:
            return self._spread(batch, now)
        return super()._to_root(batch, now)

    # --- batches ---

    def _spread(self, batch: Batch, now: float) -> Effects:
        on_forward = self.around.upcalls.on_forward
        passed = batch if on_forward is None else on_forward(batch)
        if passed is None:
            return [Notify(Dropped(STOPPED, batch.count)), *self._sent(batch, 0, STOPPED)]
        me = self.around.me.id
        numbered = msgspec.structs.replace(
            passed, root=me, root_epoch=self._epoch, root_sequence=self._sequence, wire=None
        )
        self._sequence += batch.count
        self._seen.add(me, self._epoch, numbered.root_sequence, self._sequence - 1)
        effects = self._pass_on(numbered, now)
        effects += self._sent(batch, len(effects))
        # This node's own batches were delivered here when they were published.
        if self._subscribed and batch.origin != me:
            effects.append(Deliver(passed))
        return effects

    def _pass_on(self, batch: Batch, now: float) -> Effects:
        onward = msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None)
        self._history.add(onward)
        self._spread_at = now
        return [Send(child.peer, onward) for child in self._children.values()]

    def _receive_batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        if not batch.root_sequence:
            effects = self._to_root(batch, now)
            if self._root is not None and not self._is_root:
                effects.append(Send(peer, self._root_is(self._root)))
            return effects
        if self._parent is not None and self._parent.id == peer.id:
            self._parent_heard = now
            effects = []
        else:
            effects = self._disown(peer)
        self._epoch = max(self._epoch, batch.root_epoch)
        last = batch.root_sequence + batch.count - 1
        if not self._seen.add(batch.root, batch.root_epoch, batch.root_sequence, last):
            return [*effects, Notify(Dropped("duplicate", batch.count))]
        if not self._wanted:
            return [*effects, Notify(Dropped("not subscribed", batch.count))]
        on_forward = self.around.upcalls.on_forward
        passed = batch if on_forward is None or not self._children else on_forward(batch)
        if passed is None:
            return [*effects, Notify(Dropped(STOPPED, batch.count))]
        effects += self._pass_on(passed, now)
        if self._subscribed and batch.origin != self.around.me.id:
            effects.append(Deliver(passed))
        return effects

    def _skipped(self, peer: Peer, skipped: Skipped) -> Effects:
        """Upstream dropped a share: a publisher found this root too slow, or the parent this child."""
        if not self._is_root and (self._parent is None or self._parent.id != peer.id):
            return [Notify(Dropped("skip announced by a stranger"))]
        effects: Effects = [
            Send(child.peer, skipped) for id_, child in self._children.items() if id_ != peer.id
        ]
        if self._subscribed:
            effects.append(Notify(Lagged(skipped.topic, skipped.messages)))
        return effects
