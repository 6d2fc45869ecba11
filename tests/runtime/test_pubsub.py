"""The public interface, end to end, on networks in memory: what an application relies on."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
import trio.testing

import overlaymq
from overlaymq import ids
from overlaymq.config import Config, DeliveryConfig, TopicConfig
from overlaymq.testing import network, open_memory_node

if TYPE_CHECKING:
    from overlaymq.core.reliability.upcalls import Tree
    from overlaymq.messages import Batch

SMALL = Config(
    delivery=DeliveryConfig(
        window=64 * 1024, run_bytes=8 * 1024, chunk=16 * 1024, max_payload=1024 * 1024, patience=0.2
    )
)


async def test_every_subscriber_gets_every_message_in_order() -> None:
    async with network(5) as nodes, nodes[1].subscribe("t") as one, nodes[2].subscribe("t") as two:
        await one.wait_ready()
        await two.wait_ready()
        for number in range(1000):
            await nodes[4].publish("t", str(number).encode())
        for subscription in (one, two):
            got = [(await subscription.receive()).payload for _ in range(1000)]
            assert got == [str(number).encode() for number in range(1000)]


async def test_a_message_says_where_it_comes_from() -> None:
    async with network(3) as nodes:
        async with nodes[1].subscribe("t") as subscription:
            await subscription.wait_ready()
            receipt = await nodes[2].publish("t", b"x", headers={"kind": "greeting"})
            message = await subscription.receive()
        assert message.origin == nodes[2].id
        assert message.seq == receipt.seq
        assert message.topic == "t"
        assert message.hops >= 1
        assert message.published_at > 0
        assert dict(message.headers) == {"kind": "greeting"}


async def test_equal_payloads_are_distinct_messages() -> None:
    async with network(2) as nodes, nodes[0].subscribe("t") as subscription:
        await subscription.wait_ready()
        for _ in range(3):
            await nodes[1].publish("t", b"same")
        assert [(await subscription.receive()).seq for _ in range(3)] == [0, 1, 2]


async def test_each_subscription_of_a_node_gets_every_message_and_own_ones_by_choice() -> None:
    async with network(3) as nodes:
        node = nodes[1]
        async with (
            node.subscribe("t") as one,
            node.subscribe("t") as two,
            node.subscribe("t", receive_own=False) as others_only,
        ):
            for subscription in (one, two, others_only):
                await subscription.wait_ready()
            await node.publish("t", b"mine")
            await nodes[2].publish("t", b"theirs")
            for subscription in (one, two):
                got = {(await subscription.receive()).payload for _ in range(2)}
                assert got == {b"mine", b"theirs"}
            assert (await others_only.receive()).payload == b"theirs"


async def test_a_receipt_grows_and_counts_links() -> None:
    async with network(4) as nodes:
        await nodes[0].create("t", root="creator")
        async with nodes[1].subscribe("t") as one, nodes[2].subscribe("t") as two:
            await one.wait_ready()
            await two.wait_ready()
            assert await nodes[0].wait_subscribers("t", 2) == 2
            receipt = await nodes[0].publish("t", b"x")
            assert await receipt.wait("sent") == 2
            assert receipt.stage == "sent"
            with pytest.raises(overlaymq.NotSupported, match="ordered"):
                await receipt.wait("sequenced")


async def test_create_conflicts_are_refused_and_repeats_are_not() -> None:
    async with network(3) as nodes:
        await nodes[0].create("t", reliability="fifo")
        await nodes[1].create("t", reliability="fifo")
        with pytest.raises(overlaymq.TopicConflict, match="reliability='fifo'"):
            await nodes[2].create("t", reliability="best_effort")


async def test_all_nodes_agree_on_a_topics_settings_whatever_their_configuration_says() -> None:
    lossy = msgspec.structs.replace(Config(), topics={"t*": TopicConfig(flow="lossy")})
    async with network(3) as nodes:
        await nodes[0].create("topic", flow="lossless")
        async with (
            open_memory_node(nodes.memory, lossy, name="late", seeds=[nodes[0]]) as late,
            late.subscribe("topic") as subscription,
        ):
            assert subscription.descriptor is not None
            assert subscription.descriptor.flow == "lossless"


async def test_what_is_not_built_says_so() -> None:
    async with network(1) as nodes:
        with pytest.raises(overlaymq.NotSupported, match="not built"):
            await nodes[0].create("t", reliability="replicated")


async def test_large_payloads_cross_in_chunks_and_too_large_ones_raise() -> None:
    async with network(3, SMALL) as nodes, nodes[1].subscribe("t") as subscription:
        await subscription.wait_ready()
        large = bytes(range(256)) * 2048
        await nodes[2].publish("t", b"before")
        await nodes[2].publish("t", large, headers={"large": "yes"})
        await nodes[2].publish("t", b"after")
        got = [await subscription.receive() for _ in range(3)]
        assert [message.payload for message in got] == [b"before", large, b"after"]
        assert [message.seq for message in got] == [0, 1, 2]
        assert dict(got[1].headers) == {"large": "yes"}
        with pytest.raises(overlaymq.PayloadTooLarge, match="max_payload"):
            await nodes[2].publish("t", bytes(1024 * 1024 + 1))


async def test_publish_nowait_raises_when_there_is_no_room() -> None:
    async with network(2, SMALL) as nodes:
        await nodes[0].create("t", flow="lossless", root="creator")
        async with nodes[1].subscribe("t", buffer=1) as subscription:
            await subscription.wait_ready()

            def fill() -> None:
                while True:
                    nodes[0].publish_nowait("t", bytes(1000))

            with pytest.raises(overlaymq.WouldBlock):
                fill()


async def test_publish_nowait_needs_a_known_topic() -> None:
    async with network(1) as nodes:
        with pytest.raises(overlaymq.WouldBlock, match="not known"):
            nodes[0].publish_nowait("t", b"x")


async def test_publish_many_and_batches() -> None:
    async with network(2) as nodes, nodes[0].subscribe("t") as subscription:
        await subscription.wait_ready()
        receipts = await nodes[1].publish_many("t", [b"%d" % n for n in range(300)])
        assert [receipt.seq for receipt in receipts] == list(range(300))
        got: list[bytes] = []
        async for batch in subscription.batches():
            got += [message.payload for message in batch]
            if len(got) == 300:
                break
        assert got == [b"%d" % n for n in range(300)]


async def test_lossless_waits_for_a_stopped_reader_and_loses_nothing() -> None:
    async with network(2, SMALL) as nodes:
        await nodes[0].create("t", flow="lossless", root="creator")
        async with (
            nodes[1].subscribe("t", buffer=10) as subscription,
            trio.open_nursery() as nursery,
        ):
            await subscription.wait_ready()

            async def publish() -> None:
                for number in range(2000):
                    await nodes[0].publish("t", str(number).encode().ljust(200))

            nursery.start_soon(publish)
            await trio.testing.wait_all_tasks_blocked(0.05)
            held = subscription.statistics().buffered_bytes + nodes[0].statistics().queued_bytes
            assert held < 4 * SMALL.delivery.window
            for number in range(2000):
                assert (await subscription.receive()).payload.strip() == str(number).encode()
        assert nodes[0].statistics().skipped_for_slow_children == 0


@pytest.mark.parametrize("window", [16 * 1024, 4 * 1024 * 1024])
async def test_nodes_with_other_windows_get_everything(window: int) -> None:
    """The publisher's window is SMALL's; the subscriber's is far smaller, or far larger."""
    other = msgspec.structs.replace(
        SMALL, delivery=msgspec.structs.replace(SMALL.delivery, window=window)
    )
    async with (
        network(1, SMALL) as nodes,
        open_memory_node(nodes.memory, other, name="other", seeds=nodes[:1]) as there,
    ):
        await nodes[0].create("t", flow="lossless", root="creator")
        async with there.subscribe("t", buffer=10) as subscription, trio.open_nursery() as nursery:
            await subscription.wait_ready()
            nursery.start_soon(nodes[0].publish_many, "t", [bytes(200)] * 2000)
            with trio.fail_after(20):
                for number in range(2000):
                    assert (await subscription.receive()).seq == number
        assert nodes[0].statistics().drops == there.statistics().drops == {}


