"""What is special about the gRPC transport: processes, ports, addresses, threads, identities."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from overlaymq.config import LinkConfig
from overlaymq.errors import ConfigError, ForkedProcess, LinkRefused
from overlaymq.identity import Identity
from overlaymq.messages import Peer, Ping
from overlaymq.transport import _io_loop, grpc_options
from overlaymq.transport.conformance_bench import Endpoint
from overlaymq.transport.grpc import GrpcTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = {"connect_timeout": 3.0, "reconnect_min": 0.05, "reconnect_max": 0.2}


def made(
    identity: Identity | None = None,
    *,
    listen: str = "127.0.0.1:0",
    advertise: str = "",
    incarnation: int = 1,
    **config: Any,
) -> Endpoint:
    settings = LinkConfig(**{**QUICK, **config})
    chosen = identity or Identity.ephemeral()
    return Endpoint(GrpcTransport(chosen, settings, listen, advertise, incarnation))


@asynccontextmanager
async def running(*nodes: Endpoint) -> AsyncIterator[None]:
    started = []
    try:
        with trio.fail_after(20):
            for node in nodes:
                started.append(node)
                await node.start()
            yield
    finally:
        with trio.CancelScope(shield=True):
            for node in started:
                await node.aclose()
    assert not [breach for node in nodes for breach in node.inbox.breaches]


# --- The loop, and processes --------------------------------------------------------------------


async def test_nodes_share_one_loop_that_ends_with_the_last() -> None:
    for _ in range(2):  # and can be started again
        a, b = made(), made()
        async with running(a, b):
            await a.transport.connect(b.peer.address)
            loop = _io_loop.current()
            assert loop is not None
            await b.aclose()
            b.inbox.finished = False
            assert _io_loop.current() is loop
            assert not loop.is_closed()
        assert _io_loop.current() is None
        assert loop.is_closed()


async def test_a_node_has_no_thread_of_python_s_own_beside_grpc_s() -> None:
    a, b = made(), made()
    async with running(a, b):
        await a.transport.connect(b.peer.address)
        names = {thread.name for thread in threading.enumerate()}
        assert not [name for name in names if "overlaymq" in name]


async def test_a_forked_child_is_told_to_make_its_own_node() -> None:
    node = made()
    async with running(node):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
            child = os.fork()
        if child == 0:
            try:
                node.transport.send(Peer(node.id, "127.0.0.1:1"), Ping(1))
            except ForkedProcess as error:
                os._exit(0 if "spawn" in str(error) else 2)
            finally:
                os._exit(1)
        _, status = await trio.to_thread.run_sync(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


OTHER = """
import sys, trio
from overlaymq.config import LinkConfig
from overlaymq.identity import Identity
from overlaymq.transport.conformance_bench import Endpoint
from overlaymq.transport.grpc import GrpcTransport

async def main():
    node = Endpoint(GrpcTransport(Identity.ephemeral(), LinkConfig(), "127.0.0.1:0"))
    await node.start()
    print(node.peer.address, flush=True)
    await trio.sleep_forever()

