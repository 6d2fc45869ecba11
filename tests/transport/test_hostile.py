"""Ten thousand hostile inputs from a raw gRPC client (bar 5 of the issue).

None crashes the node, none makes it grow, each is counted with a reason, and a healthy link keeps
working all the while. The attacker may have a key of its own: that makes it a peer, not a friend.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import msgspec
import pytest
import trio

from overlaymq.config import LinkConfig
from overlaymq.identity import Identity
from overlaymq.ids import Id
from overlaymq.messages import Batch, Peer, Ping, Routed
from overlaymq.transport import _io_loop, codec, handshake
from overlaymq.transport.conformance_bench import Endpoint
from overlaymq.transport.grpc import GrpcTransport
from overlaymq.transport.grpc_dialer import CONTROL, DATA

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

AT_ONCE = 16
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
SMALL = {"max_frame": 256 * 1024, "frame_size": 64 * 1024, "connect_timeout": 5.0}

Metadata = tuple[tuple[str, str | bytes], ...]


class Attacker:
    """A raw client, on the loop."""

    def __init__(self, target: Peer, seed: int = 1) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.channel = grpc.aio.insecure_channel(target.address, OPTIONS)
        self.identity = Identity.ephemeral()

    def opening(self, identity: Identity | None = None) -> handshake.Opening:
        return handshake.Opening((identity or self.identity).id, handshake.new_nonce(), 1)

    async def say(
        self, method: str, metadata: Metadata, frames: Iterable[bytes] = ()
    ) -> tuple[grpc.StatusCode, str]:
        """Open a stream, say this, hang up; how the other side ended it."""
        call = self.channel.stream_stream(method)(metadata=metadata)
        try:
            for frame in frames:
                await call.write(frame)
            await call.done_writing()
            while await call.read() is not grpc.aio.EOF:
                pass
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass
        return await call.code(), await call.details()

    async def hello(
        self, change: Callable[[codec.Hello], codec.Hello], signer: Identity | None = None
    ) -> tuple[grpc.StatusCode, str]:
        """A handshake that would be right but for ``change``."""
        identity = signer or self.identity
        mine = self.opening(identity)
        call = self.channel.stream_stream(CONTROL)(metadata=handshake.opening_metadata(mine))
        other = handshake.read_opening(tuple(await call.initial_metadata()))
        me = Peer(identity.id, "127.0.0.1:9", 1)
        made = change(handshake.make_hello(identity, me, other, dialer=True))
        try:
            await call.write(codec.encode_hello(made))
            await call.done_writing()
            while await call.read() is not grpc.aio.EOF:
                pass
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass
        return await call.code(), await call.details()

    @asynccontextmanager
    async def link(self) -> AsyncIterator[tuple[Any, Any]]:
        """A link of a proved identity of its own: control and data streams."""
        identity = Identity.ephemeral()
        mine = self.opening(identity)
        control = self.channel.stream_stream(CONTROL)(metadata=handshake.opening_metadata(mine))
        other = handshake.read_opening(tuple(await control.initial_metadata()))
        me = Peer(identity.id, "127.0.0.1:9", 1)
        proof = handshake.make_hello(identity, me, other, dialer=True)
        await control.write(codec.encode_hello(proof))
        token = codec.decode_hello(await control.read()).token
        data = self.channel.stream_stream(DATA)(metadata=((handshake.TOKEN_KEY, token),))
        try:
            yield control, data
        finally:
            control.cancel()
            data.cancel()

    def garbage(self, longest: int = 400) -> bytes:
        return self.random.randbytes(self.random.randint(1, longest))

    def bad_control(self) -> bytes:
        """A control frame, or an envelope in one, that means nothing."""
        routed = codec.encode(Routed(Id(1), self.target, 1, 0, Ping(1)))
        kind = self.random.randrange(4)
        if kind == 0:
            return b"\xff" + self.garbage()
        if kind == 1:  # truncated
            return routed[: self.random.randint(1, len(routed) - 1)]
        if kind == 2:  # a message type of the future
            return b"\x0a\x04\xfa\x3f\x01x"
        return b""

    def bad_data(self) -> bytes:
        """A data frame that means nothing."""
        whole = codec.encode_batch(Batch(Id(1), Id(2), 0, 0, 1, b"body"))
        kind = self.random.randrange(4)
        if kind == 0:
            return b"\xff" + self.garbage()
        if kind == 1:
            return whole[: self.random.randint(1, len(whole) - 1)]
        if kind == 2:
            return codec.encode_batch(Batch(Id(1), Id(2), 0, 0, 0, b"body"))
        return codec.encode_batch(Batch(Id(1), Id(2), 0, 0, 1, b"body", chunk=3, chunks=3))


@asynccontextmanager
async def siege(**config: Any) -> AsyncIterator[tuple[Endpoint, Endpoint, Attacker]]:
    """A node under attack, its friend, and the attacker."""
    settings = LinkConfig(**{**SMALL, **config})
    nodes = [
        await Endpoint(GrpcTransport(Identity.ephemeral(), settings, "127.0.0.1:0")).start()
        for _ in range(2)
    ]
    victim, friend = nodes
    loop = _io_loop.acquire()

    async def make() -> Attacker:
        return Attacker(victim.peer)

    attacker = await loop.perform(make())
    try:
        with trio.fail_after(50):
            await friend.transport.connect(victim.peer.address)
            yield victim, friend, attacker
    finally:
        with trio.CancelScope(shield=True):
            await loop.perform(attacker.channel.close())
            for node in nodes:
                await node.aclose()
            await _io_loop.release(loop)
    assert not [breach for node in nodes for breach in node.inbox.breaches]


async def on_io(work: Awaitable[Any]) -> Any:
    loop = _io_loop.acquire()
    try:

        async def run() -> Any:
            return await work

        return await loop.perform(run())
    finally:
        await _io_loop.release(loop)


async def many(count: int, attack: Callable[[int], Awaitable[Any]]) -> None:
    """On the loop: ``count`` attacks, some at once."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await attack(number)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def drops(node: Endpoint) -> int:
    return sum(node.inbox.drops.values())


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# --- Each kind, and what is said about it -----------------------------------------------------------


