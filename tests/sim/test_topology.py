"""Transit-stub topologies: the generator's rules, the published figures, and routes checked the slow way."""

from __future__ import annotations

import heapq
from functools import cache
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from overlaymq.sim.topology import Links, TopologyNetwork, TransitStub, TransitStubParameters
from overlaymq.sim.topology.__main__ import main
from overlaymq.sim.topology.describe import describe, meets_bar, overall
from overlaymq.sim.topology.routes import shortest_routes
from overlaymq.sim.topology.transit_stub import (
    INTER_DOMAIN,
    KINDS,
    STUB,
    STUB_STUB,
    TRANSIT,
    TRANSIT_STUB,
    Builder,
    Scales,
    Weights,
    random_domain,
    spread,
)

if TYPE_CHECKING:
    from overlaymq.sim.network import NetworkModel

SMALL = TransitStubParameters(transit_domains=3, transit_routers=2, stubs=2, stub_routers=4)
TANGLED = TransitStubParameters(
    transit_domains=3,
    transit_routers=3,
    stubs=2,
    stub_routers=3,
    extra_transit_stub=4,
    extra_stub_stub=6,
)


@cache
def small(seed: int = 1, parameters: TransitStubParameters = SMALL) -> TransitStub:
    return TransitStub(seed, parameters)


def link_weights(topology: TransitStub) -> list[int]:
    weights = topology.weights
    per_kind = [1, weights.transit_stub, 1, weights.inter_domain, weights.stub_stub]
    return [per_kind[kind] for kind in topology.kinds]


def dijkstra(topology: TransitStub, source: int) -> dict[int, tuple[int, int]]:
    """(weight, hops) from a source, by the textbook."""
    neighbours: dict[int, list[tuple[int, int]]] = {
        router: [] for router in range(topology.routers)
    }
    links = topology.links
    for a, b, weight in zip(links.a, links.b, link_weights(topology), strict=True):
        neighbours[int(a)].append((int(b), weight))
        neighbours[int(b)].append((int(a), weight))
    done: dict[int, tuple[int, int]] = {}
    heap = [(0, 0, source)]
    while heap:
        weight, hops, here = heapq.heappop(heap)
        if here not in done:
            done[here] = weight, hops
            for there, more in neighbours[here]:
                heapq.heappush(heap, (weight + more, hops + 1, there))
    return done


def smallest_parent(topology: TransitStub, source: int, router: int) -> int:
    """The smallest neighbour that a best route to a router may come from."""
    distance = dijkstra(topology, source)
    links = topology.links
    parents = []
    for a, b, weight in zip(links.a, links.b, link_weights(topology), strict=True):
        for here, there in ((int(a), int(b)), (int(b), int(a))):
            if there == router:
                best = distance[here]
                if (best[0] + weight, best[1] + 1) == distance[router]:
                    parents.append(here)
    return min(parents)


# --- the generator ---------------------------------------------------------------------------------


