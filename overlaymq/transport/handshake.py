"""Who is there: the first words on a link, and their proof. No I/O.

    dialer -> listener   metadata: version, id, nonce
    listener -> dialer   metadata: version, id, nonce, incarnation
    dialer -> listener   Hello, signing the listener's nonce
    listener -> dialer   Hello, signing the dialer's nonce; with the token for the data stream

A signature covers a context text, the role, the other side's nonce, both ids, the signer's incarnation
and its address. So it cannot be replayed (the nonce is fresh), passed on to a third node (both ids are
in it), reflected (the role is in it) or used with another address. The id must be the hash of the key.
What a refused side reads is ``Refused``'s text; what the refusing side counts is its ``label``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from overlaymq.errors import OverlayError
from overlaymq.identity import node_id, verify
from overlaymq.ids import BYTES, Id, from_bytes, short, to_bytes
from overlaymq.messages import Peer
from overlaymq.transport.codec import Hello

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.identity import Identity

VERSION = 1
"""Of the protocol between nodes. Others are refused."""
NONCE = 32
CONTEXT = b"overlaymq.v1 link\0"

VERSION_KEY = "overlaymq-version"
ID_KEY = "overlaymq-id-bin"
NONCE_KEY = "overlaymq-nonce-bin"
INCARNATION_KEY = "overlaymq-incarnation"
TOKEN_KEY = "overlaymq-token-bin"

Metadata = tuple[tuple[str, str | bytes], ...]


class Refused(OverlayError):
    """Why there is no link. ``code`` is the name of a gRPC status, ``label`` what is counted."""

    def __init__(self, text: str, label: str, code: str = "FAILED_PRECONDITION") -> None:
        super().__init__(text)
        self.label = label
        self.code = code


class Opening(msgspec.Struct, frozen=True):
    """What a side says in metadata, before it proves anything."""

    id: Id
    nonce: bytes
    incarnation: int = 0


def new_nonce() -> bytes:
    """Fresh random bytes, also used as tokens."""
    return os.urandom(NONCE)


def opening_metadata(opening: Opening) -> Metadata:
    """Metadata for either direction."""
    return (
        (VERSION_KEY, str(VERSION)),
        (ID_KEY, to_bytes(opening.id)),
        (NONCE_KEY, opening.nonce),
        (INCARNATION_KEY, str(opening.incarnation)),
    )


def read_opening(metadata: Iterable[tuple[str, str | bytes]]) -> Opening:
    """Read the other side's metadata. Raises Refused."""
    found = {key: value for key, value in metadata if key.startswith("overlaymq-")}
    version = found.get(VERSION_KEY)
    if version is None:
        raise Refused("it does not speak overlaymq's protocol", "no protocol version")
    if version != str(VERSION):
        theirs = str(version)[:20]
        raise Refused(
            f"it speaks protocol version {theirs}, this node speaks {VERSION}: "
            "run the same release on both",
            "protocol version",
        )
    id_, nonce = found.get(ID_KEY), found.get(NONCE_KEY)
    if not isinstance(id_, bytes) or len(id_) != BYTES:
        raise Refused("its metadata has no id", "metadata")
    if not isinstance(nonce, bytes) or len(nonce) != NONCE:
        raise Refused("its metadata has no nonce", "metadata")
    incarnation = str(found.get(INCARNATION_KEY, "0"))
    if not (incarnation.isascii() and incarnation.isdecimal() and len(incarnation) < 20):
        raise Refused("its metadata has no incarnation", "metadata")
    return Opening(from_bytes(id_), nonce, int(incarnation))


def make_hello(
    identity: Identity, me: Peer, other: Opening, *, dialer: bool, token: bytes = b""
) -> Hello:
    """This side's proof."""
    signed = _signed(dialer, other.nonce, me.id, other.id, me.incarnation, me.address, token)
    signature = identity.sign(signed)
    return Hello(VERSION, me.id, identity.public_key, me.incarnation, me.address, signature, token)


def check_hello(hello: Hello, other: Opening, me: Id, nonce: bytes, *, dialer: bool) -> Peer:
    """Who the other side has proved to be. ``dialer`` says whether it is the one that dialled."""
    if hello.version != VERSION:
        raise Refused(f"its hello has protocol version {hello.version}", "protocol version")
    if hello.id != other.id:
        raise Refused("its hello has another id than its metadata", "id changed")
    if node_id(hello.public_key) != hello.id:
        raise Refused("its id is not the hash of its key", "id does not match key")
    signed = _signed(dialer, nonce, hello.id, me, hello.incarnation, hello.address, hello.token)
    if not verify(hello.public_key, hello.signature, signed):
        raise Refused(
            f"it could not prove that it is {short(hello.id)}", "bad signature", "UNAUTHENTICATED"
        )
    if not hello.address or hello.address.rpartition(":")[2] in ("", "0"):
        raise Refused("it does not say where it can be reached", "no address")
    return Peer(hello.id, hello.address, hello.incarnation)


def _signed(
    dialer: bool, nonce: bytes, signer: Id, other: Id, incarnation: int, address: str, token: bytes
) -> bytes:
    role = b"dialer\0" if dialer else b"listener\0"
    fixed = nonce + to_bytes(signer) + to_bytes(other) + incarnation.to_bytes(8, "big")
    variable = address.encode()
    return b"".join((CONTEXT, role, fixed, len(variable).to_bytes(4, "big"), variable, token))
