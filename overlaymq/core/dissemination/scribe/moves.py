"""Sending children elsewhere: the bottleneck remover, and the move of a child to another parent.

*Bottleneck remover* (Scribe JSAC IV-E). A node with too many children over all topics takes the topic
that has the most, and in it the child that is farthest away by measured round trip. It sends that child
the children table with the round trip of each. The child measures its own to each of them, and joins the
one through which its way to the parent is shortest. What the new parent does if that is too many for it
is the same again, so a child sinks until there is room; a node that has no children has room.

*Loops.* A join that skips the route can close a circle, if the two do not know yet that one is above the
other. Every parent tells its children the path from the root, and whoever finds itself on it joins by a
randomised route; a join from a node on one's own path is refused, with the same advice (``tree``).

What the paper leaves open, and how it is here:

- *No gap.* The paper's parent forgets the child when it drops it. Ours feeds it until it has found
  another parent and says so, at most for some seconds; it does not count any more. What comes twice is
  dropped by the root's number. So a topic loses nothing because some node has too much to do.
- The children are measured when there are too many for the first time, not when they join. Who does not
  answer is the farthest.
- A child that was refused waits before it takes a randomised route, because that may lead to where it
  came from. It is fed meanwhile.
- A topic with a single child sends nobody away: there is no sibling to go to. A node that forwards more
  topics than the bound stays above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.scribe.tree import TreePlace
from overlaymq.events import Measure, Route, Send, SetTimer, Timer
from overlaymq.messages import Sibling, TreeDrop

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer, TreeJoin, TreeJoined, TreeRefresh, TreeRefused

MAX_SIBLINGS = 256
"""Entries of a children table that a dropped child is sent and looks at, the nearest: a guess."""
PATIENCE = 4
"""A dropped child is fed for so many times the wait for an answer: it measures, asks, is refused and asks
elsewhere."""
UNREACHABLE = 3600.0
"""Seconds of a round trip that could not be measured: above all that can."""


class Move:
    """A child that was told to go: where it may, how far that is, and whom it has asked."""

    __slots__ = ("away", "parent", "routed", "siblings", "target")

    def __init__(self, parent: Id, siblings: dict[Id, Sibling]) -> None:
        self.parent = parent
        self.siblings = siblings
        self.away: dict[Id, float] = {}
        self.target: Peer | None = None
        self.routed = False

    def best(self) -> Peer | None:
        """The sibling on the shortest way to the parent, of those that answered."""
        ways = [(away + self.siblings[id_].seconds, id_) for id_, away in self.away.items()]
        return self.siblings[min(ways)[1]].peer if ways else None


class Moving(TreePlace):
    """A place in the tree that its parent may give up, and that gives up children."""

    __slots__ = (
        "_away",
        "_going",
        "_measurings",
        "_move",
        "_moves",
        "_unmeasured",
        "_yielded",
    )

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._away: dict[Id, float] = {}
        """Round trips to children."""
        self._unmeasured: dict[Id, None] = {}
        self._measurings = 0
        self._going: dict[Id, tuple[float, bool]] = {}
        """Children that do not count: until when they are fed, and whether they must go then."""
        self._yielded: dict[Id, Id] = {}
        """Children that yield their places, and to whom: one each, or a child could fill this."""
        self._move: Move | None = None
        self._moves = 0

    # --- the parent ---

    def relieve(self, now: float) -> Effects:
        """Send the farthest child away; first measure those whose distance is not known."""
        staying = [child.peer for id_, child in self._children.items() if id_ not in self._going]
        if self._unmeasured or len(staying) < 2:
            return []
        unknown = [peer for peer in staying if peer.id not in self._away]
        if not unknown:
            return self._drop(max(staying, key=lambda peer: (self._away[peer.id], peer.id)), now)
        self._unmeasured = {peer.id: None for peer in unknown}
        self._measurings += 1
        topic = self.descriptor.id
        timer = Timer("topic.measure", topic, self._measurings)
        wait = SetTimer(timer, self.around.rendezvous.answer_timeout)
        return [*[Measure(topic, peer) for peer in unknown], wait]

    def _drop(self, child: Peer, now: float) -> Effects:
        others = [
            Sibling(other.peer, self._away[id_])
            for id_, other in self._children.items()
            if id_ != child.id and id_ not in self._going
        ]
        others.sort(key=lambda sibling: (sibling.seconds, sibling.peer.id))
        drop = TreeDrop(self.descriptor.id, tuple(others[:MAX_SIBLINGS]))
        return [Send(child, drop), self._let_go(child.id, True, now)]

    def _let_go(self, id_: Id, must: bool, now: float) -> SetTimer:
        """Feed a child for a while, but do not count it."""
        patience = PATIENCE * self.around.rendezvous.answer_timeout
        self._going[id_] = now + patience, must
        self._count_children()
        return SetTimer(Timer("topic.going", self.descriptor.id), patience)

    def _measured_child(self, id_: Id) -> None:
        if id_ in self._unmeasured:
            del self._unmeasured[id_]
            if not self._unmeasured:  # the node looks whether it is still too much, and for whom
                self.around.load.changed = self.around.load.overloaded

    def _stop_measuring(self) -> Effects:
        for id_ in list(self._unmeasured):
            self._away[id_] = UNREACHABLE
            self._measured_child(id_)
        return []

    def _stop_feeding(self, now: float) -> Effects:
        """Those that should have gone long ago find out; who yielded its place, and stayed, has one again."""
        effects: Effects = []
        overdue = [(id_, must) for id_, (until, must) in self._going.items() if until <= now]
        for id_, must in overdue:
            del self._going[id_]
            if must:
                peer = self._children[id_].peer
                effects += [self._refuse(peer, True), *self._lost_child(id_, now)]
        self._count_children()
        return effects

    def _count_children(self) -> None:
        self.around.load.carries(self.descriptor.id, len(self._children) - len(self._going))

    def _forget_child(self, id_: Id) -> None:
        self._measured_child(id_)
        self._away.pop(id_, None)
        self._going.pop(id_, None)
        self._yielded.pop(id_, None)

    def _take(self, join: TreeJoin, now: float) -> Effects | None:
        taken = super()._take(join, now)
        if taken is None:
            return None
        self._going.pop(join.child.id, None)  # it has come back
        self._count_children()
        places = [place for place, heir in self._yielded.items() if heir == join.child.id]
        for place in places:
            del self._yielded[place]
        return [*taken, *[self._let_go(place, False, now) for place in places]]

    def _refreshed(self, peer: Peer, refresh: TreeRefresh, now: float) -> Effects:
        if refresh.yields_to is not None and peer.id in self._children:
            self._yielded[peer.id] = refresh.yields_to.id
        return super()._refreshed(peer, refresh, now)

    def _lost_child(self, id_: Id, now: float) -> Effects:
        self._forget_child(id_)
        effects = super()._lost_child(id_, now)
        self._count_children()
        return effects

    def _set_path(self, path: tuple[Id, ...], rooted: bool) -> Effects:
        effects = super()._set_path(path, rooted)
        for id_ in path:
            self._forget_child(id_)
        self._count_children()
        return effects

    # --- the child ---

    def _dropped(self, peer: Peer, drop: TreeDrop, now: float) -> Effects:
        """Look for another parent among the siblings."""
        if self._parent is None or self._parent.id != peer.id or self._moving is not None:
            return []
        siblings = {
            sibling.peer.id: sibling
            for sibling in drop.siblings[:MAX_SIBLINGS]
            if sibling.peer.id not in self._children and sibling.peer.id != self.around.me.id
        }
        self._move = Move(peer.id, siblings)
        if len(siblings) == 1:
            return self._ask(next(iter(siblings.values())).peer)
        wait = self._wait_for_move()
        return [*[Measure(self.descriptor.id, one.peer) for one in siblings.values()], wait]

    @property
    def _moving(self) -> Move | None:
        """The move from the present parent, if it was told to go."""
        move, parent = self._move, self._parent
        return (
            move if move is not None and parent is not None and parent.id == move.parent else None
        )

    def _wait_for_move(self) -> SetTimer:
        self._moves += 1
        timer = Timer("topic.move", self.descriptor.id, self._moves)
        return SetTimer(timer, self.around.rendezvous.answer_timeout)

    def _ask(self, target: Peer) -> Effects:
        assert self._move is not None
        self._move.target = target
        return [Send(target, self._request()), self._wait_for_move()]

    def _move_on(self) -> Effects:
        """The time for measuring is up, or whoever was asked has not answered or not agreed."""
        move = self._moving
        if move is None or move.routed:
            return []
        best = move.best()
        if move.target is None and best is not None:
            return self._ask(best)
        move.routed = True
        return [Route(self.descriptor.key, self._request(), True)]

    def measured(self, peer: Peer, seconds: float, now: float) -> Effects:
        """The distance to a child, or to a sibling that may become the parent."""
        if peer.id in self._children:
            self._away[peer.id] = seconds
            self._measured_child(peer.id)
        move = self._moving
        if move is None or move.target is not None or peer.id not in move.siblings:
            return []
        move.away[peer.id] = seconds
        return self._move_on() if len(move.away) == len(move.siblings) else []

    def _joined(self, peer: Peer, joined: TreeJoined, now: float) -> Effects:
        effects = super()._joined(peer, joined, now)
        if self._moving is None or self._moving.routed:
            self._move = None
        return effects

    def _refused(self, peer: Peer, refused: TreeRefused, now: float) -> Effects:
        move = self._moving
        if move is not None and move.target is not None and move.target.id == peer.id:
            return []  # what comes next has time
        return super()._refused(peer, refused, now)

    def _disown(self, peer: Peer) -> Effects:
        # A batch may overtake the new parent's answer.
        return [] if self._moving is not None else super()._disown(peer)

    def _move_timer(self, timer: Timer, now: float) -> Effects:
        match timer.part:
            case "topic.measure" if timer.round == self._measurings:
                return self._stop_measuring()
            case "topic.going":
                return self._stop_feeding(now)
            case "topic.move" if timer.round == self._moves:
                return self._move_on()
        return []
