"""What the dissemination strategies say to each other: rendezvous, trees, order, and what was delivered.

Registration and hand-over are common to all strategies. The ``Tree`` messages build Scribe's trees, find what
is missing on them and tell what everyone has; the ``Sv`` messages build the trees of subscribers and
volunteers. Numbers that a root gives carry its epoch, for there may be rivals.
"""

from __future__ import annotations

import msgspec

from overlaymq.ids import Id
from overlaymq.messages.pastry import Peer
from overlaymq.messages.topics import Descriptor


class Register(msgspec.Struct, frozen=True, gc=False):
    """direct: add this member at the topic's root. Refreshed, or it expires. ``last`` asks for history,
    ``note`` is the application's."""

    topic: Id
    member: Peer
    descriptor: Descriptor
    last: int = 0
    note: bytes = b""


class Registered(msgspec.Struct, frozen=True, gc=False):
    """direct: the root has you; it has this many members now."""

    topic: Id
    members: int


class Unregister(msgspec.Struct, frozen=True, gc=False):
    """direct: forget me."""

    topic: Id


class RootQuery(msgspec.Struct, frozen=True, gc=False):
    """Routed to a topic's key by a publisher that wants to know the root's address."""

    topic: Id
    descriptor: Descriptor


class RootIs(msgspec.Struct, frozen=True, gc=False):
    """The topic's root, as the sender knows it, and how many members it counts."""

    topic: Id
    root: Peer
    members: int


class BatchRefused(msgspec.Struct, frozen=True, gc=False):
    """You take me for the topic's root. I am not, and have thrown your batch away; ``root`` is, as far as I
    know."""

    topic: Id
    origin: Id
    epoch: int
    first: int
    chunk: int
    root: Peer | None = None


class Handover(msgspec.Struct, frozen=True, gc=False):
    """You are closer to the key than I am; here is what I know. Of a gossip topic also a copy, for those that
    may be the closest one day. ``members``: of a direct or a gossip topic; ``epoch``: how often a tree's root
    has changed; ``state``: of an ordered topic; ``size``: how many members the tree has."""

    descriptor: Descriptor
    members: tuple[Peer, ...] = ()
    epoch: int = 0
    state: RootState | None = None
    size: int = 0


class Epoch(msgspec.Struct, frozen=True, gc=False, order=True):
    """One root's reign over an ordered topic. A later one is greater; of two at once, one is."""

    counter: int
    root: Id


class Place(msgspec.Struct, frozen=True, gc=False, order=True):
    """A message's place in an ordered topic: within an epoch, numbers have no gaps and begin with 1."""

    epoch: Epoch
    sequence: int


class TreeStatus(msgspec.Struct, frozen=True, gc=False):
    """ordered: the last place that is known, and the last known ones of the epochs before, latest first. Who
    knows nothing yet begins with ``start``, without its first ``skip`` messages."""

    last: Place
    past: tuple[Place, ...] = ()
    start: int = 0
    skip: int = 0


class Run(msgspec.Struct, frozen=True, gc=False):
    """Consecutive messages of one origin's life."""

    origin: Id
    epoch: int
    first: int
    last: int


class RootState(msgspec.Struct, frozen=True, gc=False):
    """ordered: what a root knows, for its successor and for those who may have to be it. ``window``: recent
    messages that have their place."""

    descriptor: Descriptor
    status: TreeStatus
    window: tuple[Run, ...] = ()


class BatchSequenced(msgspec.Struct, frozen=True, gc=False):
    """ordered: the root has given a batch its place; its publisher needs not send it again. Sent straight to
    whom the batch came from, and routed to its origin if that is another one. No place: it is forgotten, or
    the application has stopped the batch at the root."""

    topic: Id
    origin: Id
    epoch: int
    first: int
    chunk: int
    place: Place | None = None
    stopped: bool = False


