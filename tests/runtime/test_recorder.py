"""The flight recorder on live nodes: what it writes is replayed exactly, and it never harms the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

import overlaymq
from overlaymq.config import Config, DeliveryConfig, PastryConfig, RecorderConfig, TopicConfig
from overlaymq.messages import Batch
from overlaymq.runtime.recorder import Recorder, older
from overlaymq.sim.replay import Record, Replay
from overlaymq.testing import MemoryNetwork, open_memory_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from overlaymq.core.reliability.upcalls import Tree
    from overlaymq.runtime.node import Node

ROOT = Path(__file__).resolve().parents[2]
SECRET = b"the merger is on friday"
FIFO = TopicConfig(reliability="fifo")


def recording(file: Path, *, history: int = 1_000, **settings: int | bool) -> Config:
    return Config(
        recorder=RecorderConfig(file=str(file), **settings),  # type: ignore[arg-type]
        delivery=DeliveryConfig(history=history),
        defaults=FIFO,
    )


def recorder_of(node: Node) -> Recorder:
    recorder = node._driver.recorder
    assert recorder is not None
    return recorder


def exact_steps(file: Path) -> int:
    """How many steps a record has, all of which must be as they were."""
    record = Record(file)
    replay = Replay(record)
    numbers = []
    for step in replay.steps():
        replayed = replay.run(step)
        assert not replayed.difference, f"step {step.number}, {step.input}: {replayed.difference}"
        numbers.append(step.number)
    assert numbers, "nothing was recorded"
    assert replay.missing == 0
    assert numbers == list(range(record.header.first, record.header.first + len(numbers)))
    return len(numbers)


@asynccontextmanager
async def pair(config: Config) -> AsyncIterator[tuple[Node, Node, MemoryNetwork]]:
    """A node with this configuration, and another one."""
    memory = MemoryNetwork()
    async with (
        open_memory_node(memory, name="a", config=Config(defaults=FIFO)) as other,
        open_memory_node(memory, name="b", config=config, seeds=[other]) as node,
    ):
        yield node, other, memory


async def talk(node: Node, other: Node, payload: bytes = SECRET, rounds: int = 5) -> None:
    """Each publishes to a topic that both have subscribed to."""
    async with node.subscribe("t") as here, other.subscribe("t") as there:
        await here.wait_ready()
        await there.wait_ready()
        for _ in range(rounds):
            await node.publish("t", payload)
            await other.publish("t", payload)
            for subscription in (here, there, here, there):
                with trio.fail_after(20):
                    assert (await subscription.receive()).payload == payload


async def test_a_node_records_nothing_unless_it_is_told_to() -> None:
    memory = MemoryNetwork()
    async with open_memory_node(memory, name="a") as node:
        assert node._driver.recorder is None
        assert node._driver._step == node._driver.node.handle


@pytest.mark.parametrize("payloads", [True, False])
async def test_a_record_is_replayed_exactly(tmp_path: Path, payloads: bool) -> None:
    file = tmp_path / "record"
    async with pair(recording(file, payloads=payloads)) as (node, other, _):
        await talk(node, other)
        await talk(node, other, SECRET * 30_000, rounds=2)  # in chunks
        await node.lookup("0" * 32)
    steps = exact_steps(file)
    assert steps == recorder_of(node).steps
    assert (SECRET in file.read_bytes()) is payloads
    assert file.stat().st_mode & 0o077 == 0


async def test_the_crash_of_a_neighbour_is_replayed_exactly(tmp_path: Path) -> None:
    file = tmp_path / "record"
    impatient = PastryConfig(heartbeat_every=0.2, probe_timeout=0.1, probe_retries=1)
    config = msgspec.structs.replace(recording(file), pastry=impatient)
    async with pair(config) as (node, other, memory):
        await talk(node, other)
        memory.crash(other.address)
        with trio.fail_after(30):
            while not node._driver.node.pastry.snapshot().suspects:  # noqa: ASYNC110 - not announced
                await trio.sleep(0.05)  # polling, for the same reason
        await node.publish("t", SECRET)
    exact_steps(file)


@pytest.mark.parametrize("payloads", [True, False])
async def test_what_upcalls_answer_is_played_back(tmp_path: Path, payloads: bool) -> None:
    file = tmp_path / "record"
    calls = []

    def capricious(batch: Batch, tree: Tree) -> Batch | None:
        calls.append(batch)
        match len(calls):
            case 1:
                return None
            case 2:
                raise ValueError("not today")
            case 3:
                batch.published_at = 7
            case 4:
                return Batch(
                    batch.topic, batch.origin, batch.epoch, batch.first, batch.count, batch.body
                )
            case 5:
                node.set_upcalls("t", overlaymq.Upcalls(on_join=lambda *_: None))
        return batch

    async with pair(recording(file, payloads=payloads)) as (node, _, _):
        await node.create("t", root="creator")
        node.set_upcalls("t", overlaymq.Upcalls(on_forward=capricious))
        for _ in range(8):
            with suppress(overlaymq.OverlayError):  # the first is stopped
                await (await node.publish("t", SECRET)).wait("sent")
        assert len(calls) == 5
        assert node.statistics().drops["upcall failed: on_forward"] == 1
    exact_steps(file)


async def test_the_bound_lets_the_oldest_part_go(tmp_path: Path) -> None:
    file = tmp_path / "record"
    limit = 128 * 1024
    config = recording(file, limit=limit)
    async with pair(config) as (node, other, _):
        for _ in range(10):
            await talk(node, other, rounds=20)
            recorder_of(node).flush()
            await trio.to_thread.run_sync(written, recorder_of(node))
            assert size_of(tmp_path) <= limit
        assert not recorder_of(node).problem
        steps = recorder_of(node).steps
    assert older(file).exists()
    both = exact_steps(file)
    assert both < steps
    older(file).unlink()
    assert exact_steps(file) < both  # the newer segment needs nothing but its own snapshot


def size_of(directory: Path) -> int:
    return sum(one.stat().st_size for one in directory.iterdir())


def written(recorder: Recorder) -> None:
    """Wait until the writer has done all that it was given."""
    done = threading.Event()
    recorder._writer._do(done.set)
    for _ in range(1_000):
        if done.wait(0.01) or recorder.problem:
            return
    pytest.fail("the writer hangs")


async def test_the_record_of_an_earlier_run_is_kept_a_while(tmp_path: Path) -> None:
    file = tmp_path / "record"
    for _ in range(2):
        async with pair(recording(file)) as (node, other, _):
            await talk(node, other)
    record = Record(file)
    assert record.earlier_run is not None
    assert record.earlier_run.path == older(file)
    exact_steps(file)
    exact_steps(older(file))


async def test_a_file_that_is_no_record_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "thesis"
    file.write_text("chapter one")
    with pytest.raises(overlaymq.ConfigError, match="is no record"):
        async with open_memory_node(MemoryNetwork(), recording(file), name="a"):
            pytest.fail("the node started")
    assert file.read_text() == "chapter one"


@pytest.mark.parametrize("place", ["no/such/directory/record", "/dev/null"])
async def test_a_place_that_cannot_hold_a_record_is_named(tmp_path: Path, place: str) -> None:
    with pytest.raises(overlaymq.ConfigError, match=r"recorder\.file"):
        async with open_memory_node(MemoryNetwork(), recording(tmp_path / place), name="a"):
            pytest.fail("the node started")


async def test_two_nodes_do_not_write_one_record(tmp_path: Path) -> None:
    file = tmp_path / "record"
    memory = MemoryNetwork()
    async with open_memory_node(memory, recording(file), name="a") as first:
        recorder_of(first).flush()
        await trio.to_thread.run_sync(written, recorder_of(first))
        async with open_memory_node(memory, recording(file), name="b", seeds=[first]) as second:
            await talk(first, second)
            recorder_of(second).flush()
            await trio.to_thread.run_sync(written, recorder_of(second))
            assert "another node" in recorder_of(second).problem
    assert exact_steps(file) == recorder_of(first).steps


async def test_a_state_too_large_for_the_limit_ends_the_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(recording(tmp_path / "record", limit=64 * 1024)) as (node, other, _):
        await node.create("t", root="creator")  # so its history is kept here
        await talk(node, other, SECRET * 200, rounds=20)
        await talk(node, other)
        assert "recorder.limit" in recorder_of(node).problem
    told = [one for one in caplog.records if one.name == "overlaymq.recorder"]
    assert len(told) == 1
    assert "the node goes on" in told[0].getMessage()


async def test_a_disk_that_stalls_does_not_stall_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = threading.Event()
    write = os.write

    def stalling(file: int, content: bytes) -> int:
        stalled.wait()
        return write(file, content)

    # Without history, or the state of the core would hold what was said, and not fit into the limit.
    config = recording(tmp_path / "record", limit=256 * 1024, history=0)
    async with pair(config) as (node, other, _):
        with monkeypatch.context() as patch:
            patch.setattr("overlaymq.runtime.recorder.os.write", stalling)
            recorder_of(node).flush()
            await talk(node, other, SECRET * 200, rounds=100)
            assert "does not keep up" in recorder_of(node).problem
            stalled.set()
            await trio.to_thread.run_sync(written, recorder_of(node))


SMALL_DISK = """
import resource, sys, trio, overlaymq
from overlaymq.config import AdminConfig, Config, RecorderConfig

