"""Inputs and effects of a core in words, as plain values for JSON, and what they are about.

Names, addresses and reasons in a record may come from anybody: what is not printable is escaped.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq import ids
from overlaymq.events import (
    Deliver,
    Measured,
    Notify,
    PeerFailed,
    Probe,
    Received,
    Send,
    SetTimer,
    Timer,
    TimerFired,
)
from overlaymq.ids import Id
from overlaymq.messages import Batch, Descriptor, Peer
from overlaymq.runtime.record import UpcallsSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LISTED = 4
"""Members of a list that are spelled out."""
LARGE = 1 << 63
"""A larger number is an id, for people and for JSON readers, who would lose its last digits."""


class Words:
    """Tells values apart from one another, and topics by the names it has come across."""

    def __init__(self, known: Iterable[Descriptor] = ()) -> None:
        self._topics: dict[int, str] = {}
        self.learn(known)

    def learn(self, descriptors: Iterable[Descriptor]) -> None:
        """Topics that will be called by name."""
        self._topics.update((one.id, one.name) for one in descriptors)

    def input(self, value: Any) -> str:
        """What the core was told."""
        self.learn(one for one in structs(value) if isinstance(one, Descriptor))
        match value:
            case Received(peer, message):
                return f"received {self.text(message)} from {self.text(peer)}"
            case TimerFired(timer):
                return f"the timer {self.text(timer)} fired"
            case PeerFailed(peer, reason):
                return f"the link to {self.text(peer)} failed: {printable(reason)}"
            case Measured(peer, seconds):
                return f"measured {self.text(peer)}: {seconds * 1e3:.3f} ms"
            case UpcallsSet(topic, names):
                upcalls = ", ".join(map(printable, names)) or "nothing"
                return f"the application set {upcalls} for {self.text(topic)}"
        return f"asked to {self.text(value)}"

    def effect(self, value: Any) -> str:
        """What the core did."""
        match value:
            case Send(peer, message):
                return f"send {self.text(message)} to {self.text(peer)}"
            case Deliver(batch):
                return f"deliver {self.text(batch)}"
            case SetTimer(timer, delay):
                return f"set the timer {self.text(timer)} to {delay:g} s"
            case Notify(event):
                return f"tell {self.text(event)}"
            case Probe(peer):
                return f"probe {self.text(peer)}"
        return self.text(value)

    def text(self, value: Any) -> str:
        """Any part of them."""
        match value:
            case Peer():
                return f"{ids.short(value.id)} ({printable(value.address)})"
            case Batch():
                return self._batch(value)
            case Timer(part, subject, round_):
                about = f" {self.text(subject)}" if subject else ""
                return f"{printable(part)}{about}{f' round {round_}' if round_ else ''}"
            case Descriptor():
                return self.text(value.id)
            case msgspec.Struct():
                return f"{type(value).__name__}({', '.join(self._fields(value))})"
            case tuple() | list():
                shown = ", ".join(map(self.text, value[:LISTED]))
                more = f", ... {len(value)} in all" if len(value) > LISTED else ""
                return f"[{shown}{more}]"
            case bool() | float():
                return f"{value:g}" if isinstance(value, float) else str(value).lower()
            case int():
                return self._number(value)
            case bytes():
                return f"{len(value):,} bytes"
        return printable(repr(value))

    def _number(self, value: int) -> str:
        if value in self._topics:
            return printable(repr(self._topics[value]))
        return ids.short(Id(value)) if value >= LARGE else str(value)

    def _fields(self, value: msgspec.Struct) -> Iterator[str]:
        """The fields that say something: not those that have their default value."""
        for field in msgspec.structs.fields(value):
            held = getattr(value, field.name)
            if held != field.default:
                yield f"{field.name}={self.text(held)}"

    def _batch(self, batch: Batch) -> str:
        span = f"#{batch.first}" if batch.count == 1 else f"#{batch.first} to #{batch.last}"
        chunk = f", chunk {batch.chunk + 1} of {batch.chunks}" if batch.chunks > 1 else ""
        where = f"of {ids.short(batch.origin)} on {self.text(batch.topic)}"
        return f"Batch({span} {where}{chunk}, {len(batch.body):,} bytes, hop {batch.hop})"


def printable(text: str) -> str:
    """One line that cannot repaint the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(value: Any) -> Any:
    """For JSON: ids as hex digits, bytes as base64, each Struct with its kind."""
    match value:
        case msgspec.Struct():
            fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
            if isinstance(value, Batch):
                del fields["wire"]
            return {"kind": type(value).__name__, **fields}
        case tuple() | list():
            return [plain(one) for one in value]
        case bytes():
            return base64.b64encode(value).decode()
        case int() if value >= LARGE:
            return ids.text(Id(value)) if value < ids.RING else str(value)
        case None | bool() | int() | float() | str():
            return value
    return repr(value)


def structs(*values: Any) -> Iterator[msgspec.Struct]:
    """Every Struct in these values, the outer ones first."""
    for value in values:
        if isinstance(value, msgspec.Struct):
            yield value
            yield from structs(*(getattr(value, name) for name in value.__struct_fields__))
        elif isinstance(value, tuple | list):
            yield from structs(*value)


class About(msgspec.Struct, frozen=True):
    """Which steps somebody wants to see; what is not given does not matter.

    ``kind`` is the name of an input, an effect, a message or an event; ``peer`` the beginning of a node's id,
    or an address."""

    kind: str = ""
    peer: str = ""
    topic: Id | None = None

    def wants(self, input_: Any, effects: list[Any]) -> bool:
        """Whether such a step is one of them."""
        parts = list(structs(input_, effects))
        return (
            (not self.kind or any(self._is_kind(part) for part in parts))
            and (not self.peer or any(self._is_peer(part) for part in parts))
            and (self.topic is None or any(self._is_topic(part) for part in parts))
        )

    def _is_kind(self, part: msgspec.Struct) -> bool:
        return type(part).__name__.lower() == self.kind.lower()

    def _is_peer(self, part: msgspec.Struct) -> bool:
        if isinstance(part, Batch):
            return ids.text(part.origin).startswith(self.peer.lower())
        return isinstance(part, Peer) and (
            part.address == self.peer or ids.text(part.id).startswith(self.peer.lower())
        )

    def _is_topic(self, part: msgspec.Struct) -> bool:
        if isinstance(part, Descriptor):
            return part.id == self.topic
        return self.topic in (getattr(part, "topic", None), getattr(part, "subject", None))