class TreeNeed(msgspec.Struct, frozen=True, gc=False):
    """ordered: I lack these messages of an epoch; send them again."""

    topic: Id
    epoch: Epoch
    first: int
    last: int


class TreeGone(msgspec.Struct, frozen=True, gc=False):
    """ordered: nobody above you has these messages any more."""

    topic: Id
    epoch: Epoch
    first: int
    last: int


class TreeTold(msgspec.Struct, frozen=True, gc=False):
    """ordered: what I know of the sequence, out of turn: it has changed, or you know less or other things."""

    topic: Id
    status: TreeStatus


class TreeHistory(msgspec.Struct, frozen=True, gc=False):
    """From a late joiner: send me the last so many messages, if you hold as many, or if you know nobody else
    to ask and hold at least ``most``, as another does."""

    topic: Id
    last: int
    most: int = 0


class TreeReplay(msgspec.Struct, frozen=True, gc=False):
    """The answer: so many batches follow, marked with your id as their root. Or none: I hold only so many
    messages; ask ``above``."""

    topic: Id
    batches: int
    held: int
    above: Peer | None = None


class Lost(msgspec.Struct, frozen=True, gc=False, order=True):
    """ordered: so many subscribers will never get what lies between these places."""

    first: Place
    last: Place
    members: int


class TreeHad(msgspec.Struct, frozen=True, gc=False):
    """ordered, from a child: so many subscribers are below me, ``had`` is the first message that one of them
    waits for, ``kept`` the first that one of them, or one that has just gone, may ask for; None: I cannot
    tell yet. ``lost``: what some of them missed."""

    topic: Id
    members: int
    had: Place | None = None
    kept: Place | None = None
    lost: tuple[Lost, ...] = ()


class TreeStable(msgspec.Struct, frozen=True, gc=False):
    """ordered, from a parent: nobody in the tree will ask for what is before this place."""

    topic: Id
    place: Place


class DeliveryQuery(msgspec.Struct, frozen=True, gc=False):
    """ordered: who has the messages from this place to that? Routed to the topic's key."""

    topic: Id
    descriptor: Descriptor
    first: Place
    last: Place


class DeliveryIs(msgspec.Struct, frozen=True, gc=False):
    """ordered: the answer of the root. ``had`` of ``members`` subscribers are known to have it; ``final``:
    the others will not get it."""

    topic: Id
    first: Place
    last: Place
    members: int
    had: int
    final: bool = False


class TreeJoin(msgspec.Struct, frozen=True, gc=False):
    """scribe: take me as a child. Routed to the topic's key, and ended by the first node that takes it;
    also sent straight to a node that is to be the parent. ``members``: how many are in my subtree.
    ``last`` asks for history, ``note`` is the application's. ``expects``: the message that an ordered topic's
    child needs next. ``via``: the last node on the way that stayed out of the tree."""

    topic: Id
    child: Peer
    descriptor: Descriptor
    members: int = 0
    last: int = 0
    note: bytes = b""
    expects: Place | None = None
    via: Peer | None = None
    credentials: bytes = b""
    serial: int = 0


class TreeJoins(msgspec.Struct, frozen=True, gc=False):
    """scribe: joins of several topics that take the same way; each goes on by itself from where they part."""

    joins: tuple[TreeJoin, ...]


class TreeJoined(msgspec.Struct, frozen=True, gc=False):
    """scribe: you are my child. ``path`` leads from the top of the tree to me; ``rooted``: its top is the
    root. ``serial`` is that of the join; 0 when it is sent again because the path has changed. ``status``: of
    an ordered topic."""

    topic: Id
    path: tuple[Id, ...]
    rooted: bool
    status: TreeStatus | None = None
    serial: int = 0


class TreeRefused(msgspec.Struct, frozen=True, gc=False):
    """scribe: I am not your parent; join again. ``looped``: by a randomised route, for this one leads back
    to you."""

    topic: Id
    looped: bool = False


