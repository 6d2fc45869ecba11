"""Copies of roots' state on the k closest nodes, also while the ring changes (Scribe JSAC III-B).

A root gives out a copy when its state changes. On a quiet topic that may be long ago, and those that have it
may be gone. So who has the latest copy is remembered, and when the leaf set changes, those get it that are
among the closest now and have it not. When the root is gone, a newcomer may become the next one: those that
have a copy give it to whoever comes to be the closest, as they do with descriptors.

A gossip topic has no root: the sample of its rendezvous is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.events import Send
from overlaymq.messages import Handover, RootState

if TYPE_CHECKING:
    from collections.abc import Container

    from overlaymq.core.pastry import Pastry
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

State = RootState | Handover


class Copies:
    """The latest copies that this node has given or was given, and to whom it has given them."""

    __slots__ = ("_count", "_had", "_most", "_pastry")

    def __init__(self, pastry: Pastry, count: int, most: int) -> None:
        self._pastry = pastry
        self._count = count
        self._most = most
        self._had: dict[Id, tuple[State, list[Peer]]] = {}

    def give(self, state: State) -> list[Send]:
        """A new copy, for all."""
        closest = self._closest(state)
        self._keep(state, closest)
        return self._for(state, closest)

    def taken(self, state: State) -> None:
        """A new copy from its root; whether others got theirs is not known."""
        self._keep(state, [])

    def _keep(self, state: State, had: list[Peer]) -> None:
        self._had.pop(state.descriptor.id, None)
        self._had[state.descriptor.id] = state, had
        if len(self._had) > self._most:
            del self._had[next(iter(self._had))]

    def leafs_changed(self, reigned: Container[Id]) -> list[Send]:
        """Copies for those that have come closer; if this node is not the root, for the closest only."""
        sends: list[Send] = []
        for topic, (state, had) in list(self._had.items()):
            closest = self._closest(state)
            targets = closest if topic in reigned else closest[:1]
            if self._pastry.me not in closest:
                targets = []
            fresh = [one for one in targets if one not in had]
            self._had[topic] = state, [*[one for one in had if one in closest], *fresh]
            sends += self._for(state, fresh)
        return sends

    def _closest(self, state: State) -> list[Peer]:
        return self._pastry.closest(state.descriptor.key, self._count)

    def _for(self, state: State, peers: list[Peer]) -> list[Send]:
        needless = [self._pastry.me.id]
        if isinstance(state, RootState):
            needless.append(state.status.last.epoch.root)
        return [Send(one, state) for one in peers if one.id not in needless]
