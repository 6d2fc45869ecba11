"""Link stress: how many messages each physical link carried.

Messages are not walked along their routes one by one. They are added up per pair of routers, and for
each source the sums are pushed up its tree, from the farthest routers inwards: what passes a router is
what is meant for it and what passes on to the routers behind it. That takes one step per router and
source, however many messages there were.

Numbering: directed core links as ``graph`` says, ``2 * len(links)`` of them, then two for each end node in
the order of their placing, its LAN link upwards and downwards. Placing more nodes adds links at the end.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.sim.topology.graph import Indexes, Ints, Topology, Tree
    from overlaymq.sim.topology.network import TopologyNetwork

FOLD = 1 << 20
"""Counts that are kept apart before equal pairs are added up: 16 MB."""


class LinkStress:
    """Counts messages between end nodes of a network."""

    __slots__ = ("_counts", "_folded", "_lan", "_network", "_pairs")

    def __init__(self, network: TopologyNetwork) -> None:
        self._network = network
        self._pairs = array("q")
        self._counts = array("q")
        self._folded = 0
        self._lan = array("q")

    def count(self, source: str, target: str, messages: int = 1) -> None:
        """Some messages went from one address to another."""
        network = self._network
        here, there = network.place(source), network.place(target)
        self._count_lan(network.node_of[source] * 2, messages)
        self._count_lan(network.node_of[target] * 2 + 1, messages)
        if here != there:
            self._pairs.append(here * network.topology.routers + there)
            self._counts.append(messages)
            if len(self._pairs) >= self._folded + FOLD:
                self._fold()

    def per_link(self) -> Indexes:
        """Messages carried so far by each directed link."""
        core = self.per_core_link()
        lan = np.zeros(2 * len(self._network.node_of), np.int64)
        lan[: len(self._lan)] = np.frombuffer(self._lan, np.int64)
        return np.concatenate((core, lan))

    def per_core_link(self) -> Indexes:
        """The same without the LAN links."""
        self._fold()
        topology = self._network.topology
        stress = np.zeros(2 * len(topology.links), np.int64)
        sources, targets = np.divmod(np.array(self._pairs, np.int64), topology.routers)
        counts = np.array(self._counts, np.int64)
        for part in np.split(np.arange(len(sources)), np.flatnonzero(np.diff(sources)) + 1):
            if len(part):
                tree = topology.tree(int(sources[part[0]]))
                passed, flow = push_up(tree, targets[part], counts[part])
                # A tree has one link into each router, so no index comes twice.
                stress[_links_into(topology, tree, passed)] += flow
        return stress

    def _count_lan(self, link: int, messages: int) -> None:
        lan = self._lan
        if link >= len(lan):
            lan.extend(bytes(link + 1 - len(lan)))
        lan[link] += messages

    def _fold(self) -> None:
        pairs, inverse = np.unique(np.array(self._pairs, np.int64), return_inverse=True)
        counts = np.zeros(len(pairs), np.int64)
        np.add.at(counts, inverse, np.array(self._counts, np.int64))
        self._pairs = array("q", pairs.tobytes())
        self._counts = array("q", counts.tobytes())
        self._folded = len(pairs)


def both_ways(network: TopologyNetwork, per_link: Indexes) -> Indexes:
    """Messages carried by each link in either direction, of those by each directed one."""
    links = len(network.topology.links)
    core, lan = np.split(per_link, [2 * links])
    return np.concatenate((core[:links] + core[links:], lan[::2] + lan[1::2]))


def multicast_links(network: TopologyNetwork, source: str, members: Iterable[str]) -> Indexes:
    """The directed links of an IP multicast, each of which carries it once.

    The core part is the union of the unicast routes from the source. A source that is a member does not
    send to itself.
    """
    topology = network.topology
    here = network.place(source)
    nodes: dict[int, int] = {}
    for member in members:
        if member != source:
            router = network.place(member)
            nodes[network.node_of[member]] = router
    if not nodes:
        return np.zeros(0, np.int64)
    targets = np.unique(np.fromiter(nodes.values(), np.int64))
    targets = targets[targets != here]
    tree = topology.tree(here)
    passed, _ = push_up(tree, targets, np.ones(len(targets), np.int64))
    first_lan = 2 * len(topology.links)
    down = np.fromiter(nodes, np.int64) * 2 + 1
    lan = np.concatenate((np.array([network.node_of[source] * 2]), down)) + first_lan
    return np.concatenate((_links_into(topology, tree, passed), lan))


def push_up(tree: Tree, targets: Indexes, counts: Indexes) -> tuple[Indexes, Indexes]:
    """The routers that counts for some targets pass through, the source aside, and how much passes.

    No target may be the source.
    """
    flow = np.zeros(len(tree.parent), np.int64)
    np.add.at(flow, targets, counts)
    hops = tree.hops[targets]
    passed = []
    arriving = np.zeros(0, np.int64)
    for level in range(int(hops.max(initial=0)), 0, -1):
        here = np.unique(np.concatenate((targets[hops == level], arriving)))
        passed.append(here)
        arriving = tree.parent[here].astype(np.int64)
        if level > 1:
            np.add.at(flow, arriving, flow[here])
    routers = np.concatenate([np.zeros(0, np.int64), *passed])
    return routers, flow[routers]


def _links_into(topology: Topology, tree: Tree, routers: Indexes) -> Indexes:
    parents: Ints = tree.parent[routers]
    return topology.link_indexes(parents, routers)
