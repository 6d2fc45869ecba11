"""The oracle's rings are what its text says, by a dumb look at everyone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from overlaymq.sim import footprint, oracle
from overlaymq.sim.network import ConstantDelay, PlaneDelay
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology.network import TopologyNetwork
from overlaymq.sim.topology.transit_stub import TransitStub, TransitStubParameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.messages import Peer
    from overlaymq.sim.network import NetworkModel
    from overlaymq.sim.ring import PastryOnly


class Unknown:
    """A model that the oracle has no short cut for."""

    def __init__(self) -> None:
        self._plane = PlaneDelay()

    def delay(self, source: str, target: str) -> float:
        return self._plane.delay(source, target)


def _transit_stub() -> NetworkModel:
    small = TransitStubParameters(transit_domains=2, transit_routers=2, stubs=2, stub_routers=3)
    return TopologyNetwork(TransitStub(3, small), 3)


MODELS: dict[str, Callable[[], NetworkModel]] = {
    "constant": ConstantDelay,
    "plane": PlaneDelay,
    "transit-stub": _transit_stub,
    "any": Unknown,
}


def _ring(model: str, count: int, seed: int = 1, with_timers: bool = False) -> Ring:
    ring = Ring(seed, MODELS[model]())
    oracle.build(ring, count, with_timers=with_timers)
    return ring


def _peers(ring: Ring) -> list[Peer]:
    return [node.pastry.me for node in ring.nodes.values()]


def _round_trip(ring: Ring, one: Peer, other: Peer) -> float:
    delay = ring.simulation.network.delay
    return delay(one.address, other.address) + delay(other.address, one.address)


def _tables(ring: Ring) -> list[tuple[Peer, ...]]:
    return [
        (*node.pastry.leaves(), *node.pastry.state.table.peers, *_neighbours(node))
        for node in ring.nodes.values()
    ]


def _neighbours(node: PastryOnly) -> tuple[Peer, ...]:
    return node.pastry.state.neighbourhood.peers


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 18, 40, 200])
def test_leaf_sets_are_exact(count: int) -> None:
    assert _ring("constant", count).wrong_leaf_sets() == []


@pytest.mark.parametrize("model", MODELS)
def test_each_slot_has_the_nearest_node_that_fits(model: str) -> None:
    """Reference: Scribe JSAC II-A, proximity neighbour selection."""
    ring = _ring(model, 150)
    for node in ring.nodes.values():
        me, table = node.pastry.me, node.pastry.state.table
        nearest: dict[int, float] = {}
        for peer in _peers(ring):
            if peer is not me:
                slot = table.slot(peer.id)
                nearest[slot] = min(nearest.get(slot, math.inf), _round_trip(ring, me, peer))
        found = {table.slot(peer.id): _round_trip(ring, me, peer) for peer in table.peers}
        assert found == pytest.approx(nearest, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_distances_are_what_a_measurement_gives(model: str) -> None:
    ring = _ring(model, 60)
    for node in ring.nodes.values():
        me, table = node.pastry.me, node.pastry.state.table
        for peer in table.peers:
            measured = _round_trip(ring, me, peer)
            assert table.distance(peer.id) == pytest.approx(measured, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("count", [20, 150])
def test_neighbours_are_the_nearest_of_all(model: str, count: int) -> None:
    """Reference: Pastry Middleware 2001, the neighbourhood set."""
    ring = _ring(model, count)
    size = ring.config.neighbourhood_size
    for node in ring.nodes.values():
        me = node.pastry.me
        away = sorted(_round_trip(ring, me, peer) for peer in _peers(ring) if peer is not me)
        found = [_round_trip(ring, me, peer) for peer in _neighbours(node)]
        assert len(set(_neighbours(node))) == len(found)
        assert found == pytest.approx(away[:size], rel=1e-12)


def test_equally_near_nodes_are_all_chosen_by_somebody() -> None:
    ring = _ring("constant", 150)
    chosen = {peer.id for node in ring.nodes.values() for peer in node.pastry.state.table.peers}
    assert chosen == set(ring.nodes)


def test_the_same_seed_gives_the_same_tables() -> None:
    assert _tables(_ring("transit-stub", 100)) == _tables(_ring("transit-stub", 100))
    assert _tables(_ring("transit-stub", 100)) != _tables(_ring("transit-stub", 100, seed=2))


@pytest.mark.parametrize("with_timers", [False, True])
def test_every_lookup_ends_at_the_owner(with_timers: bool) -> None:
    ring = _ring("transit-stub", 200, with_timers=with_timers)
    requests = ring.random_lookups(300, 1.0)
    ring.simulation.run_until(ring.simulation.now + 10)
    ids = ring.ids()
    for request in requests:
        (delivery,) = ring.deliveries[request]
        assert delivery.at.id == ring.owner(ring.keys[request], ids)


def test_without_timers_nothing_ever_happens() -> None:
    ring = _ring("plane", 100)
    ring.simulation.run_until(10_000.0)
    assert (ring.simulation.events, ring.simulation.messages) == (0, 0)


def test_with_timers_the_ring_repairs_itself() -> None:
    ring = _ring("plane", 100, with_timers=True)
    for peer in ring.random.sample(_peers(ring), 10):
        ring.crash(peer)
    ring.simulation.run_until(60.0)
    assert ring.wrong_leaf_sets() == []


def test_others_may_join_by_the_protocol() -> None:
    ring = _ring("transit-stub", 100, with_timers=True)
    ring.grow(10, spacing=1.0)
    assert ring.settle()
    ring.simulation.run_until(ring.simulation.now + 10)
    assert ring.wrong_leaf_sets() == []


def test_only_an_empty_ring_is_filled() -> None:
    ring = _ring("constant", 3)
    with pytest.raises(ValueError, match="whole rings"):
        oracle.build(ring, 3)


def test_memory_that_was_freed_is_nobodys() -> None:
    """What came before the nodes would make the first of them seem cheap."""
    before = footprint.resident_mb()
    blocks = [bytes(2000) for _ in range(100_000)]
    assert footprint.resident_mb() > before + 150
    # The last one stays at the top of the heap, so that nothing below it is given back unasked.
    del blocks[:-1]
    assert footprint.resident_mb() < before + 50
