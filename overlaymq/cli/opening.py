"""From flags to a running node.

Nodes that are told nothing meet on a loopback port: whoever comes first listens there and founds the
overlay, everybody else joins through it. Two that start at the same moment both try to be first; the port
lets one of them, and the other joins. So an attempt that fails at once is made again for a short while.

A node that has seeds but no address to listen at takes the address of the interface that faces the first
seed, so that joining an overlay on another machine needs one flag.
"""

from __future__ import annotations

import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio
from msgspec.structs import asdict, replace

from overlaymq.cli.options import ADMIN_ADDRESS
from overlaymq.config import AdminConfig, NodeConfig, TraceConfig, convert, load
from overlaymq.errors import ConfigError, JoinFailed
from overlaymq.runtime.admin import admin_service
from overlaymq.runtime.opening import facing_seed, open_node
from overlaymq.transport.grpc_options import split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from overlaymq.cli.options import NodeOptions, TopicOptions
    from overlaymq.config import Config
    from overlaymq.runtime.node import Node

MEET_FOR = 3.0
"""Seconds in which a node may change its mind between founding and joining: a guess."""
MEET_PAUSE = 0.1


@asynccontextmanager
async def opened(options: NodeOptions, record: str | None = None) -> AsyncIterator[Node]:
    """A node as the flags, the environment and the file say."""
    config = configured(options)
    if record is not None:
        config = replace(config, recorder=replace(config.recorder, file=record))
    async with AsyncExitStack() as stack:
        bare = replace(config, admin=AdminConfig(enabled=False))
        if meets(config, options):
            node = await _meet(stack, bare, options.meet)
        else:
            _check_port(config.node.listen)
            node = await stack.enter_async_context(open_node(bare))
        if config.admin.enabled:
            await _serve_status(stack, node, config.admin.listen, chosen=bool(options.admin))
        yield node


def configured(options: NodeOptions) -> Config:
    """The configuration before the question of where to meet."""
    config = load(
        options.config,
        os.environ,
        listen=options.listen,
        seeds=options.seeds or None,
        advertise=options.advertise,
        key_file=options.key_file,
    )
    if options.admin:
        config = replace(config, admin=AdminConfig(enabled=True, listen=options.admin))
    traced = {"directory": options.trace, "run": options.trace_run}
    given = {key: value for key, value in traced.items() if value is not None}
    if given:
        config = replace(
            config, trace=convert({**asdict(config.trace), **given}, TraceConfig, "--trace")
        )
    if config.node.listen == NodeConfig().listen and config.node.seeds:
        facing = facing_seed("0.0.0.0:1", config.node.seeds).rpartition(":")[0]
        config = replace(config, node=replace(config.node, listen=f"{facing or '127.0.0.1'}:0"))
    return config


def meets(config: Config, options: NodeOptions) -> bool:
    """Whether flags and configuration leave it open where this node listens and whom it joins."""
    return (
        not options.listen and config.node.listen == NodeConfig().listen and not config.node.seeds
    )


async def create_if_asked(node: Node, topic: str, creation: TopicOptions) -> None:
    """Create the topic if settings for it were given."""
    if creation.given:
        await node.create(
            topic,
            strategy=creation.strategy,
            reliability=creation.reliability,
            flow=creation.flow,
            root=creation.root or "topic",
        )


async def _meet(stack: AsyncExitStack, config: Config, point: str) -> Node:
    split(point)
    deadline = trio.current_time() + MEET_FOR
    while True:
        try:
            return await stack.enter_async_context(open_node(_placed(config, point)))
        except (ConfigError, JoinFailed):  # the port was taken, or its holder not up or just gone
            if trio.current_time() > deadline:
                raise
        await trio.sleep(MEET_PAUSE)


def _placed(config: Config, point: str) -> Config:
    """Found the overlay at the meeting point, or join through whoever holds it."""
    if is_free(point):
        return replace(config, node=replace(config.node, listen=point))
    return replace(config, node=replace(config.node, seeds=(point,)))


def _check_port(listen: str, purpose: str = "listen on") -> None:
    """Say it in our words, before gRPC says it in its own."""
    error = why_not_free(listen)
    if error is not None:
        raise ConfigError(
            f"cannot {purpose} {listen}: {error.strerror}; choose an address of this machine and a "
            "free port (port 0 finds one), or see `overlaymq doctor`"
        )


async def _serve_status(stack: AsyncExitStack, node: Node, listen: str, chosen: bool) -> None:
    """A node of the command line can be asked for its status, at the usual port if that is free."""
    if listen == AdminConfig().listen and not chosen:
        with suppress(ConfigError):  # taken, by the node of another terminal
            usual = AdminConfig(enabled=True, listen=ADMIN_ADDRESS)
            if is_free(ADMIN_ADDRESS):
                await stack.enter_async_context(admin_service(node, usual))
                return
    _check_port(listen, "answer status on")
    await stack.enter_async_context(admin_service(node, AdminConfig(enabled=True, listen=listen)))


def is_free(address: str) -> bool:
    """Whether this process could listen there."""
    return why_not_free(address) is None


def why_not_free(address: str) -> OSError | None:
    """What the system says against listening there."""
    host, port = split(address)
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(resolved)
    except OSError as error:
        return error
    return None
