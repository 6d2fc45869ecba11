"""A node's place in one topic's tree: its parent, the path above it, its children, and their upkeep.

See the package's text for the protocol. What a mode adds to it travels with the messages that are sent
anyway: what a child expects next with its join, what is known of the sequence with the parent's answer and
its heartbeats.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING
from zlib import crc32

from overlaymq.core.dissemination.children import Child
from overlaymq.core.dissemination.rooted import Rooted, next_hop
from overlaymq.core.reliability.history import History
from overlaymq.core.reliability.upcalls import ModeTree
from overlaymq.core.topics import MAX_CREDENTIALS
from overlaymq.events import Notify, ParentLost, Ready, Repaired, Route, Send, SetTimer, Timer
from overlaymq.ids import BYTES
from overlaymq.messages import TreeBeat, TreeJoin, TreeJoined, TreeLeave, TreeRefresh, TreeRefused

if TYPE_CHECKING:
    from collections.abc import Collection

    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Descriptor, Peer, TreeStatus

MAX_DEPTH = 128
"""A path longer than this is a loop, or a lie: routes of 100,000 nodes have five hops."""


class TreePlace(Rooted):
    """Everything about the tree but what flows through it."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._parent: Peer | None = None
        self._path: tuple[Id, ...] = ()
        self._rooted = False
        self._heir = False
        self._joining = False
        self._repairing = False
        self._ready = False
        self._round = 0
        self._settled = 0
        """Answers to joins up to this one come too late: another has been answered, or the parent left."""
        self._last = 0
        self._note = b""
        self._history = History(around.delivery.history, around.delivery.history_bytes)
        self._ticking = False
        self._parent_heard = self._refreshed_at = self._spread_at = 0.0
        self._told_size = self._joined_size = 0
        self._told_at = float("-inf")
        self._will_tell = False
        self._mode_tree = ModeTree(around.me, descriptor, self._children)

    @property
    def _above(self) -> Peer | None:
        return self._parent

    @property
    def kept(self) -> Collection[Peer]:
        """The tree's links, and the way of publications to the root."""
        above = {peer.id: peer for peer in (self._parent, self._root) if peer is not None}
        above.pop(self.around.me.id, None)
        return (*above.values(), *[child.peer for child in self._children.values()])

    @property
    def path(self) -> tuple[Id, ...]:
        """The way from the top of the tree down to this node."""
        return (*self._path, self.around.me.id)

    @property
    def parent(self) -> Peer | None:
        """Who feeds this node."""
        return self._parent

    @property
    def member(self) -> bool:
        """Whether this node is subscribed."""
        return self._subscribed

    @property
    def children(self) -> tuple[Peer, ...]:
        """Who is fed by this node."""
        return tuple([child.peer for child in self._children.values()])

    @property
    def _wanted(self) -> bool:
        if self._subscribed or self._children:
            return True
        return self.around.mode is not None and self.around.mode.lingers

    @abstractmethod
    def _become_root(self, now: float) -> Effects:
        """This node owns the key."""

    # --- the mode's part ---

    def _mode_sees(self, now: float) -> ModeTree:
        tree = self._mode_tree
        tree.parent, tree.is_root = self._parent, self._acts_as_root
        tree.member, tree.now = self._subscribed, now
        return tree

    @property
    def _acts_as_root(self) -> bool:
        return self._is_root or (self._root is None and self._heir)

    def _mode_asked(self) -> Effects:
        asked, self._mode_tree.effects = self._mode_tree.effects, []
        return asked

    def _mode_done(self, now: float) -> Effects:
        """What the mode asked for, and what it may have made possible: it may sequence now."""
        effects = self._mode_asked()
        again, self._mode_tree.again = self._mode_tree.again, []
        for batch in again:
            effects += self._publish_again(batch, now)
        mode = self.around.mode
        if mode is not None and mode.sequencing and (self._waiting or len(self._outbox)):
            effects += self._flush(now)
        return effects

    def _publish_again(self, batch: Batch, now: float) -> Effects:
        mode = self.around.mode
        if self._acts_as_root and mode is not None and mode.sequencing:
            return self._spread(batch, now)
        effects = self._post(batch, now)
        if self._root is None or self._is_root:
            return effects + self._ask_again()
        return [*effects, Send(self._root, next_hop(batch))]

    def _told_status(self, peer: Peer, status: TreeStatus | None, now: float) -> Effects:
        mode = self.around.mode
        if mode is None or status is None:
            return []
        mode.on_status(peer, status, self._mode_sees(now))
        return self._mode_done(now)

    # --- joining and leaving ---

    def _join(self, now: float, randomize: bool = False, root: Peer | None = None) -> Effects:
        if self._is_root:
            return self._become_root(now)
        if self._joining or self._parent is not None or not self._wanted:
            return []
        self._joining = True
        join, key = self._request(), self.descriptor.key
        wait = SetTimer(
            Timer("topic.join", self.descriptor.id, self._round),
            self.around.rendezvous.answer_timeout,
        )
        return [Send(root, join) if root else Route(key, join, randomize), wait]

    def _request(self) -> TreeJoin:
        self._round += 1
        self._joined_size = self._member_count()
        mode = self.around.mode
        return TreeJoin(
            topic=self.descriptor.id,
            child=self.around.me,
            descriptor=self.descriptor,
            members=self._joined_size,
            last=self._last,
            note=self._note,
            expects=None if mode is None else mode.expects(),
            serial=self._round,
            credentials=self.credentials,
        )

    def _joined(self, peer: Peer, joined: TreeJoined, now: float) -> Effects:
        if self._is_root or not self._wanted:
            self._joining = False
            return [Send(peer, self._leave())]
        if joined.serial <= self._settled and (self._parent is None or self._parent.id != peer.id):
            return self._disown(peer)
        if joined.serial:
            self._settled = self._round
        if self.around.me.id in joined.path or len(joined.path) > MAX_DEPTH:
            return self._looped(peer, now)
        effects: Effects = []
        former, self._parent = self._parent, peer
        if former is not None and former.id != peer.id:
            effects.append(Send(former, self._leave()))
        if former is None or former.id != peer.id:
            self._told_size, self._told_at = self._joined_size, now
            self._refreshed_at = now
        self._joining, self._last, self._note, self._parent_heard = False, 0, b"", now
        if self.around.mode is not None and former != peer:
            self.around.mode.on_parent(self._mode_sees(now))
            effects += self._mode_asked()
        effects += self._told_status(peer, joined.status, now)
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

    def _news(self, join: TreeJoin | None = None) -> TreeJoined:
        mode = self.around.mode
        status = None if mode is None else mode.status(join)
        serial = 0 if join is None else join.serial
        return TreeJoined(self.descriptor.id, self.path, self._rooted, status, serial)

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
        effects: Effects = [Send(peer, self._leave())]
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
        self._settled = self._round
        self._path, self._rooted, self._joining = (), False, False
        if lost is None or not self._wanted:
            return []
        effects: Effects = []
        self._repairing = True
        if self._subscribed:
            self._ready = False
            effects.append(Notify(ParentLost(self.descriptor.id, lost)))
        self._note, asked = self._told_fault(lost, now)
        return effects + asked + self._join(now, randomize)

    def _prune(self, now: float) -> Effects:
        """Leave the tree if nobody here needs it; otherwise only the size has changed."""
        if self._wanted or self._parent is None:
            return self._tell_size(now)
        parent, self._parent = self._parent, None
        self._settled = self._round
        self._path, self._rooted = (), False
        return [Send(parent, self._leave())]

    def _leave(self) -> TreeLeave:
        return TreeLeave(self.descriptor.id, self._round)

    # --- children ---

    def _take(self, join: TreeJoin, now: float) -> Effects | None:
        """Make a node a child; None if it must look elsewhere."""
        child = join.child
        if child.id in self.path:
            return None
        known = self._children.get(child.id)
        if known is None and len(self._children) >= self.around.rendezvous.max_members:
            return None
        if len(join.credentials) > MAX_CREDENTIALS:
            return None
        expires = now + self.around.rendezvous.expire_after
        self._children[child.id] = Child(
            child, expires, join.members, join.serial, join.credentials
        )
        effects: Effects = [Send(child, self._news(join))]
        if known is None:
            effects += self._told_joined(child, join.note, now)
        if self.around.mode is not None:
            self._last = max(self._last, join.last)  # whoever knows nothing asks for both
            self.around.mode.on_join(join, self._mode_sees(now))
            effects += self._mode_done(now)
        elif known is None:
            effects += [Send(child, batch) for batch in self._history.last(join.last)]
        return effects + self._start_ticking() + self._join(now) + self._tell_size(now)

    def _refuse(self, child: Peer, looped: bool) -> Send:
        return Send(child, TreeRefused(self.descriptor.id, looped))

    def _left(self, peer: Peer, leave: TreeLeave, now: float) -> Effects:
        """A join by a route may overtake the word that went before it straight to this node."""
        child = self._children.get(peer.id)
        gone = child is not None and child.serial <= leave.serial
        return self._lost_child(peer.id, now) if gone else []

    def _lost_child(self, id_: Id, now: float) -> Effects:
        return [] if self._children.pop(id_, None) is None else self._prune(now)

    def _refreshed(self, peer: Peer, refresh: TreeRefresh, now: float) -> Effects:
        child = self._children.get(peer.id)
        if child is None:
            return [self._refuse(peer, False)]
        child.expires = now + self.around.rendezvous.expire_after
        child.members = refresh.members
        # News of the path may be lost, and a loop would go unseen.
        stale = refresh.path != checksum(self.path, self._rooted)
        news: Effects = [Send(peer, self._news())] if stale else []
        return news + self._tell_size(now)

    def _refresh(self, yields_to: Peer | None = None) -> TreeRefresh:
        told = checksum(self._path, self._rooted)
        return TreeRefresh(self.descriptor.id, self._member_count(), yields_to, told)

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
            return [Send(self._parent, self._refresh())]
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
        mode = self.around.mode
        if mode is not None:
            mode.on_tick(self._mode_sees(now))
            effects += self._mode_done(now)
            if not self._wanted and self._parent is not None:
                effects += self._prune(now)
        if now - self._spread_at >= config.heartbeat_every:
            beat = TreeBeat(topic, None if mode is None else mode.status())
            effects += [Send(child.peer, beat) for child in self._children.values()]
        if self._parent is not None:
            if now - self._parent_heard >= config.suspect_after:
                effects.append(Send(self._parent, self._leave()))
                effects += self._lost_parent(now)
            elif now - self._refreshed_at >= self.around.rendezvous.refresh_every:
                self._refreshed_at = now
                effects.append(Send(self._parent, self._refresh()))
        keeps = mode is not None and (mode.lingers or (self._acts_as_root and mode.holds))
        if self._parent is None and not self._children and not keeps:
            return effects
        return effects + self._start_ticking()

    def _beat(self, peer: Peer, beat: TreeBeat, now: float) -> Effects:
        if self._parent is not None and self._parent.id == peer.id:
            self._parent_heard = now
            return self._told_status(peer, beat.status, now)
        return self._disown(peer)

    def _disown(self, peer: Peer) -> Effects:
        """Somebody takes this node for a child. While a join is under way, it may well become one."""
        if self._joining:
            return []
        return [Send(peer, self._leave())]


def checksum(path: tuple[Id, ...], rooted: bool) -> int:
    """By which parent and child see whether they know the same path."""
    return crc32(b"".join([id_.to_bytes(BYTES, "big") for id_ in path]), rooted)
