"""A subscription's buffer against a list, and what a cancelled receive may cost: nothing.

The driver is a small stand-in that keeps real credit accounts. The twin sees what was offered and what the
application got; it applies each policy to a plain list of sequence numbers.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from overlaymq.config import DeliveryConfig
from overlaymq.core.flow import Flow, Transit
from overlaymq.errors import BufferFull, Closed, ConfigError
from overlaymq.events import Lagged, Missed, Ready
from overlaymq.ids import Id
from overlaymq.messages import Batch, Descriptor
from overlaymq.runtime.subscription import Subscription
from overlaymq.transport.codec import encode_body

if TYPE_CHECKING:
    from overlaymq.runtime.driver import Driver
    from overlaymq.runtime.message import Arrived, Message

TOPIC = Descriptor(Id(7), "prices", "", Id(7), "direct", "best_effort", "lossless")
CONFIG = DeliveryConfig(patience=1.0, event_buffer=1000)
LIMIT = 10
BYTES = 2000


class Told:
    """What a subscription tells its trace: which messages were taken, and which were given up."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.given_up: list[int] = []

    def consumed(self, arrived: Arrived) -> None:
        first = arrived.batch.first
        self.taken += range(first + arrived.told, first + arrived.start)
        arrived.told = max(arrived.told, arrived.start)

    def undelivered(self, arrived: Arrived, start: int, count: int, reason: str) -> None:
        first = arrived.batch.first + start
        self.given_up += range(first, first + count)


class Stand:
    """What a subscription needs of a driver; it counts each released transit."""

    def __init__(self) -> None:
        self.flow = Flow(1 << 20, CONFIG.patience)
        self.released: Counter[int] = Counter()
        self.subscribed = 0
        self.tracing = Told()

    def settle(self) -> None:
        while self.flow.released:
            self.released[id(self.flow.released.pop())] += 1

    def check_open(self) -> None:
        pass

    def subscribe(self, subscription: Subscription, descriptor: Descriptor) -> None:
        self.subscribed += 1

    def unsubscribe(self, subscription: Subscription) -> None:
        self.subscribed -= 1


async def find(topic: str) -> Descriptor:
    await trio.lowlevel.checkpoint()
    return TOPIC


def subscription(stand: Stand, **options: Any) -> Subscription:
    made = Subscription(cast("Driver", stand), "prices", find, CONFIG, **options)
    made.descriptor = TOPIC
    return made


class Source:
    """Consecutive batches of one origin, offered the way the driver does."""

    def __init__(self, stand: Stand, flow: str = "lossless") -> None:
        self.stand = stand
        self.flow = flow
        self.next = 0
        self.now = 0.0
        self.transits: list[Transit] = []

    def offer(self, to: Subscription, count: int, size: int = 1, skip: int = 0) -> Batch:
        body = encode_body([bytes(size)] * count)
        batch = Batch(TOPIC.id, Id(5), 1, self.next, count, body, skip=skip)
        self.next += count
        transit = Transit(None, TOPIC.id, batch.size)
        self.transits.append(transit)
        to.offer(batch, transit, self.flow, self.now)
        self.stand.settle()
        return batch


def take(one: Subscription) -> int | None:
    """The next sequence number, or None if the application would have to wait."""
    while (current := one._current) is None or not len(current):
        if one._advance() is None:
            return None
    message = current.messages[current.start]
    current.start += 1
    return message.seq


# --- the policies against a list ---


class Held:
    """An offered batch, to the twin: what is left of it."""

    def __init__(self, batch: Batch) -> None:
        self.left = list(range(batch.first + batch.skip, batch.last + 1))
        self.size = batch.size


