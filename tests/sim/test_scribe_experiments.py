"""The Scribe experiments: their world is what they say, and small ones come out as theory has it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from overlaymq.core.pastry.routing import Way, next_hop
from overlaymq.ids import shared_digits
from overlaymq.sim.experiments import scribe
from overlaymq.sim.experiments.base import Settings
from overlaymq.sim.experiments.scribe_bottleneck import Probes
from overlaymq.sim.experiments.scribe_figures import padded_median, spread_of_bins, spread_of_cdf
from overlaymq.sim.scribe_world import ANSWER, STILL, World, moving, zipf_sizes
from overlaymq.sim.topology import TopologyNetwork, TransitStub
from overlaymq.sim.topology.transit_stub import TransitStubParameters

if TYPE_CHECKING:
    from overlaymq.config import Config
    from overlaymq.ids import Id
    from overlaymq.sim.scribe_world import Group

SMALL = TransitStubParameters(transit_domains=3, transit_routers=3, stubs=3, stub_routers=4)


def make_world(seed: int = 1, nodes: int = 300, config: Config = STILL) -> World:
    world = World(seed, TopologyNetwork(TransitStub(seed, SMALL), seed), nodes, config)
    world.build()
    return world


@pytest.fixture(scope="module")
def joined() -> World:
    world = make_world()
    world.join(world.add_groups([300, 100, 30, 11, 11, 1]))
    return world


def route(world: World, start: Id, key: Id) -> list[Id]:
    path = [start]
    while True:
        way, peer = next_hop(world.nodes[path[-1]].pastry.state, key)
        if way is Way.DELIVER:
            return path
        path.append(peer.id)


def edges(world: World, group: Group) -> set[tuple[Id, Id]]:
    found = set()
    for id_ in world.nodes:
        found |= {(child.id, id_) for child in world.children(group, id_)}
    return found


def test_group_sizes_are_the_published_ones() -> None:
    """Reference: Scribe JSAC IV.A, SC-3, SC-4."""
    sizes = zipf_sizes(100_000, 1_500)
    assert (sizes[0], sizes[-1], sum(sizes)) == (100_000, 11, 395_247)


# --- tables as arrivals leave them -----------------------------------------------------------------


def test_arrivals_fill_slots_with_nodes_that_fit(joined: World) -> None:
    for node in joined.nodes.values():
        state = node.pastry.state
        for peer in state.table.peers:
            shared = shared_digits(state.me.id, peer.id, 4)
            assert state.table.slot(peer.id) >> 4 == shared


def test_arrivals_leave_few_slots_of_the_first_row_empty(joined: World) -> None:
    """Nobody notifies those who lack an entry; later newcomers happen to."""
    digits = {id_ >> 124 for id_ in joined.nodes}
    held = 0
    for id_, node in joined.nodes.items():
        row = {peer.id >> 124 for peer in node.pastry.state.table.peers}
        held += len(row - {id_ >> 124})
    assert held > 0.95 * len(joined.nodes) * (len(digits) - 1)


def test_routes_of_arrivals_end_at_the_closest_node(joined: World) -> None:
    for group in joined.groups:
        for peer in group.members[:50]:
            assert route(joined, peer.id, group.descriptor.key)[-1] == group.root.id


def test_a_newcomer_learns_of_nearer_nodes_than_a_random_choice_would_give(joined: World) -> None:
    """Reference: Scribe JSAC II.A: entries refer to near nodes."""
    network, chosen, anyone = joined.network, [], []
    addresses = [node.me.address for node in joined.nodes.values()]
    for node in list(joined.nodes.values())[:50]:
        here = node.me.address
        top = [p for p in node.pastry.state.table.peers if p.id >> 124 != node.me.id >> 124]
        chosen += [network.delay(here, peer.address) for peer in top]
        anyone += [network.delay(here, other) for other in addresses]
    assert np.mean(chosen) < 0.5 * np.mean(anyone)


def test_the_same_seed_builds_the_same_tables() -> None:
    one, other = (make_world(seed=5, nodes=60) for _ in range(2))
    for id_, node in one.nodes.items():
        peers = list(node.pastry.state.table.peers)
        assert peers == list(other.nodes[id_].pastry.state.table.peers)


# --- trees -----------------------------------------------------------------------------------------


def test_a_tree_is_the_union_of_the_routes_of_its_members(joined: World) -> None:
    """Reference: Scribe JSAC III-A.2."""
    for group in joined.groups:
        wanted = set()
        for peer in group.members:
            wanted |= set(pairwise(route(joined, peer.id, group.descriptor.key)))
        assert edges(joined, group) == wanted


def test_trees_have_no_faults(joined: World) -> None:
    assert [joined.tree_faults(group) for group in joined.groups] == [[]] * len(joined.groups)


def test_a_multicast_takes_one_message_per_edge_and_reaches_everyone() -> None:
    """Reference: issue bar: messages per multicast equal the tree's edges."""
    world = make_world(seed=2)
    for group in world.add_groups([300, 40, 11]):
        world.join([group])
        multicast = world.multicast(group)
        assert multicast.messages == len(edges(world, group)) == world.tree_size(group) - 1
        assert not np.isnan(multicast.by_tree).any()


