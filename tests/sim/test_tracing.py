"""Traces of simulated networks: the same for the same seed, and true to what the workload saw itself."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest
from click.testing import CliRunner

from overlaymq.cli import main
from overlaymq.sim.topics import RELIABILITIES, Outcome, Plan, Topics
from overlaymq.sim.tracing import SimTrace, traced
from overlaymq.trace import files, schema
from overlaymq.trace.tracer import ListTracer

if TYPE_CHECKING:
    from pathlib import Path

    from overlaymq.trace.schema import Row

PLAN = Plan(seconds=8.0, loss=0.02, doubled=0.05)


def run(plan: Plan) -> tuple[Outcome, list[Row]]:
    topics, trace = Topics(plan), SimTrace()
    tracer = ListTracer(run="r", wall=trace.now, mono=trace.now)
    trace.attach(topics.simulation, tracer)
    outcome = topics.run(trace)
    trace.end()
    return outcome, tracer.rows


@pytest.fixture(scope="module", params=[1, 2])
def told(request: pytest.FixtureRequest) -> tuple[Outcome, list[Row]]:
    return run(msgspec.structs.replace(PLAN, seed=request.param))


def messages(rows: list[Row], event: str, topic: str) -> list[tuple[str, int]]:
    return [
        (row.msg_origin, number)
        for row in rows
        if row.event == event and row.topic == topic
        for number in range(row.msg_seq, row.msg_seq + row.msg_count)
    ]


def test_what_was_published_and_delivered_is_in_the_trace(told: tuple[Outcome, list[Row]]) -> None:
    outcome, rows = told
    assert {row.strategy for row in rows if row.topic} == set(RELIABILITIES)
    for topic in RELIABILITIES:
        published = [
            (origin, number) for name, origin, number, _ in outcome.published if name == topic
        ]
        assert messages(rows, schema.PUBLISH, topic) == published
    for reader in outcome.readers:
        mine = [row for row in rows if row.node_id == reader.node]
        assert messages(mine, schema.DELIVER, reader.topic) == reader.got
        (ready,) = [
            row.ts_wall_ns
            for row in mine
            if row.event == schema.READY and row.topic == reader.topic
        ]
        assert ready == round(reader.ready_at * 1e9)


def test_the_crash_and_the_repairs_are_in_the_trace(told: tuple[Outcome, list[Row]]) -> None:
    outcome, rows = told
    (fault,) = [row for row in rows if row.event == schema.FAULT]
    assert (fault.node_id, fault.reason) == (outcome.crashed, "crash")
    assert fault.ts_wall_ns == round(outcome.crashed_at * 1e9)
    after = [row for row in rows if row.ts_wall_ns > fault.ts_wall_ns]
    assert outcome.crashed not in {row.node_id for row in after}
    assert {row.topic for row in after if row.event == schema.REPAIR} >= {"scribe", "sv"}
    last = max(
        row.ts_wall_ns
        for row in rows
        if row.event == schema.EXPECT and row.node_id == outcome.crashed
    )
    assert 0 < fault.ts_wall_ns - last <= 1e9, "its last sign of life"


def test_lost_and_doubled_messages_are_in_the_trace(told: tuple[Outcome, list[Row]]) -> None:
    _, rows = told
    sent = sum(row.msg_count for row in rows if row.event == schema.SEND)
    received = sum(row.msg_count for row in rows if row.event == schema.RECV)
    lost = sum(
        row.msg_count
        for row in rows
        if row.event == schema.DROP and row.reason.startswith("network")
    )
    doubled = sum(
        row.msg_count for row in rows if row.event == schema.SEND and row.reason == "doubled"
    )
    assert lost > 0
    assert doubled > 0
    assert sum(row.event == schema.DUPLICATE for row in rows) > 0
    # What was on its way to the killed node when it died arrives nowhere and is in no row.
    assert 0 <= sent + doubled - lost - received <= 20


def test_every_second_reception_on_an_ordered_topic_is_a_duplicate(
    told: tuple[Outcome, list[Row]],
) -> None:
    """What a publisher sent to the root again was received there twice, and no duplicate was counted."""
    _, rows = told
    received: Counter[tuple[str, str, int]] = Counter()
    again: Counter[tuple[str, str, int]] = Counter()
    sign = {schema.RECV: 1, schema.DROP: -1}
    for row in rows:
        if row.topic != "scribe" or (row.event == schema.DROP and row.peer_id):
            continue
        for number in range(row.msg_seq, row.msg_seq + row.msg_count):
            key = (row.node_id, row.msg_origin, number)
            received[key] += sign.get(row.event, 0)
            again[key] += row.event == schema.DUPLICATE
    assert +again == +Counter({key: count - 1 for key, count in received.items()})
    assert +again


def test_times_never_go_back_and_events_are_known(told: tuple[Outcome, list[Row]]) -> None:
    _, rows = told
    times = [row.ts_mono_ns for row in rows]
    assert times == sorted(times)
    assert {row.event for row in rows} <= set(schema.EVENTS)


def test_being_watched_changes_nothing() -> None:
    assert Topics(PLAN).run() == run(PLAN)[0]


DIGEST = """
from tests.sim.test_tracing import PLAN, digest
print(digest(PLAN))
"""


def digest(plan: Plan) -> int:
    value = 0
    for row in run(plan)[1]:
        value = zlib.crc32(schema.encode(row), value)
    return value


def test_a_seed_gives_the_same_trace_under_another_hash_seed() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    other = subprocess.run(
        [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
    )
    assert int(other.stdout) == digest(PLAN)
    assert digest(msgspec.structs.replace(PLAN, seed=9)) != digest(PLAN)


def test_files_hold_the_same_rows(tmp_path: Path) -> None:
    topics = Topics(PLAN)
    with traced(topics.simulation, tmp_path, "r") as trace:
        topics.run(trace)
    assert list(files.rows(files.files(tmp_path))) == run(PLAN)[1]


def test_a_run_is_not_added_to_one_of_its_name(tmp_path: Path) -> None:
    """The same seed traced twice into one directory was read as one run that delivered everything twice."""
    arguments = ["sim", "topics", "--seconds", "1", "--trace", str(tmp_path)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    before = run_folder_contents(tmp_path)
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 2
    assert again.stderr.count("\n") == 1
    assert "remove that folder, or name another directory" in again.stderr
    assert run_folder_contents(tmp_path) == before
    assert CliRunner().invoke(main, [*arguments, "--seed", "2"]).exit_code == 0


def run_folder_contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "topics-1").iterdir()}


def test_the_commands_trace(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["sim", "topics", "--seconds", "2", "--trace", str(tmp_path / "t")]
    )
    assert result.exit_code == 0, result.output
    assert "(killed)" in result.output
    assert [path.name for path in (tmp_path / "t" / "topics-1").iterdir()] == [
        "sim-1-000000.parquet"
    ]
    arguments = ["--nodes", "24", "--members", "4", "--trace", str(tmp_path / "c"), "--json"]
    result = CliRunner().invoke(main, ["sim", "compare", *arguments])
    assert result.exit_code == 0, result.output
    ways = {"scribe-1", "sv-1", "scamp-1", "scamp-paper-1"}
    assert {path.name for path in (tmp_path / "c").iterdir()} == ways
    for way in ways:
        rows = list(files.rows(files.files(tmp_path / "c" / way)))
        assert {row.run_id for row in rows} == {way}
        assert sum(row.event == schema.FAULT for row in rows) == 7
        assert any(row.event == schema.DELIVER for row in rows)
