from overlaymq.transport._pb.overlaymq.v1 import data_pb2 as _data_pb2
from overlaymq.transport._pb.overlaymq.v1 import fuse_pb2 as _fuse_pb2
from overlaymq.transport._pb.overlaymq.v1 import pastry_pb2 as _pastry_pb2
from overlaymq.transport._pb.overlaymq.v1 import scamp_pb2 as _scamp_pb2
from overlaymq.transport._pb.overlaymq.v1 import strategy_pb2 as _strategy_pb2
from overlaymq.transport._pb.overlaymq.v1 import topics_pb2 as _topics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("version", "id", "public_key", "incarnation", "address", "signature", "token")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    version: int
    id: bytes
    public_key: bytes
    incarnation: int
    address: str
    signature: bytes
    token: bytes
    def __init__(self, version: _Optional[int] = ..., id: _Optional[bytes] = ..., public_key: _Optional[bytes] = ..., incarnation: _Optional[int] = ..., address: _Optional[str] = ..., signature: _Optional[bytes] = ..., token: _Optional[bytes] = ...) -> None: ...

class ControlFrame(_message.Message):
    __slots__ = ("envelopes", "pings", "pongs", "goodbye", "clocks")
    ENVELOPES_FIELD_NUMBER: _ClassVar[int]
    PINGS_FIELD_NUMBER: _ClassVar[int]
    PONGS_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    CLOCKS_FIELD_NUMBER: _ClassVar[int]
    envelopes: _containers.RepeatedScalarFieldContainer[bytes]
    pings: _containers.RepeatedScalarFieldContainer[int]
    pongs: _containers.RepeatedScalarFieldContainer[int]
    goodbye: Goodbye
    clocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, envelopes: _Optional[_Iterable[bytes]] = ..., pings: _Optional[_Iterable[int]] = ..., pongs: _Optional[_Iterable[int]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., clocks: _Optional[_Iterable[int]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason", "refused")
    REASON_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    reason: str
    refused: bool
    def __init__(self, reason: _Optional[str] = ..., refused: bool = ...) -> None: ...

class DataFrame(_message.Message):
    __slots__ = ("batches",)
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[_data_pb2.Batch]
    def __init__(self, batches: _Optional[_Iterable[_Union[_data_pb2.Batch, _Mapping]]] = ...) -> None: ...

class Routed(_message.Message):
    __slots__ = ("key", "source", "serial", "hops", "body", "randomize", "origin_serial")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    RANDOMIZE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SERIAL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    source: _pastry_pb2.Peer
    serial: int
    hops: int
    body: Envelope
    randomize: bool
    origin_serial: int
    def __init__(self, key: _Optional[bytes] = ..., source: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., serial: _Optional[int] = ..., hops: _Optional[int] = ..., body: _Optional[_Union[Envelope, _Mapping]] = ..., randomize: bool = ..., origin_serial: _Optional[int] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("routed", "routed_ack", "join_request", "join_reply", "join_refused", "state_request", "state_reply", "leaf_probe", "leaf_probe_reply", "heartbeat", "announce", "slot_request", "slot_reply", "row_offer", "distance", "departing", "lookup_request", "lookup_reply", "ping", "pong", "topic_open", "topic_opened", "topic_replica", "register", "registered", "unregister", "root_query", "root_is", "handover", "skipped", "credit", "batch", "lease", "tree_join", "tree_joined", "tree_refused", "tree_leave", "tree_refresh", "tree_beat", "tree_note", "tree_joins", "tree_drop", "tree_anycast", "anycast_taken", "anycast_over", "tree_need", "tree_gone", "tree_told", "root_state", "batch_sequenced", "batch_refused", "fuse_create", "fuse_created", "fuse_install", "fuse_broken", "fuse_repair", "fuse_repaired", "fuse_soft", "fuse_failed", "fuse_heard", "fuse_ping", "fuse_list", "tree_had", "tree_stable", "delivery_query", "delivery_is", "sv_join", "sv_candidate", "sv_beat", "sv_size", "sv_want", "tree_history", "tree_replay", "scamp_contacts", "scamp_subscribe", "scamp_accepted", "scamp_forward", "scamp_kept", "scamp_replace", "scamp_forget", "scamp_beat", "scamp_weight", "scamp_beacon", "scamp_have", "scamp_graft", "scamp_prune", "scamp_taken", "window")
    ROUTED_FIELD_NUMBER: _ClassVar[int]
    ROUTED_ACK_FIELD_NUMBER: _ClassVar[int]
    JOIN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    JOIN_REPLY_FIELD_NUMBER: _ClassVar[int]
    JOIN_REFUSED_FIELD_NUMBER: _ClassVar[int]
    STATE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    STATE_REPLY_FIELD_NUMBER: _ClassVar[int]
    LEAF_PROBE_FIELD_NUMBER: _ClassVar[int]
    LEAF_PROBE_REPLY_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCE_FIELD_NUMBER: _ClassVar[int]
    SLOT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    SLOT_REPLY_FIELD_NUMBER: _ClassVar[int]
    ROW_OFFER_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_FIELD_NUMBER: _ClassVar[int]
    DEPARTING_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_REPLY_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    TOPIC_OPEN_FIELD_NUMBER: _ClassVar[int]
    TOPIC_OPENED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REPLICA_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    ROOT_QUERY_FIELD_NUMBER: _ClassVar[int]
    ROOT_IS_FIELD_NUMBER: _ClassVar[int]
    HANDOVER_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TREE_JOIN_FIELD_NUMBER: _ClassVar[int]
    TREE_JOINED_FIELD_NUMBER: _ClassVar[int]
    TREE_REFUSED_FIELD_NUMBER: _ClassVar[int]
    TREE_LEAVE_FIELD_NUMBER: _ClassVar[int]
    TREE_REFRESH_FIELD_NUMBER: _ClassVar[int]
    TREE_BEAT_FIELD_NUMBER: _ClassVar[int]
    TREE_NOTE_FIELD_NUMBER: _ClassVar[int]
    TREE_JOINS_FIELD_NUMBER: _ClassVar[int]
    TREE_DROP_FIELD_NUMBER: _ClassVar[int]
    TREE_ANYCAST_FIELD_NUMBER: _ClassVar[int]
    ANYCAST_TAKEN_FIELD_NUMBER: _ClassVar[int]
    ANYCAST_OVER_FIELD_NUMBER: _ClassVar[int]
    TREE_NEED_FIELD_NUMBER: _ClassVar[int]
    TREE_GONE_FIELD_NUMBER: _ClassVar[int]
    TREE_TOLD_FIELD_NUMBER: _ClassVar[int]
    ROOT_STATE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SEQUENCED_FIELD_NUMBER: _ClassVar[int]
    BATCH_REFUSED_FIELD_NUMBER: _ClassVar[int]
    FUSE_CREATE_FIELD_NUMBER: _ClassVar[int]
    FUSE_CREATED_FIELD_NUMBER: _ClassVar[int]
    FUSE_INSTALL_FIELD_NUMBER: _ClassVar[int]
    FUSE_BROKEN_FIELD_NUMBER: _ClassVar[int]
    FUSE_REPAIR_FIELD_NUMBER: _ClassVar[int]
    FUSE_REPAIRED_FIELD_NUMBER: _ClassVar[int]
    FUSE_SOFT_FIELD_NUMBER: _ClassVar[int]
    FUSE_FAILED_FIELD_NUMBER: _ClassVar[int]
    FUSE_HEARD_FIELD_NUMBER: _ClassVar[int]
    FUSE_PING_FIELD_NUMBER: _ClassVar[int]
    FUSE_LIST_FIELD_NUMBER: _ClassVar[int]
    TREE_HAD_FIELD_NUMBER: _ClassVar[int]
    TREE_STABLE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_QUERY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_IS_FIELD_NUMBER: _ClassVar[int]
    SV_JOIN_FIELD_NUMBER: _ClassVar[int]
    SV_CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    SV_BEAT_FIELD_NUMBER: _ClassVar[int]
    SV_SIZE_FIELD_NUMBER: _ClassVar[int]
    SV_WANT_FIELD_NUMBER: _ClassVar[int]
    TREE_HISTORY_FIELD_NUMBER: _ClassVar[int]
    TREE_REPLAY_FIELD_NUMBER: _ClassVar[int]
    SCAMP_CONTACTS_FIELD_NUMBER: _ClassVar[int]
    SCAMP_SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    SCAMP_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    SCAMP_FORWARD_FIELD_NUMBER: _ClassVar[int]
    SCAMP_KEPT_FIELD_NUMBER: _ClassVar[int]
    SCAMP_REPLACE_FIELD_NUMBER: _ClassVar[int]
    SCAMP_FORGET_FIELD_NUMBER: _ClassVar[int]
    SCAMP_BEAT_FIELD_NUMBER: _ClassVar[int]
    SCAMP_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SCAMP_BEACON_FIELD_NUMBER: _ClassVar[int]
    SCAMP_HAVE_FIELD_NUMBER: _ClassVar[int]
    SCAMP_GRAFT_FIELD_NUMBER: _ClassVar[int]
    SCAMP_PRUNE_FIELD_NUMBER: _ClassVar[int]
    SCAMP_TAKEN_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    routed: Routed
    routed_ack: _pastry_pb2.RoutedAck
    join_request: _pastry_pb2.JoinRequest
    join_reply: _pastry_pb2.JoinReply
    join_refused: _pastry_pb2.JoinRefused
    state_request: _pastry_pb2.StateRequest
    state_reply: _pastry_pb2.StateReply
    leaf_probe: _pastry_pb2.LeafProbe
    leaf_probe_reply: _pastry_pb2.LeafProbeReply
    heartbeat: _pastry_pb2.Heartbeat
    announce: _pastry_pb2.Announce
    slot_request: _pastry_pb2.SlotRequest
    slot_reply: _pastry_pb2.SlotReply
    row_offer: _pastry_pb2.RowOffer
    distance: _pastry_pb2.Distance
    departing: _pastry_pb2.Departing
    lookup_request: _pastry_pb2.LookupRequest
    lookup_reply: _pastry_pb2.LookupReply
    ping: _pastry_pb2.Ping
    pong: _pastry_pb2.Pong
    topic_open: _topics_pb2.TopicOpen
    topic_opened: _topics_pb2.TopicOpened
    topic_replica: _topics_pb2.TopicReplica
    register: _strategy_pb2.Register
    registered: _strategy_pb2.Registered
    unregister: _strategy_pb2.Unregister
    root_query: _strategy_pb2.RootQuery
    root_is: _strategy_pb2.RootIs
    handover: _strategy_pb2.Handover
    skipped: _data_pb2.Skipped
    credit: _data_pb2.Credit
    batch: _data_pb2.Batch
    lease: _pastry_pb2.Lease
    tree_join: _strategy_pb2.TreeJoin
    tree_joined: _strategy_pb2.TreeJoined
    tree_refused: _strategy_pb2.TreeRefused
    tree_leave: _strategy_pb2.TreeLeave
    tree_refresh: _strategy_pb2.TreeRefresh
    tree_beat: _strategy_pb2.TreeBeat
    tree_note: _strategy_pb2.TreeNote
    tree_joins: _strategy_pb2.TreeJoins
    tree_drop: _strategy_pb2.TreeDrop
    tree_anycast: _strategy_pb2.TreeAnycast
    anycast_taken: _strategy_pb2.AnycastTaken
    anycast_over: _strategy_pb2.AnycastOver
    tree_need: _strategy_pb2.TreeNeed
    tree_gone: _strategy_pb2.TreeGone
    tree_told: _strategy_pb2.TreeTold
    root_state: _strategy_pb2.RootState
    batch_sequenced: _strategy_pb2.BatchSequenced
    batch_refused: _strategy_pb2.BatchRefused
    fuse_create: _fuse_pb2.FuseCreate
    fuse_created: _fuse_pb2.FuseCreated
    fuse_install: _fuse_pb2.FuseInstall
    fuse_broken: _fuse_pb2.FuseBroken
    fuse_repair: _fuse_pb2.FuseRepair
    fuse_repaired: _fuse_pb2.FuseRepaired
    fuse_soft: _fuse_pb2.FuseSoft
    fuse_failed: _fuse_pb2.FuseFailed
    fuse_heard: _fuse_pb2.FuseHeard
    fuse_ping: _fuse_pb2.FusePing
    fuse_list: _fuse_pb2.FuseList
    tree_had: _strategy_pb2.TreeHad
    tree_stable: _strategy_pb2.TreeStable
    delivery_query: _strategy_pb2.DeliveryQuery
    delivery_is: _strategy_pb2.DeliveryIs
    sv_join: _strategy_pb2.SvJoin
    sv_candidate: _strategy_pb2.SvCandidate
    sv_beat: _strategy_pb2.SvBeat
    sv_size: _strategy_pb2.SvSize
    sv_want: _strategy_pb2.SvWant
    tree_history: _strategy_pb2.TreeHistory
    tree_replay: _strategy_pb2.TreeReplay
    scamp_contacts: _scamp_pb2.ScampContacts
    scamp_subscribe: _scamp_pb2.ScampSubscribe
    scamp_accepted: _scamp_pb2.ScampAccepted
    scamp_forward: _scamp_pb2.ScampForward
    scamp_kept: _scamp_pb2.ScampKept
    scamp_replace: _scamp_pb2.ScampReplace
    scamp_forget: _scamp_pb2.ScampForget
    scamp_beat: _scamp_pb2.ScampBeat
    scamp_weight: _scamp_pb2.ScampWeight
    scamp_beacon: _scamp_pb2.ScampBeacon
    scamp_have: _scamp_pb2.ScampHave
    scamp_graft: _scamp_pb2.ScampGraft
    scamp_prune: _scamp_pb2.ScampPrune
    scamp_taken: _scamp_pb2.ScampTaken
    window: _data_pb2.Window
    def __init__(self, routed: _Optional[_Union[Routed, _Mapping]] = ..., routed_ack: _Optional[_Union[_pastry_pb2.RoutedAck, _Mapping]] = ..., join_request: _Optional[_Union[_pastry_pb2.JoinRequest, _Mapping]] = ..., join_reply: _Optional[_Union[_pastry_pb2.JoinReply, _Mapping]] = ..., join_refused: _Optional[_Union[_pastry_pb2.JoinRefused, _Mapping]] = ..., state_request: _Optional[_Union[_pastry_pb2.StateRequest, _Mapping]] = ..., state_reply: _Optional[_Union[_pastry_pb2.StateReply, _Mapping]] = ..., leaf_probe: _Optional[_Union[_pastry_pb2.LeafProbe, _Mapping]] = ..., leaf_probe_reply: _Optional[_Union[_pastry_pb2.LeafProbeReply, _Mapping]] = ..., heartbeat: _Optional[_Union[_pastry_pb2.Heartbeat, _Mapping]] = ..., announce: _Optional[_Union[_pastry_pb2.Announce, _Mapping]] = ..., slot_request: _Optional[_Union[_pastry_pb2.SlotRequest, _Mapping]] = ..., slot_reply: _Optional[_Union[_pastry_pb2.SlotReply, _Mapping]] = ..., row_offer: _Optional[_Union[_pastry_pb2.RowOffer, _Mapping]] = ..., distance: _Optional[_Union[_pastry_pb2.Distance, _Mapping]] = ..., departing: _Optional[_Union[_pastry_pb2.Departing, _Mapping]] = ..., lookup_request: _Optional[_Union[_pastry_pb2.LookupRequest, _Mapping]] = ..., lookup_reply: _Optional[_Union[_pastry_pb2.LookupReply, _Mapping]] = ..., ping: _Optional[_Union[_pastry_pb2.Ping, _Mapping]] = ..., pong: _Optional[_Union[_pastry_pb2.Pong, _Mapping]] = ..., topic_open: _Optional[_Union[_topics_pb2.TopicOpen, _Mapping]] = ..., topic_opened: _Optional[_Union[_topics_pb2.TopicOpened, _Mapping]] = ..., topic_replica: _Optional[_Union[_topics_pb2.TopicReplica, _Mapping]] = ..., register: _Optional[_Union[_strategy_pb2.Register, _Mapping]] = ..., registered: _Optional[_Union[_strategy_pb2.Registered, _Mapping]] = ..., unregister: _Optional[_Union[_strategy_pb2.Unregister, _Mapping]] = ..., root_query: _Optional[_Union[_strategy_pb2.RootQuery, _Mapping]] = ..., root_is: _Optional[_Union[_strategy_pb2.RootIs, _Mapping]] = ..., handover: _Optional[_Union[_strategy_pb2.Handover, _Mapping]] = ..., skipped: _Optional[_Union[_data_pb2.Skipped, _Mapping]] = ..., credit: _Optional[_Union[_data_pb2.Credit, _Mapping]] = ..., batch: _Optional[_Union[_data_pb2.Batch, _Mapping]] = ..., lease: _Optional[_Union[_pastry_pb2.Lease, _Mapping]] = ..., tree_join: _Optional[_Union[_strategy_pb2.TreeJoin, _Mapping]] = ..., tree_joined: _Optional[_Union[_strategy_pb2.TreeJoined, _Mapping]] = ..., tree_refused: _Optional[_Union[_strategy_pb2.TreeRefused, _Mapping]] = ..., tree_leave: _Optional[_Union[_strategy_pb2.TreeLeave, _Mapping]] = ..., tree_refresh: _Optional[_Union[_strategy_pb2.TreeRefresh, _Mapping]] = ..., tree_beat: _Optional[_Union[_strategy_pb2.TreeBeat, _Mapping]] = ..., tree_note: _Optional[_Union[_strategy_pb2.TreeNote, _Mapping]] = ..., tree_joins: _Optional[_Union[_strategy_pb2.TreeJoins, _Mapping]] = ..., tree_drop: _Optional[_Union[_strategy_pb2.TreeDrop, _Mapping]] = ..., tree_anycast: _Optional[_Union[_strategy_pb2.TreeAnycast, _Mapping]] = ..., anycast_taken: _Optional[_Union[_strategy_pb2.AnycastTaken, _Mapping]] = ..., anycast_over: _Optional[_Union[_strategy_pb2.AnycastOver, _Mapping]] = ..., tree_need: _Optional[_Union[_strategy_pb2.TreeNeed, _Mapping]] = ..., tree_gone: _Optional[_Union[_strategy_pb2.TreeGone, _Mapping]] = ..., tree_told: _Optional[_Union[_strategy_pb2.TreeTold, _Mapping]] = ..., root_state: _Optional[_Union[_strategy_pb2.RootState, _Mapping]] = ..., batch_sequenced: _Optional[_Union[_strategy_pb2.BatchSequenced, _Mapping]] = ..., batch_refused: _Optional[_Union[_strategy_pb2.BatchRefused, _Mapping]] = ..., fuse_create: _Optional[_Union[_fuse_pb2.FuseCreate, _Mapping]] = ..., fuse_created: _Optional[_Union[_fuse_pb2.FuseCreated, _Mapping]] = ..., fuse_install: _Optional[_Union[_fuse_pb2.FuseInstall, _Mapping]] = ..., fuse_broken: _Optional[_Union[_fuse_pb2.FuseBroken, _Mapping]] = ..., fuse_repair: _Optional[_Union[_fuse_pb2.FuseRepair, _Mapping]] = ..., fuse_repaired: _Optional[_Union[_fuse_pb2.FuseRepaired, _Mapping]] = ..., fuse_soft: _Optional[_Union[_fuse_pb2.FuseSoft, _Mapping]] = ..., fuse_failed: _Optional[_Union[_fuse_pb2.FuseFailed, _Mapping]] = ..., fuse_heard: _Optional[_Union[_fuse_pb2.FuseHeard, _Mapping]] = ..., fuse_ping: _Optional[_Union[_fuse_pb2.FusePing, _Mapping]] = ..., fuse_list: _Optional[_Union[_fuse_pb2.FuseList, _Mapping]] = ..., tree_had: _Optional[_Union[_strategy_pb2.TreeHad, _Mapping]] = ..., tree_stable: _Optional[_Union[_strategy_pb2.TreeStable, _Mapping]] = ..., delivery_query: _Optional[_Union[_strategy_pb2.DeliveryQuery, _Mapping]] = ..., delivery_is: _Optional[_Union[_strategy_pb2.DeliveryIs, _Mapping]] = ..., sv_join: _Optional[_Union[_strategy_pb2.SvJoin, _Mapping]] = ..., sv_candidate: _Optional[_Union[_strategy_pb2.SvCandidate, _Mapping]] = ..., sv_beat: _Optional[_Union[_strategy_pb2.SvBeat, _Mapping]] = ..., sv_size: _Optional[_Union[_strategy_pb2.SvSize, _Mapping]] = ..., sv_want: _Optional[_Union[_strategy_pb2.SvWant, _Mapping]] = ..., tree_history: _Optional[_Union[_strategy_pb2.TreeHistory, _Mapping]] = ..., tree_replay: _Optional[_Union[_strategy_pb2.TreeReplay, _Mapping]] = ..., scamp_contacts: _Optional[_Union[_scamp_pb2.ScampContacts, _Mapping]] = ..., scamp_subscribe: _Optional[_Union[_scamp_pb2.ScampSubscribe, _Mapping]] = ..., scamp_accepted: _Optional[_Union[_scamp_pb2.ScampAccepted, _Mapping]] = ..., scamp_forward: _Optional[_Union[_scamp_pb2.ScampForward, _Mapping]] = ..., scamp_kept: _Optional[_Union[_scamp_pb2.ScampKept, _Mapping]] = ..., scamp_replace: _Optional[_Union[_scamp_pb2.ScampReplace, _Mapping]] = ..., scamp_forget: _Optional[_Union[_scamp_pb2.ScampForget, _Mapping]] = ..., scamp_beat: _Optional[_Union[_scamp_pb2.ScampBeat, _Mapping]] = ..., scamp_weight: _Optional[_Union[_scamp_pb2.ScampWeight, _Mapping]] = ..., scamp_beacon: _Optional[_Union[_scamp_pb2.ScampBeacon, _Mapping]] = ..., scamp_have: _Optional[_Union[_scamp_pb2.ScampHave, _Mapping]] = ..., scamp_graft: _Optional[_Union[_scamp_pb2.ScampGraft, _Mapping]] = ..., scamp_prune: _Optional[_Union[_scamp_pb2.ScampPrune, _Mapping]] = ..., scamp_taken: _Optional[_Union[_scamp_pb2.ScampTaken, _Mapping]] = ..., window: _Optional[_Union[_data_pb2.Window, _Mapping]] = ...) -> None: ...
