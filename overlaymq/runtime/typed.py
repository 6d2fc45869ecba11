"""Typed topics: values in, values out, through a codec.

A codec is a pair of functions between a value and bytes. Shipped: bytes, text, JSON, MessagePack and
protobuf. Never pickle: a payload comes from another machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import msgspec

from overlaymq.errors import PayloadMalformed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from overlaymq.runtime.message import Message
    from overlaymq.runtime.node import Node
    from overlaymq.runtime.publishing import Receipt
    from overlaymq.runtime.subscription import Subscription

T = TypeVar("T")


class Codec(Protocol[T]):
    """Turns values into payloads and back."""

    def encode(self, value: T, /) -> bytes: ...

    def decode(self, payload: bytes, /) -> T: ...


class BytesCodec:
    """Payloads as they are."""

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, payload: bytes) -> bytes:
        return payload


class TextCodec:
    """Strings, as UTF-8."""

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, payload: bytes) -> str:
        return payload.decode()


class JsonCodec(Generic[T]):
    """JSON, checked against a type if one is given (a msgspec Struct, a dataclass, list[int] ...)."""

    @overload
    def __init__(self: JsonCodec[Any]) -> None: ...

    @overload
    def __init__(self, type: type[T]) -> None: ...

    def __init__(self, type: Any = Any) -> None:
        self._decoder = msgspec.json.Decoder(type)
        self._encoder = msgspec.json.Encoder()

    def encode(self, value: T) -> bytes:
        return self._encoder.encode(value)

    def decode(self, payload: bytes) -> T:
        value: T = self._decoder.decode(payload)
        return value


class MessagePackCodec(Generic[T]):
    """MessagePack, checked against a type if one is given."""

    @overload
    def __init__(self: MessagePackCodec[Any]) -> None: ...

    @overload
    def __init__(self, type: type[T]) -> None: ...

    def __init__(self, type: Any = Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(type)
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, value: T) -> bytes:
        return self._encoder.encode(value)

    def decode(self, payload: bytes) -> T:
        value: T = self._decoder.decode(payload)
        return value


class ProtobufCodec(Generic[T]):
    """Messages of one generated protobuf class."""

    def __init__(self, message: type[T]) -> None:
        self._message: Any = message

    def encode(self, value: T) -> bytes:
        raw: bytes = self._message.SerializeToString(value)
        return raw

    def decode(self, payload: bytes) -> T:
        value: T = self._message.FromString(payload)
        return value


CODECS: dict[str, Codec[Any]] = {
    "bytes": BytesCodec(),
    "text": TextCodec(),
    "json": JsonCodec(),
    "msgpack": MessagePackCodec(),
}


class Topic(Generic[T]):
    """A topic whose payloads are values of one kind."""

    def __init__(self, node: Node, name: str, codec: Codec[T]) -> None:
        self.name = name
        self._node = node
        self._codec = codec

    async def publish(self, value: T, *, headers: Mapping[str, str] | None = None) -> Receipt:
        """Encode and publish."""
        return await self._node.publish(self.name, self._codec.encode(value), headers=headers)

    def subscribe(self, **options: Any) -> TypedSubscription[T]:
        """Subscribe; options as of ``Node.subscribe``."""
        return TypedSubscription(self._node.subscribe(self.name, **options), self._codec)


class TypedSubscription(Generic[T]):
    """Yields ``(value, message)``. ``raw`` is the subscription underneath, with events and counters."""

    def __init__(self, subscription: Subscription, codec: Codec[T]) -> None:
        self.raw = subscription
        self._codec = codec

    async def __aenter__(self) -> Self:
        await self.raw.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.raw.__aexit__(*error)

    async def wait_ready(self) -> None:
        """Wait until what is published from now on arrives here."""
        await self.raw.wait_ready()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[T, Message]:
        return self._decoded(await self.raw.__anext__())

    async def receive(self) -> tuple[T, Message]:
        """The next value and its message; raises Closed after the subscription ends."""
        return self._decoded(await self.raw.receive())

    def _decoded(self, message: Message) -> tuple[T, Message]:
        try:
            return self._codec.decode(message.payload), message
        except Exception as error:  # a codec may raise anything about a stranger's bytes
            raise PayloadMalformed(message, error) from error
