"""Bar: eight traced processes, topics of three strategies, one kill -9. The analysis finds exactly the
losses, repetitions and order violations that the processes counted themselves. Prints what happened."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from overlaymq import ids
from overlaymq.trace.analysis import reading, whole
from overlaymq.trace.spark import session
from tests.live.processes import Host, sleep_until, start

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 8
PUBLISHERS = 2
RATE = 40.0
SECONDS = 16.0
DIE_AT = 6.0
GRACE = 1.0
"""As the analysis has it: what is published so close to a subscriber's beginning or end is uncertain."""

Pair = tuple[str, str, int, str]
"""Topic, origin, sequence number and subscriber."""


class Counted:
    """What the processes that lived on have counted."""

    def __init__(self, hosts: list[Host], reports: list[dict[str, Any]]) -> None:
        self.ids = [host.id for host in hosts]
        self.published = [
            (topic, host.id, seq, at)
            for host, report in zip(hosts, reports, strict=True)
            for topic, seq, at in report["published"]
        ]
        self.reports = dict(zip(self.ids, reports, strict=True))

    def losses(self) -> set[Pair]:
        """Expected and not given."""
        lost = set()
        for id_, report in self.reports.items():
            for topic, origin, seq, at in self.published:
                late = at >= report["ready"][topic] + GRACE
                if origin != id_ and late and [origin, seq] not in report["got"][topic]:
                    lost.add((topic, origin, seq, id_))
        return lost

    def traffic(self) -> dict[str, tuple[int, int, int]]:
        """What came in over links, how much of it again, and what the application took, by node."""
        return {
            id_: (report["copies"], report["duplicates"], sum(map(len, report["got"].values())))
            for id_, report in self.reports.items()
        }

    def disorder(self) -> dict[tuple[str, str], tuple[int, int]]:
        """How many came late and how many again, by topic and subscriber, where there are any."""
        found = {}
        for id_, report in self.reports.items():
            for topic, got in report["got"].items():
                highest: dict[str, int] = {}
                seen: Counter[tuple[str, int]] = Counter()
                late = 0
                for origin, seq in got:
                    seen[origin, seq] += 1
                    late += seq < highest.get(origin, -1) and seen[origin, seq] == 1
                    highest[origin] = max(seq, highest.get(origin, -1))
                repeated = sum(seen.values()) - len(seen)
                if late or repeated:
                    found[topic, id_] = (late, repeated)
        return found


def leave(host: Host) -> dict[str, Any]:
    """What it has counted, its leaving and what others handed over to it until then included."""
    assert host.process.stdin is not None
    host.process.stdin.close()
    report = host.hear()
    assert host.process.wait(20) == 0
    return report


def play(traces: Path) -> tuple[Counted, str]:
    """The live run: what was counted, and who was killed: the root of a topic that does not send again."""
    hosts: list[Host] = []
    try:
        start(hosts, "tests.live.trace_host", PROCESSES, (str(traces),))
        for host in hosts:
            host.ask("subscribe")
        sleep_until(time.monotonic() + 2 * GRACE)
        root = ids.text(ids.closest(ids.topic_id("sv"), [ids.Id(int(one.id, 16)) for one in hosts]))
        [victim] = [host for host in hosts if host.id == root]
        living = [host for host in hosts if host is not victim]
        began = time.monotonic()
        for host in living[:PUBLISHERS]:
            host.ask("publish", rate=RATE, seconds=SECONDS)
        sleep_until(began + DIE_AT)
        victim.kill()
        sleep_until(began + SECONDS + 4 * GRACE)  # nothing is published near anybody's end
        return Counted(living, [leave(host) for host in living]), victim.id
    finally:
        for host in hosts:
            host.end()


@pytest.mark.live
@pytest.mark.timeout(600)
def test_the_analysis_finds_exactly_what_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reference: issue 7, bars 1 and 2."""
    counted, victim = play(tmp_path)
    spark = session("local[2]")
    found = whole.analyse(reading.read(spark, [str(tmp_path)]), grace=GRACE)
    spark.stop()
    tables = {name: table.data.to_pylist() for name, table in found.tables.items()}
    losses = {
        (row["topic"], row["origin"], row["seq"], row["node"])
        for row in tables["losses"]
        if row["node"] != victim
    }
    disorder = {
        (row["topic"], row["node"]): (row["late"], row["repeated"])
        for row in tables["order"]
        if row["node"] != victim
    }
    nodes = {row["node"]: row for row in tables["nodes"]}
    with capsys.disabled():
        print(f"\npublished {len(counted.published):,}, lost {len(losses):,}, disorder {disorder}")
        for sentence in found.headline.sentences():
            print(f"  {sentence.text}")
        print(f"  (received, again, taken) by node: {sorted(counted.traffic().values())}")
    assert losses == counted.losses()
    assert losses, "killing a root costs something"
    assert disorder == counted.disorder()
    assert sum(row["violations"] for row in tables["order"]) == 0
    assert victim in nodes, "what it had flushed is read"
    columns = ("received", "duplicates", "consumed")
    traffic = {id_: tuple(nodes[id_][name] for name in columns) for id_ in counted.ids}
    assert traffic == counted.traffic()
