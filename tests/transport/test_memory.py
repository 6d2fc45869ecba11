"""The in-memory network: faults for the asking, and the same story every time."""

from __future__ import annotations

import pytest
import trio.testing

from overlaymq.errors import LinkRefused
from overlaymq.ids import Id
from overlaymq.messages import Peer, Ping
from overlaymq.transport.conformance_bench import Endpoint, batch
from overlaymq.transport.memory import MemoryNetwork


async def _nodes(network: MemoryNetwork, count: int) -> list[Endpoint]:
    peers = [Peer(Id(number), f"host:{number}", 1) for number in range(1, count + 1)]
    return [await Endpoint(network.transport(peer)).start() for peer in peers]


async def test_a_cut_path_fails_and_heals() -> None:
    network = MemoryNetwork()
    a, b, c = await _nodes(network, 3)
    a.ping(b, 1)
    a.ping(c, 1)
    await trio.testing.wait_all_tasks_blocked()
    network.cut("host:1", "host:2")
    a.ping(b, 2)
    await trio.testing.wait_all_tasks_blocked()
    assert a.inbox.count("failed", b.id) == 2, "the link, then the dial"
    assert b.inbox.count("failed", a.id) == 1
    assert a.linked() == {c.id}
    with pytest.raises(LinkRefused, match="nobody answers"):
        await a.transport.connect("host:2")
    network.heal()
    a.ping(b, 3)
    await trio.testing.wait_all_tasks_blocked()
    assert b.inbox.numbers(a.id) == [1, 3]
    assert not a.inbox.breaches + b.inbox.breaches


async def test_a_crashed_node_says_nothing_more() -> None:
    network = MemoryNetwork()
    a, b = await _nodes(network, 2)
    a.ping(b, 1)
    await trio.testing.wait_all_tasks_blocked()
    b.ping(a, 1)
    heard = len(b.inbox.log)
    network.crash("host:2")
    b.ping(a, 2)
    await trio.testing.wait_all_tasks_blocked()
    assert a.inbox.numbers(b.id) == []
    assert a.inbox.count("failed", b.id) == 1
    assert len(b.inbox.log) == heard
    await b.transport.aclose()


async def test_an_address_is_used_once() -> None:
    network = MemoryNetwork()
    await _nodes(network, 1)
    with pytest.raises(OSError, match="host:1 is already in use"):
        await _nodes(network, 1)


async def test_a_probe_measures_the_networks_round_trip() -> None:
    network = MemoryNetwork(round_trip=0.25)
    a, b = await _nodes(network, 2)
    a.call("probe", b.peer)
    await a.inbox.until(lambda: ("measured", b.peer, 0.25) in a.inbox.log)


async def _story() -> list[list[tuple[object, ...]]]:
    network = MemoryNetwork()
    nodes = await _nodes(network, 5)
    for turn in range(40):
        a, b = nodes[turn % 5], nodes[(turn * 3 + 1) % 5]
        if a is not b:
            a.ping(b, turn)
            b.call("send_batch", a.peer, batch(turn))
            a.call("probe", b.peer)
        if turn == 20:
            network.cut("host:1", "host:3")
        if turn == 30:
            network.crash("host:5")
        if turn % 4 == 0:  # not a bare checkpoint: trio shuffles what is ready at once
            await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()
    return [node.inbox.log for node in nodes]


def test_the_same_things_give_the_same_story() -> None:
    stories = [trio.run(_story) for _ in range(5)]
    assert stories[1:] == stories[:-1]
    assert any(entry[0] == "failed" for log in stories[0] for entry in log)


async def test_messages_pass_by_reference() -> None:
    network = MemoryNetwork()
    a, b = await _nodes(network, 2)
    message = Ping(5)
    a.call("send", b.peer, message)
    await b.inbox.until(lambda: bool(b.inbox.messages))
    assert b.inbox.messages[0][1] is message
