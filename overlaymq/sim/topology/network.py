"""End nodes on a topology: where each one is attached, and how far apart two of them are.

A node hangs on a router by a LAN link of its own. Routers are drawn uniformly, all of them alike, in the
order in which addresses are first heard of, so a seed and a history fix the places.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.sim.topology.graph import Topology

LAN = 0.001
"""Seconds between an end node and its router (Scribe, JSAC 2002, section IV.A)."""


class TopologyNetwork:
    """A network model: LAN, core, LAN. Two nodes on one router are two LAN links apart."""

    __slots__ = ("_core", "_lans", "_random", "node_of", "router_of", "topology")

    def __init__(self, topology: Topology, seed: int, lan: float = LAN) -> None:
        self.topology = topology
        self.router_of: dict[str, int] = {}
        self.node_of: dict[str, int] = {}
        """Nodes are numbered in the order of their placing."""
        self._random = Random(f"overlaymq placement {seed}")
        self._lans = 2 * lan
        self._core = topology.delay

    def place(self, address: str) -> int:
        """The router of an address, drawn when it is new."""
        router = self.router_of.get(address)
        if router is None:
            router = self._random.randrange(self.topology.routers)
            self.router_of[address] = router
            self.node_of[address] = len(self.node_of)
        return router

    def place_all(self, addresses: Iterable[str]) -> None:
        """Place addresses in their order."""
        for address in addresses:
            self.place(address)

    def delay(self, source: str, target: str) -> float:
        """Seconds one way."""
        try:
            return self._lans + self._core(self.router_of[source], self.router_of[target])
        except KeyError:
            return self._lans + self._core(self.place(source), self.place(target))
