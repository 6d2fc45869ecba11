"""Ordered topics under faults: whole nodes in the simulator, and an observer that trusts none of them.

A *trial* is a seed. Its nodes are whole cores; topics have subscribers and publishers; while they publish,
forwarders and roots crash, the network loses messages and parts, nodes join (some of them closer to a topic's
key than its root) and subscribe in the midst of repair. Then all is mended and quiet, and judged.

The *observer* keeps, from the outside, every message's places (which root gave it which number, seen on the
wire and in acknowledgements) and what each subscriber was given and told, in order. It asks:

- was anything delivered twice, or out of the order of (epoch, number)?
- of what was published after a subscriber was ready: was it delivered, or does a ``Missed`` or an
  ``EpochChanged`` cover one of its places? A message without a place is excused only if its publisher died.
  Some messages are large: they have a place for each chunk.
- if no root crashed and the network never parted: was all of it delivered?
- did a publisher's messages change places within an epoch, at a subscriber that was told of no loss? (A
  former root may publish again what it had numbered before.)
- was a publisher told that all have its message, while a live one that was ready before had it not? (Not
  asked if the network parted: a root knows only its own side.)

    python -m overlaymq.sim.ordered_trial --seeds 1-100 [--strategy sv]
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq.config import (
    Config,
    DeliveryConfig,
    FuseConfig,
    PastryConfig,
    RendezvousConfig,
    ScribeConfig,
    SvConfig,
)
from overlaymq.core.dissemination.tree_content import ContentTree
from overlaymq.core.node import Node
from overlaymq.core.supported import TREES
from overlaymq.events import (
    AskDelivery,
    Delivered,
    EpochChanged,
    Join,
    Joined,
    Missed,
    Publish,
    Ready,
    Sequenced,
    Subscribe,
)
from overlaymq.ids import BITS, RING, Id, distance, rank, topic_id
from overlaymq.messages import Batch, BatchSequenced, Descriptor, Epoch, Peer, Place
from overlaymq.sim import oracle, ring
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.tally import Tally, sum_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.events import Event
    from overlaymq.sim.engine import Host

KINDS = ("forwarders", "roots", "partitions")
NODES = 88
TOPICS = 2
SUBSCRIBERS = 16
PUBLISHERS = 3
PUBLISH_EVERY = 0.7
FAULT_SECONDS = 42.0
QUIET_SECONDS = 40.0
MERGE_SECONDS = 120.0
"""How long Pastry may take to make one ring of what the faults have left; it is not what is tried here."""
ASK_EVERY = 2.0
ASK_SECONDS = 60.0
ASK_ONE_OF = 6
"""How often, and how long, publishers ask who has a message, and of how many messages of each they ask."""
LARGE_ONE_OF = 8
CHUNKS = 3
"""How many messages are large, and their chunks."""
SHOWN = 5
REPORT_EVERY = 20

CONFIG = Config(
    pastry=PastryConfig(heartbeat_every=2.0, lease=4.0, heal_every=5.0, leaf_set_size=8),
    rendezvous=RendezvousConfig(answer_timeout=1.0, refresh_every=10.0, expire_after=33.0),
    scribe=ScribeConfig(heartbeat_every=1.0, suspect_after=2.5),
    sv=SvConfig(beat_every=1.0, suspect_after=2.5, tentative=5.0, retry_max=8.0),
    fuse=FuseConfig(
        ping_every=2.0, edge_timeout=5.0, answer_timeout=2.0, grace=2.0, backoff_max=2.0
    ),
    delivery=DeliveryConfig(gap_timeout=15.0, keep_seconds=60.0, reorder_wait=0.3, history=10),
)
"""Times scaled down by two to five, so that a minute sees many repairs; small leaf sets, for speed."""

MessageId = tuple[Id, int]


class Reader:
    """What one subscriber was given and told, and what it should have had."""

    def __init__(self, peer: Peer, topic: Id) -> None:
        self.peer = peer
        self.topic = topic
        self.ready_at: float | None = None
        self.had: dict[MessageId, None] = {}
        self.at: Place | None = None
        self.missed: list[tuple[Place, Place]] = []
        self.changes: list[EpochChanged] = []
        self.faults: list[str] = []
        self.late: list[tuple[Id, int, Place]] = []
        """What came after later messages of its publisher, in the same epoch, with no loss announced."""
        self.disorder = 0
        self._furthest: dict[Id, Place] = {}
        self._highest: dict[Id, int] = {}

    def deliver(self, batch: Batch) -> None:
        """In order, and nothing twice."""
        place = Place(Epoch(batch.root_epoch, batch.root), batch.root_sequence)
        if self.at is not None and place <= self.at:
            self.faults.append(f"delivered {place} after {self.at}")
        self.at = Place(place.epoch, place.sequence + batch.count - 1)
        if batch.first < self._highest.get(batch.origin, -1):
            self.disorder += 1
            if place.epoch == self._furthest[batch.origin].epoch and not self.missed:
                self.late.append((batch.origin, batch.first, place))
        else:
            self._highest[batch.origin] = batch.first
            self._furthest[batch.origin] = place
        for sequence in range(batch.first + batch.skip, batch.last + 1):
            if (batch.origin, sequence) in self.had:
                self.faults.append(f"delivered {sequence} of {batch.origin:x} twice, at {place}")
            self.had[batch.origin, sequence] = None

    def tell(self, event: Event) -> None:
        """What it was told."""
        if isinstance(event, Ready) and self.ready_at is None:
            self.ready_at = -1.0
        elif isinstance(event, Missed):
            epoch = Epoch(event.epoch, event.origin)
            self.missed.append((Place(epoch, event.first), Place(epoch, event.last)))
        elif isinstance(event, EpochChanged):
            self.changes.append(event)

    def covers(self, place: Place) -> bool:
        """Whether a loss of this place was announced."""
        if any(first <= place <= last for first, last in self.missed):
            return True
        return any(
            Place(one.old, one.last_known) < place < Place(one.new, 1) for one in self.changes
        )


class Published(msgspec.Struct):
    """A message of the workload."""

    topic: Id
    origin: Id
    first: int
    at: float
    places: dict[Place, int] = {}
    count: int = 1
    chunks: int = 1
    acknowledged: dict[int, Place] = {}
    settled: bool = False

    @property
    def placed(self) -> bool:
        """Whether every chunk has a place."""
        return len(set(self.places.values())) == self.chunks


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial."""

    seed: int
    kind: str
    violations: list[str]
    hits: int
    root_crashes: int
    fewest: int
    published: int
    expected: int
    delivered: int
    missed: int
    changes: int
    disorder: int
    asked: int
    told_delivered: int
    one_ring: bool
    seconds: float


