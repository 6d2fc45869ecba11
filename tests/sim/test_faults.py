"""Each fault does what it says, and no other thing."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.events import (
    Effect,
    Input,
    Measured,
    PeerFailed,
    PingPeer,
    Probe,
    Received,
    Send,
    SetTimer,
    Timer,
    TimerFired,
)
from overlaymq.ids import Id
from overlaymq.messages import Message, Peer, Ping, Pong
from overlaymq.sim.churn import Churn
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Clock, Faults
from overlaymq.sim.network import ConstantDelay, PlaneDelay
from overlaymq.sim.ring import Ring

if TYPE_CHECKING:
    from overlaymq.sim.engine import Host
    from overlaymq.sim.faults import Fate

A, B, C = (Peer(Id(number), f"host:{number}", 1) for number in (1, 2, 3))
START = PingPeer(0, A)
MANY = 4000


class Recorder:
    """Does what a script says when started, and remembers when it heard what."""

    def __init__(self, script: list[Effect]) -> None:
        self.script = script
        self.heard: list[tuple[float, Input]] = []

    def handle(self, input: Input, now: float) -> list[Effect]:
        if input is START:
            return self.script
        self.heard.append((now, input))
        return []

    @property
    def numbers(self) -> list[int]:
        """Of the pongs, in the order of their arrival."""
        return [
            input.message.request
            for _, input in self.heard
            if isinstance(input, Received) and isinstance(input.message, Pong)
        ]

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.heard]


def add(simulation: Simulation, peer: Peer, *script: Effect) -> Recorder:
    recorder = Recorder(list(script))
    simulation.add_node(peer, recorder)
    return recorder


def pongs(count: int = MANY) -> list[Effect]:
    return [Send(B, Pong(number)) for number in range(count)]


def sent_through(faults: Faults, delay: float = 1.0, seed: int = 1) -> list[tuple[float, int]]:
    """When each of many messages that were sent at 0.0 arrived."""
    simulation = Simulation(seed, ConstantDelay(delay), faults)
    b = add(simulation, B)
    add(simulation, A, *pongs())
    simulation.start(A, START)
    simulation.run_until(60.0)
    assert simulation.messages == MANY
    return list(zip(b.times, b.numbers, strict=True))


def assert_share(count: int, share: float, of: int = MANY) -> None:
    """Within four standard deviations of a binomial count: once in 16,000 seeds it is not."""
    assert abs(count - of * share) < 4 * math.sqrt(of * share * (1 - share))


# --- messages ----------------------------------------------------------------------------------------


def test_no_faults_change_nothing() -> None:
    assert sent_through(Faults()) == [(1.0, number) for number in range(MANY)]


def test_loss_is_the_configured_share_and_keeps_the_order() -> None:
    arrived = sent_through(Faults(loss=0.25))
    assert_share(len(arrived), 0.75)
    assert arrived == sorted(set(arrived))


def test_the_configured_share_arrives_twice() -> None:
    arrived = sent_through(Faults(duplication=0.1))
    assert set(arrived) == {(1.0, number) for number in range(MANY)}
    assert_share(len(arrived) - MANY, 0.1)


def test_copies_have_delays_of_their_own() -> None:
    arrived = sent_through(Faults(duplication=1.0, jitter=0.5))
    assert len(arrived) == 2 * MANY
    times: dict[int, set[float]] = {}
    for time, number in arrived:
        times.setdefault(number, set()).add(time)
    assert all(len(both) == 2 for both in times.values())


def test_reordering_holds_the_configured_share_back_so_that_later_ones_overtake() -> None:
    arrived = sent_through(Faults(reordering=0.2, reordering_delay=0.5))
    late = [(time, number) for time, number in arrived if time > 1.0]
    assert_share(len(late), 0.2)
    assert all(time < 1.5 for time, _ in late)
    punctual = [number for time, number in arrived if time == 1.0]
    assert punctual == sorted(punctual)
    overtaken = [n for n in punctual if n > min(number for _, number in late)]
    assert len(overtaken) > MANY / 2
    assert sorted(number for _, number in arrived) == list(range(MANY))


def test_jitter_is_spread_evenly() -> None:
    extra = [time - 1.0 for time, _ in sent_through(Faults(jitter=0.2))]
    assert len(extra) == MANY
    assert all(0.0 <= late < 0.2 for late in extra)
    for quarter in range(4):
        inside = sum(0.05 * quarter <= late < 0.05 * (quarter + 1) for late in extra)
        assert_share(inside, 0.25)


def test_the_fate_of_each_message_is_told() -> None:
    simulation = Simulation(1, ConstantDelay(), Faults(loss=0.2, duplication=0.2, reordering=0.2))
    fates: list[Fate] = []

    def watch(_now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        assert (host.peer, peer, type(message)) == (A, B, Pong)
        fates.append(fate)

    simulation.on_send = watch
    b = add(simulation, B)
    add(simulation, A, *pongs())
    simulation.start(A, START)
    simulation.run_until(9.0)
    assert_share(fates.count("lost"), 0.2)
    assert_share(fates.count("doubled"), 0.8 * 0.2)
    assert_share(fates.count("late"), 0.8 * 0.8 * 0.2)
    arrivals = {"lost": 0, "doubled": 2, "late": 1, "passed": 1}
    assert len(b.heard) == sum(arrivals[fate] for fate in fates)
    simulation.crash(B)
    simulation.start(A, START)
    assert set(fates[MANY:]) == {"nobody"}


def test_a_probe_goes_both_ways() -> None:
    """It is lost on either, late by both, and cut by one."""
    faults = Faults(loss=0.3)
    simulation = Simulation(1, ConstantDelay(0.5), faults)
    a = add(simulation, A, *[Probe(B) for _ in range(MANY)])
    add(simulation, B)
    simulation.start(A, START)
    simulation.run_until(9.0)
    assert {(time, input) for time, input in a.heard} == {(1.0, Measured(B, 1.0))}
    assert_share(len(a.heard), 0.7 * 0.7)

    a.heard.clear()
    faults.loss, faults.jitter = 0.0, 0.1
    simulation.start(A, START)
    simulation.run_until(20.0)
    measured = [input.seconds for _, input in a.heard if isinstance(input, Measured)]
    assert min(measured) < 1.02
    assert 1.18 < max(measured) < 1.2
    assert [time - 9.0 for time in a.times] == pytest.approx(sorted(measured))

    a.heard.clear()
    faults.cut([B.address], [A.address])
    simulation.start(A, START)
    simulation.run_until(40.0)
    assert a.heard == []


def test_a_link_breaks_only_where_nobody_lives() -> None:
    simulation = Simulation(1, ConstantDelay(), Faults(loss=1.0, link_break=0.2))
    a = add(simulation, A, Send(B, Ping(1)), Send(C, Ping(1)))
    add(simulation, B)
    simulation.start(A, START)
    simulation.run_until(9.0)
    assert [(time, type(input)) for time, input in a.heard] == [(0.2, PeerFailed)]


# --- partitions --------------------------------------------------------------------------------------


def everyone_to_everyone(faults: Faults, peers: list[Peer]) -> set[tuple[int, int]]:
    """Which of them reached which."""
    simulation = Simulation(1, ConstantDelay(), faults)
    nodes = {
        peer.id: add(simulation, peer, *[Send(other, Ping(0)) for other in peers if other != peer])
        for peer in peers
    }
    for peer in peers:
        simulation.start(peer, START)
    simulation.run_until(1.0)
    return {
        (int(input.peer.id), int(id_))
        for id_, node in nodes.items()
        for _, input in node.heard
        if isinstance(input, Received)
    }


def test_only_members_of_one_group_reach_each_other_and_the_rest_is_a_group() -> None:
    peers = [Peer(Id(number), str(number)) for number in range(6)]
    faults = Faults()
    faults.part([["0", "1"], ["2", "3"]])
    both = {(0, 1), (2, 3), (4, 5)}
    assert everyone_to_everyone(faults, peers) == both | {(b, a) for a, b in both}
    faults.part([["5"]])
    assert everyone_to_everyone(faults, peers) == {
        (a, b) for a in range(5) for b in range(5) if a != b
    }
    faults.heal()
    assert len(everyone_to_everyone(faults, peers)) == 30


def test_a_one_way_cut_lets_the_other_direction_pass() -> None:
    peers = [Peer(Id(number), str(number)) for number in range(4)]
    faults = Faults()
    faults.cut(["0", "1"], ["2"])
    faults.cut(["3"], ["0"])
    missing = {(a, b) for a in range(4) for b in range(4) if a != b} - everyone_to_everyone(
        faults, peers
    )
    assert missing == {(0, 2), (1, 2), (3, 0)}
    faults.heal()
    assert len(everyone_to_everyone(faults, peers)) == 12


def test_what_is_under_way_when_the_partition_begins_arrives() -> None:
    faults = Faults()
    simulation = Simulation(1, ConstantDelay(1.0), faults)
    b = add(simulation, B)
    add(simulation, A, Send(B, Pong(1)))
    simulation.at(0.0, lambda: simulation.start(A, START))
    simulation.at(0.5, lambda: faults.part([[A.address]]))
    simulation.at(0.6, lambda: simulation.start(A, START))
    simulation.at(2.0, faults.heal)
    simulation.at(3.0, lambda: simulation.start(A, START))
    simulation.run_until(9.0)
    assert b.times == [1.0, 4.0]


# --- nodes -------------------------------------------------------------------------------------------


def test_a_slow_node_takes_its_inputs_one_after_the_other() -> None:
    faults = Faults()
    faults.slow(B.address, 0.5)
    simulation = Simulation(1, ConstantDelay(1.0), faults)
    b = add(simulation, B)
    add(simulation, A, *pongs(5))
    simulation.start(A, START)
    simulation.run_until(9.0)
    assert (b.times, b.numbers) == ([1.5, 2.0, 2.5, 3.0, 3.5], [0, 1, 2, 3, 4])
    simulation.start(A, START)
    simulation.run_until(10.6)
    assert b.times[5:] == [10.5]


def test_a_slow_node_is_late_with_its_timers_too() -> None:
    faults = Faults()
    faults.slow(A.address, 0.25)
    simulation = Simulation(1, ConstantDelay(), faults)
    a = add(simulation, A, SetTimer(Timer("one"), 1.0), SetTimer(Timer("two"), 1.0))
    simulation.start(A, START)
    simulation.run_until(9.0)
    assert a.heard == [(1.25, TimerFired(Timer("one"))), (1.5, TimerFired(Timer("two")))]


def test_a_node_made_quick_again_finishes_its_queue_in_order() -> None:
    faults = Faults()
    faults.slow(B.address, 1.0)
    simulation = Simulation(1, ConstantDelay(0.5), faults)
    b = add(simulation, B)
    add(simulation, A, *pongs(3))
    simulation.start(A, START)
    simulation.at(1.0, lambda: faults.slow(B.address, 0.0))
    simulation.at(3.0, lambda: simulation.start(A, START))  # Arrives with the last of the queue.
    simulation.at(6.0, lambda: simulation.start(A, START))
    simulation.run_until(9.0)
    assert b.numbers == [0, 1, 2] * 3
    assert b.times == [1.5, 2.5, 3.5, 3.5, 3.5, 3.5, 6.5, 6.5, 6.5]


def test_the_queue_of_a_slow_node_dies_with_it() -> None:
    faults = Faults()
    faults.slow(B.address, 1.0)
    simulation = Simulation(1, ConstantDelay(0.5), faults)
    b = add(simulation, B)
    add(simulation, A, *pongs(10))
    simulation.start(A, START)
    simulation.run_until(3.0)
    successor = add(simulation, Peer(B.id, B.address, 2))
    simulation.start(A, START)
    simulation.run_until(60.0)
    assert len(b.heard) == 2
    assert successor.times == [4.5 + number for number in range(10)]


def test_a_long_queue_is_no_recursion() -> None:
    faults = Faults()
    faults.slow(B.address, 0.001)
    arrived = sent_through(faults)
    assert len(arrived) == MANY > sys.getrecursionlimit()
    assert arrived[-1][0] == pytest.approx(1.0 + 0.001 * MANY)


def test_a_fast_clock_shows_more_and_fires_sooner() -> None:
    faults = Faults()
    faults.skew(A.address, 2.0, offset=100.0)
    simulation = Simulation(1, ConstantDelay(0.5), faults)
    a = add(simulation, A, SetTimer(Timer("x"), 8.0), Probe(B))
    b = add(simulation, B, SetTimer(Timer("y"), 8.0))
    fired: list[tuple[float, Any]] = []
    simulation.on_input = lambda now, _, input: fired.append((now, input))
    simulation.start(A, START)
    simulation.start(B, START)
    simulation.run_until(9.0)
    assert a.heard == [(102.0, Measured(B, 2.0)), (108.0, TimerFired(Timer("x")))]
    assert b.heard == [(8.0, TimerFired(Timer("y")))]
    assert [now for now, input in fired if isinstance(input, TimerFired)] == [4.0, 8.0]
    assert simulation.local_time(simulation.hosts[A.address]) == 118.0


def test_a_clock_never_jumps_when_its_rate_changes_and_only_forward_otherwise() -> None:
    clock = Clock()
    assert clock.read(10.0) == 10.0
    clock.skew(0.5, 0.0)
    assert [clock.read(time) for time in (20.0, 30.0)] == [20.0, 25.0]
    clock.skew(1.0, 5.0)
    assert [clock.read(time) for time in (40.0, 50.0)] == [35.0, 45.0]
    for rate, offset in ((0.0, 0.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="never goes back"):
            clock.skew(rate, offset)


# --- determinism -------------------------------------------------------------------------------------


def digest(seed: int) -> str:
    """Of all inputs and fates in a ring that suffers every fault at once: when, where and what."""
    faults = Faults(loss=0.02, duplication=0.02, reordering=0.05, jitter=0.01, link_break=0.1)
    ring = Ring(seed, PlaneDelay(), faults=faults)
    simulation = ring.simulation
    log = hashlib.sha256()
    simulation.on_input = lambda now, host, input: log.update(
        f"{now!r} {host.peer.address} {type(input)}\n".encode()
    )
    simulation.on_send = lambda now, host, peer, message, fate: log.update(
        f"{host.peer.address} {peer.address} {type(message)} {fate}\n".encode()
    )
    ring.grow(16, spacing=0.2)
    addresses = [node.pastry.me.address for node in ring.nodes.values()]
    faults.slow(addresses[3], 0.01)
    faults.skew(addresses[4], 1.1)
    simulation.at(6.0, lambda: faults.part([set(addresses[:8])]))
    simulation.at(8.0, lambda: faults.cut(set(addresses[10:13]), set(addresses[13:])))
    simulation.at(10.0, faults.heal)
    Churn(ring, 20.0, 10.0, leave_share=0.3).start()
    ring.random_lookups(50, 15.0)
    return log.hexdigest()


def test_a_seed_fixes_every_fault_whatever_the_hash_seed() -> None:
    here = digest(1)
    assert here != digest(2)
    for hash_seed in ("1", "2"):
        answer = subprocess.run(
            [sys.executable, "-c", f"import {__name__} as t; print(t.digest(1))"],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.strip() == here
