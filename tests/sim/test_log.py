"""The event log: rows of the trace format, and the same bytes for the same seed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from overlaymq.sim.log import EventLog
from overlaymq.sim.scenario import Plan, load, names, resolve
from overlaymq.sim.workload import run
from overlaymq.trace import schema
from overlaymq.trace.schema import EVENTS, Row, decode, encode

DIGESTS = """
from tests.sim.test_log import digests
print(digests())
"""


def short(name: str, seed: int = 1) -> Plan:
    """The beginning of a scenario, small: the faults are all in it."""
    plan = resolve(load(name), name, seed, 14)
    seconds = 20.0
    actions = tuple(replace(a, at=a.at * seconds / plan.seconds) for a in plan.actions)
    return replace(plan, seconds=seconds, quiet=10.0, lookups_per_second=2.0, actions=actions)


def logged(plan: Plan) -> bytes:
    file = io.BytesIO()
    run(plan, EventLog(f"{plan.scenario}-{plan.seed}", file))
    return file.getvalue()


def digests() -> str:
    """One line for each scenario."""
    lines = []
    for name in names():
        log = EventLog(name)
        run(short(name), log)
        lines.append(f"{name} {log.rows} {log.digest}")
    return "\n".join(lines)


def test_every_scenario_logs_the_same_under_another_hash_seed() -> None:
    """Nothing in a run may depend on the order of a set: bar 5 of the simulator."""
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    other = subprocess.run(
        [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == digests()


def test_another_seed_logs_something_else() -> None:
    assert logged(short("restarts", 1)) != logged(short("restarts", 2))


def test_a_log_changes_nothing_in_the_run() -> None:
    plan = short("churn-and-loss")
    assert replace(run(plan), cpu_seconds=0.0) == replace(run(plan, EventLog("x")), cpu_seconds=0.0)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [decode(line) for line in logged(short("crashes-adjacent")).splitlines()]


def test_rows_are_of_known_events_and_in_order(rows: list[Row]) -> None:
    assert {row.event for row in rows} <= set(EVENTS)
    assert [row.ts_mono_ns for row in rows] == sorted(row.ts_mono_ns for row in rows)


def test_a_lookup_can_be_followed_from_row_to_row(rows: list[Row]) -> None:
    start = next(row for row in rows if row.event == schema.PUBLISH)
    ways = [row for row in rows if row.msg_seq == start.msg_seq and row.event != schema.PUBLISH]
    end = next(row for row in ways if row.event == schema.DELIVER)
    hops = [row for row in ways if row.event == schema.ROUTE_HOP]
    assert end.topic_id == start.topic_id
    assert end.hop == len(hops)
    assert [hop.node_id for hop in hops] == [start.node_id, *[hop.peer_id for hop in hops[:-1]]][
        : len(hops)
    ]
    assert end.node_id == (hops[-1].peer_id if hops else start.node_id)


def test_the_lives_of_nodes_and_what_was_done_to_them_are_in_the_log(rows: list[Row]) -> None:
    phases = [row.reason for row in rows if row.event == schema.NODE]
    crashes = [row for row in rows if row.event == schema.FAULT and row.reason == "crash"]
    assert phases.count("up") >= phases.count("active") >= 14
    assert phases.count("down") == len(crashes) > 0


def test_a_row_survives_its_line_and_leaves_out_what_is_empty() -> None:
    row = Row(
        run_id="r",
        schema_version=2,
        event=schema.DROP,
        ts_wall_ns=5,
        ts_mono_ns=5,
        reason="full",
        extra=schema.packed(b=1, a=[2]),
    )
    line = encode(row)
    assert decode(line) == row
    assert "peer_id" not in json.loads(line)
    assert row.extra == '{"a":[2],"b":1}'