async def test_patient_goes_on_without_the_slow_one_and_tells_it() -> None:
    async with network(3, SMALL) as nodes:
        await nodes[0].create("t", flow="patient", root="creator")
        async with nodes[1].subscribe("t", buffer=10) as slow, nodes[2].subscribe("t") as fast:
            await slow.wait_ready()
            await fast.wait_ready()
            total = 3000
            got = 0
            async with trio.open_nursery() as nursery:

                async def publish() -> None:
                    for _ in range(total):
                        await nodes[0].publish("t", bytes(200))

                nursery.start_soon(publish)
                while got < total:
                    await fast.receive()
                    got += 1
            taken = 0
            with trio.move_on_after(0.5):
                while True:
                    await slow.receive()
                    taken += 1
            statistics = slow.statistics()
            assert statistics.dropped + statistics.skipped_upstream > 0
            upstream = nodes[0].statistics().skipped_for_slow_children
            assert taken + statistics.dropped + statistics.buffered + upstream == total
            with trio.fail_after(1):
                async for event in slow.events():
                    assert isinstance(event, overlaymq.Lagged)
                    break


async def test_a_forwarder_is_not_skipped_for_what_its_child_does() -> None:
    async with network(4, SMALL) as nodes:
        publisher, root, slow_node, healthy_node = nodes
        await root.create("t", flow="patient", root="creator", reliability="fifo")
        async with (
            slow_node.subscribe("t", buffer=10) as slow,
            healthy_node.subscribe("t") as healthy,
        ):
            await slow.wait_ready()
            await healthy.wait_ready()
            async with trio.open_nursery() as nursery:

                async def publish() -> None:
                    for _ in range(3000):
                        await publisher.publish("t", bytes(200))

                nursery.start_soon(publish)
                for number in range(3000):
                    assert (await healthy.receive()).seq == number
            assert publisher.statistics().skipped_for_slow_children == 0
            assert root.statistics().skipped_for_slow_children == 0
            assert slow.statistics().dropped > 0


