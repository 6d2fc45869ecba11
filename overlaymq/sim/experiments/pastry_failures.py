"""What silent failures cost Pastry: hops, calls of repair, and delivery (P6, P7, PA-3, PA-4).

*P6* (Pastry, Middleware 2001): of 5,000 nodes on a plane 500 fail at once; 100,000 random keys are looked up
from two random survivors each, before the failures, after them without repair, and after repair. Lookups
before and without repair are walks over the tables (``walk``); between them and those after repair the
same lookups run through the protocol, which repairs lazily what they meet, with its upkeep as configured.

When does a lookup end? The experiment has k = 5 replicas of what is looked up (a digest of the paper says so;
the paper itself was not at hand), so it ends at the first of the five nodes that were closest to the key
before the failures. To the closest living node it takes as many hops as in P1, which are more than were
published here; those are given beside, unjudged.

By which rule? Judged is the paper's own procedure, whose rare case forwards to any node that qualifies
(``walk``). With a tenth of the entries dead it is not rare, and before the failures it is met at slots that
nobody can fill. Our routing takes the best of those nodes, which needs fewer hops; its figures are given
beside. This was looked into after ours had come out below the published figures.

*P7*: calls of repair for each failed node; ``traffic`` says what counts. The paper's figure is close to one
call for each reference to the dead node (16 leaf sets and some 40 routing tables), "to repair all relevant
table entries". Here a death is told once to the leaf set, each leaf asks its new leaf, and of the routing
tables only those ask that do not know a replacement. "Repair everything" is meant for what lookups met: an
entry that nothing was routed by is not known to be dead, and how many are left is told.

*PA-3* (Scribe, JSAC 2002, II): delivery is guaranteed unless l/2 nodes with adjacent ids fail at once. Runs
of l/2 - 1 adjacent nodes fail in many places at once, parted by l living nodes each, and the keys of the
dead are looked up from that moment on. Longer runs are measured beside it: the guarantee does not cover
them, but a node whose whole side is dead asks its routing table for the nearest node beyond.

*PA-4*: a failure takes O(log16 N) messages to repair. Single failures (2 % of the nodes) are repaired in
rings of three sizes. A constant times log16 N bounds the cost if cost / log16 N does not grow with N; its
growth from the smallest to the largest size is what is judged.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from overlaymq.ids import Id
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings, averaged
from overlaymq.sim.experiments.traffic import (
    EXCHANGES,
    MEASUREMENT,
    VERIFICATION,
    Traffic,
    extra,
    total,
)
from overlaymq.sim.experiments.walk import closest, walk
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.published import log16, row
from overlaymq.sim.ring import Ring, midpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from overlaymq.messages import Peer
    from overlaymq.sim.experiments.base import Row

KEYS_PER_NODE = 20
"""100,000 keys at 5,000 nodes (P6), each looked up twice."""
REPLICAS = 5
"""k of the paper's experiment."""
FAILED_SHARE = 0.1
"""500 of 5,000 nodes (P6)."""
QUIET_SECONDS = 120.0
"""The window of upkeep alone: every node gossips twice in it."""
LOOKUP_SECONDS = 300.0
"""Virtual time for the lookups that drive repair. A guess: 133 lookups a second and 1,000 nodes."""
SETTLE_SECONDS = 60.0
"""For the last suspicions to be settled: several times detection and verification."""
PLACES = 0.004
"""Runs of adjacent failures for each node of the ring: twenty at 5,000 nodes. A guess."""
RUN_LENGTHS = (6, 7, 8, 10, 12, 16)
RUN_LOOKUPS = 40
"""Lookups for each key of a dead node: a guess."""
SINGLE_SHARE = 0.02
SINGLE_LOOKUPS = 10
"""Lookups for each node: most entries of the upper rows are used. A guess that keeps 8,000 nodes quick."""
SIZES = (0.1, 0.4, 1.6)
"""500, 2,000 and 8,000 nodes where P6 has 5,000."""