class BufferMachine(RuleBasedStateMachine):
    """The twin is a list of batches; the first may be the one the application is reading."""

    policy = ""

    @initialize(byte_limit=st.sampled_from([BYTES, 10**6]))
    def start(self, byte_limit: int) -> None:
        self.byte_limit = byte_limit
        self.stand = Stand()
        self.source = Source(self.stand)
        self.buffer = subscription(
            self.stand, when_full=self.policy, buffer=LIMIT, buffer_bytes=byte_limit
        )
        self.twin: list[Held] = []
        self.reading: Held | None = None
        self.delivered = self.taken = self.dropped = 0
        self.last = -1

    def left(self) -> int:
        return sum(len(one.left) for one in self.twin) + self.left_reading()

    def left_reading(self) -> int:
        return len(self.reading.left) if self.reading else 0

    def bytes(self) -> int:
        return sum(one.size for one in self.twin)

    def too_much(self) -> bool:
        return self.left() > LIMIT or self.bytes() > self.byte_limit

    @rule(
        count=st.integers(1, 2 * LIMIT),
        size=st.sampled_from([0, 0, 20, 300, BYTES]),
        skip=st.integers(0, 3),
    )
    def offer(self, count: int, size: int, skip: int) -> None:
        batch = self.source.offer(self.buffer, count, size // count, min(skip, count - 1))
        held = Held(batch)
        self.delivered += len(held.left)
        before = self.left()
        self.keep(held)
        self.dropped += before + len(Held(batch).left) - self.left()
        self.twin = [one for one in self.twin if one.left]

    def keep(self, new: Held) -> None:
        raise NotImplementedError

    @rule(times=st.integers(1, 15))
    def take(self, times: int) -> None:
        for _ in range(times):
            if not self.left_reading():
                self.reading = self.twin.pop(0) if self.twin else None
            expected = self.reading.left.pop(0) if self.reading else None
            got = take(self.buffer)
            assert got == expected
            if got is None:
                return
            assert got > self.last, "order is kept"
            self.last = got
            self.taken += 1

    @invariant()
    def every_message_is_accounted_for(self) -> None:
        counters = self.buffer.statistics()
        assert counters.delivered == counters.taken + counters.dropped + counters.buffered
        assert counters.delivered == self.delivered
        assert counters.taken == self.taken
        assert counters.dropped == self.dropped
        assert counters.buffered == self.left()

    @invariant()
    def every_message_is_traced_once(self) -> None:
        told = self.stand.tracing
        current = self.buffer._current
        open_ = 0 if current is None else current.start - current.told
        assert len(told.taken) + open_ == self.taken
        assert len(told.given_up) == self.dropped
        assert len({*told.taken, *told.given_up}) == len(told.taken) + len(told.given_up)

    @invariant()
    def the_bounds_hold(self) -> None:
        counters = self.buffer.statistics()
        assert counters.buffered <= LIMIT
        assert counters.buffered_bytes <= self.byte_limit

    @invariant()
    def nothing_but_block_holds_credit(self) -> None:
        assert all(transit.pending == 0 for transit in self.source.transits)

    @invariant()
    def what_was_dropped_is_announced(self) -> None:
        events = self.buffer.events()._events
        assert sum(one.dropped for one in events if isinstance(one, Lagged)) == self.dropped

    def teardown(self) -> None:
        self.buffer.close()
        counters = self.buffer.statistics()
        assert (counters.buffered, counters.buffered_bytes) == (0, 0)
        assert counters.delivered == counters.taken + counters.dropped
        assert all(transit.pending == 0 for transit in self.source.transits)


class DropOldest(BufferMachine):
    policy = "drop_oldest"

    def keep(self, new: Held) -> None:
        """Message by message from the front; a whole batch when bytes are short."""
        self.twin.append(new)
        while self.too_much():
            front = self.reading if self.reading and self.reading.left else self.twin[0]
            if self.bytes() > self.byte_limit:
                front.left.clear()
            else:
                front.left.pop(0)
            self.twin = [one for one in self.twin if one.left]


class DropNewest(BufferMachine):
    policy = "drop_newest"

    def keep(self, new: Held) -> None:
        self.twin.append(new)
        if self.bytes() > self.byte_limit:
            new.left.clear()
        while self.left() > LIMIT:
            new.left.pop()


class Latest(BufferMachine):
    policy = "latest"

    def keep(self, new: Held) -> None:
        new.left = new.left[-1:]
        self.twin = [new]
        self.reading = None

    @invariant()
    def the_bounds_hold(self) -> None:
        assert self.buffer.statistics().buffered <= 1


class Fail(DropNewest):
    policy = "fail"
    failed = False

    def keep(self, new: Held) -> None:
        """What fits, and nothing after that."""
        if not self.failed:
            whole = len(new.left)
            super().keep(new)
            self.failed = len(new.left) < whole

    @invariant()
    def it_fails_with_the_first_that_is_dropped(self) -> None:
        assert self.buffer._overflowed == self.failed == bool(self.dropped)


class Block(BufferMachine):
    """The buffer takes a batch while there is any room; the rest waits with its transit."""

    policy = "block"

    def keep(self, new: Held) -> None:
        self.twin.append(new)

    @invariant()
    def the_bounds_hold(self) -> None:
        """One batch may overshoot; what waits beyond that holds its credit."""
        waiting = [transit for transit in self.source.transits if transit.pending]
        assert all(transit.pending == 1 for transit in waiting)
        in_buffer = self.left() - sum(
            len(one.left) for one in self.twin[-len(waiting) :] if waiting
        )
        last = self.twin[-len(waiting) - 1].left if len(self.twin) > len(waiting) else []
        assert in_buffer < LIMIT + max(len(last), self.left_reading(), 1)

    @invariant()
    def nothing_but_block_holds_credit(self) -> None:
        """What waits is the newest, and each that went on was released once."""
        pending = [bool(transit.pending) for transit in self.source.transits]
        assert all(not (before and not after) for before, after in pairwise(pending))
        assert set(self.stand.released.values()) <= {1}

    def teardown(self) -> None:
        while self.left():
            self.take(1)
        assert self.taken == self.delivered, "a blocked subscription gets everything in the end"
        super().teardown()


few = settings(max_examples=60, stateful_step_count=30)
TestDropOldest = DropOldest.TestCase
TestDropNewest = DropNewest.TestCase
TestLatest = Latest.TestCase
TestFail = Fail.TestCase
TestBlock = Block.TestCase
for case in (TestDropOldest, TestDropNewest, TestLatest, TestFail, TestBlock):
    case.settings = few


async def test_fail_raises_after_what_was_buffered() -> None:
    stand = Stand()
    one = subscription(stand, when_full="fail", buffer=3)
    source = Source(stand)
    source.offer(one, 3)
    source.offer(one, 1)
    assert [(await one.receive()).seq for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(BufferFull, match="3 messages"):
            await one.receive()
    source.offer(one, 1)  # it stays failed: there is a hole now
    with pytest.raises(BufferFull):
        await one.receive()


def test_closing_releases_every_transit_once_and_counts_what_was_buffered() -> None:
    stand = Stand()
    one = subscription(stand, buffer=2)
    source = Source(stand)
    for _ in range(5):
        source.offer(one, 2)
    assert [transit.pending for transit in source.transits] == [0, 1, 1, 1, 1]
    one.close()
    one.close()
    assert [stand.released[id(transit)] for transit in source.transits] == [0, 1, 1, 1, 1]
    assert one.statistics().dropped == 10


def test_giving_up_drops_what_waits_and_what_follows_until_there_is_room() -> None:
    stand = Stand()
    one = subscription(stand, buffer=2)
    source = Source(stand, "patient")
    blocked = []
    for source.now in (0.0, 5.0, 5.5):
        source.offer(one, 2)
        blocked.append(one.blocked_since)
    assert blocked == [None, 5.0, 5.0]
    one.give_up()
    stand.settle()
    assert [stand.released[id(transit)] for transit in source.transits] == [0, 1, 1]
    source.now = 6.5
    source.offer(one, 2)
    assert one.statistics().dropped == 6
    assert [take(one) for _ in range(3)] == [0, 1, None]
    source.offer(one, 2)
    assert [take(one) for _ in range(3)] == [8, 9, None]


def test_a_lossy_topic_never_waits_for_a_blocked_subscription() -> None:
    stand = Stand()
    one = subscription(stand, buffer=2)
    source = Source(stand, "lossy")
    for _ in range(3):
        source.offer(one, 2)
    assert all(transit.pending == 0 for transit in source.transits)
    assert one.statistics().dropped == 4


def test_a_batch_with_fewer_messages_than_it_says_is_counted_not_raised() -> None:
    stand = Stand()
    one = subscription(stand, when_full="drop_oldest", buffer=3)
    lying = Batch(TOPIC.id, Id(5), 1, 0, 5, encode_body([b"only one"]))
    nonsense = Batch(TOPIC.id, Id(5), 1, 5, 1, b"\xff\xff")
    one.offer(lying, Transit(None, TOPIC.id, 0), "lossless", 0.0)
    assert take(one) is None
    one.offer(nonsense, Transit(None, TOPIC.id, 0), "lossless", 0.0)
    assert take(one) is None
    counters = one.statistics()
    assert (counters.delivered, counters.dropped, counters.malformed) == (6, 6, 4)


@pytest.mark.parametrize("option", [{"when_full": "explode"}, {"buffer": 0}, {"buffer_bytes": 0}])
def test_wrong_options_are_named(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))):
        subscription(Stand(), **option)


