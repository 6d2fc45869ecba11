"""How a batch spreads over the views: everyone passes it on once, when it is new.

*Paper mode*: to the whole partial view, or to a random subset of it for each batch (SCAMP 2.2.1, 4.3).

*Default mode*, after Plumtree (protocols.md 5.7). A node's neighbours are those of both its views, so links
go both ways. Over *eager* links payloads go at once; over *lazy* ones only their names, gathered for a
moment. A node that gets a batch twice makes the second link lazy, on both ends. A node that is told of a
batch that does not come asks for it, and that link becomes eager. So the eager links become a tree that all
sources share, a payload costs about one copy for each member, and the lazy links bring what the tree loses.

A new link is lazy unless it is the first: the tree grows with the group, without a flood to prune.

Names go along the arcs first, to the partial view. A moment later they go to the in-view, but for those of it
that have told them by then, or sent the batch: most have, and most lazy links carry a name one way only.
(Plumtree tells both ways. Names are most of what gossip says beside payloads: see ``sim.compare``.)

With ``pull`` but not ``lazy_push``, payloads go to the whole partial view, and names to the in-view.

A pure machine, as ``views``. Names that are asked for, announcements and batches to serve are all bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.reliability.history import History
from overlaymq.core.reliability.seen import Seen
from overlaymq.events import Send
from overlaymq.messages import BatchName, ScampGraft, ScampHave, ScampPrune

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from random import Random

    from overlaymq.config import DeliveryConfig, ScampConfig
    from overlaymq.core.dissemination.scamp.weights import Arc
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Message, Peer

    Names = dict[BatchName, set[Id | None]]
    """Of batches, and which neighbours have them, or were told of them."""

MOST_NAMES = 256
"""In one message: a guess, some 10 KiB."""
MOST_MISSING = 4096
"""Batches waited for at once; who invents more gets nothing. A guess."""
MOST_ANNOUNCERS = 8
"""Of one batch: a guess."""
NEWCOMERS = 16
"""Newcomers that one contact looks after at once: a guess."""
MOST_PARTIAL = 256
"""Large messages of which some chunks have come: a guess."""


def name_of(batch: Batch) -> BatchName:
    """Which batch it is."""
    return BatchName(batch.origin, batch.epoch, batch.first, batch.chunk)


class Missing(msgspec.Struct):
    """A batch that was announced: by whom, and when to ask the next of them."""

    announcers: list[Peer]
    due: float
    asked: int = 0


class Known:
    """Which batches have been here; a large message's chunks are told apart until all have come."""

    __slots__ = ("_chunks", "_seen")

    def __init__(self) -> None:
        self._seen = Seen()
        self._chunks: OrderedDict[tuple[Id, int, int], set[int]] = OrderedDict()

    def __contains__(self, name: BatchName) -> bool:
        message = (name.origin, name.epoch, name.first)
        return message in self._seen or name.chunk in self._chunks.get(message, ())

    def add(self, batch: Batch) -> bool:
        """Note a batch; False if it was here before."""
        if batch.chunks == 1:
            return self._seen.add(batch.origin, batch.epoch, batch.first, batch.last)
        message = (batch.origin, batch.epoch, batch.first)
        if message in self._seen or batch.chunk in self._chunks.get(message, ()):
            return False
        chunks = self._chunks.setdefault(message, set())
        chunks.add(batch.chunk)
        if len(chunks) == batch.chunks:
            del self._chunks[message]
            self._seen.add(batch.origin, batch.epoch, batch.first, batch.last)
        elif len(self._chunks) > MOST_PARTIAL:
            self._chunks.popitem(last=False)
        return True


