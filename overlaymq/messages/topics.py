"""What a topic is, and how nodes agree on it.

The owner of the topic's key keeps the descriptor, with replicas on the nodes closest to the key, and answers
whoever opens the topic. Descriptors then travel inside messages, so that a node that has never heard of a
topic can take part in it.
"""

from __future__ import annotations

import msgspec

from overlaymq.ids import Id


class Descriptor(msgspec.Struct, frozen=True, gc=False):
    """What all nodes agree on about a topic. ``key`` is where its root is: the topic id, or the
    creator's node id for a creator-rooted topic. ``credentials`` are the creator's, opaque so far."""

    id: Id
    name: str
    creator: str
    key: Id
    strategy: str
    reliability: str
    flow: str
    explicit: bool = False
    epoch: int = 0
    credentials: bytes = b""


class TopicOpen(msgspec.Struct, frozen=True, gc=False):
    """Routed to the topic id: store this descriptor if there is none, and tell me which holds."""

    request: int
    descriptor: Descriptor


class TopicOpened(msgspec.Struct, frozen=True, gc=False):
    """The descriptor that holds, or why there is none."""

    request: int
    descriptor: Descriptor | None = None
    refused: str = ""


class TopicReplica(msgspec.Struct, frozen=True, gc=False):
    """A copy of a descriptor for one of the k closest nodes to the topic id."""

    descriptor: Descriptor
