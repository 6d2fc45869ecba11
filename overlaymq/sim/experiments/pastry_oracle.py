"""Whether rings built by the oracle may stand for rings built by the join protocol.

The same nodes, on the same network, once by joining one after another and once by the oracle. Compared are
the hops of the same lookups, and the tables slot by slot: a slot of the protocol's ring is optimal if no
node that fits it is nearer (P4 counts those that are not), and it is empty if the oracle found somebody
for it. Hops are compared by the largest difference of the two cumulative distributions. With 50,000
lookups chance alone makes it 0.01 once in a hundred times; up to 0.02, which is what each share of the
published distribution is held to, the oracle is as good as the protocol for counting hops.

It also reports what the simulator itself is held to: how long 10,000 joins take on one core, and the memory
of a node at growing sizes.
"""

from __future__ import annotations

import gc
import time
from itertools import accumulate
from typing import TYPE_CHECKING

from overlaymq.ids import BITS, Id
from overlaymq.sim import footprint, oracle
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
from overlaymq.sim.experiments.configs import WIDE
from overlaymq.sim.experiments.lookups import lookups_of, stretch
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.published import row
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology import TopologyNetwork, TransitStub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.sim.experiments.lookups import Lookup
    from overlaymq.sim.network import NetworkModel

LOOKUPS = 50_000
JOIN_SPACING = 0.1
"""Virtual seconds between two arrivals. A join takes half a minute, so hundreds are under way at once."""
REPORT_EVERY = 50
QUALITY_NODES = 5_000
"""P4's size; its nodes are on a plane."""
SIZES = (1, 3, 10)
"""Memory is measured at these multiples of the size: 10,000, 30,000 and 100,000 nodes."""
NEARER = 1 - 1e-6
"""A node is nearer if it is by more than the rounding of distances."""


class Level:
    """The slots of one row over all tables."""

    def __init__(self) -> None:
        self.slots = 0
        self.optimal = 0
        self.empty = 0

    @property
    def share(self) -> float:
        """Of the slots that could have an entry, those that have the best."""
        return self.optimal / self.slots


class Joined:
    """A ring that was built by the join protocol, and what that took."""

    def __init__(self, settings: Settings, network: NetworkModel, nodes: int, what: str) -> None:
        before, started = footprint.resident_mb(), time.process_time()
        self.ring = ring = Ring(settings.seed, network, WIDE)
        for done in range(0, nodes, REPORT_EVERY):
            ring.grow(min(REPORT_EVERY, nodes - done), JOIN_SPACING)
            settings.progress(f"{what}: joining", done, nodes)
        self.all_active = ring.settle(600.0)
        self.seconds = time.process_time() - started
        self.events = ring.simulation.events
        self.stale_timers = ring.simulation.stale_timers
        self.kb_per_node = (footprint.resident_mb() - before) * 1000 / nodes
        self.inexact = len(ring.wrong_leaf_sets())

    def twin(self) -> Ring:
        """The same nodes by the oracle."""
        peers = [node.pastry.me for node in self.ring.nodes.values()]
        twin = Ring(self.ring.simulation.seed, self.ring.simulation.network, WIDE)
        oracle.build(twin, peers)
        return twin


def run(settings: Settings) -> Findings:
    """Build both rings, look up and compare; then P4's, and memory."""
    topology = TransitStub(settings.seed)
    # Its routes are found when they are first asked for; they are no node's memory.
    topology.delay_row(0)
    network = TopologyNetwork(topology, settings.seed)
    joined = Joined(settings, network, settings.nodes, "transit-stub")
    twin = joined.twin()
    found = [_look_up(ring, settings) for ring in (joined.ring, twin)]
    hops = [[lookup.hops for lookup in lookups] for lookups in found]
    levels = quality(joined.ring, twin)
    events = joined.ring.simulation.events + twin.simulation.events
    rows = [
        *_agreement(*hops),
        *_stretch_rows(network, *found),
        *_quality_rows(levels),
        *_effort_rows(joined),
    ]
    del joined, twin
    gc.collect()
    plane = Joined(settings, PlaneDelay(), min(QUALITY_NODES, settings.nodes), "plane")
    rows.append(_p4(plane))
    events += plane.events
    del plane
    gc.collect()
    rows.extend(_memory_rows(settings))
    return Findings(rows=rows, events=events, series=_series(hops, levels))


def _look_up(ring: Ring, settings: Settings) -> list[Lookup]:
    """The same lookups in each ring."""
    ids = ring.ids()
    random = ring.simulation.node_random("oracle and protocol")
    count = min(LOOKUPS, 20 * settings.nodes)
    asked = [(ids[random.randrange(len(ids))], random.getrandbits(BITS)) for _ in range(count)]
    settings.progress("looking up", 0, 1)
    return lookups_of(ring, [(ring.nodes[id_], Id(key)) for id_, key in asked])


