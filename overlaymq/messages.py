"""The closed vocabulary that travels between nodes.

Each control message is a frozen Struct whose name and fields equal those of a protobuf message in
``protos/overlaymq/v1``; ``transport/codec.py`` maps between the two with one piece of code, and a test
proves that every Struct has its twin. The core and the simulator pass these objects by reference.

A sender's identity is never a field that it fills in about itself: the link has proved it, and the
driver hands it over beside the message (``Received.peer``). ``Peer`` fields inside messages are hearsay
until a link to that peer has been opened.

``Batch`` is the data plane: consecutive publications of one origin on one topic. Its body is opaque to
everything between the publisher and the subscriber; see docs/architecture.md.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from overlaymq.ids import Id


class Peer(msgspec.Struct, frozen=True, gc=False):
    """How to reach a node. A restarted node has a larger incarnation."""

    id: Id
    address: str
    incarnation: int = 0


# --- Pastry ----------------------------------------------------------------------------------------


class Row(msgspec.Struct, frozen=True, gc=False):
    """One routing table row, or what is known of it."""

    number: int
    entries: tuple[Peer, ...] = ()


class Routed(msgspec.Struct, frozen=True, gc=False):
    """A message on its way to the node closest to ``key``; ``serial`` is the last hop's, for its ack.

    ``origin_serial`` is a random number that the source gives and no hop changes, so that copies of one
    message are known for what they are; 0 says nothing."""

    key: Id
    source: Peer
    serial: int
    hops: int
    body: Message
    randomize: bool = False
    origin_serial: int = 0


class RoutedAck(msgspec.Struct, frozen=True, gc=False):
    """The next hop has accepted (not delivered) a routed message."""

    serial: int


class JoinRequest(msgspec.Struct, frozen=True, gc=False):
    """Routed to the joiner's own id; collects routing table rows on its way."""

    joiner: Peer
    rows: tuple[Row, ...] = ()


class JoinReply(msgspec.Struct, frozen=True, gc=False):
    """From the node closest to the joiner: the collected rows and its own leaf set."""

    rows: tuple[Row, ...] = ()
    leaves: tuple[Peer, ...] = ()


class JoinRefused(msgspec.Struct, frozen=True, gc=False):
    """Why the joiner may not enter: its id is live somewhere else, or the node is not ready."""

    reason: str
    fatal: bool = False


class StateRequest(msgspec.Struct, frozen=True, gc=False):
    """Ask for parts of a node's state. ``deepest`` asks how many rows are populated."""

    serial: int
    rows: tuple[int, ...] = ()
    leaves: bool = False
    neighbours: bool = False


class StateReply(msgspec.Struct, frozen=True, gc=False):
    """What was asked for; ``depth`` is the number of populated rows."""

    serial: int
    depth: int = 0
    rows: tuple[Row, ...] = ()
    leaves: tuple[Peer, ...] = ()
    neighbours: tuple[Peer, ...] = ()


class LeafProbe(msgspec.Struct, frozen=True, gc=False):
    """Are you there, and who is near you? Carries what the sender believes (MSPastry LS-PROBE), and
    whether it is active or still joining."""

    leaves: tuple[Peer, ...] = ()
    failed: tuple[Id, ...] = ()
    active: bool = True


class LeafProbeReply(msgspec.Struct, frozen=True, gc=False):
    """The answer, with the answerer's beliefs."""

    leaves: tuple[Peer, ...] = ()
    failed: tuple[Id, ...] = ()
    active: bool = True


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """I am alive and take you for my neighbour: may I answer for my keys? ``asked_at``: my clock."""

    asked_at: float


class Lease(msgspec.Struct, frozen=True, gc=False):
    """You may, for a while from when you asked; till then I keep you."""

    asked_at: float


class Announce(msgspec.Struct, frozen=True, gc=False):
    """I am active now. Rows that the receiver may take entries from."""

    rows: tuple[Row, ...] = ()


class SlotRequest(msgspec.Struct, frozen=True, gc=False):
    """Lazy repair: who do you know for this routing table slot?"""

    row: int
    column: int


class SlotReply(msgspec.Struct, frozen=True, gc=False):
    """The entry of that slot, if there is one."""

    row: int
    column: int
    entry: Peer | None = None


class RowOffer(msgspec.Struct, frozen=True, gc=False):
    """Here is a row of mine (hole patching and periodic exchange); ``reply`` asks for yours."""

    row: Row
    reply: bool = False


class Distance(msgspec.Struct, frozen=True, gc=False):
    """I measured this round trip to you, so you need not (MSPastry's symmetric probes)."""

    seconds: float


