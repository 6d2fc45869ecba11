"""Anycast from an application's view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import overlaymq
from overlaymq.testing import network

if TYPE_CHECKING:
    from overlaymq.core.reliability.upcalls import Tree
    from overlaymq.messages import Peer


async def test_a_worker_accepts_and_the_sender_learns_which() -> None:
    jobs: list[bytes] = []

    def free(payload: bytes, origin: Peer, tree: Tree) -> bool:
        jobs.append(payload)
        return True

    async with network(5) as nodes:
        await nodes[0].create("workers", strategy="scribe")
        async with nodes[1].subscribe("workers") as busy, nodes[2].subscribe("workers") as ready:
            await busy.wait_ready()
            await ready.wait_ready()
            nodes[2].set_upcalls("workers", overlaymq.Upcalls(on_anycast=free))
            accepted = await nodes[4].anycast("workers", b"job")
            assert accepted == overlaymq.Accepted((nodes[2].id,), True)
            assert jobs == [b"job"]
            accepted = await nodes[4].anycast("workers", b"job", count=2)
            assert accepted == overlaymq.Accepted((nodes[2].id,), True), "there is no second"


async def test_a_topic_without_a_tree_says_so() -> None:
    async with network(2) as nodes:
        await nodes[0].create("flat", strategy="direct")
        with pytest.raises(overlaymq.NotSupported, match=r"'flat'.*'direct'.*scribe"):
            await nodes[1].anycast("flat", b"job")


async def test_mistakes_are_told_at_once() -> None:
    async with network(1) as nodes:
        with pytest.raises(overlaymq.PayloadTooLarge, match="65537 bytes"):
            await nodes[0].anycast("workers", b"x" * 65537)
        with pytest.raises(overlaymq.OverlayError, match="count: expected at least 1"):
            await nodes[0].anycast("workers", b"x", count=0)