class Trial:
    """One seed."""

    def __init__(
        self, seed: int, kind: str | None = None, nodes: int = NODES, strategy: str = "scribe"
    ) -> None:
        self.seed = seed
        self.strategy = strategy
        self.kind = kind or KINDS[seed % len(KINDS)]
        self.random = Random(f"overlaymq ordered trial {seed}")
        self.faults = Faults(link_break=self.random.choice([None, 0.3]))
        self.loss = self.random.choice([0.0, 0.01, 0.03, 0.05])
        self.simulation = Simulation(seed, PlaneDelay(), self.faults)
        self.config = CONFIG.pastry
        self.nodes: dict[Id, Node] = {}
        self.lost: dict[Id, None] = {}
        self.topics = [self._topic(number) for number in range(TOPICS)]
        self.readers: dict[tuple[Id, Id], Reader] = {}
        self.published: dict[tuple[Id, Id, int], Published] = {}
        self.sent: dict[tuple[Id, Id], int] = {}
        self.publishers: list[Id] = []
        self.asked: dict[tuple[Id, Place], Published] = {}
        self.told_delivered = 0
        self.overclaims: list[str] = []
        self.hits = self.root_crashes = self.parted = 0
        self._count = nodes
        self.fewest = nodes

    def _topic(self, number: int) -> Descriptor:
        name = f"ordered {number} of {self.seed}"
        topic = topic_id(name)
        return Descriptor(topic, name, "", topic, self.strategy, "ordered", "lossless")

    # --- the oracle's ring ---

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""
        return Peer(Id(self.random.getrandbits(BITS)), f"node-{len(self.simulation.hosts)}")

    def add(self, peer: Peer) -> Node:
        """A node that has not started."""
        random = self.simulation.node_random(peer.address)
        node = self.nodes[peer.id] = Node(peer, CONFIG, random)
        self.simulation.add_node(peer, node)
        return node

    # --- the run ---

    def run(self) -> Outcome:
        """From building to judgement."""
        started = time.process_time()
        oracle.build(self, self._count, with_timers=True)
        simulation = self.simulation
        simulation.on_deliver = self._delivered
        simulation.on_notify = self._notified
        simulation.on_send = self._seen
        for topic in self.topics:
            for peer in self.random.sample(self._peers(), SUBSCRIBERS):
                self._subscribe(peer.id, topic)
        simulation.run_until(5.0)
        self.publishers = [peer.id for peer in self.random.sample(self._peers(), PUBLISHERS)]
        self.faults.loss = self.loss
        end = simulation.now + FAULT_SECONDS
        self._plan_faults(end)
        while simulation.now < end:
            self._publish()
            simulation.run_until(simulation.now + PUBLISH_EVERY * self.random.uniform(0.5, 1.5))
        self.faults.loss = 0.0
        self.faults.heal()
        limit = simulation.now + MERGE_SECONDS
        while simulation.now < limit and not ring.is_one(self.nodes):
            simulation.run_until(simulation.now + 5.0)
        simulation.run_until(simulation.now + QUIET_SECONDS / 2)
        self._publish()  # what comes last shows that everybody is there again
        simulation.run_until(simulation.now + QUIET_SECONDS / 2)
        return self._judge(time.process_time() - started)

    def _peers(self) -> list[Peer]:
        return [node.me for node in self.nodes.values() if node.pastry.active]

    def _subscribe(self, node: Id, topic: Descriptor) -> None:
        if (node, topic.id) in self.readers or node not in self.nodes:
            return
        peer = self.nodes[node].me
        self.readers[node, topic.id] = Reader(peer, topic.id)
        self.simulation.start(peer, Subscribe(topic))

    def _publish(self) -> None:
        for publisher in list(self.publishers):
            if publisher not in self.nodes:
                self.publishers.remove(publisher)
                self.publishers.append(self.random.choice(self._peers()).id)
                continue
            for topic in self.topics:
                first = self.sent.get((publisher, topic.id), 0)
                count = self.random.choice([1, 1, 3])
                chunks = CHUNKS if count == 1 and not self.random.randrange(LARGE_ONE_OF) else 1
                self.sent[publisher, topic.id] = first + count
                now = self.simulation.now
                self.published[topic.id, publisher, first] = Published(
                    topic.id, publisher, first, now, {}, count, chunks
                )
                for chunk in range(chunks):
                    batch = Batch(
                        *(topic.id, publisher, 0, first, count, b"x" * 20),
                        chunk=chunk,
                        chunks=chunks,
                    )
                    self.simulation.start(self.nodes[publisher].me, Publish(topic, batch))

    # --- faults ---

    def _plan_faults(self, end: float) -> None:
        simulation, random = self.simulation, self.random
        crashes = 24 if self.kind != "partitions" else 18
        for number in range(crashes):
            when = simulation.now + (number + random.random()) * (FAULT_SECONDS - 5) / crashes
            simulation.at(when, self._crash)
        for number in range(8):
            when = simulation.now + (number + random.random()) * (FAULT_SECONDS - 5) / 8
            simulation.at(when, self._arrive)
        if self.kind == "partitions":
            for number in range(2):
                when = simulation.now + 5 + number * 20 + 4 * random.random()
                simulation.at(when, self._part)
                simulation.at(when + random.uniform(4, 12), self._heal)

    @staticmethod
    def _tree(node: Node, topic: Descriptor) -> ContentTree | None:
        strategy = node.strategy(topic.id)
        return strategy if isinstance(strategy, ContentTree) else None

    def _is_root(self, node: Node, topic: Descriptor) -> bool:
        """A former root counts as one as long as others may lack what it numbered last."""
        tree = self._tree(node, topic)
        mode = None if tree is None else tree.around.mode
        return mode is not None and (mode.sequencing or mode.lingers)

    def _working(self) -> list[Node]:
        """Roots and forwarders, as this kind of trial may hit them."""
        working = []
        for node in self.nodes.values():
            trees = [self._tree(node, topic) for topic in self.topics]
            if not any(tree is not None and tree.children for tree in trees):
                continue
            if self.kind == "forwarders" and self._may_be_root(node):
                continue
            working.append(node)
        return working

    def _may_be_root(self, node: Node) -> bool:
        for topic in self.topics:
            closest = min(self.nodes, key=lambda id_: rank(topic.key, id_))
            if self._is_root(node, topic) or node.me.id == closest:
                return True
        return False

    def _crash(self) -> None:
        working = self._working()
        if self.kind == "roots" and self.random.random() < 0.4:
            roots = [one for one in working if self._may_be_root(one)]
            working = roots or working
        if not working:
            return
        victim = self.random.choice(working)
        self.hits += 1
        self.root_crashes += self._may_be_root(victim)
        self.simulation.crash(victim.me)
        del self.nodes[victim.me.id]
        self.lost[victim.me.id] = None
        self.fewest = min(self.fewest, len(self.nodes))

    def _arrive(self) -> None:
        """A node joins, half of the time closer to a key than its root, and subscribes."""
        topic = self.random.choice(self.topics)
        peer = self.new_peer()
        if self.random.random() < 0.5:
            closest = min(self.nodes, key=lambda id_: rank(topic.key, id_))
            away = self.random.randrange(distance(topic.key, closest))
            peer = Peer(Id((topic.key + away) % RING), peer.address)
        seeds = tuple(self.random.sample(self._peers(), 3))
        self.add(peer)
        self.simulation.start(peer, Join(seeds))

    def _part(self) -> None:
        addresses = [node.me.address for node in self.nodes.values()]
        side = self.random.sample(addresses, len(addresses) // self.random.choice([2, 3, 5]))
        away = set(side)
        self.hits += sum(node.me.address in away for node in self._working())
        self.parted += 1
        self.faults.part([side])

    def _heal(self) -> None:
        self.faults.heal()

    # --- what is seen ---

    def _delivered(self, host: Host, batch: Batch) -> None:
        reader = self.readers.get((host.peer.id, batch.topic))
        if reader is not None:
            reader.deliver(batch)

    def _notified(self, host: Host, event: Event) -> None:
        if isinstance(event, Joined):
            if host.peer.id in self.nodes and self.simulation.now > 1.0:
                self.simulation.at(
                    self.simulation.now,
                    lambda: self._subscribe(host.peer.id, self.random.choice(self.topics)),
                )
            return
        if isinstance(event, Sequenced) and event.place is not None:
            self._placed(event.topic, host.peer.id, event.first, event.chunk, event.place)
            message = self.published[event.topic, host.peer.id, event.first]
            message.acknowledged[event.chunk] = event.place
            asks = min(message.acknowledged.values()).sequence % ASK_ONE_OF == 0
            if asks and len(message.acknowledged) == message.chunks:
                self._ask(host.peer, message)
            return
        if isinstance(event, Delivered):
            self._told(event)
            return
        reader = self.readers.get((host.peer.id, getattr(event, "topic", Id(0))))
        if reader is not None:
            reader.tell(event)
            if reader.ready_at == -1.0:
                reader.ready_at = self.simulation.now

    def _seen(self, now: float, host: Host, peer: Peer, message: Any, fate: str) -> None:
        if isinstance(message, Batch) and message.root_sequence:
            place = Place(Epoch(message.root_epoch, message.root), message.root_sequence)
            self._placed(message.topic, message.origin, message.first, message.chunk, place)
        elif isinstance(message, BatchSequenced) and message.place is not None:
            name = (message.topic, message.origin, message.first, message.chunk)
            self._placed(*name, message.place)

    def _placed(self, topic: Id, origin: Id, first: int, chunk: int, place: Place) -> None:
        message = self.published.get((topic, origin, first))
        if message is not None:
            message.places[place] = chunk

    # --- delivered receipts ---

    def _ask(self, publisher: Peer, message: Published) -> None:
        """Ask who has a message, again and again, as a receipt does."""
        topic, places = message.topic, message.acknowledged.values()
        descriptor = next(one for one in self.topics if one.id == topic)
        if publisher.id not in self.nodes or self.simulation.now - message.at > ASK_SECONDS:
            return
        first, end = min(places), max(places)
        if self.asked.setdefault((topic, first), message) is not message or message.settled:
            return
        last = Place(end.epoch, end.sequence + message.count - 1)
        self.simulation.start(publisher, AskDelivery(descriptor, first, last))
        again = self.simulation.now + ASK_EVERY
        self.simulation.at(again, lambda: self._ask(publisher, message))

    def _told(self, event: Delivered) -> None:
        """If all are said to have it, all that were ready and live have it."""
        message = self.asked[event.topic, event.first]
        if message.settled or not event.final:
            return
        message.settled = True
        if event.had < event.members or self.parted:
            return
        self.told_delivered += 1
        for reader in self.readers.values():
            ready = reader.ready_at is not None and reader.ready_at < message.at
            if not ready or reader.topic != message.topic or reader.peer.id not in self.nodes:
                continue
            if (message.origin, message.first) not in reader.had:
                self.overclaims.append(
                    f"{message.first} of {message.origin >> 112:x} was said to be delivered to all "
                    f"{event.members}, at {self.simulation.now:.2f}; {reader.peer.address} has it not"
                )

    # --- judgement ---

    def _judge(self, seconds: float) -> Outcome:
        violations: list[str] = [*self.overclaims]
        expected = delivered = 0
        live = [one for one in self.readers.values() if one.peer.id in self.nodes]
        for reader in self.readers.values():
            violations += [f"{reader.peer.address}: {fault}" for fault in reader.faults]
            violations += self._disordered(reader)
        for reader in live:
            if reader.ready_at is None:
                violations.append(f"{reader.peer.address} never was ready")
                continue
            for message in self.published.values():
                if message.topic != reader.topic or message.at <= reader.ready_at:
                    continue
                expected += 1
                if (message.origin, message.first) in reader.had:
                    delivered += 1
                elif wrong := self._lost(reader, message):
                    violations.append(wrong)
        return Outcome(
            seed=self.seed,
            kind=self.kind,
            violations=violations,
            hits=self.hits,
            root_crashes=self.root_crashes,
            fewest=self.fewest,
            published=len(self.published),
            expected=expected,
            delivered=delivered,
            missed=sum(len(reader.missed) for reader in live),
            changes=sum(len(reader.changes) for reader in live),
            disorder=sum(reader.disorder for reader in live),
            asked=len(self.asked),
            told_delivered=self.told_delivered,
            one_ring=ring.is_one(self.nodes),
            seconds=seconds,
        )

    def _disordered(self, reader: Reader) -> list[str]:
        """What was numbered in an earlier epoch, too, was published again by its root, and may be late."""
        return [
            f"{reader.peer.address} got {first} of {origin >> 112:x} after later ones, at {place}"
            for origin, first, place in reader.late
            if min(self.published[reader.topic, origin, first].places).epoch == place.epoch
        ]

    def _lost(self, reader: Reader, message: Published) -> str:
        """Why a message that a reader did not get is a violation; empty if it is none."""
        died = message.origin in self.lost
        if not message.placed and died:
            return ""
        what = (
            f"{reader.peer.address} did not get {message.first} of {message.origin >> 112:x}, "
            f"published at {message.at:.2f}, places "
            f"{[(p.epoch.counter, f'{p.epoch.root >> 112:x}', p.sequence) for p in message.places]}"
        )
        covered = any(reader.covers(place) for place in message.places)
        if not covered:
            return f"unannounced: {what}"
        if not self.root_crashes and not self.parted:
            return f"lost although no root crashed: {what}"
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; print one line for each that fails, and a sum."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.ordered_trial")
    parser.add_argument("--seeds", default="1-10", metavar="A-B")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--strategy", choices=TREES, default="scribe")
    parser.add_argument("--all", action="store_true", help="a line for every seed")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    tallies = {kind: Tally() for kind in KINDS}
    for number, seed in enumerate(range(int(first), int(last or first) + 1), 1):
        outcome = Trial(seed, options.kind, strategy=options.strategy).run()
        tallies[outcome.kind].add(outcome)
        if outcome.violations or options.all:
            facts = msgspec.structs.asdict(outcome)
            del facts["violations"]
            print(facts, flush=True)
            for violation in outcome.violations[:SHOWN]:
                print("   ", violation)
            if len(outcome.violations) > SHOWN:
                print(f"    and {len(outcome.violations) - SHOWN} more")
        if number % REPORT_EVERY == 0:
            print(f"{number} seeds so far: {sum_of(tallies.values())}", flush=True)
    for kind, tally in tallies.items():
        print(f"{kind}: {tally}")
    print(f"all: {sum_of(tallies.values())}")
    return 1 if sum_of(tallies.values()).failed else 0


if __name__ == "__main__":
    sys.exit(main())
