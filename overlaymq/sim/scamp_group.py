"""Thousands of members of one gossip topic: real strategies on the simulator, without Pastry below them.

Each node runs the ``Scamp`` strategy and nothing else. What it would route to the topic's key goes straight
to the first node, which is the rendezvous and stays up. Links take a tenth of a second at most. A node that
dies is noticed by those that kept a link to it, as with TCP.

Payload copies are counted as they arrive, so copies for each delivery are what the members' links carried.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from overlaymq.config import DeliveryConfig, RendezvousConfig, ScribeConfig
from overlaymq.core.dissemination.base import Surroundings
from overlaymq.core.dissemination.scamp import Scamp
from overlaymq.core.reliability.upcalls import Upcalls
from overlaymq.events import PeerFailed, Received, Replicate, Route, Send, TimerFired
from overlaymq.ids import BITS, Id, topic_id
from overlaymq.messages import Batch, Descriptor, Peer
from overlaymq.sim.engine import Simulation
from overlaymq.sim.network import PlaneDelay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.config import ScampConfig
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.sim.engine import Host

TOPIC = topic_id("group")
DESCRIPTOR = Descriptor(TOPIC, "group", "", TOPIC, "scamp", "best_effort", "lossy")
DELIVERY = DeliveryConfig(history=16, history_bytes=4096)
"""What late joiners and pulls are served from; payloads are empty here."""
JOIN_SPACING = 0.002
NOTICED = 0.1
"""Seconds until a broken link is noticed."""


class Member:
    """A strategy as the engine drives it."""

    __slots__ = ("copies", "got", "root", "strategy")

    def __init__(self, strategy: Scamp, root: Peer) -> None:
        self.strategy = strategy
        self.root = root
        self.copies = 0
        self.got: set[int] = set()

    def handle(self, input: Any, now: float) -> list[Any]:
        """Take one input, return effects."""
        if isinstance(input, Received):
            self.copies += isinstance(input.message, Batch)
            return self.resolved(self.strategy.receive(input.peer, input.message, now), now)
        if isinstance(input, TimerFired):
            return self.resolved(self.strategy.fired(input.timer, now), now)
        if isinstance(input, PeerFailed):
            return self.resolved(self.strategy.failed(input.peer, now), now)
        raise TypeError(f"not for a member: {input!r}")

    def resolved(self, effects: Effects, now: float) -> list[Any]:
        """Routes go to the rendezvous; what is for this node stays here."""
        done: list[Any] = []
        queue = list(reversed(effects))
        while queue:
            effect = queue.pop()
            if isinstance(effect, Route):
                effect = Send(self.root, effect.message)
            if isinstance(effect, Send) and effect.peer.id == self.strategy.around.me.id:
                queue += reversed(self.strategy.receive(effect.peer, effect.message, now))
            elif not isinstance(effect, Replicate):  # this rendezvous never fails
                done.append(effect)
        return done


class Group:
    """A gossip topic and its members."""

    def __init__(self, seed: int, config: ScampConfig) -> None:
        self.random = Random(f"overlaymq scamp group {seed}")
        self.config = config
        self.simulation = Simulation(seed, PlaneDelay())
        self.simulation.on_deliver = self._delivered
        self.members: dict[Id, Member] = {}
        self._peers: list[Peer] = []
        self._published = 0

    def grow(self, count: int) -> None:
        """So many nodes subscribe, one shortly after the other, and settle."""
        for _ in range(count):
            self._join()
            self.simulation.run_until(self.simulation.now + JOIN_SPACING)
        self.run(5.0)

    def _join(self) -> None:
        number = len(self._peers)
        drawn = Id(self.random.getrandbits(BITS))
        peer = Peer(drawn if number else TOPIC, f"node-{number}")  # the rendezvous is at the key
        self._peers.append(peer)
        around = Surroundings(
            me=peer,
            random=self.simulation.node_random(peer.address),
            rendezvous=RendezvousConfig(),
            delivery=DELIVERY,
            scribe=ScribeConfig(),
            upcalls=Upcalls(),
            scamp=self.config,
        )
        root = self._peers[0]
        member = self.members[peer.id] = Member(Scamp(DESCRIPTOR, around), root)
        host = self.simulation.add_node(peer, member)
        now = self.simulation.now
        effects: Effects = []
        if not number:
            effects += member.strategy.root_changed(root, now)
        effects += member.strategy.subscribe(0, now)
        self.simulation.perform(host, member.resolved(effects, now))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.simulation.run_until(self.simulation.now + seconds)

    def fail(self, share: float) -> None:
        """A share of the members dies at once; the rendezvous does not."""
        others = self._peers[1:]
        dead = self.random.sample(others, round(share * len(self.members)))
        for peer in dead:
            self.simulation.crash(peer)
            del self.members[peer.id]
        gone = {peer.id: peer for peer in dead}
        self._peers = [peer for peer in self._peers if peer.id not in gone]
        for member in self.members.values():
            host = self.simulation.hosts[member.strategy.around.me.address]
            for kept in member.strategy.kept:
                if kept.id in gone:
                    failed = PeerFailed(kept, "its node died")
                    self.simulation.schedule(NOTICED, host, failed)

    def publish(self, source: Peer | None = None) -> int:
        """A member publishes; the number of the publication."""
        peer = source or self.random.choice(self._peers)
        member = self.members[peer.id]
        self._published += 1
        batch = Batch(TOPIC, peer.id, 1, self._published, 1, b"")
        effects = member.strategy.publish(batch, self.simulation.now)
        host = self.simulation.hosts[peer.address]
        self.simulation.perform(host, member.resolved(effects, self.simulation.now))
        return self._published

    def reached(self, number: int) -> float:
        """The share of the members that have a publication."""
        return sum(number in member.got for member in self.members.values()) / len(self.members)

    def copies_per_delivery(self, numbers: Sequence[int], before: int) -> float:
        """Payloads that arrived since a count was taken, for each delivery to another member."""
        got = sum(number in one.got for number in numbers for one in self.members.values())
        return (self.copies() - before) / max(1, got - len(numbers))

    def copies(self) -> int:
        """Payloads that have arrived at members."""
        return sum(member.copies for member in self.members.values())

    def mean_view(self) -> float:
        """Of the members' partial views."""
        sizes = [len(member.strategy.views.partial) for member in self.members.values()]
        return sum(sizes) / len(sizes)

    def _delivered(self, host: Host, batch: Batch) -> None:
        member = host.node
        assert isinstance(member, Member)
        member.got.add(batch.first)