def test_delays_add_up_along_the_tree() -> None:
    world = make_world(seed=3, nodes=100)
    [group] = world.add_groups([50])
    world.join([group])
    by_tree = iter(world.multicast(group).by_tree)
    address = {id_: node.me.address for id_, node in world.nodes.items()}
    for peer in group.members:
        if peer.id != group.root.id:
            way = route(world, peer.id, group.descriptor.key)[::-1]
            hops = [world.network.delay(address[a], address[b]) for a, b in pairwise(way)]
            assert next(by_tree) == pytest.approx(sum(hops))


def test_joining_stresses_links_as_much_as_multicasting() -> None:
    """Reference: Scribe JSAC IV.D, SC-26."""
    world = make_world(seed=4)
    groups = world.add_groups([200, 50, 11])
    world.join(groups)
    for group in groups:
        world.multicast(group)
    assert world.joins.per_link().sum() == world.batches.per_link().sum()


def test_node_stress_counts_every_entry(joined: World) -> None:
    tables, entries = joined.node_stress()
    assert entries.sum() == sum(len(edges(joined, group)) for group in joined.groups)
    parents = [{parent for _, parent in edges(joined, group)} for group in joined.groups]
    assert tables.sum() == sum(map(len, parents))


def test_the_naive_multicast_sends_to_each_member() -> None:
    """Reference: Scribe JSAC IV.D; `direct` is the naive multicast."""
    world = make_world(seed=6, nodes=100)
    [group] = world.add_groups([30], "direct")
    world.join([group])
    multicast = world.multicast(group)
    assert multicast.messages == len(multicast.by_ip)
    assert multicast.by_tree == pytest.approx(multicast.by_ip)


# --- load ------------------------------------------------------------------------------------------


def test_the_remover_bounds_children_and_makes_no_loop() -> None:
    """Reference: Scribe JSAC IV.E, SC-27, SC-32."""
    bound = 8
    world = make_world(seed=7, config=moving(max_children=bound))
    probes = Probes(world)
    groups = world.add_groups([300, 100, 30])
    world.join(groups)
    world.simulation.run_until(world.simulation.now + 20 * ANSWER)
    assert world.node_stress()[1].max() <= bound
    assert [world.tree_faults(group) for group in groups] == [[], [], []]
    assert 0 < probes.of_children <= probes.all


def test_collapse_leaves_no_forwarder_with_a_single_child() -> None:
    """Reference: Scribe JSAC IV.F."""
    after = 100.0
    world = make_world(seed=8, config=moving(collapse_after=after))
    groups = world.add_groups([11] * 5)
    world.join(groups)
    world.simulation.run_until(world.simulation.now + 20 * after)
    for group in groups:
        members = {group.root.id, *(peer.id for peer in group.members)}
        counts = {id_: len(world.children(group, id_)) for id_ in world.nodes}
        assert [id_ for id_, count in counts.items() if count == 1 and id_ not in members] == []
        assert world.tree_faults(group) == []


# --- experiments -----------------------------------------------------------------------------------


def test_the_median_counts_links_that_do_not_exist() -> None:
    assert padded_median(np.array([5, 5, 5]), 3) == 5.0
    assert padded_median(np.array([5, 5, 5]), 7) == 0.0


def test_networks_that_agree_have_no_spread() -> None:
    assert spread_of_cdf([np.array([1.0, 2.0]), np.array([2.0, 1.0])]) == 0.0
    assert spread_of_bins([np.array([1, 2, 2]), np.array([2, 1, 2])]) == 0.0


def test_a_small_run_of_the_main_experiment_has_every_row_and_no_faulty_tree() -> None:
    found = scribe.EXPERIMENT.run(Settings(nodes=200, runs=1))
    ids = {row.id for row in found.rows}
    assert {f"SC-{n}" for n in (3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17, 19)} <= ids
    assert {f"SC-{n}" for n in (20, 21, 22, 23, 25, 26)} <= ids
    assert [row.measured for row in found.rows if row.id == "SCRIBE-1"] == [0.0]
    assert set(found.series) == {"delay", "members", "tables", "entries", "links"}
