"""The anycasts that this node has sent, and who has accepted them.

Acceptors answer one by one, and the last node of the search tells how many there were, in any order. An
anycast is answered when as many have accepted as were wanted, when all acceptors of a finished search are
known, or when its time is up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.events import AnycastAnswered, Notify, Route, SetTimer, Timer
from overlaymq.messages import TreeAnycast

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.events import Anycast
    from overlaymq.ids import Id
    from overlaymq.messages import AnycastOver, AnycastTaken, Peer

PART = "anycast"


class _Search:
    __slots__ = ("accepted", "cut", "expected", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.accepted: dict[Id, Peer] = {}
        self.expected: int | None = None
        self.cut = False


class Searches:
    """What has been asked and not been answered."""

    def __init__(self, me: Peer, seconds: float) -> None:
        self._me = me
        self._seconds = seconds
        self._open: dict[int, _Search] = {}

    def start(self, command: Anycast) -> Effects:
        """Send an anycast on its way."""
        self._open[command.request] = _Search(command.wanted)
        descriptor = command.descriptor
        search = TreeAnycast(
            topic=descriptor.id,
            descriptor=descriptor,
            origin=self._me,
            request=command.request,
            payload=command.payload,
            wanted=command.wanted,
        )
        wait = SetTimer(Timer(PART, command.request), self._seconds)
        return [Route(descriptor.key, search), wait]

    def taken(self, peer: Peer, message: AnycastTaken) -> Effects:
        """A member has accepted."""
        search = self._open.get(message.request)
        if search is None:
            return []
        search.accepted[peer.id] = peer
        return self._look(message.request)

    def over(self, message: AnycastOver) -> Effects:
        """Nobody else will."""
        search = self._open.get(message.request)
        if search is None:
            return []
        search.expected, search.cut = message.accepted, message.cut
        return self._look(message.request)

    def fired(self, timer: Timer) -> Effects:
        """Time is up."""
        return self._answer(timer.subject, False) if timer.subject in self._open else []

    def _look(self, request: int) -> Effects:
        search = self._open[request]
        if len(search.accepted) >= search.wanted:
            return self._answer(request, True)
        if search.expected is not None and len(search.accepted) >= search.expected:
            return self._answer(request, not search.cut)
        return []

    def _answer(self, request: int, complete: bool) -> Effects:
        search = self._open.pop(request)
        return [Notify(AnycastAnswered(request, tuple(search.accepted.values()), complete))]