def _right(hello: codec.Hello) -> codec.Hello:
    return hello


def _with(**changes: Any) -> Callable[[codec.Hello], codec.Hello]:
    return lambda hello: msgspec.structs.replace(hello, **changes)


LIES: list[tuple[Callable[[codec.Hello], codec.Hello], str]] = [
    (_with(version=9), "protocol version"),
    (_with(public_key=Identity.ephemeral().public_key), "id does not match key"),
    (_with(id=Id(5)), "id changed"),
    (_with(signature=bytes(64)), "bad signature"),
    (_with(address="10.9.9.9:1"), "bad signature"),
    (_with(incarnation=2), "bad signature"),
    (_with(public_key=b"", signature=b""), "id does not match key"),
]


@pytest.mark.parametrize(("change", "label"), LIES)
async def test_lies_in_a_hello_are_refused(change: Any, label: str) -> None:
    async with siege() as (victim, _, attacker):
        code, details = await on_io(attacker.hello(change))
        assert code is not grpc.StatusCode.OK
        assert details
        await victim.inbox.until(lambda: victim.inbox.drops.get(f"handshake: {label}") == 1)


def _opening(**changes: str | bytes | None) -> Metadata:
    whole: dict[str, str | bytes | None] = dict(
        handshake.opening_metadata(handshake.Opening(Id(5), bytes(32), 1))
    )
    whole.update({key.replace("_", "-"): value for key, value in changes.items()})
    return tuple((key, value) for key, value in whole.items() if value is not None)


OPENINGS: list[tuple[Metadata, str]] = [
    ((), "no protocol version"),
    (_opening(overlaymq_version="99"), "protocol version"),
    (_opening(overlaymq_id_bin=b"short"), "metadata"),
    (_opening(overlaymq_nonce_bin=None), "metadata"),
    (_opening(overlaymq_incarnation="-1"), "metadata"),
    (_opening(), "no hello"),
]


