from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Libp2pMessage(_message.Message):
    __slots__ = ("messageID", "topic")
    MESSAGEID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    messageID: bytes
    topic: str
    def __init__(self, messageID: _Optional[bytes] = ..., topic: _Optional[str] = ...) -> None: ...

class Libp2pSubscription(_message.Message):
    __slots__ = ("subscribe", "topic")
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    subscribe: bool
    topic: str
    def __init__(self, subscribe: bool = ..., topic: _Optional[str] = ...) -> None: ...

class Libp2pControl(_message.Message):
    __slots__ = ("ihave", "iwant", "graft", "prune", "idontwant")
    class Ihave(_message.Message):
        __slots__ = ("topic", "messageIDs")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        MESSAGEIDS_FIELD_NUMBER: _ClassVar[int]
        topic: str
        messageIDs: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, topic: _Optional[str] = ..., messageIDs: _Optional[_Iterable[bytes]] = ...) -> None: ...
    class Iwant(_message.Message):
        __slots__ = ("messageIDs",)
        MESSAGEIDS_FIELD_NUMBER: _ClassVar[int]
        messageIDs: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, messageIDs: _Optional[_Iterable[bytes]] = ...) -> None: ...
    class Graft(_message.Message):
        __slots__ = ("topic",)
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        topic: str
        def __init__(self, topic: _Optional[str] = ...) -> None: ...
    class Prune(_message.Message):
        __slots__ = ("topic", "peers")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PEERS_FIELD_NUMBER: _ClassVar[int]
        topic: str
        peers: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, topic: _Optional[str] = ..., peers: _Optional[_Iterable[bytes]] = ...) -> None: ...
    IHAVE_FIELD_NUMBER: _ClassVar[int]
    IWANT_FIELD_NUMBER: _ClassVar[int]
    GRAFT_FIELD_NUMBER: _ClassVar[int]
    PRUNE_FIELD_NUMBER: _ClassVar[int]
    IDONTWANT_FIELD_NUMBER: _ClassVar[int]
    ihave: _containers.RepeatedCompositeFieldContainer[Libp2pControl.Ihave]
    iwant: _containers.RepeatedCompositeFieldContainer[Libp2pControl.Iwant]
    graft: _containers.RepeatedCompositeFieldContainer[Libp2pControl.Graft]
    prune: _containers.RepeatedCompositeFieldContainer[Libp2pControl.Prune]
    idontwant: _containers.RepeatedCompositeFieldContainer[Libp2pControl.Iwant]
    def __init__(self, ihave: _Optional[_Iterable[_Union[Libp2pControl.Ihave, _Mapping]]] = ..., iwant: _Optional[_Iterable[_Union[Libp2pControl.Iwant, _Mapping]]] = ..., graft: _Optional[_Iterable[_Union[Libp2pControl.Graft, _Mapping]]] = ..., prune: _Optional[_Iterable[_Union[Libp2pControl.Prune, _Mapping]]] = ..., idontwant: _Optional[_Iterable[_Union[Libp2pControl.Iwant, _Mapping]]] = ...) -> None: ...

class Libp2pRpc(_message.Message):
    __slots__ = ("messages", "subscription", "control")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Libp2pMessage]
    subscription: _containers.RepeatedCompositeFieldContainer[Libp2pSubscription]
    control: Libp2pControl
    def __init__(self, messages: _Optional[_Iterable[_Union[Libp2pMessage, _Mapping]]] = ..., subscription: _Optional[_Iterable[_Union[Libp2pSubscription, _Mapping]]] = ..., control: _Optional[_Union[Libp2pControl, _Mapping]] = ...) -> None: ...

