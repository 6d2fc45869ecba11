"""Bar: 24 processes, a SCAMP topic, 200 messages a second from four of them, kill -9 of a third of them. No
survivor misses what a survivor published after the repair. Prints copies per delivery and latency."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from tests.live.processes import Host, sleep_until, start

PROCESSES = 24
KILLED = 8
PUBLISHERS = 4
RATE = 200.0 / PUBLISHERS
SECONDS = 20.0
DIE_AT = 8.0
REPAIRED = 5.0
"""Seconds after the kill by which everything must reach everyone again: a heartbeat."""
SETTLE = 20.0


def at_rest(hosts: list[Host]) -> list[dict[str, Any]]:
    """The reports of all, once nobody gets anything more."""
    before = -1
    deadline = time.monotonic() + SETTLE
    while True:
        reports = [host.ask("report") for host in hosts]
        total = sum(len(report["got"]) for report in reports)
        if total == before or time.monotonic() > deadline:
            return reports
        before = total
        time.sleep(1.0)


@pytest.mark.live
@pytest.mark.timeout(300)
def test_gossip_survives_kill_9_of_a_third(capsys: pytest.CaptureFixture[str]) -> None:
    """Reference: issue 6, bar 4."""
    hosts: list[Host] = []
    try:
        start(hosts, "tests.live.gossip_host", PROCESSES)
        for host in hosts:
            host.ask("subscribe")
        for host in hosts[:PUBLISHERS]:
            host.ask("publish", rate=RATE, seconds=SECONDS)
        began = time.monotonic()
        sleep_until(began + DIE_AT)
        victims, survivors = hosts[-KILLED:], hosts[:-KILLED]
        for victim in victims:
            victim.process.kill()
        killed = time.monotonic()
        sleep_until(began + SECONDS + 1)
        reports = at_rest(survivors)
    finally:
        for host in hosts:
            host.end()
    published = [(name, when) for report in reports for name, when in report["published"]]
    missed = [
        when - killed
        for host, report in zip(survivors, reports, strict=True)
        for name, when in published
        if not name.startswith(host.id) and name not in report["got"]
    ]
    with capsys.disabled():
        print_table(reports, published, missed)
    assert len(published) == int(RATE * SECONDS) * PUBLISHERS
    assert sum(report["repeated"] for report in reports) == 0
    assert max(missed, default=0.0) <= REPAIRED


def print_table(
    reports: list[dict[str, Any]], published: list[tuple[str, float]], missed: list[float]
) -> None:
    delivered = sum(len(report["got"]) for report in reports)
    latencies = sorted(seconds for report in reports for seconds in report["got"].values())
    rows = {
        "published": f"{len(published):,}",
        "survivors": len(reports),
        "delivered": f"{delivered:,}",
        "missed": len(missed),
        "first missed, s after kill -9": f"{min(missed):.2f}" if missed else "-",
        "last missed, s after kill -9": f"{max(missed):.2f}" if missed else "-",
        "copies per delivery": f"{sum(report['copies'] for report in reports) / delivered:.3f}",
        "latency p50, ms": f"{latencies[len(latencies) // 2] * 1e3:.1f}",
        "latency p99, ms": f"{latencies[len(latencies) * 99 // 100] * 1e3:.1f}",
        "latency worst, ms": f"{latencies[-1] * 1e3:.1f}",
    }
    print()
    for name, value in rows.items():
        print(f"{name:<30}{value:>10}")
    drops: Counter[str] = Counter()
    for report in reports:
        drops.update(report["drops"])
    for reason, messages in sorted(drops.items()):
        print(f"dropped: {reason:<40}{messages:>10,}")
