"""The handshake's promises: only the holder of a key can be its id, on this link, now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.identity import Identity
from overlaymq.ids import Id, to_bytes
from overlaymq.messages import Peer
from overlaymq.transport import handshake
from overlaymq.transport.codec import Hello, decode_hello, encode_hello
from overlaymq.transport.handshake import Opening, Refused, check_hello, make_hello, read_opening

ALICE, BOB, EVE = Identity.ephemeral(), Identity.ephemeral(), Identity.ephemeral()
NONCE, OTHER_NONCE = b"n" * 32, b"m" * 32


def _hello(signer: Identity = ALICE, *, to: Id = BOB.id, nonce: bytes = NONCE) -> Hello:
    """What ``signer``, as the dialer, says to a listener with this id and nonce."""
    peer = Peer(signer.id, "host:7400", 5)
    made = make_hello(signer, peer, Opening(to, nonce), dialer=True, token=b"t")
    return decode_hello(encode_hello(made))


def _check(hello: Hello, claimed: Id = ALICE.id, *, dialer: bool = True) -> Peer:
    """What Bob makes of it, having sent NONCE to someone who claimed an id in its metadata."""
    return check_hello(hello, Opening(claimed, b""), BOB.id, NONCE, dialer=dialer)


def test_the_holder_of_the_key_is_believed() -> None:
    assert _check(_hello()) == Peer(ALICE.id, "host:7400", 5)


@pytest.mark.parametrize(
    ("hello", "label"),
    [
        (_hello(nonce=OTHER_NONCE), "bad signature"),  # a recording of an earlier link
        (_hello(to=EVE.id), "bad signature"),  # what Alice said to Eve, passed on to Bob
        (msgspec.structs.replace(_hello(EVE), id=ALICE.id), "id does not match key"),
        (
            msgspec.structs.replace(_hello(EVE), id=ALICE.id, public_key=ALICE.public_key),
            "bad signature",
        ),
        (_hello(EVE), "id changed"),
        (msgspec.structs.replace(_hello(), version=2), "protocol version"),
    ],
)
def test_lies_are_refused(hello: Hello, label: str) -> None:
    with pytest.raises(Refused) as caught:
        _check(hello)
    assert caught.value.label == label
    assert str(caught.value)


def test_a_listeners_words_cannot_be_a_dialers() -> None:
    with pytest.raises(Refused, match="could not prove"):
        _check(_hello(), dialer=False)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("incarnation", 6),
        ("address", "evil:7400"),
        ("token", b"u"),
        ("signature", b""),
        ("signature", b"x" * 64),
    ],
)
def test_every_field_is_under_the_signature(field: str, value: Any) -> None:
    with pytest.raises(Refused, match="could not prove"):
        _check(msgspec.structs.replace(_hello(), **{field: value}))


def test_metadata_round_trips() -> None:
    opening = Opening(ALICE.id, NONCE, 7)
    assert read_opening(handshake.opening_metadata(opening)) == opening


@pytest.mark.parametrize(
    "changes",
    [
        {handshake.VERSION_KEY: None},
        {handshake.VERSION_KEY: "2"},
        {handshake.ID_KEY: b"short"},
        {handshake.ID_KEY: "text"},
        {handshake.NONCE_KEY: None},
        {handshake.NONCE_KEY: b"n" * 31},
        {handshake.INCARNATION_KEY: "-1"},
        {handshake.INCARNATION_KEY: "9" * 30},
        {handshake.INCARNATION_KEY: "\u0661"},
    ],
)
def test_bad_metadata_is_refused(changes: dict[str, Any]) -> None:
    good = dict(handshake.opening_metadata(Opening(ALICE.id, NONCE, 7)))
    changed = {key: value for key, value in {**good, **changes}.items() if value is not None}
    with pytest.raises(Refused) as caught:
        read_opening(changed.items())
    assert caught.value.label


@given(
    st.dictionaries(
        st.sampled_from(
            [
                handshake.VERSION_KEY,
                handshake.ID_KEY,
                handshake.NONCE_KEY,
                handshake.INCARNATION_KEY,
                "x",
            ]
        ),
        st.just("1") | st.text(max_size=40) | st.binary(max_size=40) | st.just(to_bytes(Id(1))),
    )
)
def test_any_metadata_is_read_or_refused(found: dict[str, str | bytes]) -> None:
    try:
        opening = read_opening(found.items())
    except Refused as refusal:
        text = str(refusal)
    else:
        text = str(opening)
    assert text


def test_nonces_are_fresh() -> None:
    assert len({handshake.new_nonce() for _ in range(100)}) == 100
