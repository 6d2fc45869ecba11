"""The lookups and pings of the application that have not been answered.

An answer counts once, and only while its question is open: repeated answers are nothing. There is no timer
here, for whoever asks knows how long it wants to wait. So a question may stay open for ever, and the oldest
are forgotten when there are too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.events import Notify

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.events import Found, Ponged, Route, Send

QUESTIONS = 65_536
"""Lookups and pings waiting for an answer: a guess."""


class Questions:
    """The numbers of open questions, oldest first."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[int, None] = {}

    def asked(self, request: int, question: Send | Route) -> Effects:
        """Expect an answer to what goes out."""
        self._open[request] = None
        if len(self._open) > QUESTIONS:
            self._open.pop(next(iter(self._open)))
        return [question]

    def answered(self, request: int, answer: Found | Ponged) -> Effects:
        """Tell the application, if it has asked."""
        if request not in self._open:
            return []
        del self._open[request]
        return [Notify(answer)]
