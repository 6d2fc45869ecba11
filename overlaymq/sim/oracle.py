"""A ring as it would be after perfect joins, built by looking at everyone at once.

Joining 100,000 nodes by the protocol takes tens of millions of messages. The oracle fills the tables of
the very same Pastry objects instead: leaf sets from the sorted ids, each slot of a routing table with the
nearest of all nodes that fit it (proximity neighbour selection, carried to its end), neighbourhood sets
with the nearest nodes of all, and distances as a measurement would find them. What the join protocol
reaches is close to this but not equal; the experiment `pastry-oracle` compares the two.

How: with the ids sorted, the nodes that share a prefix stand side by side, and so do, within them, those of
each next digit. From one place in the network the distances to all nodes are one array in that order, and
the nearest fitting node of every slot of a row is one ``minimum.reduceat`` over a stretch of it. Nodes in
one place (on one router) share the array and the search. Nodes that are equally near are chosen among at
random, for each slot anew: a fixed choice would make every node of a router depend on the same few.

Routes are taken to be equally long both ways, which is true of all our models but a few routes of the
Mercator-like one. The round trip of a leaf that is in no other table stays unknown, as if it had not been
spoken to yet.
"""

from __future__ import annotations

import gc
from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from overlaymq.ids import BITS
from overlaymq.sim.experiments.base import no_progress
from overlaymq.sim.network import ConstantDelay, PlaneDelay
from overlaymq.sim.topology.network import TopologyNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from overlaymq.config import PastryConfig
    from overlaymq.core.pastry import Pastry
    from overlaymq.ids import Id
    from overlaymq.messages import Peer
    from overlaymq.sim.engine import Simulation
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.network import NetworkModel

    Floats = NDArray[np.float64]
    Indices = NDArray[np.intp]

TOP_BITS = 64
"""Prefixes are told by so many leading bits; that two of 100,000 ids agree in all has probability 3e-10."""
REPORT_EVERY = 256


class HasPastry(Protocol):
    """A node, whatever else it does."""

    pastry: Pastry


class Fillable(Protocol):
    """A network whose nodes the oracle can fill."""

    simulation: Simulation
    config: PastryConfig

    @property
    def nodes(self) -> Mapping[Id, HasPastry]:
        """All nodes."""

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""

    def add(self, peer: Peer) -> HasPastry:
        """A node that has not started."""


def build(
    ring: Fillable,
    members: int | Sequence[Peer],
    *,
    with_timers: bool = False,
    progress: Progress = no_progress,
) -> None:
    """Fill an empty ring with so many new nodes, or with given ones, active at once.

    Without timers they are quiet until spoken to.
    """
    if ring.nodes:
        raise ValueError("the oracle builds whole rings: this one has nodes already")
    if isinstance(members, int):
        for _ in range(members):
            ring.add(ring.new_peer())
    else:
        for peer in members:
            ring.add(peer)
    peers = sorted((node.pastry.me for node in ring.nodes.values()), key=lambda peer: peer.id)
    builder = _Builder(ring, peers, with_timers)
    with without_collector():
        for done, (place, indices) in enumerate(builder.places.items()):
            builder.fill(place, indices)
            if done % REPORT_EVERY == 0:
                progress("building", done, len(builder.places))


