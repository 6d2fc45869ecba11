"""How many hops Pastry takes, how much a node knows, and what a join costs, as the ring grows.

Middleware 2001 routed 200,000 messages between random nodes in rings of 1,000 to 100,000 and found that the
mean number of hops follows log16 N (P1) with a distribution that is narrow around it (P2). Routing needs so
few hops because each matches one more digit; it needs even fewer when an entry happens to match two, and
when the leaf set holds the target one digit early. Here too the key of a message is the id of a random node.
No slot on its way is empty then: the rare case (P9) is met only on the way to keys that are nobody's id, and
is counted over a tenth as many of those.

Rings are built by the oracle on a transit-stub network; hops do not depend on distances. What a join costs
(PA-4) is measured by the protocol itself: nodes join each of these rings one after another, and everything
that is sent on their account is counted, pings for distances as two messages.
"""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING

from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import (
    Curve,
    Experiment,
    Findings,
    Row,
    Series,
    Settings,
    averaged,
    histogram,
)
from overlaymq.sim.experiments.configs import QUIET
from overlaymq.sim.experiments.lookups import lookups_of, random_lookups
from overlaymq.sim.experiments.traffic import Traffic
from overlaymq.sim.published import TARGETS, log16, row
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology import TopologyNetwork, TransitStub

if TYPE_CHECKING:
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.experiments.lookups import Lookup

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
"""The range of P1; the points in between are ours."""
LOOKUPS = 200_000
"""At the largest size, as published; the others, whose means alone are looked at, get a tenth."""
PUBLISHED_NODES = 100_000
JOINS = 100
JOIN_SECONDS = 60.0
"""Between two joins: a join is over in less, so that nothing of one is counted for the next."""


class Point:
    """What one ring gave."""

    def __init__(self, nodes: int, ring: Ring, lookups: list[Lookup]) -> None:
        self.nodes = nodes
        self.hops = [lookup.hops for lookup in lookups]
        self.mean_hops = sum(self.hops) / len(lookups)
        states = [node.pastry.state for node in ring.nodes.values()]
        self.sizes = [len(state.table) + len(state.leaves) for state in states]
        self.mean_size = sum(self.sizes) / nodes
        self.rare = math.nan
        self.join_messages = math.nan
        self.events = 0


def run(settings: Settings) -> Findings:
    """One ring for each size."""
    topology = TransitStub(settings.seed)
    points = [_point(settings, topology, nodes) for nodes in _sizes(settings.nodes)]
    last = points[-1]
    return Findings(
        rows=[*_rows(points), *_distribution(last)],
        events=sum(point.events for point in points),
        series=_series(points),
    )


def _sizes(largest: int) -> list[int]:
    return [*(size for size in SIZES if size < largest), largest]


