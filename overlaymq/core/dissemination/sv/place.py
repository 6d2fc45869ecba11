"""A node's role in an SV tree, its place in the forwarding tree, and the beats that flow down it.

See the package's text for why beats exclude loops. Content is a sign of life as good as a beat, so a parent
repeats its beat only over links that were silent; a new beat is passed on at once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from overlaymq.core.dissemination.base import Standing
from overlaymq.core.dissemination.children import Child
from overlaymq.core.dissemination.sv.links import Links, Part
from overlaymq.core.dissemination.tree_content import ContentTree
from overlaymq.events import Dropped, Notify, Send, SetTimer, SignalGroup, Timer
from overlaymq.messages import Beat, SvBeat, SvSize, SvWant

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.core.dissemination.sv.links import Link
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Message, Peer, TreeStatus

PARTICIPANTS = ("root", "subscriber", "volunteer")
"""The roles of those who forward content."""
MAX_EPOCH = 1 << 62
"""Beats beyond this are nobody's: half of what a message can carry."""


class SvPlace(ContentTree):
    """Role, parent link, children and beats."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._volunteers = False
        self._link: Id | None = None
        """The link by which the parent feeds this node."""
        self._own_above: Peer | None = None
        """The first hop of that link's way."""
        self._child_links: dict[Id, Id] = {}
        self._links = Links()
        self._beat: Beat | None = None
        self._beat_due = self._refreshed_at = 0.0
        self._will_beat = False
        self._wary = 0
        """Whether somebody may still take this node for its parent, wrongly: the timer that ends it."""
        self._wary_timers = 0
        self._wants: Beat | None = None
        """Somebody below needs a beat newer than this, and the parent was asked for it."""

    # --- roles ---

    @property
    def volunteers(self) -> bool:
        """Whether this node forwards without being a member."""
        return self._volunteers

    @property
    def role(self) -> str:
        """What this node is in the topic's trees."""
        if self._acts_as_root:
            return "root"
        if self._subscribed:
            return "subscriber"
        if self._volunteers or (self.around.willing and self._wanted):
            return "volunteer"
        if self._parent is not None:
            return "former root"
        return "path" if len(self._links) else "none"

    @property
    def _reticent(self) -> bool:
        return self.role not in PARTICIPANTS

    @property
    def standing(self) -> Standing | None:
        """Both trees."""
        rpf = (self.rpf_parent, self.rpf_children)
        return Standing(self.role, self._parent, self.children, *rpf)

    @property
    def rpf_children(self) -> tuple[Peer, ...]:
        """Who is below this node in the RPF tree."""
        return self._links.branches

    @property
    def rpf_parent(self) -> Peer | None:
        """Who is above it there, if a join was sent up: another's, or its own."""
        if self._links.above is not None or self._link is None:
            return self._links.above
        return self._own_above

    @property
    def beat(self) -> Beat | None:
        """The last beat this node has."""
        return self._beat

    @property
    def link(self) -> Id | None:
        """By which link its parent feeds it."""
        return self._link

    @property
    def _forwards(self) -> bool:
        """Whether this node is a subscriber or a volunteer, and so agrees to forward."""
        if self._departing:
            return False
        return self._subscribed or self._volunteers or self.around.willing

    @property
    def _connected(self) -> bool:
        """Whether it is in the forwarding tree."""
        return self._acts_as_root or self._parent is not None

    @property
    def _heartbeat_every(self) -> float:
        return self.around.sv.beat_every

    @abstractmethod
    def _lost_parent(self, now: float) -> Effects:
        """The link to the parent is gone: find another."""

    @abstractmethod
    def _answer_held(self, now: float) -> Effects:
        """Answer the joins that have waited for a newer beat."""

    # --- children ---

    def _feed(self, id_: Id, link: Link, now: float) -> Effects:
        """The joiner of this link is a child from now on."""
        join = link.ask.join
        child = join.child
        known = child.id in self._children
        self._children[child.id] = Child(child, float("inf"), join.members, 0, join.credentials)
        self._child_links[child.id] = id_
        mode = self.around.mode
        status = None if mode is None else mode.status(join)
        effects = self._beat_to(child, status)
        if not known:
            effects += self._told_joined(child, join.note, now)
        if mode is not None:
            mode.on_join(join, self._mode_sees(now))
            effects += self._mode_done(now)
        return effects + self._start_ticking() + self._tell_size(now)

    def _lost_link_to(self, child: Id, id_: Id, now: float) -> Effects:
        if self._child_links.get(child) != id_:
            return []  # it has come back by another
        del self._child_links[child]
        del self._children[child]
        return self._be_wary() + self._prune(now)

    def _abandon(self) -> Effects:
        """Feed nobody any more, and promise it to nobody."""
        gone: Effects = [SignalGroup(id_) for id_ in self._child_links.values()]
        for id_ in self._links.of(Part.FEEDS):
            self._links.remove(id_)
        self._children.clear()
        self._child_links.clear()
        return gone + self._be_wary() if gone else gone

    def _be_wary(self) -> Effects:
        """Who was fed from here may hear of its link's end later: till then its beat counts. It knows after
        the silence that it bears with."""
        self._wary_timers += 1
        self._wary = self._wary_timers
        timer = Timer("topic.wary", self.descriptor.id, self._wary)
        silence = self.around.sv.suspect_after + self.around.sv.beat_every
        return [SetTimer(timer, max(self.around.rendezvous.expire_after, silence))]

    def _prune(self, now: float) -> Effects:
        """Leave the tree if nobody here needs it; otherwise only the size has changed."""
        if self._wanted or self._parent is None:
            return self._tell_size(now)
        self._history.clear()
        return self._leave_parent()

    def _leave_parent(self) -> Effects:
        link, self._link = self._link, None
        self._parent, self._rooted = None, False
        return [] if link is None else [SignalGroup(link)]

    def _sized(self, peer: Peer, size: SvSize, now: float) -> Effects:
        if self._child_links.get(peer.id) != size.link:
            return [Notify(Dropped("size of a stranger"))]
        self._children[peer.id].members = size.members
        return self._tell_size(now)

    def _size_news(self) -> Message:
        assert self._link is not None
        return SvSize(self.descriptor.id, self._link, self._member_count())

    # --- beats ---

    def _newer_than(self, beat: Beat | None) -> bool:
        """Whether this node's beat is good enough for somebody who has that one."""
        if beat is None or not self.around.sv.beats:
            return True
        return self._beat is not None and self._beat > beat

    def _is_impossible(self, beat: Beat | None) -> bool:
        """Whether a newer one could not be sent: numbers end somewhere."""
        return beat is not None and beat.epoch > max(MAX_EPOCH, self._epoch)

    def _next_beat(self, above: Beat | None = None) -> None:
        """At the root: a beat newer than all that it knows of."""
        number = 0 if self._beat is None else self._beat.number
        if above is not None and above.epoch >= self._epoch:
            self._epoch = above.epoch + 1
        self._beat = Beat(self._epoch, number + 1)

    def _spread_beat(self, now: float) -> Effects:
        self._spread_at = now
        status = None if self.around.mode is None else self.around.mode.status()
        effects: Effects = []
        for child in self._children.values():
            effects += self._beat_to(child.peer, status)
        return effects

    def _beat_to(self, child: Peer, status: TreeStatus | None) -> Effects:
        link = self._child_links[child.id]
        beat = Beat(0, 0) if self._beat is None else self._beat
        return [Send(child, SvBeat(self.descriptor.id, link, beat, status))]

    def _beaten(self, peer: Peer, message: SvBeat, now: float) -> Effects:
        """From the parent."""
        if self._link != message.link or self._parent is None or self._parent.id != peer.id:
            return [Notify(Dropped("beat of a stranger"))]
        self._parent_heard = now
        effects = self._told_status(peer, message.status, now)
        if self._beat is None or message.beat > self._beat:
            self._beat = message.beat
            self._epoch = max(self._epoch, message.beat.epoch)
            effects += [*self._spread_beat(now), *self._answer_held(now)]
            if self._wants is not None and self._beat > self._wants:
                self._wants = None
        return effects

    def _want(self, beat: Beat, now: float) -> Effects:
        """Somebody needs a newer beat: the root gives one, others ask above them, once."""
        if self._is_impossible(beat):
            return [Notify(Dropped("impossible beat"))]
        if self._acts_as_root:
            self._next_beat(beat if self._beat is None or beat >= self._beat else None)
            return self._beat_soon(now)
        if self._parent is None or self._link is None or self._newer_than(beat):
            return []
        if self._wants is not None and self._wants >= beat:
            return []
        self._wants = beat
        return [Send(self._parent, SvWant(self.descriptor.id, self._link, beat))]

    def _wanted_below(self, peer: Peer, want: SvWant, now: float) -> Effects:
        if self._child_links.get(peer.id) != want.link:
            return [Notify(Dropped("question of a stranger"))]
        if self._newer_than(want.beat) and not self._acts_as_root:
            return self._beat_to(peer, None)  # it was lost on its way
        return self._want(want.beat, now)

    def _beat_soon(self, now: float) -> Effects:
        """The root beats at once, but not for everybody who asks."""
        wait = self._beat_due - now
        if wait <= 0:
            self._beat_due = now + self.around.sv.hasty_beat
            return self._spread_beat(now)
        if self._will_beat:
            return []
        self._will_beat = True
        return [SetTimer(Timer("topic.beat", self.descriptor.id), wait)]

    # --- upkeep ---

    def _tick(self, now: float) -> Effects:
        self._ticking = False
        effects: Effects = []
        mode = self.around.mode
        if mode is not None:
            mode.on_tick(self._mode_sees(now))
            effects += self._mode_done(now)
            if not self._wanted:
                effects += self._prune(now)
        if self._acts_as_root:
            self._next_beat()
        if now - self._spread_at >= self._heartbeat_every:
            effects += self._spread_beat(now)
        if self._parent is not None and self._link is not None:
            if now - self._parent_heard >= self.around.sv.suspect_after:
                effects.append(SignalGroup(self._link))
            elif now - self._refreshed_at >= self.around.rendezvous.refresh_every:
                self._refreshed_at = now
                effects.append(Send(self._parent, self._size_news()))
        lingers = mode is not None and mode.lingers
        if self._parent is None and not (self._children or lingers or self._keeps):
            return effects
        return effects + self._start_ticking()
