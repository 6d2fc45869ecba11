"""Link stress, against a twin that walks every message along its route."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.sim.topology import (
    LinkStress,
    TopologyNetwork,
    TransitStub,
    TransitStubParameters,
    multicast_links,
)
from overlaymq.sim.topology.stress import both_ways

if TYPE_CHECKING:
    import pytest

    from overlaymq.sim.topology import Topology

NODES = [f"node-{number}" for number in range(30)]
nodes = st.sampled_from(NODES)


@cache
def topology() -> TransitStub:
    return TransitStub(
        1,
        TransitStubParameters(
            transit_domains=3, transit_routers=2, stubs=2, stub_routers=4, extra_stub_stub=5
        ),
    )


def fresh_network() -> TopologyNetwork:
    network = TopologyNetwork(topology(), 7)
    network.place_all(NODES)
    return network


@cache
def numbered(known: Topology) -> dict[tuple[int, int], int]:
    """Directed links by their ends; of parallel ones the first."""
    links = known.links
    numbers: dict[tuple[int, int], int] = {}
    for number, (a, b) in enumerate(zip(links.a.tolist(), links.b.tolist(), strict=True)):
        if (a, b) not in numbers:
            numbers[a, b], numbers[b, a] = number, number + len(links)
    return numbers


def walk(network: TopologyNetwork, source: str, target: str) -> list[int]:
    """The directed links of one message, found one by one."""
    numbers = numbered(network.topology)
    route = network.topology.path(network.place(source), network.place(target))
    lan = 2 * len(network.topology.links)
    up, down = lan + 2 * NODES.index(source), lan + 2 * NODES.index(target) + 1
    return [up, *(numbers[step] for step in pairwise(route)), down]


@given(st.lists(st.tuples(nodes, nodes, st.integers(1, 1000)), max_size=40))
def test_pushing_counts_up_a_tree_equals_walking(sent: list[tuple[str, str, int]]) -> None:
    network = fresh_network()
    stress = LinkStress(network)
    walked = np.zeros(2 * len(topology().links) + 2 * len(NODES), np.int64)
    for source, target, messages in sent:
        stress.count(source, target, messages)
        for link in walk(network, source, target):
            walked[link] += messages
    assert np.array_equal(stress.per_link(), walked)


@given(nodes, st.lists(nodes, max_size=20))
def test_a_multicast_uses_the_links_of_its_unicasts_once(source: str, members: list[str]) -> None:
    network = fresh_network()
    links = multicast_links(network, source, members)
    walked = {
        link for member in members if member != source for link in walk(network, source, member)
    }
    assert sorted(links.tolist()) == sorted(walked)


def test_counts_are_folded_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlaymq.sim.topology.stress.FOLD", 3)
    network = fresh_network()
    stress = LinkStress(network)
    for _ in range(5):
        for target in NODES[1:]:
            stress.count(NODES[0], target)
    up = 2 * len(topology().links)
    assert stress.per_link()[up] == 5 * (len(NODES) - 1)
    expected = np.zeros(up, np.int64)
    for target in NODES[1:]:
        for link in walk(network, NODES[0], target)[1:-1]:
            expected[link] += 5
    assert np.array_equal(stress.per_core_link(), expected)


def test_counting_goes_on_after_a_reading() -> None:
    stress = LinkStress(fresh_network())
    stress.count(NODES[0], NODES[1])
    once = stress.per_link()
    stress.count(NODES[0], NODES[1])
    assert np.array_equal(stress.per_link(), 2 * once)


def test_nodes_on_one_router_use_only_their_lan_links() -> None:
    network = fresh_network()
    network.router_of[NODES[1]] = network.router_of[NODES[0]]
    stress = LinkStress(network)
    stress.count(NODES[0], NODES[1], 3)
    per_link = stress.per_link()
    assert per_link.sum() == 6
    assert stress.per_core_link().sum() == 0


def test_a_node_placed_later_adds_links_at_the_end() -> None:
    network = fresh_network()
    stress = LinkStress(network)
    stress.count(NODES[0], NODES[1])
    before = stress.per_link()
    network.place("late")
    assert np.array_equal(stress.per_link(), [*before, 0, 0])


def test_both_ways_adds_the_two_directions_of_every_link() -> None:
    network = fresh_network()
    there, back, both = (LinkStress(network) for _ in range(3))
    there.count(NODES[0], NODES[1], 3)
    back.count(NODES[1], NODES[0], 4)
    both.count(NODES[0], NODES[1], 3)
    both.count(NODES[1], NODES[0], 4)
    folded = both_ways(network, both.per_link())
    assert len(folded) == len(network.topology.links) + len(NODES)
    assert folded.sum() == both.per_link().sum()
    one, other = (both_ways(network, way.per_link()) for way in (there, back))
    assert np.array_equal(folded, one + other)
    # Each end's LAN link carries what comes and what goes.
    assert folded[len(network.topology.links) :].tolist()[:2] == [7, 7]
    assert np.count_nonzero(both.per_link() == 7) == 0