@contextmanager
def without_collector() -> Iterator[None]:
    """For making what lives on: the collector would only look at it again and again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def leaves(peers: list[Peer], index: int, half: int) -> list[Peer]:
    """The leaf set of a node, given all nodes in ring order."""
    count = len(peers)
    if count <= 2 * half + 1:
        return peers[:index] + peers[index + 1 :]
    return [peers[(index + step) % count] for step in range(-half, half + 1) if step]


# --- distances -------------------------------------------------------------------------------------


class Distances(Protocol):
    """Round trips from a place to every node, in the order in which the nodes were given."""

    def place(self, index: int) -> int:
        """Where a node is. Nodes in one place are equally far from every other."""

    def round_trips(self, place: int) -> Floats:
        """To each node; that to a node in the same place is what another node there would measure."""


class _AnyDistances:
    """By asking the model for each pair."""

    def __init__(self, network: NetworkModel, peers: Sequence[Peer]) -> None:
        self._network = network
        self._addresses = [peer.address for peer in peers]

    def place(self, index: int) -> int:
        return index

    def round_trips(self, place: int) -> Floats:
        delay, here = self._network.delay, self._addresses[place]
        return np.array([delay(here, there) + delay(there, here) for there in self._addresses])


class _ConstantDistances:
    def __init__(self, network: ConstantDelay, count: int) -> None:
        self._same = np.full(count, 2 * network.seconds)

    def place(self, index: int) -> int:
        return 0

    def round_trips(self, place: int) -> Floats:
        return self._same


class _PlaneDistances:
    def __init__(self, network: PlaneDelay, peers: Sequence[Peer]) -> None:
        self._network = network
        self._points = np.array([network.point(peer.address) for peer in peers])

    def place(self, index: int) -> int:
        return index

    def round_trips(self, place: int) -> Floats:
        network = self._network
        away = np.abs(self._points - self._points[place])
        return np.asarray(2 * (network.seconds + network.across * away))


class _RouterDistances:
    """Twice the way there. The way back differs for one pair in twenty, mostly far ones (``routes``); a
    measurement would have both, but distances *to* a router cost too much in the larger topology."""

    def __init__(self, network: TopologyNetwork, peers: Sequence[Peer]) -> None:
        self._topology = network.topology
        # Two nodes on one router have nothing but their links to it between them.
        self._lans = network.delay(peers[0].address, peers[0].address)
        self._routers = np.array([network.place(peer.address) for peer in peers])

    def place(self, index: int) -> int:
        return int(self._routers[index])

    def round_trips(self, place: int) -> Floats:
        core: Floats = self._topology.delay_row(place)[self._routers].astype(np.float64)
        return 2 * (self._lans + core)


def distances(network: NetworkModel, peers: Sequence[Peer]) -> Distances:
    """The fastest way to get round trips from a model."""
    if isinstance(network, TopologyNetwork):
        return _RouterDistances(network, peers)
    if isinstance(network, PlaneDelay):
        return _PlaneDistances(network, peers)
    if isinstance(network, ConstantDelay):
        return _ConstantDistances(network, len(peers))
    return _AnyDistances(network, peers)


# --- tables ----------------------------------------------------------------------------------------


class Prefixes:
    """The groups of sorted ids that share a prefix, and how each is parted by the next digit."""

    def __init__(self, peers: Sequence[Peer], bits: int) -> None:
        tops = np.array([peer.id >> (BITS - TOP_BITS) for peer in peers], dtype=np.uint64)
        if len(tops) > 1 and not np.all(tops[1:] > tops[:-1]):
            raise ValueError(f"two ids share their first {TOP_BITS} bits")
        self._starts: list[list[int]] = []
        for row in range(TOP_BITS // bits):
            prefixes = tops >> np.uint64(TOP_BITS - bits * (row + 1))
            changes = np.flatnonzero(prefixes[1:] != prefixes[:-1]) + 1
            self._starts.append([0, *changes.tolist()])
            if len(changes) == len(peers) - 1:
                break

    def children(self, row: int, first: int, last: int) -> list[int]:
        """Where the groups of one more digit begin within the group [first, last) of ``row`` digits."""
        starts = self._starts[row]
        return starts[bisect_left(starts, first) : bisect_left(starts, last)]


class _Builder:
    def __init__(self, ring: Fillable, peers: list[Peer], with_timers: bool) -> None:
        config = ring.config
        self._ring = ring
        self._peers = peers
        self._timers = with_timers
        self._half = config.leaf_set_size // 2
        self._neighbours = min(config.neighbourhood_size, len(peers) - 1)
        self._prefixes = Prefixes(peers, config.digit_bits)
        self._distances = distances(ring.simulation.network, peers)
        # Far from the seeds of the nodes themselves, which are drawn from text.
        self._chance = np.random.default_rng([0x0AC1E, ring.simulation.seed])
        self._reach = 0.0
        self.places: dict[int, list[int]] = {}
        for index in range(len(peers)):
            self.places.setdefault(self._distances.place(index), []).append(index)

    def fill(self, place: int, indices: list[int]) -> None:
        """Fill the tables of the nodes in one place."""
        round_trips = self._distances.round_trips(place)
        entries: dict[int, list[tuple[Peer, float]]] = {index: [] for index in indices}
        for index, chosen in self._rows(round_trips, indices):
            entries[index].extend(self._with_distance(chosen, round_trips))
        near = self._near(round_trips)
        for index in indices:
            neighbours = self._nearest(near, round_trips, index)
            self._adopt(index, entries[index], self._with_distance(neighbours, round_trips))

    def _adopt(
        self, index: int, entries: list[tuple[Peer, float]], near: list[tuple[Peer, float]]
    ) -> None:
        simulation = self._ring.simulation
        peer = self._peers[index]
        pastry = self._ring.nodes[peer.id].pastry
        around = leaves(self._peers, index, self._half)
        effects = pastry.adopt(around, entries, near, simulation.now, self._timers)
        simulation.perform(simulation.hosts[peer.address], effects)

    def _with_distance(self, chosen: Indices, round_trips: Floats) -> list[tuple[Peer, float]]:
        peers = self._peers
        return [
            (peers[index], distance)
            for index, distance in zip(chosen.tolist(), round_trips[chosen].tolist(), strict=True)
        ]

    def _rows(self, round_trips: Floats, indices: list[int]) -> Iterator[tuple[int, Indices]]:
        """For each node of one place and each row of its table, the entries."""
        groups = [(0, 0, len(self._peers), indices)]
        while groups:
            row, first, last, inside = groups.pop()
            if last - first < 2:
                continue
            starts = self._prefixes.children(row, first, last)
            pools = _Pools(round_trips[first:last], np.array(starts) - first)
            for index in inside:
                own = bisect_right(starts, index) - 1
                yield index, first + np.delete(pools.draw(self._chance), own)
            for child, begin in enumerate(starts):
                end = starts[child + 1] if child + 1 < len(starts) else last
                members = inside[bisect_left(inside, begin) : bisect_left(inside, end)]
                if members:
                    groups.append((row + 1, begin, end, members))

    def _near(self, round_trips: Floats) -> Indices:
        """Every node that can be among the nearest from here, the one that asks included."""
        wanted = self._neighbours
        # The last place's reach is a good guess for this one's: it spares sorting out all nodes.
        near = np.flatnonzero(round_trips <= self._reach)
        if len(near) <= wanted:
            near = np.arange(len(round_trips))
        farthest = np.partition(round_trips[near], wanted)[wanted]
        self._reach = 1.5 * farthest
        within: Indices = near[round_trips[near] <= farthest]
        return within

    def _nearest(self, near: Indices, round_trips: Floats, index: int) -> Indices:
        others: Indices = near[near != index]
        wanted = self._neighbours
        if len(others) <= wanted:
            return others
        away = round_trips[others]
        farthest = away.max()
        sure, edge = others[away < farthest], others[away == farthest]
        return np.concatenate([sure, self._chance.choice(edge, wanted - len(sure), replace=False)])


class _Pools:
    """The nearest nodes of each of several adjoining groups; ``draw`` takes one of each by chance."""

    def __init__(self, away: Floats, starts: Indices) -> None:
        smallest = np.minimum.reduceat(away, starts)
        sizes = np.diff(starts, append=len(away))
        ties = away == np.repeat(smallest, sizes)
        self._nearest = np.flatnonzero(ties)
        self._counts = np.add.reduceat(ties, starts, dtype=np.intp)
        self._first = np.cumsum(self._counts) - self._counts
        self._alone = len(self._nearest) == len(starts)

    def draw(self, chance: np.random.Generator) -> Indices:
        if self._alone:
            return self._nearest
        picks = (chance.random(len(self._counts)) * self._counts).astype(np.intp)
        return self._nearest[self._first + picks]
