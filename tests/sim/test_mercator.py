"""The Mercator-like Internet: the published counts, and hierarchical routes checked the slow way."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import cache
from itertools import groupby, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.sim.topology import LinkStress, Mercator, MercatorParameters, TopologyNetwork
from overlaymq.sim.topology.describe_internet import describe_internet
from overlaymq.sim.topology.graph import Links
from overlaymq.sim.topology.hierarchy import Hierarchical
from overlaymq.sim.topology.mercator import system_graph, system_sizes

SMALL = replace(MercatorParameters().scaled(400), systems=25, outer_links=40, largest=100)
seeds = st.integers(0, 4)
routers = st.integers(0, SMALL.routers - 1)


@cache
def small(seed: int = 1) -> Mercator:
    return Mercator(seed, SMALL)


@cache
def full() -> Mercator:
    return Mercator(1)


@cache
def lengths(seed: int) -> dict[tuple[int, int], float]:
    links = small(seed).links
    ends = zip(links.a.tolist(), links.b.tolist(), links.length.tolist(), strict=True)
    return {pair: length for a, b, length in ends for pair in ((a, b), (b, a))}


def fewest_hops(neighbours: dict[int, list[int]], source: int, target: int) -> int:
    """By the textbook."""
    hops = {source: 0}
    queue = deque([source])
    while target not in hops:
        here = queue.popleft()
        for there in neighbours[here]:
            if there not in hops:
                hops[there] = hops[here] + 1
                queue.append(there)
    return hops[target]


@cache
def inside(seed: int) -> dict[int, list[int]]:
    """Neighbours in the same AS."""
    topology = small(seed)
    system = topology.system_of
    neighbours: dict[int, list[int]] = {router: [] for router in range(topology.routers)}
    for a, b in sorted(lengths(seed)):
        if system[a] == system[b]:
            neighbours[a].append(b)
    return neighbours


@cache
def between(seed: int) -> dict[int, list[int]]:
    """Neighbouring ASs."""
    topology = small(seed)
    system = topology.system_of.tolist()
    neighbours: dict[int, list[int]] = {number: [] for number in range(topology.systems)}
    for a, b in sorted(lengths(seed)):
        if system[a] != system[b]:
            neighbours[system[a]].append(system[b])
    return neighbours


# --- the generator ---------------------------------------------------------------------------------


def test_the_published_counts_are_exact() -> None:
    """Reference: Subscriber/Volunteer Trees, section 4.1."""
    topology = full()
    assert topology.routers == 102_639
    assert len(topology.links) == 142_303
    assert topology.systems == 2_662
    system, links = topology.system_of, topology.links
    crossing = system[links.a] != system[links.b]
    assert int(crossing.sum()) == len(topology.outer) == 4_851
    slow = topology.outer.length >= 0.3
    assert int(slow.sum()) == round(0.03 * 4_851)
    assert topology.outer.length.min() >= 0.01
    assert not ((topology.outer.length > 0.04) & ~slow).any()


def test_no_two_links_join_the_same_routers() -> None:
    links = small().links
    pairs = np.sort(np.stack((links.a, links.b), axis=1), axis=1)
    assert len(np.unique(pairs, axis=0)) == len(links)
    assert (links.a != links.b).all()


@pytest.mark.parametrize(("systems", "links"), [(2, 1), (3, 3), (6, 5), (6, 15), (200, 364)])
def test_systems_are_joined_by_the_wanted_number_of_links(systems: int, links: int) -> None:
    pairs = system_graph(Random(1), systems, links)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) == links
    neighbours: dict[int, list[int]] = {number: [] for number in range(systems)}
    for a, b in pairs:
        neighbours[a].append(b)
        neighbours[b].append(a)
    assert all(fewest_hops(neighbours, 0, number) < systems for number in range(systems))


@pytest.mark.parametrize("routers", [25, 26, 400, 2500])
def test_sizes_add_up_within_their_bounds(routers: int) -> None:
    sizes = system_sizes(Random(1), replace(SMALL, routers=routers))
    assert sum(sizes) == routers
    assert min(sizes) >= 1
    assert max(sizes) <= SMALL.largest


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (replace(SMALL, outer_links=5), "cannot be joined"),
        (replace(SMALL, routers=10), "do not fit"),
        (replace(SMALL, links=SMALL.outer_links + 10), "more links inside"),
        (replace(SMALL, links=10**9), "more links inside"),
    ],
)
def test_counts_that_no_network_has_are_refused(
    parameters: MercatorParameters, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Mercator(1, parameters)


def test_degrees_have_a_heavy_tail() -> None:
    """Reference: Govindan and Tangmunarunkit (INFOCOM 2000)."""
    links = full().links
    degree = np.bincount(np.concatenate((links.a, links.b)))
    assert degree.mean() == pytest.approx(2.77, abs=0.01)
    assert degree.max() > 30 * degree.mean()
    assert np.median(degree) <= 2


def test_one_seed_one_network() -> None:
    def drawn(seed: int) -> list[bytes]:
        links = Mercator(seed, SMALL).links
        return [links.a.tobytes(), links.b.tobytes(), links.length.tobytes()]

    assert drawn(4) == drawn(4)
    assert drawn(4) != drawn(5)


# --- routes ----------------------------------------------------------------------------------------


@given(seeds, routers, routers)
def test_a_route_is_connected_and_its_delay_is_the_sum(seed: int, source: int, target: int) -> None:
    topology = small(seed)
    path = topology.path(source, target)
    assert (path[0], path[-1]) == (source, target)
    delay = sum(lengths(seed)[step] for step in pairwise(path))
    assert topology.delay(source, target) == pytest.approx(delay, rel=1e-5)
    assert topology.delay_row(source)[target] == pytest.approx(delay, rel=1e-5)
    assert topology.hops(source, target) == topology.tree(source).hops[target] == len(path) - 1


@given(seeds, routers, routers)
def test_a_route_crosses_the_fewest_systems_and_never_returns_to_one(
    seed: int, source: int, target: int
) -> None:
    system = small(seed).system_of.tolist()
    crossed = [number for number, _ in groupby(system[r] for r in small(seed).path(source, target))]
    assert len(set(crossed)) == len(crossed)
    assert len(crossed) - 1 == fewest_hops(between(seed), system[source], system[target])


@given(seeds, routers, routers)
def test_inside_a_system_a_route_takes_the_fewest_hops(seed: int, source: int, target: int) -> None:
    system = small(seed).system_of.tolist()
    for _, part in groupby(small(seed).path(source, target), key=lambda router: system[router]):
        stretch = list(part)
        assert len(stretch) - 1 == fewest_hops(inside(seed), stretch[0], stretch[-1])


def test_the_routes_of_one_source_form_a_tree() -> None:
    topology = small()
    for source in range(0, topology.routers, 7):
        tree = topology.tree(source)
        assert tree.parent[source] == source
        others = np.delete(np.arange(topology.routers), source)
        parents = tree.parent[others]
        assert (tree.hops[parents] + 1 == tree.hops[others]).all()
        assert all(
            step in lengths(1) for step in zip(parents.tolist(), others.tolist(), strict=True)
        )


def test_there_and_back_may_differ() -> None:
    """Ties are broken as seen from the source, so that its routes form a tree."""
    a, b = np.array([0, 1, 4, 0, 2, 3]), np.array([1, 4, 5, 2, 3, 5])
    outer = Links(a, b, np.array([0.01, 0.01, 0.01, 0.02, 0.02, 0.02]))
    none = np.zeros(0, np.int64)
    ring = Hierarchical(np.arange(7), (none, none), outer, 0.0)
    assert ring.path(0, 5) == [0, 2, 3, 5]
    assert ring.path(5, 0) == [5, 4, 1, 0]
    assert ring.delay(0, 5) == pytest.approx(0.06)
    assert ring.delay(5, 0) == pytest.approx(0.03)


def test_a_system_in_pieces_is_refused() -> None:
    outer = Links(np.array([0]), np.array([2]), np.array([0.01]))
    with pytest.raises(ValueError, match="not connected"):
        _ = Hierarchical(
            np.array([0, 2, 3]), (np.array([], int), np.array([], int)), outer, 0.0
        ).plan


def test_link_stress_works_on_it_too() -> None:
    topology = small()
    network = TopologyNetwork(topology, 1)
    stress = LinkStress(network)
    random = Random(1)
    expected = np.zeros(2 * len(topology.links), np.int64)
    for _ in range(300):
        a, b = f"node-{random.randrange(40)}", f"node-{random.randrange(40)}"
        stress.count(a, b)
        path = np.array(topology.path(network.place(a), network.place(b)))
        np.add.at(expected, topology.link_indexes(path[:-1], path[1:]), 1)
    assert np.array_equal(stress.per_core_link(), expected)


def test_the_median_round_trip_is_the_published_one() -> None:
    """130 ms with a heavy tail. Reference: Subscriber/Volunteer Trees, section 4.1."""
    figures = describe_internet(full(), 1)
    assert figures.median_round_trip == pytest.approx(130, rel=0.1)
    assert figures.round_trip_99 > 4 * figures.median_round_trip