class Lookup(msgspec.Struct, frozen=True):
    """A key to look up from two nodes, and who held its replicas before the failures."""

    key: Id
    starts: tuple[Id, Id]
    replicas: frozenset[Id]


class Hops(msgspec.Struct, frozen=True):
    """Mean hops of many lookups, by the published rule and by ours, and how many of both did not end at the
    closest living node."""

    published: float
    replica: float
    closest: float
    astray: int


class Repair(msgspec.Struct, frozen=True):
    """What it took to repair, for each failed node, beyond upkeep; and what was left undone."""

    calls: dict[str, float]
    lookups: int
    lost: int
    wrong: int
    hops: float
    stale_leaves: float
    stale_entries: float
    stale_neighbours: float


def lookups(ring: Ring, count: int, victims: Collection[Id]) -> list[Lookup]:
    """Random keys, each with two random nodes that will survive."""
    ids = ring.ids()
    survivors = [id_ for id_ in ids if id_ not in victims]
    random = ring.random
    chosen = []
    for _ in range(count):
        key = Id(random.getrandbits(128))
        starts = tuple(survivors[random.randrange(len(survivors))] for _ in range(2))
        chosen.append(Lookup(key, (starts[0], starts[1]), frozenset(closest(ids, key, REPLICAS))))
    return chosen


def measure_hops(ring: Ring, asked: Sequence[Lookup], absent: Collection[Id]) -> Hops:
    """Walk all lookups over the tables as they stand. ``absent`` are dead, and not in ``ring.nodes``
    or never asked."""
    living = [id_ for id_ in ring.ids() if id_ not in absent]
    chance = ring.simulation.node_random("any that qualifies")
    published = to_replica = to_closest = astray = 0
    for lookup in asked:
        owner = closest(living, lookup.key, 1)[0]
        for start in lookup.starts:
            found = walk(ring.nodes, start, lookup.key, absent)
            to_closest += found.hops
            to_replica += found.hops_to(lookup.replicas)
            other = walk(ring.nodes, start, lookup.key, absent, chance)
            published += other.hops_to(lookup.replicas)
            for way in (found, other):
                astray += not way.delivered or way.path[-1] != owner
    count = 2 * len(asked)
    return Hops(published / count, to_replica / count, to_closest / count, astray)


def stale(ring: Ring, dead: Collection[Id]) -> tuple[float, float, float]:
    """How many leaf sets, routing tables and neighbourhood sets still name each dead node, on average."""
    leaves = entries = neighbours = 0
    for node in ring.nodes.values():
        state = node.pastry.state
        leaves += sum(peer.id in dead for peer in state.leaves.members)
        entries += sum(peer.id in dead for peer in state.table.peers)
        neighbours += sum(peer.id in dead for peer in state.neighbourhood.peers)
    count = max(len(dead), 1)
    return leaves / count, entries / count, neighbours / count


def ask(ring: Ring, asked: Sequence[tuple[Id, Id]], over: float) -> list[int]:
    """Look keys up by the running protocol, (start, key) one after the other over some seconds."""
    simulation = ring.simulation
    begun = simulation.now
    requests = []
    for number, (start, key) in enumerate(asked):
        simulation.run_until(begun + over * number / len(asked))
        requests.append(ring.look_up(key, ring.nodes[start]))
    simulation.run_until(begun + over)
    return requests


def judge(ring: Ring, requests: Sequence[int]) -> tuple[int, int, float]:
    """How many lookups were lost, how many ended elsewhere than at the closest living node or in two
    places, and the mean hops of the others. Nobody may have failed since they were asked."""
    ids = ring.ids()
    lost = wrong = hops = right = 0
    for request in requests:
        deliveries = ring.deliveries.get(request, [])
        owner = closest(ids, ring.keys[request], 1)[0]
        if not deliveries:
            lost += 1
        elif any(delivery.at.id != owner for delivery in deliveries):
            wrong += 1
        else:
            right += 1
            hops += deliveries[0].hops
    return lost, wrong, hops / right if right else 0.0


