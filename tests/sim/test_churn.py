"""Nodes that come and go."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

import pytest

from overlaymq.sim.churn import Churn, lifetime
from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.ring import Ring

if TYPE_CHECKING:
    from overlaymq.messages import Peer


def grown(count: int, seed: int = 1) -> Ring:
    ring = Ring(seed, ConstantDelay())
    ring.grow(count)
    assert ring.settle()
    return ring


def run(ring: Ring, seconds: float) -> None:
    ring.simulation.run_until(ring.simulation.now + seconds)


def churned(ring: Ring, seconds: float, half_life: float = 60.0, **shares: float) -> Churn:
    churn = Churn(ring, half_life, 20.0, **shares)
    churn.start()
    run(ring, seconds)
    return churn


def test_half_of_the_sessions_are_shorter_than_the_half_life() -> None:
    random = Random(1)
    times = [lifetime(random, 30.0) for _ in range(4000)]
    shorter = sum(time < 30.0 for time in times)
    assert abs(shorter - 2000) < 4 * math.sqrt(4000 * 0.25)
    assert sum(times) / 4000 == pytest.approx(30.0 / math.log(2), rel=4 / math.sqrt(4000))


def test_as_many_sessions_end_as_the_half_life_says_and_the_population_stays() -> None:
    """Each seat goes out at rate ln 2 / half-life while taken, so the ends are nearly Poisson."""
    ring = grown(45)
    sizes = []
    churn = Churn(ring, 60.0, 20.0)
    churn.start()
    for _ in range(30):
        run(ring, 5.0)
        sizes.append(len(ring.nodes))
    expected = 45 * 150 * math.log(2) / 60.0
    ended = churn.counts.crashes
    assert abs(ended - expected) < 4 * math.sqrt(expected)
    # Of 60 seats each is taken with probability 3/4.
    deviation = math.sqrt(60 * 3 / 16)
    assert all(abs(size - 45) < 4 * deviation for size in sizes)
    assert abs(sum(sizes) / len(sizes) - 45) < 2 * deviation


def test_returns_have_the_same_identity_and_a_larger_incarnation() -> None:
    ring = grown(30)
    before = {node.pastry.me.id: node.pastry.me for node in ring.nodes.values()}
    churn = churned(ring, 90.0, return_share=1.0)
    assert churn.counts.returns > 10
    again = [
        (before[id_], node.pastry.me)
        for id_, node in ring.nodes.items()
        if id_ in before and node.pastry.me != before[id_]
    ]
    assert len(again) > 5
    for old, new in again:
        assert (new.id, new.address) == (old.id, old.address)
        assert new.incarnation > old.incarnation


def test_without_returns_every_arrival_is_new() -> None:
    ring = grown(30)
    churn = churned(ring, 90.0, return_share=0.0)
    assert churn.counts.returns == 0
    assert churn.counts.arrivals > 10
    assert all(node.pastry.me.incarnation == 0 for node in ring.nodes.values())


@pytest.mark.parametrize(("share", "way"), [(0.0, "crashes"), (1.0, "leaves")])
def test_the_share_of_graceful_leaves(share: float, way: str) -> None:
    counts = churned(grown(30), 60.0, leave_share=share).counts
    assert getattr(counts, way) == counts.crashes + counts.leaves > 10


def test_it_stops() -> None:
    ring = grown(30)
    churn = churned(ring, 60.0)
    churn.stop()
    there = list(ring.nodes)
    run(ring, 120.0)
    assert list(ring.nodes) == there


def test_a_ring_under_churn_is_exact_some_time_after_it_stops() -> None:
    ring = grown(40)
    churned(ring, 120.0, half_life=300.0, leave_share=0.2).stop()
    assert ring.settle()
    run(ring, 120.0)
    assert ring.wrong_leaf_sets() == []


def test_the_seat_of_a_node_that_a_script_crashed_is_taken_again() -> None:
    ring = grown(20)
    churn = Churn(ring, 20.0, 1.0)
    churn.start()
    for id_ in ring.ids()[::2]:
        ring.crash(ring.nodes[id_].pastry.me)
    run(ring, 100.0)
    churn.stop()
    assert ring.settle()
    assert len(ring.nodes) > 16


def test_an_arrival_that_finds_nobody_active_waits() -> None:
    ring = Ring(1, ConstantDelay())
    nowhere = ring.new_peer()
    for _ in range(20):
        ring.join(ring.new_peer(), nowhere)
    churn = churned(ring, 10.0, half_life=20.0)
    assert churn.counts.postponed > 0
    assert churn.counts.arrivals + churn.counts.returns == 0


def test_a_ring_that_has_died_out_is_founded_anew() -> None:
    ring = grown(3)
    churn = churned(ring, 0.0)
    for node in list(ring.nodes.values()):
        ring.crash(node.pastry.me)
    run(ring, 300.0)
    assert churn.counts.arrivals + churn.counts.returns > 2
    assert any(node.pastry.active for node in ring.nodes.values())


def test_a_seed_fixes_who_comes_and_goes() -> None:
    def history(seed: int) -> list[tuple[Peer, ...]]:
        ring = grown(15, seed)
        churn = Churn(ring, 30.0, 10.0, leave_share=0.3)
        churn.start()
        looks = []
        for _ in range(10):
            run(ring, 6.0)
            looks.append(tuple(node.pastry.me for node in ring.nodes.values()))
        return looks

    assert history(1) == history(1) != history(2)
