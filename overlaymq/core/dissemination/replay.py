"""The history that a newcomer asked for, and how it comes before everything else.

Whoever has it answers with the number of batches, and sends these, marked with the newcomer's id as their
root: they are for it alone and are not passed on. What comes meanwhile is passed on at once, but waits here
to be delivered after the history. The history is of the moment in which it was asked for, so some of what
waits may be older: that comes before it, in its publisher's order. If several were asked, all of them may
send it: what is new of any of them is taken, but only the batches of the first to answer are counted. The
wait ends with the last batch of the history, with the answer timeout, or when too much waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.events import Deliver, Send

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Peer

HELD_BACK = 1024
"""Batches that wait for a replay to come before them: a guess."""
GIVERS = 16
"""Whose batches are counted before it is known which of them counts: a guess above those asked at once."""


def marked(replay: list[Batch], newcomer: Peer) -> list[Send]:
    """For this newcomer alone."""
    return [
        Send(newcomer, msgspec.structs.replace(batch, root=newcomer.id, wire=None))
        for batch in replay
    ]


def unmarked(batch: Batch) -> Batch:
    """At the newcomer: a batch of the history without its mark."""
    return msgspec.structs.replace(batch, root=type(batch.root)(0), wire=None)


class Replay:
    """How much of the history is still to come, and what waits for it."""

    __slots__ = ("_came", "_due", "_giver", "_held_back")

    def __init__(self) -> None:
        self._due: int | None = 0
        """Batches of history still to come; None: not known yet."""
        self._giver: Id | None = None
        """Who sends these."""
        self._came: dict[Id, int] = {}
        """Batches of it that came before their number, by who sent them."""
        self._held_back: list[Batch] = []

    def expect(self, last: int) -> None:
        """So many are asked for."""
        self._due = None if last else 0
        self._came.clear()

    def announced(self, giver: Id, count: int) -> Effects:
        """Somebody has so many of them. The first to say so is the one that is waited for."""
        if self._due is None:
            self._giver = giver
            self._due = max(0, count - self._came.get(giver, 0))
        return self.release()

    def counts(self, peer: Id) -> bool:
        """One came from this one. Whether history was asked for."""
        if self._due == 0:
            return False
        if self._due is not None:
            self._due -= peer == self._giver
        elif peer in self._came or len(self._came) < GIVERS:
            self._came[peer] = self._came.get(peer, 0) + 1
        return True

    def history(self, batch: Batch) -> Effects:
        """One of the history, after what waits of the same publisher and is older."""
        name = (batch.origin, batch.epoch)
        older: Effects = []
        waiting: list[Batch] = []
        for held in self._held_back:
            if (held.origin, held.epoch) == name and held.first < batch.first:
                older.append(Deliver(held))
            else:
                waiting.append(held)
        self._held_back = waiting
        return [*older, Deliver(batch)]

    def over(self) -> Effects:
        """What has not come by now will not."""
        self._due = 0
        return self.release()

    def abandon(self) -> None:
        """Nobody reads any more."""
        self._due = 0
        self._held_back.clear()

    def deliver(self, batch: Batch) -> Effects:
        """What is new: deliver it, but not before the history that comes first."""
        if self._due == 0 or len(self._held_back) >= HELD_BACK:
            return [*self._release_all(), Deliver(batch)]
        self._held_back.append(batch)
        return []

    def release(self) -> Effects:
        """What waits, if the history is complete."""
        return self._release_all() if self._due == 0 else []

    def _release_all(self) -> Effects:
        held, self._held_back = self._held_back, []
        return [Deliver(batch) for batch in held]
