"""A hundred thousand membership machines of SCAMP without nodes, rings or links around them.

The machines are the real ones (``core.dissemination.scamp.views``); the world only carries their messages,
one after the other, in no time. Contacts are drawn uniformly from the members, as in the paper's
experiments, or are always the same one. A subscription is done with before the next begins.

What a multicast reaches is a walk over the views as they stand: forwarding on first receipt to the whole view
reaches whatever can be reached (``reach``). The same is computed for the paper's baseline, where everybody
knows everybody and gossips to ln n members at random (``reach_with_full_membership``).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from overlaymq.core.dissemination.scamp.views import Views
from overlaymq.ids import Id
from overlaymq.messages import Peer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from overlaymq.config import ScampConfig
    from overlaymq.events import Send

    Indexes = NDArray[np.int64]
    Flags = NDArray[np.bool_]

TOPIC = Id(0)


class World:
    """Members, and their machines by number. Nothing takes time: leases end when they are told to."""

    def __init__(self, seed: int, config: ScampConfig) -> None:
        self.random = Random(f"overlaymq scamp {seed}")
        self.config = config
        self.nodes: list[Views] = []
        self.now = 0.0
        self.messages = 0

    # --- members ---

    def grow(self, count: int, single_contact: bool = False) -> None:
        """So many nodes subscribe, through random members or all through the first."""
        for _ in range(count):
            number = len(self.nodes)
            node = Views(Peer(Id(number), ""), TOPIC, self.config, self.random)
            self.nodes.append(node)
            if not number:
                node.begin(self.now)
                continue
            contact = 0 if single_contact else self.any_of(number)
            self.carry(node, node.subscribe(self.nodes[contact].me, self.now))

    def any_of(self, first: int) -> int:
        """A random member among the first so many nodes."""
        while True:
            number = int(self.random.random() * first)
            if self.nodes[number].member:
                return number

    def carry(self, source: Views, sends: list[Send]) -> None:
        """Deliver messages, and those that they bring about, until there are none."""
        nodes, now = self.nodes, self.now
        stack: list[tuple[Peer, Send]] = [(source.me, send) for send in reversed(sends)]
        carried = 0
        while stack:
            peer, send = stack.pop()
            carried += 1
            there = nodes[send.peer.id]
            more = there.receive(peer, send.message, now)
            stack += [(there.me, send) for send in reversed(more)]
        self.messages += carried

    def unsubscribe(self, numbers: Iterable[int]) -> None:
        """These leave, one after the other."""
        for number in numbers:
            node = self.nodes[number]
            self.carry(node, node.unsubscribe(self.now))

    def end_lease(self, number: int) -> None:
        """A node's lease ends, everywhere and before all others."""
        node = self.nodes[number]
        for holder in [self.nodes[id_] for id_ in node.inward]:
            holder.partial[node.me.id].time = self.now
            self.carry(holder, holder.expire(self.now))

    def renew(self, number: int, contact: int, copies: int = 0) -> None:
        """A node's lease ends; it subscribes again."""
        self.end_lease(number)
        node = self.nodes[number]
        self.carry(node, node.renew(self.nodes[contact].me, self.now, copies))

    # --- what it came to ---

    @property
    def members(self) -> list[Views]:
        """Those that have not left."""
        return [node for node in self.nodes if node.member]

    def sizes(self) -> Indexes:
        """Sizes of the members' partial views."""
        return np.array([len(node.partial) for node in self.members])

    def steps(self) -> float:
        """Mean number of hops of a copy before it was kept."""
        kept = sum(node.kept for node in self.nodes)
        return sum(node.walked for node in self.nodes) / max(1, kept)

    def not_mutual(self) -> int:
        """Entries of partial views without their counterpart, and the other way round."""
        faults = 0
        for node in self.members:
            me = node.me.id
            faults += sum(me not in self.nodes[id_].inward for id_ in node.partial)
            faults += sum(me not in self.nodes[id_].partial for id_ in node.inward)
        return faults

    def graph(self) -> Graph:
        """The views as they stand."""
        return Graph([list(node.partial) for node in self.nodes])


class Graph:
    """Arcs from node to node, in two arrays."""

    def __init__(self, views: list[Any]) -> None:
        sizes = np.array([len(view) for view in views], dtype=np.int64)
        self.starts = np.concatenate(([0], np.cumsum(sizes)))
        self.targets = np.array([id_ for view in views for id_ in view], dtype=np.int64)
        self.count = len(views)

    def reach(self, source: int, alive: Flags) -> Flags:
        """Whom a message of this source gets to, if everyone passes it on to its whole view."""
        reached = np.zeros(self.count, dtype=np.bool_)
        reached[source] = True
        frontier = np.array([source])
        while len(frontier):
            sizes = self.starts[frontier + 1] - self.starts[frontier]
            offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            targets = self.targets[np.repeat(self.starts[frontier], sizes) + offsets]
            fresh = np.unique(targets[alive[targets] & ~reached[targets]])
            reached[fresh] = True
            frontier = fresh
        return reached

    def unheard(self, alive: Flags) -> float:
        """The share of survivors whose whole view has failed: what they publish reaches nobody."""
        heard = np.concatenate(([0], np.cumsum(alive[self.targets])))
        neighbours = heard[self.starts[1:]] - heard[self.starts[:-1]]
        return float((neighbours[alive] == 0).mean())


def failing(count: int, share: float, random: np.random.Generator, spared: int) -> Flags:
    """Who is alive after a share of the nodes has failed; one of them never does."""
    alive = np.ones(count, dtype=np.bool_)
    order = random.permutation(count)
    order = order[order != spared]
    alive[order[: round(share * count)]] = False
    return alive


def share_reached(graph: Graph, source: int, alive: Flags) -> float:
    """The share of the other survivors that are reached."""
    reached = graph.reach(source, alive)
    return float((reached.sum() - 1) / max(1, alive.sum() - 1))


def reach_with_full_membership(
    source: int, alive: Flags, fanout: float, random: np.random.Generator, loss: float = 0.0
) -> float:
    """The share of survivors reached if each node gossips once to so many others, drawn from all.

    A fanout that is no whole number is met on average. Of what is sent, a share may be lost."""
    count = len(alive)
    reached = np.zeros(count, dtype=np.bool_)
    reached[source] = True
    frontier = np.array([source])
    while len(frontier):
        more = random.random(len(frontier)) < fanout % 1
        draws = random.integers(0, count, int(fanout) * len(frontier) + int(more.sum()))
        if loss:
            draws = draws[random.random(len(draws)) >= loss]
        fresh = np.unique(draws[alive[draws] & ~reached[draws]])
        reached[fresh] = True
        frontier = fresh
    return float((reached.sum() - 1) / max(1, alive.sum() - 1))
