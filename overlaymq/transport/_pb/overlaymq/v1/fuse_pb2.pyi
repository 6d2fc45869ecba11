from overlaymq.transport._pb.overlaymq.v1 import pastry_pb2 as _pastry_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FuseCreate(_message.Message):
    __slots__ = ("group", "members", "topic")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    members: _containers.RepeatedCompositeFieldContainer[_pastry_pb2.Peer]
    topic: bytes
    def __init__(self, group: _Optional[bytes] = ..., members: _Optional[_Iterable[_Union[_pastry_pb2.Peer, _Mapping]]] = ..., topic: _Optional[bytes] = ...) -> None: ...

class FuseCreated(_message.Message):
    __slots__ = ("group", "accepted")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    accepted: bool
    def __init__(self, group: _Optional[bytes] = ..., accepted: bool = ...) -> None: ...

class FuseInstall(_message.Message):
    __slots__ = ("group", "seq", "root", "member", "via", "depth")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    seq: int
    root: _pastry_pb2.Peer
    member: bytes
    via: _pastry_pb2.Peer
    depth: int
    def __init__(self, group: _Optional[bytes] = ..., seq: _Optional[int] = ..., root: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., member: _Optional[bytes] = ..., via: _Optional[_Union[_pastry_pb2.Peer, _Mapping]] = ..., depth: _Optional[int] = ...) -> None: ...

class FuseBroken(_message.Message):
    __slots__ = ("group", "seq")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    seq: int
    def __init__(self, group: _Optional[bytes] = ..., seq: _Optional[int] = ...) -> None: ...

class FuseRepair(_message.Message):
    __slots__ = ("group", "seq")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    seq: int
    def __init__(self, group: _Optional[bytes] = ..., seq: _Optional[int] = ...) -> None: ...

class FuseRepaired(_message.Message):
    __slots__ = ("group", "seq")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    seq: int
    def __init__(self, group: _Optional[bytes] = ..., seq: _Optional[int] = ...) -> None: ...

class FuseSoft(_message.Message):
    __slots__ = ("group", "seq")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    seq: int
    def __init__(self, group: _Optional[bytes] = ..., seq: _Optional[int] = ...) -> None: ...

class FuseFailed(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    def __init__(self, group: _Optional[bytes] = ...) -> None: ...

class FuseHeard(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    def __init__(self, group: _Optional[bytes] = ...) -> None: ...

class FusePing(_message.Message):
    __slots__ = ("digest", "reply")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    digest: int
    reply: bool
    def __init__(self, digest: _Optional[int] = ..., reply: bool = ...) -> None: ...

class FuseKey(_message.Message):
    __slots__ = ("group", "seq")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    group: bytes
    seq: int
    def __init__(self, group: _Optional[bytes] = ..., seq: _Optional[int] = ...) -> None: ...

class FuseList(_message.Message):
    __slots__ = ("keys", "reply")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[FuseKey]
    reply: bool
    def __init__(self, keys: _Optional[_Iterable[_Union[FuseKey, _Mapping]]] = ..., reply: bool = ...) -> None: ...
