"""Failure groups: a group lives until anyone in it says that it has failed, and then everyone hears it.

Liveness costs little while all is well: a digest of the groups that two nodes watch together travels with the
ring's heartbeats, or as a ``FusePing`` between nodes that send each other none. Lists are exchanged only
where the digests differ.
"""

from __future__ import annotations

import msgspec

from overlaymq.ids import Id
from overlaymq.messages.pastry import Peer


class FuseCreate(msgspec.Struct, frozen=True, gc=False):
    """Be in this failure group, whose root I am. ``topic``: whose strategy is asked; 0: the application's."""

    group: Id
    members: tuple[Peer, ...]
    topic: Id = Id(0)


class FuseCreated(msgspec.Struct, frozen=True, gc=False):
    """I have installed the group, or will not."""

    group: Id
    accepted: bool


class FuseInstall(msgspec.Struct, frozen=True, gc=False):
    """Routed from a member to the group's root: every node on the way watches its neighbours on it.
    ``via``: the last node that it passed, which is ``depth`` hops from the member."""

    group: Id
    seq: int
    root: Peer
    member: Id
    via: Peer
    depth: int = 0


class FuseBroken(msgspec.Struct, frozen=True, gc=False):
    """A member to the root: my way to you is not watched any more."""

    group: Id
    seq: int


class FuseRepair(msgspec.Struct, frozen=True, gc=False):
    """The root to a member: are you there? Install a new way, under this number."""

    group: Id
    seq: int


class FuseRepaired(msgspec.Struct, frozen=True, gc=False):
    """I am, and I do."""

    group: Id
    seq: int


class FuseSoft(msgspec.Struct, frozen=True, gc=False):
    """The ways of this number are broken; the group is not."""

    group: Id
    seq: int


class FuseFailed(msgspec.Struct, frozen=True, gc=False):
    """The group has failed, or I do not know it, which comes to the same."""

    group: Id


class FuseHeard(msgspec.Struct, frozen=True, gc=False):
    """I know that the group has failed."""

    group: Id


class FusePing(msgspec.Struct, frozen=True, gc=False):
    """A digest of the groups that I watch together with you. ``reply``: and yours?"""

    digest: int
    reply: bool = False


class FuseKey(msgspec.Struct, frozen=True, gc=False, order=True):
    """A group and the number of its ways."""

    group: Id
    seq: int


class FuseList(msgspec.Struct, frozen=True, gc=False):
    """Our digests differ: here are the groups that I watch together with you. ``reply``: and yours?"""

    keys: tuple[FuseKey, ...]
    reply: bool = False
