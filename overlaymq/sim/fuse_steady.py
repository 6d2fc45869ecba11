"""What failure groups cost when nothing happens: the messages of a quiet ring without groups and with them.

The ring is the same for every row, and so is the time. Beside Pastry's own messages there are only FUSE's
pings, which go along edges that heartbeats do not go along: as many as there are new edges, times the
periods. More groups cost more only as far as they have new edges: of the last two rows, one has ten groups
wherever the other has one. (Pastry's own maintenance draws at random, so the sums differ by a few messages.)

    python -m overlaymq.sim.fuse_steady [--json]
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq.config import Config, FuseConfig, PastryConfig
from overlaymq.core.fuse import MESSAGES
from overlaymq.core.node import Node
from overlaymq.events import CreateGroup, GroupCreated, GroupFailed
from overlaymq.ids import BITS, Id
from overlaymq.messages import FusePing, Heartbeat, Lease, Peer
from overlaymq.sim import oracle
from overlaymq.sim.engine import Simulation
from overlaymq.sim.network import PlaneDelay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.events import Event
    from overlaymq.sim.engine import Host
    from overlaymq.sim.faults import Faults
    from overlaymq.sim.network import NetworkModel

NODES = 128
SIZE = 4
SECONDS = 100.0
SETTLE_SECONDS = 40.0
ROWS = ((0, 0), (1000, 1000), (100, 100), (1000, 100))
"""Groups, and different sets of members that they have."""
CONFIG = Config(
    pastry=PastryConfig(heartbeat_every=5.0, leaf_set_size=16), fuse=FuseConfig(ping_every=5.0)
)
"""The defaults; what counts is named."""


class Steady(msgspec.Struct, frozen=True):
    """Messages of a quiet ring; ``fuse``: all that are FUSE's own, pings among them. Edges are counted once
    for each direction; along ``ring_edges`` there are heartbeats anyway. ``expected``: pings along the
    others, one a period."""

    groups: int
    sets: int
    messages: int
    heartbeats: int
    fuse: int
    pings: int
    edges: int
    ring_edges: int
    expected: int


class Ring:
    """A ring of whole nodes, the same for the same seed."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        config: Config = CONFIG,
        network: NetworkModel | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.simulation = Simulation(seed, network or PlaneDelay(), faults)
        self.whole = config
        self.config = config.pastry
        self.random = Random(f"overlaymq fuse steady {seed}")
        self.nodes: dict[Id, Node] = {}
        self.sent: dict[type, int] = {}
        self.told: list[Event] = []
        oracle.build(self, nodes, with_timers=True)
        self.simulation.on_notify = lambda _, event: self.told.append(event)

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""
        return Peer(Id(self.random.getrandbits(BITS)), f"node-{len(self.nodes)}")

    def add(self, peer: Peer) -> Node:
        """A node that has not started."""
        node = self.nodes[peer.id] = Node(
            peer, self.whole, self.simulation.node_random(peer.address)
        )
        self.simulation.add_node(peer, node)
        return node

    def make_group(self, members: Sequence[Peer]) -> Id:
        """The first of them asks."""
        group = Id(self.random.getrandbits(BITS))
        self.simulation.start(members[0], CreateGroup(group, tuple(members[1:])))
        return group

    def make_groups(self, groups: int, sets: int) -> None:
        """So many, over so many different sets of members."""
        peers = [node.me for node in self.nodes.values()]
        chosen = [self.random.sample(peers, SIZE) for _ in range(sets)]
        for number in range(groups):
            self.make_group(chosen[number % sets])

    def watch(self, seconds: float, groups: int, sets: int) -> Steady:
        """Count what is sent from now on."""
        self.sent.clear()
        self.simulation.on_send = self.count
        self.simulation.run_until(self.simulation.now + seconds)
        self.simulation.on_send = None
        edges = [(node, peer.id) for node in self.nodes.values() for peer in node.fuse.kept]
        along_ring = sum(peer in node.pastry.ring_neighbours for node, peer in edges)
        sent = self.sent
        return Steady(
            groups=groups,
            sets=sets,
            messages=sum(sent.values()),
            heartbeats=sent.get(Heartbeat, 0) + sent.get(Lease, 0),
            fuse=sum(sent.get(kind, 0) for kind in MESSAGES),
            pings=sent.get(FusePing, 0),
            edges=len(edges),
            ring_edges=along_ring,
            expected=round((len(edges) - along_ring) * seconds / self.whole.fuse.ping_every),
        )

    def count(self, now: float, host: Host, peer: Peer, message: Any, fate: str) -> None:
        """A message was sent."""
        self.sent[type(message)] = self.sent.get(type(message), 0) + 1


def measure(
    groups: int, sets: int, seed: int = 1, nodes: int = NODES, seconds: float = SECONDS
) -> Steady:
    """Make groups, wait until all is quiet, and count."""
    ring = Ring(seed, nodes)
    ring.make_groups(groups, sets)
    ring.simulation.run_until(SETTLE_SECONDS)
    created = sum(isinstance(event, GroupCreated) for event in ring.told)
    if created != groups or any(isinstance(event, GroupFailed) for event in ring.told):
        raise RuntimeError(f"{created} of {groups} groups were created, or some have failed")
    return ring.watch(seconds, groups, sets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each number of groups."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.fuse_steady")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = [measure(groups, sets) for groups, sets in ROWS]
    if options.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    print(f"{NODES} nodes, {SECONDS:.0f} s")
    for row in rows:
        print(*(f"{name} {value}" for name, value in msgspec.structs.asdict(row).items()), sep=", ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
