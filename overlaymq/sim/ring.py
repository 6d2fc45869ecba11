"""Pastry alone in the simulator: rings built by the join protocol, lookups, and named invariants.

``PastryOnly`` is the thinnest application: it answers lookups and records where messages were delivered.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from overlaymq.config import PastryConfig
from overlaymq.core.pastry import Pastry
from overlaymq.events import Join, Leave
from overlaymq.ids import RING, Id, rank
from overlaymq.messages import LookupReply, LookupRequest, Peer
from overlaymq.sim.engine import Simulation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.node import Node
    from overlaymq.core.pastry.overlay import PastryInput
    from overlaymq.messages import Message, Routed
    from overlaymq.sim.faults import Faults
    from overlaymq.sim.network import NetworkModel


SEED_DRAWS = 20
"""Nearly all nodes are active, so drawing until one is costs less than looking at all of them."""


class Delivery:
    """One lookup's end."""

    __slots__ = ("at", "hops", "request", "when")

    def __init__(self, request: int, at: Peer, hops: int, when: float) -> None:
        self.request = request
        self.at = at
        self.hops = hops
        self.when = when


class PastryOnly:
    """A node that is only Pastry, and its own application."""

    __slots__ = ("answers", "pastry", "ring")

    def __init__(self, ring: Ring, me: Peer) -> None:
        self.ring = ring
        self.answers: list[LookupReply] = []
        random = ring.simulation.node_random(f"{me.address} {me.incarnation}")
        self.pastry = Pastry(me, ring.config, random, self)

    def handle(self, input: PastryInput, now: float) -> Effects:
        """Pass it on."""
        return self.pastry.handle(input, now)

    def forward(
        self, routed: Routed, next_hop: Peer, now: float
    ) -> tuple[Routed, Peer | None, Effects]:
        """Let everything pass."""
        return routed, next_hop, []

    def deliver(self, routed: Routed, now: float) -> Effects:
        """Record it."""
        if isinstance(routed.body, LookupRequest):
            request = routed.body.request
            delivery = Delivery(request, self.pastry.me, routed.hops, now)
            self.ring.deliveries.setdefault(request, []).append(delivery)
        return []

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """Nothing else is sent."""
        return []

    def new_leafs(self, now: float) -> Effects:
        """Nothing depends on it."""
        return []

    def peer_died(self, peer: Peer, now: float) -> Effects:
        """Nor on this."""
        return []


