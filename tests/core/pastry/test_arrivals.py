"""Joiners that do not get in: seeds that die, confirmations that never come, members that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overlaymq.core.pastry.arrivals import PATIENCE, confirm_seconds
from overlaymq.core.pastry.join import Phase
from overlaymq.events import Received, Send, Timer, TimerFired
from overlaymq.ids import Id
from overlaymq.messages import (
    Departing,
    JoinRefused,
    JoinRequest,
    LeafProbe,
    LeafProbeReply,
    Peer,
    Routed,
    RoutedAck,
)
from overlaymq.sim.faults import Faults

from .rings import WatchedRing

if TYPE_CHECKING:
    from overlaymq.sim.engine import Host
    from overlaymq.sim.ring import PastryOnly


class NeverActive:
    """A joiner that its leaf set has confirmed and that stays inactive for ever."""

    def __init__(self, ring: WatchedRing, me: Peer) -> None:
        self.heard: list[object] = []
        members = ring.peers()
        ring.simulation.add_node(me, self)
        for peer in members:
            ring.simulation.start(peer, Received(me, LeafProbe(active=False)))

    def handle(self, input: object, now: float) -> list[Send]:
        if not isinstance(input, Received):
            return []
        self.heard.append(input.message)
        if isinstance(input.message, LeafProbe):
            return [Send(input.peer, LeafProbeReply(active=False))]
        if isinstance(input.message, Routed):
            return [Send(input.peer, RoutedAck(input.message.serial))]
        return []


def holders(ring: WatchedRing, peer: Peer) -> list[PastryOnly]:
    return [node for node in ring.nodes.values() if peer.id in node.pastry.kept]


def patience(ring: WatchedRing) -> float:
    return PATIENCE * confirm_seconds(ring.config)


def test_members_do_not_keep_an_inactive_joiner_for_ever() -> None:
    ring = WatchedRing(30)
    ghost = Peer(Id(ring.ids()[10] + 1), "ghost")
    stuck = NeverActive(ring, ghost)
    ring.run(1)
    assert len(holders(ring, ghost)) == 16
    ring.run(patience(ring) + 5)
    assert holders(ring, ghost) == []
    assert any(isinstance(message, JoinRefused) for message in stuck.heard)
    request = ring.look_up(ghost.id, ring.nodes[ring.ids()[11]])
    ring.run(2)
    assert request in ring.deliveries
    ring.assert_exact()


def test_a_newcomer_beside_an_inactive_joiner_gets_in() -> None:
    ring = WatchedRing(30)
    ghost = Peer(Id(ring.ids()[10] + 1), "ghost")
    NeverActive(ring, ghost)
    ring.run(1)
    new = ring.join(Peer(Id(ghost.id + 1), "newcomer"), ring.peers()[20])
    ring.run(3)
    assert new.pastry.active
    assert ghost.id in new.pastry.kept


def confirming(ring: WatchedRing, faults: Faults) -> PastryOnly:
    """A joiner that most of its leaves know, and that one of them cannot reach."""
    near, cut_off = ring.peers()[10], ring.peers()[13]
    faults.cut(["joiner"], [cut_off.address])
    faults.cut([cut_off.address], ["joiner"])
    node = ring.join(Peer(Id(near.id + 1), "joiner"), ring.peers()[20])
    joining = node.pastry.state.joining
    assert ring.simulation.run_while(lambda: joining.phase is not Phase.CONFIRMING)
    ring.run(0.3)
    assert joining.phase is Phase.CONFIRMING
    assert len(holders(ring, node.pastry.me)) == 15
    return node


def time_is_up(ring: WatchedRing, node: PastryOnly) -> None:
    timer = Timer("pastry.join", 0, node.pastry.state.joining._round)
    ring.simulation.start(node.pastry.me, TimerFired(timer))


def test_a_joiner_that_is_not_confirmed_in_time_starts_over_cleanly() -> None:
    faults = Faults()
    ring = WatchedRing(30, faults=faults)
    node = confirming(ring, faults)
    for seed in node.pastry.state.joining.seeds:
        ring.crash(seed)
    faults.heal()
    time_is_up(ring, node)
    assert node.pastry.leaves() == ()
    ring.run(0.07)  # its goodbye, the question whether it is a late one, and the answer
    assert holders(ring, node.pastry.me) == []
    ring.run(30)
    assert node.pastry.active
    ring.assert_exact()


def test_a_late_goodbye_does_not_undo_a_newer_confirmation() -> None:
    """A restarted node says goodbye for its former life and joins; the goodbye comes last. Found by
    churn-and-loss, seed 94."""
    faults = Faults()
    ring = WatchedRing(30, faults=faults)
    node = confirming(ring, faults)
    faults.heal()
    holder = holders(ring, node.pastry.me)[0].pastry.me
    ring.simulation.start(holder, Received(node.pastry.me, Departing()))
    assert holder.id in [held.pastry.me.id for held in holders(ring, node.pastry.me)]
    ring.run(5)
    assert node.pastry.active
    ring.assert_exact()


def test_a_joiner_that_starts_over_hands_back_what_it_holds() -> None:
    faults = Faults()
    ring = WatchedRing(30, faults=faults)
    node = confirming(ring, faults)
    requests = [ring.look_up(node.pastry.me.id, ring.nodes[id_]) for id_ in ring.ids()[:9]]
    ring.run(0.3)
    assert node.pastry.snapshot().held == len(requests)
    time_is_up(ring, node)
    ring.run(0.3)
    assert node.pastry.snapshot().held == 0
    assert all(len(ring.deliveries[request]) == 1 for request in requests)


@pytest.mark.parametrize(
    "message", [LeafProbe(), Routed(Id(5), Peer(Id(9), "s"), 3, 1, LeafProbe())]
)
def test_a_node_that_is_not_being_confirmed_is_in_nobodys_leaf_set(message: LeafProbe) -> None:
    ring = WatchedRing(10)
    node = ring.join(ring.new_peer(), Peer(Id(1), "silent"))
    member = ring.peers()[0]
    effects = node.pastry.handle(Received(member, message), ring.simulation.now)
    assert effects == [Send(member, Departing())]
    assert node.pastry.leaves() == ()


def test_two_that_start_over_do_not_pass_each_other_over() -> None:
    """Each may have had the other's goodbye, and the one who is let in first asks the one who is not yet."""
    ring = WatchedRing(10)
    node = ring.join(ring.new_peer(), Peer(Id(1), "silent"))
    member = ring.peers()[0]
    node.pastry.handle(Received(member, Departing()), ring.simulation.now)
    assert member.id in node.pastry.state.failed
    node.pastry.handle(Received(member, LeafProbe()), ring.simulation.now)
    assert member.id not in node.pastry.state.failed