class Libp2pTraceEvent(_message.Message):
    __slots__ = ("type", "peerID", "timestamp", "publishMessage", "rejectMessage", "duplicateMessage", "deliverMessage", "addPeer", "removePeer", "recvRPC", "sendRPC", "dropRPC", "join", "leave", "graft", "prune")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PUBLISH_MESSAGE: _ClassVar[Libp2pTraceEvent.Type]
        REJECT_MESSAGE: _ClassVar[Libp2pTraceEvent.Type]
        DUPLICATE_MESSAGE: _ClassVar[Libp2pTraceEvent.Type]
        DELIVER_MESSAGE: _ClassVar[Libp2pTraceEvent.Type]
        ADD_PEER: _ClassVar[Libp2pTraceEvent.Type]
        REMOVE_PEER: _ClassVar[Libp2pTraceEvent.Type]
        RECV_RPC: _ClassVar[Libp2pTraceEvent.Type]
        SEND_RPC: _ClassVar[Libp2pTraceEvent.Type]
        DROP_RPC: _ClassVar[Libp2pTraceEvent.Type]
        JOIN: _ClassVar[Libp2pTraceEvent.Type]
        LEAVE: _ClassVar[Libp2pTraceEvent.Type]
        GRAFT: _ClassVar[Libp2pTraceEvent.Type]
        PRUNE: _ClassVar[Libp2pTraceEvent.Type]
    PUBLISH_MESSAGE: Libp2pTraceEvent.Type
    REJECT_MESSAGE: Libp2pTraceEvent.Type
    DUPLICATE_MESSAGE: Libp2pTraceEvent.Type
    DELIVER_MESSAGE: Libp2pTraceEvent.Type
    ADD_PEER: Libp2pTraceEvent.Type
    REMOVE_PEER: Libp2pTraceEvent.Type
    RECV_RPC: Libp2pTraceEvent.Type
    SEND_RPC: Libp2pTraceEvent.Type
    DROP_RPC: Libp2pTraceEvent.Type
    JOIN: Libp2pTraceEvent.Type
    LEAVE: Libp2pTraceEvent.Type
    GRAFT: Libp2pTraceEvent.Type
    PRUNE: Libp2pTraceEvent.Type
    class Published(_message.Message):
        __slots__ = ("messageID", "topic")
        MESSAGEID_FIELD_NUMBER: _ClassVar[int]
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        messageID: bytes
        topic: str
        def __init__(self, messageID: _Optional[bytes] = ..., topic: _Optional[str] = ...) -> None: ...
    class Rejected(_message.Message):
        __slots__ = ("messageID", "receivedFrom", "reason", "topic")
        MESSAGEID_FIELD_NUMBER: _ClassVar[int]
        RECEIVEDFROM_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        messageID: bytes
        receivedFrom: bytes
        reason: str
        topic: str
        def __init__(self, messageID: _Optional[bytes] = ..., receivedFrom: _Optional[bytes] = ..., reason: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...
    class Repeated(_message.Message):
        __slots__ = ("messageID", "receivedFrom", "topic")
        MESSAGEID_FIELD_NUMBER: _ClassVar[int]
        RECEIVEDFROM_FIELD_NUMBER: _ClassVar[int]
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        messageID: bytes
        receivedFrom: bytes
        topic: str
        def __init__(self, messageID: _Optional[bytes] = ..., receivedFrom: _Optional[bytes] = ..., topic: _Optional[str] = ...) -> None: ...
    class Delivered(_message.Message):
        __slots__ = ("messageID", "topic", "receivedFrom")
        MESSAGEID_FIELD_NUMBER: _ClassVar[int]
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        RECEIVEDFROM_FIELD_NUMBER: _ClassVar[int]
        messageID: bytes
        topic: str
        receivedFrom: bytes
        def __init__(self, messageID: _Optional[bytes] = ..., topic: _Optional[str] = ..., receivedFrom: _Optional[bytes] = ...) -> None: ...
    class Peer(_message.Message):
        __slots__ = ("peerID", "proto")
        PEERID_FIELD_NUMBER: _ClassVar[int]
        PROTO_FIELD_NUMBER: _ClassVar[int]
        peerID: bytes
        proto: str
        def __init__(self, peerID: _Optional[bytes] = ..., proto: _Optional[str] = ...) -> None: ...
    class Received(_message.Message):
        __slots__ = ("receivedFrom", "meta")
        RECEIVEDFROM_FIELD_NUMBER: _ClassVar[int]
        META_FIELD_NUMBER: _ClassVar[int]
        receivedFrom: bytes
        meta: Libp2pRpc
        def __init__(self, receivedFrom: _Optional[bytes] = ..., meta: _Optional[_Union[Libp2pRpc, _Mapping]] = ...) -> None: ...
    class Sent(_message.Message):
        __slots__ = ("sendTo", "meta")
        SENDTO_FIELD_NUMBER: _ClassVar[int]
        META_FIELD_NUMBER: _ClassVar[int]
        sendTo: bytes
        meta: Libp2pRpc
        def __init__(self, sendTo: _Optional[bytes] = ..., meta: _Optional[_Union[Libp2pRpc, _Mapping]] = ...) -> None: ...
    class Joined(_message.Message):
        __slots__ = ("topic",)
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        topic: str
        def __init__(self, topic: _Optional[str] = ...) -> None: ...
    class Left(_message.Message):
        __slots__ = ("topic",)
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        topic: str
        def __init__(self, topic: _Optional[str] = ...) -> None: ...
    class Link(_message.Message):
        __slots__ = ("peerID", "topic")
        PEERID_FIELD_NUMBER: _ClassVar[int]
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        peerID: bytes
        topic: str
        def __init__(self, peerID: _Optional[bytes] = ..., topic: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PEERID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    PUBLISHMESSAGE_FIELD_NUMBER: _ClassVar[int]
    REJECTMESSAGE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATEMESSAGE_FIELD_NUMBER: _ClassVar[int]
    DELIVERMESSAGE_FIELD_NUMBER: _ClassVar[int]
    ADDPEER_FIELD_NUMBER: _ClassVar[int]
    REMOVEPEER_FIELD_NUMBER: _ClassVar[int]
    RECVRPC_FIELD_NUMBER: _ClassVar[int]
    SENDRPC_FIELD_NUMBER: _ClassVar[int]
    DROPRPC_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    GRAFT_FIELD_NUMBER: _ClassVar[int]
    PRUNE_FIELD_NUMBER: _ClassVar[int]
    type: Libp2pTraceEvent.Type
    peerID: bytes
    timestamp: int
    publishMessage: Libp2pTraceEvent.Published
    rejectMessage: Libp2pTraceEvent.Rejected
    duplicateMessage: Libp2pTraceEvent.Repeated
    deliverMessage: Libp2pTraceEvent.Delivered
    addPeer: Libp2pTraceEvent.Peer
    removePeer: Libp2pTraceEvent.Peer
    recvRPC: Libp2pTraceEvent.Received
    sendRPC: Libp2pTraceEvent.Sent
    dropRPC: Libp2pTraceEvent.Sent
    join: Libp2pTraceEvent.Joined
    leave: Libp2pTraceEvent.Left
    graft: Libp2pTraceEvent.Link
    prune: Libp2pTraceEvent.Link
    def __init__(self, type: _Optional[_Union[Libp2pTraceEvent.Type, str]] = ..., peerID: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., publishMessage: _Optional[_Union[Libp2pTraceEvent.Published, _Mapping]] = ..., rejectMessage: _Optional[_Union[Libp2pTraceEvent.Rejected, _Mapping]] = ..., duplicateMessage: _Optional[_Union[Libp2pTraceEvent.Repeated, _Mapping]] = ..., deliverMessage: _Optional[_Union[Libp2pTraceEvent.Delivered, _Mapping]] = ..., addPeer: _Optional[_Union[Libp2pTraceEvent.Peer, _Mapping]] = ..., removePeer: _Optional[_Union[Libp2pTraceEvent.Peer, _Mapping]] = ..., recvRPC: _Optional[_Union[Libp2pTraceEvent.Received, _Mapping]] = ..., sendRPC: _Optional[_Union[Libp2pTraceEvent.Sent, _Mapping]] = ..., dropRPC: _Optional[_Union[Libp2pTraceEvent.Sent, _Mapping]] = ..., join: _Optional[_Union[Libp2pTraceEvent.Joined, _Mapping]] = ..., leave: _Optional[_Union[Libp2pTraceEvent.Left, _Mapping]] = ..., graft: _Optional[_Union[Libp2pTraceEvent.Link, _Mapping]] = ..., prune: _Optional[_Union[Libp2pTraceEvent.Link, _Mapping]] = ...) -> None: ...
