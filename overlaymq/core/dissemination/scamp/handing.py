"""How a publisher that is no member gets its batches into the group: it hands them to contacts.

The rendezvous names c + 1 members. Each batch goes to all of them, and the first to say that it has it
settles it. One that says it is no member any more, fails, or does not answer in time is replaced: the
rendezvous is asked again, and what nobody has taken is handed over again. Members know copies. If there are
no members, a batch has reached them all.

One timer watches as long as there is something to hand over. A contact that refuses means that the rendezvous
is out of date: if it was the last one, the next question waits for that timer.

*Newcomers* are named as soon as they have registered. One that has no links yet delivers what it is handed,
but refuses it, so that its publisher hands it to others. It passes it on, and says that it has it, once it
has links, or knows that there is nobody else.

What waits is bounded by two windows, as with the trees (``rooted``): publishers stop at one of their own.
A member's own batches wait here, too, while it has no neighbours.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.outbox import Outbox
from overlaymq.core.dissemination.scamp.gossip import name_of
from overlaymq.events import Dropped, Notify, Send, Sent, SetTimer, Timer

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.core.dissemination.scamp.asking import Asking
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, BatchName, Peer

NOBODY = "no contact"


def sent(batch: Batch, links: int, dropped: str = "") -> Notify:
    """The receipt of an own batch."""
    return Notify(Sent(batch.topic, batch.first, batch.count, links, batch.chunk, dropped))


class Handing:
    """What waits to be handed over, and what is handed over and not yet taken."""

    __slots__ = (
        "_answer_timeout",
        "_asking",
        "_delivery",
        "_outbox",
        "_pauses",
        "_spare",
        "_topic",
        "_waiting",
        "_waiting_size",
        "_wanted",
        "_watched",
        "contacts",
    )

    def __init__(self, topic: Id, around: Surroundings, asking: Asking) -> None:
        self.contacts: dict[Id, Peer] = {}
        self._topic = topic
        self._asking = asking
        self._answer_timeout = around.rendezvous.answer_timeout
        self._wanted = around.scamp.c + 1
        self._spare: list[Peer] = []
        self._delivery = around.delivery
        self._outbox = Outbox()
        self._waiting: deque[Batch] = deque()
        self._waiting_size = 0
        self._watched = False
        """Whether the timer runs."""
        self._pauses = False
        """Whether nothing is asked before it has fired."""

    @property
    def busy(self) -> bool:
        """Whether there is something to hand over."""
        return bool(self._waiting) or len(self._outbox) > 0

    def meet(self, contacts: list[Peer], now: float) -> Effects:
        """The rendezvous has named these; those that are too many take the place of others."""
        self.contacts = {one.id: one for one in contacts[: self._wanted]}
        self._spare = contacts[self._wanted :]
        if not contacts:  # nobody is subscribed, so this reaches all
            return [sent(batch, 0) for batch in self.release()]
        effects = self._again(now - self._answer_timeout / 2, now)
        return effects + self.flush(now) + self.watch(member=False)

    def refused(self, contact: Id, now: float) -> Effects:
        """It is no member (any more), or has no links yet."""
        effects = self.without(contact, now)
        # The rendezvous does not know either: ask it again, but not at once.
        self._pauses = self._watched and not self.contacts
        return effects

    def without(self, contact: Id, now: float) -> Effects:
        """A contact is gone, or is no member: what it has not taken goes to another."""
        if self.contacts.pop(contact, None) is None:
            return []
        if not self._spare:
            return []
        other = self._spare.pop()
        self.contacts[other.id] = other
        return self._again(float("inf"), now)

    def hold(self, batch: Batch) -> Effects:
        """Keep a batch until it can go; too much is dropped, and said so."""
        limit = 2 * self._delivery.window
        if batch.chunks > 1:
            limit += self._delivery.max_payload  # a publisher waits only after a whole message
        if self._waiting_size + batch.size > limit:
            return [Notify(Dropped(NOBODY, batch.count, batch)), sent(batch, 0, NOBODY)]
        self._waiting.append(batch)
        self._waiting_size += batch.size
        return []

    def release(self) -> list[Batch]:
        """Everything, for someone who can send it otherwise."""
        handed = self._outbox.sent_before(float("inf"))
        self._outbox = Outbox()
        waiting, self._waiting, self._waiting_size = list(self._waiting), deque(), 0
        return handed + waiting

    def flush(self, now: float) -> Effects:
        """Hand over what waits, up to a window."""
        effects: Effects = []
        while self._waiting and self.contacts:
            if len(self._outbox) and self._outbox.size >= self._delivery.window:
                break
            batch = self._waiting.popleft()
            self._waiting_size -= batch.size
            effects += self._hand(batch, now)
        return effects

    def _again(self, sent_before: float, now: float) -> Effects:
        """Nobody has taken these: hand them over once more."""
        effects: Effects = []
        if self.contacts:
            for batch in self._outbox.sent_before(sent_before):
                effects += self._hand(batch, now)
        return effects

    def _hand(self, batch: Batch, now: float) -> Effects:
        self._outbox.put(batch, now)
        first_hop = msgspec.structs.replace(batch, hop=0, wire=None)
        return [Send(contact, first_hop) for contact in self.contacts.values()]

    def taken(self, name: BatchName) -> Effects:
        """A contact has it."""
        batch = self._outbox.take((name.origin, name.epoch, name.first, name.chunk))
        return [] if batch is None else [sent(batch, max(1, len(self.contacts)))]

    # --- the watch ---

    def watch(self, member: bool) -> Effects:
        """See to it that there are contacts, and that what they do not take goes to others."""
        if not self.busy:
            return []
        effects: Effects = []
        if not (self.contacts or self._asking.pending or self._pauses):
            effects += self._asking.contacts(member)
        if not self._watched:
            self._watched = True
            effects.append(SetTimer(Timer("topic.hand", self._topic), self._answer_timeout))
        return effects

    def fired(self, member: bool, now: float) -> Effects:
        """What was not taken in time goes to other contacts."""
        self._watched = self._pauses = False
        if not member and self._overdue(now - self._answer_timeout / 2):
            self.contacts.clear()
        return self.watch(member)

    def _overdue(self, since: float) -> bool:
        """Whether something was handed over so long ago and nobody has taken it, or waits."""
        return bool(self._outbox.sent_before(since)) or bool(self._waiting)


class Unspread:
    """What others have handed to this node while it has no links. Bounded in bytes."""

    __slots__ = ("_batches", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._batches: dict[BatchName, tuple[Peer, Batch]] = {}
        self._limit = limit
        self._size = 0

    def __contains__(self, batch: Batch) -> bool:
        return name_of(batch) in self._batches

    def takes(self, batch: Batch) -> bool:
        """Whether there is room for it, or it is here."""
        return not self._batches or self._size + batch.size <= self._limit or batch in self

    def add(self, peer: Peer, batch: Batch) -> None:
        """This one has handed it over."""
        self._batches[name_of(batch)] = peer, batch
        self._size += batch.size

    def release(self) -> list[tuple[Peer, Batch]]:
        """Everything, for someone who has links, or is no member any more."""
        held, self._batches, self._size = list(self._batches.values()), {}, 0
        return held
