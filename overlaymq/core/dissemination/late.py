"""Late joiners of a tree: how the last messages are found (``since=Last(n)``).

Every node of a tree keeps the last messages that came through it. Whoever has just joined has none, and may
be a parent the next moment: so it is not enough to ask the parent. A newcomer asks its way up. Each node that
holds as many messages as are asked for sends them; any other says how many it holds, and who its parent is.
A new root may know less than those who were there before it: one that holds too few names the first of its
children, which has been with it for longest. There the way ends, and the newcomer asks the one that holds the
most for what it has.

- *When.* Only a newcomer whose way to the root is complete asks: whatever is newer than the answer comes by
  the tree. So there is no gap between the two, and what comes twice is known by its publisher's number.
- *Order.* What the tree brings waits until the history has come (``replay``). The history is for the newcomer
  alone: those below it have not asked for it.
- *Who sends.* Nodes that do not forward content (``_reticent``, of SV trees) only name their parents.

Nobody keeps anything for this but the newcomer. After an answer's time without an answer its way ends, too.
If nobody holds more than it does itself, it takes that: it may have been a forwarder. A mode that takes part
in the tree (``ordered``) has its own way, with the answer to a join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.replay import Replay, marked, unmarked
from overlaymq.core.dissemination.rooted_tree import RootedTree
from overlaymq.events import Dropped, Notify, Send, SetTimer, Timer
from overlaymq.messages import TreeHistory, TreeReplay

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Descriptor, Peer

MAX_ASKED = 64
"""Nodes on one way up: a guess, several times a tree's depth."""


class Search:
    """A newcomer's way up."""

    __slots__ = ("asked", "best", "last", "most")

    def __init__(self, me: Id, last: int, most: int) -> None:
        self.asked = {me}
        self.last = last
        self.best: Peer | None = None
        """Who holds the most of those that were asked; None: this node itself."""
        self.most = most


class LateJoining(RootedTree):
    """Who asks for history, and who has it."""

    __slots__ = ("_asked_above", "_awaited", "_comes", "_search", "_since", "_waits")

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._since = 0
        """Messages to ask for as soon as the way to the root is complete."""
        self._search: Search | None = None
        self._awaited = Replay()
        self._asked_above: Peer | None = None
        self._waits = 0
        self._comes = False
        """Whether some of the history has come since this was last looked at."""

    # --- the newcomer ---

    def _want_history(self, last: int) -> None:
        self._since, self._search = last, None
        self._awaited.expect(last)

    def _want_no_history(self) -> None:
        self._since, self._search, self._asked_above = 0, None, None
        self._awaited.abandon()

    def _announce_ready(self) -> Effects:
        return super()._announce_ready() + self._look_for_history()

    def _look_for_history(self) -> Effects:
        if not (self._since and self._rooted and self._subscribed):
            return []
        last, self._since = self._since, 0
        held = self._history.messages
        if self._acts_as_root or self._parent is None or held >= last:
            return self._own_history(last)
        self._search = Search(self.around.me.id, last, held)
        return self._ask_for_history(self._parent, self._search)

    def _own_history(self, last: int) -> Effects:
        self._search = None
        own: Effects = []
        for batch in self._history.last(last):
            own += self._awaited.history(batch)
        return own + self._awaited.over()

    def _ask_for_history(self, peer: Peer, search: Search) -> Effects:
        search.asked.add(peer.id)
        self._asked_above = peer
        ask = TreeHistory(self.descriptor.id, search.last, search.most)
        return [Send(peer, ask), self._await_history()]

    def _await_history(self) -> SetTimer:
        self._waits += 1
        timer = Timer("topic.history", self.descriptor.id, self._waits)
        return SetTimer(timer, self.around.rendezvous.answer_timeout)

    def _told_history(self, peer: Peer, told: TreeReplay) -> Effects:
        search, asked = self._search, self._asked_above
        if search is None or asked is None or asked.id != peer.id:
            return []
        if told.above is None and (told.batches or not search.most):
            self._search = None
            return self._awaited.announced(peer.id, told.batches)
        if told.held > search.most:
            search.best, search.most = peer, told.held
        above = told.above
        if above is None or above.id in search.asked or len(search.asked) >= MAX_ASKED:
            return self._ask_who_has_most(search)
        return self._ask_for_history(above, search)

    def _ask_who_has_most(self, search: Search) -> Effects:
        best, search.best = search.best, None
        if best is None:
            return self._own_history(search.last)
        search.last, search.most = min(search.last, search.most), 0
        return self._ask_for_history(best, search)

    def _history_due(self, round_: int) -> Effects:
        """Nothing more has come for a while."""
        if round_ != self._waits:
            return []
        if self._comes:
            self._comes = False
            return [self._await_history()]
        search = self._search
        return self._awaited.over() if search is None else self._ask_who_has_most(search)

    def _replayed(self, peer: Peer, batch: Batch) -> Effects:
        """Of the history, and for this node alone."""
        asked = self._asked_above
        if asked is None or asked.id != peer.id or not self._awaited.counts(peer.id):
            return [Notify(Dropped("unasked replay", batch.count, batch))]
        self._comes = True
        return [*self._awaited.history(unmarked(batch)), *self._awaited.release()]

    # --- who has it ---

    def _asked_for_history(self, peer: Peer, ask: TreeHistory) -> Effects:
        """Send as much as is asked for, or say who may have it."""
        held = 0 if self._reticent else self._history.messages
        above = self._parent
        if self._acts_as_root:
            above = next((one for one in self.children if one.id != peer.id), None)
        if held < ask.last and (above is not None or held < ask.most):
            return [Send(peer, TreeReplay(self.descriptor.id, 0, held, above))]
        replay = self._history.last(ask.last) if held else []
        told = TreeReplay(self.descriptor.id, len(replay), held)
        return [Send(peer, told), *marked(replay, peer)]
