"""Identities: ids follow from keys, keys are kept safely, signatures prove who holds them."""

from __future__ import annotations

import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from overlaymq.errors import IdentityError
from overlaymq.identity import Identity, node_id, verify
from overlaymq.ids import text

if TYPE_CHECKING:
    from pathlib import Path


def test_the_id_is_the_hash_of_the_key() -> None:
    identity = Identity.ephemeral()
    assert text(identity.id) == hashlib.sha256(identity.public_key).hexdigest()[:32]
    assert node_id(identity.public_key, b"salt") != identity.id


def test_only_the_key_holder_can_sign() -> None:
    alice, bob = Identity.ephemeral(), Identity.ephemeral()
    signature = alice.sign(b"nonce")
    assert verify(alice.public_key, signature, b"nonce")
    assert not verify(alice.public_key, signature, b"other")
    assert not verify(bob.public_key, signature, b"nonce")


@pytest.mark.parametrize("key", [b"", b"short", b"\xff" * 32, b"\0" * 33])
def test_garbage_is_not_verified(key: bytes) -> None:
    assert not verify(key, b"", b"data")
    assert not verify(key, b"x" * 64, b"data")


def test_a_file_keeps_the_identity(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "node.key"
    made = Identity.load_or_create(path)
    assert Identity.load_or_create(path).id == made.id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path], "nothing else is left behind"


def test_many_starting_at_once_agree_on_one_key(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: Identity.load_or_create(path).id, range(32)))
    assert len(set(ids)) == 1


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    Identity.load_or_create(path)
    path.chmod(0o640)
    with pytest.raises(IdentityError, match="chmod 600"):
        Identity.load_or_create(path)


def _other_kind() -> bytes:
    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(range(256)), _other_kind()])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "node.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(IdentityError, match=r"node\.key holds no"):
        Identity.load_or_create(path)
    assert path.read_bytes() == content, "a file that is not ours is never overwritten"


def test_an_unusable_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(IdentityError, match="cannot be used"):
        Identity.load_or_create(tmp_path / "file" / "node.key")
    with pytest.raises(IdentityError, match="cannot be used"):
        Identity.load_or_create(tmp_path)


def test_the_key_is_never_shown() -> None:
    assert "Key" not in repr(Identity.ephemeral())
