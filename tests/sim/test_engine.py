"""The virtual-time driver, with handlers small enough to see through."""

from __future__ import annotations

import sys
import weakref

import pytest

from overlaymq.events import (
    Effect,
    Input,
    Joined,
    Measured,
    Notify,
    PeerFailed,
    PingPeer,
    Probe,
    Received,
    Route,
    Send,
    SetTimer,
    Timer,
    TimerFired,
)
from overlaymq.ids import Id
from overlaymq.messages import Peer, Ping, Pong
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import ConstantDelay, PlaneDelay

A, B, C = (Peer(Id(number), f"host:{number}", 1) for number in (1, 2, 3))
START = PingPeer(0, A)


class Recorder:
    """Does what a script says on its first input, answers pings, and remembers everything."""

    def __init__(self, script: list[Effect]) -> None:
        self.script = script
        self.inputs: list[tuple[float, Input]] = []
        self.on_timer: list[Effect] = []

    def handle(self, input: Input, now: float) -> list[Effect]:
        self.inputs.append((now, input))
        if input is START:
            return self.script
        if isinstance(input, Received) and isinstance(input.message, Ping):
            return [Send(input.peer, Pong(input.message.request))]
        return self.on_timer if isinstance(input, TimerFired) else []

    @property
    def heard(self) -> list[Input]:
        return [input for _, input in self.inputs if input is not START]


def add(simulation: Simulation, peer: Peer, *script: Effect) -> Recorder:
    recorder = Recorder(list(script))
    simulation.add_node(peer, recorder)
    return recorder


def start(simulation: Simulation, peer: Peer, delay: float = 0.0) -> None:
    simulation.schedule(delay, simulation.hosts[peer.address], START)


def test_a_message_arrives_after_the_delay_and_is_answered() -> None:
    simulation = Simulation(1, ConstantDelay(0.5))
    a, b = add(simulation, A, Send(B, Ping(7))), add(simulation, B)
    start(simulation, A)
    simulation.run_until(0.4)
    assert b.inputs == []
    simulation.run_until(2.0)
    assert b.inputs == [(0.5, Received(A, Ping(7)))]
    assert a.inputs[-1] == (1.0, Received(B, Pong(7)))
    assert simulation.now == 2.0


def test_messages_travel_by_reference() -> None:
    simulation = Simulation(1, ConstantDelay())
    ping = Ping(7)
    b = add(simulation, B)
    add(simulation, A, Send(B, ping))
    start(simulation, A)
    simulation.run_until(1.0)
    (received,) = b.heard
    assert isinstance(received, Received)
    assert received.message is ping


def test_events_of_one_instant_keep_the_order_of_their_causes() -> None:
    simulation = Simulation(1, ConstantDelay())
    b = add(simulation, B)
    add(simulation, A, *(Send(B, Pong(number)) for number in range(20)))
    start(simulation, A)
    simulation.run_until(1.0)
    assert b.heard == [Received(A, Pong(number)) for number in range(20)]


def test_a_timer_comes_back_as_it_was() -> None:
    simulation = Simulation(1, ConstantDelay())
    timer = Timer("part", 3, 4)
    a = add(simulation, A, SetTimer(timer, 2.5))
    start(simulation, A, 1.0)
    simulation.run_until(9.0)
    assert a.inputs[-1] == (3.5, TimerFired(timer))


def test_a_probe_measures_a_round_trip() -> None:
    simulation = Simulation(1, ConstantDelay(0.5))
    a = add(simulation, A, Probe(B))
    add(simulation, B)
    start(simulation, A)
    simulation.run_until(9.0)
    assert a.inputs[-1] == (1.0, Measured(B, 1.0))


def test_a_crashed_node_is_silent() -> None:
    simulation = Simulation(1, ConstantDelay())
    a, b = add(simulation, A, Send(B, Ping(1)), Probe(B)), add(simulation, B)
    simulation.crash(B)
    start(simulation, A)
    simulation.run_until(60.0)
    assert b.inputs == []
    assert a.heard == []


