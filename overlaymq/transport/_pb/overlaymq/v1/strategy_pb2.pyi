from overlaymq.transport._pb.overlaymq.v1 import pastry_pb2 as _pastry_pb2
from overlaymq.transport._pb.overlaymq.v1 import topics_pb2 as _topics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Register(_message.Message):
    __slots__ = ("topic", "member", "descriptor", "last")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    member: _pastry_pb2.Peer
    descriptor: _topics_pb2.Descriptor
    last: int
    def __init__(self, topic: _Optional[bytes] = ..., member: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., last: _Optional[int] = ...) -> None: ...

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

class Handover(_message.Message):
    __slots__ = ("descriptor", "members", "epoch")
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    descriptor: _topics_pb2.Descriptor
    members: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    epoch: int
    def __init__(self, descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., members: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ..., epoch: _Optional[int] = ...) -> None: ...

class TreeJoin(_message.Message):
    __slots__ = ("topic", "child", "descriptor", "members", "last")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    child: _pastry_pb2.Peer
    descriptor: _topics_pb2.Descriptor
    members: int
    last: int
    def __init__(self, topic: _Optional[bytes] = ..., child: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., descriptor: _Optional[_Union[_topics_pb2.Descriptor, _Mapping]] = ..., members: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class TreeJoined(_message.Message):
    __slots__ = ("topic", "path", "rooted")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROOTED_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    path: _containers.RepeatedScalarFieldContainer[bytes]
    rooted: bool
    def __init__(self, topic: _Optional[bytes] = ..., path: _Optional[_Iterable[bytes]] = ..., rooted: bool = ...) -> None: ...

class TreeRefused(_message.Message):
    __slots__ = ("topic", "looped")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LOOPED_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    looped: bool
    def __init__(self, topic: _Optional[bytes] = ..., looped: bool = ...) -> None: ...

class TreeLeave(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    def __init__(self, topic: _Optional[bytes] = ...) -> None: ...

class TreeRefresh(_message.Message):
    __slots__ = ("topic", "members")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    members: int
    def __init__(self, topic: _Optional[bytes] = ..., members: _Optional[int] = ...) -> None: ...

class TreeBeat(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    def __init__(self, topic: _Optional[bytes] = ...) -> None: ...
