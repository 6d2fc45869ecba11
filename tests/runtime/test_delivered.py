"""Delivered receipts through the public interface, on networks in memory.

Reference: design.md section 4, receipts grow: ... delivered(n of m).
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

import overlaymq
from overlaymq.config import Config, DeliveryConfig, RendezvousConfig, ScribeConfig, TopicConfig
from overlaymq.testing import network

QUICK = Config(
    defaults=TopicConfig(strategy="scribe", reliability="ordered"),
    delivery=DeliveryConfig(reorder_wait=0.05, gap_timeout=1.0, chunk=16 * 1024),
    rendezvous=RendezvousConfig(answer_timeout=0.3),
    scribe=ScribeConfig(heartbeat_every=0.2, suspect_after=0.5),
)


async def test_a_receipt_tells_that_all_subscribers_have_the_message() -> None:
    async with (
        network(8, QUICK) as nodes,
        nodes[1].subscribe("t") as one,
        nodes[2].subscribe("t") as two,
        nodes[3].subscribe("t") as three,
    ):
        for subscription in (one, two, three):
            await subscription.wait_ready()
        await nodes[5].wait_subscribers("t", 3)
        small = await nodes[5].publish("t", b"x")
        large = await nodes[5].publish("t", bytes(100_000))
        with trio.fail_after(20):
            assert await small.wait("delivered") == 3
            assert await large.wait("delivered") == 3
        assert small.reach == overlaymq.Reach(had=3, members=3)
        assert small.stage == "delivered"
        for subscription in (one, two, three):
            assert (await subscription.receive()).payload == b"x"


async def test_without_subscribers_nobody_is_waited_for() -> None:
    async with network(4, QUICK) as nodes:
        receipt = await nodes[2].publish("t", b"x")
        with trio.fail_after(20):
            assert await receipt.wait("delivered") == 0


@pytest.mark.parametrize("graceful", [True, False])
async def test_a_subscriber_that_goes_is_waited_for_no_longer(graceful: bool) -> None:
    """One that unsubscribes at once; one that dies after the time in which its children may come back."""
    async with network(8, QUICK) as nodes, nodes[1].subscribe("t") as staying:
        await staying.wait_ready()
        async with nodes[4].subscribe("t") as going:
            await going.wait_ready()
            await nodes[6].wait_subscribers("t", 2)
            if not graceful:
                nodes.memory.crash(nodes[4].address)
        receipt = await nodes[6].publish("t", b"x")
        with trio.fail_after(30):
            await receipt.wait("delivered")
        assert receipt.reach == overlaymq.Reach(1, 1)


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_message_that_is_stopped_at_the_root_is_no_success(size: int) -> None:
    """`wait("sequenced")` returned 0, and the stage was "sequenced"."""
    async with network(4, QUICK) as nodes:
        for node in nodes:
            node.set_upcalls("t", overlaymq.Upcalls(on_forward=lambda batch, tree: None))
        for node in nodes:  # one of them is the root
            receipt = await node.publish("t", bytes(size))
            for stage in ("sequenced", "delivered", "sent"):
                with trio.fail_after(20), pytest.raises(overlaymq.OverlayError, match="stopped"):
                    await receipt.wait(stage)
            assert receipt.stage == "accepted"


async def test_waiting_can_be_given_up_and_begun_again() -> None:
    async with network(4, QUICK) as nodes, nodes[1].subscribe("t") as subscription:
        await subscription.wait_ready()
        receipt = await nodes[2].publish("t", b"x")
        with trio.move_on_after(0):
            await receipt.wait("delivered")
        with trio.fail_after(20):
            assert await receipt.wait("delivered") == 1


async def test_other_modes_say_that_they_cannot_tell() -> None:
    async with network(1) as nodes:
        receipt = await nodes[0].publish("t", b"x")
        with pytest.raises(overlaymq.NotSupported, match=r"delivered.*ordered"):
            await receipt.wait("delivered")
        with pytest.raises(overlaymq.NotSupported, match="committed"):
            await receipt.wait("committed")


async def test_who_waits_is_told_when_the_node_ends() -> None:
    async with network(3, QUICK) as nodes, nodes[1].subscribe("t") as subscription:
        await subscription.wait_ready()
        await nodes[0].wait_subscribers("t", 1)
        nodes.memory.crash(nodes[1].address)
        receipt = await nodes[0].publish("t", b"x")
        async with trio.open_nursery() as tasks:

            async def wait() -> None:
                with pytest.raises(overlaymq.OverlayError, match="closed"):
                    await receipt.wait("delivered")

            tasks.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await nodes[0].leave()