def test_a_node_that_crashes_while_a_message_is_under_way_never_sees_it() -> None:
    simulation = Simulation(1, ConstantDelay(1.0))
    add(simulation, A, Send(B, Ping(1)))
    b = add(simulation, B)
    start(simulation, A)
    simulation.run_until(0.5)
    simulation.crash(B)
    simulation.run_until(5.0)
    assert b.inputs == []


@pytest.mark.parametrize("effect", [Send(B, Ping(1)), Probe(B)])
def test_links_may_break_loudly(effect: Effect) -> None:
    simulation = Simulation(1, ConstantDelay(0.1), Faults(link_break=0.2))
    a = add(simulation, A, effect)
    add(simulation, B)
    simulation.crash(B)
    start(simulation, A)
    simulation.run_until(5.0)
    assert [type(heard) for heard in a.heard] == [PeerFailed]


def test_nobody_at_the_address_is_like_a_crash() -> None:
    simulation = Simulation(1, ConstantDelay(0.1), Faults(link_break=0.2))
    a = add(simulation, A, Send(B, Ping(1)), Probe(C))
    start(simulation, A)
    simulation.run_until(5.0)
    assert sorted(heard.peer.id for heard in a.heard if isinstance(heard, PeerFailed)) == [2, 3]


def test_another_identity_at_the_address_refuses() -> None:
    simulation = Simulation(1, ConstantDelay())
    add(simulation, A, Send(B, Ping(1)))
    impostor = add(simulation, Peer(Id(9), B.address))
    start(simulation, A)
    simulation.run_until(1.0)
    assert impostor.inputs == []


def test_what_was_meant_for_a_crashed_node_does_not_reach_its_successor() -> None:
    simulation = Simulation(1, ConstantDelay(1.0))
    old = add(simulation, B, SetTimer(Timer("old"), 2.0))
    add(simulation, A, Send(B, Ping(1)))
    start(simulation, B)
    start(simulation, A)
    simulation.run_until(0.5)
    successor = add(simulation, Peer(B.id, B.address, 2))
    simulation.run_until(9.0)
    assert len(old.inputs) == 1
    assert successor.inputs == []


def test_run_while_stops_with_the_condition_or_at_the_limit() -> None:
    simulation = Simulation(1, ConstantDelay(1.0))
    b = add(simulation, B)
    add(simulation, A, *(SetTimer(Timer("tick"), float(tick)) for tick in range(100)))
    start(simulation, A)
    assert simulation.run_while(lambda: simulation.now < 10, limit=50.0)
    assert simulation.now == 10.0
    assert not simulation.run_while(lambda: not b.inputs, limit=50.0)
    assert simulation.now <= 50.0


def test_hooks_see_notifications() -> None:
    simulation = Simulation(1, ConstantDelay())
    seen: list[tuple[float, Peer, object]] = []
    simulation.on_notify = lambda host, event: seen.append((simulation.now, host.peer, event))
    add(simulation, A, Notify(Joined()))
    start(simulation, A, 2.0)
    simulation.run_until(3.0)
    assert seen == [(2.0, A, Joined())]


def test_inputs_effects_and_sends_are_watched_in_their_order() -> None:
    simulation = Simulation(1, ConstantDelay(0.5))
    seen: list[tuple[float, str, Peer, object]] = []
    simulation.on_input = lambda now, host, input: seen.append((now, "input", host.peer, input))
    simulation.on_effect = lambda now, host, effect: seen.append((now, "effect", host.peer, effect))
    simulation.on_send = lambda now, host, peer, message, fate: seen.append(
        (now, "send", host.peer, (peer, message, fate))
    )
    send = Send(B, Pong(7))
    add(simulation, A, send)
    add(simulation, B)
    start(simulation, A)
    simulation.run_until(9.0)
    simulation.start(B, START)
    assert seen == [
        (0.0, "input", A, START),
        (0.0, "effect", A, send),
        (0.0, "send", A, (B, Pong(7), "passed")),
        (0.5, "input", B, Received(A, Pong(7))),
        (9.0, "input", B, START),
    ]


