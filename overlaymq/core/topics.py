"""Topic descriptors: what all nodes agree on, kept where everybody can find it.

A descriptor lives at the node closest to the topic's id and on the k closest around it (Scribe JSAC III-B:
root state is replicated on the k closest nodes, which are all in the root's leaf set). The first
descriptor to reach the root holds; a second one gets the first as its answer, and the asker decides
whether that is a conflict. The first descriptor of an owned topic must come from its creator: a stranger that
used the name first would choose the settings for it. (Who asks is not proved beyond the first hop; rights
come later.)

Replicas move with the ring: whenever the leaf set changes, the owner of an id gives its descriptor to those
of the k closest that have not had it from this node, and a node that is not the owner any more gives it to
the owner. A node that is no longer among the k closest forgets it. When two rings merge, two descriptors
of one topic can meet: explicit beats implicit, then the lower digest, so every node picks the same.

A question that gets no answer is asked again, then given up.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from overlaymq import ids
from overlaymq.events import (
    Dropped,
    Notify,
    Route,
    Send,
    SetTimer,
    Timer,
    TopicFailed,
    TopicKnown,
)
from overlaymq.messages import TopicOpen, TopicOpened, TopicReplica

if TYPE_CHECKING:
    from overlaymq.config import RendezvousConfig
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer


MAX_TEXT = 512
"""Characters of a name or setting; what peers make a node keep is bounded (a guess)."""


MAX_CREDENTIALS = 4096
"""Bytes of credentials, of a descriptor or of a join: a guess, some certificates."""


class Ring(Protocol):
    """What the topics need to know of Pastry."""

    def owner(self, key: Id) -> Peer | None: ...

    def closest(self, key: Id, count: int) -> list[Peer]: ...


def settings(descriptor: Descriptor) -> tuple[str, str, str, Id]:
    """What two descriptors of one topic must agree on."""
    return (descriptor.strategy, descriptor.reliability, descriptor.flow, descriptor.key)


def digest(descriptor: Descriptor) -> bytes:
    """Orders descriptors of one topic, the same way on every node."""
    return hashlib.sha256(repr((settings(descriptor), descriptor.credentials)).encode()).digest()


def settled(held: Descriptor | None, offered: Descriptor) -> Descriptor:
    """Which of two descriptors holds when rings merge."""
    if held is None:
        return offered
    return min(held, offered, key=lambda one: (not one.explicit, digest(one), -one.epoch))


def is_consistent(descriptor: Descriptor) -> bool:
    """Whether the id is the hash of the name and creator, as everyone can check, in sensible size."""
    texts = (descriptor.name, descriptor.creator, *settings(descriptor)[:3])
    if any(len(text) > MAX_TEXT for text in texts) or len(descriptor.credentials) > MAX_CREDENTIALS:
        return False
    return descriptor.id == ids.topic_id(descriptor.name, descriptor.creator)


class _Question:
    __slots__ = ("descriptor", "tries")

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor
        self.tries = 0


class Topics:
    """The descriptors this node holds, and the questions it has asked."""

    def __init__(self, me: Peer, config: RendezvousConfig, ring: Ring) -> None:
        self._me = me
        self._config = config
        self._ring = ring
        self._held: dict[Id, Descriptor] = {}
        self._given: dict[Id, set[Id]] = {}
        self._questions: dict[int, _Question] = {}

    @property
    def held(self) -> tuple[Descriptor, ...]:
        """The descriptors on this node, as owner or as replica."""
        return tuple(self._held.values())

    def open(self, request: int, descriptor: Descriptor) -> Effects:
        """Ask the root for the topic's descriptor, offering this one."""
        self._questions[request] = _Question(descriptor)
        return self._ask(request)

    def fired(self, timer: Timer) -> Effects:
        """No answer yet."""
        question = self._questions.get(timer.subject)
        if question is None or question.tries != timer.round:
            return []
        if question.tries < self._config.answer_tries:
            return self._ask(timer.subject)
        del self._questions[timer.subject]
        reason = f"no answer after {question.tries} tries; is the overlay reachable?"
        return [Notify(TopicFailed(timer.subject, reason))]

    def _ask(self, request: int) -> Effects:
        question = self._questions[request]
        question.tries += 1
        return [
            Route(question.descriptor.id, TopicOpen(request, question.descriptor)),
            SetTimer(Timer("topics", request, question.tries), self._config.answer_timeout),
        ]

    def asked(self, message: TopicOpen, source: Peer) -> Effects:
        """At the owner of the topic id: answer, storing the offer if there was none."""
        offered = message.descriptor
        if not is_consistent(offered):
            return [Notify(Dropped("descriptor id does not match its name"))]
        held = self._held.get(offered.id)
        if held is None and offered.creator not in ("", ids.text(source.id)):
            early = f"its creator, node {offered.creator[:8]}, has not created it yet"
            return [Send(source, TopicOpened(message.request, None, early))]
        if held is None and len(self._held) >= self._config.max_topics:
            full = f"node {ids.short(self._me.id)} keeps {self._config.max_topics} topics already"
            return [Send(source, TopicOpened(message.request, None, full))]
        confirmed = held is None or (offered.explicit and settings(held) == settings(offered))
        if held is not None and held.explicit and held.credentials != offered.credentials:
            confirmed = False  # whoever created it first did
        if confirmed and held != offered:
            self._held[offered.id] = offered
            self._given.pop(offered.id, None)
        answer = Send(source, TopicOpened(message.request, self._held[offered.id]))
        return [answer, *self._replicate(offered.id)]

    def answered(self, message: TopicOpened) -> Effects:
        """At the asker."""
        question = self._questions.get(message.request)
        if question is None:
            return []
        held = message.descriptor
        if held is not None and (held.id != question.descriptor.id or not is_consistent(held)):
            return [Notify(Dropped("answer about another topic"))]  # the true one may still come
        del self._questions[message.request]
        if held is None:
            return [Notify(TopicFailed(message.request, message.refused))]
        return [Notify(TopicKnown(message.request, held))]

    def replica(self, message: TopicReplica) -> Effects:
        """A copy from another holder."""
        offered = message.descriptor
        held = self._held.get(offered.id)
        if not is_consistent(offered):
            return [Notify(Dropped("descriptor id does not match its name"))]
        if held is None and len(self._held) >= self._config.max_topics:
            return [Notify(Dropped("too many topics"))]
        holds = settled(held, offered)
        self._held[offered.id] = holds
        if holds != held or holds != offered:
            self._given.pop(offered.id, None)  # someone has another one; tell what holds
        return self._replicate(offered.id)

    def leafs_changed(self) -> Effects:
        """Move replicas with the ring."""
        effects: Effects = []
        for topic in list(self._held):
            effects += self._replicate(topic)
        return effects

    def _replicate(self, topic: Id) -> Effects:
        owner = self._ring.owner(topic)
        if owner is None:
            return []
        holders = self._ring.closest(topic, self._config.replicas)
        targets = holders if owner.id == self._me.id else [owner]
        given = self._given.setdefault(topic, set())
        fresh = [peer for peer in targets if peer.id not in given and peer.id != self._me.id]
        given.update(peer.id for peer in fresh)
        given.intersection_update(peer.id for peer in (*holders, owner))
        copy = TopicReplica(self._held[topic])
        if all(peer.id != self._me.id for peer in holders):
            del self._held[topic], self._given[topic]
        return [Send(peer, copy) for peer in fresh]