class Ring:
    """A simulated ring of ``PastryOnly`` nodes."""

    def __init__(
        self,
        seed: int,
        network: NetworkModel,
        config: PastryConfig | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.simulation = Simulation(seed, network, faults)
        self.config = config or PastryConfig()
        self.random = self.simulation.node_random("workload")
        self.nodes: dict[Id, PastryOnly] = {}
        self.deliveries: dict[int, list[Delivery]] = {}
        self.keys: dict[int, Id] = {}

    # --- membership --------------------------------------------------------------------------------

    def new_peer(self, random: Random | None = None) -> Peer:
        """A node that does not exist yet."""
        random = random or self.random
        return Peer(Id(random.getrandbits(128)), f"node-{len(self.simulation.hosts)}")

    def add(self, peer: Peer) -> PastryOnly:
        """A node that has not started."""
        node = PastryOnly(self, peer)
        self.simulation.add_node(peer, node)
        self.nodes[peer.id] = node
        return node

    def join(self, peer: Peer, *seeds: Peer) -> PastryOnly:
        """Start a node."""
        node = self.add(peer)
        self.simulation.start(peer, Join(seeds))
        return node

    def random_seeds(self, count: int, random: Random) -> list[Peer]:
        """That many different active nodes, or as many as there are."""
        nodes = list(self.nodes.values())
        seeds: dict[Id, Peer] = {}
        for _ in range(SEED_DRAWS * count if nodes else 0):
            pastry = nodes[random.randrange(len(nodes))].pastry
            if pastry.active:
                seeds[pastry.me.id] = pastry.me
                if len(seeds) == count:
                    return list(seeds.values())
        active = [node.pastry.me for node in nodes if node.pastry.active]
        return random.sample(active, min(count, len(active)))

    def grow(self, count: int, spacing: float = 0.05) -> None:
        """Join nodes one after the other, each through a random active one."""
        for _ in range(count):
            self.join(self.new_peer(), *self.random_seeds(1, self.random))
            self.simulation.run_until(self.simulation.now + spacing)

    def settle(self, limit: float = 60.0) -> bool:
        """Run until every node is active; whether that came true in time."""
        end = self.simulation.now + limit
        while self.simulation.now < end:
            if all(node.pastry.active for node in self.nodes.values()):
                return True
            self.simulation.run_until(self.simulation.now + 0.5)
        return False

    def crash(self, peer: Peer) -> None:
        """A silent failure."""
        self.simulation.crash(peer)
        del self.nodes[peer.id]

    def leave(self, peer: Peer) -> None:
        """A graceful one."""
        self.simulation.start(peer, Leave())
        self.crash(peer)

    # --- lookups -----------------------------------------------------------------------------------

    def look_up(self, key: Id, start: PastryOnly, randomize: bool = False) -> int:
        """Route a lookup; the number it is recorded under."""
        simulation = self.simulation
        request = len(self.keys)
        self.keys[request] = key
        host = simulation.hosts[start.pastry.me.address]
        now = simulation.local_time(host)
        effects = start.pastry.route(key, LookupRequest(request), now, randomize)
        simulation.perform(host, effects)
        return request

    def random_lookups(self, count: int, over: float) -> list[int]:
        """Random keys from random nodes, evenly over some seconds."""
        nodes = list(self.nodes.values())
        requests = []
        for _ in range(count):
            node = nodes[self.random.randrange(len(nodes))]
            requests.append(self.look_up(Id(self.random.getrandbits(128)), node))
            self.simulation.run_until(self.simulation.now + over / count)
        return requests

    # --- invariants --------------------------------------------------------------------------------

    def ids(self) -> list[Id]:
        """Live ids in ring order."""
        return sorted(self.nodes)

    def wrong_leaf_sets(self) -> list[Id]:
        """Nodes whose leaf set is not exactly their neighbours on the ring."""
        ids = self.ids()
        half = self.config.leaf_set_size // 2
        wrong = []
        for index, id_ in enumerate(ids):
            around = {ids[(index + step) % len(ids)] for step in range(-half, half + 1)} - {id_}
            if self.nodes[id_].pastry.kept != around:
                wrong.append(id_)
        return wrong

    def owner(self, key: Id, ids: list[Id]) -> Id:
        """Who owns a key, by looking at everyone."""
        index = bisect_left(ids, key)
        return min((ids[index - 1], ids[index % len(ids)]), key=lambda id_: rank(key, id_))

    def wrong_owners(self, keys: list[Id]) -> list[Id]:
        """Keys that not exactly one node, the closest, claims."""
        ids = self.ids()
        wrong = []
        for key in keys:
            claims = [i for i in ids if self.nodes[i].pastry.owner(key) is self.nodes[i].pastry.me]
            if claims != [self.owner(key, ids)]:
                wrong.append(key)
        return wrong


def is_one(nodes: Mapping[Id, Node]) -> bool:
    """Whether every node knows its true neighbours: without that there are two rings, and two roots."""
    ids = sorted(nodes)
    return all(
        {ids[index - 1], ids[(index + 1) % len(ids)]} <= nodes[id_].pastry.kept
        for index, id_ in enumerate(ids)
    )


def midpoint(low: Id, high: Id) -> Id:
    """The id half-way clockwise from one to another."""
    return Id((low + ((high - low) % RING) // 2) % RING)
