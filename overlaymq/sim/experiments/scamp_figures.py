"""What the experiments on SCAMP share: building groups, failing nodes, and which rows are judged."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.config import ScampConfig
from overlaymq.sim.oracle import without_collector
from overlaymq.sim.scamp_world import (
    World,
    failing,
    reach_with_full_membership,
    share_reached,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.sim.experiments.base import Progress, Row, Settings
    from overlaymq.sim.scamp_world import Graph

LARGE = 100_000
"""Figures 2 to 4."""
MEDIUM = 50_000
"""The other figures but Figure 6, which has a fifth of this."""
RUNS = 10
"""SCAMP 4.1."""
PART = 1000
"""Subscriptions between two words about progress."""


def literal(c: int = 0, lease: float = 0.0, indirection: bool = False) -> ScampConfig:
    """The paper's algorithm; contacts are uniform here, so nothing walks unless asked to."""
    return ScampConfig(mode="paper", c=c, lease=lease, indirection=indirection)


def grown(
    seed: int,
    nodes: int,
    config: ScampConfig,
    progress: Progress,
    *,
    single_contact: bool = False,
) -> World:
    """A group that has subscribed."""
    world = World(seed, config)
    with without_collector():
        for done in range(0, nodes, PART):
            progress(f"{nodes:,} subscriptions, seed {seed}", done, nodes)
            world.grow(min(PART, nodes - done), single_contact)
    gc.collect()
    return world


def reach_after(
    graph: Graph, share: float, source: int, random: np.random.Generator
) -> tuple[float, float]:
    """The share of survivors that a source reaches over the views, and with full membership."""
    alive = failing(graph.count, share, random, source)
    fanout = math.log(graph.count)
    return (
        share_reached(graph, source, alive),
        reach_with_full_membership(source, alive, fanout, random),
    )


def mean(values: Sequence[float]) -> float:
    """Of the runs."""
    return float(np.mean(values))


def harmonic(nodes: int) -> float:
    """H_n."""
    return sum(1 / number for number in range(1, nodes + 1))


def judged(rows: list[Row], settings: Settings, nodes: int, *always: str) -> list[Row]:
    """At another size than the paper's, only what is a formula of the size, or exact, is judged."""
    if settings.nodes == nodes:
        return rows
    return [
        one if one.id in always else msgspec.structs.replace(one, low=None, high=None)
        for one in rows
    ]
