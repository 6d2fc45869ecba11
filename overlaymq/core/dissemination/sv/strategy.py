"""The strategy contract for SV trees: what a node does with what it is asked and told.

See the package's text for the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from overlaymq.core.dissemination.sv.polite import Polite
from overlaymq.events import Dropped, Notify, Send, SignalGroup
from overlaymq.messages import (
    Batch,
    DeliveryQuery,
    RootQuery,
    SvBeat,
    SvCandidate,
    SvJoin,
    SvSize,
    SvWant,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.events import Timer
    from overlaymq.messages import Message, Peer


class Sv(Polite):
    """See the package's text."""

    name: ClassVar[str] = "sv"
    takes_volunteers: ClassVar[bool] = True
    ways: ClassVar[bool] = True

    # --- the application ---

    def subscribe(self, last: int, now: float, note: bytes = b"") -> Effects:
        """Become a member; a volunteer or the root is in the tree already."""
        self._subscribed = True
        effects, served = self._replay(last, now)
        if self._connected:
            self._rooted = True
            return effects + self._announce_ready() + self._tell_size(now)
        self._last, self._note = 0 if served else last, note
        return effects + self._join(now)

    def unsubscribe(self, now: float) -> Effects:
        """Stop being a member; who is no volunteer either leaves, as if it had failed."""
        self._subscribed = self._ready = False
        self._want_no_history()
        effects: Effects = []
        if self.around.mode is not None:
            self.around.mode.on_unsubscribe(self._mode_sees(now))
            effects = self._mode_asked()
        return effects + self._stop_forwarding(now)

    def volunteer(self, willing: bool, now: float) -> Effects:
        """Forward without being a member, or no more."""
        self._volunteers = willing
        return self._join(now) if willing else self._stop_forwarding(now)

    def _stop_forwarding(self, now: float) -> Effects:
        if self._forwards or self._acts_as_root:
            return self._prune(now)
        self._held.clear()
        effects = self._abandon() + self._prune(now)
        if not self._wanted:
            effects += self._stop_joining()
            self._forget_beat()
        return effects + self._handed_over(now)

    def _yield_children(self) -> Effects:
        """The links of who leaves fail, whether it says so now or later; now is kinder."""
        self._held.clear()
        return [] if self._acts_as_root else self._abandon()

    # --- messages ---

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """From a peer, directly."""
        match message:
            case Batch():
                return self._receive_batch(peer, message, now)
            case SvJoin():
                return self._probed(peer, message, now)
            case SvCandidate():
                return self._candidate(peer, message, now)
            case SvBeat():
                return self._welcomed(peer, message, now)
            case SvSize():
                return self._sized(peer, message, now)
            case SvWant():
                return self._wanted_below(peer, message, now)
        return self._of_the_tree(peer, message, now)

    def forward(
        self, message: Message, next_hop: Peer, now: float
    ) -> tuple[Message | None, Effects]:
        """A join that passes."""
        if not isinstance(message, SvJoin) or message.join.child.id == self.around.me.id:
            return message, []
        return self._met(message, now)

    def deliver(self, message: Message, source: Peer, now: float) -> Effects:
        """At the root."""
        if self._root is not None and self._has_abdicated:
            return self._asked_after_abdication(source, message, now)
        if isinstance(message, RootQuery):
            return [Send(source, self._root_is(self.around.me)), *self._expect_publication(now)]
        if isinstance(message, DeliveryQuery) and self.around.mode is not None:
            self.around.mode.on_query(source, message, self._mode_sees(now))
            return self._mode_done(now) + self._expect_publication(now)
        if not isinstance(message, SvJoin) or message.join.child.id == self.around.me.id:
            return []
        refused = self._refusal(message)
        return self._offer(message, True, now) if refused is None else refused

    def failed(self, peer: Peer, now: float) -> Effects:
        """A peer is gone: its links are too, though their groups may not know it yet (fail on send)."""
        effects = self._root_failed(peer, now)
        if peer.id in self._child_links:
            effects.append(SignalGroup(self._child_links[peer.id]))
        if self._link is not None and self._parent is not None and self._parent.id == peer.id:
            effects.append(SignalGroup(self._link))
        return effects

    def fired(self, timer: Timer, now: float) -> Effects:
        """Try again, beat, or forget."""
        match timer.part:
            case "topic.join":
                return self._try_again(now) if timer.round == self._round else []
            case "topic.tick":
                return self._tick(now)
            case "topic.beat":
                self._will_beat = False
                return self._beat_soon(now) if self._acts_as_root else []
            case "topic.tidy":
                return self._tidy(now)
            case "topic.recall":
                return self._forget_copies(now)
            case "topic.gather":
                return self._gathered(now) if timer.round == self._gatherings else []
            case "topic.stay":
                return self._stayed(timer.round)
            case "topic.wary":
                self._wary = 0 if timer.round == self._wary else self._wary
                return []
        return self._timed_out(timer, now)

    @property
    def idle(self) -> bool:
        """No part in either tree, and nothing waits."""
        waits = self._waiting or len(self._outbox) or len(self._copies) or self._heir
        joins = self._attempt is not None or self._held or self._parent is not None
        part = self._wanted or joins or len(self._links) or self._wary
        return not (part or waits or self._keeps)

    # --- the root ---

    def _become_root(self, now: float) -> Effects:
        if self._parent is not None:
            self._fed_before = self._parent  # what it has sent may come after this news
        effects = self._stop_joining() + self._leave_parent()
        self._heir, self._rooted, self._handing_over = False, True, False
        return [*effects, *self._begin_epoch(now), *self._announce_ready()]

    def _begin_epoch(self, now: float) -> Effects:
        effects = super()._begin_epoch(now)
        if self.around.mode is not None:
            self._epoch += 1
        self._next_beat()
        return [*effects, *self._start_ticking(), *self._beat_soon(now), *self._answer_held(now)]

    def _hand_over(self, root: Peer, now: float, size: int | None = None) -> Effects:
        """Who is root no more, and no subscriber or volunteer, forwards nothing any more."""
        if self._departing:
            return self._abdicate(root, now)
        size = self._member_count() if size is None else size
        given_up = [] if self._forwards else self._abandon()
        self._forget_beat()
        self._gathers = 0
        self._writers.clear()
        return [*super()._hand_over(root, now, size), *given_up, *self._flush(now)]

    def _abdicate(self, heir: Peer, now: float) -> Effects:
        """Before it leaves. Its children stay with it, and get nothing, till it has gone: until then the
        ring would lead their joins back to it. Its heir keeps for them what is published meanwhile."""
        self._gathers = 0
        effects = super()._hand_over(heir, now, self._member_count() - self._subscribed)
        self._handing_over = False
        return [*effects, *self._tell_writers(heir), *self._stay(), *self._flush(now)]

    def _asked_after_abdication(self, source: Peer, message: Message, now: float) -> Effects:
        if isinstance(message, RootQuery):
            return self._asked_root(source, message, now)
        if not isinstance(message, SvJoin) or not self._remains or self._root is None:
            return []  # it will go at once: a joiner tries again then
        refused = self._refusal(message)
        return self._pass_to([self._root], message, True, now) if refused is None else refused

    # --- batches ---

    def _receive_batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        if not batch.root_sequence:
            return self._taken_for_root(peer, batch, now)
        if batch.root == self.around.me.id and self.around.mode is None:
            return self._replayed(peer, batch)
        if self._is_fed_by(peer):
            self._parent_heard = now
        elif self.around.mode is None or not (self._acts_as_root or peer.id in self._children):
            # Of an ordered topic, parents may ask children, and roots are given the last batches before.
            return [Notify(Dropped("content of a stranger", batch.count, batch))]
        return self._flow_down(peer, batch, now)