@pytest.mark.parametrize(("metadata", "label"), OPENINGS)
async def test_bad_openings_are_refused(metadata: Metadata, label: str) -> None:
    async with siege() as (victim, _, attacker):
        code, details = await on_io(attacker.say(CONTROL, metadata))
        assert code is not grpc.StatusCode.OK
        assert details
        await victim.inbox.until(lambda: victim.inbox.drops.get(f"handshake: {label}") == 1)


async def test_another_version_is_told_which() -> None:
    async with siege() as (_, _, attacker):
        _, details = await on_io(attacker.say(CONTROL, OPENINGS[1][0]))
        assert "version 99" in details
        assert "run the same release" in details


async def test_the_victims_own_id_and_a_live_id_are_refused() -> None:
    async with siege() as (victim, friend, attacker):
        own = victim.transport._identity  # type: ignore[attr-defined]
        await on_io(attacker.hello(_right, own))
        await victim.inbox.until(lambda: victim.inbox.drops.get("handshake: own id") == 1)
        copied = friend.transport._identity  # type: ignore[attr-defined]
        _, details = await on_io(attacker.hello(_right, copied))
        assert "id in use" in details
        assert victim.inbox.drops["handshake: id in use"] == 1
        assert friend.id in victim.linked()


async def test_data_without_a_token_is_refused() -> None:
    async with siege() as (victim, _, attacker):
        frame = codec.encode_batch(Batch(Id(1), Id(2), 0, 0, 1, b"body"))
        for metadata in ((), ((handshake.TOKEN_KEY, bytes(32)),)):
            code, _ = await on_io(attacker.say(DATA, metadata))
            assert code is grpc.StatusCode.UNAUTHENTICATED
            await on_io(attacker.say(DATA, metadata, [frame]))
        await victim.inbox.until(lambda: victim.inbox.drops == {"handshake: unknown token": 4})
        assert not victim.inbox.messages


async def _until_cut_off(stream: Any, make: Callable[[], bytes]) -> None:
    try:
        while True:
            await stream.write(make())
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass  # the other side has ended the stream


async def test_an_oversize_frame_costs_its_sender_the_link() -> None:
    async with siege() as (victim, friend, attacker):

        async def attack() -> None:
            for stream in (0, 1):
                async with attacker.link() as streams:
                    await _until_cut_off(streams[stream], lambda: bytes(300 * 1024))

        await on_io(attack())
        await victim.inbox.until(lambda: victim.inbox.count("failed") == 2)
        friend.ping(victim, 1)
        await victim.inbox.until(lambda: victim.inbox.numbers(friend.id) == [1])


async def test_endless_garbage_costs_its_sender_the_link() -> None:
    async with siege() as (victim, _, attacker):

        async def attack() -> None:
            for stream, make in ((0, attacker.bad_control), (1, attacker.bad_data)):
                async with attacker.link() as streams:
                    await _until_cut_off(streams[stream], make)

        await on_io(attack())
        await victim.inbox.until(lambda: victim.inbox.count("failed") == 2)
        reasons = [entry[2] for entry in victim.inbox.log if entry[0] == "failed"]
        assert all("malformed" in reason for reason in reasons)


async def test_a_link_without_a_data_stream_does_not_stay() -> None:
    async with siege(connect_timeout=0.3) as (victim, _, attacker):

        async def attack() -> None:
            identity = Identity.ephemeral()
            mine = attacker.opening(identity)
            metadata = handshake.opening_metadata(mine)
            control = attacker.channel.stream_stream(CONTROL)(metadata=metadata)
            other = handshake.read_opening(tuple(await control.initial_metadata()))
            me = Peer(identity.id, "127.0.0.1:9", 1)
            proof = handshake.make_hello(identity, me, other, dialer=True)
            await control.write(codec.encode_hello(proof))
            while await control.read() is not grpc.aio.EOF:
                pass

        await on_io(attack())
        await victim.inbox.until(lambda: victim.inbox.count("failed") == 1)


