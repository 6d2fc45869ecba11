"""What a reliability mode makes of batches that come twice, late, out of order, in pieces or not at all.

``Origin`` cuts a sequence into batches the way a publisher does; ``Reader`` feeds a mode and reads its
effects the way a node does, keeping time and giving timers back.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.config import DeliveryConfig
from overlaymq.core.reliability import modes
from overlaymq.core.reliability.modes import BestEffort, Fifo
from overlaymq.events import Deliver, Dropped, Missed, Notify, SetTimer
from overlaymq.ids import Id
from overlaymq.messages import Batch

if TYPE_CHECKING:
    from overlaymq.events import Effect, Timer

TOPIC = Id(7)
CONFIG = DeliveryConfig(reorder_wait=0.5, chunk_timeout=10.0, reassembly=100_000)
ALICE, BOB = Id(1), Id(2)


def batch(
    first: int, count: int = 1, *, origin: Id = ALICE, epoch: int = 1, size: int = 0
) -> Batch:
    return Batch(TOPIC, origin, epoch, first, count, bytes(size))


def chunked(first: int, body: bytes, pieces: int, *, origin: Id = ALICE) -> list[Batch]:
    step = -(-len(body) // pieces)
    return [
        Batch(
            TOPIC, origin, 1, first, 1, body[at * step : (at + 1) * step], chunk=at, chunks=pieces
        )
        for at in range(pieces)
    ]


class Reader:
    """A node with one mode: what it would deliver, announce and count."""

    def __init__(self, mode: BestEffort) -> None:
        self.mode = mode
        self.now = 0.0
        self.delivered: list[Batch] = []
        self.missed: list[tuple[Id, int, int]] = []
        self.log: list[tuple[Id, int, int, str]] = []
        self.dropped: Counter[str] = Counter()
        self._timers: list[tuple[float, int, Timer]] = []
        self._set = 0

    def feed(self, *batches: Batch) -> None:
        for one in batches:
            self._perform(self.mode.deliver(one, self.now))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._timers)
            self._perform(self.mode.fired(timer, self.now))
        self.now = until

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver(one):
                    self.delivered.append(one)
                    self.log.append((one.origin, one.first, one.last, "delivered"))
                case Notify(Missed(topic, origin, first, last)):
                    assert topic == TOPIC
                    self.missed.append((origin, first, last))
                    self.log.append((origin, first, last, "missed"))
                case Notify(Dropped(reason, messages)):
                    self.dropped[reason] += messages
                case SetTimer(timer, delay):
                    self._set += 1
                    heapq.heappush(self._timers, (self.now + delay, self._set, timer))
                case _:
                    pytest.fail(f"unexpected {effect}")

    def sequences(self, origin: Id = ALICE) -> list[int]:
        mine = [one for one in self.delivered if one.origin == origin]
        return [sequence for one in mine for sequence in range(one.first, one.last + 1)]


def test_where_batches_overtake_each_other_the_first_to_arrive_need_not_be_the_first() -> None:
    """On a gossip topic, a link that had just become eager brought the second before the first."""
    reader = Reader(Fifo(TOPIC, CONFIG))
    reader.mode.mesh = True
    reader.feed(batch(1))
    assert reader.sequences() == []
    reader.feed(batch(0))
    assert reader.sequences() == [0, 1]
    reader.feed(batch(7, origin=BOB), batch(6, origin=BOB))
    reader.wait(CONFIG.reorder_wait)
    assert reader.sequences(BOB) == [6, 7]
    assert reader.missed == [], "a subscription begins when it begins"


@pytest.fixture
def fifo() -> Reader:
    return Reader(Fifo(TOPIC, CONFIG))


@pytest.fixture
def best_effort() -> Reader:
    return Reader(BestEffort(TOPIC, CONFIG))


# What the network makes of a few publications: each batch lost, or there at one or more times.
fates = st.lists(st.lists(st.floats(0, 3), max_size=3), min_size=1, max_size=12)


def cut(seed: int, arrivals: list[list[float]], origin: Id) -> list[tuple[float, int, Batch]]:
    """Batches of random lengths, some in chunks, with the times at which each piece arrives."""
    random = Random(seed)
    first = random.randrange(100)
    events: list[tuple[float, int, Batch]] = []
    for times in arrivals:
        count = random.choice([1, 1, 2, 5])
        pieces = [batch(first, count, origin=origin)]
        if count == 1 and random.random() < 0.4:
            pieces = chunked(first, b"large message", 3, origin=origin)
        for piece in pieces:
            events += [(when + random.random(), len(events), piece) for when in times]
        first += count
    return events


def play(reader: Reader, events: list[tuple[float, int, Batch]]) -> None:
    for when, _, one in sorted(events, key=lambda event: event[:2]):
        reader.wait(when - reader.now)
        reader.feed(one)
    reader.wait(60)


@given(st.integers(0, 1000), fates)
def test_best_effort_delivers_everything_that_arrives_once(
    seed: int, arrivals: list[list[float]]
) -> None:
    reader = Reader(BestEffort(TOPIC, CONFIG))
    events = cut(seed, arrivals, ALICE)
    play(reader, events)
    arrived = {q for _, _, one in events for q in range(one.first, one.last + 1)}
    assert sorted(reader.sequences()) == sorted(arrived)
    assert reader.missed == []


@given(st.integers(0, 1000), fates, fates)
def test_fifo_gives_each_origin_in_order_and_announces_every_gap_once(
    seed: int, alice: list[list[float]], bob: list[list[float]]
) -> None:
    reader = Reader(Fifo(TOPIC, CONFIG))
    events = {ALICE: cut(seed, alice, ALICE), BOB: cut(seed + 1, bob, BOB)}
    play(reader, sorted(events[ALICE] + events[BOB], key=lambda event: event[0]))
    for origin, of_origin in events.items():
        log = [(first, last) for who, first, last, _ in reader.log if who == origin]
        if not of_origin:
            assert log == []
            continue
        # From its start on, what was delivered and what was missed is one unbroken run: nothing twice,
        # nothing out of order. It ends with the last that arrived.
        start = log[0][0]
        told = [run for run in log if run[0] >= start]
        for (_, before), (after, _) in itertools.pairwise(told):
            assert after == before + 1
        arrived = {q for _, _, one in of_origin for q in range(one.first, one.last + 1)}
        assert told[-1][1] == max(arrived)
        assert set(reader.sequences(origin)) <= arrived
        # Nothing that came is unaccounted for, also of what was overtaken by the stream's start.
        counts = Counter(q for first, last in log for q in range(first, last + 1))
        assert arrived <= set(counts)
        assert set(counts.values()) == {1}


def test_fifo_puts_overtaken_batches_back_in_order(fifo: Reader) -> None:
    fifo.feed(batch(0), batch(3, 2), batch(1, 2))
    assert fifo.sequences() == [0, 1, 2, 3, 4]
    fifo.wait(60)
    assert fifo.missed == []


def test_fifo_waits_for_a_gap_then_announces_it_and_drops_what_comes_late(fifo: Reader) -> None:
    fifo.feed(batch(0), batch(3), batch(6))
    fifo.wait(0.49)
    assert fifo.sequences() == [0]
    fifo.wait(0.02)
    assert fifo.missed[0] == (ALICE, 1, 2)
    fifo.wait(0.5)
    assert fifo.missed == [(ALICE, 1, 2), (ALICE, 4, 5)]
    assert fifo.sequences() == [0, 3, 6]
    fifo.feed(batch(1, 2), batch(4, 2))
    assert fifo.sequences() == [0, 3, 6]
    assert fifo.dropped == {"late": 4}


def test_fifo_counts_duplicates_and_does_not_deliver_them(fifo: Reader) -> None:
    fifo.feed(batch(0, 3), batch(0, 3), batch(5), batch(5))
    assert fifo.dropped == {"duplicate": 4}
    assert fifo.sequences() == [0, 1, 2]


def test_a_restarted_origin_begins_anew_and_ends_its_former_life(fifo: Reader) -> None:
    fifo.feed(batch(0), batch(1), batch(0, epoch=2), batch(2), batch(1, epoch=2))
    assert [(one.epoch, one.first) for one in fifo.delivered] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert fifo.dropped == {"late": 1}
    fifo.wait(60)
    assert fifo.missed == [(ALICE, 2, 2)], "its last word came too late"
    fifo.feed(batch(2))
    assert fifo.dropped == {"late": 1, "duplicate": 1}, "it is announced once"


def test_what_the_start_of_a_stream_has_overtaken_is_announced(fifo: Reader) -> None:
    """While the root changes, a publisher's second message may come before its first."""
    fifo.feed(batch(3, 2), batch(0, 3), batch(5))
    assert fifo.sequences() == [3, 4, 5]
    assert fifo.missed == [(ALICE, 0, 2)]
    fifo.feed(*chunked(9, b"large message", 3, origin=BOB), chunked(8, b"large", 3, origin=BOB)[0])
    fifo.wait(60)
    assert fifo.missed == [(ALICE, 0, 2), (BOB, 8, 8)], "of this one not all has come"


