"""Failures of the application's upcalls, in the log: the first of each kind, with its traceback.

The core goes on without the upcall and counts it. An upcall may fail for every message, and each time with
another text; so a kind is the topic, the upcall and the exception's type, and there are only so many.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from overlaymq import ids

if TYPE_CHECKING:
    from overlaymq.core.reliability.upcalls import Report
    from overlaymq.ids import Id

log = logging.getLogger("overlaymq.upcalls")

MAX_KINDS = 100
"""Kinds that one node logs: a guess, more than anybody reads."""


class Mishaps:
    """What one node has logged."""

    def __init__(self, node: Id) -> None:
        self._node = node
        self._logged: set[tuple[Id, str, str]] = set()

    def on_topic(self, topic: Id) -> Report:
        """Takes what goes wrong in this topic's upcalls."""

        def report(upcall: str, error: Exception) -> None:
            kind = (topic, upcall, type(error).__qualname__)
            if kind in self._logged or len(self._logged) >= MAX_KINDS:
                return
            self._logged.add(kind)
            log.error(
                "node %s: %s of topic %s failed, and was left out; more of this kind are only counted",
                *(ids.short(self._node), upcall, ids.short(topic)),
                exc_info=error,
            )

        return report
