"""Who has what: how far everybody has come, told upwards, and what nobody will ask for again, told downwards.

Every node of the tree tells its parent of its subtree (``TreeHad``): how many subscribers there are, the
first message that one of them still waits for, and what some of them missed for good. The root so knows of a
message that at least n of m have it, and answers publishers that ask (``DeliveryQuery``). The count goes by
branches: one that waits hides the others below the same child of the root. When all have it, n is m.

*Who goes away.* A child that is gone may have been somebody's parent, and those below it come back elsewhere,
a little later. So what it said last counts for ``gap_timeout``, which is longer than a repair takes; then
there are fewer subscribers. One that unsubscribes says so before it goes, and counts no more.

*A new root* has not heard from everybody. For ``gap_timeout`` it gives counts, but does not say that they are
final, unless it knows of nobody that reigned before it. Of epochs that it has never heard of it never does.
A publisher's number is a trace of it, too: who gives a place to its seventh message, and not to the six
before, is not the first. What this cannot see: a root that took over without any trace of the one before.
The same holds for a root that had no lease: Pastry held the joins of those that wanted to come back.

*Letting go.* What all subscribers have is of use only to late joiners. The root tells its tree up to where
that is (``TreeStable``), and nodes let it go beyond what ``delivery.history`` keeps for those. It must be
all of the tree, not all below a node: a subtree that moves, or a new root, asks elsewhere for what it lacks.
And it must be all that were there in the last ``keep_seconds``, because who is away that long has a right to
find what it needs. So a message is let go early only where its time would have been wasted.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from overlaymq.core.reliability.tree_mode import TreeMode
from overlaymq.messages import DeliveryIs, Lost, Place, TreeHad, TreeStable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overlaymq.config import DeliveryConfig
    from overlaymq.core.reliability.upcalls import ModeTree
    from overlaymq.ids import Id
    from overlaymq.messages import DeliveryQuery, Epoch, Peer

REPORT = 3
"""The timer of reports."""
REPORT_WAIT = 0.1
"""Seconds in which changes gather before the parent is told: a guess, ten small messages a second."""
MAX_LOST = 16
"""Ranges in one report; the oldest are joined to one that covers both: a guess."""
MAX_GONE = 1024
"""Children that are gone and still count, one by one: a guess."""
MAX_ASKED = 1024
"""Questions that a root remembers; who is not remembered asks again anyway: a guess."""
ASKED_SECONDS = 10.0
"""How long it remembers them: a guess, some times the wait after which they are asked again."""
MAX_MEMBERS = 1 << 32
"""More subscribers than there are; whoever claims more must not make sums that cannot be sent."""
NEVER = float("-inf")


class Below:
    """What the children said of their subtrees, and what those said that are gone."""

    __slots__ = ("_children", "_config", "_gone", "_own", "_topic")

    def __init__(self, topic: Id, config: DeliveryConfig) -> None:
        self._topic = topic
        self._config = config
        self._children: dict[Id, tuple[int, TreeHad]] = {}
        self._gone: dict[tuple[Id, int], tuple[float, TreeHad]] = {}
        self._own: tuple[Lost, ...] = ()

    def joined(self, child: Peer, members: int, now: float) -> None:
        """A child has come: how far its subtree is, only it can say."""
        known = self._children.get(child.id)
        if known is not None and known[0] != child.incarnation:
            self._leave(child.id, now)
            known = None
        if known is None:
            self._children[child.id] = child.incarnation, TreeHad(self._topic, members)

    def told(self, child: Peer, had: TreeHad) -> None:
        """A child's report."""
        if len(had.lost) > MAX_LOST:
            had = summed(self._topic, [had])
        self._children[child.id] = child.incarnation, had
        self._gone.pop((child.id, child.incarnation), None)

    def missed(self, first: Place, last: Place) -> None:
        """This node's own subscribers will not get these."""
        before = Place(first.epoch, first.sequence - 1)
        follows = [one for one in self._own if one.last == before and one.members == 1]
        if follows:  # chunks are missed one by one
            first = follows[0].first
        others = [one for one in self._own if one not in follows[:1]]
        self._own = joined((*others, Lost(first, last, 1)))

    def forget_own(self) -> None:
        """There are none any more."""
        self._own = ()

    def sweep(self, tree: ModeTree) -> None:
        """See who has gone, and who has been gone long enough."""
        for id_ in [one for one in self._children if tree.child(one) is None]:
            self._leave(id_, tree.now)
        longest = max(self._config.gap_timeout, self._config.keep_seconds)
        for key in [key for key, gone in self._gone.items() if gone[0] <= tree.now - longest]:
            del self._gone[key]

    def _leave(self, id_: Id, now: float) -> None:
        incarnation, had = self._children.pop(id_)
        if not had.members:
            return
        self._gone[id_, incarnation] = now, had
        if len(self._gone) > MAX_GONE:
            (first, one), (second, other) = list(self._gone.items())[:2]
            del self._gone[first]
            self._gone[second] = max(one[0], other[0]), summed(self._topic, [one[1], other[1]])

    def parts(self, position: Place | None, tree: ModeTree, seconds: float) -> Iterator[TreeHad]:
        """What is known of everybody, also of those that are gone for not more than so many seconds."""
        if tree.member:
            yield TreeHad(self._topic, 1, position, position, self._own)
        for _, had in self._children.values():
            if had.members:
                yield had
        for since, had in self._gone.values():
            if since > tree.now - seconds:
                yield had

    def report(self, position: Place | None, tree: ModeTree) -> TreeHad:
        """For the parent."""
        self.sweep(tree)
        now = summed(self._topic, self.parts(position, tree, self._config.gap_timeout))
        return TreeHad(self._topic, now.members, now.had, self.kept(position, tree), now.lost)

    def kept(self, position: Place | None, tree: ModeTree) -> Place | None:
        """The first message that this node, or anybody below, may still ask for."""
        parts = self.parts(position, tree, self._config.keep_seconds)
        return lowest([position, *[part.kept for part in parts]])

    def count(
        self, query: DeliveryQuery, position: Place | None, tree: ModeTree
    ) -> tuple[int, int, bool]:
        """Of how many subscribers, how many are known to have it, and whether that will not change."""
        self.sweep(tree)
        members = had = 0
        final = position is not None and position > query.last
        for part in self.parts(position, tree, self._config.gap_timeout):
            members += part.members
            if part.had is None or part.had <= query.last:
                final = False
                continue
            lost = [
                one.members
                for one in part.lost
                if one.first <= query.last and one.last >= query.first
            ]
            had += max(0, part.members - sum(lost))
        return members, had, final


