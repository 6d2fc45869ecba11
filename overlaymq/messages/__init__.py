"""The closed vocabulary that travels between nodes.

Each control message is a frozen Struct whose name and fields equal those of a protobuf message in
``protos/overlaymq/v1``; ``transport/codec.py`` maps between the two with one piece of code, and a test
proves that every Struct has its twin. The core and the simulator pass these objects by reference.

A sender's identity is never a field that it fills in about itself: the link has proved it, and the
driver hands it over beside the message (``Received.peer``). ``Peer`` fields inside messages are hearsay
until a link to that peer has been opened.

``Batch`` is the data plane: consecutive publications of one origin on one topic. Its body is opaque to
everything between the publisher and the subscriber; see docs/architecture.md.

Each module is the twin of the file of its name in ``protos/overlaymq/v1``. Here are the union of all messages
and ``Routed``, which holds any of them: its type hints are looked up among the names of its own module.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from overlaymq.ids import Id
from overlaymq.messages.data import (
    Batch,
    Credit,
    Skipped,
    Window,
)
from overlaymq.messages.fuse import (
    FuseBroken,
    FuseCreate,
    FuseCreated,
    FuseFailed,
    FuseHeard,
    FuseInstall,
    FuseKey,
    FuseList,
    FusePing,
    FuseRepair,
    FuseRepaired,
    FuseSoft,
)
from overlaymq.messages.pastry import (
    Announce,
    Departing,
    Distance,
    Heartbeat,
    JoinRefused,
    JoinReply,
    JoinRequest,
    LeafProbe,
    LeafProbeReply,
    Lease,
    LookupReply,
    LookupRequest,
    Peer,
    Ping,
    Pong,
    RoutedAck,
    Row,
    RowOffer,
    SlotReply,
    SlotRequest,
    StateReply,
    StateRequest,
)
from overlaymq.messages.scamp import (
    BatchName,
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
from overlaymq.messages.strategy import (
    AnycastOver,
    AnycastTaken,
    BatchRefused,
    BatchSequenced,
    Beat,
    DeliveryIs,
    DeliveryQuery,
    Epoch,
    Handover,
    Lost,
    Place,
    Register,
    Registered,
    RootIs,
    RootQuery,
    RootState,
    Run,
    Sibling,
    SvBeat,
    SvCandidate,
    SvJoin,
    SvSize,
    SvWant,
    TreeAnycast,
    TreeBeat,
    TreeDrop,
    TreeGone,
    TreeHad,
    TreeHistory,
    TreeJoin,
    TreeJoined,
    TreeJoins,
    TreeLeave,
    TreeNeed,
    TreeNote,
    TreeRefresh,
    TreeRefused,
    TreeReplay,
    TreeStable,
    TreeStatus,
    TreeTold,
    Unregister,
)
from overlaymq.messages.topics import (
    Descriptor,
    TopicOpen,
    TopicOpened,
    TopicReplica,
)

__all__ = [
    "Announce",
    "AnycastOver",
    "AnycastTaken",
    "Batch",
    "BatchName",
    "BatchRefused",
    "BatchSequenced",
    "Beat",
    "Credit",
    "DeliveryIs",
    "DeliveryQuery",
    "Departing",
    "Descriptor",
    "Distance",
    "Epoch",
    "FuseBroken",
    "FuseCreate",
    "FuseCreated",
    "FuseFailed",
    "FuseHeard",
    "FuseInstall",
    "FuseKey",
    "FuseList",
    "FusePing",
    "FuseRepair",
    "FuseRepaired",
    "FuseSoft",
    "Handover",
    "Heartbeat",
    "JoinRefused",
    "JoinReply",
    "JoinRequest",
    "LeafProbe",
    "LeafProbeReply",
    "Lease",
    "LookupReply",
    "LookupRequest",
    "Lost",
    "Message",
    "Peer",
    "Ping",
    "Place",
    "Pong",
    "Register",
    "Registered",
    "RootIs",
    "RootQuery",
    "RootState",
    "Routed",
    "RoutedAck",
    "Row",
    "RowOffer",
    "Run",
    "ScampAccepted",
    "ScampBeacon",
    "ScampBeat",
    "ScampContacts",
    "ScampForget",
    "ScampForward",
    "ScampGraft",
    "ScampHave",
    "ScampKept",
    "ScampPrune",
    "ScampReplace",
    "ScampSubscribe",
    "ScampTaken",
    "ScampWeight",
    "Sibling",
    "Skipped",
    "SlotReply",
    "SlotRequest",
    "StateReply",
    "StateRequest",
    "SvBeat",
    "SvCandidate",
    "SvJoin",
    "SvSize",
    "SvWant",
    "TopicOpen",
    "TopicOpened",
    "TopicReplica",
    "TreeAnycast",
    "TreeBeat",
    "TreeDrop",
    "TreeGone",
    "TreeHad",
    "TreeHistory",
    "TreeJoin",
    "TreeJoined",
    "TreeJoins",
    "TreeLeave",
    "TreeNeed",
    "TreeNote",
    "TreeRefresh",
    "TreeRefused",
    "TreeReplay",
    "TreeStable",
    "TreeStatus",
    "TreeTold",
    "Unregister",
    "Window",
]


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
    | BatchRefused
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
    | TreeHad
    | TreeHistory
    | TreeReplay
    | TreeStable
    | DeliveryQuery
    | DeliveryIs
    | TreeTold
    | RootState
    | BatchSequenced
    | TreeJoins
    | TreeDrop
    | TreeAnycast
    | SvJoin
    | SvCandidate
    | SvBeat
    | SvSize
    | SvWant
    | AnycastTaken
    | AnycastOver
    | FuseCreate
    | FuseCreated
    | FuseInstall
    | FuseBroken
    | FuseRepair
    | FuseRepaired
    | FuseSoft
    | FuseFailed
    | FuseHeard
    | FusePing
    | FuseList
    | ScampContacts
    | ScampSubscribe
    | ScampAccepted
    | ScampForward
    | ScampKept
    | ScampReplace
    | ScampForget
    | ScampBeat
    | ScampWeight
    | ScampBeacon
    | ScampHave
    | ScampGraft
    | ScampPrune
    | ScampTaken
    | Skipped
    | Credit
    | Window
    | Batch
)
