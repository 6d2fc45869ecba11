"""Publications on their way to the root, past everybody who does not want them.

A batch goes from its publisher straight to the root. Whoever is not the root does not pass it on, as Scribe's
old roots do: it throws it away and says so, and who is the root as far as it knows. The publisher keeps what
it has sent for a while, bounded in bytes, and sends a refused batch again, to that root or to the one it
finds. A batch that was refused was not numbered, so it never comes twice. What the root of an ``ordered``
topic has not acknowledged is sent again anyway. So nothing that was acknowledged is lost in a redirection.

When the root moves, a former one that does not want the content gives up those that it fed: they look for
other parents, and the new root feeds nobody at first. It was told how many members there are, and keeps back
what it is given until so many are below it, or for two tries of a join at most. (The mode of an ``ordered``
topic repairs what was not heard, so there it does not wait.)

One that leaves hands over before it goes, tells those who have published, and stays a little to refuse what
is on its way to it. Its children stay till then and get nothing: the ring would lead their joins back to it.
One that does not go for long gives them up, and passes joins to its heir.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.outbox import Outbox
from overlaymq.core.dissemination.rooted import MAX_HOPS_TO_ROOT, STAY, next_hop, refusal
from overlaymq.core.dissemination.sv.joining import Joining
from overlaymq.events import Dropped, Notify, Route, Send, SetTimer, Timer

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.messages import Batch, BatchRefused, Descriptor, Handover, Peer

PATIENCE = 2
"""Tries of a join that a new root waits for: a guess."""
REMAIN = 2.0
"""Seconds after which one that has not gone then will not go soon: a guess, above ``link.grace``."""
FOLLOWED = 3
"""Hints of who is the root that are followed for one batch; then it is looked up: a guess."""


class Polite(Joining):
    """Who publishes, and who is taken for the root."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._copies = Outbox()
        """What may still be refused."""
        self._will_forget = False
        self._gathers = 0
        """How many members the tree of the root before had, while they look for other parents."""
        self._gatherings = 0
        self._remains = False
        """Whether it has not gone all the same."""

    # --- a root that moves ---

    @property
    def needed(self) -> bool:
        """Who has abdicated feeds nobody; it stays to redirect publications."""
        if self._has_abdicated:
            return bool(self._stays or self._waiting or len(self._outbox))
        return super().needed

    def _stay(self) -> Effects:
        self._stays = bool(self._children)
        self._remains = not self._stays
        return [SetTimer(Timer("topic.stay", self.descriptor.id), STAY)] if self._stays else []

    def _stayed(self, already: int) -> Effects:
        """What was on its way has come. If this node does not go now, its children must go."""
        self._stays = False
        if not self._has_abdicated:
            return []
        if not already:
            return [SetTimer(Timer("topic.stay", self.descriptor.id, 1), REMAIN)]
        self._remains = True
        return self._abandon()

    def _inherit(self, heritage: Handover, now: float) -> Effects:
        effects: Effects = []
        if self.around.mode is None and heritage.size > self._member_count():
            self._gathers = heritage.size
            self._gatherings += 1
            timer = Timer("topic.gather", self.descriptor.id, self._gatherings)
            effects.append(SetTimer(timer, PATIENCE * self.around.rendezvous.answer_timeout))
        return effects + super()._inherit(heritage, now)

    def _tell_size(self, now: float) -> Effects:
        """The size may have changed."""
        all_there = self._gathers and self._member_count() >= self._gathers
        return (self._gathered(now) if all_there else []) + super()._tell_size(now)

    def _gathered(self, now: float) -> Effects:
        """The members of the root before are here, or late: what was kept back may go."""
        self._gathers = 0
        return self._flush(now)

    # --- publications ---

    def _taken_for_root(self, peer: Peer, batch: Batch, now: float) -> Effects:
        """A batch that has no number yet."""
        if not self._acts_as_root:
            return [Send(peer, refusal(batch, self._root))]
        self._remember_writer(peer)
        self._sender = peer
        effects = self._to_root(batch, now)
        self._sender = None
        return effects

    def _to_root(self, batch: Batch, now: float) -> Effects:
        own = batch.origin == self.around.me.id
        if not own and not self._acts_as_root:
            # It waited here for a root that is none any more; its publisher sends it again.
            return [Route(batch.origin, refusal(batch, self._root))]
        if self._gathers and self._acts_as_root:
            return self._hold(batch)
        effects = super()._to_root(batch, now)
        if self.around.mode is not None or self._acts_as_root or self._root is None:
            return effects
        return effects + self._keep_copy(batch, now) if batch.hop <= MAX_HOPS_TO_ROOT else effects

    def _sent(self, batch: Batch, links: int, dropped: str = "") -> Effects:
        """Only the first time: a batch that was refused has been sent."""
        return [] if batch.hop else super()._sent(batch, links, dropped)

    def _keep_copy(self, batch: Batch, now: float) -> Effects:
        self._copies.put(next_hop(batch), now)
        while self._copies.size > self.around.delivery.window:
            self._copies.take_oldest()
        if self._will_forget:
            return []
        self._will_forget = True
        return [SetTimer(Timer("topic.recall", self.descriptor.id), self.around.sv.recall)]

    def _forget_copies(self, now: float) -> Effects:
        self._will_forget = False
        for batch in self._copies.sent_before(now - self.around.sv.recall + 1e-6):
            self._copies.take((batch.origin, batch.epoch, batch.first, batch.chunk))
        if not len(self._copies):
            return []
        self._will_forget = True
        return [SetTimer(Timer("topic.recall", self.descriptor.id), self.around.sv.recall)]

    def _batch_refused(self, peer: Peer, refused: BatchRefused, now: float) -> Effects:
        """Whom this node took for the root is not: send it again, to who is."""
        batch = self._copies.take((refused.origin, refused.epoch, refused.first, refused.chunk))
        unsure = self._root is not None and self._root.id == peer.id and not self._acts_as_root
        if unsure:
            self._root = None
            hint = refused.root
            follow = batch is None or batch.hop < FOLLOWED
            if hint is not None and follow and hint.id not in (peer.id, self.around.me.id):
                self._root = hint
        if self.around.mode is not None:
            effects = self._flush(now)
            return effects + self._ask_again() if unsure and self._root is None else effects
        if batch is None:
            return [Notify(Dropped("refused by a former root"))]
        return self._to_root(batch, now)