class Served:
    """Recent batches by name, for those that ask. Bounded in bytes."""

    __slots__ = ("_batches", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._batches: dict[BatchName, Batch] = {}
        self._limit = limit
        self._size = 0

    def add(self, batch: Batch) -> None:
        """Keep it, and let go what is too much."""
        self._batches[name_of(batch)] = batch
        self._size += batch.size
        while self._size > self._limit and len(self._batches) > 1:
            self._size -= self._batches.pop(next(iter(self._batches))).size

    def find(self, name: BatchName) -> Batch | None:
        """The batch, if it is here."""
        return self._batches.get(name)


class Gossip:
    """One topic's batches at one node."""

    __slots__ = (
        "_config",
        "_later",
        "_missing",
        "_newcomers",
        "_onward",
        "_queue",
        "_random",
        "_served",
        "_topic",
        "eager",
        "history",
        "known",
        "lazy",
    )

    def __init__(
        self, topic: Id, config: ScampConfig, delivery: DeliveryConfig, random: Random
    ) -> None:
        self.eager: dict[Id, Peer] = {}
        self.lazy: dict[Id, Peer] = {}
        self.known = Known()
        self.history = History(delivery.history, delivery.history_bytes)
        self._served = Served(delivery.history_bytes)
        self._topic = topic
        self._config = config
        self._random = random
        self._missing: dict[BatchName, Missing] = {}
        self._newcomers: dict[Id, tuple[Peer, float]] = {}
        """Who was given the history and has no link yet, and until when it may take."""
        self._onward: Collection[Id] = ()
        """Who is in the partial view, as it stands."""
        self._queue: Names = {}
        """What to tell the partial view,"""
        self._later: Names = {}
        """and everyone else, if they do not tell it first."""

    # --- links ---

    def link(self, partial: Mapping[Id, Arc], inward: Mapping[Id, Arc]) -> list[Send]:
        """The views have changed: begin and end links. Who has no eager link makes one."""
        self._onward = partial.keys()
        for id_ in [id_ for id_ in self._newcomers if id_ in partial or id_ in inward]:
            del self._newcomers[id_]
        if not self._config.pushes_lazily:
            self.eager = {id_: arc.peer for id_, arc in partial.items()}
            pulls = self._config.pulls
            others = inward.items() if pulls else ()
            self.lazy = {id_: arc.peer for id_, arc in others if id_ not in partial}
            return []
        for links in (self.eager, self.lazy):
            for id_ in [id_ for id_ in links if id_ not in partial and id_ not in inward]:
                del links[id_]
        views = {**inward, **partial}
        new = [id_ for id_ in views if id_ not in self.eager and id_ not in self.lazy]
        # What came before a link is not for it: a newcomer would ask for what it has not subscribed to.
        sends = self._announce(everyone=True) if new else []
        self.lazy |= {id_: views[id_].peer for id_ in new}
        if self.eager or not self.lazy:
            return sends
        first = next(iter(self.lazy.values()))
        return [*sends, *self._promote(first.id), Send(first, ScampGraft(self._topic))]

    def _promote(self, peer: Id | None) -> list[Send]:
        """Whole batches over this link from now on, if it was lazy. It is told at once what waits to be
        announced: when that happens, it would be passed over."""
        if not self._config.pushes_lazily or peer is None or peer not in self.lazy:
            return []
        promoted = self.eager[peer] = self.lazy.pop(peer)
        return self._tell(promoted, self._for(peer, everything=True))

    def welcome(self, newcomer: Peer, until: float) -> None:
        """It was given the history: what comes next must not pass it by, though it has no link yet."""
        if len(self._newcomers) < NEWCOMERS:
            self._newcomers[newcomer.id] = (newcomer, until)

    def expire(self, now: float) -> None:
        """Do not wait any longer for those who got the history and were not heard of again."""
        for id_ in [id_ for id_, (_, until) in self._newcomers.items() if until <= now]:
            del self._newcomers[id_]

    def retire(self) -> list[Send]:
        """This node is no member any more: tell what waits to be told. It can still be asked for."""
        sends = self._announce(everyone=True)
        for table in (self.eager, self.lazy, self._missing, self._newcomers):
            table.clear()
        return sends

    # --- batches ---

    def push(self, batch: Batch, source: Id | None) -> list[Send]:
        """Pass a new batch on; ``source`` is whom it came from."""
        onward = msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None)
        self.history.add(onward)
        name = name_of(batch)
        if self._config.pulls:
            self._served.add(onward)
            self._missing.pop(name, None)
            if self.lazy:
                self._queue[name] = {source}
        sends = self._promote(source)
        targets = [peer for id_, peer in self.eager.items() if id_ != source]
        fanout = self._config.fanout
        if self._config.literal and 0 < fanout < len(targets):
            targets = self._random.sample(targets, fanout)
        targets += [peer for peer, _ in self._newcomers.values()]
        return sends + [Send(peer, onward) for peer in targets]

    def repeated(self, batch: Batch, peer: Peer) -> list[Send]:
        """A batch came twice: the second time from this one."""
        self._has(peer.id, name_of(batch))
        return [Send(peer, ScampPrune(self._topic))] if self._pruned(peer.id) else []

    # --- announcements ---

    @property
    def waits(self) -> bool:
        """Whether there is something to do at a later tick."""
        return bool(self._queue or self._later or self._missing)

    @property
    def wait(self) -> float:
        """Until the next tick."""
        announces = self._queue or self._later
        return self._config.announce_every if announces else self._config.pull_after / 2

    @property
    def full(self) -> bool:
        """Whether announcements fill a message."""
        return len(self._queue) >= MOST_NAMES

    def receive(self, peer: Peer, message: Message, now: float) -> list[Send]:
        """An announcement, a pull, or a word about the link."""
        if isinstance(message, ScampHave):
            self._announced(peer, message, now)
        elif isinstance(message, ScampGraft):
            return self._grafted(peer, message)
        elif isinstance(message, ScampPrune):
            self._pruned(peer.id)
        return []

    def _pruned(self, peer: Id) -> bool:
        """Only names over this link from now on; whether that is news."""
        if not self._config.pushes_lazily or peer not in self.eager:
            return False
        self.lazy[peer] = self.eager.pop(peer)
        return True

    def _announced(self, peer: Peer, have: ScampHave, now: float) -> None:
        if not self._config.pulls:
            return
        for name in have.names[:MOST_NAMES]:
            if name in self.known:
                self._has(peer.id, name)
                continue
            missing = self._missing.get(name)
            if missing is None:
                if len(self._missing) >= MOST_MISSING:
                    return
                self._missing[name] = Missing([peer], now + self._config.pull_after)
            elif len(missing.announcers) < MOST_ANNOUNCERS and peer not in missing.announcers:
                missing.announcers.append(peer)

    def _has(self, peer: Id, name: BatchName) -> None:
        """This neighbour has the batch: it need not be told."""
        if peer not in self.lazy and peer not in self.eager:
            return
        for names in (self._queue, self._later):
            if name in names:
                names[name].add(peer)

    def _grafted(self, peer: Peer, graft: ScampGraft) -> list[Send]:
        told = self._promote(peer.id)
        found = [self._served.find(name) for name in graft.names[:MOST_NAMES]]
        return told + [Send(peer, batch) for batch in found if batch is not None]

    def tick(self, now: float) -> list[Send]:
        """Announce what has gathered, and ask for what is overdue."""
        return self._announce() + self._pull(now)

    def _announce(self, everyone: bool = False) -> list[Send]:
        """``everyone``: there is no later."""
        sends = []
        for id_, peer in self.lazy.items():
            sends += self._tell(peer, self._for(id_, everyone))
        self._queue, self._later = {}, {} if everyone else self._queue
        return sends

    def _for(self, peer: Id, everything: bool) -> Names:
        """What a neighbour is to be told now, or is to be told at all."""
        if everything or peer in self._onward:
            return {**self._later, **self._queue}
        return self._later

    def _tell(self, peer: Peer, told: Names) -> list[Send]:
        names = []
        for name, holders in told.items():
            if peer.id not in holders:
                holders.add(peer.id)
                names.append(name)
        return [
            Send(peer, ScampHave(self._topic, tuple(names[start : start + MOST_NAMES])))
            for start in range(0, len(names), MOST_NAMES)
        ]

    def _pull(self, now: float) -> list[Send]:
        wanted: dict[Id, tuple[Peer, list[BatchName]]] = {}
        for name, missing in list(self._missing.items()):
            if missing.due > now + 1e-6:  # a timer may come back a rounding error early
                continue
            if name in self.known or missing.asked >= len(missing.announcers):
                del self._missing[name]
                continue
            peer = missing.announcers[missing.asked]
            missing.asked += 1
            missing.due = now + self._config.pull_after
            wanted.setdefault(peer.id, (peer, []))[1].append(name)
        sends: list[Send] = []
        for peer, names in wanted.values():
            sends += self._promote(peer.id)
            for start in range(0, len(names), MOST_NAMES):
                part = tuple(names[start : start + MOST_NAMES])
                sends.append(Send(peer, ScampGraft(self._topic, part)))
        return sends
