"""A ring as the arrivals of the Scribe paper leave it, without sending their messages.

The paper's nodes have the tables that its arrival protocol gives them (JSAC II.B): a newcomer asks a nearby
node to route a message to the newcomer's own id, gets row i of its table from the i-th node on the way and
its leaf set from the last, and notifies those who need to know of it. That is less than the oracle's perfect
tables: entries that were the nearest when a node arrived stay although nearer nodes arrive later, and nodes
near each other inherit the same entries. Both show in Scribe's trees, as longer delays and as a few nodes
with many children. On a transit-stub network of 10,000 nodes the mean stretch of routes is 1.80 with these
tables, 1.61 with perfect ones, and 1.76 with those of our own joins (`pastry-oracle`), which take minutes.

So the arrivals are replayed here one by one, at the tables alone:

1. The nearby node is the nearest of all that have arrived, one of them by chance if several are.
2. Its route to the newcomer's id follows the tables. Each node on it gives those rows that fit the newcomer
   and are still missing, and is an entry itself where it is nearer than the one it gave.
3. The newcomer sends each row to the nodes in it (FreePastry; protocols.md 1.4). They take from it, and from
   the newcomer itself, whatever is nearer than what they have.
4. Leaf sets are exact, as the protocol makes them; the newcomer and its leaves enter each other's tables.

Neighbourhood sets stay empty: nothing here needs them. Nobody leaves. Distances are round trips. Of entries
that are equally near the first to come is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from overlaymq.ids import BITS, shared_digits
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import no_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.ids import Id
    from overlaymq.messages import Peer
    from overlaymq.sim.experiments.base import Progress

Entries = NDArray[np.int32]
Matrix = NDArray[np.float32]

NOBODY = -1
REPORT_EVERY = 1024
MOST_PLACES = 25_000
"""Places between which distances are held all at once: 2.5 GB."""


def build(ring: oracle.Fillable, count: int, progress: Progress = no_progress) -> None:
    """Fill an empty ring with so many new nodes, in the order in which they arrived."""
    if ring.nodes:
        raise ValueError("arrivals build whole rings: this one has nodes already")
    peers = [ring.add(ring.new_peer()).pastry.me for _ in range(count)]
    order = {peer.id: index for index, peer in enumerate(peers)}
    peers.sort(key=lambda peer: peer.id)
    places, between = _distances(ring, peers)
    leaves, bits = ring.config.leaf_set_size // 2, ring.config.digit_bits
    chance = Random(f"overlaymq arrivals {ring.simulation.seed}")
    arrivals = Arrivals([peer.id for peer in peers], places, between, bits, leaves, chance)
    newcomers = sorted(range(count), key=lambda index: order[peers[index].id])
    for done, newcomer in enumerate(newcomers):
        arrivals.arrive(newcomer)
        if done % REPORT_EVERY == 0:
            progress("arriving", done, count)
    with oracle.without_collector():
        for index in range(count):
            _adopt(ring, peers, index, arrivals.entries(index))


def _distances(ring: oracle.Fillable, peers: Sequence[Peer]) -> tuple[NDArray[np.intp], Matrix]:
    """The place of each node, numbered from 0, and the round trips between places."""
    distances = oracle.distances(ring.simulation.network, peers)
    where = np.array([distances.place(index) for index in range(len(peers))])
    names, first, places = np.unique(where, return_index=True, return_inverse=True)
    if len(names) > MOST_PLACES:
        raise ValueError(f"{len(names)} places are too many: {MOST_PLACES} at most")
    between = np.empty((len(names), len(names)), np.float32)
    for number, name in enumerate(names.tolist()):
        between[number] = distances.round_trips(name)[first]
    return places, between


def _adopt(
    ring: oracle.Fillable, peers: list[Peer], index: int, entries: list[tuple[int, float]]
) -> None:
    simulation, me = ring.simulation, peers[index]
    effects = ring.nodes[me.id].pastry.adopt(
        oracle.leaves(peers, index, ring.config.leaf_set_size // 2),
        [(peers[other], distance) for other, distance in entries],
        [],
        simulation.now,
    )
    simulation.perform(simulation.hosts[me.address], effects)


class Arrivals:
    """The routing tables of all nodes that have arrived, of nodes known by their place in ring order.

    ``places`` says where each node is, ``between`` how far two places are apart.
    """

    def __init__(
        self,
        ids: Sequence[Id],
        places: NDArray[np.intp],
        between: Matrix,
        bits: int,
        leaves: int,
        chance: Random,
    ) -> None:
        self._ids = ids
        self._places = places
        self._between = between
        self._bits = bits
        self._leaves = leaves
        self._chance = chance
        deepest = max((shared_digits(one, other, bits) for one, other in pairwise(ids)), default=0)
        self._rows = deepest + 1
        self._columns = 1 << bits
        shifts = [BITS - bits * (row + 1) for row in range(self._rows)]
        digits = [[id_ >> shift & self._columns - 1 for shift in shifts] for id_ in ids]
        self._digits = np.array(digits, np.int16)
        self._table = np.full((len(ids), self._rows, self._columns), NOBODY, np.int32)
        self._arrived: list[int] = []
        self._at: list[list[int]] = [[] for _ in range(len(between))]
        self._empty = np.full(len(between), np.inf, np.float32)

    def entries(self, index: int) -> list[tuple[int, float]]:
        """A node's table, with the distance of each entry."""
        found = self._table[index][self._table[index] != NOBODY]
        away = self._between[self._places[index], self._places[found]]
        return list(zip(found.tolist(), away.tolist(), strict=True))

    def arrive(self, newcomer: int) -> None:
        """One more node."""
        if self._arrived:
            way = self._collect(newcomer, self._nearby(newcomer))
            for host in way:
                self._consider(newcomer, host)
            for row in range(self._rows):
                self._notify(newcomer, row)
        self._meet_leaves(newcomer)
        place = int(self._places[newcomer])
        self._at[place].append(newcomer)
        self._empty[place] = 0.0

    def _nearby(self, newcomer: int) -> int:
        nearest = int(np.argmin(self._between[self._places[newcomer]] + self._empty))
        there = self._at[nearest]
        return there[self._chance.randrange(len(there))]

    def _collect(self, newcomer: int, host: int) -> list[int]:
        """Take over rows from the nodes on the way to the newcomer's own id; the nodes."""
        table, digits = self._table, self._digits[newcomer].tolist()
        way = [host]
        missing = 0
        while True:
            shared = shared_digits(self._ids[host], self._ids[newcomer], self._bits)
            table[newcomer, missing : shared + 1] = table[host, missing : shared + 1]
            missing = max(missing, shared + 1)
            host = int(table[host, shared, digits[shared]])
            if host == NOBODY:
                break
            way.append(host)
        table[newcomer, range(self._rows), digits] = NOBODY
        return way

    def _consider(self, node: int, other: int) -> None:
        """Enter a node where it is nearer than whoever is there."""
        shared = shared_digits(self._ids[node], self._ids[other], self._bits)
        column = self._digits[other, shared]
        held = self._table[node, shared, column]
        place = self._places[node]
        if held != NOBODY:
            away = self._between[place]
            if away[self._places[other]] >= away[self._places[held]]:
                return
        self._table[node, shared, column] = other

    def _notify(self, newcomer: int, row: int) -> None:
        """Send a row to the nodes in it."""
        offered = self._table[newcomer, row].copy()
        offered[self._digits[newcomer, row]] = newcomer
        told = offered[offered != NOBODY]
        told = told[told != newcomer]
        if not len(told):
            return
        places, between = self._places, self._between
        here = places[told][:, None]
        held = self._table[told, row]
        held_away = np.where(held == NOBODY, np.inf, between[here, places[held]])
        away = np.where(offered == NOBODY, np.inf, between[here, places[offered]])
        nearer = away < held_away
        nearer[range(len(told)), self._digits[told, row]] = False
        self._table[told, row] = np.where(nearer, offered, held)

    def _meet_leaves(self, newcomer: int) -> None:
        for leaf in self._around(newcomer):
            self._consider(newcomer, leaf)
            self._consider(leaf, newcomer)
        self._arrived.insert(bisect_left(self._arrived, newcomer), newcomer)

    def _around(self, node: int) -> list[int]:
        """The leaf set of a node among those that have arrived."""
        arrived, half = self._arrived, self._leaves
        place = bisect_left(arrived, node)
        if len(arrived) <= 2 * half:
            return [other for other in arrived if other != node]
        here = arrived[place % len(arrived)] == node
        steps = [*range(-half, 0), *range(here, half + here)]
        return [arrived[(place + step) % len(arrived)] for step in steps]
