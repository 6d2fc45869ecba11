"""Which topics wait for the distance of which peer: Pastry measures too, and nobody is told what others
asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.events import Probe

if TYPE_CHECKING:
    from overlaymq.events import Measure
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

PEERS_KEPT = 4096
"""Peers whose distance is awaited; an answer that is lost leaves one behind. A guess."""


class Measurements:
    """What strategies have asked."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Id, dict[Id, None]] = {}

    def wanted(self, question: Measure) -> Probe:
        """A topic asks."""
        if question.peer.id not in self._waiting and len(self._waiting) >= PEERS_KEPT:
            del self._waiting[next(iter(self._waiting))]
        self._waiting.setdefault(question.peer.id, {})[question.topic] = None
        return Probe(question.peer)

    def answered(self, peer: Peer) -> tuple[Id, ...]:
        """The topics that want to know."""
        return tuple(self._waiting.pop(peer.id, ()))