def _point(settings: Settings, topology: TransitStub, nodes: int) -> Point:
    def progress(stage: str, done: float, total: float) -> None:
        settings.progress(f"{nodes:,} nodes: {stage}", done, total)

    ring = Ring(settings.seed, TopologyNetwork(topology, settings.seed), QUIET)
    oracle.build(ring, nodes, progress=progress)
    count = LOOKUPS if nodes == settings.nodes else LOOKUPS // 10
    count = min(count, 20 * nodes)
    point = Point(nodes, ring, _between_nodes(ring, count, progress))
    point.rare = _rare_share(ring, count // 10)
    point.join_messages = _join_messages(ring)
    point.events = ring.simulation.events
    del ring
    gc.collect()
    return point


def _between_nodes(ring: Ring, count: int, progress: Progress) -> list[Lookup]:
    """Messages from random nodes to random nodes."""
    nodes, random = list(ring.nodes.values()), ring.random
    pairs = [(random.choice(nodes), random.choice(nodes).pastry.me.id) for _ in range(count)]
    return lookups_of(ring, pairs, progress)


def _rare_share(ring: Ring, count: int) -> float:
    """Of the hops to random keys, those in the rare case."""
    counters = [node.pastry.state.counters for node in ring.nodes.values()]
    rare, forwarded = sum(c.rare for c in counters), sum(c.forwarded for c in counters)
    random_lookups(ring, count)
    rare = sum(c.rare for c in counters) - rare
    return rare / (sum(c.forwarded for c in counters) - forwarded)


def _join_messages(ring: Ring) -> float:
    """Messages that a join takes, on average."""
    traffic = Traffic(ring.simulation)
    ring.grow(JOINS, spacing=JOIN_SECONDS)
    if not ring.settle():
        raise RuntimeError("a node could not join")
    return traffic.control_messages() / JOINS


def _rows(points: list[Point]) -> list[Row]:
    first, last = points[0], points[-1]
    nodes = last.nodes
    bound = math.ceil(log16(nodes))
    largest = 15 * bound + 16
    as_published = nodes == PUBLISHED_NODES
    rows = [
        row("PA-1", last.mean_hops, published=f"< {bound}", high=bound),
        # At sizes just below a power of 16 some nodes have an entry more than the formula gives.
        row("PA-2/max", max(last.sizes), published=largest, high=largest if as_published else None),
        row("PA-2/mean" if as_published else "PA-2/other", last.mean_size),
        row("P9", last.rare),
    ]
    for point in points:
        rows.append(
            row(
                "P1/bound",
                point.mean_hops,
                metric=f"mean hops, {point.nodes:,} nodes",
                published=f"< {math.ceil(log16(point.nodes))}",
                high=math.ceil(log16(point.nodes)),
            )
        )
        rows.append(
            row(
                "P1/ratio",
                point.mean_hops / log16(point.nodes),
                metric=f"mean hops over log16 N, {point.nodes:,} nodes",
            )
        )
    if last.nodes >= 10 * first.nodes:
        as_log = log16(nodes) / log16(first.nodes)
        rows.append(
            row(
                "PA-4",
                last.join_messages / first.join_messages,
                metric=f"messages a join, {nodes:,} nodes over {first.nodes:,}",
                published=f"O(log16 N): {as_log:.3f}",
                high=as_log,
            )
        )
    return rows


def _distribution(point: Point) -> list[Row]:
    if point.nodes != PUBLISHED_NODES:
        return []
    rows = [row("P2/mean", point.mean_hops)]
    shares = list(histogram(point.hops).y)
    for hops in range(max(7, len(shares))):
        share = shares[hops] if hops < len(shares) else 0.0
        if f"P2/{hops}" in TARGETS:
            rows.append(row(f"P2/{hops}", share))
        else:
            rows.append(row("P2/6", share, metric=f"share of lookups with {hops} hops"))
    return rows


def _series(points: list[Point]) -> dict[str, Series]:
    nodes = [float(point.nodes) for point in points]
    last = points[-1]
    published = [TARGETS[f"P2/{hops}"].published for hops in range(7)]
    distribution = {"measured": histogram(last.hops)}
    if last.nodes == PUBLISHED_NODES:
        distribution["published"] = Curve(range(7), [float(share) for share in published])
    return {
        "mean-hops": Series(
            title="Mean hops",
            x_label="nodes",
            y_label="mean hops",
            curves={
                "measured": Curve(nodes, [point.mean_hops for point in points]),
                "log16 N": Curve(nodes, [log16(point.nodes) for point in points]),
            },
            log_x=True,
        ),
        "hops": Series(
            title=f"Hops of {len(last.hops):,} lookups, {last.nodes:,} nodes",
            x_label="hops",
            y_label="share of lookups",
            curves=distribution,
            kind="bars",
        ),
        "state": Series(
            title="Routing table and leaf set",
            x_label="nodes",
            y_label="entries",
            curves={
                "mean": Curve(nodes, [point.mean_size for point in points]),
                "largest": Curve(nodes, [max(point.sizes) for point in points]),
                "15 ceil(log16 N) + 16": Curve(
                    nodes, [15 * math.ceil(log16(point.nodes)) + 16 for point in points]
                ),
            },
            log_x=True,
        ),
        "join-messages": Series(
            title="Messages a join",
            x_label="nodes",
            y_label="messages",
            curves={"measured": Curve(nodes, [point.join_messages for point in points])},
            log_x=True,
        ),
    }


EXPERIMENT = Experiment(
    name="pastry-routing",
    about="hops, table sizes and the cost of joining as the ring grows",
    ids=("PA-1", "PA-2", "PA-4", "P1", "P2", "P9"),
    nodes=PUBLISHED_NODES,
    run=averaged(run),
)
