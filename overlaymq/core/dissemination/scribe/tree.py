"""A node's place in one topic's tree: its parent, the path above it, its children, and their upkeep.

See the package's text for the protocol. What a mode adds to it travels with the messages that are sent
anyway: what a child expects next with its join, what is known of the sequence with the parent's answer and
its heartbeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from overlaymq.core.dissemination.children import Child
from overlaymq.core.dissemination.tree_content import ContentTree
from overlaymq.core.topics import MAX_CREDENTIALS
from overlaymq.events import Route, Send, SetTimer, Timer
from overlaymq.ids import BYTES
from overlaymq.messages import TreeBeat, TreeJoin, TreeJoined, TreeLeave, TreeRefresh, TreeRefused

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer

MAX_DEPTH = 128
"""A path longer than this is a loop, or a lie: routes of 100,000 nodes have five hops."""


class TreePlace(ContentTree):
    """Everything about the tree but what flows through it."""

    __slots__ = (
        "_joined_size",
        "_joining",
        "_path",
        "_refreshed_at",
        "_round",
        "_settled",
    )

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._path: tuple[Id, ...] = ()
        self._joining = False
        self._round = 0
        self._settled = 0
        """Answers to joins up to this one come too late: another has been answered, or the parent left."""
        self._refreshed_at = 0.0
        self._joined_size = 0

    @property
    def path(self) -> tuple[Id, ...]:
        """The way from the top of the tree down to this node."""
        return (*self._path, self.around.me.id)

    @property
    def _heartbeat_every(self) -> float:
        return self.around.scribe.heartbeat_every

    # --- joining and leaving ---

    def _join(self, now: float, randomize: bool = False, *, root: Peer | None = None) -> Effects:
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
            return [Send(peer, self._leave()), *self._handed_over(now)]
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
        effects += self._start_ticking() + self._announce_ready() + self._tell_size(now)
        return effects + self._handed_over(now) + self._parted_from(former)

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
        return self._announce_lost(lost, now) + self._join(now, randomize)

    def _prune(self, now: float) -> Effects:
        """Leave the tree if nobody here needs it; otherwise only the size has changed."""
        if self._wanted or self._parent is None:
            return self._tell_size(now)
        parent, self._parent = self._parent, None
        self._settled = self._round
        self._path, self._rooted = (), False
        self._history.clear()
        return [Send(parent, self._leave())]

    def _leave(self) -> TreeLeave:
        return TreeLeave(self.descriptor.id, self._round)

    # --- children ---

    def _take(self, join: TreeJoin, now: float) -> Effects | None:
        """Make a node a child; None if it must look elsewhere."""
        child = join.child
        if child.id in self.path or (self._departing and not self._acts_as_root):
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

    def _size_news(self) -> TreeRefresh:
        return self._refresh()

    # --- soft state ---

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
        lingers = mode is not None and mode.lingers
        if self._parent is None and not (self._children or lingers or self._keeps):
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