async def test_a_blocked_topic_does_not_stop_another() -> None:
    async with network(2, SMALL) as nodes:
        await nodes[0].create("stuck", flow="lossless", root="creator")
        await nodes[0].create("free", root="creator")
        async with (
            nodes[1].subscribe("stuck", buffer=1) as stuck,
            nodes[1].subscribe("free") as free,
            trio.open_nursery() as nursery,
        ):
            await stuck.wait_ready()
            await free.wait_ready()

            async def fill() -> None:
                while True:
                    await nodes[0].publish("stuck", bytes(1000))

            nursery.start_soon(fill)
            await trio.testing.wait_all_tasks_blocked(0.05)
            for number in range(100):
                await nodes[0].publish("free", str(number).encode())
                assert (await free.receive()).payload == str(number).encode()
            assert await nodes[0].ping(nodes[1].id) < 1
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest", "latest"])
async def test_drop_policies_account_for_every_message(policy: str) -> None:
    async with network(2, SMALL) as nodes:
        await nodes[0].create("t", root="creator")
        async with nodes[1].subscribe("t", buffer=50, when_full=policy) as subscription:
            await subscription.wait_ready()
            for number in range(1000):
                await nodes[0].publish("t", str(number).encode())
            with trio.fail_after(5):
                while subscription.statistics().delivered < 1000:
                    await trio.lowlevel.checkpoint()
            statistics = subscription.statistics()
            expected = 1 if policy == "latest" else 50
            assert statistics.buffered == expected
            assert statistics.dropped == 1000 - expected
            first = (await subscription.receive()).payload
            assert first == {"drop_oldest": b"950", "drop_newest": b"0", "latest": b"999"}[policy]


async def test_fail_raises_after_what_was_buffered() -> None:
    async with network(2) as nodes:
        await nodes[0].create("t", root="creator")
        async with nodes[1].subscribe("t", buffer=5, when_full="fail") as subscription:
            await subscription.wait_ready()
            await nodes[0].publish_many("t", [b"x"] * 5)
            with trio.fail_after(5):
                while subscription.statistics().delivered < 5:
                    await trio.lowlevel.checkpoint()
            await nodes[0].publish("t", b"one too many")
            with trio.fail_after(5):
                while subscription.statistics().delivered < 6:
                    await trio.lowlevel.checkpoint()
            for _ in range(5):
                await subscription.receive()
            with pytest.raises(overlaymq.BufferFull, match="overflowed"):
                await subscription.receive()


