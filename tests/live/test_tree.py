"""Bar: 16 processes, one publisher at 500 messages a second, `ordered` on Scribe, kill -9 of an interior
forwarder and then of the root. Nothing is lost without an event that covers it, nothing comes twice or out of
order within an epoch. Prints how long the repairs took, and what was missed and announced."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.live.processes import Host, longest_silence, root_elsewhere, sleep_until, start

RATE = 500.0
SECONDS = 24.0
FORWARDER_DIES, ROOT_DIES = 6.0, 14.0
SETTLE = 90.0
"""Three times `delivery.gap_timeout`, after which what nobody has is announced."""

Place = tuple[int, str, int]


class Report:
    """What one subscriber was given and told."""

    def __init__(self, host: Host) -> None:
        told = host.ask("report")
        self.faults: list[str] = told["faults"]
        self.events: list[tuple[str, Place, Place]] = [
            (kind, as_place(first), as_place(last)) for kind, first, last in told["events"]
        ]
        self.times: list[float] = [run[0] for run in told["runs"]]
        self.had: dict[int, Place] = {}
        for _, first, messages, at in told["runs"]:
            epoch, root, sequence = as_place(at)
            for step in range(messages):
                self.had[first + step] = (epoch, root, sequence + step)

    def covers(self, place: Place) -> bool:
        """Whether a loss of this place was announced."""
        for kind, first, last in self.events:
            if kind == "Missed" and first <= place <= last:
                return True
            if kind == "EpochChanged" and first < place < last:
                return True
        return False

    def silence(self, after: float, seconds: float) -> float:
        """The longest time without a message in this stretch."""
        return longest_silence(self.times, after, seconds)


def as_place(written: list[Any]) -> Place:
    epoch, root, sequence = written
    return (epoch, root, sequence)


def forwarder(subscribers: list[Host], topic: str, root: str) -> Host:
    """The one with the most children, but not the root."""
    trees = [(host, host.ask("tree", topic=topic)["children"]) for host in subscribers]
    interior = [(len(children), host) for host, children in trees if host.id != root and children]
    assert interior, f"no forwarders in {[(host.id, children) for host, children in trees]}"
    return max(interior, key=lambda pair: pair[0])[1]


def settled(publisher: Host, subscribers: list[Host]) -> dict[str, Any]:
    """Wait until every message has its place, and nothing more comes to anybody."""
    deadline = time.monotonic() + SETTLE
    before: list[int] = []
    while True:
        told = publisher.ask("published")
        counts = [host.ask("count")["had"] for host in subscribers]
        everything = len(told["places"]) == told["accepted"] == int(RATE * SECONDS)
        if everything and all(had == told["accepted"] for had in counts):
            return told
        if time.monotonic() > deadline:
            if everything and counts == before:
                return told
            assert time.monotonic() < deadline + SETTLE, f"never at rest: {counts}"
        before = counts
        time.sleep(1.0)


def unannounced(reports: list[Report], told: dict[str, Any]) -> tuple[list[str], int]:
    """What was lost without a word, and how many losses were announced."""
    places: dict[int, set[Place]] = {seq: {as_place(at)} for seq, at in told["places"]}
    for report in reports:
        for seq, place in report.had.items():
            places.setdefault(seq, set()).add(place)
    silent: list[str] = []
    announced = 0
    for number, report in enumerate(reports):
        for seq in range(told["accepted"]):
            if seq in report.had:
                continue
            if any(report.covers(place) for place in places.get(seq, ())):
                announced += 1
            else:
                silent.append(f"subscriber {number} lost {seq}, at {places.get(seq)}")
    return silent, announced


@pytest.mark.live
@pytest.mark.timeout(600)
def test_ordered_on_scribe_survives_kill_9_of_a_forwarder_and_of_the_root(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reference: Scribe JSAC III-B.2, issue 4 bar 3."""
    hosts: list[Host] = []
    try:
        start(hosts, "tests.live.tree_host")
        publisher, *subscribers = hosts
        topic, root = root_elsewhere(publisher)
        publisher.ask("create", topic=topic, strategy="scribe", reliability="ordered")
        for host in subscribers:
            host.tell("subscribe", topic=topic)
        for host in subscribers:
            host.hear()
        details = {"rate": RATE, "seconds": SECONDS, "subscribers": len(subscribers)}
        publisher.ask("publish", topic=topic, **details)
        began = time.monotonic()
        sleep_until(began + FORWARDER_DIES)
        victim = forwarder(subscribers, topic, root)
        orphans = len(victim.ask("tree", topic=topic)["children"])
        forwarder_killed = victim.kill()
        subscribers.remove(victim)
        sleep_until(began + ROOT_DIES)
        (top,) = (host for host in subscribers if host.id == root)
        below = len(top.ask("tree", topic=topic)["children"])
        root_killed = top.kill()
        subscribers.remove(top)
        sleep_until(began + SECONDS)
        told = settled(publisher, subscribers)
        reports = [Report(host) for host in subscribers]
    finally:
        for host in hosts:
            host.end()
    silent, announced = unannounced(reports, told)
    with capsys.disabled():
        print_table(reports, told, announced, len(silent), orphans, below)
        for what, killed in (("forwarder", forwarder_killed), ("root", root_killed)):
            longest = sorted(report.silence(killed, 6.0) for report in reports)
            middle = longest[len(longest) // 2]
            print(
                f"longest silence around kill -9 of the {what}: {longest[-1]:.2f} s, median {middle:.2f} s"
            )
    assert [fault for report in reports for fault in report.faults] == []
    assert silent == []


def print_table(
    reports: list[Report],
    told: dict[str, Any],
    announced: int,
    silent: int,
    orphans: int,
    below: int,
) -> None:
    kinds = [kind for report in reports for kind, _, _ in report.events]
    lost = sum(told["accepted"] - len(report.had) for report in reports)
    rows = {
        "published": told["accepted"],
        "subscribers that lived": len(reports),
        "children of the forwarder": orphans,
        "children of the root": below,
        "delivered": sum(len(report.had) for report in reports),
        "missed": lost,
        "  of these announced": announced,
        "  of these silent": silent,
        "Missed events": kinds.count("Missed"),
        "EpochChanged events": kinds.count("EpochChanged"),
    }
    print()
    for name, value in rows.items():
        print(f"{name:<28}{value:>10,}")
