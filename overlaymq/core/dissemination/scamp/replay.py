"""The history that a newcomer asked for comes from its contact, with the answer to its subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.replay import marked
from overlaymq.events import Send
from overlaymq.messages import ScampAccepted

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.reliability.history import History
    from overlaymq.messages import ScampSubscribe


def with_replay(sends: list[Send], request: ScampSubscribe, history: History) -> Effects:
    """At the contact: the history that the newcomer asked for, marked as for it alone."""
    effects: Effects = []
    for send in sends:
        message = send.message
        if not isinstance(message, ScampAccepted):
            effects.append(send)
            continue
        replay = history.last(request.last)
        effects.append(Send(send.peer, msgspec.structs.replace(message, replay=len(replay))))
        effects += marked(replay, send.peer)
    return effects