def test_a_timer_that_causes_nothing_is_stale_and_no_event() -> None:
    simulation = Simulation(1, ConstantDelay())
    add(simulation, A, *[SetTimer(Timer("stale", number), 1.0) for number in range(5)])
    add(simulation, B, SetTimer(Timer("due"), 1.0))
    b = simulation.hosts[B.address].node
    start(simulation, A)
    start(simulation, B)
    simulation.run_until(0.5)
    assert (simulation.events, simulation.stale_timers) == (2, 0)
    assert isinstance(b, Recorder)
    b.on_timer = [Notify(Joined())]
    simulation.run_until(9.0)
    assert (simulation.events, simulation.stale_timers) == (3, 5)


def test_a_message_that_causes_nothing_is_an_event() -> None:
    simulation = Simulation(1, ConstantDelay())
    add(simulation, A, Send(B, Pong(1)))
    add(simulation, B)
    start(simulation, A)
    simulation.run_until(9.0)
    assert (simulation.events, simulation.stale_timers) == (2, 0)


def test_functions_are_called_at_their_time_and_are_no_events() -> None:
    simulation = Simulation(1, ConstantDelay())
    called: list[tuple[str, float]] = []

    def note(name: str) -> None:
        called.append((name, simulation.now))

    def again() -> None:
        note("again")
        simulation.at(simulation.now + 1.0, lambda: note("later"))
        simulation.at(0.0, lambda: note("the past is now"))

    simulation.at(2.0, again)
    simulation.at(1.0, lambda: note("first"))
    simulation.at(1.0, lambda: note("second"))
    simulation.run_until(9.0)
    assert called == [
        ("first", 1.0),
        ("second", 1.0),
        ("again", 2.0),
        ("the past is now", 2.0),
        ("later", 3.0),
    ]
    assert simulation.events == 0


def test_long_chains_of_causes_are_no_recursion() -> None:
    simulation = Simulation(1, ConstantDelay(0.0))
    count = 3 * sys.getrecursionlimit()

    class Echo:
        heard = 0

        def handle(self, input: Input, now: float) -> list[Effect]:
            self.heard += 1
            return [Send(A, Ping(1))] if self.heard < count else []

    echo = Echo()
    simulation.add_node(A, echo)
    simulation.start(A, START)
    simulation.run_until(0.0)
    assert echo.heard == count


def test_a_crashed_node_can_be_collected() -> None:
    simulation = Simulation(1, ConstantDelay())
    node = add(simulation, A, SetTimer(Timer("long"), 1e6))
    start(simulation, A)
    simulation.run_until(1.0)
    gone = weakref.ref(node)
    del node
    simulation.crash(A)
    assert gone() is None


def test_an_effect_that_only_the_core_knows_is_refused() -> None:
    simulation = Simulation(1, ConstantDelay())
    add(simulation, A, Route(B.id, Ping(1)))  # type: ignore[arg-type]
    start(simulation, A)
    with pytest.raises(TypeError, match="Route"):
        simulation.run_until(1.0)


def test_each_node_has_chance_of_its_own_that_follows_from_the_seed() -> None:
    def draws(seed: int) -> list[float]:
        simulation = Simulation(seed, ConstantDelay())
        return [simulation.node_random(name).random() for name in ("a", "b", "c 1", "c 2")]

    assert draws(1) == draws(1)
    assert len({*draws(1), *draws(2)}) == 8


def test_places_on_the_plane_make_a_metric() -> None:
    plane = PlaneDelay(0.1)
    names = [f"host:{number}" for number in range(40)]
    for a in names[:12]:
        assert plane.delay(a, a) == plane.seconds
        for b in names:
            assert plane.delay(a, b) == plane.delay(b, a) <= plane.seconds + 0.1 * 2**0.5
    assert len({plane.delay(names[0], name) for name in names}) == len(names)
