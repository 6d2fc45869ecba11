"""Reliability modes: what happens between a strategy's delivery and the subscriptions.

``best_effort`` passes every batch on once, in the order it comes. ``fifo`` promises the order of each
publisher: what comes after a gap is held for ``reorder_wait`` (a changed path can overtake the old one),
then the gap is announced as ``Missed`` and delivery goes on. What arrives after that is dropped and
counted, so a subscriber never sees an origin's sequence go back.

The first batch seen of an (origin, epoch) sets its start: a subscription begins when it begins. Where batches
come on many ways (gossip), the first to arrive need not be the first: there the start is settled after
``reorder_wait``, unless it is the origin's very first. A larger epoch means that the origin was restarted;
the smaller one is finished then.

Also in a tree a change of root lets a batch overtake the one before it, and a stream may begin with it. What
comes after the stream has begun behind it, or after its epoch was finished, is in no gap: it is announced as
``Missed`` when it comes. Not so with gossip, which brings newcomers what was before them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.reliability.chunks import Reassembler
from overlaymq.core.reliability.seen import MAX_ORIGINS, Seen
from overlaymq.events import Deliver, Dropped, Effect, Missed, Notify, SetTimer, Timer

if TYPE_CHECKING:
    from overlaymq.config import DeliveryConfig
    from overlaymq.ids import Id
    from overlaymq.messages import Batch

MAX_HELD = 1024


class BestEffort:
    """Every batch at most once; large messages put together."""

    mesh = False
    """Whether batches come on many ways, so that they may overtake each other."""

    def __init__(self, topic: Id, config: DeliveryConfig) -> None:
        self.topic = topic
        self.config = config
        self._seen = Seen()
        self._chunks = Reassembler(config)

    def deliver(self, batch: Batch, now: float) -> list[Effect]:
        """A strategy delivers a batch to this node."""
        if (batch.origin, batch.epoch, batch.first) in self._seen:
            # The chunks of one message count once.
            return [Notify(Dropped("duplicate", batch.count if batch.chunk == 0 else 0, batch))]
        if batch.chunks == 1:
            return self._whole(batch, now)
        whole = self._chunks.add(batch, now)
        effects = self._given_up(now)
        if whole is not None:
            return effects + self._whole(whole, now)
        return [*effects, SetTimer(Timer("mode.chunks", self.topic), self.config.chunk_timeout)]

    def fired(self, timer: Timer, now: float) -> list[Effect]:
        """A timer of this mode came back."""
        return self._given_up(now) if timer.part == "mode.chunks" else []

    def _whole(self, batch: Batch, now: float) -> list[Effect]:
        self._seen.add(batch.origin, batch.epoch, batch.first, batch.last)
        return [Deliver(batch)]

    def _given_up(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for partial in self._chunks.give_up(now):
            one = partial.first
            effects += self._lost(one.origin, one.epoch, one.first, now)
        return effects

    def _lost(self, origin: Id, epoch: int, sequence: int, now: float) -> list[Effect]:
        self._seen.add(origin, epoch, sequence, sequence)  # later chunks do not count it again
        return [Notify(Dropped("incomplete large message"))]


class _Stream:
    """What is known of one origin: the next sequence number, once it is settled where the stream begins, and
    batches that came too early."""

    __slots__ = ("begun", "epoch", "former", "held", "next", "since", "start")

    def __init__(self, epoch: int, first: int, begun: bool, former: _Stream | None) -> None:
        self.epoch = epoch
        self.start = self.next = first if begun else 0
        self.begun = begun
        self.former = (0, 0, 0) if former is None else (former.epoch, former.start, former.next)
        """The epoch before, where it began, and its end."""
        self.held: dict[int, Batch] = {}
        self.since = 0.0

    def begin(self, start: int) -> None:
        """Now it is settled, if it was not before."""
        if not self.begun:
            self.begun, self.start = True, start

    def told(self, epoch: int, sequence: int) -> bool:
        """Whether a message that comes late was announced with a gap."""
        if epoch == self.epoch:
            return sequence >= self.start
        former, start, end = self.former
        return epoch == former and start <= sequence < end


class Fifo(BestEffort):
    """Each publisher's messages in order; gaps announced."""

    def __init__(self, topic: Id, config: DeliveryConfig) -> None:
        super().__init__(topic, config)
        self._streams: dict[Id, _Stream] = {}
        self._held_size = 0

    def fired(self, timer: Timer, now: float) -> list[Effect]:
        """Chunks, or a gap that has waited long enough."""
        if timer.part != "mode.gap":
            return super().fired(timer, now)
        effects: list[Effect] = []
        # A tolerance: a timer may come back a rounding error early.
        due = now - self.config.reorder_wait + 1e-6
        for origin, stream in self._streams.items():
            if stream.held and stream.since <= due:
                effects += self._skip_to(origin, stream, min(stream.held), now)
        return effects

    def _whole(self, batch: Batch, now: float) -> list[Effect]:
        stream, effects = self._stream(batch.origin, batch.epoch, batch.first, now)
        if batch.epoch < stream.epoch or batch.first < stream.next:
            late = Notify(Dropped("late", batch.count, batch))
            untold = self._untold(stream, batch.origin, batch.epoch, batch.first, batch.last)
            return [*effects, late, *untold]
        self._seen.add(batch.origin, batch.epoch, batch.first, batch.last)
        if batch.first == stream.next:
            stream.begin(batch.first)
            return [*effects, Deliver(batch), *self._advance(stream, batch.last + 1, now)]
        if not stream.held:
            stream.since = now
        stream.held[batch.first] = batch
        self._held_size += batch.size
        while stream.held and self._holds_too_much(stream):
            effects += self._skip_to(batch.origin, stream, min(stream.held), now)
        return [*effects, self._gap_timer()]

    def _untold(
        self, stream: _Stream, origin: Id, epoch: int, first: int, last: int
    ) -> list[Effect]:
        """It comes late: announce it, unless that was done with a gap."""
        if self.mesh or stream.told(epoch, first):
            return []
        self._seen.add(origin, epoch, first, last)
        last = min(last, stream.start - 1) if epoch == stream.epoch else last
        return [Notify(Missed(self.topic, origin, first, last, epoch))]

    def _holds_too_much(self, stream: _Stream) -> bool:
        return len(stream.held) > MAX_HELD or self._held_size > self.config.reassembly

    def _gap_timer(self) -> SetTimer:
        return SetTimer(Timer("mode.gap", self.topic), self.config.reorder_wait)

    def _stream(
        self, origin: Id, epoch: int, first: int, now: float
    ) -> tuple[_Stream, list[Effect]]:
        """The origin's stream, made if it is new or restarted; what that ends for another."""
        stream = self._streams.get(origin)
        if stream is not None and stream.epoch >= epoch:
            return stream, []
        ended: list[Effect] = []
        if stream is not None:
            ended = self._finish(origin, now)
        elif len(self._streams) >= MAX_ORIGINS:
            ended = self._finish(next(iter(self._streams)), now)
        begun = not self.mesh or first == 0
        stream = self._streams[origin] = _Stream(epoch, first, begun, stream)
        return stream, ended

    def _finish(self, origin: Id, now: float) -> list[Effect]:
        """Nothing more will fill the gaps: give out what is held."""
        stream = self._streams.pop(origin)
        effects: list[Effect] = []
        while stream.held:
            effects += self._skip_to(origin, stream, min(stream.held), now)
        return effects

    def _advance(self, stream: _Stream, next_: int, now: float) -> list[Effect]:
        """Everything before ``next_`` is settled: what is held may follow."""
        effects: list[Effect] = []
        stream.next = next_
        while (held := stream.held.pop(stream.next, None)) is not None:
            self._held_size -= held.size
            effects.append(Deliver(held))
            stream.next = held.last + 1
        # An origin that numbers its messages twice must not make the sequence go back.
        for first in [first for first in stream.held if first < stream.next]:
            held = stream.held.pop(first)
            self._held_size -= held.size
            effects.append(Notify(Dropped("late", held.count, held)))
        if stream.held:
            stream.since = now
            effects.append(self._gap_timer())
        return effects

    def _skip_to(self, origin: Id, stream: _Stream, first: int, now: float) -> list[Effect]:
        gap = Notify(Missed(self.topic, origin, stream.next, first - 1, stream.epoch))
        announced = [gap] if stream.begun else []
        stream.begin(first)
        return [*announced, *self._advance(stream, first, now)]

    def _lost(self, origin: Id, epoch: int, sequence: int, now: float) -> list[Effect]:
        stream, effects = self._stream(origin, epoch, sequence, now)
        if stream.epoch > epoch or stream.next > sequence:
            return effects + self._untold(stream, origin, epoch, sequence, sequence)
        while stream.held and (first := min(stream.held)) < sequence:
            effects += self._skip_to(origin, stream, first, now)
        if stream.next > sequence:
            return effects
        start = stream.next if stream.begun else sequence
        stream.begin(sequence)
        gap = Notify(Missed(self.topic, origin, start, sequence, stream.epoch))
        return [*effects, gap, *self._advance(stream, sequence + 1, now)]