def test_a_searching_node_asks_for_nothing_that_only_a_confirmed_one_may() -> None:
    """Whatever it is used for meanwhile, and whoever dies: it sends no leaf probe before its reply."""
    ring = WatchedRing(40)
    early: list[str] = []

    def watch(_now: float, host: Host, effect: object) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, LeafProbe):
            node = host.node
            if not node.pastry.state.joining.admitted:  # type: ignore[attr-defined]
                early.append(host.peer.address)

    ring.simulation.on_effect = watch
    for _ in range(15):
        node = ring.join(ring.new_peer(), ring.peers()[0])
        for _ in range(20):
            ring.look_up(Id(ring.random.getrandbits(128)), node)
            ring.run(0.01)
        ring.crash(ring.peers()[5])
    ring.run(30)
    assert early == []


def test_a_stale_answer_confirms_nothing() -> None:
    ring = WatchedRing(10)
    node = ring.join(ring.new_peer(), Peer(Id(1), "silent"))
    reply = LeafProbeReply()
    ring.simulation.start(node.pastry.me, Received(ring.peers()[0], reply))
    assert node.pastry.leaves() == ()


def test_a_join_request_relayed_to_a_joiner_waits_there() -> None:
    """Its previous hop must not take the joiner for dead, nor its own joiner be refused."""
    faults = Faults()
    ring = WatchedRing(30, faults=faults)
    node = confirming(ring, faults)
    newcomer = Peer(Id(node.pastry.me.id + 1), "newcomer")
    routed = Routed(newcomer.id, newcomer, 7, 1, JoinRequest(newcomer))
    relay = ring.peers()[12]
    effects = node.pastry.handle(Received(relay, routed), ring.simulation.now)
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    assert RoutedAck(7) in sent
    assert not any(isinstance(message, JoinRefused) for message in sent)


def test_a_refusal_by_the_nearest_node_is_answered_by_asking_the_seed() -> None:
    ring = WatchedRing(5)
    seed = ring.peers()[0]
    node = ring.join(ring.new_peer(), seed)
    joining = node.pastry.state.joining
    joining._near = near = Peer(Id(3), "near")
    joining.phase = Phase.REQUESTED
    joining._requests = 1
    refusal = Received(near, JoinRefused("not yet"))
    effects = node.pastry.handle(refusal, ring.simulation.now)
    asked = [e.peer for e in effects if isinstance(e, Send) and isinstance(e.message, Routed)]
    assert asked == [seed]
    again = node.pastry.handle(Received(seed, JoinRefused("not yet")), ring.simulation.now)
    assert again == []
