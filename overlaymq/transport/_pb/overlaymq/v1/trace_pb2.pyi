from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class TraceRow(_message.Message):
    __slots__ = ("run_id", "schema_version", "node_id", "boot_id", "event", "ts_wall_ns", "ts_mono_ns", "strategy", "topic_id", "topic", "msg_origin", "msg_epoch", "msg_seq", "msg_count", "chunk", "chunks", "root_epoch", "root_seq", "root_id", "peer_id", "hop", "size_bytes", "reason", "duration_ns", "extra")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TS_WALL_NS_FIELD_NUMBER: _ClassVar[int]
    TS_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MSG_ORIGIN_FIELD_NUMBER: _ClassVar[int]
    MSG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MSG_SEQ_FIELD_NUMBER: _ClassVar[int]
    MSG_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    ROOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROOT_SEQ_FIELD_NUMBER: _ClassVar[int]
    ROOT_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    HOP_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    schema_version: int
    node_id: bytes
    boot_id: int
    event: str
    ts_wall_ns: int
    ts_mono_ns: int
    strategy: str
    topic_id: bytes
    topic: str
    msg_origin: bytes
    msg_epoch: int
    msg_seq: int
    msg_count: int
    chunk: int
    chunks: int
    root_epoch: int
    root_seq: int
    root_id: bytes
    peer_id: bytes
    hop: int
    size_bytes: int
    reason: str
    duration_ns: int
    extra: str
    def __init__(self, run_id: _Optional[str] = ..., schema_version: _Optional[int] = ..., node_id: _Optional[bytes] = ..., boot_id: _Optional[int] = ..., event: _Optional[str] = ..., ts_wall_ns: _Optional[int] = ..., ts_mono_ns: _Optional[int] = ..., strategy: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., topic: _Optional[str] = ..., msg_origin: _Optional[bytes] = ..., msg_epoch: _Optional[int] = ..., msg_seq: _Optional[int] = ..., msg_count: _Optional[int] = ..., chunk: _Optional[int] = ..., chunks: _Optional[int] = ..., root_epoch: _Optional[int] = ..., root_seq: _Optional[int] = ..., root_id: _Optional[bytes] = ..., peer_id: _Optional[bytes] = ..., hop: _Optional[int] = ..., size_bytes: _Optional[int] = ..., reason: _Optional[str] = ..., duration_ns: _Optional[int] = ..., extra: _Optional[str] = ...) -> None: ...