trio.run(main)
"""


async def test_a_killed_process_is_noticed_at_once_and_without_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = [sys.executable, "-c", OTHER]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
        other = await nursery.start(run)
        address = (await other.stdout.receive_some()).decode().strip()
        node = made()
        async with running(node):
            peer = await node.transport.connect(address)
            capfd.readouterr()
            other.send_signal(signal.SIGKILL)
            started = time.monotonic()
            await node.inbox.until(lambda: node.inbox.count("failed", peer.id) == 1)
            assert time.monotonic() - started < 2
            node.call("send", peer, Ping(1))  # it is dialled again, and nobody answers
            await node.inbox.until(lambda: node.inbox.count("failed", peer.id) == 2)
        assert capfd.readouterr().err == ""
        nursery.cancel_scope.cancel()


async def test_a_busy_application_does_not_starve_the_loop() -> None:
    a, b = made(), made()
    async with running(a, b), trio.open_nursery() as nursery:
        await a.transport.connect(b.peer.address)

        async def busy() -> None:
            while True:
                until = time.perf_counter() + 0.005
                while time.perf_counter() < until:
                    pass
                await trio.lowlevel.checkpoint()

        nursery.start_soon(busy)
        for number in range(50):
            a.ping(b, number)
            await b.inbox.until(lambda: len(b.inbox.numbers(a.id)) > number)  # noqa: B023
        nursery.cancel_scope.cancel()


# --- Addresses ------------------------------------------------------------------------------------


async def test_a_busy_port_is_a_clear_error() -> None:
    a = made()
    async with running(a):
        b = made(listen=a.peer.address)
        with pytest.raises(ConfigError, match=a.peer.address):
            await b.start()


@pytest.mark.parametrize("listen", ["nonsense", "host", "1.2.3.4:99999", "::1:7400", ":7400"])
async def test_a_wrong_address_is_a_clear_error(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"address|ambiguous"):
        await made(listen=listen).start()


async def test_a_wildcard_is_never_advertised() -> None:
    a, b = made(listen="0.0.0.0:0"), made()
    async with running(a, b):
        assert not a.peer.address.startswith("0.0.0.0")
        await a.transport.connect(b.peer.address)
        # It faced its first seed over loopback, so that is where it is reached.
        await b.inbox.until(lambda: a.id in b.inbox.open)
        assert b.inbox.open[a.id].address.startswith("127.0.0.1:")
        assert a.transport.peer == b.inbox.open[a.id]  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="wildcard"):
        await made(advertise="0.0.0.0:7400").start()


async def test_advertise_is_told_to_others() -> None:
    a, b = made(advertise="localhost:0"), made()
    async with running(a, b):
        assert a.peer.address.startswith("localhost:")
        assert not a.peer.address.endswith(":0")
        assert await b.transport.connect(a.peer.address) == a.peer


@pytest.mark.parametrize("address", ["", "nonsense", "1.2.3.4:99999", "a:b:c", "0.0.0.0:0"])
async def test_a_senseless_address_of_hearsay_fails_like_a_dead_one(address: str) -> None:
    a = made()
    async with running(a):
        nobody = Peer(Identity.ephemeral().id, address, 1)
        a.call("send", nobody, Ping(1))
        a.call("probe", nobody)
        await a.inbox.until(lambda: a.inbox.count("failed", nobody.id) == 1)


async def test_ipv6_literals() -> None:
    a, b = made(listen="[::1]:0"), made(listen="[::1]:0")
    async with running(a, b):
        assert a.peer.address.startswith("[::1]:")
        assert await b.transport.connect(a.peer.address) == a.peer


def test_targets() -> None:
    assert grpc_options.target("10.0.0.1:7400") == "ipv4:10.0.0.1:7400"
    assert grpc_options.target("[fe80::1]:7400") == "ipv6:[fe80::1]:7400"
    assert grpc_options.target("node.example:7400") == "dns:///node.example:7400"


# --- Identities -----------------------------------------------------------------------------------


async def test_another_node_at_a_known_address_is_not_taken_for_the_first() -> None:
    a, b = made(), made()
    async with running(a, b):
        gone = Peer(Identity.ephemeral().id, b.peer.address, 1)
        a.call("send", gone, Ping(1))
        await a.inbox.until(lambda: a.inbox.count("failed", gone.id) == 1)
        assert "expected" in a.inbox.log[-1][2]
        assert not b.inbox.messages


async def test_a_copied_key_is_refused_while_its_owner_lives() -> None:
    key = Identity.ephemeral()
    owner, copy, third = made(key), made(key, incarnation=2), made()
    async with running(owner, copy, third):
        await owner.transport.connect(third.peer.address)
        with pytest.raises(LinkRefused, match="id in use"):
            await copy.transport.connect(third.peer.address)
        with pytest.raises(LinkRefused, match="copied"):
            await copy.transport.connect(owner.peer.address)
        assert third.linked() == {owner.id}
        assert third.inbox.open[owner.id] == owner.peer
        await owner.aclose()
        owner.inbox.finished = False
        await third.inbox.until(lambda: owner.id not in third.inbox.open)
        assert await copy.transport.connect(third.peer.address) == third.peer


async def test_a_peer_that_stops_answering_is_replaced_by_its_new_dial() -> None:
    key = Identity.ephemeral()
    first, again, third = made(key), made(key, incarnation=2), made()
    async with running(first, again, third):
        await first.transport.connect(third.peer.address)
        await third.inbox.until(lambda: first.id in third.inbox.open)
        # The first goes deaf: what the third says is not read any more, as after a lost network.
        link = first.transport._lanes[third.id].link  # type: ignore[attr-defined]
        link._on_control = _deaf
        assert await again.transport.connect(third.peer.address) == third.peer
        await third.inbox.until(lambda: third.inbox.open.get(first.id) == again.peer)
        assert third.inbox.count("failed", first.id) == 1


async def _deaf(frame: object, size: int) -> None:
    pass


async def test_a_stuck_node_stops_its_senders_and_loses_nothing() -> None:
    small: dict[str, Any] = {"inbox": 256 * 1024, "data_queue": 64 << 20}
    a, b = made(**small), made(**small)
    async with running(a, b):
        await a.transport.connect(b.peer.address)
        engine = b.transport._engine  # type: ignore[attr-defined]
        taken = b.transport._on_data  # type: ignore[attr-defined]
        held: list[tuple[Any, bytes]] = []
        b.transport._on_data = lambda lane, frame: held.append((lane, frame))  # type: ignore[attr-defined]
        a.batches(b, 300, 100_000)  # more than gRPC's own windows hold
        while not engine.paused:  # noqa: ASYNC110 - the engine tells nobody but the node
            await trio.sleep(0.01)
        a.call("probe", b.peer)  # control is read all the same
        await a.inbox.until(lambda: a.inbox.count("measured") == 1)
        assert engine.inbox_in < 2 << 20
        assert a.transport.backlog(b.peer) > 0
        b.transport._on_data = taken  # type: ignore[attr-defined]
        for lane, frame in held:
            taken(lane, frame)
        await b.inbox.until(lambda: len(b.inbox.messages) == 300)
        assert b.inbox.firsts(a.id) == list(range(300))


async def test_its_own_address_is_refused() -> None:
    a = made()
    async with running(a):
        with pytest.raises(LinkRefused, match="itself"):
            await a.transport.connect(a.peer.address)
