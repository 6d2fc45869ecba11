"""Inputs and effects: the whole contract between the core and whatever drives it.

A driver feeds one input at a time, ``node.handle(input, now)``, and performs the effects it gets back,
in order. The core never waits, never reads a clock and never draws from global randomness, so the same
inputs give the same effects, in the trio runtime and in the simulator.

Timers are values: ``SetTimer`` hands one out, ``TimerFired`` hands it back. Nothing is cancelled; a
timer that has gone stale is a no-op for the part that set it.

Events are what an application may learn. They leave the core wrapped in ``Notify``.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from overlaymq.ids import Id
from overlaymq.messages import (
    Batch,
    Descriptor,
    Epoch,
    Handover,
    Message,
    Peer,
    Place,
    RootState,
)


class Timer(msgspec.Struct, frozen=True, gc=False):
    """``part`` names who set it; ``subject`` and ``round`` let that part see whether it is stale. ``life``
    is the node's affair: which of a topic's strategies set it, where one was forgotten and made again."""

    part: str
    subject: int = 0
    round: int = 0
    life: int = 0


# --- Inputs ----------------------------------------------------------------------------------------


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message from a peer whose identity the transport has proved."""

    peer: Peer
    message: Message


class TimerFired(msgspec.Struct, frozen=True, gc=False):
    """The delay of a timer has passed."""

    timer: Timer


class PeerFailed(msgspec.Struct, frozen=True, gc=False):
    """The link to a peer broke or could not be opened: a reason to suspect it, not yet a death.

    ``gone``: its machine says that no process listens at its address any more."""

    peer: Peer
    reason: str
    gone: bool = False


class Measured(msgspec.Struct, frozen=True, gc=False):
    """The answer to ``Probe``: the round trip in seconds."""

    peer: Peer
    seconds: float


class Join(msgspec.Struct, frozen=True, gc=False):
    """Enter the overlay through one of these peers, or found one if there are none."""

    seeds: tuple[Peer, ...]


class Leave(msgspec.Struct, frozen=True, gc=False):
    """Leave the overlay on purpose: tell the neighbours."""


class Depart(msgspec.Struct, frozen=True, gc=False):
    """This node will leave soon: give up what others need it for. ``Leave`` follows when nobody does."""


class OpenTopic(msgspec.Struct, frozen=True, gc=False):
    """Learn a topic's descriptor, or create it; answered by ``TopicKnown`` or ``TopicFailed``."""

    request: int
    descriptor: Descriptor


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    """This node becomes a member of the topic. ``last`` asks for that many recent messages; ``note`` is for
    the upcalls of the node that takes it as a child, ``credentials`` are shown to it."""

    descriptor: Descriptor
    last: int = 0
    note: bytes = b""
    credentials: bytes = b""


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    """This node stops being a member."""

    topic: Id


class Volunteer(msgspec.Struct, frozen=True, gc=False):
    """This node forwards an `sv` topic without being a member, or does so no more."""

    descriptor: Descriptor
    willing: bool = True


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Disseminate a batch of this node's own publications."""

    descriptor: Descriptor
    batch: Batch


class AskDelivery(msgspec.Struct, frozen=True, gc=False):
    """Ask how many subscribers of an ordered topic have the messages between two places; answered by
    ``Delivered``, at once and again when all have them. An answer may be lost: ask again."""

    descriptor: Descriptor
    first: Place
    last: Place


class CountMembers(msgspec.Struct, frozen=True, gc=False):
    """Ask how many members a topic has; answered by ``Members``."""

    descriptor: Descriptor


class Anycast(msgspec.Struct, frozen=True, gc=False):
    """Look for so many members of the topic that accept a payload; answered by ``AnycastAnswered``."""

    request: int
    descriptor: Descriptor
    payload: bytes
    wanted: int = 1


class Lookup(msgspec.Struct, frozen=True, gc=False):
    """Find the node that owns a key; answered by ``Found``."""

    request: int
    key: Id


class PingPeer(msgspec.Struct, frozen=True, gc=False):
    """A round trip through the peer's core; answered by ``Ponged``."""

    request: int
    peer: Peer


class CreateGroup(msgspec.Struct, frozen=True, gc=False):
    """Make a failure group of these nodes and this one; ``group`` is a random id. Answered by
    ``GroupCreated`` or ``GroupFailed``; of a topic's group, its strategy hears instead, at all members.
    Also an effect inside the core."""

    group: Id
    members: tuple[Peer, ...]
    topic: Id | None = None


class SignalGroup(msgspec.Struct, frozen=True, gc=False):
    """This member declares a group failed. Also an effect inside the core."""

    group: Id


Command: TypeAlias = (
    Join
    | Leave
    | Depart
    | OpenTopic
    | Subscribe
    | Unsubscribe
    | Volunteer
    | Publish
    | AskDelivery
    | CountMembers
    | Anycast
    | Lookup
    | PingPeer
    | CreateGroup
    | SignalGroup
)
Input: TypeAlias = Received | TimerFired | PeerFailed | Measured | Command


# --- Events ----------------------------------------------------------------------------------------


class Joined(msgspec.Struct, frozen=True, gc=False):
    """This node is an active member of the ring."""


class JoinRejected(msgspec.Struct, frozen=True, gc=False):
    """This node may not join, and trying again will not help."""

    reason: str


class LeafsChanged(msgspec.Struct, frozen=True, gc=False):
    """The leaf set is different now (the papers' newLeafs)."""

    leaves: tuple[Peer, ...]


