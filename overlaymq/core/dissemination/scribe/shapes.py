"""The shape of trees for small groups: collapse, and lazy growth (Scribe JSAC IV-F).

*Collapse.* A route has several hops, and in a small group hardly two routes meet early, so the tree has
long paths without branches: each node of them forwards everything to one other and wants none of it. A
node that is no member, not the root, and has a single child sends that child to its own parent. The child
leaves when it has joined there, and the node, which then has nobody to feed, leaves the tree. This is the
move of a dropped child with one candidate, so nothing is lost meanwhile. Paths shrink from all their
nodes at once; what remains is single again, and goes the next time.

The next join that takes this route makes the node a forwarder again. So that nodes do not come and go
with every join, one collapses only after it has had a single child for ``collapse_after`` seconds on end.
The paper does not say when.

*Lazy growth.* The paper's alternative: a join passes through nodes that are not in the tree. The first
that is takes the child itself, unless it has its full number of children; then the last node before it
must, and joins in turn. Trees are flatter, links more stressed, and a sudden crowd meets at few nodes.
Deviation: the paper's full node adds that last node to its table and tells it to take the child. Ours
only hands it the join; its own join then arrives over one hop, with nobody in between, and is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from overlaymq.core.dissemination.scribe.moves import Moving
from overlaymq.events import Send, SetTimer, Timer
from overlaymq.messages import Sibling, TreeDrop

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer, TreeJoin, TreeJoined


class Shaping(Moving):
    """A place in the tree that it gives up if it is in the way."""

    __slots__ = (
        "_only",
        "_only_since",
        "_will_collapse",
    )

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._only: Id | None = None
        """The child that this node is there for alone."""
        self._only_since = 0.0
        self._will_collapse = False

    # --- collapse ---

    def _single(self) -> Peer | None:
        """The only child of a forwarder that need not be one."""
        if self._subscribed or self._parent is None or not self._rooted:
            return None
        if len(self._children) != 1 or self._moving is not None:
            return None
        return next(iter(self._children.values())).peer

    def _watch_shape(self, now: float) -> Effects:
        child = self._single() if self.around.scribe.collapse_after else None
        only = None if child is None else child.id
        if only != self._only:
            self._only, self._only_since = only, now
        if only is None or self._will_collapse:
            return []
        self._will_collapse = True
        wait = self._only_since + self.around.scribe.collapse_after - now
        return [SetTimer(Timer("topic.collapse", self.descriptor.id), max(wait, 0.0))]

    def _collapse(self, now: float) -> Effects:
        self._will_collapse = False
        effects: Effects = []
        child, above = self._single(), self._parent
        due = self._only_since + self.around.scribe.collapse_after
        if child is not None and above is not None and child.id == self._only and due <= now:
            self._only_since = now  # if the child does not find its way, there is a next time
            topic = self.descriptor.id
            effects = [
                Send(above, self._refresh(child)),
                Send(child, TreeDrop(topic, (Sibling(above, 0.0),))),
            ]
        return effects + self._watch_shape(now)

    def _yield_children(self) -> Effects:
        """Send every child to this node's own parent; they are fed until they have gone there."""
        if self._parent is None:
            return []
        drop = TreeDrop(self.descriptor.id, (Sibling(self._parent, 0.0),))
        return [Send(child.peer, drop) for child in self._children.values()]

    def _no_member_now(self, now: float) -> Effects:
        """It may be in the way from now on."""
        self._only = None
        return self._watch_shape(now)

    def _take(self, join: TreeJoin, now: float) -> Effects | None:
        taken = super()._take(join, now)
        return None if taken is None else taken + self._watch_shape(now)

    def _lost_child(self, id_: Id, now: float) -> Effects:
        return super()._lost_child(id_, now) + self._watch_shape(now)

    def _joined(self, peer: Peer, joined: TreeJoined, now: float) -> Effects:
        return super()._joined(peer, joined, now) + self._watch_shape(now)

    # --- lazy growth ---

    def _admit(self, join: TreeJoin, now: float) -> Effects | None:
        """Take a join that was routed; None if it must look elsewhere."""
        if not self.around.scribe.lazy_growth or join.child.id in self._children:
            return self._take(join, now)
        if join.via is not None and join.via.id != self.around.me.id and self.around.load.full:
            return [Send(join.via, replace(join, via=None))]
        return self._take(join, now)

    def _stays_out(self) -> bool:
        """Whether joins pass because this node is not in the tree."""
        return self.around.scribe.lazy_growth and not (
            self._wanted or self._is_root or self._joining or self._parent is not None
        )
