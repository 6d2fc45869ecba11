"""Who a node is: an Ed25519 key pair, and the ring id that follows from it.

The id is the first 128 bits of SHA-256(public key || salt). A node therefore cannot choose its
place on the ring except by making keys until one fits; the salt, given by an overlay's authority,
will stop that too. It is empty for now. Who holds the private key proves it by signing what the
other side has just made up (see transport/handshake.py).

A key file holds the private key as unencrypted PEM (PKCS 8), readable by its owner only: as for
ssh, a file that others can read is refused rather than used. It is created whole or not at all,
so that two processes that start at once agree on one key, and a crash leaves no half a file.

This is the only module that imports cryptography.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from overlaymq.errors import IdentityError
from overlaymq.ids import BYTES, Id, from_bytes, short


def node_id(public_key: bytes, salt: bytes = b"") -> Id:
    """The ring id that belongs to a public key."""
    return from_bytes(hashlib.sha256(public_key + salt).digest()[:BYTES])


def verify(public_key: bytes, signature: bytes, data: bytes) -> bool:
    """Whether the holder of this key signed this. Garbage is a no, never an exception."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


class Identity:
    """A key pair and its id. Make one with ``ephemeral`` or ``load_or_create``."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.id = node_id(self.public_key)

    def __repr__(self) -> str:
        return f"<Identity {short(self.id)}>"  # never the key

    @classmethod
    def ephemeral(cls) -> Identity:
        """A new identity that ends with the process."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load_or_create(cls, path: str | Path) -> Identity:
        """The identity kept in a file, made there on first use."""
        path = Path(path)
        try:
            if not path.exists():
                _create(path)
            return cls(_read(path))
        except OSError as error:
            raise IdentityError(
                f"the key file {path} cannot be used: {error.strerror}; "
                f"check the path and its permissions, or leave node.key_file empty"
            ) from None

    def sign(self, data: bytes) -> bytes:
        """64 bytes that only this key can make."""
        return self._key.sign(data)


def _create(path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its place and linked into it: link fails if another process was first, and
    # then that process's key is the one to use.
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:  # mkstemp made it 0600
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(scratch, path)
    finally:
        os.unlink(scratch)


def _read(path: Path) -> Ed25519PrivateKey:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise IdentityError(
                f"the key file {path} can be read by others (mode {mode:04o}): whoever read it can "
                f"pose as this node. Run `chmod 600 {path}`, or remove it to get a new identity"
            )
        pem = file.read(64 * 1024)
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):  # TypeError: the key is encrypted
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(
            f"the key file {path} holds no unencrypted Ed25519 private key; "
            f"restore it from a backup, or remove it to get a new identity"
        )
    return key