async def test_late_joiners_can_ask_for_recent_messages() -> None:
    async with network(3) as nodes:
        await nodes[0].create("t", root="creator", reliability="fifo")
        receipts = await nodes[0].publish_many("t", [str(n).encode() for n in range(100)])
        await receipts[-1].wait("sent")
        async with nodes[1].subscribe("t", since=overlaymq.Last(7)) as late:
            await late.wait_ready()
            assert [(await late.receive()).payload for _ in range(7)] == [
                str(n).encode() for n in range(93, 100)
            ]


async def test_typed_topics() -> None:
    class Price(msgspec.Struct):
        symbol: str
        value: float

    async with network(2) as nodes:
        codec = overlaymq.JsonCodec(Price)
        async with nodes[0].topic("prices", codec).subscribe() as prices:
            await prices.wait_ready()
            await nodes[1].topic("prices", codec).publish(Price("AAPL", 191.2))
            value, message = await prices.__anext__()
            assert value == Price("AAPL", 191.2)
            assert message.origin == nodes[1].id


async def test_a_topic_survives_its_rendezvous_node() -> None:
    async with network(6) as nodes:
        owner_id, _, _ = await nodes[0].lookup(f"{ids.topic_id('t'):032x}")
        owner = next(node for node in nodes if node.id == owner_id)
        others = [node for node in nodes if node is not owner]
        await others[0].create("t", reliability="fifo", flow="lossless")
        async with others[1].subscribe("t") as subscription:
            await subscription.wait_ready()
            await others[2].publish("t", b"before")
            assert (await subscription.receive()).payload == b"before"
            await owner.leave()
            await others[2].publish("t", b"after")
            with trio.fail_after(20):
                assert (await subscription.receive()).payload == b"after"
        with pytest.raises(overlaymq.TopicConflict):
            await others[3].create("t", reliability="best_effort")


async def test_the_bodys_exception_leaves_unwrapped() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with network(2):
            raise ValueError("mine")


async def test_upcalls_see_join_and_forward_and_their_errors_are_contained() -> None:
    joined: list[str] = []
    stop = False

    def on_forward(batch: Batch, tree: Tree) -> Batch | None:
        if stop:
            raise RuntimeError("broken upcall")
        return batch

    async with network(2) as nodes:
        await nodes[0].create("t", root="creator")
        nodes[0].set_upcalls(
            "t",
            overlaymq.Upcalls(
                on_forward=on_forward, on_join=lambda join, _: joined.append(join.peer.address)
            ),
        )
        async with nodes[1].subscribe("t") as subscription:
            await subscription.wait_ready()
            assert joined == [nodes[1].address]
            await nodes[0].publish("t", b"one")
            stop = True
            await nodes[0].publish("t", b"two")
            assert [(await subscription.receive()).payload for _ in range(2)] == [b"one", b"two"]
        assert nodes[0].statistics().drops["upcall failed: on_forward"] == 1


async def test_an_upcall_that_always_fails_is_counted_as_one_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each text was a reason of its own, so what is counted grew without bound, and nothing was logged."""

    def on_forward(batch: Batch, tree: Tree) -> Batch | None:
        raise ValueError(f"cannot read message {batch.first}")

    async with network(1) as nodes:
        nodes[0].set_upcalls("t", overlaymq.Upcalls(on_forward=on_forward))
        for _ in range(20):
            await (await nodes[0].publish("t", b"x")).wait("sent")
        assert nodes[0].statistics().drops == {"upcall failed: on_forward": 20}
    (logged,) = [one for one in caplog.records if one.name == "overlaymq.upcalls"]
    assert "on_forward" in logged.getMessage()
    assert logged.exc_info is not None
    assert "cannot read message 0" in str(logged.exc_info[1])


async def test_an_upcalls_wrong_answer_is_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was taken for a batch: the core raised, and the message was lost."""
    answers = iter(["text", True, b"bytes"])
    upcalls = overlaymq.Upcalls(on_forward=lambda *_: next(answers))  # type: ignore[arg-type]
    async with network(2) as nodes:
        await nodes[0].create("t", root="creator")
        nodes[0].set_upcalls("t", upcalls)
        async with nodes[1].subscribe("t") as subscription:
            await subscription.wait_ready()
            for number in range(3):
                await (await nodes[0].publish("t", b"%d" % number)).wait("sent")
            assert [(await subscription.receive()).payload for _ in range(3)] == [b"0", b"1", b"2"]
        assert nodes[0].statistics().drops["upcall failed: on_forward"] == 3
    assert "not a batch: str" in caplog.text


