"""What the four fixes of the default mode are worth, each beside the paper's algorithm (protocols.md 5.9).

With whole strategies, a rendezvous and links that take time; sources are random.

- *Leases* renewed in as many copies as the group's size asks for, or through one of the own view: the mean
  view at the end of each of 20 leases, over the time of each, and the most at any moment. All subscribe
  within seconds, which is the harder case: they renew together, while all old arcs are still there. Without
  the fix five leases are enough to see where it goes.
- *Payload copies* for each delivery, in steady state: with the eager tree, and to the whole view.
- *Half of the members fail at once*: what the first message after that reaches, and whether one that comes
  when links have recovered reaches everyone. The same without pulling, and without backups: what these are
  worth shows at the first message. Each run is a group of its own.

Groups have the nodes that are asked for where copies are counted, and elsewhere a tenth."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING

import msgspec

from overlaymq.config import ScampConfig
from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.experiments.scamp_figures import mean
from overlaymq.sim.oracle import without_collector
from overlaymq.sim.published import TARGETS, row
from overlaymq.sim.scamp_group import Group

if TYPE_CHECKING:
    from overlaymq.sim.experiments.base import Row

NODES = 10_000
RUNS = 100
LEASES, SOME_LEASES = 20, 5
MOMENTS = 60
"""Of a lease, at which views are measured: one in each heartbeat."""
SMALLER = 10
"""Groups that fail or renew leases have so many times fewer nodes, and comparisons are made on so many times
fewer runs."""
MESSAGES = 10
FAILED = 0.5
RECOVERY = 10.0
SPREADING = 3.0

DEFAULT = ScampConfig()
PAPER = ScampConfig(mode="paper")
OWN_VIEW = msgspec.structs.replace(DEFAULT, uniform_renewal=False)
VARIANTS = {
    "paper": PAPER,
    "without pull": msgspec.structs.replace(DEFAULT, pull=False, lazy_push=False),
    "without backups": msgspec.structs.replace(DEFAULT, backups=0),
}


class Survived(msgspec.Struct, frozen=True):
    """One group: the share that the first message reached, and that of one after the recovery."""

    first: float
    later: float


def run(settings: Settings) -> Findings:
    """All three parts."""
    smaller = settings.nodes // SMALLER
    drift = _drift(settings, smaller, DEFAULT, LEASES)
    counted = [lease[-1] for lease in drift]
    own_view = [lease[-1] for lease in _drift(settings, smaller, OWN_VIEW, SOME_LEASES)]
    copies = _copies(settings, settings.nodes, DEFAULT)
    rows = [
        row(
            "SMD-1",
            _farthest(counted[1:]),
            metric=TARGETS["SMD-1"].metric.format(n=f"{smaller:,}"),
        ),
        row("SMD-1/start", counted[0]),
        row("SMD-1/time", _farthest([mean(lease) for lease in drift[2:]])),
        row("SMD-1/moment", max(max(lease) for lease in drift[1:])),
        row("SMD-1/own view", own_view[-1]),
        row("SMD-2", copies),
        row("SMD-2/paper", _copies(settings, smaller, PAPER)),
        *_failures(settings),
    ]
    figure = Series(
        title=f"Mean view over leases, {smaller:,} nodes",
        x_label="leases",
        y_label="mean view over ln n",
        curves={
            "default": Curve(range(len(counted)), counted),
            "renewed through the own view": Curve(range(len(own_view)), own_view),
        },
    )
    return Findings(rows=rows, series={"drift": figure})


def _farthest(means: list[float]) -> float:
    return max(means, key=lambda share: abs(share - 1))


def _drift(settings: Settings, nodes: int, config: ScampConfig, leases: int) -> list[list[float]]:
    """The mean view over ln n, when all have subscribed, and at many moments of each lease."""
    size = math.log(nodes)
    with without_collector():
        group = Group(settings.seed, config)
        group.grow(nodes)
        means = [[group.mean_view() / size]]
        for done in range(leases):
            settings.progress("leases", done, leases)
            lease = []
            for _ in range(MOMENTS):
                group.run(config.lease / MOMENTS)
                lease.append(group.mean_view() / size)
            means.append(lease)
    return means


def _group(seed: int, nodes: int, config: ScampConfig) -> Group:
    gc.collect()
    group = Group(seed, config)
    group.grow(nodes)
    for _ in range(3):
        group.publish()
        group.run(1.0)
    return group


def _copies(settings: Settings, nodes: int, config: ScampConfig) -> float:
    settings.progress(f"copies, {config.mode} mode", 0, 1)
    with without_collector():
        group = _group(settings.seed, nodes, config)
        group.run(SPREADING)
        before = group.copies()
        numbers = []
        for _ in range(MESSAGES):
            numbers.append(group.publish())
            group.run(1.0)
        group.run(SPREADING)
        return group.copies_per_delivery(numbers, before)


def _survive(seed: int, nodes: int, config: ScampConfig) -> Survived:
    with without_collector():
        group = _group(seed, nodes, config)
        group.fail(FAILED)
        first = group.publish()
        group.run(RECOVERY)
        group.publish()  # it mends the eager links
        group.run(SPREADING)
        later = group.publish()
        group.run(SPREADING)
        return Survived(group.reached(first), group.reached(later))


def _failures(settings: Settings) -> list[Row]:
    nodes = settings.nodes // SMALLER
    found = []
    for done, seed in enumerate(settings.seeds()):
        settings.progress("half fail", done, settings.runs)
        found.append(_survive(seed, nodes, DEFAULT))
    rows = [
        row("SMD-3", mean([one.later == 1.0 for one in found])),
        row("SMD-3/first", mean([one.first for one in found])),
        row("SMD-3/first atomic", mean([one.first == 1.0 for one in found])),
    ]
    fewer = settings.seeds()[: max(1, settings.runs // SMALLER)]
    for name, config in VARIANTS.items():
        settings.progress(f"half fail, {name}", 0, 1)
        others = [_survive(seed, nodes, config) for seed in fewer]
        rows.append(row(f"SMD-3/{name}", mean([one.later == 1.0 for one in others])))
        rows.append(row(f"SMD-3/{name} first", mean([one.first for one in others])))
    return rows


EXPERIMENT = Experiment(
    name="scamp-default",
    about="the default mode's fixes beside the paper: drift, copies, and half of the nodes failing",
    ids=("SMD-1", "SMD-2", "SMD-3"),
    nodes=NODES,
    runs=RUNS,
    run=run,
)
