from overlaymq.transport._pb.overlaymq.v1 import pastry_pb2 as _pastry_pb2
from overlaymq.transport._pb.overlaymq.v1 import topics_pb2 as _topics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Register(_message.Message):
    __slots__ = ("topic", "member", "descriptor", "last", "note")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    member: _pastry_pb2.Peer
    descriptor: _topics_pb2.Descriptor
    last: int
    note: bytes
    def __init__(self, topic: _Optional[bytes] = ..., member: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., last: _Optional[int] = ..., note: _Optional[bytes] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("topic", "members")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    members: int
    def __init__(self, topic: _Optional[bytes] = ..., members: _Optional[int] = ...) -> None: ...

class Unregister(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    def __init__(self, topic: _Optional[bytes] = ...) -> None: ...

class RootQuery(_message.Message):
    __slots__ = ("topic", "descriptor")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    descriptor: _topics_pb2.Descriptor
    def __init__(self, topic: _Optional[bytes] = ..., descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ...) -> None: ...

class RootIs(_message.Message):
    __slots__ = ("topic", "root", "members")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    root: _pastry_pb2.Peer
    members: int
    def __init__(self, topic: _Optional[bytes] = ..., root: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., members: _Optional[int] = ...) -> None: ...

class BatchRefused(_message.Message):
    __slots__ = ("topic", "origin", "epoch", "first", "chunk", "root")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    origin: bytes
    epoch: int
    first: int
    chunk: int
    root: _pastry_pb2.Peer
    def __init__(self, topic: _Optional[bytes] = ..., origin: _Optional[bytes] = ..., epoch: _Optional[int] = ..., first: _Optional[int] = ..., chunk: _Optional[int] = ..., root: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ...) -> None: ...

class Handover(_message.Message):
    __slots__ = ("descriptor", "members", "epoch", "state", "size")
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    descriptor: _topics_pb2.Descriptor
    members: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    epoch: int
    state: RootState
    size: int
    def __init__(self, descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., members: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ..., epoch: _Optional[int] = ..., state: _Optional[_Union[RootState, _Mapping]] = ..., size: _Optional[int] = ...) -> None: ...

class TreeJoin(_message.Message):
    __slots__ = ("topic", "child", "descriptor", "members", "last", "note", "expects", "via", "credentials", "serial")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    EXPECTS_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    child: _pastry_pb2.Peer
    descriptor: _topics_pb2.Descriptor
    members: int
    last: int
    note: bytes
    expects: Place
    via: _pastry_pb2.Peer
    credentials: bytes
    serial: int
    def __init__(self, topic: _Optional[bytes] = ..., child: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., members: _Optional[int] = ..., last: _Optional[int] = ..., note: _Optional[bytes] = ..., expects: _Optional[_Union[Place, _Mapping]] = ..., via: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., credentials: _Optional[bytes] = ..., serial: _Optional[int] = ...) -> None: ...

class TreeJoins(_message.Message):
    __slots__ = ("joins",)
    JOINS_FIELD_NUMBER: _ClassVar[int]
    joins: _containers.RepeatedCompositeFieldContainer[TreeJoin]
    def __init__(self, joins: _Optional[_Iterable[_Union[TreeJoin, _Mapping]]] = ...) -> None: ...

class TreeJoined(_message.Message):
    __slots__ = ("topic", "path", "rooted", "status", "serial")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROOTED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    path: _containers.RepeatedScalarFieldContainer[bytes]
    rooted: bool
    status: TreeStatus
    serial: int
    def __init__(self, topic: _Optional[bytes] = ..., path: _Optional[_Iterable[bytes]] = ..., rooted: bool = ..., status: _Optional[_Union[TreeStatus, _Mapping]] = ..., serial: _Optional[int] = ...) -> None: ...

class TreeRefused(_message.Message):
    __slots__ = ("topic", "looped")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LOOPED_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    looped: bool
    def __init__(self, topic: _Optional[bytes] = ..., looped: bool = ...) -> None: ...

class TreeLeave(_message.Message):
    __slots__ = ("topic", "serial")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    serial: int
    def __init__(self, topic: _Optional[bytes] = ..., serial: _Optional[int] = ...) -> None: ...

class TreeRefresh(_message.Message):
    __slots__ = ("topic", "members", "yields_to", "path")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    YIELDS_TO_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    members: int
    yields_to: _pastry_pb2.Peer
    path: int
    def __init__(self, topic: _Optional[bytes] = ..., members: _Optional[int] = ..., yields_to: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., path: _Optional[int] = ...) -> None: ...

class TreeBeat(_message.Message):
    __slots__ = ("topic", "status")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    status: TreeStatus
    def __init__(self, topic: _Optional[bytes] = ..., status: _Optional[_Union[TreeStatus, _Mapping]] = ...) -> None: ...

class TreeNote(_message.Message):
    __slots__ = ("topic", "note")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    note: bytes
    def __init__(self, topic: _Optional[bytes] = ..., note: _Optional[bytes] = ...) -> None: ...

class Epoch(_message.Message):
    __slots__ = ("counter", "root")
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    counter: int
    root: bytes
    def __init__(self, counter: _Optional[int] = ..., root: _Optional[bytes] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("epoch", "sequence")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    sequence: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("origin", "epoch", "first", "last")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    origin: bytes
    epoch: int
    first: int
    last: int
    def __init__(self, origin: _Optional[bytes] = ..., epoch: _Optional[int] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class RootState(_message.Message):
    __slots__ = ("descriptor", "status", "window")
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    descriptor: _topics_pb2.Descriptor
    status: TreeStatus
    window: _containers.RepeatedCompositeFieldContainer[Run]
    def __init__(self, descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., status: _Optional[_Union[TreeStatus, _Mapping]] = ..., window: _Optional[_Iterable[_Union[Run, _Mapping]]] = ...) -> None: ...

class BatchSequenced(_message.Message):
    __slots__ = ("topic", "origin", "epoch", "first", "chunk", "place", "stopped")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    origin: bytes
    epoch: int
    first: int
    chunk: int
    place: Place
    stopped: bool
    def __init__(self, topic: _Optional[bytes] = ..., origin: _Optional[bytes] = ..., epoch: _Optional[int] = ..., first: _Optional[int] = ..., chunk: _Optional[int] = ..., place: _Optional[_Union[Place, _Mapping]] = ..., stopped: bool = ...) -> None: ...

class TreeNeed(_message.Message):
    __slots__ = ("topic", "epoch", "first", "last")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    epoch: Epoch
    first: int
    last: int
    def __init__(self, topic: _Optional[bytes] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class TreeGone(_message.Message):
    __slots__ = ("topic", "epoch", "first", "last")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    epoch: Epoch
    first: int
    last: int
    def __init__(self, topic: _Optional[bytes] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class TreeTold(_message.Message):
    __slots__ = ("topic", "status")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    status: TreeStatus
    def __init__(self, topic: _Optional[bytes] = ..., status: _Optional[_Union[TreeStatus, _Mapping]] = ...) -> None: ...

class TreeHistory(_message.Message):
    __slots__ = ("topic", "last", "most")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    last: int
    most: int
    def __init__(self, topic: _Optional[bytes] = ..., last: _Optional[int] = ..., most: _Optional[int] = ...) -> None: ...

class TreeReplay(_message.Message):
    __slots__ = ("topic", "batches", "held", "above")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    batches: int
    held: int
    above: _pastry_pb2.Peer
    def __init__(self, topic: _Optional[bytes] = ..., batches: _Optional[int] = ..., held: _Optional[int] = ..., above: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("first", "last", "members")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    first: Place
    last: Place
    members: int
    def __init__(self, first: _Optional[_Union[Place, _Mapping]] = ..., last: _Optional[_Union[Place, _Mapping]] = ..., members: _Optional[int] = ...) -> None: ...

class TreeHad(_message.Message):
    __slots__ = ("topic", "members", "had", "kept", "lost")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    HAD_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    members: int
    had: Place
    kept: Place
    lost: _containers.RepeatedCompositeFieldContainer[Lost]
    def __init__(self, topic: _Optional[bytes] = ..., members: _Optional[int] = ..., had: _Optional[_Union[Place, _Mapping]] = ..., kept: _Optional[_Union[Place, _Mapping]] = ..., lost: _Optional[_Iterable[_Union[Lost, _Mapping]]] = ...) -> None: ...

class TreeStable(_message.Message):
    __slots__ = ("topic", "place")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    place: Place
    def __init__(self, topic: _Optional[bytes] = ..., place: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class DeliveryQuery(_message.Message):
    __slots__ = ("topic", "descriptor", "first", "last")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    descriptor: _topics_pb2.Descriptor
    first: Place
    last: Place
    def __init__(self, topic: _Optional[bytes] = ..., descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., first: _Optional[_Union[Place, _Mapping]] = ..., last: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class DeliveryIs(_message.Message):
    __slots__ = ("topic", "first", "last", "members", "had", "final")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    HAD_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    first: Place
    last: Place
    members: int
    had: int
    final: bool
    def __init__(self, topic: _Optional[bytes] = ..., first: _Optional[_Union[Place, _Mapping]] = ..., last: _Optional[_Union[Place, _Mapping]] = ..., members: _Optional[int] = ..., had: _Optional[int] = ..., final: bool = ...) -> None: ...

class TreeStatus(_message.Message):
    __slots__ = ("last", "past", "start", "skip")
    LAST_FIELD_NUMBER: _ClassVar[int]
    PAST_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    last: Place
    past: _containers.RepeatedCompositeFieldContainer[Place]
    start: int
    skip: int
    def __init__(self, last: _Optional[_Union[Place, _Mapping]] = ..., past: _Optional[_Iterable[_Union[Place, _Mapping]]] = ..., start: _Optional[int] = ..., skip: _Optional[int] = ...) -> None: ...

class Sibling(_message.Message):
    __slots__ = ("peer", "seconds")
    PEER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    peer: _pastry_pb2.Peer
    seconds: float
    def __init__(self, peer: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., seconds: _Optional[float] = ...) -> None: ...

class TreeDrop(_message.Message):
    __slots__ = ("topic", "siblings")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SIBLINGS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    siblings: _containers.RepeatedCompositeFieldContainer[Sibling]
    def __init__(self, topic: _Optional[bytes] = ..., siblings: _Optional[_Iterable[_Union[Sibling, _Mapping]]] = ...) -> None: ...

class TreeAnycast(_message.Message):
    __slots__ = ("topic", "descriptor", "origin", "request", "payload", "wanted", "accepted", "visited", "to_visit", "cut")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    VISITED_FIELD_NUMBER: _ClassVar[int]
    TO_VISIT_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    descriptor: _topics_pb2.Descriptor
    origin: _pastry_pb2.Peer
    request: int
    payload: bytes
    wanted: int
    accepted: int
    visited: _containers.RepeatedScalarFieldContainer[bytes]
    to_visit: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    cut: bool
    def __init__(self, topic: _Optional[bytes] = ..., descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., origin: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., request: _Optional[int] = ..., payload: _Optional[bytes] = ..., wanted: _Optional[int] = ..., accepted: _Optional[int] = ..., visited: _Optional[_Iterable[bytes]] = ..., to_visit: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ..., cut: bool = ...) -> None: ...

class AnycastTaken(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...

class AnycastOver(_message.Message):
    __slots__ = ("request", "accepted", "cut")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    request: int
    accepted: int
    cut: bool
    def __init__(self, request: _Optional[int] = ..., accepted: _Optional[int] = ..., cut: bool = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("epoch", "number")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    number: int
    def __init__(self, epoch: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class SvJoin(_message.Message):
    __slots__ = ("join", "link", "path", "beat", "tries")
    JOIN_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    join: TreeJoin
    link: bytes
    path: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    beat: Beat
    tries: int
    def __init__(self, join: _Optional[_Union[TreeJoin, _Mapping]] = ..., link: _Optional[bytes] = ..., path: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., tries: _Optional[int] = ...) -> None: ...

class SvCandidate(_message.Message):
    __slots__ = ("topic", "link", "beat", "path")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    link: bytes
    beat: Beat
    path: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    def __init__(self, topic: _Optional[bytes] = ..., link: _Optional[bytes] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., path: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ...) -> None: ...

class SvBeat(_message.Message):
    __slots__ = ("topic", "link", "beat", "status")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    link: bytes
    beat: Beat
    status: TreeStatus
    def __init__(self, topic: _Optional[bytes] = ..., link: _Optional[bytes] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., status: _Optional[_Union[TreeStatus, _Mapping]] = ...) -> None: ...

class SvSize(_message.Message):
    __slots__ = ("topic", "link", "members")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    link: bytes
    members: int
    def __init__(self, topic: _Optional[bytes] = ..., link: _Optional[bytes] = ..., members: _Optional[int] = ...) -> None: ...

class SvWant(_message.Message):
    __slots__ = ("topic", "link", "beat")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    link: bytes
    beat: Beat
    def __init__(self, topic: _Optional[bytes] = ..., link: _Optional[bytes] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ...) -> None: ...