def lowest(places: Iterable[Place | None]) -> Place | None:
    """The first of some places; None if one is not known."""
    known: list[Place] = []
    for place in places:
        if place is None:
            return None
        known.append(place)
    return min(known, default=None)


def summed(topic: Id, parts: Iterable[TreeHad]) -> TreeHad:
    """One report for several."""
    parts = list(parts)
    return TreeHad(
        topic,
        min(MAX_MEMBERS, sum([part.members for part in parts])),
        lowest([part.had for part in parts]),
        lowest([part.kept for part in parts]),
        joined([one for part in parts for one in part.lost]),
    )


def joined(losses: Iterable[Lost]) -> tuple[Lost, ...]:
    """The same losses as one; if there are too many, the first two as one that covers them."""
    members: dict[tuple[Place, Place], int] = {}
    for one in losses:
        sum_ = members.get((one.first, one.last), 0) + one.members
        members[one.first, one.last] = min(MAX_MEMBERS, sum_)
    ranges = sorted([Lost(first, last, count) for (first, last), count in members.items()])
    while len(ranges) > MAX_LOST:
        one, other = ranges[:2]
        last = max(one.last, other.last)
        ranges[:2] = [Lost(one.first, last, min(MAX_MEMBERS, one.members + other.members))]
    return tuple(ranges)