def test_what_is_held_of_a_former_life_is_delivered_with_its_gap(fifo: Reader) -> None:
    fifo.feed(batch(0), batch(2), batch(0, epoch=2))
    assert [(one.epoch, one.first) for one in fifo.delivered] == [(1, 0), (1, 2), (2, 0)]
    assert fifo.missed == [(ALICE, 1, 1)]


def test_what_fifo_holds_is_bounded_in_batches(
    fifo: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes, "MAX_HELD", 3)
    fifo.feed(batch(0), batch(2), batch(4), batch(6))
    assert fifo.missed == []
    fifo.feed(batch(8))
    assert fifo.missed == [(ALICE, 1, 1)]
    assert fifo.sequences() == [0, 2]


def test_what_fifo_holds_is_bounded_in_bytes_over_all_origins(fifo: Reader) -> None:
    fifo.feed(batch(0), batch(0, origin=BOB))
    fifo.feed(batch(2, size=60_000), batch(2, size=60_000, origin=BOB))
    assert fifo.missed == [(BOB, 1, 1)]
    assert fifo.sequences(BOB) == [0, 2]
    fifo.feed(batch(1))
    assert fifo.sequences() == [0, 1, 2]
    fifo.feed(batch(4, size=60_000))
    assert fifo.missed == [(BOB, 1, 1)], "what was delivered does not count any more"


