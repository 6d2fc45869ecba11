"""The experiments on SV trees, on small maps: what is exact is exact, and the paper's tendencies show."""

from __future__ import annotations

import numpy as np
import pytest

from overlaymq.messages import Batch
from overlaymq.sim.experiments.base import no_progress
from overlaymq.sim.experiments.runner import experiments
from overlaymq.sim.experiments.sv_churn import Churned
from overlaymq.sim.experiments.sv_figures import measure_tree
from overlaymq.sim.experiments.sv_flash_crowd import Crowd
from overlaymq.sim.published import TARGETS
from overlaymq.sim.sv_world import AT_REST, SvWorld
from overlaymq.sim.topology import TopologyNetwork
from overlaymq.sim.topology.mercator import Mercator, MercatorParameters

SMALL = MercatorParameters().scaled(1_000)


def make_network(seed: int = 1) -> TopologyNetwork:
    return TopologyNetwork(Mercator(seed, SMALL), seed)


@pytest.fixture(scope="module")
def world() -> SvWorld:
    world = SvWorld(1, make_network(), 300, AT_REST)
    world.build()
    return world


def test_both_trees_reach_everybody_and_only_the_sv_tree_is_polite(world: SvWorld) -> None:
    """Reference: SV-16, SV-17."""
    pair = world.add_pair(40)
    world.join([pair.sv, pair.rpf])
    sv, rpf = world.multicast(pair.sv), world.multicast(pair.rpf)
    assert not np.isnan(sv.by_tree).any()
    assert not np.isnan(rpf.by_tree).any()
    assert world.tree_faults(pair.sv) == world.tree_faults(pair.rpf) == []
    assert sv.messages == 40 < rpf.messages
    assert world.impolite == 0


def test_tables_have_the_papers_base_and_leaf_set(world: SvWorld) -> None:
    """Reference: SV 4.1: a base of size 8, a leaf set of size 16."""
    assert (1 << world.config.digit_bits, world.config.leaf_set_size) == (8, 16)
    tables = [node.pastry.state.table for node in world.nodes.values()]
    assert {table.bits for table in tables} == {3}
    assert max(len(table.row(0)) for table in tables) == 7


def test_no_copy_is_lost_when_directions_are_added_up(world: SvWorld) -> None:
    """Reference: SV-8, the reading that is not judged."""
    tree = measure_tree(world, world.add_pair(10))
    for shape in (tree.sv, tree.rpf):
        assert shape.both_ways.sum() == shape.stress.sum()
        assert len(shape.both_ways) <= np.count_nonzero(shape.stress) <= 2 * len(shape.both_ways)


def test_few_subscribers_are_fed_sooner_than_by_reverse_routes(world: SvWorld) -> None:
    """Reference: SV Figure 10, SV-7: where tables do not know distances."""
    trees = [measure_tree(world, world.add_pair(10)) for _ in range(4)]
    assert sum(tree.sv.delay for tree in trees) < sum(tree.rpf.delay for tree in trees)
    assert all(tree.sv.delay >= 0.99 * tree.ip_delay for tree in trees)


def test_content_that_a_stranger_forwards_is_seen(world: SvWorld) -> None:
    """Reference: SV-16; the observer counts who is only on the way of joins, and no subscriber."""
    group = world.add_pair(30).sv
    world.join([group])
    topic = group.descriptor.id
    batch = Batch(topic, group.root.id, 1, 1, 1, b"")
    seen: dict[str, set[int]] = {}
    for id_, node in world.nodes.items():
        place = world.sv_place(topic, id_)
        if place is not None and id_ != group.root.id:
            before = world.impolite
            world.ask_whether_polite(world.simulation.hosts[node.me.address], batch)
            seen.setdefault(place.role, set()).add(world.impolite - before)
    world.impolite = 0
    assert seen == {"subscriber": {0}, "path": {1}}


def test_a_whole_crowd_gets_content(world: SvWorld) -> None:
    """Reference: SV 5.3, SV-10."""
    group = world.add_pair(60).sv
    seconds = Crowd(world, group).run()
    world.watch()
    assert max(seconds) < 20
    assert world.tree_faults(group) == []
    assert world.impolite == 0


def test_a_tree_lives_on_while_every_node_changes() -> None:
    """Reference: SV 5.4, SV-12, SV-16, SV-17."""
    churned = Churned(1, 60, 600.0, make_network())
    churned.run(no_progress)
    _, shares = churned.shares()
    assert len(shares) == 120
    assert np.mean(shares[-30:]) > 0.5
    assert churned.world.impolite == 0
    assert not any(moment.loops for moment in churned.moments.values())


def test_figures_of_the_paper_have_an_experiment_or_a_test() -> None:
    """Reference: protocols.md 7.4; the others are of SkipNet, of bandwidths, of its cluster and its code."""
    covered = {id_ for one in experiments().values() for id_ in one.ids}
    targets = [one for one in TARGETS.values() if one.id.startswith("SV-")]
    open_ = {one.id for one in targets if not one.test} - covered
    assert open_ == {"SV-1", "SV-3", "SV-5", "SV-14", "SV-15", "SV-20"}
