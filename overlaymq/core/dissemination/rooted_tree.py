"""What strategies share whose content flows down a tree from the topic's root: parent and children, the part
of the root, and how a topic's mode takes part.

How a node finds its parent and how a tree is kept in repair is the strategy's own affair; it fills in
``_join``, ``_become_root`` and ``_wanted``. What flows through the tree is in ``tree_content``.

- *The root moves.* A node that becomes the owner of the key leaves its parent. The old root hands over,
  and joins the new one, so its tree moves as one. It sequences nothing from then on, and keeps back what it
  is given until the new root has taken its tree: otherwise that would be spread to nobody.
- *The root leaves.* It hands over in the same way, to whoever will own the key once it is gone, and as soon
  as it knows that it will go. Till then the ring leads to it: it names its successor to those who ask, and
  passes joins on. Its successor takes it at its word, and is the root from then on.
- *An heir* was handed the root's part before Pastry told it that it owns the key. Until it knows better, it
  acts as the root.
- *Sizes of subtrees* go up, so the root knows how many members there are. A parent learns of a change at
  once, but not of each change of a burst.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from overlaymq.core.dissemination.base import Standing
from overlaymq.core.dissemination.rooted import Rooted, next_hop
from overlaymq.core.reliability.history import History
from overlaymq.core.reliability.reporting import MAX_MEMBERS
from overlaymq.core.reliability.seen import Seen
from overlaymq.core.reliability.upcalls import ModeTree
from overlaymq.events import (
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
from overlaymq.messages import Handover

if TYPE_CHECKING:
    from collections.abc import Collection

    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.messages import Batch, Descriptor, Message, Peer, RootIs, RootQuery, TreeStatus

TICKS = 1e6
"""A root numbers from its clock's microseconds on, so that one that has forgotten the topic in between
never gives a number twice."""


class RootedTree(Rooted):
    """See the module's text."""

    __slots__ = (
        "_departing",
        "_epoch",
        "_handing_over",
        "_heir",
        "_history",
        "_last",
        "_mode_tree",
        "_note",
        "_parent",
        "_parent_heard",
        "_ready",
        "_repairing",
        "_rooted",
        "_seen",
        "_sequence",
        "_spread_at",
        "_ticking",
        "_told_at",
        "_told_size",
        "_will_tell",
    )

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._parent: Peer | None = None
        self._rooted = False
        """Whether the way up is known to end at the root."""
        self._heir = False
        """Whether it acts as the root because the one before has said so, not the ring."""
        self._handing_over = False
        """Whether the new root has not yet taken this former one's tree."""
        self._departing = False
        self._repairing = False
        self._ready = False
        self._last = 0
        self._note = b""
        self._history = History(around.delivery.history, around.delivery.history_bytes)
        self._ticking = False
        self._parent_heard = self._spread_at = 0.0
        self._told_size = 0
        self._told_at = float("-inf")
        self._will_tell = False
        self._epoch = 0
        self._sequence = 0
        self._seen = Seen()
        self._mode_tree: ModeTree | None = None

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
    def standing(self) -> Standing | None:
        """Parent and children."""
        role = "subscriber" if self._subscribed else "forwarder" if self._wanted else "none"
        return Standing("root" if self._acts_as_root else role, self._parent, self.children)

    @property
    def _wanted(self) -> bool:
        """Whether somebody needs this node's place in the tree."""
        if self._subscribed or self._children:
            return True
        return self.around.mode is not None and self.around.mode.lingers

    @property
    def _acts_as_root(self) -> bool:
        return self._is_root or (self._root is None and self._heir)

    @abstractmethod
    def _become_root(self, now: float) -> Effects:
        """This node owns the key."""

    @abstractmethod
    def _join(self, now: float, *, root: Peer | None = None) -> Effects:
        """Find a parent, if one is needed; ``root`` is known to be the root."""

    @abstractmethod
    def _size_news(self) -> Message:
        """What tells the parent the size of this subtree."""

    @property
    @abstractmethod
    def _heartbeat_every(self) -> float:
        """How often a parent says that it is there."""

    @property
    def _reticent(self) -> bool:
        """Whether content of others is none of this node's business (any more)."""
        return False

    # --- the mode's part ---

    def _mode_sees(self, now: float) -> ModeTree:
        tree = self._mode_tree
        if tree is None:
            tree = ModeTree(self.around.me, self.descriptor, self._children)
            self._mode_tree = tree
        tree.parent, tree.is_root = self._parent, self._acts_as_root
        tree.member, tree.now = self._subscribed, now
        tree.rooted, tree.reticent = self._rooted or self._acts_as_root, self._reticent
        return tree

    def _mode_asked(self) -> Effects:
        tree = self._mode_tree
        if tree is None or not tree.effects:
            return []
        asked: Effects = [*tree.effects]
        tree.effects.clear()
        return asked

    def _mode_done(self, now: float) -> Effects:
        """What the mode asked for, and what it may have made possible: it may sequence now."""
        effects = self._mode_asked()
        tree = self._mode_tree
        if tree is not None and tree.again:
            again, tree.again = tree.again, []
            for batch in again:
                effects += self._publish_again(batch, now)
        mode = self.around.mode
        if mode is not None and mode.sequencing and (self._waiting or len(self._outbox)):
            effects += self._flush(now)
        return effects if self._ready else effects + self._announce_ready()

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

    # --- members ---

    def _announce_lost(self, lost: Peer, now: float) -> Effects:
        """Nobody feeds this node: it says so, and its repair join carries what ``on_fault`` adds."""
        effects: Effects = []
        self._repairing = True
        if self._subscribed:
            self._ready = False
            effects.append(Notify(ParentLost(self.descriptor.id, lost)))
        self._note, asked = self._told_fault(lost, now)
        return effects + asked

    def _announce_ready(self) -> Effects:
        topic, mode = self.descriptor.id, self.around.mode
        if not self._rooted or (mode is not None and mode.expects() is None):
            # Who does not know yet with which number it begins could lose what comes without a word.
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

    def _member_count(self) -> int:
        below = sum([child.members for child in self._children.values()])
        return min(MAX_MEMBERS, below + self._subscribed)

    def _tell_size(self, now: float) -> Effects:
        size = self._member_count()
        if self._parent is None or size == self._told_size:
            return []
        wait = self._told_at + self.around.scribe.tell_every - now
        if wait <= 0:
            self._told_size, self._told_at = size, now
            return [Send(self._parent, self._size_news())]
        if self._will_tell:
            return []
        self._will_tell = True
        return [SetTimer(Timer("topic.size", self.descriptor.id), wait)]

    def _start_ticking(self) -> Effects:
        if self._ticking:
            return []
        self._ticking = True
        return [SetTimer(Timer("topic.tick", self.descriptor.id), self._heartbeat_every)]

    # --- the root ---

    def root_changed(self, root: Peer | None, now: float) -> Effects:
        """Become the root, hand over, or remember who it is."""
        if root is None and not self._is_root and self.around.mode is None:
            # While a leaf set is mended it reaches too far, and names an owner that is none.
            self._root = None
        if self._doubts(root):
            return self._ask_again()
        if root is None or root == self._root:
            return []
        return self._follow(root, now) + self._flush(now)

    @property
    def _needs_root(self) -> bool:
        return self._heir or super()._needs_root

    def _follow(self, root: Peer, now: float) -> Effects:
        reigned, self._root = self._acts_as_root, root
        self._heir = False
        if self._is_root:
            return self._become_root(now)
        return self._hand_over(root, now) if reigned else []

    def _begin_epoch(self, now: float) -> Effects:
        if self.around.mode is not None:
            self.around.mode.on_root(self._mode_sees(now))
            return self._mode_done(now) + self._start_ticking()
        if not self._sequence:
            self._epoch += 1
            self._sequence = int(now * TICKS) + 1
        return []

    def _hand_over(self, root: Peer, now: float, size: int | None = None) -> Effects:
        """``size``: of the tree as it was, if it is given up."""
        size = self._member_count() if size is None else size
        self._sequence = 0
        self._rooted = False
        mode = self.around.mode
        state = None if mode is None else mode.state(self.descriptor)
        effects: Effects = [Send(root, Handover(self.descriptor, (), self._epoch, state, size))]
        if mode is not None:
            effects += [Send(root, batch) for batch in mode.tail()]
            mode.on_unrooted(self._mode_sees(now))
            effects += [*self._mode_asked(), *self._start_ticking()]
        effects += self._join(now, root=root)
        self._handing_over = self._wanted
        return effects

    def _handed_over(self, now: float) -> Effects:
        """The new root has this node's tree, or there is none: what was kept back may go."""
        if not self._handing_over:
            return []
        self._handing_over = False
        return self._flush(now)

    def _take_over(self, peer: Peer, heritage: Handover, now: float) -> Effects:
        """From a root that leaves, or gives way to one that is closer to the key."""
        if self._root is None or self._root.id != peer.id:
            return self._inherit(heritage, now)
        self._root = self.around.me
        return [*self._inherit(heritage, now), *self._become_root(now), *self._flush(now)]

    def _inherit(self, heritage: Handover, now: float) -> Effects:
        """The old root has stopped; until this node knows better, it acts as the root."""
        self._epoch = max(self._epoch, heritage.epoch)
        effects: Effects = []
        if self._root is None:
            self._heir = True
        if self.around.mode is not None and heritage.state is not None:
            self.around.mode.inherit(heritage.state, self._mode_sees(now), last_word=True)
            effects = self._mode_done(now)
        if self._is_root:
            return effects
        if self._heir:
            effects += self._begin_epoch(now) + self._ask_again()
        return effects + self._flush(now)

    @property
    def _has_abdicated(self) -> bool:
        """Whether the ring leads to this node, which leaves, although another is the root already."""
        return self._departing and self._root is not None and not self._is_root

    def _expect_publication(self, now: float) -> Effects:
        """Whoever asks for the root of an ordered topic will publish: do not forget the topic at once."""
        if self.around.mode is None:
            return []
        self.around.mode.expect_publication(now)
        return self._start_ticking()

    def _asked_root(self, peer: Peer, query: RootQuery, now: float) -> Effects:
        if self._is_root:
            return [Send(peer, self._root_is(self.around.me)), *self._expect_publication(now)]
        if self._root is not None and self._has_abdicated:
            return [Send(peer, self._root_is(self._root))]
        onward: Effects = [Route(self.descriptor.key, query)]
        if self._root is not None:
            onward.append(Send(peer, self._root_is(self._root)))
        return onward

    def _told_root(self, told: RootIs, now: float) -> Effects:
        effects: Effects = [Notify(Members(told.topic, told.members))]
        # Whether this node is the root, only Pastry knows: others speak of what was.
        if (self._doubted or not self._is_root) and told.root.id != self.around.me.id:
            effects += self._follow(told.root, now)
            self._believed(now)
        return effects + self._flush(now)

    def _root_failed(self, peer: Peer, now: float) -> Effects:
        """A peer is gone; it may have been the root, and the mode may wait for its word."""
        if self._root is not None and self._root.id == peer.id:
            self._root = None
        if self.around.mode is None:
            return []
        self.around.mode.on_failed(peer, self._mode_sees(now))
        effects = self._mode_done(now)
        return effects + self._ask_again() if self._root is None else effects

    @property
    def _keeps(self) -> bool:
        """Whether a root must stay although nobody is there: somebody may ask for what it has."""
        mode = self.around.mode
        return mode is not None and self._acts_as_root and mode.holds