class PeerDead(msgspec.Struct, frozen=True, gc=False):
    """A peer was verified to have failed and was removed."""

    peer: Peer


class TopicKnown(msgspec.Struct, frozen=True, gc=False):
    """The descriptor that holds for a topic."""

    request: int
    descriptor: Descriptor


class TopicFailed(msgspec.Struct, frozen=True, gc=False):
    """The topic's rendezvous node refused, or did not answer."""

    request: int
    reason: str


class Ready(msgspec.Struct, frozen=True, gc=False):
    """This node's subscription is connected: what is published from now on arrives."""

    topic: Id


class Members(msgspec.Struct, frozen=True, gc=False):
    """How many members the topic's root counts."""

    topic: Id
    count: int


class Sent(msgspec.Struct, frozen=True, gc=False):
    """A batch of this node's own was handed to this many links, or dropped for a reason."""

    topic: Id
    first: int
    count: int
    links: int
    chunk: int = 0
    dropped: str = ""


class AnycastAnswered(msgspec.Struct, frozen=True, gc=False):
    """Who has accepted an anycast. ``complete``: as many as were wanted, or nobody else would."""

    request: int
    accepted: tuple[Peer, ...]
    complete: bool


class Found(msgspec.Struct, frozen=True, gc=False):
    """The owner of a key that was looked up."""

    request: int
    owner: Peer
    hops: int


class Ponged(msgspec.Struct, frozen=True, gc=False):
    """The peer's core answered."""

    request: int


class Sequenced(msgspec.Struct, frozen=True, gc=False):
    """The root of an ordered topic has given a batch of this node's own its place, or the application has
    stopped it there."""

    topic: Id
    first: int
    chunk: int
    place: Place | None
    stopped: bool = False


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """``had`` of an ordered topic's ``members`` subscribers are known to have these messages; ``final``: the
    others will not get them."""

    topic: Id
    first: Place
    last: Place
    members: int
    had: int
    final: bool


class Missed(msgspec.Struct, frozen=True, gc=False):
    """Messages ``first`` to ``last`` of an origin, in the life ``epoch`` of it, were published and will not
    arrive.

    Of an ordered topic, these are the root's numbers in an epoch: ``origin`` is the root and ``epoch`` the
    epoch's counter."""

    topic: Id
    origin: Id
    first: int
    last: int
    epoch: int = 0


class EpochChanged(msgspec.Struct, frozen=True, gc=False):
    """An ordered topic has another root. Up to the message ``last_known`` of the old epoch everything was
    delivered or announced as missed; what the old root numbered after it, and whatever lies between the two
    epochs, may not arrive."""

    topic: Id
    old: Epoch
    last_known: int
    new: Epoch


class Lagged(msgspec.Struct, frozen=True, gc=False):
    """This subscription or this node's share upstream was too slow: so many messages were dropped."""

    topic: Id
    dropped: int


class ParentLost(msgspec.Struct, frozen=True, gc=False):
    """The node that fed this subscription failed; repair is under way."""

    topic: Id
    peer: Peer


class Repaired(msgspec.Struct, frozen=True, gc=False):
    """The subscription is fed again."""

    topic: Id
    peer: Peer


class GroupCreated(msgspec.Struct, frozen=True, gc=False):
    """All members of a failure group that this node asked for have answered."""

    group: Id


class GroupFailed(msgspec.Struct, frozen=True, gc=False):
    """A failure group that this node is or would have been a member of has failed: said once."""

    group: Id


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """The core discarded something; the driver counts it under the reason. ``batch``: what it was, if it was
    one batch."""

    reason: str
    messages: int = 1
    batch: Batch | None = None


SubscriptionEvent: TypeAlias = Ready | Missed | EpochChanged | Lagged | ParentLost | Repaired
Event: TypeAlias = (
    Joined
    | JoinRejected
    | LeafsChanged
    | PeerDead
    | TopicKnown
    | TopicFailed
    | Members
    | Sent
    | Sequenced
    | Delivered
    | AnycastAnswered
    | Found
    | Ponged
    | GroupCreated
    | GroupFailed
    | Dropped
    | SubscriptionEvent
)


# --- Effects ---------------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    """Give a message to a peer. It may be lost; a broken link comes back as ``PeerFailed``."""

    peer: Peer
    message: Message


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Hand the timer back after this many seconds."""

    timer: Timer
    delay: float


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Give a batch to this node's subscriptions on its topic."""

    batch: Batch


class Notify(msgspec.Struct, frozen=True, gc=False):
    """Tell the application."""

    event: Event


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Measure the distance to a peer; the answer is ``Measured`` or ``PeerFailed``."""

    peer: Peer


class Route(msgspec.Struct, frozen=True, gc=False):
    """Only inside the core: a strategy or the topics ask Pastry to route a message to a key."""

    key: Id
    message: Message
    randomize: bool = False


class Measure(msgspec.Struct, frozen=True, gc=False):
    """Only inside the core: a topic's strategy wants to know the distance to a peer."""

    topic: Id
    peer: Peer


class Replicate(msgspec.Struct, frozen=True, gc=False):
    """Only inside the core: give what a root or a rendezvous knows to the k closest to a key, one of
    which may become its owner."""

    key: Id
    state: RootState | Handover


Effect: TypeAlias = Send | SetTimer | Deliver | Notify | Probe