async def test_closing_ends_iteration_and_a_closed_node_says_so() -> None:
    async with network(1) as nodes:
        node = nodes[0]
        async with node.subscribe("t") as subscription, trio.open_nursery() as nursery:
            ended = trio.Event()

            async def read() -> None:
                async for _ in subscription:
                    pass
                ended.set()

            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            subscription.close()
            await ended.wait()
    with pytest.raises(overlaymq.Closed):
        await node.publish("t", b"x")
    with pytest.raises(overlaymq.Closed):
        node.subscribe("t")


async def test_a_node_that_has_left_accepts_nothing() -> None:
    async with network(2) as nodes:
        await nodes[0].publish("t", b"x")
        await nodes[0].leave()
        with pytest.raises(overlaymq.Closed):
            await nodes[0].publish("t", b"y")
        with pytest.raises(overlaymq.Closed):
            nodes[0].publish_nowait("t", b"y")


async def test_a_receipt_of_a_stopped_message_never_says_sent() -> None:
    async with network(1) as nodes:
        nodes[0].set_upcalls("t", overlaymq.Upcalls(on_forward=lambda *_: None))
        receipt = await nodes[0].publish("t", b"x")
        with pytest.raises(overlaymq.OverlayError, match="stopped"):
            await receipt.wait("sent")
        assert (receipt.stage, receipt.links) == ("accepted", None)


async def test_a_receipt_does_not_count_links_that_were_skipped() -> None:
    async with network(2, SMALL) as nodes:
        await nodes[0].create("t", flow="lossy", root="creator")
        async with nodes[1].subscribe("t") as subscription:
            await subscription.wait_ready()
            receipts = [nodes[0].publish_nowait("t", bytes(20_000)) for _ in range(50)]
            await trio.testing.wait_all_tasks_blocked()
            sent = sum(receipt.stage == "sent" for receipt in receipts)
            skipped = nodes[0].statistics().skipped_for_slow_children
            assert 0 < skipped == len(receipts) - sent
            with pytest.raises(overlaymq.OverlayError, match="too slow"):
                await receipts[-1].wait("sent")


async def test_nobody_uses_an_owned_topic_before_its_creator_has_made_it() -> None:
    """A stranger that was first would choose the settings."""
    async with network(3) as nodes:
        topic = f"t@{nodes[1].id}"
        with pytest.raises(overlaymq.TopicUnavailable, match="has not created it yet"):
            await nodes[0].publish(topic, b"x")
        await nodes[1].create(topic, reliability="fifo")
        async with nodes[2].subscribe(topic) as subscription:
            await subscription.wait_ready()
            await nodes[0].publish(topic, b"x")
            assert (await subscription.receive()).payload == b"x"


async def _publish_until_full(node: overlaymq.Node) -> list[overlaymq.Receipt]:
    receipts = []
    while True:
        try:
            receipts.append(node.publish_nowait("t", bytes(8000)))
        except overlaymq.WouldBlock:
            return receipts
        await trio.testing.wait_all_tasks_blocked()


async def test_a_receipt_says_sent_only_when_a_link_has_the_message() -> None:
    """What waits for a slow one's credit is not sent; if that one crashes, it never was."""
    async with network(2, SMALL) as nodes:
        await nodes[0].create("t", strategy="direct", flow="lossless", root="creator")
        async with nodes[1].subscribe("t", buffer=1) as subscription:
            await subscription.wait_ready()
            receipts = await _publish_until_full(nodes[0])
            waiting = [receipt for receipt in receipts if receipt.stage == "accepted"]
            assert 0 < len(waiting) < len(receipts)
            nodes.memory.crash(nodes[1].address)
            with trio.fail_after(5), pytest.raises(overlaymq.OverlayError, match="broke"):
                await waiting[0].wait("sent")
            assert (waiting[0].stage, waiting[0].links) == ("accepted", None)


