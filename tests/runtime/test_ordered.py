"""Ordered topics through the public interface, on networks in memory.

Reference: Scribe JSAC III-B.2 (ordered delivery by upcalls), design.md section 4 (receipts, events).
"""

from __future__ import annotations

import pytest
import trio

import overlaymq
from overlaymq import ids
from overlaymq.config import Config, DeliveryConfig, ScribeConfig, TopicConfig
from overlaymq.testing import network

ORDERED = TopicConfig(strategy="scribe", reliability="ordered")
QUICK = Config(
    defaults=ORDERED,
    delivery=DeliveryConfig(reorder_wait=0.05, chunk=16 * 1024, keep_bytes=1024 * 1024),
    scribe=ScribeConfig(heartbeat_every=0.2, suspect_after=0.5),
)


async def numbers(subscription: overlaymq.Subscription, count: int) -> list[bytes]:
    with trio.fail_after(20):
        return [(await subscription.receive()).payload for _ in range(count)]


async def test_all_subscribers_get_one_order_whoever_publishes() -> None:
    async with (
        network(6, QUICK) as nodes,
        nodes[1].subscribe("t") as one,
        nodes[2].subscribe("t") as two,
    ):
        await one.wait_ready()
        await two.wait_ready()

        async def publish(node: overlaymq.Node, name: str) -> None:
            for number in range(100):
                await node.publish("t", f"{name} {number}".encode())
                if number % 10 == 0:
                    await trio.sleep(0.001)  # let the other publisher in

        async with trio.open_nursery() as tasks:
            tasks.start_soon(publish, nodes[1], "a")
            tasks.start_soon(publish, nodes[4], "b")
        first, second = await numbers(one, 200), await numbers(two, 200)
    assert first == second
    assert [text for text in first if text.startswith(b"a")] == [b"a %d" % n for n in range(100)]


async def test_a_receipt_tells_the_number_that_the_root_gave() -> None:
    async with network(4, QUICK) as nodes, nodes[1].subscribe("t") as subscription:
        await subscription.wait_ready()
        receipts = [await nodes[3].publish("t", b"x") for _ in range(5)]
        with trio.fail_after(10):
            given = [await receipt.wait("sequenced") for receipt in receipts]
        assert given == [1, 2, 3, 4, 5]
        assert receipts[-1].stage == "sequenced"


async def test_a_topic_without_order_has_no_sequenced_receipts() -> None:
    async with network(1) as nodes:
        receipt = await nodes[0].publish("t", b"x")
        with pytest.raises(overlaymq.NotSupported, match="ordered"):
            await receipt.wait("sequenced")


async def test_publishing_before_anybody_subscribes_is_sequenced_too() -> None:
    async with network(4, QUICK) as nodes:
        receipt = await nodes[2].publish("t", b"x")
        with trio.fail_after(10):
            assert await receipt.wait("sequenced") == 1


async def test_large_payloads_keep_their_turn() -> None:
    async with network(3, QUICK) as nodes, nodes[1].subscribe("t") as subscription:
        await subscription.wait_ready()
        large = bytes(200_000)
        for payload in (b"before", large, b"after"):
            await nodes[2].publish("t", payload)
        assert await numbers(subscription, 3) == [b"before", large, b"after"]


async def test_a_payload_that_no_buffer_holds_is_refused() -> None:
    async with network(1, QUICK) as nodes:
        with pytest.raises(overlaymq.PayloadTooLarge, match="keep_bytes"):
            await nodes[0].publish("t", bytes(2 * 1024 * 1024))
        receipt = await nodes[0].publish("t", b"small")
        assert await receipt.wait("sequenced") == 1


async def test_order_needs_a_tree_and_says_so() -> None:
    async with network(1) as nodes:
        with pytest.raises(overlaymq.ConfigError, match="scribe"):
            await nodes[0].create("t", strategy="direct", reliability="ordered")


async def test_late_joiners_get_the_last_messages_from_the_buffers() -> None:
    async with network(5, QUICK) as nodes, nodes[1].subscribe("t") as early:
        await early.wait_ready()
        for number in range(20):
            await nodes[2].publish("t", b"%d" % number)
        await numbers(early, 20)
        async with nodes[3].subscribe("t", since=overlaymq.Last(5)) as late:
            got = await numbers(late, 5)
            await nodes[2].publish("t", b"next")
            got += await numbers(late, 1)
    assert got == [b"15", b"16", b"17", b"18", b"19", b"next"]


@pytest.mark.parametrize("graceful", [True, False])
async def test_when_the_root_goes_every_message_arrives_or_is_announced(graceful: bool) -> None:
    """Also a publisher's messages that its root has not acknowledged: they go to the next one."""
    async with network(8, QUICK, seed=3) as nodes:
        _, root_address, _ = await nodes[0].lookup(ids.text(ids.topic_id("t")))
        root = next(node for node in nodes if node.address == root_address)
        others = [node for node in nodes if node is not root]
        async with others[0].subscribe("t") as one, others[1].subscribe("t") as two:
            await one.wait_ready()
            await two.wait_ready()
            for number in range(30):
                receipt = await others[2].publish("t", b"%d" % number)
                await receipt.wait("sent")
                if number == 14:
                    if graceful:
                        await root.leave()
                    else:
                        nodes.memory.crash(root.address)
            with trio.fail_after(30):
                await receipt.wait("sequenced")
            got = [await until_last(subscription) for subscription in (one, two)]
            changed = await next_change(one)
    assert changed.new.counter > changed.old.counter
    for payloads in got:
        assert payloads == sorted(set(payloads), key=int), "nothing twice, nothing out of order"
        assert payloads[-15:] == [b"%d" % number for number in range(15, 30)]


async def until_last(subscription: overlaymq.Subscription) -> list[bytes]:
    got: list[bytes] = []
    with trio.fail_after(30):
        while not got or got[-1] != b"29":
            got.append((await subscription.receive()).payload)
    return got


async def next_change(subscription: overlaymq.Subscription) -> overlaymq.EpochChanged:
    with trio.fail_after(30):
        async for event in subscription.events():
            if isinstance(event, overlaymq.EpochChanged):
                return event
    raise AssertionError("the events ended")
