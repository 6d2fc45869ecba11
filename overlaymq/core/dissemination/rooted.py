"""What every strategy with a root shares: finding it, caching it, and holding publications meanwhile.

A publisher asks for the root once, by routing to the topic's key, and sends to it directly from then on
(Scribe NGC 3.3). An old root passes a batch on to the new one and corrects the publisher. While the root is
not known, batches wait, bounded by two windows: publishers stop at one window of their own, the second is
for batches in transit.

A root that leaves has an heir before it goes. It tells those who have published or asked for it, and stays a
little: what they sent before they knew is on its way, and would find nobody. (Where the root acknowledges,
publishers send it again.)

A strategy that builds on this fills in ``_spread``, which disseminates a batch from the root, and ``_above``,
its parent. It calls the application's upcalls through what is here, which keeps their view of the tree.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.outbox import Outbox
from overlaymq.core.dissemination.upcalling import Upcalling
from overlaymq.core.reliability.upcalls import Tree
from overlaymq.events import (
    Deliver,
    Dropped,
    Lagged,
    Members,
    Notify,
    Route,
    Send,
    Sent,
    Sequenced,
    SetTimer,
    Timer,
)
from overlaymq.messages import BatchRefused, BatchSequenced, RootIs, RootQuery

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.core.dissemination.children import Child
    from overlaymq.ids import Id
    from overlaymq.messages import (
        Batch,
        Descriptor,
        Message,
        Peer,
        Place,
        Skipped,
    )

STAY = 0.5
"""Seconds that a root stays after it has handed over because it leaves, to redirect what is on its way to it:
a guess, some round trips."""
MAX_WRITERS = 1024
"""Publishers that a root remembers: a guess."""
MAX_HOPS_TO_ROOT = 8  # more means that nodes take each other for the root; routing will settle it


class Rooted(Upcalling):
    """A strategy whose publications start at the owner of the topic's key."""

    __slots__ = (
        "_asking",
        "_children",
        "_doubted",
        "_outbox",
        "_outbox_watched",
        "_posted_to",
        "_root",
        "_root_until",
        "_sender",
        "_stays",
        "_subscribed",
        "_tree",
        "_waiting",
        "_waiting_size",
        "_writers",
    )

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._root: Peer | None = None
        self._root_until = float("inf")
        """When to ask again whether it still is: never, if the ring says so."""
        self._doubted = False
        """Whether the ring says that a root is none any more, but not who is."""
        self._subscribed = False
        self._waiting: list[Batch] = []
        self._waiting_size = 0
        self._asking = 0
        self._outbox = Outbox()
        self._outbox_watched = False
        self._posted_to: Peer | None = None
        self._sender: Peer | None = None
        self._writers: dict[Id, Peer] = {}
        """Who sent publications to this root, or asked for it."""
        self._stays = False
        """Whether this node has handed over because it leaves, and may still be taken for the root."""
        self._children: dict[Id, Child] = {}
        self._tree = Tree(around.me, descriptor, self._children)

    @property
    def _is_root(self) -> bool:
        return self._root is not None and self._root.id == self.around.me.id

    @abstractmethod
    def _spread(self, batch: Batch, now: float) -> Effects:
        """At the root: disseminate."""

    @abstractmethod
    def _member_count(self) -> int:
        """At the root: how many members there are."""

    def publish(self, batch: Batch, now: float) -> Effects:
        """Deliver here, and send to the root, or hold until the root is known.

        A publisher that was told of the root long ago asks again first: a root that vanished without a word
        would swallow what it has to say. (Where the root acknowledges, silence tells.)"""
        if now >= self._root_until and self.around.mode is None and not self._is_root:
            self._root, self._root_until = None, float("inf")
        now_here = self._subscribed and self.around.mode is None
        effects: Effects = [Deliver(batch)] if now_here else []
        return effects + self._to_root(batch, now)

    def count_members(self, now: float) -> Effects:
        """Ask the root."""
        if self._is_root:
            return [Notify(Members(self.descriptor.id, self._member_count()))]
        return [self._ask_root(RootQuery(self.descriptor.id, self.descriptor))]

    def _ask_root(self, message: Message) -> Send | Route:
        if self._root is not None and not self._is_root:
            return Send(self._root, message)
        return Route(self.descriptor.key, message)

    def _believed(self, now: float) -> None:
        """Another node has said who the root is."""
        self._doubted = False
        self._root_until = now + self.around.rendezvous.refresh_every

    def _doubts(self, root: Peer | None) -> bool:
        """The ring has said who the root is, or that it cannot know: is this node mistaken in being it?"""
        self._root_until = float("inf")
        self._doubted = root is None and self._is_root
        return self._doubted

    def _root_is(self, root: Peer) -> RootIs:
        return RootIs(self.descriptor.id, root, self._member_count())

    def _batch_refused(self, peer: Peer, refused: BatchRefused, now: float) -> Effects:
        """Whom this node took for the root knows nothing of the topic: the next batch asks again."""
        if self._root is not None and self._root.id == peer.id and not self._is_root:
            self._root = None
        return []

    # --- a root that leaves ---

    def _remember_writer(self, peer: Peer) -> None:
        if peer.id in self._writers or peer.id == self.around.me.id:
            return
        if len(self._writers) >= MAX_WRITERS:
            del self._writers[next(iter(self._writers))]
        self._writers[peer.id] = peer

    def _tell_writers(self, root: Peer) -> list[Send]:
        """Who publishes seldom would find out only when this node is gone, and its message with it."""
        told = [Send(peer, self._root_is(root)) for peer in self._writers.values()]
        self._writers.clear()
        return told

    def _linger(self, heir: Peer) -> Effects:
        """This node has handed over and will go when nothing more can be on its way to it."""
        told = self._tell_writers(heir)
        if not told or self.around.mode is not None:
            return [*told]
        self._stays = True
        return [*told, SetTimer(Timer("topic.stay", self.descriptor.id), STAY)]

    # --- publications on their way to the root ---

    def _to_root(self, batch: Batch, now: float) -> Effects:
        if self._is_root and (self.around.mode is None or self.around.mode.sequencing):
            return self._spread(batch, now)
        if self._root is None or self._is_root:
            return self._hold(batch)
        if batch.hop > MAX_HOPS_TO_ROOT:
            return [
                Notify(Dropped("no root", batch.count, batch)),
                *self._sent(batch, 0, "no root"),
            ]
        effects: Effects = []
        if self.around.mode is not None and batch.origin == self.around.me.id:
            if len(self._outbox) and self._outbox.size >= self.around.delivery.window:
                return self._hold(batch)
            effects = self._post(batch, now)
        return [*effects, Send(self._root, self._in_order(batch)), *self._sent(batch, 1)]

    def _sent(self, batch: Batch, links: int, dropped: str = "") -> Effects:
        if batch.origin != self.around.me.id:
            return []
        return [Notify(Sent(batch.topic, batch.first, batch.count, links, batch.chunk, dropped))]

    def _hold(self, batch: Batch) -> Effects:
        limit = 2 * self.around.delivery.window
        if batch.chunks > 1 and batch.origin == self.around.me.id:
            # A publisher waits only after a whole message.
            limit += self.around.delivery.max_payload
        if self._waiting_size + batch.size > limit:
            return [
                Notify(Dropped("no root", batch.count, batch)),
                *self._sent(batch, 0, "no root"),
            ]
        self._waiting.append(batch)
        self._waiting_size += batch.size
        return self._ask_again() if len(self._waiting) == 1 and self._root is None else []

    @property
    def _needs_root(self) -> bool:
        return bool(self._doubted or self._waiting or len(self._outbox))

    def _ask_again(self) -> Effects:
        """Ask for the root; the timer asks again while somebody needs it."""
        if not self._needs_root:
            return []
        self._asking += 1
        return [
            Route(self.descriptor.key, RootQuery(self.descriptor.id, self.descriptor)),
            SetTimer(
                Timer("topic.root", self.descriptor.id, self._asking),
                self.around.rendezvous.answer_timeout,
            ),
        ]

    def _flush(self, now: float) -> Effects:
        """The root may be known now: send what waits."""
        effects: Effects = []
        if len(self._outbox) and self._root is not None and self._posted_to != self._root:
            effects += self._post_again(float("inf"), now)
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        for batch in waiting:
            effects += self._to_root(batch, now)
        return effects

    def _skipped(self, peer: Peer, skipped: Skipped) -> Effects:
        """Upstream dropped a share: a publisher found this root too slow, or the parent this child."""
        above = self._above
        if not self._is_root and (above is None or above.id != peer.id):
            return [Notify(Dropped("skip announced by a stranger"))]
        not_to = (peer.id, self.around.me.id)
        effects: Effects = [
            Send(child.peer, skipped) for id_, child in self._children.items() if id_ not in not_to
        ]
        if self._subscribed and self.around.mode is None:
            effects.append(Notify(Lagged(skipped.topic, skipped.messages)))
        return effects

    # --- publications that the root acknowledges ---

    def _post(self, batch: Batch, now: float) -> Effects:
        """Remember a batch until the root has acknowledged it."""
        self._outbox.put(batch, now)
        self._posted_to = self._root
        if self._outbox_watched:
            return []
        self._outbox_watched = True
        timer = Timer("topic.outbox", self.descriptor.id)
        return [SetTimer(timer, self.around.rendezvous.answer_timeout)]

    def _in_order(self, batch: Batch) -> Batch:
        """What goes to the root; one of this node's own says which others the root should wait for."""
        oldest = None
        if self.around.mode is not None and batch.origin == self.around.me.id:
            oldest = self._outbox.oldest(batch.origin)
        behind = batch.behind if oldest is None else max(0, batch.first - oldest)
        return msgspec.structs.replace(batch, hop=batch.hop + 1, behind=behind, wire=None)

    def _post_again(self, sent_before: float, now: float) -> Effects:
        effects: Effects = []
        for batch in self._outbox.sent_before(sent_before):
            if self._is_root and self.around.mode is not None and self.around.mode.sequencing:
                effects += self._spread(batch, now)
            elif self._root is not None and not self._is_root:
                effects += [*self._post(batch, now), Send(self._root, self._in_order(batch))]
        return effects

    def _outbox_due(self, now: float) -> Effects:
        """No answer: send again, and ask whether the root is still the root."""
        self._outbox_watched = False
        if not len(self._outbox):
            return []
        wait = self.around.rendezvous.answer_timeout
        effects = self._post_again(now - wait / 2, now)
        # What was sent a moment ago is no reason to ask.
        if not self._is_root and (effects or self._root is None):
            effects.append(
                Route(self.descriptor.key, RootQuery(self.descriptor.id, self.descriptor))
            )
        if len(self._outbox) and not self._outbox_watched:
            self._outbox_watched = True
            effects.append(SetTimer(Timer("topic.outbox", self.descriptor.id), wait))
        return effects

    def _acknowledge(self, batch: Batch, place: Place | None, *, stopped: bool = False) -> Effects:
        """At the root: the batch has its place, or was stopped."""
        done = BatchSequenced(
            batch.topic, batch.origin, batch.epoch, batch.first, batch.chunk, place, stopped
        )
        if batch.origin == self.around.me.id:
            return self._acknowledged(done, True)
        self._outbox.take((done.origin, done.epoch, done.first, done.chunk))
        effects: Effects = [] if self._sender is None else [Send(self._sender, done)]
        if self._sender is None or self._sender.id != batch.origin:
            effects.append(Route(batch.origin, done))
        return effects

    def _acknowledged(self, done: BatchSequenced, own: bool = False) -> Effects:
        name = (done.origin, done.epoch, done.first, done.chunk)
        was_here = self._outbox.take(name) is not None
        if done.origin != self.around.me.id or not (was_here or own):
            return []
        if self.around.mode is not None and done.place is not None:
            self.around.mode.on_placed(done.place)
        return [Notify(Sequenced(done.topic, done.first, done.chunk, done.place, done.stopped))]


def next_hop(batch: Batch) -> Batch:
    """The same batch, one hop further."""
    return msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None)


def refusal(batch: Batch, root: Peer | None = None) -> BatchRefused:
    """For whoever takes this node for the root."""
    return BatchRefused(batch.topic, batch.origin, batch.epoch, batch.first, batch.chunk, root)
