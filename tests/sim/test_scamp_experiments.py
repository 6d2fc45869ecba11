"""The experiments on SCAMP, on small groups: they run, and what is exact is exact."""

from __future__ import annotations

import numpy as np
import pytest

from overlaymq.config import ScampConfig
from overlaymq.sim.experiments.base import Settings
from overlaymq.sim.experiments.runner import experiments
from overlaymq.sim.experiments.scamp_lease import renew_all
from overlaymq.sim.published import TARGETS
from overlaymq.sim.scamp_world import Graph, World

NAMES = ("failures", "unsubscribe")


@pytest.mark.parametrize("name", NAMES)
def test_a_small_run_answers_for_all_its_ids(name: str) -> None:
    """Reference: SCAMP 4."""
    experiment = experiments()[f"scamp-{name}"]
    found = experiment.run(Settings(nodes=200, runs=1))
    assert {row.id for row in found.rows} == set(experiment.ids)
    assert all(row.ok for row in found.rows if row.low is None and row.high is None)


def test_every_figure_of_the_paper_has_an_experiment() -> None:
    """Reference: protocols.md 7.3."""
    covered = {id_ for one in experiments().values() for id_ in one.ids}
    wanted = {target.id for target in TARGETS.values() if target.id.startswith("SM-")}
    assert wanted - covered == {"SM-24"}


def test_leases_renewed_through_the_own_view_inflate_views_and_through_anyone_do_not() -> None:
    """Reference: protocols.md 5.4, lease drift."""
    means = {}
    for uniformly in (False, True):
        world = World(1, ScampConfig(mode="paper", lease=1e6, indirection=False))
        world.grow(400)
        before = world.sizes().mean()
        for _ in range(4):
            renew_all(world, Settings(nodes=400), uniformly=uniformly)
        means[uniformly] = world.sizes().mean() / before
        assert world.not_mutual() == 0
    assert means[False] > 1.15
    assert 0.9 < means[True] < 1.1


def test_who_has_lost_its_whole_view_is_counted_once_and_the_dead_are_not() -> None:
    """Reference: SCAMP 4.3, Figure 4."""
    graph = Graph([[1, 2], [2], [0], [], [2, 3]])
    alive = np.array([True, True, False, True, True])
    assert graph.unheard(alive) == 2 / 4  # 1 has lost its only neighbour, 3 never had one
    assert graph.reach(1, alive).sum() == 1
    assert graph.unheard(np.ones(5, dtype=np.bool_)) == 1 / 5