async def test_waiting_to_be_ready_ends_with_an_error_if_the_subscription_is_closed() -> None:
    stand = Stand()
    one = subscription(stand)

    async def close() -> None:
        await trio.testing.wait_all_tasks_blocked()
        one.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        with pytest.raises(Closed):
            await one.wait_ready()


async def test_a_closed_subscription_ends_its_iterations() -> None:
    one = subscription(Stand())
    one.happened(Ready(TOPIC.id))
    await one.wait_ready()
    one.close()
    assert [message async for message in one] == []
    assert [batch async for batch in one.batches()] == []
    assert [event async for event in one.events()] == []
    with pytest.raises(Closed):
        await one.receive()


# --- cancelling ---


async def cancelled_often(receive: Any, until: int, random: Random) -> list[Any]:
    """Receive that many items in a task that is cancelled again and again, at any checkpoint.

    Each attempt may run for a random number of scheduling turns, none at all included. What an attempt
    got before it was cancelled counts; nothing else may be gone.
    """
    got: list[Any] = []

    async def attempt(scope: trio.CancelScope) -> None:
        with scope:
            while len(got) < until:
                got.append(await receive())

    while len(got) < until:
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, scope)
            for _ in range(random.choice([0, 0, 1, 1, 2, 3, 5])):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    return got


