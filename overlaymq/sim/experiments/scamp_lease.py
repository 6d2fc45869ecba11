"""Leases rebalance the views (SCAMP 3.2 and 4.5, Figures 8 and 9), and with extra copies inflate them.

All nodes subscribe, then all leases end in random order, and each node subscribes again through a random
member of its own view. SM-23 compares renewals with c extra copies, as evaluated in the paper, with
renewals without, as it advises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings, histogram
from overlaymq.sim.experiments.scamp_figures import (
    MEDIUM,
    RUNS,
    grown,
    judged,
    literal,
    mean,
    reach_after,
)
from overlaymq.sim.oracle import without_collector
from overlaymq.sim.published import row

if TYPE_CHECKING:
    from overlaymq.sim.scamp_world import World

LEASE = 1e6
SHARES = (0, 10, 20, 30, 40, 50, 60, 70)
TRIES = 10
"""Multicasts for each share, each with its own set of failing nodes: one whose source loses its whole view
reaches nobody, and with one a network a single such would outweigh all others."""
GROUP, SOME = 1_000, 200
"""SM-23 is exact, whatever the size: members, and renewals that it is measured on."""


def run(settings: Settings) -> Findings:
    """One group a run."""
    ratios, events = [], 0
    reached: dict[str, dict[int, list[float]]] = {
        name: {share: [] for share in SHARES}
        for name in ("no lease, first node", "lease, first node", "lease, random source")
    }
    series: dict[str, Series] = {}
    for seed in settings.seeds():
        world = grown(seed, settings.nodes, literal(lease=LEASE), settings.progress)
        random = np.random.default_rng(seed)
        before = world.sizes()
        _measure(world, reached["no lease, first node"], random, anywhere=False)
        renew_all(world, settings)
        after = world.sizes()
        ratios.append(float(after.std() / before.std()))
        _measure(world, reached["lease, first node"], random, anywhere=False)
        _measure(world, reached["lease, random source"], random, anywhere=True)
        events += world.messages
        if not series:
            series["views"] = Series(
                title=f"Partial views before and after a lease, {settings.nodes:,} nodes",
                x_label="entries of the partial view",
                y_label="share of nodes",
                curves={
                    "without lease": histogram(before.tolist()),
                    "with lease": histogram(after.tolist()),
                },
            )
    series["reach"] = Series(
        title=f"Reach with failures, {settings.nodes:,} nodes",
        x_label="% of nodes failed",
        y_label="share of survivors reached",
        curves={
            name: Curve(SHARES, [mean(found[share]) for share in SHARES])
            for name, found in reached.items()
        },
    )
    first = mean(reached["lease, first node"][50])
    rows = [
        row("SM-17", mean(ratios)),
        row("SM-18", first),
        row("SM-19", mean(reached["lease, random source"][50]) - first),
        row("SM-23", _inflation(settings)),
    ]
    return Findings(
        rows=judged(rows, settings, MEDIUM, "SM-17", "SM-23"), events=events, series=series
    )


def renew_all(world: World, settings: Settings, *, uniformly: bool = False) -> None:
    """All leases end, in random order. Contacts are of the own view, or anyone."""
    members = [node.me.id for node in world.members]
    world.random.shuffle(members)
    with without_collector():
        for done, number in enumerate(members):
            renew(world, number, uniformly=uniformly)
            if done % 1000 == 0:
                settings.progress("renewing leases", done, len(members))


def renew(world: World, number: int, *, uniformly: bool = False) -> None:
    """One lease ends."""
    view = list(world.nodes[number].partial)
    if uniformly or not view:
        contact = number
        while contact == number:
            contact = world.any_of(len(world.nodes))
    else:
        contact = view[int(world.random.random() * len(view))]
    world.renew(number, contact)


def _measure(
    world: World,
    reached: dict[int, list[float]],
    random: np.random.Generator,
    *,
    anywhere: bool,
) -> None:
    graph = world.graph()
    for share, found in reached.items():
        sources = random.integers(0, graph.count, TRIES) if anywhere else [0] * TRIES
        found += [reach_after(graph, share / 100, int(one), random)[0] for one in sources]


def _inflation(settings: Settings) -> float:
    """Arcs that renewals with c = 1 extra copies add, above the size of the contact's view."""
    world = grown(settings.seed, GROUP, literal(c=1, lease=LEASE), settings.progress)
    above = []
    for number in world.random.sample(range(GROUP), SOME):
        world.end_lease(number)
        contact = world.any_of(GROUP)
        if contact == number:
            continue
        arcs, view = world.sizes().sum(), len(world.nodes[contact].partial)
        world.renew(number, contact, copies=1)
        above.append(float(world.sizes().sum() - arcs - view))
    return mean(above)


EXPERIMENT = Experiment(
    name="scamp-lease",
    about="one lease period: more even views, more reach under failures",
    ids=("SM-17", "SM-18", "SM-19", "SM-23"),
    nodes=MEDIUM,
    runs=RUNS,
    run=run,
)