async def main():
    config = Config(recorder=RecorderConfig(file=sys.argv[1]), admin=AdminConfig(enabled=False))
    async with overlaymq.open_node(config) as node, node.subscribe("t") as subscription:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for number in range(2_000):
            await node.publish("t", b"x" * 1_000)
            assert (await subscription.receive()).payload
            if number % 100 == 0:
                node._driver.recorder.flush()
                await trio.sleep(0.01)  # the writer's thread is to find the disk full
        print(node._driver.recorder.problem)

trio.run(main)
"""


def test_a_full_disk_ends_the_recording_and_not_the_node(tmp_path: Path) -> None:
    file = tmp_path / "record"
    result = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip() == "File too large"
    assert result.stderr.count("the node goes on") == 1
    assert file.stat().st_size == 100_000
    assert exact_steps(file) > 10


KILLED = """
import sys, trio, overlaymq
from overlaymq.config import AdminConfig, Config, RecorderConfig

async def main():
    config = Config(recorder=RecorderConfig(file=sys.argv[1]), admin=AdminConfig(enabled=False))
    async with overlaymq.open_node(config) as node, node.subscribe("t") as subscription:
        while True:
            await node.publish("t", b"x" * 1_000)
            assert (await subscription.receive()).payload
            print(node._driver.recorder.steps, flush=True)
            await trio.sleep(0.002)

trio.run(main)
"""


def test_a_killed_process_leaves_all_but_its_last_second(tmp_path: Path) -> None:
    file = tmp_path / "record"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if file.exists() and file.stat().st_size > 0 and int(line) > 200:
                break
        process.send_signal(signal.SIGKILL)
    assert exact_steps(file) > 0


async def test_two_nodes_over_grpc_record_and_are_replayed_exactly(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    async with (
        overlaymq.open_node(recording(files[0]), listen="127.0.0.1:0") as one,
        overlaymq.open_node(recording(files[1]), seeds=[one.address]) as two,
    ):
        await talk(one, two)
        await talk(two, one, SECRET * 30_000, rounds=2)
        assert await one.ping(two.id) < 10
    for file, node in zip(files, (one, two), strict=True):
        assert exact_steps(file) == recorder_of(node).steps
