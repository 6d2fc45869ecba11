"""Opening a node: listen, prove itself to the seeds, join the ring, and leave it when the block ends.

Seeds that do not answer are an error that names each: a node never founds a second ring by mistake. A node
that finds itself among the seeds, by its address or because a seed leads back to it (a host name), may
found the overlay, if no seed listed before it answers. Those listed
after it may have a ring already, or be waiting for this node to found one: it tries to join through them
first, and founds only if they do not let it in.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from overlaymq import ids
from overlaymq.config import Config, load
from overlaymq.core.node import Node as CoreNode
from overlaymq.errors import ConfigError, IdentityError, JoinFailed, LinkRefused, OwnAddress
from overlaymq.events import Join, JoinRejected
from overlaymq.identity import Identity
from overlaymq.runtime.admin import admin_service
from overlaymq.runtime.driver import Driver
from overlaymq.runtime.node import Node
from overlaymq.runtime.recorder import Recorder
from overlaymq.runtime.tracing import Tracing, open_tracer
from overlaymq.transport.grpc import GrpcTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from overlaymq.messages import Message, Peer
    from overlaymq.trace.tracer import Tracer
    from overlaymq.transport.base import Transport

log = logging.getLogger("overlaymq.node")
FOUND_AFTER = 0.15
"""The share of ``join_timeout`` that a founder gives later seeds to show that they have a ring: a guess."""
WILDCARDS = ("0.0.0.0", "[::]", "::", "")


@asynccontextmanager
async def open_node(
    config: Config | str | Path | None = None,
    *,
    listen: str | None = None,
    seeds: Sequence[str] | None = None,
    advertise: str | None = None,
    key_file: str | Path | None = None,
    trace: str | Path | None = None,
) -> AsyncIterator[Node]:
    """Run a node for the length of the block. Entering waits until it has joined the overlay.

    ``config`` is a Config, or the path of a TOML file. Keyword arguments override it, and environment
    variables (``OVERLAYMQ_NODE_LISTEN`` ...) override the file. Without seeds the node founds an overlay.
    ``trace`` is the directory of ``[trace]``.
    """
    if isinstance(seeds, str):
        raise ConfigError(f"seeds: expected a list of addresses, got the str {seeds!r}")
    keywords: dict[str, Any] = {
        "listen": listen,
        "seeds": tuple(seeds) if seeds is not None else None,
        "advertise": advertise,
        "key_file": str(key_file) if key_file is not None else None,
    }
    if isinstance(config, Config):
        given = {key: value for key, value in keywords.items() if value is not None}
        settings = msgspec.structs.replace(
            config, node=msgspec.structs.replace(config.node, **given)
        )
    else:
        settings = load(config, os.environ, **keywords)
    if trace is not None:
        settings = msgspec.structs.replace(
            settings, trace=msgspec.structs.replace(settings.trace, directory=str(trace))
        )
    identity = (
        Identity.load_or_create(Path(settings.node.key_file))
        if settings.node.key_file
        else Identity.ephemeral()
    )
    transport = GrpcTransport(
        identity,
        settings.link,
        settings.node.listen,
        settings.node.advertise or facing_seed(settings.node.listen, settings.node.seeds),
        incarnation=time.time_ns() // 1_000,
    )
    async with run_node(settings, transport) as node:
        yield node


@asynccontextmanager
async def run_node(
    config: Config, transport: Transport, tracer: Tracer | None = None
) -> AsyncIterator[Node]:
    """Run a node on a given transport (``overlaymq.testing`` gives in-memory ones), with the tracer that the
    configuration asks for or another one."""
    entrance = _Entrance()
    me = await transport.start(entrance)
    driver: Driver | None = None
    recorder: Recorder | None = None
    tracing: Tracing | None = None
    try:
        if config.recorder.file:
            recorder = Recorder(config.recorder, me)
        tracer = tracer or open_tracer(config.trace, me)
        core = _core(me, config)
        if tracer is not None:
            tracing = Tracing(tracer, core, config.trace)
        driver = Driver(core, transport, config, recorder, tracing)
        entrance.let_in(driver)
        driver.start()
        await _join(driver, config)
        node = Node(driver)
        log.info("node %s joined at %s", ids.short(me.id), me.address)
        async with admin_service(node, config.admin):
            yield node
            await driver.drain(config.link.grace)  # only if the body was not cancelled
    finally:
        with trio.CancelScope(shield=True):
            try:
                if driver is not None:
                    driver.stop()
            finally:
                try:
                    await transport.aclose()
                finally:
                    if recorder is not None:
                        await recorder.aclose()
                    if tracing is not None:
                        await tracing.aclose()


def _core(me: Peer, config: Config) -> CoreNode:
    return CoreNode(me, config, Random(me.id ^ me.incarnation))


class _Entrance:
    """The inbox until the driver exists: the transport needs one to start, the driver needs its address."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._early: list[tuple[str, tuple[Any, ...]]] = []

    def let_in(self, driver: Driver) -> None:
        """Pass on what came early, then everything."""
        self._driver = driver
        for method, arguments in self._early:
            getattr(driver, method)(*arguments)
        self._early.clear()

    def _tell(self, method: str, *arguments: Any) -> None:
        if self._driver is not None:
            getattr(self._driver, method)(*arguments)
        else:
            self._early.append((method, arguments))

    def opened(self, peer: Peer) -> None:
        self._tell("opened", peer)

    def received(self, peer: Peer, message: Message) -> None:
        if self._driver is not None:
            self._driver.received(peer, message)
        else:
            self._early.append(("received", (peer, message)))

    def failed(self, peer: Peer, reason: str, gone: bool = False) -> None:
        self._tell("failed", peer, reason, gone)

    def closed(self, peer: Peer) -> None:
        self._tell("closed", peer)

    def measured(self, peer: Peer, seconds: float, offset: int | None = None) -> None:
        self._tell("measured", peer, seconds, offset)

    def drained(self) -> None:
        self._tell("drained")

    def dropped(self, reason: str, count: int) -> None:
        self._tell("dropped", reason, count)