def largest_difference(one: Sequence[int], other: Sequence[int]) -> float:
    """Of two cumulative distributions over whole numbers (Kolmogorov and Smirnov's statistic)."""
    shares = [list(histogram(hops).y) for hops in (one, other)]
    longest = max(len(share) for share in shares)
    sums = [list(accumulate([*share, *[0.0] * (longest - len(share))])) for share in shares]
    return max(abs(a - b) for a, b in zip(sums[0], sums[1], strict=True))


def quality(ring: Ring, best: Ring) -> list[Level]:
    """A ring's tables beside those of the same nodes by the oracle, row by row."""
    delay = ring.simulation.network.delay
    levels: list[Level] = []
    for id_, node in best.nodes.items():
        me, ideal = node.pastry.me.address, node.pastry.state.table
        table = ring.nodes[id_].pastry.state.table
        for peer in ideal.peers:
            number = ideal.slot(peer.id) >> ideal.bits
            while len(levels) <= number:
                levels.append(Level())
            level = levels[number]
            level.slots += 1
            entry = table.occupant(peer.id)
            if entry is None:
                level.empty += 1
            elif NEARER * delay(me, entry.address) <= delay(me, peer.address):
                level.optimal += 1
    return levels


def _agreement(joined: list[int], twin: list[int]) -> list[Row]:
    means = [sum(hops) / len(hops) for hops in (joined, twin)]
    return [
        row("SIM-1", largest_difference(joined, twin)),
        row("SIM-1/protocol", means[0]),
        row("SIM-1/oracle", means[1]),
    ]


def _stretch_rows(network: NetworkModel, joined: list[Lookup], twin: list[Lookup]) -> list[Row]:
    return [
        row("SIM-1/stretch protocol", stretch(network, joined).mean),
        row("SIM-1/stretch oracle", stretch(network, twin).mean),
    ]


def _quality_rows(levels: list[Level]) -> list[Row]:
    rows = []
    for number, level in enumerate(levels[:4]):
        rows.append(row("SIM-2", level.share, metric=f"share of slots optimal, level {number}"))
    slots = sum(level.slots for level in levels)
    rows.append(row("SIM-2/empty", sum(level.empty for level in levels) / slots))
    return rows


def _effort_rows(joined: Joined) -> list[Row]:
    nodes = len(joined.ring.nodes)
    return [
        row("SIM-3", joined.seconds, metric=f"seconds of CPU for {nodes:,} joins"),
        row("SIM-3/events", joined.events / joined.seconds),
        row("SIM-3/stale", joined.stale_timers / (joined.stale_timers + joined.events)),
        row("SIM-3/inexact", joined.inexact + (not joined.all_active)),
        row("SIM-4/protocol", joined.kb_per_node, metric=f"kB a node, {nodes:,} by the protocol"),
    ]


def _p4(plane: Joined) -> Row:
    levels = quality(plane.ring, plane.twin())
    nodes = len(plane.ring.nodes)
    worst = max((level.slots - level.optimal) / nodes for level in levels[:4])
    metric = f"sub-optimal entries of a node, worst of levels 0 to 3, {nodes:,} joins on a plane"
    return row("P4", worst, metric=metric)


def _memory_rows(settings: Settings) -> list[Row]:
    found = []
    for done, factor in enumerate(SIZES):
        settings.progress("measuring memory", done, len(SIZES))
        found.append(footprint.measure_apart(factor * settings.nodes, settings.seed))
    largest = found[-1]
    return [
        *(
            row("SIM-4", size.kb_per_node, metric=f"kB a node, {size.nodes:,} by the oracle")
            for size in found
        ),
        row("SIM-4/linear", largest.kb_per_node / found[0].kb_per_node),
        row("SIM-4/all", largest.peak_mb, metric=f"MB in all, {largest.nodes:,} nodes"),
        row("SIM-4/seconds", largest.seconds, metric=f"seconds to build {largest.nodes:,} nodes"),
    ]


def _series(hops: list[list[int]], levels: list[Level]) -> dict[str, Series]:
    numbers = range(len(levels))
    return {
        "hops": Series(
            title="Hops of the same lookups",
            x_label="hops",
            y_label="share of lookups",
            curves={"protocol": histogram(hops[0]), "oracle": histogram(hops[1])},
            kind="bars",
        ),
        "quality": Series(
            title="Routing tables after joining",
            x_label="level",
            y_label="share of slots",
            curves={
                "optimal": Curve(numbers, [level.share for level in levels]),
                "empty": Curve(numbers, [level.empty / level.slots for level in levels]),
            },
            kind="bars",
        ),
    }


EXPERIMENT = Experiment(
    name="pastry-oracle",
    about="rings built by the oracle beside rings built by joining; time and memory of both",
    ids=("P4", "SIM-1", "SIM-2", "SIM-3", "SIM-4"),
    nodes=10_000,
    run=averaged(run),
)