def test_a_forgotten_origin_gets_what_was_held(
    fifo: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes, "MAX_ORIGINS", 1)
    fifo.feed(batch(0), batch(2), batch(0, origin=BOB))
    assert fifo.sequences() == [0, 2]
    assert fifo.missed == [(ALICE, 1, 1)]


def test_an_origin_that_uses_a_number_twice_never_goes_back(fifo: Reader) -> None:
    fifo.feed(batch(0), batch(3, 4), batch(2, 3), batch(1))
    assert fifo.sequences() == [0, 1, 2, 3, 4]
    assert fifo.dropped == {"late": 4}
    fifo.wait(60)
    assert fifo.missed == []


# --- large messages ---


@pytest.mark.parametrize("mode", [BestEffort, Fifo])
@given(order=st.permutations(list(range(5)) * 2), body=st.binary(min_size=5, max_size=50))
def test_chunks_are_put_together_whatever_their_order(
    mode: type[BestEffort], order: list[int], body: bytes
) -> None:
    reader = Reader(mode(TOPIC, CONFIG))
    pieces = chunked(0, body, 5)
    reader.feed(*[pieces[at] for at in order])
    (whole,) = reader.delivered
    assert (whole.body, whole.first, whole.count, whole.chunk, whole.chunks) == (body, 0, 1, 0, 1)
    reader.wait(60)
    assert reader.missed == []
    assert reader.dropped["incomplete large message"] == 0


