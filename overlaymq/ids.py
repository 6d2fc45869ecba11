"""128-bit ring identifiers.

Nodes, keys and topics share one circular space of 2**128 integers. An id is a plain ``int`` (cheap to
compare, hash and keep by the hundred thousand); on the wire it is 16 big-endian bytes, in text 32 hex
digits. Pastry reads an id as a string of digits of ``bits`` bits each, the most significant first.

"Numerically closest" is ring distance. A key exactly half-way between two nodes belongs to the
clockwise (larger) one: every node must break the tie alike, or two nodes claim the key, or none does.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from collections.abc import Iterable

Id = NewType("Id", int)

BITS = 128
RING = 1 << BITS
BYTES = BITS // 8


def from_bytes(raw: bytes) -> Id:
    """Read an id from its 16 wire bytes."""
    if len(raw) != BYTES:
        raise ValueError(f"an id is {BYTES} bytes, not {len(raw)}")
    return Id(int.from_bytes(raw, "big"))


def to_bytes(id_: Id) -> bytes:
    """The 16 wire bytes of an id."""
    return id_.to_bytes(BYTES, "big")


def parse(text: str) -> Id:
    """Read an id from its 32 hex digits."""
    if len(text) != 2 * BYTES:
        raise ValueError(f"an id is {2 * BYTES} hex digits, not {text!r}")
    return Id(int(text, 16))


def text(id_: Id) -> str:
    """The 32 hex digits of an id."""
    return f"{id_:032x}"


def short(id_: Id) -> str:
    """The first eight digits: enough to tell nodes apart in a log line."""
    return text(id_)[:8]


def hashed(*parts: bytes) -> Id:
    """The first 128 bits of SHA-256 over length-prefixed parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return from_bytes(digest.digest()[:BYTES])


def topic_id(name: str, creator: str = "") -> Id:
    """A topic's id is the hash of its name and its creator's (Scribe JSAC III-A)."""
    return hashed(name.encode(), creator.encode())


def clockwise(start: Id, end: Id) -> int:
    """How far it is from start to end going clockwise (up)."""
    return (end - start) % RING


def distance(a: Id, b: Id) -> int:
    """Ring distance, the shorter way round."""
    up = (a - b) % RING
    return min(up, RING - up)


def rank(key: Id, id_: Id) -> int:
    """Sort key for closeness to ``key``: distance first, then the clockwise node."""
    up = (id_ - key) % RING
    return min(2 * up, 2 * (RING - up) + 1)


def closest(key: Id, candidates: Iterable[Id]) -> Id:
    """The candidate that owns the key."""
    return min(candidates, key=lambda candidate: rank(key, candidate))


def between(low: Id, id_: Id, high: Id) -> bool:
    """Whether id_ lies on the clockwise arc from low to high, both ends included."""
    return clockwise(low, id_) <= clockwise(low, high)


def digit(id_: Id, position: int, bits: int) -> int:
    """The digit at a position, counted from the most significant."""
    return (id_ >> (BITS - bits * (position + 1))) & ((1 << bits) - 1)


def shared_digits(a: Id, b: Id, bits: int) -> int:
    """How many leading digits two ids share."""
    difference = a ^ b
    if not difference:
        return BITS // bits
    return (BITS - difference.bit_length()) // bits