def fail_and_repair(
    ring: Ring,
    victims: Sequence[Peer],
    asked: Sequence[tuple[Id, Id]],
    over: float,
    told: Callable[[float], None] = lambda share: None,
) -> Repair:
    """Count a quiet window, let nodes fail, and count what happens while lookups are asked."""
    simulation = ring.simulation
    traffic = Traffic(simulation)
    simulation.run_until(simulation.now + QUIET_SECONDS)
    quiet, traffic.sent = traffic.calls(), Counter()
    for victim in victims:
        ring.crash(victim)
    dead = {victim.id for victim in victims}
    requests = []
    parts = 20
    for part in range(parts):
        told(part / parts)
        chunk = asked[part * len(asked) // parts : (part + 1) * len(asked) // parts]
        requests += ask(ring, chunk, over / parts)
    simulation.run_until(simulation.now + SETTLE_SECONDS)
    simulation.on_send = simulation.on_effect = None
    calls = extra(traffic.calls(), over + SETTLE_SECONDS, quiet, QUIET_SECONDS)
    lost, wrong, hops = judge(ring, requests)
    leaves, entries, neighbours = stale(ring, dead)
    return Repair(
        calls={kind: count / len(dead) for kind, count in calls.items()},
        lookups=len(requests),
        lost=lost,
        wrong=wrong,
        hops=hops,
        stale_leaves=leaves,
        stale_entries=entries,
        stale_neighbours=neighbours,
    )


# --- P6 and P7 -------------------------------------------------------------------------------------


def many_failures(settings: Settings) -> Findings:
    """A tenth of the nodes fail at once."""
    progress = settings.progress
    ring = oracle_ring(settings.seed, settings.nodes)
    peers = [node.pastry.me for node in ring.nodes.values()]
    victims = ring.random.sample(peers, int(settings.nodes * FAILED_SHARE))
    dead = {victim.id for victim in victims}
    asked = lookups(ring, KEYS_PER_NODE * settings.nodes, dead)
    progress("routing before and without repair", 0, 1)
    before = measure_hops(ring, asked, ())
    unrepaired = measure_hops(ring, asked, dead)
    pairs = [(start, lookup.key) for lookup in asked for start in lookup.starts]
    repair = fail_and_repair(
        ring, victims, pairs, LOOKUP_SECONDS, lambda share: progress("repairing", share, 1)
    )
    # What is still stale was not met by any lookup; a lookup that does will be routed around it.
    repaired = measure_hops(ring, asked, dead)
    return Findings(
        rows=[*hop_rows(before, unrepaired, repaired), *repair_rows(repair)],
        events=ring.simulation.events,
        series={"hops": hop_series(before, unrepaired, repaired), "calls": call_series(repair)},
        notes=repair_notes(repair, len(victims)),
    )


def hop_rows(before: Hops, unrepaired: Hops, repaired: Hops) -> list[Row]:
    """P6."""
    return [
        row("P6/before", before.published),
        row("P6/unrepaired", unrepaired.published),
        row("P6/repaired", repaired.published),
        row("P6/added", unrepaired.published - before.published),
        row("P6/left", repaired.published - before.published),
        row("P6/best before", before.replica),
        row("P6/best unrepaired", unrepaired.replica),
        row("P6/best repaired", repaired.replica),
        row("P6/closest before", before.closest),
        row("P6/closest unrepaired", unrepaired.closest),
        row("P6/closest repaired", repaired.closest),
        row("P6/astray", before.astray + unrepaired.astray + repaired.astray),
    ]


def repair_rows(repair: Repair) -> list[Row]:
    """P7."""
    return [
        row("P7", total(repair.calls, EXCHANGES)),
        row("P7/all", total(repair.calls, (*EXCHANGES, *VERIFICATION, *MEASUREMENT))),
        row("P7/lost", repair.lost + repair.wrong),
    ]


def hop_series(before: Hops, unrepaired: Hops, repaired: Hops) -> Series:
    """Mean hops in the three states."""
    states = (before, unrepaired, repaired)
    return Series(
        title="Mean hops before failures (0), without repair (1), after repair (2)",
        x_label="state",
        y_label="mean hops",
        curves={
            "published": Curve((0, 1, 2), (2.73, 2.96, 2.74)),
            "measured, published rule": Curve((0, 1, 2), [s.published for s in states]),
            "measured, our rule": Curve((0, 1, 2), [s.replica for s in states]),
            "our rule, to the closest node": Curve((0, 1, 2), [s.closest for s in states]),
        },
        kind="bars",
    )


def call_series(repair: Repair) -> Series:
    """Calls of each kind."""
    kinds = (*EXCHANGES, *VERIFICATION, *MEASUREMENT)
    return Series(
        title="Calls for each failed node, beyond upkeep",
        x_label="kind",
        y_label="calls",
        curves={kind: Curve((0,), (repair.calls.get(kind, 0.0),)) for kind in kinds},
        kind="bars",
    )


def repair_notes(repair: Repair, failed: int) -> list[str]:
    """What the rows leave out."""
    kinds = (*EXCHANGES, *VERIFICATION, *MEASUREMENT)
    calls = ", ".join(f"{kind} {repair.calls.get(kind, 0.0):.1f}" for kind in kinds)
    return [
        f"{failed} nodes failed; calls for each: {calls}",
        f"{repair.lookups} lookups during repair: {repair.lost} lost, {repair.wrong} astray, "
        f"{repair.hops:.2f} hops to the closest node",
        f"a dead node is still named by {repair.stale_leaves:.2f} leaf sets, "
        f"{repair.stale_entries:.2f} routing tables and {repair.stale_neighbours:.2f} neighbourhood sets",
    ]


# --- PA-3 ------------------------------------------------------------------------------------------


def adjacent_victims(ids: Sequence[Id], length: int, places: int, spared: int) -> list[list[Id]]:
    """Runs of adjacent nodes, evenly spread, with at least ``spared`` living ones between two runs."""
    stride = len(ids) // places
    if stride < length + spared:
        raise ValueError(f"{len(ids)} nodes are too few for {places} runs of {length}")
    return [list(ids[place * stride : place * stride + length]) for place in range(places)]


def adjacent_failures(seed: int, nodes: int, length: int) -> tuple[int, int, int, int]:
    """Lookups of the dead nodes' keys from the moment of the failures: asked, lost, astray; and events."""
    ring = oracle_ring(seed, nodes)
    ring.simulation.run_until(10.0)
    ids = ring.ids()
    leaf_set = ring.config.leaf_set_size
    places = max(1, min(int(PLACES * nodes), nodes // (length + leaf_set)))
    runs = adjacent_victims(ids, length, places, leaf_set)
    keys = [key for run in runs for key in contested_keys(run)]
    for run in runs:
        for id_ in run:
            ring.crash(ring.nodes[id_].pastry.me)
    survivors = ring.ids()
    random = ring.random
    asked = [(survivors[random.randrange(len(survivors))], key) for key in keys * RUN_LOOKUPS]
    half = len(asked) // 2
    # Half of them in the first second, before anybody can have noticed.
    requests = ask(ring, asked[:half], 1.0) + ask(ring, asked[half:], SETTLE_SECONDS)
    ring.simulation.run_until(ring.simulation.now + SETTLE_SECONDS)
    lost, wrong, _ = judge(ring, requests)
    return len(requests), lost, wrong, ring.simulation.events


def contested_keys(run: Sequence[Id]) -> list[Id]:
    """The ids of the dead, and the keys half-way between them."""
    return [*run, *(midpoint(low, high) for low, high in pairwise(run))]


def adjacent(settings: Settings) -> Findings:
    """Runs below, at and beyond the length that the guarantee covers."""
    rows = []
    events = 0
    lost_shares, wrong_shares = [], []
    nodes = max(settings.nodes * 2 // 5, 4 * (max(RUN_LENGTHS) + 16))
    for step, length in enumerate(RUN_LENGTHS):
        settings.progress("adjacent failures", step, len(RUN_LENGTHS))
        asked, lost, wrong, happened = adjacent_failures(settings.seed, nodes, length)
        events += happened
        lost_shares.append(lost / asked)
        wrong_shares.append(wrong / asked)
        if length == 7:
            rows.append(row("PA-3", lost + wrong))
        elif length in (8, 16):
            rows.append(row(f"PA-3/{length}", (lost + wrong) / asked))
    curves = {"lost": Curve(RUN_LENGTHS, lost_shares), "astray": Curve(RUN_LENGTHS, wrong_shares)}
    series = Series(
        title="Lookups of keys whose nodes failed",
        x_label="adjacent failures",
        y_label="share of lookups",
        curves=curves,
    )
    return Findings(rows=rows, events=events, series={"adjacent": series})


# --- PA-4 ------------------------------------------------------------------------------------------


def single_failures(seed: int, nodes: int) -> tuple[Repair, int]:
    """What it takes to repair failures that have little to do with each other; and events."""
    ring = oracle_ring(seed, nodes)
    peers = [node.pastry.me for node in ring.nodes.values()]
    victims = ring.random.sample(peers, max(1, int(nodes * SINGLE_SHARE)))
    asked = lookups(ring, nodes * SINGLE_LOOKUPS // 2, {victim.id for victim in victims})
    pairs = [(start, lookup.key) for lookup in asked for start in lookup.starts]
    return fail_and_repair(ring, victims, pairs, LOOKUP_SECONDS), ring.simulation.events


def growth(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """How cost / log16 N changes from the smallest to the largest size; at most 1 if O(log16 N)."""
    first, last = costs[0] / log16(sizes[0]), costs[-1] / log16(sizes[-1])
    return last / first


def repair_growth(settings: Settings) -> Findings:
    """Cost of a failure over sizes."""
    kinds = (*EXCHANGES, *VERIFICATION, *MEASUREMENT)
    sizes = [int(settings.nodes * share) for share in SIZES]
    costs = []
    events = 0
    for step, size in enumerate(sizes):
        settings.progress("single failures", step, len(sizes))
        repair, happened = single_failures(settings.seed, size)
        costs.append(total(repair.calls, kinds))
        events += happened
    series = Series(
        title="Calls to repair a single failure",
        x_label="nodes",
        y_label="calls",
        curves={"measured": Curve(sizes, costs)},
        log_x=True,
    )
    metric = f"growth of calls / log16 N from {sizes[0]} to {sizes[-1]} nodes"
    return Findings(
        rows=[row("PA-4/failure", growth(sizes, costs), metric=metric)],
        events=events,
        series={"growth": series},
        notes=[
            f"{size} nodes: {cost:.0f} calls a failure"
            for size, cost in zip(sizes, costs, strict=True)
        ],
    )


# --- all of it -------------------------------------------------------------------------------------


def oracle_ring(seed: int, nodes: int) -> Ring:
    """Perfect tables on the paper's plane, and a protocol that runs."""
    ring = Ring(seed, PlaneDelay())
    oracle.build(ring, nodes, with_timers=True)
    return ring


def run(settings: Settings) -> Findings:
    """All four."""
    findings = Findings(rows=[])
    for part in (many_failures, adjacent, repair_growth):
        found = part(settings)
        findings.rows += found.rows
        findings.events += found.events
        findings.series |= found.series
        findings.notes += found.notes
    return findings


EXPERIMENT = Experiment(
    name="pastry-failures",
    about="hops, repair calls and delivery when a tenth of the nodes fails silently",
    ids=("P6", "P7", "PA-3", "PA-4"),
    nodes=5_000,
    run=averaged(run),
)