# --- All of it at once ------------------------------------------------------------------------------

SHARE = {"openings": 1200, "lies": 1200, "hellos": 800, "tokens": 600, "methods": 200}
PER_LINK = 32
LINKS = 100  # each with PER_LINK bad frames on control and as many on data, just below the limit
TOTAL = sum(SHARE.values()) + 2 * PER_LINK * LINKS


async def _storm(attacker: Attacker, part: float) -> int:
    """On the loop: a part of everything above; how many inputs that were."""
    counts = {kind: int(share * part) for kind, share in SHARE.items()}
    links = int(LINKS * part)
    right = handshake.opening_metadata(attacker.opening())

    async def opening(number: int) -> None:
        await attacker.say(CONTROL, OPENINGS[number % len(OPENINGS)][0])

    async def lie(number: int) -> None:
        await attacker.hello(LIES[number % len(LIES)][0])

    async def hello(number: int) -> None:
        await attacker.say(CONTROL, right, [attacker.garbage(), attacker.garbage()])

    async def token(number: int) -> None:
        await attacker.say(DATA, ((handshake.TOKEN_KEY, attacker.garbage(64)),), [b"x"])

    async def method(number: int) -> None:
        await attacker.say(f"/overlaymq.v1.Link/Method{number % 7}", ())

    async def link(number: int) -> None:
        async with attacker.link() as (control, data):
            for _ in range(PER_LINK):
                await control.write(attacker.bad_control())
                await data.write(attacker.bad_data())
            # A polite end, so that everything is read before the link goes.
            await control.write(codec.encode_goodbye(codec.Goodbye("enough")))
            for stream in (control, data):
                await stream.done_writing()
                while await stream.read() is not grpc.aio.EOF:
                    pass

    await many(counts["openings"], opening)
    await many(counts["lies"], lie)
    await many(counts["hellos"], hello)
    await many(counts["tokens"], token)
    await many(counts["methods"], method)
    await many(links, link)
    return sum(counts.values()) + 2 * PER_LINK * links


async def test_ten_thousand_hostile_inputs() -> None:
    assert TOTAL >= 10_000
    async with siege() as (victim, friend, attacker):
        # A first part pays for caches and pools; what counts is growth after it.
        sent = await on_io(_storm(attacker, 0.2))
        gc.collect()
        before = resident()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_chatter, friend, victim)
            sent += await on_io(_storm(attacker, 0.8))
            nursery.cancel_scope.cancel()
        assert sent >= 10_000
        await victim.inbox.until(lambda: drops(victim) >= sent)
        assert drops(victim) == sent, victim.inbox.drops
        assert all(reason.partition(": ")[2] for reason in victim.inbox.drops)
        victim.inbox.log.clear()
        gc.collect()
        assert resident() - before < 16 << 20
        _at_rest(victim, friend)
        numbers = victim.inbox.numbers(friend.id)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 50
        friend.ping(victim, len(numbers))
        await victim.inbox.until(lambda: victim.inbox.numbers(friend.id)[-1] == len(numbers))


async def _chatter(friend: Endpoint, victim: Endpoint) -> None:
    number = 0
    while True:
        friend.ping(victim, number)
        await victim.inbox.until(lambda: len(victim.inbox.numbers(friend.id)) > number)  # noqa: B023
        number += 1
        await trio.sleep(0.01)


def _at_rest(victim: Endpoint, friend: Endpoint) -> None:
    """Nothing is left of the attackers but back-off times, which are capped."""
    engine = victim.transport._engine  # type: ignore[attr-defined]
    assert victim.linked() == {friend.id}
    assert set(engine.lanes) == {friend.id}
    assert not engine.listener.tokens
    assert not engine.dialer.committed
    assert not engine.listener.handshakes
    assert len(engine._tasks) < 10
    assert len(engine.dialer.backoff) <= engine.config.max_links
