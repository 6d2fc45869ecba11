"""A node's own joins: one attempt at a time, the first candidate that will do, a failure group over its way.

An attempt has the id of the link that may come of it. Its messages, and the group, carry that id, so whatever
belongs to an earlier attempt is known for what it is. The answer to the one before may still come: who was
asked may have waited for a parent itself. It is as good as any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.sv.links import Part
from overlaymq.core.dissemination.sv.search import MAX_WAY, Searching
from overlaymq.events import (
    CreateGroup,
    Dropped,
    Notify,
    Route,
    Send,
    SetTimer,
    SignalGroup,
    Timer,
)
from overlaymq.ids import BITS, Id
from overlaymq.messages import SvJoin, TreeJoin

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.messages import Beat, Descriptor, Peer, SvBeat, SvCandidate

LATEST = 8
"""Doublings of the wait that are counted."""
HASTE = 0.125
"""Who was refused need not wait for an answer. In a crowd the place was taken, and there is another: the
first new try comes after this share of the usual wait, a guess."""


class Attempt:
    """One join."""

    __slots__ = ("above", "beat", "link", "size", "source", "welcome")

    def __init__(self, link: Id, size: int) -> None:
        self.link = link
        self.size = size
        self.source: Peer | None = None
        """The candidate that was chosen."""
        self.above: Peer | None = None
        """The first hop of the way there."""
        self.beat: Beat | None = None
        self.welcome: SvBeat | None = None
        """What it said before the group was known to exist."""


class Joining(Searching):
    """Who looks for a parent."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._attempt: Attempt | None = None
        self._earlier: Id | None = None
        """The link of the try before, of which nothing has come yet."""
        self._round = 0
        self._tries = self._refusals = 0
        """In vain, and of these, how many candidates have refused the link."""
        self._fed_before: Peer | None = None
        """Who fed this node until it lost its parent."""

    @property
    def _above(self) -> Peer | None:
        """Whoever was chosen may speak before the group is known to exist."""
        if self._parent is None and self._attempt is not None:
            return self._attempt.source
        return self._parent

    # --- looking for a parent ---

    def _join(self, now: float, *, root: Peer | None = None) -> Effects:
        if self._acts_as_root or self._departing:
            return []  # a join of who leaves would lead others to where nobody is
        if self._attempt is not None or self._parent is not None or not self._wanted:
            return []
        self._round += 1
        link = Id(self.around.random.getrandbits(BITS))
        self._attempt = Attempt(link, self._member_count())
        me, mode = self.around.me, self.around.mode
        join = TreeJoin(
            topic=self.descriptor.id,
            child=me,
            descriptor=self.descriptor,
            members=self._attempt.size,
            last=self._last,
            note=self._note,
            expects=None if mode is None else mode.expects(),
            credentials=self.credentials,
        )
        ask = SvJoin(join, link, (me,), self._beat, self._tries)
        way = Route(self.descriptor.key, ask) if root is None else Send(root, ask)
        return [way, self._again_after(self._patience(self._tries))]

    def _patience(self, tries: int) -> float:
        """Longer and longer, and not in step with others."""
        first = self.around.rendezvous.answer_timeout
        wait = min(first * 2.0 ** min(tries, LATEST), self.around.sv.retry_max)
        return wait * (0.75 + self.around.random.random() / 2)

    def _again_after(self, seconds: float) -> SetTimer:
        return SetTimer(Timer("topic.join", self.descriptor.id, self._round), seconds)

    def _try_again(self, now: float) -> Effects:
        """No candidate has answered, or the pause after a failure is over."""
        if self._attempt is not None:
            if self._attempt.source is not None:
                return []  # the group will exist, or fail
            self._earlier = self._attempt.link
            self._attempt = None
            self._tries += 1
        return self._join(now) + self._handed_over(now)

    def _candidate(self, peer: Peer, offer: SvCandidate, now: float) -> Effects:
        attempt = self._attempt
        if attempt is None or attempt.source is not None:
            return []  # the first has won
        if offer.link not in (attempt.link, self._earlier):
            return []
        way = offer.path
        ids = {one.id for one in way}
        if not 2 <= len(way) <= MAX_WAY or len(ids) != len(way):
            return [Notify(Dropped("impossible way"))]
        if way[0].id != self.around.me.id or way[-1].id != peer.id:
            return [Notify(Dropped("way that leads elsewhere"))]
        if self.around.sv.beats and self._beat is not None and offer.beat <= self._beat:
            return [Notify(Dropped("candidate with an old beat"))]
        attempt.link = offer.link  # of this try, or of the one before: its answer was on its way
        attempt.source, attempt.above, attempt.beat = peer, way[1], offer.beat
        return [CreateGroup(attempt.link, way[1:], self.descriptor.id)]

    def group_created(self, group: Id, now: float) -> Effects:
        """The link exists."""
        attempt = self._attempt
        if attempt is None or attempt.link != group or attempt.source is None:
            return [SignalGroup(group)]
        self._attempt = self._earlier = None
        if not self._wanted or self._acts_as_root:
            return [SignalGroup(group)]
        self._parent, self._link, self._fed_before = attempt.source, group, None
        self._own_above = attempt.above
        self._beat, self._rooted = attempt.beat, True
        self._tries = self._refusals = 0
        self._wants = None
        self._parent_heard = self._refreshed_at = now
        self._told_size, self._told_at = attempt.size, float("-inf")
        self._last, self._note = 0, b""
        effects: Effects = []
        if self.around.mode is not None:
            self.around.mode.on_parent(self._mode_sees(now))
            effects += self._mode_asked()
        if attempt.welcome is not None:
            effects += self._beaten(attempt.source, attempt.welcome, now)
        effects += [*self._start_ticking(), *self._announce_ready(), *self._tell_size(now)]
        effects += [*self._spread_beat(now), *self._answer_held(now)]
        return effects + self._handed_over(now)

    def group_failed(self, group: Id, now: float) -> Effects:
        """A link is gone, or was never made."""
        if self._attempt is not None and self._attempt.link == group:
            self._attempt = self._earlier = None
            wait = self._patience(self._refusals) * HASTE
            self._refusals += 1
            self._tries += 1
            self._round += 1
            return [self._again_after(wait)]
        if group == self._link:
            return self._lost_parent(now)
        return self._link_failed(group, now)

    def _lost_parent(self, now: float) -> Effects:
        lost, self._parent, self._link = self._parent, None, None
        self._rooted, self._wants, self._fed_before = False, None, lost
        self._forget_beat()
        if lost is None or not self._wanted or self._departing:
            return []
        return self._announce_lost(lost, now) + self._join(now)

    def _forget_beat(self) -> None:
        """Who feeds nobody, and has fed nobody for a while, need not fear a loop: any candidate will do. What
        it has offered is void."""
        if self._children or self._wary:
            return
        self._beat = None
        for id_ in self._links.of(Part.FEEDS):
            self._links.remove(id_)

    def _stop_joining(self) -> Effects:
        """An attempt whose group may come to exist is given up as a group."""
        attempt, self._attempt = self._attempt, None
        self._earlier = None
        self._tries = self._refusals = 0
        if attempt is None or attempt.source is None:
            return []
        return [SignalGroup(attempt.link)]

    def _welcomed(self, peer: Peer, beat: SvBeat, now: float) -> Effects:
        """A beat, which may come before the group is known to exist."""
        attempt = self._attempt
        if attempt is not None and attempt.link == beat.link and attempt.source is not None:
            if attempt.source.id == peer.id:
                attempt.welcome = beat
            return []
        return self._beaten(peer, beat, now)

    def _is_fed_by(self, peer: Peer) -> bool:
        """Whether content may come from there: from the parent or, while there is none, from who was it and
        who will be."""
        if self._parent is not None:
            return self._parent.id == peer.id
        chosen = None if self._attempt is None else self._attempt.source
        return any(one is not None and one.id == peer.id for one in (chosen, self._fed_before))
