"""A node's part in the joins of others: it offers to feed, passes joins up or probes down, and keeps what the
links that come of them need (SV 3.1, 3.2).

Offers need a beat newer than the joiner's. Who has none that is new enough, or no parent yet, keeps the join
for as long as its traces on the way live, and answers when it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.sv.links import Link, Part
from overlaymq.core.dissemination.sv.place import SvPlace
from overlaymq.core.topics import MAX_CREDENTIALS
from overlaymq.events import Dropped, Notify, Route, Send, SetTimer, Timer
from overlaymq.messages import SvCandidate, SvJoin

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer

MAX_WAY = 64
"""Nodes on one way: a guess. Routes of 100,000 nodes have five hops, and FUSE groups in the paper's trees had
13 members at most (protocols.md 4.6)."""
MAX_HELD = 1024
"""Joins that wait here at once: a guess."""
WAIT_ONCE = 1
"""A joiner that has tried so often is not asked to wait here, but passes: a guess."""
GO_UP = 2
"""A joiner that has tried so often in vain is sent up instead of down: a guess."""

ASKED = 4
"""Of those whom a full node feeds, so many at random are asked about a join: a guess. If all were asked, a
join would cost as many messages, and the nearest would be the first to answer each join of a crowd."""


class Searching(SvPlace):
    """Where joins pass."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._held: dict[Id, tuple[SvJoin, bool, float]] = {}
        """Joins that wait for an answer, whether they came as such, and until when."""
        self._tidies = 0

    @property
    def _answers(self) -> bool:
        """Whether joins end here."""
        return self._acts_as_root or self._forwards

    @property
    def _wanted(self) -> bool:
        if self._subscribed or self._volunteers or self._children:
            return True
        if self.around.willing and (self._held or self._links.of(Part.FEEDS)):
            return True
        return self.around.mode is not None and self.around.mode.lingers

    # --- joins on their way ---

    def _met(self, ask: SvJoin, now: float) -> tuple[SvJoin | None, Effects]:
        """A join came by, from the last node of its path: what goes on towards the root, if anything."""
        refused = self._refusal(ask)
        if refused is not None:
            return None, refused
        in_vain = self._holds_in_vain(ask)
        if self._answers and not in_vain:
            return None, self._offer(ask, True, now)
        onward = msgspec.structs.replace(ask, path=(*ask.path, self.around.me))
        below = self._not_on(ask, self._links.branches_for(ask.path[-1].id))
        if self._links.sent_up is None or not below or in_vain or ask.tries >= GO_UP:
            return onward, self._remember(Link(Part.UP, ask, self._until(now)), now)
        turn = Link(Part.TURN, ask, self._until(now), tuple(below))
        return None, [*self._remember(turn, now), *[Send(child, onward) for child in below]]

    def _probed(self, peer: Peer, ask: SvJoin, now: float) -> Effects:
        """A probe came straight from the last node of its path."""
        refused = self._refusal(ask)
        if refused is not None:
            return refused
        if ask.path[-1].id != peer.id:
            return [Notify(Dropped("probe of a stranger"))]
        if self._answers:
            return self._offer(ask, False, now)
        below = self._not_on(ask, self._links.branches)
        if not below:
            return [Notify(Dropped("probe that leads nowhere"))]
        return self._pass_to([self.around.random.choice(below)], ask, False, now)

    def _holds_in_vain(self, ask: SvJoin) -> bool:
        """Whether a join has waited here before, or would for ever: this node may be below the joiner."""
        if self._acts_as_root or (self._connected and self._newer_than(ask.beat)):
            return False
        fed_by_it = self._parent is not None and self._parent.id == ask.join.child.id
        return fed_by_it or ask.tries >= WAIT_ONCE

    def _refusal(self, ask: SvJoin) -> Effects | None:
        """Why a join ends here, if it does."""
        if ask.link in self._links or ask.link in self._held:
            return []  # a copy of it was here
        if not ask.path or ask.path[0] != ask.join.child or len(ask.path) >= MAX_WAY:
            return [Notify(Dropped("impossible way"))]
        if any(peer.id == self.around.me.id for peer in ask.path):
            return [Notify(Dropped("way that comes back"))]
        if len(ask.join.credentials) > MAX_CREDENTIALS:
            return [Notify(Dropped("credentials too long"))]
        if len(self._links) >= self.around.sv.max_links:
            return [Notify(Dropped("too many links"))]
        return None

    @staticmethod
    def _not_on(ask: SvJoin, peers: list[Peer] | tuple[Peer, ...]) -> list[Peer]:
        on = {peer.id for peer in ask.path}
        return [peer for peer in peers if peer.id not in on]

    def _until(self, now: float) -> float:
        return now + self.around.sv.tentative

    def _remember(self, link: Link, now: float) -> Effects:
        self._links.add(link)
        return self._tidy_later(now)

    # --- offers ---

    def _offer(self, ask: SvJoin, rising: bool, now: float) -> Effects:
        """Be a candidate, now or when it is possible."""
        if self._is_impossible(ask.beat):
            return [Notify(Dropped("impossible beat"))]
        if self._is_full_for(ask.join.child):
            return self._hand_down(ask, rising, now)
        if self._acts_as_root and not self._newer_than(ask.beat):
            self._next_beat(ask.beat)
        if self._connected and self._newer_than(ask.beat) and self._beat is not None:
            me = self.around.me
            link = Link(Part.FEEDS, ask, self._until(now), rising=rising)
            way = (*ask.path, me)
            offer = SvCandidate(self.descriptor.id, ask.link, self._beat, way)
            return [*self._remember(link, now), Send(ask.join.child, offer)]
        if len(self._held) >= MAX_HELD:
            return [Notify(Dropped("too many joins wait"))]
        self._held[ask.link] = (ask, rising, self._until(now))
        effects = self._tidy_later(now)
        if ask.beat is not None and self._connected:
            return effects + self._want(ask.beat, now)
        return effects + self._join(now)

    # --- who feeds as many as it may ---

    @property
    def _room(self) -> int:
        bound = self.around.sv.max_children or self.around.rendezvous.max_members
        return min(bound, self.around.rendezvous.max_members)

    @property
    def _fed_soon(self) -> tuple[Peer, ...]:
        """The children, and those to whom a place is promised: in a crowd these come long before those."""
        promised = [peer for peer in self._links.promised() if peer.id not in self._children]
        return (*self.children, *promised)

    def _is_full_for(self, joiner: Peer) -> bool:
        """Whether there is no place for this one."""
        fed = self._fed_soon
        return len(fed) >= self._room and all(peer.id != joiner.id for peer in fed)

    def _hand_down(self, ask: SvJoin, rising: bool, now: float) -> Effects:
        """One of those that are fed from here must find room. Several are asked about a join, and one about a
        probe, much as RPF children are (SV 3.1.2)."""
        fed = self._not_on(ask, self._fed_soon)
        if not fed:
            return [Notify(Dropped("too many children"))]
        asked = self.around.random.sample(fed, min(ASKED if rising else 1, len(fed)))
        return self._pass_to(asked, ask, rising, now)

    def _pass_to(self, peers: list[Peer], ask: SvJoin, rising: bool, now: float) -> Effects:
        """Let these answer; the way leads through this node."""
        link = Link(Part.DOWN, ask, self._until(now), tuple(peers), rising)
        onward = msgspec.structs.replace(ask, path=(*ask.path, self.around.me))
        return [*self._remember(link, now), *[Send(peer, onward) for peer in peers]]

    def _answer_held(self, now: float) -> Effects:
        if not self._held or not self._connected:
            return []
        effects: Effects = []
        held, self._held = self._held, {}
        for id_, (ask, rising, until) in held.items():
            if until <= now:
                continue
            if self._newer_than(ask.beat):
                effects += self._offer(ask, rising, now)
            else:
                self._held[id_] = (ask, rising, until)
        waiting = [ask.beat for ask, _, _ in self._held.values() if ask.beat is not None]
        return effects + (self._want(max(waiting), now) if waiting else [])

    # --- failure groups ---

    def group_asked(
        self, group: Id, creator: Peer, members: tuple[Peer, ...], now: float
    ) -> tuple[bool, Effects]:
        """The joiner has chosen a way that leads through this node."""
        link = self._links.get(group)
        if link is None or link.settled or link.ask.join.child.id != creator.id:
            return False, [Notify(Dropped("group of an unknown link"))]
        after = self._after(creator, members)
        if link.part is Part.FEEDS:
            if after is not None or not self._answers or self._is_full_for(creator):
                return False, []
            self._links.settle(group, None)
            return True, self._feed(group, link, now)
        known = link.part is Part.UP or (after is not None and after in link.probed)
        if after is None or not known:
            return False, []
        self._links.settle(group, after)
        return True, []

    def _after(self, creator: Peer, members: tuple[Peer, ...]) -> Peer | None:
        """The next node on the way from the joiner, which is the order of the members."""
        way = [peer for peer in members if peer.id != creator.id]
        ids = [peer.id for peer in way]
        at = ids.index(self.around.me.id) + 1 if self.around.me.id in ids else len(way)
        return way[at] if at < len(way) else None

    def _link_failed(self, group: Id, now: float) -> Effects:
        """Of somebody else's link: forget what was there for it (SV 3.2.3)."""
        link = self._links.remove(group)
        if link is None:
            return []
        if link.part is not Part.FEEDS:
            return self._turn_again()
        return self._lost_link_to(link.ask.join.child.id, group, now) + self._turn_again()

    def _turn_again(self) -> Effects:
        """A join may come before the news that those whom it was sent down to are gone. It is as if it came
        now; otherwise its joiner would wait until it tries again."""
        stranded = self._links.stranded()
        for ask in stranded:
            self._links.remove(ask.link)
        return [Route(self.descriptor.key, ask) for ask in stranded]

    # --- what comes to nothing ---

    def _tidy_later(self, now: float) -> Effects:
        due = self._links.next_expiry()
        for _, _, until in self._held.values():
            due = until if due is None else min(due, until)
        if due is None or self._tidies:
            return []
        self._tidies += 1
        return [SetTimer(Timer("topic.tidy", self.descriptor.id), max(due - now, 0.0))]

    def _tidy(self, now: float) -> Effects:
        self._tidies = 0
        self._links.expire(now + 1e-6)  # a timer may come back a rounding error early
        for id_ in [id_ for id_, (_, _, until) in self._held.items() if until <= now + 1e-6]:
            del self._held[id_]
        effects = self._tidy_later(now)
        return effects if self._wanted else effects + self._prune(now)
