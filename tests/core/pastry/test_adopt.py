"""Tables that somebody else has filled: the node is in the ring at once, and quiet unless told."""

from __future__ import annotations

from overlaymq.events import SetTimer
from overlaymq.ids import Id
from overlaymq.messages import Peer
from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.ring import PastryOnly, Ring

NEAR, FAR, OTHER = (Peer(Id(number << 120), f"peer-{number}") for number in (1, 2, 200))


def _adopted(timers: bool) -> tuple[PastryOnly, list[object]]:
    node = PastryOnly(Ring(1, ConstantDelay()), Peer(Id(5), "me"))
    effects = node.pastry.adopt(
        [NEAR, FAR, OTHER], [(NEAR, 0.1), (OTHER, 0.2)], [(FAR, 0.3), (NEAR, 0.1)], 7.0, timers
    )
    return node, list(effects)


def test_the_node_is_active_with_what_it_was_given() -> None:
    node, _ = _adopted(timers=False)
    snapshot = node.pastry.snapshot()
    assert snapshot.active
    assert snapshot.phase == "active"
    assert set(snapshot.leaves) == {NEAR, FAR, OTHER}
    assert snapshot.entries == 2
    assert snapshot.neighbours == (NEAR, FAR)
    assert node.pastry.state.table.distance(OTHER.id) == 0.2


def test_it_is_quiet() -> None:
    _, effects = _adopted(timers=False)
    assert not [effect for effect in effects if isinstance(effect, SetTimer)]


def test_its_timers_run_when_asked_for() -> None:
    _, effects = _adopted(timers=True)
    parts = {effect.timer.part for effect in effects if isinstance(effect, SetTimer)}
    assert {"pastry.heartbeat", "pastry.gossip", "pastry.rows"} <= parts