@pytest.mark.parametrize("faithful", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_number_of_routers_is_exact(seed: int, faithful: bool) -> None:
    """Sizes vary but their totals do not. Reference: SCRIBE (JSAC 2002), section IV.A."""
    topology = TransitStub(seed, faithful=faithful)
    assert topology.routers == 5050
    assert int(topology.transit.sum()) == 50


def test_the_scales_are_the_generators() -> None:
    """Reference: GT-ITM's ts.c, for 10 x 5 x (10 x 10 + 1) routers."""
    assert Scales.of(TransitStubParameters()) == Scales(world=636, transit=318, stub=75)


@pytest.mark.parametrize(
    ("diameters", "weights"),
    [((1, 3, 5), Weights(2, 6, 17)), ((1, 4, 5), Weights(3, 7, 19)), ((0, 0, 0), Weights(1, 2, 4))],
)
def test_policy_weights_follow_from_diameters(
    diameters: tuple[int, int, int], weights: Weights
) -> None:
    """Reference: GT-ITM's documentation, "edge weights"."""
    assert Weights.of(*diameters) == weights


@pytest.mark.parametrize("seed", range(20))
def test_spreading_keeps_the_mean_and_leaves_nobody_with_nothing(seed: int) -> None:
    numbers = spread(Random(seed), 12, 3)
    assert sum(numbers) == 36
    assert min(numbers) >= 1


def test_a_domain_is_connected_and_its_points_are_distinct() -> None:
    for seed in range(50):
        domain = random_domain(Random(seed), 6, 5, 0.4)
        assert len(set(domain.points)) == 6
        assert all(0 <= x < 5 and 0 <= y < 5 for x, y in domain.points)
        reached = {0}
        for _ in range(6):
            reached |= {end for edge in domain.edges if reached & set(edge) for end in edge}
        assert len(reached) == 6


def test_adjacent_domains_are_joined_by_two_links() -> None:
    """Ten domains, all adjacent. Reference: GT-ITM's ts.c."""
    kinds = TransitStub(3).kinds
    assert int((kinds == INTER_DOMAIN).sum()) == 2 * 45


def test_each_stub_hangs_on_one_transit_router() -> None:
    topology = TransitStub(3)
    links, kinds = topology.links, topology.kinds
    up = kinds == TRANSIT_STUB
    assert int(up.sum()) == 500
    assert topology.transit[links.a[up]].all()
    assert not topology.transit[links.b[up]].any()
    assert not topology.transit[links.a[kinds == STUB]].any()
    assert topology.transit[links.a[(kinds == TRANSIT) | (kinds == INTER_DOMAIN)]].all()


def test_extra_links_are_drawn_on_request() -> None:
    kinds = small(1, TANGLED).kinds
    assert int((kinds == TRANSIT_STUB).sum()) == 3 * 3 * 2 + 4
    assert int((kinds == STUB_STUB).sum()) == 6


@pytest.mark.parametrize("faithful", [True, False])
def test_the_fault_shrinks_all_transit_domains_but_the_first(faithful: bool) -> None:
    """Reference: GT-ITM's ts.c, where the stubs' settings overwrite the transit domains'."""
    builders = [Builder(seed, TransitStubParameters(), faithful) for seed in range(5)]
    for builder in builders:
        builder.build()
    widths = [
        [
            max(builder.points[router][0] for router in domain)
            - min(builder.points[router][0] for router in domain)
            for domain in builder.domains
        ]
        for builder in builders
    ]
    assert max(first for first, *_ in widths) > 75
    assert (max(max(rest) for _, *rest in widths) < 75) == faithful


def test_one_seed_one_topology() -> None:
    def drawn(seed: int) -> list[bytes]:
        links = TransitStub(seed, SMALL).links
        return [links.a.tobytes(), links.b.tobytes(), links.length.tobytes()]

    assert drawn(4) == drawn(4)
    assert drawn(4) != drawn(5)


def test_the_published_topology_is_met() -> None:
    """Mean core link 40.7 ms, 1,035,295 links less 100 LAN links a router. Reference: SCRIBE, IV.A and D."""
    summary = overall([describe(TransitStub(seed), seed, routes=False) for seed in range(1, 11)])
    assert summary.mean_link_ms == pytest.approx(40.7, abs=0.3)
    assert summary.directed_links == pytest.approx(25_300, rel=0.015)


# --- routes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [SMALL, TANGLED])
@pytest.mark.parametrize("seed", range(3))
def test_routes_are_the_shortest_by_weight_then_hops(
    seed: int, parameters: TransitStubParameters
) -> None:
    topology = small(seed, parameters)
    weight_of = {}
    for a, b, weight in zip(
        topology.links.a, topology.links.b, link_weights(topology), strict=True
    ):
        weight_of[int(a), int(b)] = weight_of[int(b), int(a)] = weight
    for source in range(0, topology.routers, 3):
        distance = dijkstra(topology, source)
        for target in range(topology.routers):
            steps = list(pairwise(topology.path(source, target)))
            assert (sum(weight_of[step] for step in steps), len(steps)) == distance[target]
            assert topology.hops(source, target) == len(steps)


@pytest.mark.parametrize("seed", range(3))
def test_ties_go_to_the_smallest_number(seed: int) -> None:
    topology = small(seed, TANGLED)
    random = Random(seed)
    for _ in range(60):
        source, router = random.sample(range(topology.routers), 2)
        assert topology.path(source, router)[-2] == smallest_parent(topology, source, router)


@pytest.mark.parametrize("parameters", [SMALL, TANGLED])
def test_the_delay_is_the_sum_over_the_route(parameters: TransitStubParameters) -> None:
    topology = small(2, parameters)
    links = topology.links
    length = {}
    for a, b, seconds in zip(links.a, links.b, links.length, strict=True):
        length[int(a), int(b)] = length[int(b), int(a)] = float(seconds)
    for source in range(topology.routers):
        for target in range(topology.routers):
            steps = pairwise(topology.path(source, target))
            delay = sum(length[step] for step in steps)
            assert topology.delay(source, target) == pytest.approx(delay, rel=1e-6)
            assert topology.delay_row(source)[target] == topology.delay_matrix()[source, target]


def test_the_routes_of_one_source_form_a_tree() -> None:
    topology = small(1, TANGLED)
    for source in range(topology.routers):
        tree = topology.tree(source)
        assert tree.parent[source] == source
        for target in range(topology.routers):
            path = topology.path(source, target)
            assert all(tree.parent[after] == before for before, after in pairwise(path))
            assert tree.hops[target] == len(path) - 1


def test_blocks_of_sources_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TransitStub(1, TANGLED).routes
    monkeypatch.setattr("overlaymq.sim.topology.routes.BLOCK", 7)
    parts = TransitStub(1, TANGLED).routes
    assert np.array_equal(whole.parent, parts.parent)
    assert np.array_equal(whole.delay, parts.delay)
    assert np.array_equal(whole.hops, parts.hops)


def test_stubs_carry_no_transit_traffic() -> None:
    """A route leaves its stub, crosses transit routers, and enters one. Reference: GT-ITM's documentation."""
    topology = small(1)
    for source in range(topology.routers):
        for target in range(topology.routers):
            inside = [bool(topology.transit[router]) for router in topology.path(source, target)]
            changes = sum(here != there for here, there in pairwise(inside))
            assert changes <= 2
            if changes == 2:
                assert not inside[0]


@pytest.mark.parametrize(
    ("a", "b", "weight", "reason"),
    [([0], [1], [1], "not connected"), ([0, 1], [1, 2], [1, 300], "too heavy")],
)
def test_graphs_that_cannot_be_routed_are_refused(
    a: list[int], b: list[int], weight: list[int], reason: str
) -> None:
    links = Links(np.array(a), np.array(b), np.ones(len(a)))
    with pytest.raises(ValueError, match=reason):
        shortest_routes(3, links, np.array(weight))


def test_only_neighbours_have_a_link() -> None:
    topology = small()
    links = topology.links
    both = (
        topology.link_indexes(links.a[:5], links.b[:5]),
        topology.link_indexes(links.b[:5], links.a[:5]),
    )
    assert both[0].tolist() == [0, 1, 2, 3, 4]
    assert (both[1] - both[0]).tolist() == [len(links)] * 5
    last = topology.routers - 1
    with pytest.raises(ValueError, match="not neighbours"):
        topology.link_indexes(np.array([last]), np.array([last]))


# --- end nodes -------------------------------------------------------------------------------------


def test_nodes_are_a_lan_link_away_from_their_routers() -> None:
    topology = small()
    network = TopologyNetwork(topology, 1)
    names = [f"host:{number}" for number in range(100)]
    network.place_all(names)
    for source in names[:10]:
        for target in names:
            core = topology.delay(network.router_of[source], network.router_of[target])
            assert network.delay(source, target) == 0.002 + core


def test_two_nodes_on_one_router_are_two_milliseconds_apart() -> None:
    """Reference: SCRIBE (JSAC 2002), section IV.A: LAN links of 1 ms."""
    network = TopologyNetwork(small(), 1)
    network.router_of.update(a=3, b=3)
    assert network.delay("a", "b") == 0.002


def test_places_follow_from_the_seed_and_the_order_of_first_use() -> None:
    def places(seed: int) -> list[int]:
        network = TopologyNetwork(TransitStub(1), seed)
        network.place_all(["a", "b", "a", "c"])
        assert list(network.node_of.values()) == [0, 1, 2]
        return list(network.router_of.values())

    assert places(1) == places(1)
    assert places(1) != places(2)


def test_it_is_a_network_model_of_the_simulator() -> None:
    model: NetworkModel = TopologyNetwork(small(), 1)
    assert model.delay("a", "b") >= 0.002


def test_an_unknown_address_is_placed_when_a_message_is_sent() -> None:
    network, other = (TopologyNetwork(small(), 1) for _ in range(2))
    other.place_all(["a", "b"])
    assert network.delay("a", "b") == other.delay("a", "b")
    assert network.router_of == other.router_of


def test_nodes_are_spread_over_all_routers() -> None:
    topology = small()
    network = TopologyNetwork(topology, 1)
    network.place_all(str(number) for number in range(400 * topology.routers))
    counts = np.bincount(list(network.router_of.values()), minlength=topology.routers)
    assert counts.min() > 300
    assert counts.max() < 500


# --- figures ---------------------------------------------------------------------------------------


def test_a_description_counts_each_kind_of_link() -> None:
    topology = small(1, TANGLED)
    figures = describe(topology, 1)
    assert sum(kind.links for kind in figures.kinds.values()) == len(topology.links)
    assert list(figures.kinds) == list(KINDS)
    assert figures.directed_links == 2 * len(topology.links)
    pairs = topology.routers * (topology.routers - 1)
    hops = sum(
        topology.hops(a, b) for a in range(topology.routers) for b in range(topology.routers)
    )
    assert figures.mean_hops == pytest.approx(hops / pairs)


def test_the_command_prints_each_seed_and_all_together(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--seeds", "2", "--no-routes", "--json"])
    printed = msgspec.json.decode(capsys.readouterr().out)
    assert [row["seed"] for row in printed["seeds"]] == [1, 2]
    assert printed["overall"]["routers"] == 5050
    assert code == (0 if printed["ok"] else 1)


def test_the_command_says_in_words_which_seeds_miss_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--seeds", "2", "--no-routes"])
    printed = capsys.readouterr().out
    alone = sum(meets_bar(describe(TransitStub(seed), seed, routes=False)) for seed in (1, 2))
    assert f"{alone} of 2 seeds meet it alone" in printed
    assert printed.count("misses alone") == 2 - alone