async def test_closing_the_node_tells_those_who_wait_for_credit() -> None:
    async with network(2, SMALL) as nodes:
        await nodes[0].create("t", strategy="direct", flow="lossless", root="creator")
        async with nodes[1].subscribe("t", buffer=1) as subscription:
            await subscription.wait_ready()
            receipts = await _publish_until_full(nodes[0])
            await nodes[0].leave()
            with trio.fail_after(5), pytest.raises(overlaymq.OverlayError, match="not sent"):
                await receipts[-1].wait("sent")


async def test_headers_are_those_of_the_moment_of_publishing() -> None:
    async with network(2) as nodes, nodes[1].subscribe("t") as subscription:
        await subscription.wait_ready()
        headers = {}
        for number in range(5):
            headers["number"] = str(number)
            await nodes[0].publish("t", b"x", headers=headers)
        got = [dict((await subscription.receive()).headers) for _ in range(5)]
        assert got == [{"number": str(number)} for number in range(5)]


async def test_headers_that_cannot_be_encoded_are_refused_and_the_node_goes_on() -> None:
    async with network(2) as nodes, nodes[1].subscribe("t") as subscription:
        await subscription.wait_ready()
        await nodes[0].publish("t", b"before")
        with pytest.raises(ValueError, match="UTF-8"):
            await nodes[0].publish("t", b"x", headers={"key": "\ud800"})
        with pytest.raises(overlaymq.PayloadTooLarge, match="headers"):
            await nodes[0].publish("t", b"x", headers={"key": "x" * 70_000})
        await nodes[0].publish("t", b"after")
        assert [(await subscription.receive()).seq for _ in range(2)] == [0, 1]


async def test_headers_count_in_the_bounds_of_a_run() -> None:
    async with network(1, SMALL) as nodes:
        await nodes[0].create("t", flow="lossless")
        receipts = [
            nodes[0].publish_nowait("t", b"", headers={"key": "x" * 4096}) for _ in range(4)
        ]
        # The first goes alone, after a silence; the next two fill a run of 8 KiB.
        assert [one.stage for one in receipts] == ["sent", "sent", "sent", "accepted"]


async def test_a_subscription_is_entered_once() -> None:
    async with network(1) as nodes:
        subscription = nodes[0].subscribe("t")
        async with subscription:
            with pytest.raises(overlaymq.Closed, match="entered before"):
                await subscription.__aenter__()
        with pytest.raises(overlaymq.Closed, match="entered before"):
            await subscription.__aenter__()
        assert nodes[0].statistics().topics == 0


async def test_a_core_that_fails_ends_its_readers_and_writers_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    async with network(2) as nodes, nodes[0].subscribe("t") as subscription:
        await subscription.wait_ready()
        nodes[0]._driver.after(0, fail)
        with trio.fail_after(5), pytest.raises(overlaymq.Closed, match="failed"):
            await subscription.receive()
        with pytest.raises(overlaymq.Closed):
            await nodes[0].publish("t", b"x")
    assert "a bug" in caplog.text


async def test_what_peers_say_of_a_topic_is_not_kept_for_the_application() -> None:
    async with network(3) as nodes:
        names = (f"t{number}" for number in range(1000))
        for name in names:
            owner, _, _ = await nodes[1].lookup(ids.text(ids.topic_id(name)))
            if owner == nodes[0].id:
                break
        async with nodes[1].subscribe(name) as subscription:
            await subscription.wait_ready()
            await nodes[2].publish(name, b"x")
            await subscription.receive()
            assert nodes[0].statistics().batches_sent == 1
            assert not nodes[0]._driver.descriptors