async def feed(one: Subscription, source: Source, total: int, random: Random) -> None:
    while source.next < total:
        source.offer(one, min(random.choice([1, 2, 7, 150]), total - source.next))
        for _ in range(random.choice([0, 0, 1, 4])):
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("seed", range(30))
async def test_cancelling_a_receive_loses_and_repeats_nothing(seed: int) -> None:
    random = Random(seed)
    stand = Stand()
    one = subscription(stand, buffer=random.choice([1, 20, 10_000]))
    source = Source(stand)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed, one, source, 500, random)
        got: list[Message] = await cancelled_often(one.__anext__, 500, random)
    assert [message.seq for message in got] == list(range(500))
    assert one.statistics().taken == 500
    assert all(transit.pending == 0 for transit in source.transits)
    assert set(stand.released.values()) <= {1}


@pytest.mark.parametrize("seed", range(15))
async def test_cancelling_batches_loses_and_repeats_nothing(seed: int) -> None:
    random = Random(seed)
    stand = Stand()
    one = subscription(stand, buffer=random.choice([1, 20, 10_000]))
    source = Source(stand)
    batches = one.batches()
    got: list[int] = []

    async def receive() -> None:
        got.extend(message.seq for message in await batches.__anext__())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed, one, source, 500, random)
        while len(got) < 500:
            await cancelled_often(receive, 1, random)
    assert got == list(range(500))


@pytest.mark.parametrize("seed", range(15))
async def test_cancelling_events_loses_and_repeats_nothing(seed: int) -> None:
    random = Random(seed)
    one = subscription(Stand())
    expected = [Missed(TOPIC.id, Id(5), number, number) for number in range(100)]

    async def happen() -> None:
        for event in expected:
            one.happened(event)
            for _ in range(random.choice([0, 0, 1, 4])):
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(happen)
        got = await cancelled_often(one.events().__anext__, len(expected), random)
    assert got == expected


@pytest.mark.parametrize("seed", range(10))
async def test_tasks_that_share_a_subscription_share_its_messages(seed: int) -> None:
    random = Random(seed)
    stand = Stand()
    one = subscription(stand)
    got: list[int] = []

    async def read() -> None:
        async for message in one:
            got.append(message.seq)
            if random.random() < 0.3:
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(read)
        await feed(one, Source(stand), 500, random)
        await trio.testing.wait_all_tasks_blocked()
        one.close()
    assert got == list(range(500))


@given(st.integers(1, 20), st.lists(st.sampled_from(["missed", "lagged"]), max_size=60))
def test_events_are_bounded_and_lagged_ones_joined(limit: int, kinds: list[str]) -> None:
    made = Subscription(cast("Driver", Stand()), "prices", find, DeliveryConfig(event_buffer=limit))
    made.descriptor = TOPIC
    twin: list[Missed | Lagged] = []
    gone = 0
    for number, kind in enumerate(kinds):
        if kind == "missed":
            twin.append(Missed(TOPIC.id, Id(5), number, number))
            made.happened(twin[-1])
        else:
            before = twin[-1] if twin else None
            made.happened(Lagged(TOPIC.id, 2))
            if isinstance(before, Lagged):
                twin[-1] = Lagged(TOPIC.id, before.dropped + 2)
            else:
                twin.append(Lagged(TOPIC.id, 2))
        if len(twin) > limit:
            twin.pop(0)
            gone += 1
    assert list(made.events()._events) == twin
    assert made.statistics().events_dropped == gone
    assert made.statistics().missed == kinds.count("missed")
    assert made.statistics().skipped_upstream == 2 * kinds.count("lagged")


async def test_fail_keeps_what_fits_of_a_batch() -> None:
    stand = Stand()
    one = subscription(stand, when_full="fail", buffer=3)
    Source(stand).offer(one, 5)
    assert [(await one.receive()).seq for _ in range(3)] == [0, 1, 2]
    with pytest.raises(BufferFull, match="3 messages"):
        await one.receive()
