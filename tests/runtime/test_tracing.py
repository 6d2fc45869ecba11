"""A node's trace says what happened: counted against what the application saw."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

import overlaymq
from overlaymq import ids
from overlaymq.config import Config, DeliveryConfig, PastryConfig, TraceConfig
from overlaymq.runtime.admin import status
from overlaymq.testing import ListTracer, network
from overlaymq.trace import files, schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from overlaymq.runtime.node import Node
    from overlaymq.trace.schema import Row

SMALL = Config(
    delivery=DeliveryConfig(window=16 * 1024, run_bytes=2048, run_messages=16, patience=0.2),
    trace=TraceConfig(clock_every=0.05),
)
STRATEGIES = ("direct", "scribe", "sv", "scamp")


async def until(condition: Callable[[], bool]) -> None:
    """Rows come without an event that one could wait for."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(0.01)


def tracers(count: int) -> list[ListTracer]:
    return [ListTracer(run="r") for _ in range(count)]


def messages(rows: list[Row], event: str, topic: str = "t") -> int:
    return sum(row.msg_count for row in rows if row.event == event and row.topic == topic)


def seen(rows: list[Row], event: str) -> list[int]:
    """The sequence numbers of all messages that an event happened to."""
    return [
        number
        for row in rows
        if row.event == event
        for number in range(row.msg_seq, row.msg_seq + row.msg_count)
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_publications_and_deliveries_are_counted_exactly(strategy: str) -> None:
    kept = tracers(5)
    total = 300
    async with network(5, SMALL, tracers=kept) as nodes:
        await nodes[0].create("t", strategy=strategy, reliability="fifo")
        async with nodes[1].subscribe("t") as one, nodes[2].subscribe("t") as two:
            await one.wait_ready()
            await two.wait_ready()
            for number in range(total):
                await nodes[4].publish("t", str(number).encode())
            for subscription in (one, two):
                for _ in range(total):
                    await subscription.receive()
    published = kept[4].rows
    assert seen(published, schema.PUBLISH) == list(range(total))
    for number in (1, 2):
        rows = kept[number].rows
        assert seen(rows, schema.DELIVER) == list(range(total))
        assert seen(rows, schema.CONSUME) == list(range(total))
        assert sorted(set(seen(rows, schema.RECV))) == list(range(total))
        events = [row.event for row in rows if row.topic == "t"]
        assert events.index(schema.SUBSCRIBE) < events.index(schema.READY) < events.index("DELIVER")
        assert {"EXPECT", "UNSUBSCRIBE"} <= set(events)
    for number in (0, 3, 4):
        assert not seen(kept[number].rows, schema.DELIVER)
    everything = [row for one in kept for row in one.rows]
    assert messages(everything, schema.SEND) == messages(everything, schema.RECV)
    assert all(row.strategy == strategy for row in everything if row.topic == "t")
    assert {row.run_id for row in everything} == {"r"}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_trees_and_views_are_known_at_both_ends(strategy: str) -> None:
    kept = tracers(6)
    async with network(6, SMALL, tracers=kept) as nodes:
        await nodes[0].create("t", strategy=strategy)
        async with nodes[1].subscribe("t") as one, nodes[2].subscribe("t") as two:
            await one.wait_ready()
            await two.wait_ready()
            with trio.fail_after(10):
                await until(lambda: _ends_agree(kept))
    links = _links(kept)
    assert not links, "and all are gone when the topic is"


def _links(kept: list[ListTracer]) -> Counter[tuple[str, str, str]]:
    """The links that stand, (above or in-view holder, below), as each end tells."""
    standing: Counter[tuple[str, str, str]] = Counter()
    for row in (row for one in kept for row in one.rows):
        match row.event:
            case schema.PARENT_SET | schema.PARENT_LOST:
                end = ("below", row.peer_id, row.node_id)
            case schema.CHILD_ADD | schema.CHILD_REMOVE:
                end = ("above", row.node_id, row.peer_id)
            case schema.VIEW_ADD | schema.VIEW_REMOVE if row.reason == "partial":
                end = ("above", row.node_id, row.peer_id)
            case schema.VIEW_ADD | schema.VIEW_REMOVE:
                end = ("below", row.peer_id, row.node_id)
            case _:
                continue
        begins = row.event in (schema.PARENT_SET, schema.CHILD_ADD, schema.VIEW_ADD)
        standing[end] += 1 if begins else -1
    assert all(count in (0, 1) for count in standing.values()), standing
    return +standing


def _ends_agree(kept: list[ListTracer]) -> bool:
    links = _links(kept)
    above = {link[1:] for link in links if link[0] == "above"}
    below = {link[1:] for link in links if link[0] == "below"}
    return bool(above) and above == below


async def test_what_a_buffer_gives_up_is_told_message_by_message() -> None:
    kept = tracers(2)
    total = 200
    async with network(2, SMALL, tracers=kept) as nodes:
        await nodes[0].create("t", strategy="direct")
        async with nodes[1].subscribe("t", buffer=7, when_full="drop_oldest") as small:
            await small.wait_ready()
            for _ in range(total):
                await nodes[0].publish("t", b"x")
            got: list[int] = []
            with trio.fail_after(10):
                while not got or got[-1] < total - 1:
                    got.append((await small.receive()).seq)
    rows = kept[1].rows
    assert seen(rows, schema.DELIVER) == list(range(total))
    assert seen(rows, schema.CONSUME) == got
    assert len(got) < total
    assert sorted(seen(rows, schema.UNDELIVERABLE) + got) == list(range(total))
    reasons = {row.reason for row in rows if row.event == schema.UNDELIVERABLE}
    assert reasons == {"the buffer is full"}


async def test_what_a_slow_child_loses_is_dropped_there_and_missed_here() -> None:
    """A lossy topic: the publisher's node drops, by name, exactly what the subscriber never gets."""
    kept = tracers(2)
    total = 2000
    async with network(2, SMALL, tracers=kept) as nodes:
        await nodes[0].create(
            "t", strategy="direct", reliability="fifo", flow="lossy", root="creator"
        )
        async with nodes[1].subscribe("t") as slow:
            await slow.wait_ready()
            for number in range(total):
                nodes[0].publish_nowait("t", number.to_bytes(2, "big") * 64)
            last, missed = -1, 0
            with trio.fail_after(20):
                while last < total - 1:
                    await nodes[0].publish("t", b"end")
                    with trio.move_on_after(0.05):
                        last = (await slow.receive()).seq
            missed = slow.statistics().missed
    dropped = seen([row for row in kept[0].rows if row.topic == "t"], schema.DROP)
    delivered = seen(kept[1].rows, schema.DELIVER)
    published = seen(kept[0].rows, schema.PUBLISH)
    assert missed > 0
    assert not set(dropped) & set(delivered)
    assert set(published) - set(delivered) - set(dropped) <= set(range(last, published[-1] + 1))
    told = seen(kept[1].rows, schema.MISS)
    assert len(told) == missed
    assert set(told) <= set(dropped)
    miss = next(row for row in kept[1].rows if row.event == schema.MISS)
    assert (miss.msg_origin, miss.msg_epoch) == (nodes[0].id, 1)
    drop = next(row for row in kept[0].rows if row.event == schema.DROP and row.topic == "t")
    assert (drop.peer_id, drop.reason) == (nodes[1].id, "a child was too slow")


async def test_a_dead_parent_and_the_repair_are_in_the_trace() -> None:
    kept = tracers(6)
    fast = Config(
        pastry=PastryConfig(heartbeat_every=0.3, lease=0.6, probe_timeout=0.1, probe_retries=1)
    )
    async with network(6, fast, tracers=kept) as nodes:
        await nodes[3].create("t", strategy="scribe", root="creator", reliability="ordered")
        async with nodes[0].subscribe("t") as one:
            await one.wait_ready()
            (parent,) = [row.peer_id for row in kept[0].rows if row.event == schema.PARENT_SET]
            victim = next(node for node in nodes if node.id == parent)
            nodes.memory.crash(victim.address)
            with trio.fail_after(30):
                await until(lambda: messages_of(kept[0], schema.REPAIR) > 0)
    rows = [row for row in kept[0].rows if row.topic == "t"]
    lost = next(row for row in rows if row.event == schema.PARENT_LOST)
    repair = next(row for row in rows if row.event == schema.REPAIR)
    assert lost.peer_id == victim.id
    assert repair.peer_id != victim.id
    assert repair.duration_ns > 0
    assert repair.ts_mono_ns - lost.ts_mono_ns <= repair.duration_ns
    assert [row.event for row in rows].count(schema.READY) == 1
    down = [row for row in kept[0].rows if row.event == schema.LINK_DOWN]
    assert victim.id in {row.peer_id for row in down}


async def test_ordered_topics_are_traced_by_the_root_s_numbers() -> None:
    kept = tracers(3)
    async with network(3, SMALL, tracers=kept) as nodes:
        await nodes[0].create("t", strategy="scribe", reliability="ordered")
        async with nodes[1].subscribe("t") as one:
            await one.wait_ready()
            for _ in range(50):
                await nodes[2].publish("t", b"x")
            for _ in range(50):
                await one.receive()
    places = [
        place
        for row in kept[1].rows
        if row.event == schema.DELIVER
        for place in range(row.root_seq, row.root_seq + row.msg_count)
    ]
    assert places == list(range(1, 51))


async def test_who_does_not_want_its_own_messages_says_so() -> None:
    (kept,) = tracers(1)
    async with (
        network(1, SMALL, tracers=[kept]) as nodes,
        nodes[0].subscribe("t", receive_own=False) as one,
    ):
        await one.wait_ready()
        await nodes[0].publish("t", b"x")
        async with nodes[0].subscribe("t") as two:
            await two.wait_ready()
            await nodes[0].publish("t", b"x")
            await two.receive()
    subscribed = [row.extra for row in kept.rows if row.event == schema.SUBSCRIBE]
    assert len(subscribed) == 2
    assert msgspec.json.decode(subscribed[0])["receive_own"] is False
    assert "receive_own" not in subscribed[1]
    assert seen(kept.rows, schema.DELIVER) == [1]


async def test_a_subscriber_says_every_second_that_it_is_there() -> None:
    (kept,) = tracers(1)
    async with network(1, SMALL, tracers=[kept]) as nodes, nodes[0].subscribe("t") as one:
        await one.wait_ready()
        with trio.fail_after(10):
            await until(lambda: messages_of(kept, schema.EXPECT) >= 3)
    times = [row.ts_mono_ns for row in kept.rows if row.event == schema.EXPECT]
    assert 0.9e9 < times[2] - times[1] < 3e9


def messages_of(kept: ListTracer, event: str) -> int:
    return sum(row.event == event for row in kept.rows)


async def test_routes_are_traced_if_asked() -> None:
    kept = [ListTracer(routes=True), ListTracer()]
    async with network(2, SMALL, tracers=kept) as nodes:
        for number in range(20):
            with trio.fail_after(5):
                await nodes[0].lookup(ids.text(ids.hashed(bytes([number]))))
    hops = [row for row in kept[0].rows if row.event == schema.ROUTE_HOP]
    assert hops
    assert all(row.hop >= 1 and "kind" in row.extra for row in hops)
    assert not messages_of(kept[1], schema.ROUTE_HOP)


async def test_clocks_are_compared_over_grpc(tmp_path: Path) -> None:
    settings = Config(trace=TraceConfig(directory=str(tmp_path), run="x", clock_every=0.05))
    async with (
        overlaymq.open_node(settings, listen="127.0.0.1:0") as one,
        overlaymq.open_node(settings, listen="127.0.0.1:0", seeds=[one.address]) as two,
    ):
        with trio.fail_after(20):
            await until(lambda: bool(_clocks(tmp_path)))
        statistics = two.statistics().trace
        assert statistics is not None
        assert statistics.recorded > 0
        assert status(two)["statistics"]["trace"]["problem"] == ""
    for row in _clocks(tmp_path):
        offset = msgspec.json.decode(row.extra)["offset_ns"]
        assert 0 < row.duration_ns < 10e9
        assert abs(offset) <= row.duration_ns, "the same clock: within a round trip"
    assert {path.suffix for path in (tmp_path / "x").iterdir()} == {".parquet"}


def _clocks(directory: Path) -> list[Row]:
    return [row for row in files.rows(files.files(directory)) if row.event == schema.CLOCK]


async def test_the_core_does_the_same_with_a_trace_and_without() -> None:
    """Probes of the tracer are not for the core."""
    (kept,) = tracers(1)
    async with network(2, SMALL, tracers=[kept]) as nodes:
        before = _measured(nodes[0])
        with trio.fail_after(10):
            await until(lambda: messages_of(kept, schema.CLOCK) >= 3)
        assert _measured(nodes[0]) == before


def _measured(node: Node) -> Any:
    return msgspec.to_builtins(node._driver.node.pastry.snapshot())


async def test_without_a_directory_there_is_no_tracer() -> None:
    async with network(1) as nodes:
        assert nodes[0]._driver.tracing is None
        assert nodes[0].statistics().trace is None


async def test_a_tracer_that_fails_does_not_harm_the_node(tmp_path: Path) -> None:
    settings = Config(
        trace=TraceConfig(directory=str(tmp_path), flush_every=0.02, segment_seconds=0.1)
    )
    async with network(2, settings) as nodes, nodes[1].subscribe("t") as one:
        await one.wait_ready()
        _ruin(tmp_path)
        for number in range(100):
            await nodes[0].publish("t", str(number).encode())
            assert (await one.receive()).payload == str(number).encode()
        with trio.fail_after(10):
            await until(lambda: _problem(nodes[0]) != "")
        assert "has ended" not in _problem(nodes[0])


def _ruin(directory: Path) -> None:
    """No file can be made or renamed there any more."""
    directory.rename(directory.with_name("gone"))


def _problem(node: Node) -> str:
    statistics = node.statistics().trace
    assert statistics is not None
    return statistics.problem