def test_chunks_of_two_messages_do_not_mix(best_effort: Reader) -> None:
    pieces = [*chunked(0, b"aaaa", 2), *chunked(1, b"bbbb", 2), *chunked(0, b"cccc", 2, origin=BOB)]
    best_effort.feed(*pieces[::2], *pieces[1::2])
    assert [one.body for one in best_effort.delivered] == [b"aaaa", b"bbbb", b"cccc"]


def test_an_incomplete_message_is_one_counted_drop(best_effort: Reader) -> None:
    pieces = chunked(0, b"large message", 4)
    best_effort.feed(*pieces[:2])
    best_effort.wait(9)
    best_effort.feed(pieces[2])  # there is progress, so it may take longer
    best_effort.wait(9)
    assert best_effort.dropped == {}
    best_effort.wait(2)
    assert best_effort.dropped == {"incomplete large message": 1}
    best_effort.feed(*pieces[1:])
    best_effort.wait(60)
    assert +best_effort.dropped == {"incomplete large message": 1}
    assert best_effort.delivered == []


def test_an_incomplete_message_is_one_missed(fifo: Reader) -> None:
    fifo.feed(batch(0), *chunked(1, b"large message", 4)[1:])
    fifo.wait(11)
    assert fifo.missed == [(ALICE, 1, 1)]
    fifo.feed(batch(2))
    assert fifo.sequences() == [0, 2]
    fifo.feed(chunked(1, b"large message", 4)[0])
    fifo.wait(60)
    assert fifo.missed == [(ALICE, 1, 1)]


def test_a_gap_before_an_incomplete_message_is_announced_with_it(fifo: Reader) -> None:
    fifo.feed(batch(0), chunked(3, b"large message", 2)[0])
    fifo.wait(11)
    assert fifo.missed == [(ALICE, 1, 3)]


def test_what_is_held_behind_an_incomplete_message_is_delivered() -> None:
    patient = Reader(Fifo(TOPIC, DeliveryConfig(reorder_wait=30.0, chunk_timeout=10.0)))
    patient.feed(batch(0), batch(2), chunked(4, b"large message", 2)[0], batch(5))
    patient.wait(11)
    assert patient.missed == [(ALICE, 1, 1), (ALICE, 3, 4)]
    assert patient.sequences() == [0, 2, 5]


def test_an_incomplete_message_that_was_skipped_as_a_gap_is_announced_once(fifo: Reader) -> None:
    fifo.feed(batch(0), chunked(1, b"large message", 2)[0], batch(2))
    fifo.wait(60)
    assert fifo.missed == [(ALICE, 1, 1)]
    assert fifo.sequences() == [0, 2]


def test_incomplete_messages_are_bounded_in_bytes_and_the_oldest_goes(best_effort: Reader) -> None:
    for first in range(3):
        best_effort.feed(chunked(first, bytes(80_000), 2)[0])
    assert best_effort.dropped == {"incomplete large message": 1}
    for first in range(3):
        best_effort.feed(chunked(first, bytes(80_000), 2)[1])
    assert sorted(best_effort.sequences()) == [1, 2]


def test_empty_chunks_are_bounded_too(best_effort: Reader) -> None:
    for first in range(10_000):
        best_effort.feed(Batch(TOPIC, ALICE, 1, first, 1, b"", chunk=0, chunks=2))
    assert best_effort.dropped["incomplete large message"] > 5_000


def test_chunks_that_disagree_about_their_number_do_no_harm(best_effort: Reader) -> None:
    pieces = chunked(0, b"large message", 3)
    liar = Batch(TOPIC, ALICE, 1, 0, 1, b"??", chunk=1, chunks=2)
    best_effort.feed(pieces[0], liar, *pieces[1:])
    assert [one.body for one in best_effort.delivered] == [b"large message"]