class Reporting(TreeMode):
    """See the module's text."""

    def __init__(self, topic: Id, config: DeliveryConfig) -> None:
        super().__init__(topic, config)
        self._below = Below(topic, config)
        self._reported: TreeHad | None = None
        self._reported_at: Place | None = None
        self._changed_at = NEVER
        self._will_report = False
        self._asked: dict[tuple[Id, Place, Place], tuple[Peer, DeliveryQuery, float]] = {}
        self._stable: Place | None = None

    @property
    @abstractmethod
    def position(self) -> Place | None:
        """The next message this node waits for."""

    @abstractmethod
    def _vouches(self, seconds: float, tree: ModeTree, about: Epoch | None = None) -> bool:
        """At the root: whether all that there were so many seconds ago have been heard of, and an epoch."""

    @abstractmethod
    def _let_go(self, stable: Place, tree: ModeTree) -> None:
        """Nobody will ask for what is before this."""

    # --- upwards ---

    def unsubscribed(self) -> None:
        """What was missed is nobody's concern any more."""
        super().unsubscribed()
        self._below.forget_own()

    def on_unsubscribe(self, tree: ModeTree) -> None:
        """Say so before this node leaves: it is not one of those that come back elsewhere."""
        self._below.forget_own()
        self._tell_parent(tree)

    def _progressed(self, tree: ModeTree) -> None:
        position = self.position
        if position != self._reported_at:
            self._reported_at = position
            self._report_soon(tree)

    def _report_soon(self, tree: ModeTree) -> None:
        if not self._will_report and (tree.parent is not None or self._asked):
            self._will_report = True
            tree.set_timer(REPORT_WAIT, REPORT)

    def _report_due(self, tree: ModeTree) -> None:
        self._will_report = False
        self._tell_parent(tree)
        if self._asked:
            self._answer_all(tree)

    def _tell_parent(self, tree: ModeTree, repeat: bool = False) -> None:
        if tree.parent is None:
            return
        report = self._below.report(self.position, tree)
        if report != self._reported:
            self._reported, self._changed_at = report, tree.now
        elif not repeat or tree.now - self._changed_at > self.config.gap_timeout:
            return
        tree.say(tree.parent, report)

    def _report_to_new_parent(self, tree: ModeTree) -> None:
        self._reported = None
        self._report_soon(tree)

    def _heard(self, child: Peer, had: TreeHad, tree: ModeTree) -> None:
        self._below.told(child, had)
        self._report_soon(tree)

    # --- at the root ---

    def on_query(self, peer: Peer, query: DeliveryQuery, tree: ModeTree) -> None:
        """A publisher asks who has its message: an answer now, and one when all have it."""
        if self._answer(peer, query, tree) or len(self._asked) >= MAX_ASKED:
            return
        key = (peer.id, query.first, query.last)
        self._asked[key] = peer, query, tree.now + ASKED_SECONDS

    def _answer(
        self, peer: Peer, query: DeliveryQuery, tree: ModeTree, only_final: bool = False
    ) -> bool:
        members, had, final = self._below.count(query, self.position, tree)
        final = final and self._vouches(self.config.gap_timeout, tree, query.last.epoch)
        if final or not only_final:
            answer = DeliveryIs(self.topic, query.first, query.last, members, had, final)
            tree.say(peer, answer)
        return final

    def _answer_all(self, tree: ModeTree) -> None:
        for key, (peer, query, until) in list(self._asked.items()):
            if until <= tree.now or self._answer(peer, query, tree, only_final=True):
                del self._asked[key]

    # --- downwards ---

    def _settle(self, tree: ModeTree) -> None:
        """A heartbeat's time has passed: say again what may have been lost, and what can be let go."""
        self._below.sweep(tree)
        self._tell_parent(tree, repeat=True)
        if self._asked:
            self._answer_all(tree)
        if self._vouches(self.config.keep_seconds, tree):
            stable = self._below.kept(self.position, tree)
            if stable is not None:
                self._told_stable(stable, tree)

    def _told_stable(self, stable: Place, tree: ModeTree) -> None:
        if self._stable is not None and stable <= self._stable:
            return
        self._stable = stable
        self._let_go(stable, tree)
        for child in tree.children:
            tree.say(child, TreeStable(self.topic, stable))
