"""Gossip topics: subscriptions that walk from view to view, and batches that are announced.

The first part is membership: who is in whose view, and with what weight. The second is the laziness of
Plumtree: what one has, what another wants, and which links need not carry whole batches.
"""

from __future__ import annotations

import msgspec

from overlaymq.ids import Id
from overlaymq.messages.pastry import Peer


class ScampContacts(msgspec.Struct, frozen=True, gc=False):
    """scamp, from the rendezvous: some members, and about how many there are. ``reign``: a number that a
    rendezvous draws when it begins without a predecessor's sample."""

    topic: Id
    contacts: tuple[Peer, ...]
    members: int
    reign: int


class ScampSubscribe(msgspec.Struct, frozen=True, gc=False):
    """scamp: a subscription for its contact, who forwards it to its whole view and in ``copies`` more
    copies. ``walking``: it is on an indirection walk, ``steps`` from its end. ``renewal``: the subscriber
    has a view and keeps it; in the default mode, ``copies`` are all then, unless there are none.
    ``lease``: seconds; 0: for ever. ``last`` asks for history."""

    topic: Id
    subscriber: Peer
    serial: int
    copies: int = 0
    renewal: bool = False
    walking: bool = False
    steps: int = 0
    lease: float = 0.0
    last: int = 0
    note: bytes = b""


class ScampAccepted(msgspec.Struct, frozen=True, gc=False):
    """scamp: I am your contact, with so many seconds of a lease left; 0: for ever. ``others``: of my view,
    for the day when yours fails. ``replay``: batches that you asked for and will get from me."""

    topic: Id
    serial: int
    lease: float = 0.0
    others: tuple[Peer, ...] = ()
    replay: int = 0


class ScampForward(msgspec.Struct, frozen=True, gc=False):
    """scamp: a copy of a subscription, looking for someone to keep it. ``keep``: do so, without drawing."""

    topic: Id
    subscriber: Peer
    serial: int
    hops: int = 0
    lease: float = 0.0
    keep: bool = False
    note: bytes = b""


class ScampKept(msgspec.Struct, frozen=True, gc=False):
    """scamp: you are in my partial view, so I am in your in-view."""

    topic: Id


class ScampReplace(msgspec.Struct, frozen=True, gc=False):
    """scamp: take me out of your partial view, and this one in, if there is one."""

    topic: Id
    by: Peer | None = None
    lease: float = 0.0


class ScampForget(msgspec.Struct, frozen=True, gc=False):
    """scamp: you are not in my partial view any more."""

    topic: Id


class ScampBeat(msgspec.Struct, frozen=True, gc=False):
    """scamp: you are still in my partial view."""

    topic: Id


class ScampWeight(msgspec.Struct, frozen=True, gc=False):
    """scamp: the weight of the arc from me to you, or, if ``backward``, from you to me."""

    topic: Id
    weight: float
    backward: bool = False


class ScampBeacon(msgspec.Struct, frozen=True, gc=False):
    """scamp: a sign of the rendezvous that members pass on; who misses one is on an island."""

    topic: Id
    number: int


class BatchName(msgspec.Struct, frozen=True, gc=False, order=True):
    """Which batch."""

    origin: Id
    epoch: int
    first: int
    chunk: int = 0


class ScampHave(msgspec.Struct, frozen=True, gc=False):
    """scamp: I have these batches, and have not sent them to you."""

    topic: Id
    names: tuple[BatchName, ...]


class ScampGraft(msgspec.Struct, frozen=True, gc=False):
    """scamp: send me these batches, and what comes after them at once."""

    topic: Id
    names: tuple[BatchName, ...] = ()


class ScampPrune(msgspec.Struct, frozen=True, gc=False):
    """scamp: only tell me what you have: I got it before."""

    topic: Id


class ScampTaken(msgspec.Struct, frozen=True, gc=False):
    """scamp: I am a member, have your batch and pass it on."""

    topic: Id
    name: BatchName
