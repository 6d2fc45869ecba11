"""Batches of topics that this node does not know, yet.

Batches and control messages travel on different streams. So a publisher's batch may overtake the hand-over
that makes this node the topic's root. Such a batch waits a while for it. If nothing comes, its sender is
told, and finds the root anew; but what a root has numbered is a stray of a tree that this node is no part of,
and nobody waits for an answer.

What waits is bounded in number, and by one window in size.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from overlaymq.core.dissemination.rooted import refusal
from overlaymq.events import Dropped, Notify, Send, SetTimer, Timer

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Peer

PART = "orphans"
REASON = "unknown topic"
ORPHAN_WAIT = 2.0
"""Seconds a batch of an unknown topic waits for a hand-over that it has overtaken: a guess."""
ORPHANS = 1024
"""Batches that wait so at once: a guess."""


class Orphans:
    """Those that wait, oldest first, with their senders."""

    __slots__ = ("_waiting", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._waiting: deque[tuple[Peer, Batch, float]] = deque()

    def add(self, sender: Peer, batch: Batch, now: float) -> Effects:
        """One has come."""
        size = sum(orphan.size for _, orphan, _ in self._waiting)
        if len(self._waiting) >= ORPHANS or size > self._window:
            return [Notify(Dropped(REASON, batch.count, batch)), *_answer(sender, batch)]
        self._waiting.append((sender, batch, now))
        return [_timer()] if len(self._waiting) == 1 else []

    def claim(self, topic: Id) -> list[tuple[Peer, Batch]]:
        """The topic is known now: its batches, with their senders."""
        mine = [(sender, batch) for sender, batch, _ in self._waiting if batch.topic == topic]
        self._waiting = deque(orphan for orphan in self._waiting if orphan[1].topic != topic)
        return mine

    def fired(self, now: float) -> Effects:
        """Give up those that have waited long enough."""
        effects: Effects = []
        while self._waiting and now - self._waiting[0][2] >= ORPHAN_WAIT / 2:
            sender, batch, _ = self._waiting.popleft()
            effects += [Notify(Dropped(REASON, batch.count, batch)), *_answer(sender, batch)]
        return [*effects, _timer()] if self._waiting else effects


def _answer(sender: Peer, batch: Batch) -> list[Send]:
    return [] if batch.root_sequence else [Send(sender, refusal(batch))]


def _timer() -> SetTimer:
    return SetTimer(Timer(PART), ORPHAN_WAIT)
