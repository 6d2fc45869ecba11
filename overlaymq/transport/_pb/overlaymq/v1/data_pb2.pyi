from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Batch(_message.Message):
    __slots__ = ("body", "topic", "origin", "epoch", "first", "count", "published_at", "hop", "root_sequence", "chunk", "chunks", "skip", "root", "root_epoch", "behind")
    BODY_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_FIELD_NUMBER: _ClassVar[int]
    HOP_FIELD_NUMBER: _ClassVar[int]
    ROOT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    ROOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    topic: bytes
    origin: bytes
    epoch: int
    first: int
    count: int
    published_at: int
    hop: int
    root_sequence: int
    chunk: int
    chunks: int
    skip: int
    root: bytes
    root_epoch: int
    behind: int
    def __init__(self, body: _Optional[bytes] = ..., topic: _Optional[bytes] = ..., origin: _Optional[bytes] = ..., epoch: _Optional[int] = ..., first: _Optional[int] = ..., count: _Optional[int] = ..., published_at: _Optional[int] = ..., hop: _Optional[int] = ..., root_sequence: _Optional[int] = ..., chunk: _Optional[int] = ..., chunks: _Optional[int] = ..., skip: _Optional[int] = ..., root: _Optional[bytes] = ..., root_epoch: _Optional[int] = ..., behind: _Optional[int] = ...) -> None: ...

class Body(_message.Message):
    __slots__ = ("payloads", "headers")
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    headers: _containers.RepeatedCompositeFieldContainer[Headers]
    def __init__(self, payloads: _Optional[_Iterable[bytes]] = ..., headers: _Optional[_Iterable[_Union[Headers, _Mapping]]] = ...) -> None: ...

class Headers(_message.Message):
    __slots__ = ("entries",)
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.ScalarMap[str, str]
    def __init__(self, entries: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Skipped(_message.Message):
    __slots__ = ("topic", "messages", "bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    messages: int
    bytes: int
    def __init__(self, topic: _Optional[bytes] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("topic", "total")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    total: int
    def __init__(self, topic: _Optional[bytes] = ..., total: _Optional[int] = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...
