"""One application and one file, of which one word is changed: it runs on every strategy, over gRPC."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import trio

import overlaymq
from overlaymq import ConfigError, NotSupported
from overlaymq.runtime.admin import status

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

FILE = """
[topics."news/*"]
strategy = "scribe"
reliability = "fifo"
"""
TOPIC = "news/local"
COUNT = 50
LARGE = bytes(range(256)) * 4096


async def application(config: Path) -> tuple[str, list[list[bytes]], list[bytes], list[bytes]]:
    """Three of five nodes read, one of them stops, one comes late, and one that reads nothing writes."""

    def another(*seeds: str) -> AbstractAsyncContextManager[overlaymq.Node]:
        return overlaymq.open_node(config, listen="127.0.0.1:0", seeds=seeds or None)

    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(another())
        nodes = [await stack.enter_async_context(another(writer.address)) for _ in range(4)]
        readers = [await stack.enter_async_context(node.subscribe(TOPIC)) for node in nodes[:2]]
        async with nodes[2].subscribe(TOPIC) as leaving:
            for reader in (*readers, leaving):
                await reader.wait_ready()
            await writer.wait_subscribers(TOPIC, 3)
            for number in range(COUNT):
                await writer.publish(TOPIC, b"%d" % number)
            got = [await _take(reader, COUNT) for reader in (*readers, leaving)]
        async with nodes[3].subscribe(TOPIC, since=overlaymq.Last(5)) as late:
            replayed = await _take(late, 5)
            await late.wait_ready()
            await nodes[0].publish(TOPIC, LARGE)
            last = [(await reader.receive()).payload for reader in (*readers, late)]
        (topic,) = status(nodes[0])["topics"]
        return topic["strategy"], got, replayed, last


async def _take(reader: overlaymq.Subscription, count: int) -> list[bytes]:
    return [(await reader.receive()).payload for _ in range(count)]


@pytest.mark.parametrize("strategy", ["scribe", "sv", "scamp"])
async def test_one_word_changes_the_strategy(strategy: str, tmp_path: Path) -> None:
    """Reference: issue 6, "Switching by configuration"."""
    config = tmp_path / "news.toml"
    config.write_text(FILE.replace('"scribe"', f'"{strategy}"'))
    with trio.fail_after(30):
        used, got, replayed, last = await application(config)
    published = [b"%d" % number for number in range(COUNT)]
    assert used == strategy
    assert got == [published] * 3
    assert replayed == published[-5:]
    assert last == [LARGE] * 3


async def test_what_gossip_cannot_give_is_refused_with_a_way_out(tmp_path: Path) -> None:
    """Reference: issue 6, "refuse them with a clear error"."""
    config = tmp_path / "news.toml"
    config.write_text(FILE.replace('"scribe"', '"scamp"').replace('"fifo"', '"ordered"'))
    async with overlaymq.open_node(config, listen="127.0.0.1:0") as node:
        with pytest.raises(ConfigError, match="Use 'fifo' with it, or strategy='scribe'"):
            await node.publish(TOPIC, b"one order for all")
        await node.create("gossip", strategy="scamp")
        with pytest.raises(NotSupported, match="strategy='scribe'"):
            await node.anycast("gossip", b"to one of you")