class TreeLeave(msgspec.Struct, frozen=True, gc=False):
    """scribe: I am not your child, by none of my joins up to ``serial``."""

    topic: Id
    serial: int = 0


class TreeRefresh(msgspec.Struct, frozen=True, gc=False):
    """scribe: I am still your child, with so many members in my subtree. ``path`` is a checksum of the path
    that you have told me; ``yields_to``: this one will have my place."""

    topic: Id
    members: int
    yields_to: Peer | None = None
    path: int = 0


class TreeBeat(msgspec.Struct, frozen=True, gc=False):
    """scribe: I am still your parent. Batches say so too, so this is sent only over silent links.
    ``status``: of an ordered topic, so that the loss of its last message is seen."""

    topic: Id
    status: TreeStatus | None = None


class TreeNote(msgspec.Struct, frozen=True, gc=False):
    """An application's upcall to the upcalls of a neighbour in the tree."""

    topic: Id
    note: bytes


class Sibling(msgspec.Struct, frozen=True, gc=False):
    """An entry of a children table, and its round trip to the parent."""

    peer: Peer
    seconds: float


class TreeDrop(msgspec.Struct, frozen=True, gc=False):
    """scribe: be the child of one of these instead of mine. I feed you until you leave me, for a while."""

    topic: Id
    siblings: tuple[Sibling, ...]


class TreeAnycast(msgspec.Struct, frozen=True, gc=False):
    """scribe: looks for ``wanted`` more members that accept ``payload``. Routed to the topic's key until it
    meets the tree, then handed from node to node. ``cut``: not all that was seen will be visited."""

    topic: Id
    descriptor: Descriptor
    origin: Peer
    request: int
    payload: bytes
    wanted: int = 1
    accepted: int = 0
    visited: tuple[Id, ...] = ()
    to_visit: tuple[Peer, ...] = ()
    cut: bool = False


class Beat(msgspec.Struct, frozen=True, gc=False, order=True):
    """sv: a root's pulse. It flows down the forwarding tree, so nobody has a newer one than its parent."""

    epoch: int
    number: int


class SvJoin(msgspec.Struct, frozen=True, gc=False):
    """sv: find me a node that feeds me. As a join it is routed to the topic's key, as a probe it is handed
    straight down the RPF tree. ``path`` begins with the joiner and ends with the last node that passed it on;
    ``link`` is the id of the link that may come of it. ``beat``: only a newer one will do. ``tries``: how
    often it was tried before."""

    join: TreeJoin
    link: Id
    path: tuple[Peer, ...]
    beat: Beat | None = None
    tries: int = 0

    @property
    def topic(self) -> Id:
        """Which topic this is about."""
        return self.join.topic

    @property
    def descriptor(self) -> Descriptor:
        """Of that topic."""
        return self.join.descriptor


class SvCandidate(msgspec.Struct, frozen=True, gc=False):
    """sv: I can feed you. ``path`` leads from you to me."""

    topic: Id
    link: Id
    beat: Beat
    path: tuple[Peer, ...]


class SvBeat(msgspec.Struct, frozen=True, gc=False):
    """sv: I am still your parent by this link, and this is the last beat that I have. ``status``: of an
    ordered topic."""

    topic: Id
    link: Id
    beat: Beat
    status: TreeStatus | None = None


class SvSize(msgspec.Struct, frozen=True, gc=False):
    """sv: I am still your child by this link, with so many members in my subtree."""

    topic: Id
    link: Id
    members: int


class SvWant(msgspec.Struct, frozen=True, gc=False):
    """sv, from a child: somebody needs a beat that is newer than this."""

    topic: Id
    link: Id
    beat: Beat


class AnycastTaken(msgspec.Struct, frozen=True, gc=False):
    """I accept your anycast."""

    request: int


class AnycastOver(msgspec.Struct, frozen=True, gc=False):
    """Your anycast has seen the whole tree, unless it was ``cut``; so many have accepted it."""

    request: int
    accepted: int
    cut: bool = False
