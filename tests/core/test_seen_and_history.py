"""Duplicate detection against a set of integers, and a root's history against a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from overlaymq.core.reliability import seen as seen_module
from overlaymq.core.reliability.history import History
from overlaymq.core.reliability.seen import Seen
from overlaymq.ids import Id
from overlaymq.messages import Batch

if TYPE_CHECKING:
    import pytest

ORIGIN = Id(1)
TOPIC = Id(7)


runs = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=60)


@given(runs)
def test_seen_is_a_set_of_integers(runs: list[tuple[int, int]]) -> None:
    seen = Seen()
    twin: set[int] = set()
    for first, count in runs:
        assert seen.add(ORIGIN, 1, first, first + count - 1) == (first not in twin)
        if first not in twin:
            twin |= set(range(first, first + count))
        assert {q for q in range(-1, 80) if (ORIGIN, 1, q) in seen} == twin


@given(st.permutations(range(40)))
def test_every_message_is_new_once_in_any_order(order: list[int]) -> None:
    seen = Seen()
    assert all(seen.add(ORIGIN, 1, number, number) for number in order)
    assert not any(seen.add(ORIGIN, 1, number, number) for number in order)


def test_origins_and_epochs_are_kept_apart() -> None:
    seen = Seen()
    seen.add(ORIGIN, 1, 0, 9)
    assert (ORIGIN, 2, 5) not in seen
    assert (Id(2), 1, 5) not in seen


def test_too_many_holes_close_from_the_lowest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "MAX_INTERVALS", 3)
    seen = Seen()
    for number in (0, 10, 20, 30):
        assert seen.add(ORIGIN, 1, number, number)
    assert (ORIGIN, 1, 5) in seen, "the lowest hole was given up: better silent than twice"
    assert (ORIGIN, 1, 15) not in seen
    assert (ORIGIN, 1, 25) not in seen


def test_the_least_recently_active_origin_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "MAX_ORIGINS", 2)
    seen = Seen()
    seen.add(Id(1), 1, 0, 0)
    seen.add(Id(2), 1, 0, 0)
    seen.add(Id(1), 1, 1, 1)
    seen.add(Id(3), 1, 0, 0)
    assert (Id(1), 1, 0) in seen
    assert (Id(2), 1, 0) not in seen


# --- history ---


def of(batches: list[Batch]) -> list[int]:
    """The sequence numbers that a subscriber would see."""
    return [q for one in batches for q in range(one.first + one.skip, one.last + 1)]


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(0, 60), st.integers(0, 40))
def test_last_gives_exactly_the_last_messages(counts: list[int], bound: int, wanted: int) -> None:
    history = History(bound, 10**9)
    twin: list[int] = []
    for count in counts:
        first = len(twin)
        twin += range(first, first + count)
        history.add(Batch(TOPIC, ORIGIN, 1, first, count, b""))
    expected = min(wanted, bound, len(twin))
    assert of(history.last(min(wanted, bound))) == (twin[-expected:] if expected else [])


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 500)), max_size=30))
def test_history_never_holds_more_bytes_than_its_bound(batches: list[tuple[int, int]]) -> None:
    history = History(10**6, 1000)
    twin: list[Batch] = []
    for first, (count, size) in enumerate(batches):
        one = Batch(TOPIC, ORIGIN, 1, 10 * first, count, bytes(size))
        history.add(one)
        twin.append(one)
        while sum(kept.size for kept in twin) > 1000:
            twin.pop(0)
        assert [kept.first for kept in history.last(10**6)] == [kept.first for kept in twin]


def test_a_large_message_counts_once_and_comes_whole_or_not_at_all() -> None:
    history = History(100, 10**9)
    other = Id(2)
    history.add(Batch(TOPIC, other, 1, 0, 1, b""))
    chunks = [Batch(TOPIC, ORIGIN, 1, 5, 1, b"", chunk=at, chunks=3) for at in range(3)]
    history.add(chunks[0])
    history.add(Batch(TOPIC, other, 1, 1, 1, b""))
    history.add(chunks[1])
    history.add(chunks[2])

    def replayed(count: int) -> list[tuple[Id, int, int]]:
        return [(one.origin, one.first, one.chunk) for one in history.last(count)]

    assert replayed(1) == [(other, 1, 0)]
    assert replayed(2) == [(ORIGIN, 5, 0), (other, 1, 0), (ORIGIN, 5, 1), (ORIGIN, 5, 2)]
    assert len(replayed(3)) == 5


def test_chunks_do_not_push_messages_out_of_the_count() -> None:
    history = History(2, 10**9)
    history.add(Batch(TOPIC, ORIGIN, 1, 0, 1, b""))
    for at in range(50):
        history.add(Batch(TOPIC, ORIGIN, 1, 1, 1, b"", chunk=at, chunks=50))
    assert {one.first for one in history.last(2)} == {0, 1}


def test_the_kept_batch_itself_is_not_cut() -> None:
    history = History(10, 10**9)
    history.add(Batch(TOPIC, ORIGIN, 1, 0, 5, b""))
    assert history.last(2)[0].skip == 3
    assert history.last(5)[0].skip == 0


def test_no_history_keeps_nothing() -> None:
    history = History(0, 10**9)
    history.add(Batch(TOPIC, ORIGIN, 1, 0, 5, b""))
    assert history.last(5) == []
