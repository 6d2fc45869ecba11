"""Ring identifiers against arithmetic done the slow way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq import ids
from overlaymq.ids import BITS, RING, Id

some_ids = st.integers(0, RING - 1).map(Id)
digit_bits = st.sampled_from([1, 2, 4, 8])


@given(some_ids)
def test_bytes_and_text_come_back(id_: Id) -> None:
    assert ids.from_bytes(ids.to_bytes(id_)) == id_
    assert ids.parse(ids.text(id_)) == id_
    assert ids.text(id_).startswith(ids.short(id_))
    assert (len(ids.to_bytes(id_)), len(ids.text(id_)), len(ids.short(id_))) == (16, 32, 8)


@pytest.mark.parametrize("raw", [b"", b"x" * 15, b"x" * 17])
def test_an_id_of_another_length_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        ids.from_bytes(raw)
    with pytest.raises(ValueError, match="32 hex digits"):
        ids.parse(raw.hex())


def test_hashed_parts_do_not_run_together() -> None:
    assert ids.hashed(b"ab", b"c") != ids.hashed(b"a", b"bc")
    assert ids.topic_id("prices") != ids.topic_id("prices", "alice")
    assert ids.topic_id("prices") == ids.topic_id("prices", "")


@given(some_ids, some_ids)
def test_distance_is_the_shorter_way_round(a: Id, b: Id) -> None:
    assert ids.distance(a, b) == ids.distance(b, a) == min((a - b) % RING, (b - a) % RING)
    assert ids.distance(a, b) <= RING // 2
    assert (ids.distance(a, b) == 0) == (a == b)


@given(some_ids, some_ids, some_ids)
def test_rank_orders_by_distance_and_ties_go_clockwise(key: Id, a: Id, b: Id) -> None:
    nearer = ids.distance(key, a) - ids.distance(key, b)
    if nearer:
        assert (ids.rank(key, a) < ids.rank(key, b)) == (nearer < 0)
    elif a != b:
        clockwise = a if ids.clockwise(key, a) < ids.clockwise(key, b) else b
        assert ids.closest(key, [a, b]) == ids.closest(key, [b, a]) == clockwise


@given(some_ids, st.integers(1, RING // 2 - 1))
def test_a_key_half_way_belongs_to_the_clockwise_node(key: Id, offset: int) -> None:
    above, below = Id((key + offset) % RING), Id((key - offset) % RING)
    assert ids.closest(key, [below, above]) == above


@given(some_ids, st.lists(some_ids, min_size=1, unique=True))
def test_ranks_of_different_nodes_differ(key: Id, nodes: list[Id]) -> None:
    assert len({ids.rank(key, node) for node in nodes}) == len(nodes)


@given(some_ids, some_ids, some_ids)
def test_between_follows_the_clock(low: Id, id_: Id, high: Id) -> None:
    unrolled_high = high if high >= low else high + RING
    unrolled = id_ if id_ >= low else id_ + RING
    assert ids.between(low, id_, high) == (low <= unrolled <= unrolled_high)
    assert ids.between(low, low, high)
    assert ids.between(low, high, high)


@given(some_ids, some_ids, digit_bits)
def test_shared_digits_against_strings(a: Id, b: Id, bits: int) -> None:
    def digits(id_: Id) -> list[int]:
        return [ids.digit(id_, position, bits) for position in range(BITS // bits)]

    shared = 0
    for mine, other in zip(digits(a), digits(b), strict=True):
        if mine != other:
            break
        shared += 1
    assert ids.shared_digits(a, b, bits) == shared


@given(some_ids)
def test_hex_digits_are_the_digits_of_four_bits(id_: Id) -> None:
    assert [int(c, 16) for c in ids.text(id_)] == [ids.digit(id_, p, 4) for p in range(32)]
