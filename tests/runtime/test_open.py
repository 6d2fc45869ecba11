"""Opening nodes over real gRPC on loopback: joining, refusing, leaving."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

import overlaymq
from overlaymq import ids
from overlaymq.config import AdminConfig, Config, NodeConfig, PastryConfig
from overlaymq.messages import Peer
from overlaymq.runtime.opening import facing_seed, run_node
from overlaymq.testing import network
from overlaymq.transport.memory import MemoryNetwork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

LOOPBACK = "127.0.0.1:0"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another thread or node brings about."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - nothing announces another node's state
            await trio.sleep(0.01)  # polling, for the same reason


async def test_two_nodes_exchange_a_message_over_grpc() -> None:
    async with (
        overlaymq.open_node(listen=LOOPBACK) as one,
        overlaymq.open_node(listen=LOOPBACK, seeds=[one.address]) as two,
        two.subscribe("t") as subscription,
    ):
        await subscription.wait_ready()
        receipt = await one.publish("t", b"hello")
        message = await subscription.receive()
        assert message.payload == b"hello"
        assert message.origin == one.id
        assert await receipt.wait("sent") >= 0
        assert await one.ping(two.id) < 1
        assert one.admin_address.startswith("127.0.0.1:")


async def test_seeds_that_do_not_answer_are_named() -> None:
    seeds = ["127.0.0.1:1", "no-such-host.invalid:7400"]
    with pytest.raises(overlaymq.JoinFailed) as caught:
        async with overlaymq.open_node(listen=LOOPBACK, seeds=seeds):
            pytest.fail("joined nothing")
    for seed in seeds:
        assert seed in str(caught.value)


async def test_a_node_among_its_seeds_founds_the_overlay(free_port: int) -> None:
    address = f"127.0.0.1:{free_port}"
    async with (
        overlaymq.open_node(listen=address, seeds=[address, "127.0.0.1:1"]) as founder,
        overlaymq.open_node(listen=LOOPBACK, seeds=[address]) as other,
    ):
        await until(lambda: founder.neighbours() == (other.id,))


async def test_a_node_finds_itself_among_its_seeds_by_a_host_name(free_port: int) -> None:
    """Otherwise the first of several nodes with the same list of names could never start."""
    seeds = ["127.0.0.1:1", f"localhost:{free_port}"]
    async with (
        overlaymq.open_node(listen=f"127.0.0.1:{free_port}", seeds=seeds) as founder,
        overlaymq.open_node(listen=LOOPBACK, seeds=seeds) as other,
    ):
        await until(lambda: founder.neighbours() == (other.id,))


async def test_a_busy_port_is_named(free_port: int) -> None:
    address = f"127.0.0.1:{free_port}"
    async with overlaymq.open_node(listen=address):
        with pytest.raises(overlaymq.ConfigError, match=address):
            async with overlaymq.open_node(listen=address):
                pytest.fail("two nodes share a port")


async def test_a_kept_key_keeps_the_id_and_a_copied_one_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "node.key"
    async with overlaymq.open_node(listen=LOOPBACK) as seed:
        async with overlaymq.open_node(listen=LOOPBACK, seeds=[seed.address], key_file=key) as node:
            kept = node.id
            with pytest.raises(overlaymq.OverlayError):
                async with overlaymq.open_node(listen=LOOPBACK, seeds=[seed.address], key_file=key):
                    pytest.fail("one id lives twice")
            assert node.id in seed.neighbours()
        async with overlaymq.open_node(
            listen=LOOPBACK, seeds=[seed.address], key_file=key
        ) as again:
            assert again.id == kept


async def test_leaving_tells_the_neighbours() -> None:
    async with overlaymq.open_node(listen=LOOPBACK) as seed:
        async with overlaymq.open_node(listen=LOOPBACK, seeds=[seed.address]) as node:
            await until(lambda: node.id in seed.neighbours())
        await until(lambda: not seed.neighbours())


async def test_the_bodys_exception_leaves_unwrapped_over_grpc() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with overlaymq.open_node(listen=LOOPBACK):
            raise ValueError("mine")


async def test_closing_is_quick_even_with_unsent_messages() -> None:
    async with (
        overlaymq.open_node(listen=LOOPBACK) as one,
        overlaymq.open_node(listen=LOOPBACK, seeds=[one.address]) as two,
    ):
        async with two.subscribe("t", buffer=1) as subscription:
            await subscription.wait_ready()
            await one.publish_many("t", [bytes(1000)] * 1000)
        started = trio.current_time()
        await two.leave()
        assert trio.current_time() - started < 2


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
async def test_a_forked_child_is_told_to_make_its_own_node() -> None:
    async with overlaymq.open_node(listen=LOOPBACK) as node:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, await _outcome(lambda: node.publish("t", b"x")))
            os._exit(0)
        await trio.to_thread.run_sync(os.waitpid, child, 0)
        assert b"ForkedProcess" in os.read(read, 100)
        os.close(read)
        os.close(write)


async def _outcome(call: Callable[[], Awaitable[object]]) -> bytes:
    try:
        await call()
    except overlaymq.OverlayError as error:
        return type(error).__name__.encode()
    return b"nothing raised"


def test_a_wildcard_listener_faces_its_seed() -> None:
    assert facing_seed("0.0.0.0:7400", ["127.0.0.1:7400"]) == "127.0.0.1:7400"
    assert facing_seed("127.0.0.1:7400", ["127.0.0.1:7401"]) == ""
    assert facing_seed("0.0.0.0:7400", []) == ""


SEEDS = Config(
    node=NodeConfig(seeds=("memory:a", "memory:b"), join_timeout=10),
    admin=AdminConfig(enabled=False),
)


def seed_node(memory: MemoryNetwork, name: str) -> AbstractAsyncContextManager[overlaymq.Node]:
    me = Peer(ids.hashed(name.encode()), f"memory:{name}", 1)
    return run_node(SEEDS, memory.transport(me))


async def test_the_first_seed_joins_the_ring_that_a_later_one_has_founded() -> None:
    memory = MemoryNetwork()
    async with seed_node(memory, "b") as b, seed_node(memory, "c") as c:
        async with seed_node(memory, "a") as a:
            await until(lambda: set(a.neighbours()) == {b.id, c.id})
        await until(lambda: b.neighbours() == (c.id,))


async def test_seeds_that_start_at_once_form_one_ring() -> None:
    memory = MemoryNetwork()
    nodes: list[overlaymq.Node] = []

    async def start(name: str) -> None:
        async with seed_node(memory, name) as node:
            nodes.append(node)
            await until(lambda: len(nodes) == 3 and all(len(n.neighbours()) == 2 for n in nodes))
            await trio.testing.wait_all_tasks_blocked(0.1)

    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            nursery.start_soon(start, name)


async def test_the_keys_of_a_dead_process_are_answered_for_without_waiting_for_its_lease() -> None:
    """That nobody listens there any more was known to the transport, and forgotten on the way to the core."""
    long = Config(pastry=PastryConfig(lease=300.0))
    async with network(5, long) as nodes:
        dead, *rest = nodes
        nodes.memory.crash(dead.address)
        with trio.fail_after(30):
            owner, _, _ = await rest[0].lookup(dead.id)
        assert owner in {node.id for node in rest}
