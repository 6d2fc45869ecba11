"""scamp: gossip over views that size themselves (SCAMP; Plumtree in the default mode).

Members know a few others, about ln n of them, and pass each batch on once. There is no tree and no root, so a
failed node takes nothing with it. The price is that nothing is ordered, and that a slow reader loses: on a
cyclic graph, waiting for the slowest can come round to oneself. ``ordered`` and ``flow = "lossless"`` need a
tree and are refused.

``views`` is the membership protocol, ``weights`` its indirection, ``gossip`` the dissemination, ``sample``
and ``meeting`` what the owner of the topic's key knows and says, ``asking`` what others ask it, ``handing``
how publishers that are no members get their batches in, ``replay`` how the history comes first. Of these,
``spreading`` and ``belonging`` make what a node does with batches, and to be a member; ``strategy`` is the
whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.scamp.strategy import Scamp
from overlaymq.events import Send
from overlaymq.messages import (
    ScampAccepted,
    ScampBeacon,
    ScampBeat,
    ScampContacts,
    ScampForget,
    ScampForward,
    ScampGraft,
    ScampHave,
    ScampKept,
    ScampPrune,
    ScampReplace,
    ScampSubscribe,
    ScampTaken,
    ScampWeight,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.messages import Message, Peer

__all__ = ["MESSAGES", "Scamp", "no_member"]

MESSAGES = (
    *(ScampContacts, ScampSubscribe, ScampAccepted, ScampForward, ScampKept, ScampReplace),
    *(ScampForget, ScampBeat, ScampWeight, ScampBeacon),
    *(ScampHave, ScampGraft, ScampPrune, ScampTaken),
)


def no_member(peer: Peer, message: Message) -> Effects:
    """What a node says that has forgotten the topic, to one that takes it for a member."""
    if isinstance(message, ScampSubscribe):
        return [Send(message.subscriber, ScampReplace(message.topic))]
    if isinstance(message, ScampBeat | ScampKept):
        return [Send(peer, ScampReplace(message.topic))]
    return []
