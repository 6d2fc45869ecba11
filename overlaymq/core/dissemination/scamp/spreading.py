"""What a node does with the batches of a gossip topic: its own, those that gossip brings, and history.

``gossip`` says whom a batch goes to, ``handing`` gets it into the group while this node has no neighbours,
and ``replay`` sees to it that history comes first. Here they are put together; who the neighbours are is for
``strategy``.

*Last words.* What this node has told over lazy links only is asked for a moment later. So it answers for that
moment after it has unsubscribed, and while it leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.replay import Replay, unmarked
from overlaymq.core.dissemination.rooted import refusal
from overlaymq.core.dissemination.scamp.asking import Asking
from overlaymq.core.dissemination.scamp.gossip import Gossip, name_of
from overlaymq.core.dissemination.scamp.handing import Handing, Unspread, sent
from overlaymq.core.dissemination.upcalling import Upcalling
from overlaymq.events import Deliver, Dropped, Notify, Send, SetTimer, Timer
from overlaymq.messages import ScampReplace, ScampTaken

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Descriptor, Peer

STOPPED = "stopped by on_forward"
PULLS = 3
"""Pulls that may go to others before this node is asked for what it has announced: a guess."""
UNLINKED = "no links yet"


class Spreading(Upcalling):
    """The half of the strategy that has to do with batches."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._subscribed = False
        self._alone = False
        """Whether this node is the only member, as far as the rendezvous knows."""
        self._gossip = self._new_gossip()
        self._gossiping = False
        self._spread_at = float("-inf")
        """When this node has passed a batch on, the last time."""
        self._lingers_until = float("-inf")
        """Until when it answers for that after all; long ago: it does not linger."""
        self._asking = Asking(descriptor, around)
        self._handing = Handing(descriptor.id, around, self._asking)
        self._unspread = Unspread(around.delivery.window)
        self._replay = Replay()

    def _new_gossip(self) -> Gossip:
        around = self.around
        return Gossip(self.descriptor.id, around.scamp, around.delivery, around.random)

    @property
    def gossip(self) -> Gossip:
        """The links, for those who want to look."""
        return self._gossip

    @property
    def _connected(self) -> bool:
        """Whether what this node sends gets anywhere, or there is nobody else."""
        return self._alone or bool(self._gossip.eager or self._gossip.lazy)

    def publish(self, batch: Batch, now: float) -> Effects:
        """Gossip it, or hand it to members, or hold it until one of these can be done."""
        effects: Effects = []
        if self._subscribed:
            self._gossip.known.add(batch)
            effects.append(Deliver(batch))
        if self._subscribed and self._connected:
            return effects + self._spread_own(batch, now)
        effects += self._handing.hold(batch)
        if not self._subscribed:
            effects += self._handing.flush(now)
        return effects + self._handing.watch(self._subscribed)

    def _receive_batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        handed = batch.hop == 0 and not batch.root
        if not self._subscribed:
            effects: Effects = [Notify(Dropped("not subscribed", batch.count, batch))]
            if handed:
                effects.append(Send(peer, refusal(batch)))
            else:
                effects.append(Send(peer, ScampReplace(self.descriptor.id)))
            return effects
        if batch.root:
            return self._replayed(peer, batch)
        if handed and not self._connected and not self._unspread.takes(batch):
            return [Notify(Dropped(UNLINKED, batch.count, batch)), Send(peer, refusal(batch))]
        waits = (handed and not self._connected) or batch in self._unspread
        effects = []
        if handed:
            taken = ScampTaken(batch.topic, name_of(batch))
            effects = [Send(peer, refusal(batch) if waits else taken)]
        if not self._gossip.known.add(batch):
            effects += self._gossip.repeated(batch, peer)
            return [*effects, Notify(Dropped("duplicate", batch.count, batch))]
        passed = self._passed(batch, now)
        effects += self._asked()
        if passed is None:
            return [*effects, Notify(Dropped(STOPPED, batch.count, batch))]
        if waits:
            self._unspread.add(peer, passed)
        else:
            effects += self._push(passed, peer.id, now)
        return effects + self._replay.deliver(passed) + self._watch_gossip()

    def _replayed(self, peer: Peer, batch: Batch) -> Effects:
        """Of the history, and for this node alone."""
        if batch.root != self.around.me.id or not self._replay.counts(peer.id):
            return [Notify(Dropped("unasked replay", batch.count, batch))]
        plain = unmarked(batch)
        effects: Effects = []
        if self._gossip.known.add(plain):
            self._gossip.history.add(plain)
            effects += self._replay.history(plain)
        return effects + self._replay.release()

    def _spread_own(self, batch: Batch, now: float) -> Effects:
        passed = self._passed(batch, now)
        effects = self._asked()
        if passed is None:
            dropped = Notify(Dropped(STOPPED, batch.count, batch))
            return [*effects, dropped, sent(batch, 0, STOPPED)]
        sends = self._push(passed, None, now)
        links = len(sends) + len(self._gossip.lazy)
        return [*effects, *sends, sent(batch, links), *self._watch_gossip()]

    def _spread_waiting(self, now: float) -> Effects:
        """There are neighbours now, or it is known that there are none."""
        effects: Effects = []
        for peer, batch in self._unspread.release():
            effects += self._push(batch, peer.id, now)
            effects.append(Send(peer, ScampTaken(batch.topic, name_of(batch))))
        if self._handing.busy:
            for batch in self._handing.release():
                self._gossip.known.add(batch)
                effects += self._spread_own(batch, now)
        return effects + self._watch_gossip() if effects else []

    def _push(self, batch: Batch, source: Id | None, now: float) -> list[Send]:
        self._spread_at = now
        return self._gossip.push(batch, source)

    @property
    def needed(self) -> bool:
        """Whether somebody may still ask for what this node has passed on."""
        return self._lingers_until > float("-inf")

    def _linger(self, now: float) -> Effects:
        """Be there for a moment longer, if something was announced just now."""
        config = self.around.scamp
        until = self._spread_at + 2 * config.announce_every + PULLS * config.pull_after
        if not config.pulls or until <= now:
            return []
        self._lingers_until = until
        return [SetTimer(Timer("topic.linger", self.descriptor.id), until - now)]

    def _lingered(self, now: float) -> None:
        if now < self._lingers_until - 1e-6:  # a timer may come back a rounding error early
            return
        self._lingers_until = float("-inf")
        if not self._subscribed:
            self._gossip = self._new_gossip()

    def _watch_gossip(self) -> Effects:
        if self._gossip.full:
            return [*self._gossip.tick(float("-inf")), *self._watch_gossip()]
        if self._gossiping or not self._gossip.waits:
            return []
        self._gossiping = True
        return [SetTimer(Timer("topic.gossip", self.descriptor.id), self._gossip.wait)]
