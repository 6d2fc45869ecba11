"""The asyncio loop that takes its turns in a trio run."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
import trio

from overlaymq.config import LinkConfig
from overlaymq.identity import Identity
from overlaymq.transport import _io_loop
from overlaymq.transport.conformance_bench import Recorder
from overlaymq.transport.grpc import GrpcTransport
from overlaymq.transport.grpc_lane import Mailbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from overlaymq.transport._io_loop import IoLoop


@pytest.fixture
async def loop() -> AsyncIterator[IoLoop]:
    acquired = _io_loop.acquire()
    try:
        with trio.fail_after(10):
            yield acquired
    finally:
        await _io_loop.release(acquired)


async def test_its_tasks_wait_and_wake_as_asyncio_s_do(loop: IoLoop) -> None:
    async def work() -> str:
        assert asyncio.get_running_loop() is loop.loop
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        event = asyncio.Event()
        loop.call_later(0.01, event.set)
        await event.wait()
        return "done"

    assert await loop.perform(work()) == "done"
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


async def test_timers_come_in_order_and_not_after_they_were_cancelled(loop: IoLoop) -> None:
    rang: list[int] = []
    last = trio.Event()
    for number in (3, 1, 2):
        loop.call_later(number * 0.01, rang.append, number)
    loop.call_later(0.015, rang.append, 99).cancel()
    loop.call_later(0.05, last.set)
    await last.wait()
    assert rang == [1, 2, 3]


async def test_an_exception_comes_to_who_waits(loop: IoLoop) -> None:
    async def work() -> None:
        raise LookupError("what went wrong")

    with pytest.raises(LookupError, match="what went wrong"):
        await loop.perform(work())


async def test_a_callback_that_raises_is_logged_and_costs_no_other_its_turn(
    loop: IoLoop, caplog: pytest.LogCaptureFixture
) -> None:
    done = trio.Event()
    loop.call(int, "no number")
    loop.call(done.set)
    with caplog.at_level(logging.ERROR, "overlaymq.transport"):
        await done.wait()
    assert "no number" in caplog.text


async def test_nothing_that_a_callback_raises_ends_the_turns(loop: IoLoop) -> None:
    def give_up() -> None:
        raise asyncio.CancelledError

    async def work() -> str:
        await asyncio.sleep(0.01)
        return "done"

    loop.call(give_up)
    assert await loop.perform(work()) == "done"


async def test_what_one_mailbox_gives_another_is_taken(loop: IoLoop) -> None:
    done = trio.Event()
    two = Mailbox(loop.posted, print)
    one = Mailbox(loop.posted, print)
    loop.takers += [two.take, one.take]
    one.post(two.post, done.set)
    await done.wait()
    loop.takers.clear()


async def test_a_loop_in_the_same_thread_may_call(loop: IoLoop) -> None:
    """Trio may be the guest of an asyncio loop, and gRPC calls back in whichever loop is quicker."""
    done = trio.Event()
    loop.call_soon_threadsafe(done.set)
    await done.wait()


async def test_a_node_in_an_abandoned_generator_is_closed_quickly() -> None:
    async def nodes() -> AsyncIterator[GrpcTransport]:
        transport = GrpcTransport(Identity.ephemeral(), LinkConfig(grace=5.0), "127.0.0.1:0")
        await transport.start(Recorder())
        try:
            yield transport
        finally:
            with trio.CancelScope(shield=True):
                await transport.aclose()

    generator = nodes()

    async def abandon() -> None:
        await anext(generator)

    started = time.monotonic()
    await trio.to_thread.run_sync(trio.run, abandon)
    assert time.monotonic() - started < 5


async def test_another_thread_may_call(loop: IoLoop) -> None:
    where: list[int] = []
    done = trio.Event()

    def call() -> None:
        loop.call_soon_threadsafe(lambda: where.append(threading.get_ident()))
        loop.call_soon_threadsafe(done.set)

    await trio.to_thread.run_sync(call)
    await done.wait()
    assert where == [threading.get_ident()]


async def test_what_is_announced_many_times_is_fetched_once(loop: IoLoop) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        fetched: list[bytes] = []
        done = trio.Event()

        def fetch() -> None:
            fetched.append(ours.recv(1))
            if len(fetched) == 2:
                done.set()

        theirs.send(b"11111")
        loop.add_reader(ours, fetch)
        while not fetched:
            await trio.lowlevel.checkpoint()
        theirs.send(b"1")
        await done.wait()
        assert fetched == [b"1", b"1"]
        with pytest.raises(BlockingIOError):
            ours.recv(1)
        assert loop.remove_reader(ours)
        assert not loop.remove_reader(ours)


async def test_a_reader_that_raises_is_logged_and_reads_on(
    loop: IoLoop, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        done = trio.Event()

        def fetch() -> None:
            if ours.recv(1) == b"x":
                raise ValueError("broken")
            done.set()

        loop.add_reader(ours, fetch)
        with caplog.at_level(logging.ERROR, "overlaymq.transport"):
            theirs.send(b"x")
            while "broken" not in caplog.text:
                await trio.lowlevel.checkpoint()
            theirs.send(b"1")
            await done.wait()
        loop.remove_reader(ours)


async def test_names_are_looked_up_without_stopping_the_run(loop: IoLoop) -> None:
    found = await loop.perform(loop.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM))
    assert any(address[4][1] == 80 for address in found)

    with pytest.raises(OSError, match=r".+"):
        await loop.perform(loop.getaddrinfo("no such host", 80))
    with pytest.raises(UnicodeError):
        await loop.perform(loop.getaddrinfo("x" * 64, 80))


async def test_its_end_cancels_what_is_left() -> None:
    loop = _io_loop.acquire()
    ended: list[str] = []

    started = trio.Event()

    async def wait_for_ever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    loop.spawn(wait_for_ever())
    await started.wait()
    await _io_loop.release(loop)
    assert ended == ["cancelled"]
    assert loop.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call(print)


async def test_each_trio_run_has_its_own() -> None:
    mine = _io_loop.acquire()

    async def other() -> bool:
        theirs = _io_loop.acquire()
        try:
            return theirs is mine
        finally:
            await _io_loop.release(theirs)

    try:
        assert not await trio.to_thread.run_sync(trio.run, other)
        assert _io_loop.current() is mine
    finally:
        await _io_loop.release(mine)
