"""Bar: 16 processes, half of them subscribe to an SV topic, kill -9 of a subscriber that feeds others. All
that it fed, directly or not, get content again; those that do not subscribe forward nothing. Prints the
times."""

from __future__ import annotations

import time

import pytest

from tests.live.processes import Host, longest_silence, root_elsewhere, sleep_until, start

SUBSCRIBERS = 8
RATE = 100.0
SECONDS = 25.0
DIES = 5.0
AGAIN = 15.0
"""Seconds within which content must have come again: above `fuse.edge_timeout`, the slowest way to notice."""


def children(hosts: list[Host], topic: str) -> dict[str, list[str]]:
    """Whom each subscriber feeds."""
    return {host.id: host.ask("tree", topic=topic)["children"] for host in hosts}


def below(feeds: dict[str, list[str]], id_: str) -> list[str]:
    """All that depend on a node."""
    found = list(feeds.get(id_, ()))
    for one in found:
        found += feeds.get(one, ())
    return found


@pytest.mark.live
@pytest.mark.timeout(300)
def test_sv_trees_survive_kill_9_of_a_forwarder_and_nobody_forwards_in_vain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reference: SV 3.2.3, issue 5 bar 5."""
    hosts: list[Host] = []
    try:
        start(hosts, "tests.live.sv_host")
        publisher, subscribers, others = hosts[0], hosts[1 : 1 + SUBSCRIBERS], hosts[9:]
        topic, root = root_elsewhere(publisher)
        publisher.ask("create", topic=topic, strategy="sv", reliability="best_effort")
        for host in subscribers:
            host.ask("subscribe", topic=topic)
        details = {"rate": RATE, "seconds": SECONDS, "subscribers": SUBSCRIBERS}
        publisher.ask("publish", topic=topic, **details)
        began = time.monotonic()
        sleep_until(began + DIES)
        feeds = children(subscribers, topic)
        interior = [host for host in subscribers if feeds[host.id] and host.id != root]
        victim = max(interior, key=lambda host: len(below(feeds, host.id)))
        dependants = below(feeds, victim.id)
        killed = victim.kill()
        subscribers.remove(victim)
        sleep_until(began + SECONDS + 1)
        times = {host.id: [run[0] for run in host.ask("report")["runs"]] for host in subscribers}
        sent = {
            host.id: host.ask("statistics")["batches_sent"] for host in others if host.id != root
        }
    finally:
        for host in hosts:
            host.end()
    silences = sorted(longest_silence(times[id_], killed, AGAIN) for id_ in dependants)
    with capsys.disabled():
        written = ", ".join(f"{seconds:.2f}" for seconds in silences)
        print(
            f"\n{len(dependants)} dependants of the forwarder; seconds without content: {written}"
        )
        print(f"batches sent by {len(sent)} that do not subscribe: {sum(sent.values())}")
    assert dependants
    assert all(times[id_][-1] > began + SECONDS - 1 for id_ in times)
    assert silences[-1] < AGAIN
    assert set(sent.values()) == {0}
