"""Requests that the core answers with an event."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio

from overlaymq.errors import Closed

if TYPE_CHECKING:
    from overlaymq.events import Event


class Question:
    """A request that the core will answer with an event."""

    __slots__ = ("_answered", "answer", "answered_at")

    def __init__(self) -> None:
        self._answered = trio.Event()
        self.answered_at = 0.0
        self.answer: Event | None = None

    def settle(self, answer: Event | None) -> None:
        self.answer = answer
        self.answered_at = time.monotonic()
        self._answered.set()

    async def wait(self) -> Event:
        await self._answered.wait()
        if self.answer is None:
            raise Closed("the node was closed while waiting for an answer")
        return self.answer
