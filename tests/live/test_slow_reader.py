"""Bar: a subscriber that stops reading, over gRPC, in real processes.

`lossless`: the publisher waits and memory stays bounded while 1 GiB is offered. `patient`: the others go on
after the patience and the slow one is told what it missed. Control traffic never notices.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

import overlaymq

if TYPE_CHECKING:
    from collections.abc import Iterator


SIDE = 100  # messages on another topic that the stopped reader still reads


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def reader(seed: str, reads: str) -> None:
    """A subscriber process: reads everything, or nothing until it is told to."""
    async with (
        overlaymq.open_node(listen="127.0.0.1:0", seeds=[seed]) as node,
        node.subscribe("bulk") as bulk,
    ):
        await bulk.wait_ready()
        print(json.dumps({"id": node.id}), flush=True)
        if reads == "late":
            async with node.subscribe("side") as side:
                for _ in range(SIDE):
                    await side.receive()
            print(json.dumps({"side": SIDE}), flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline)
        taken = 0
        while True:
            with trio.move_on_after(10 if reads == "now" else 3) as quiet:
                await bulk.receive()
                taken += 1
            if quiet.cancelled_caught:
                break
        lagged = 0
        with trio.move_on_after(0.5):
            async for event in bulk.events():
                if isinstance(event, overlaymq.Lagged):
                    lagged += event.dropped
        print(json.dumps({"taken": taken, "lagged": lagged, "peak_mib": peak_mib()}), flush=True)


@contextmanager
def started(seed: str, reads: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, __file__, seed, reads],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


async def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    text = await trio.to_thread.run_sync(process.stdout.readline)
    answer: dict[str, Any] = json.loads(text)
    return answer


async def publish(node: overlaymq.Node, count: int, size: int) -> None:
    payload = bytes(size)
    for _ in range(count):
        await node.publish("bulk", payload)


async def side_topic_flows(node: overlaymq.Node, process: subprocess.Popen[str]) -> None:
    """Another topic on the same link reaches a reader that has stopped reading the first."""
    await node.wait_subscribers("side", 1)
    for _ in range(SIDE):
        await node.publish("side", b"x")
    with trio.fail_after(10):
        assert (await line(process))["side"] == SIDE


@pytest.mark.live
@pytest.mark.timeout(300)
async def test_lossless_offers_a_gibibyte_in_bounded_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = 1024 * 16  # of 64 KiB: 1 GiB
    async with overlaymq.open_node(listen="127.0.0.1:0") as node:
        await node.create("bulk", flow="lossless", root="creator")
        with started(node.address, "late") as stopped:
            stopped_id = (await line(stopped))["id"]
            before = peak_mib()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish, node, count, 64 * 1024)
                await trio.sleep(
                    3
                )  # time is the point: nothing more may happen while it is stopped
                waiting = peak_mib() - before
                pings = sorted([await node.ping(stopped_id) for _ in range(50)])
                await side_topic_flows(node, stopped)
                go_on(stopped)
            result = await line(stopped)
        grown = peak_mib() - before
        with capsys.disabled():
            print(
                f"\nlossless: 1 GiB published; publisher grew {waiting:.0f} MiB while the reader was "
                f"stopped, {grown:.0f} MiB in all; reader's peak {result['peak_mib']:.0f} MiB; "
                f"ping p50 {pings[25] * 1000:.1f} ms meanwhile"
            )
        assert result["taken"] == count
        assert result["lagged"] == 0
        assert grown < 128
        assert result["peak_mib"] < 400
        assert pings[45] < 0.5


@pytest.mark.live
@pytest.mark.timeout(120)
async def test_patient_goes_on_and_tells_the_slow_one(capsys: pytest.CaptureFixture[str]) -> None:
    count = 4000
    async with overlaymq.open_node(listen="127.0.0.1:0") as node:
        await node.create("bulk", flow="patient", root="creator")
        with started(node.address, "late") as slow, started(node.address, "now") as fast:
            await line(slow)
            await line(fast)
            begun = time.monotonic()
            await publish(node, count, 64 * 1024)
            seconds = time.monotonic() - begun
            fast_result = await line(fast)
            await side_topic_flows(node, slow)
            go_on(slow)
            slow_result = await line(slow)
        with capsys.disabled():
            print(f"\npatient: {seconds:.1f} s; fast {fast_result}; slow {slow_result}")
        assert fast_result["taken"] == count
        assert slow_result["taken"] < count
        assert slow_result["taken"] + slow_result["lagged"] == count


if __name__ == "__main__":
    trio.run(reader, sys.argv[1], sys.argv[2])