async def test_what_was_accepted_is_sent_before_a_node_ends() -> None:
    async with network(1, SMALL) as nodes:
        await nodes[0].create("t", flow="lossless")
        async with nodes[0].subscribe("t", buffer=1) as subscription, trio.open_nursery() as tasks:
            await subscription.wait_ready()
            async with open_memory_node(
                nodes.memory, SMALL, name="publisher", seeds=nodes[:1]
            ) as publisher:
                accepted = 0
                with trio.move_on_after(0.2):
                    while True:
                        await publisher.publish("t", bytes(1000))
                        accepted += 1
                assert publisher.statistics().queued_bytes

                async def read() -> None:
                    for _ in range(accepted):
                        await subscription.receive()

                tasks.start_soon(read)
            assert not publisher.statistics().drops


@pytest.mark.parametrize("seed", range(5))
async def test_a_cancelled_publish_has_published_nothing_and_others_arrive(seed: int) -> None:
    random = Random(seed)
    async with network(2, SMALL) as nodes:
        await nodes[0].create("t", flow="lossless", root="creator")
        async with nodes[1].subscribe("t", buffer=20) as subscription:
            await subscription.wait_ready()
            accepted: list[int] = []
            got: list[int] = []

            async def publish() -> None:
                for number in range(300):
                    with trio.CancelScope() as scope:
                        scope.deadline = trio.current_time() + random.choice([-1, 0, 0.001, 1])
                        await nodes[0].publish("t", str(number).encode().ljust(2000))
                        accepted.append(number)

            async def read() -> None:
                async for message in subscription:
                    got.append(int(message.payload))
                    if random.random() < 0.02:
                        await trio.sleep(0.01)  # a reader that is slow now and then is the point

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await publish()
                with trio.fail_after(10):
                    while len(got) < len(accepted):  # noqa: ASYNC110 - nothing tells of it
                        await trio.sleep(0.01)  # polling, for the same reason
                await trio.sleep(0.05)  # for what should not come
                nursery.cancel_scope.cancel()
            assert 0 < len(accepted) < 300
            assert got == accepted


async def test_a_payload_the_codec_cannot_read_is_named_and_the_next_one_arrives() -> None:
    async with network(2) as nodes:
        topic: overlaymq.Topic[object] = nodes[0].topic("t", "json")
        async with topic.subscribe() as values:
            await values.wait_ready()
            await nodes[1].publish("t", b"not json")
            await nodes[1].publish("t", b"[1]")
            with pytest.raises(overlaymq.PayloadMalformed) as caught:
                await values.receive()
            assert isinstance(caught.value.message, overlaymq.Message)
            assert caught.value.message.payload == b"not json"
            assert (await values.receive())[0] == [1]


async def test_mistakes_are_told_at_once_and_leave_the_node_alone() -> None:
    async with network(1) as nodes:
        node = nodes[0]
        await node.publish("t", b"known")
        with pytest.raises(TypeError, match="headers are str to str"):
            await node.publish("t", b"x", headers={"a": 1})  # type: ignore[dict-item]
        with pytest.raises(TypeError, match="bytes, not str"):
            await node.publish("t", "x")  # type: ignore[arg-type]
        with pytest.raises(overlaymq.ConfigError, match="expected a str"):
            await node.publish(b"t", b"x")  # type: ignore[arg-type]
        with pytest.raises(overlaymq.ConfigError, match="Last"):
            node.subscribe("t", since=10)  # type: ignore[arg-type]
        with pytest.raises(overlaymq.Closed, match="async with"):
            node.subscribe("t").events()
        receipt = await node.publish("t", b"still here")
        assert receipt.seq == 1, "a refused message takes no sequence number"
        with pytest.raises(ValueError, match="stage"):
            await receipt.wait("foo")  # type: ignore[arg-type]
        assert await receipt.wait("sent") == 0


async def test_a_skip_on_the_way_to_the_root_is_told_to_every_member() -> None:
    async with network(3, SMALL) as nodes:
        publisher, root, member_node = nodes
        await root.create("t", flow="lossy", root="creator")
        async with root.subscribe("t", buffer=5) as own, member_node.subscribe("t") as member:
            await own.wait_ready()
            await member.wait_ready()
            for _ in range(2000):
                await publisher.publish("t", bytes(200))
            with trio.fail_after(5):
                while member.statistics().delivered + member.statistics().skipped_upstream < 2000:
                    await publisher.publish("t", b"more")
                    await trio.lowlevel.checkpoint()
