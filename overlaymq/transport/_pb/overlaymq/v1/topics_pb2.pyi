from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Descriptor(_message.Message):
    __slots__ = ("id", "name", "creator", "key", "strategy", "reliability", "flow", "explicit", "epoch", "credentials")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATOR_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    RELIABILITY_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    EXPLICIT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    name: str
    creator: str
    key: bytes
    strategy: str
    reliability: str
    flow: str
    explicit: bool
    epoch: int
    credentials: bytes
    def __init__(self, id: _Optional[bytes] = ..., name: _Optional[str] = ..., creator: _Optional[str] = ..., key: _Optional[bytes] = ..., strategy: _Optional[str] = ..., reliability: _Optional[str] = ..., flow: _Optional[str] = ..., explicit: bool = ..., epoch: _Optional[int] = ..., credentials: _Optional[bytes] = ...) -> None: ...

class TopicOpen(_message.Message):
    __slots__ = ("request", "descriptor")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    request: int
    descriptor: Descriptor
    def __init__(self, request: _Optional[int] = ..., descriptor: _Optional[_Union[Descriptor, _Mapping]] = ...) -> None: ...

class TopicOpened(_message.Message):
    __slots__ = ("request", "descriptor", "refused")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    request: int
    descriptor: Descriptor
    refused: str
    def __init__(self, request: _Optional[int] = ..., descriptor: _Optional[_Union[Descriptor, _Mapping]] = ..., refused: _Optional[str] = ...) -> None: ...

class TopicReplica(_message.Message):
    __slots__ = ("descriptor",)
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    descriptor: Descriptor
    def __init__(self, descriptor: _Optional[_Union[Descriptor, _Mapping]] = ...) -> None: ...
