"""The admin service: questions are answered on the trio thread, and nothing a caller does ends it."""

from __future__ import annotations

import threading

import pytest
import trio

from overlaymq.errors import ConfigError, LinkRefused
from overlaymq.transport.grpc_admin import call_admin, serve_admin


async def test_questions_are_answered_on_the_trio_thread() -> None:
    threads = []

    def handler(request: bytes) -> bytes:
        threads.append(threading.current_thread())
        return request.upper()

    async with serve_admin("127.0.0.1:0", handler) as address:
        assert not address.endswith(":0")
        assert await call_admin(address, b'{"a": 1}', 5) == b'{"A": 1}'
        assert await call_admin(address, b"", 5) == b""
    assert set(threads) == {threading.current_thread()}


async def test_a_handler_that_raises_tells_the_caller() -> None:
    def handler(request: bytes) -> bytes:
        raise ValueError("no such table")

    async with serve_admin("127.0.0.1:0", handler) as address:
        with pytest.raises(LinkRefused, match="no such table"):
            await call_admin(address, b"{}", 5)


async def test_nobody_there() -> None:
    with pytest.raises(LinkRefused, match="no overlaymq admin service answers"):
        await call_admin("127.0.0.1:1", b"{}", 5)


async def test_a_busy_port_is_named() -> None:
    async with serve_admin("127.0.0.1:0", bytes) as address:
        with pytest.raises(ConfigError, match=address):
            async with serve_admin(address, bytes):
                raise AssertionError("two services on one port")


async def test_it_ends_with_its_block_and_leaves_no_thread() -> None:
    with trio.fail_after(5):
        async with serve_admin("127.0.0.1:0", bytes) as address:
            pass
        with pytest.raises(LinkRefused):
            await call_admin(address, b"{}", 1)
    assert not [thread for thread in threading.enumerate() if thread.name == "overlaymq-io"]