async def _join(driver: Driver, config: Config) -> None:
    seeds = config.node.seeds
    found, failures, founder = await _connect(driver.transport, seeds, driver.me)
    if not found and not founder:
        listed = "\n".join(f"  {address}: {reason}" for address, reason in failures)
        raise JoinFailed(
            f"none of the seeds let this node in:\n{listed}\n"
            "Start a seed first, correct the addresses, or give no seeds to found a new overlay "
            "(`overlaymq doctor` tells more)"
        )
    timeout = config.node.join_timeout
    if founder and found:
        if await _joined(driver, found, timeout * FOUND_AFTER):
            return
        driver.begin_again(_core(driver.me, config))
        found = []
    if not await _joined(driver, found, timeout):
        raise JoinFailed(
            f"{', '.join(peer.address for peer in found)} answered, but the ring did not let this node "
            f"in within {timeout:g} s; see `overlaymq doctor`"
        )


async def _joined(driver: Driver, seeds: Sequence[Peer], seconds: float) -> bool:
    driver.handle(Join(tuple(seeds)))
    with trio.move_on_after(seconds):
        event = await driver.joined.wait()
        if isinstance(event, JoinRejected):
            raise IdentityError(
                f"the overlay refused node {ids.text(driver.me.id)}: {event.reason}. "
                "Use another key_file for each node"
            )
        return True
    return False


async def _connect(
    transport: Transport, seeds: Sequence[str], me: Peer
) -> tuple[list[Peer], list[tuple[str, str]], bool]:
    """Who of the seeds answered, why the others did not, and whether this node may found the overlay."""
    if not seeds:
        return [], [], True
    answers: dict[str, Peer | str] = {}

    async def connect(address: str) -> None:
        try:
            answers[address] = await transport.connect(address)
        except OwnAddress:
            mine.append(address)
        except LinkRefused as error:
            answers[address] = str(error)
        except ConfigError as error:
            malformed.append(error)

    malformed: list[ConfigError] = []
    mine = [address for address in seeds if address == me.address]
    others = [address for address in seeds if address != me.address]
    async with trio.open_nursery() as nursery:
        for address in others:
            nursery.start_soon(connect, address)
    if malformed:
        raise ConfigError(f"seeds: {malformed[0]}")
    found = [peer for peer in answers.values() if not isinstance(peer, str)]
    failures = [(a, reason) for a, reason in answers.items() if isinstance(reason, str)]
    if not mine:
        return found, failures, False
    before = seeds[: min(list(seeds).index(address) for address in mine)]
    return found, failures, all(isinstance(answers[address], str) for address in before)


def facing_seed(listen: str, seeds: Sequence[str]) -> str:
    """For a wildcard listener: this host's address on the interface that faces the first seed."""
    host, _, port = listen.rpartition(":")
    if host not in WILDCARDS or not seeds or port == "0":
        return ""
    seed, _, _ = seeds[0].rpartition(":")
    for family, kind, _, _, address in _resolved(seed.strip("[]")):
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(address)  # UDP: chooses a route and sends nothing
            except OSError:
                continue
            local = probe.getsockname()[0]
            return f"[{local}]:{port}" if ":" in local else f"{local}:{port}"
    return ""


def _resolved(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return []
