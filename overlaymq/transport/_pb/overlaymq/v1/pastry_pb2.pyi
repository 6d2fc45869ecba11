from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Peer(_message.Message):
    __slots__ = ("id", "address", "incarnation")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    address: str
    incarnation: int
    def __init__(self, id: _Optional[bytes] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("number", "entries")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    number: int
    entries: _containers.RepeatedCompositeFieldContainer[Peer]
    def __init__(self, number: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ...) -> None: ...

class RoutedAck(_message.Message):
    __slots__ = ("serial",)
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    serial: int
    def __init__(self, serial: _Optional[int] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("joiner", "rows")
    JOINER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    joiner: Peer
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, joiner: _Optional[_Union[Peer, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("rows", "leaves")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    leaves: _containers.RepeatedCompositeFieldContainer[Peer]
    def __init__(self, rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., leaves: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ...) -> None: ...

class JoinRefused(_message.Message):
    __slots__ = ("reason", "fatal")
    REASON_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    reason: str
    fatal: bool
    def __init__(self, reason: _Optional[str] = ..., fatal: bool = ...) -> None: ...

class StateRequest(_message.Message):
    __slots__ = ("serial", "rows", "leaves", "neighbours")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    serial: int
    rows: _containers.RepeatedScalarFieldContainer[int]
    leaves: bool
    neighbours: bool
    def __init__(self, serial: _Optional[int] = ..., rows: _Optional[_Iterable[int]] = ..., leaves: bool = ..., neighbours: bool = ...) -> None: ...

class StateReply(_message.Message):
    __slots__ = ("serial", "depth", "rows", "leaves", "neighbours")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    serial: int
    depth: int
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    leaves: _containers.RepeatedCompositeFieldContainer[Peer]
    neighbours: _containers.RepeatedCompositeFieldContainer[Peer]
    def __init__(self, serial: _Optional[int] = ..., depth: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., leaves: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ..., neighbours: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ...) -> None: ...

class LeafProbe(_message.Message):
    __slots__ = ("leaves", "failed", "active", "before", "after")
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    leaves: _containers.RepeatedCompositeFieldContainer[Peer]
    failed: _containers.RepeatedScalarFieldContainer[bytes]
    active: bool
    before: bytes
    after: bytes
    def __init__(self, leaves: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ..., failed: _Optional[_Iterable[bytes]] = ..., active: bool = ..., before: _Optional[bytes] = ..., after: _Optional[bytes] = ...) -> None: ...

class LeafProbeReply(_message.Message):
    __slots__ = ("leaves", "failed", "active", "before", "after")
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    leaves: _containers.RepeatedCompositeFieldContainer[Peer]
    failed: _containers.RepeatedScalarFieldContainer[bytes]
    active: bool
    before: bytes
    after: bytes
    def __init__(self, leaves: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ..., failed: _Optional[_Iterable[bytes]] = ..., active: bool = ..., before: _Optional[bytes] = ..., after: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("asked_at", "digest")
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    asked_at: float
    digest: int
    def __init__(self, asked_at: _Optional[float] = ..., digest: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("asked_at", "digest")
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    asked_at: float
    digest: int
    def __init__(self, asked_at: _Optional[float] = ..., digest: _Optional[int] = ...) -> None: ...

class Announce(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class SlotRequest(_message.Message):
    __slots__ = ("row", "column")
    ROW_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    row: int
    column: int
    def __init__(self, row: _Optional[int] = ..., column: _Optional[int] = ...) -> None: ...

class SlotReply(_message.Message):
    __slots__ = ("row", "column", "entry")
    ROW_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    row: int
    column: int
    entry: Peer
    def __init__(self, row: _Optional[int] = ..., column: _Optional[int] = ..., entry: _Optional[_Union[Peer, _Mapping]] = ...) -> None: ...

class RowOffer(_message.Message):
    __slots__ = ("row", "reply")
    ROW_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    row: Row
    reply: bool
    def __init__(self, row: _Optional[_Union[Row, _Mapping]] = ..., reply: bool = ...) -> None: ...

class Distance(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class Departing(_message.Message):
    __slots__ = ("leaves",)
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    leaves: _containers.RepeatedCompositeFieldContainer[Peer]
    def __init__(self, leaves: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...

class LookupReply(_message.Message):
    __slots__ = ("request", "key", "hops")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    request: int
    key: bytes
    hops: int
    def __init__(self, request: _Optional[int] = ..., key: _Optional[bytes] = ..., hops: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...
