from overlaymq.transport._pb.overlaymq.v1 import pastry_pb2 as _pastry_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScampContacts(_message.Message):
    __slots__ = ("topic", "contacts", "members", "reign")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONTACTS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    contacts: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    members: int
    reign: int
    def __init__(self, topic: _Optional[bytes] = ..., contacts: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ..., members: _Optional[int] = ..., reign: _Optional[int] = ...) -> None: ...

class ScampSubscribe(_message.Message):
    __slots__ = ("topic", "subscriber", "serial", "copies", "renewal", "walking", "steps", "lease", "last", "note")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    RENEWAL_FIELD_NUMBER: _ClassVar[int]
    WALKING_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    subscriber: _pastry_pb2.Peer
    serial: int
    copies: int
    renewal: bool
    walking: bool
    steps: int
    lease: float
    last: int
    note: bytes
    def __init__(self, topic: _Optional[bytes] = ..., subscriber: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., serial: _Optional[int] = ..., copies: _Optional[int] = ..., renewal: bool = ..., walking: bool = ..., steps: _Optional[int] = ..., lease: _Optional[float] = ..., last: _Optional[int] = ..., note: _Optional[bytes] = ...) -> None: ...

class ScampAccepted(_message.Message):
    __slots__ = ("topic", "serial", "lease", "others", "replay")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    serial: int
    lease: float
    others: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    replay: int
    def __init__(self, topic: _Optional[bytes] = ..., serial: _Optional[int] = ..., lease: _Optional[float] = ..., others: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ..., replay: _Optional[int] = ...) -> None: ...

class ScampForward(_message.Message):
    __slots__ = ("topic", "subscriber", "serial", "hops", "lease", "keep", "note")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    subscriber: _pastry_pb2.Peer
    serial: int
    hops: int
    lease: float
    keep: bool
    note: bytes
    def __init__(self, topic: _Optional[bytes] = ..., subscriber: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., serial: _Optional[int] = ..., hops: _Optional[int] = ..., lease: _Optional[float] = ..., keep: bool = ..., note: _Optional[bytes] = ...) -> None: ...

class ScampKept(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    def __init__(self, topic: _Optional[bytes] = ...) -> None: ...

class ScampReplace(_message.Message):
    __slots__ = ("topic", "by", "lease")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    by: _pastry_pb2.Peer
    lease: float
    def __init__(self, topic: _Optional[bytes] = ..., by: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., lease: _Optional[float] = ...) -> None: ...

class ScampForget(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    def __init__(self, topic: _Optional[bytes] = ...) -> None: ...

class ScampBeat(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    def __init__(self, topic: _Optional[bytes] = ...) -> None: ...

class ScampWeight(_message.Message):
    __slots__ = ("topic", "weight", "backward")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    weight: float
    backward: bool
    def __init__(self, topic: _Optional[bytes] = ..., weight: _Optional[float] = ..., backward: bool = ...) -> None: ...

class ScampBeacon(_message.Message):
    __slots__ = ("topic", "number")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    number: int
    def __init__(self, topic: _Optional[bytes] = ..., number: _Optional[int] = ...) -> None: ...

class BatchName(_message.Message):
    __slots__ = ("origin", "epoch", "first", "chunk")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    origin: bytes
    epoch: int
    first: int
    chunk: int
    def __init__(self, origin: _Optional[bytes] = ..., epoch: _Optional[int] = ..., first: _Optional[int] = ..., chunk: _Optional[int] = ...) -> None: ...

class ScampHave(_message.Message):
    __slots__ = ("topic", "names")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    names: _containers.RepeatedCompositeFieldContainer[BatchName]
    def __init__(self, topic: _Optional[bytes] = ..., names: _Optional[_Iterable[_Union[BatchName, _Mapping]]] = ...) -> None: ...

class ScampGraft(_message.Message):
    __slots__ = ("topic", "names")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    names: _containers.RepeatedCompositeFieldContainer[BatchName]
    def __init__(self, topic: _Optional[bytes] = ..., names: _Optional[_Iterable[_Union[BatchName, _Mapping]]] = ...) -> None: ...

class ScampPrune(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    def __init__(self, topic: _Optional[bytes] = ...) -> None: ...

class ScampTaken(_message.Message):
    __slots__ = ("topic", "name")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    name: BatchName
    def __init__(self, topic: _Optional[bytes] = ..., name: _Optional[_Union[BatchName, _Mapping]] = ...) -> None: ...