class Departing(msgspec.Struct, frozen=True, gc=False):
    """I leave on purpose; my leaf set may help you close the gap."""

    leaves: tuple[Peer, ...] = ()


class LookupRequest(msgspec.Struct, frozen=True, gc=False):
    """Who owns this key? Routed to it."""

    request: int


class LookupReply(msgspec.Struct, frozen=True, gc=False):
    """I do; it took this many hops."""

    request: int
    key: Id
    hops: int


class Ping(msgspec.Struct, frozen=True, gc=False):
    """A round trip through both cores (the transport's own probes stop at its I/O thread)."""

    request: int


class Pong(msgspec.Struct, frozen=True, gc=False):
    """The way back."""

    request: int


# --- Topics ----------------------------------------------------------------------------------------


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


# --- Strategies ------------------------------------------------------------------------------------


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


class RootUnknown(msgspec.Struct, frozen=True, gc=False):
    """You take me for the topic's root. I am not, and I do not know who is."""

    topic: Id


class Handover(msgspec.Struct, frozen=True, gc=False):
    """You are closer to the key than I am; here is what I know. ``members``: of a direct topic;
    ``epoch``: how often a scribe topic's root has changed; ``state``: of an ordered topic."""

    descriptor: Descriptor
    members: tuple[Peer, ...] = ()
    epoch: int = 0
    state: RootState | None = None


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
    whom the batch came from, and routed to its origin if that is another one. No place: it is forgotten."""

    topic: Id
    origin: Id
    epoch: int
    first: int
    chunk: int
    place: Place | None = None


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


class AnycastTaken(msgspec.Struct, frozen=True, gc=False):
    """I accept your anycast."""

    request: int


class AnycastOver(msgspec.Struct, frozen=True, gc=False):
    """Your anycast has seen the whole tree, unless it was ``cut``; so many have accepted it."""

    request: int
    accepted: int
    cut: bool = False


# --- Data ------------------------------------------------------------------------------------------


class Batch(msgspec.Struct, gc=False):
    """Consecutive publications of one origin on one topic: ``count`` messages from sequence ``first``.

    A message's id is (origin, epoch, sequence). ``published_at`` is the origin's wall clock, in
    nanoseconds, when it opened the run. A payload above the chunk size travels as ``chunks`` batches of
    one sequence number. The first ``skip`` messages are not for the receiver (a replay cut inside a
    batch). ``root``, ``root_epoch`` and ``root_sequence`` are given by the topic's root when it spreads the
    batch: who it is, how often the topic's root has changed as far as it knows, and the number of the
    batch's first message among all that it spread. ``wire`` caches the encoded form of one hop, for fan-out.
    """

    topic: Id
    origin: Id
    epoch: int
    first: int
    count: int
    body: bytes
    published_at: int = 0
    hop: int = 0
    root: Id = Id(0)
    root_epoch: int = 0
    root_sequence: int = 0
    chunk: int = 0
    chunks: int = 1
    skip: int = 0
    wire: bytes | None = None

    @property
    def size(self) -> int:
        """What this batch counts for in bounds and credits: its bytes and a little for the header."""
        return len(self.body) + 64

    @property
    def last(self) -> int:
        """The sequence number of its last message."""
        return self.first + self.count - 1


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """Sent ahead of the next batch to a child that was too slow: this much of its share was dropped."""

    topic: Id
    messages: int
    bytes: int


class Credit(msgspec.Struct, frozen=True, gc=False):
    """Flow control between two drivers: ``total`` bytes of a topic are consumed since the link opened."""

    topic: Id
    total: int


Message: TypeAlias = (
    Routed
    | RoutedAck
    | JoinRequest
    | JoinReply
    | JoinRefused
    | StateRequest
    | StateReply
    | LeafProbe
    | LeafProbeReply
    | Heartbeat
    | Lease
    | Announce
    | SlotRequest
    | SlotReply
    | RowOffer
    | Distance
    | Departing
    | LookupRequest
    | LookupReply
    | Ping
    | Pong
    | TopicOpen
    | TopicOpened
    | TopicReplica
    | Register
    | Registered
    | Unregister
    | RootQuery
    | RootIs
    | RootUnknown
    | Handover
    | TreeJoin
    | TreeJoined
    | TreeRefused
    | TreeLeave
    | TreeRefresh
    | TreeBeat
    | TreeNote
    | TreeNeed
    | TreeGone
    | TreeTold
    | RootState
    | BatchSequenced
    | TreeJoins
    | TreeDrop
    | TreeAnycast
    | AnycastTaken
    | AnycastOver
    | Skipped
    | Credit
    | Batch
)
