"""What a running node tells `overlaymq status` and `overlaymq doctor`, over the admin service.

One question, one answer, in JSON: the node's ring, links, topics and counters. The service listens on
loopback by default, because it tells everything and asks nobody who they are.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from overlaymq import ids
from overlaymq._version import PROTOCOL, VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from overlaymq.config import AdminConfig
    from overlaymq.core.dissemination.base import Strategy
    from overlaymq.messages import Peer
    from overlaymq.runtime.node import Node


def status(node: Node) -> dict[str, Any]:
    """Everything there is to say about a node, as plain values."""
    driver = node._driver
    pastry = driver.node.pastry
    return {
        "id": node.id,
        "address": node.address,
        "version": VERSION,
        "protocol": PROTOCOL,
        "time_ns": time.time_ns(),
        "active": pastry.active,
        "leaf_set": [_peer(peer) for peer in pastry.leaves()],
        "pastry": _readable(msgspec.to_builtins(pastry.snapshot())),
        "links": [
            {**_peer(link.peer), "dialled": link.dialled, "backlog": link.backlog}
            for link in driver.transport.links()
        ],
        "topics": [
            {
                "name": topic.name,
                "creator": topic.creator,
                "strategy": topic.strategy,
                "reliability": topic.reliability,
                "flow": topic.flow,
                "subscriptions": len(driver.subscriptions.get(topic.id, ())),
                "tree": _tree(driver.node.strategy(topic.id)),
            }
            for topic in driver.node.active_topics()
        ],
        "descriptors_held": len(driver.node.topics.held),
        "recorder": driver.recorder.facts() if driver.recorder is not None else None,
        "statistics": msgspec.to_builtins(node.statistics()),
    }


def _tree(strategy: Strategy | None) -> dict[str, Any] | None:
    """This node's role in a topic, and who is above and below it, of content and of joins; or its views."""
    standing = None if strategy is None else strategy.standing
    if standing is None:
        return None
    told: dict[str, Any] = {"role": standing.role}
    if strategy is not None and strategy.mesh:
        told["views"] = {
            "partial": [_peer(peer) for peer in standing.view],
            "in": [_peer(peer) for peer in standing.in_view],
        }
        return told
    told["content"] = _around(standing.parent, standing.children)
    if standing.rpf_children is not None:
        told["joins"] = _around(standing.rpf_parent, standing.rpf_children)
    return told


def _around(above: Peer | None, below: tuple[Peer, ...]) -> dict[str, Any]:
    parent = None if above is None else _peer(above)
    return {"parent": parent, "children": [_peer(child) for child in below]}


def _readable(value: Any) -> Any:
    """Ids as hex: JSON readers lose the last digits of a 128-bit number."""
    if isinstance(value, dict):
        return {key: _readable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(one) for one in value]
    return ids.text(ids.Id(value)) if isinstance(value, int) and value >> 64 else value


def _peer(peer: Peer) -> dict[str, Any]:
    return {"id": ids.text(peer.id), "address": peer.address}


@asynccontextmanager
async def admin_service(node: Node, config: AdminConfig) -> AsyncIterator[None]:
    """Answer status questions while the block runs, if the configuration says so."""
    if not config.enabled:
        await trio.lowlevel.checkpoint()
        yield
        return
    from overlaymq.transport.grpc_admin import serve_admin

    def answer(request: bytes) -> bytes:
        return msgspec.json.encode(status(node))

    async with serve_admin(config.listen, answer) as address:
        node.admin_address = address
        yield
