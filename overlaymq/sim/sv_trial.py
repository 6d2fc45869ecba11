"""SV trees under churn and faults: whole nodes in the simulator, and an observer that looks at all of them.

A *trial* is a seed. A third of its 84 nodes subscribe, some volunteer, the others only route; one topic is
`best_effort`, one is `ordered`. While they publish, nodes that feed others crash or lose their links, members
leave and come back, volunteers stop, nodes arrive (some of them closer to a key than its root), messages are
lost and the network parts. Then all is mended and quiet, and judged. In every other pair of seeds a node may
feed no more than two others in a topic (``sv.max_children``), so that many joins are handed down.

After *every* event the *observer* follows the forwarding tree upwards from the node that had it, if its
parent has changed: does the way come back? (Only the node whose event it is can have closed a loop.) It
counts those that the node feeds. Of *every* batch that is sent it asks whether the sender is its publisher,
or was a subscriber, a volunteer or the root before or after that event. A former root of the `ordered` topic
that hands over, or publishes again, what it has numbered itself finishes a root's work: that is counted
apart, and not as impolite. In the end it asks whether every subscriber is fed again, and nobody got anything
twice.

    python -m overlaymq.sim.sv_trial --seeds 1-100 [--without-beats] [--json]

``--without-beats`` leaves it to the paper's order alone to prevent loops.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq.config import (
    Config,
    DeliveryConfig,
    FuseConfig,
    PastryConfig,
    RendezvousConfig,
    SvConfig,
)
from overlaymq.core.dissemination.sv import Sv
from overlaymq.core.node import Node
from overlaymq.events import (
    Join,
    Joined,
    Publish,
    SignalGroup,
    Subscribe,
    Unsubscribe,
    Volunteer,
)
from overlaymq.ids import BITS, RING, Id, distance, rank, short, topic_id
from overlaymq.messages import Batch, BatchSequenced, Descriptor, Peer, Routed
from overlaymq.sim import oracle, ring
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.tally import NEEDED_NODES, Tally
from overlaymq.sim.tree_invariants import PARTICIPANTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overlaymq.events import Effect, Event, Input
    from overlaymq.sim.engine import Host

KINDS = ("churn", "roots", "partitions")
NODES = 84
SUBSCRIBERS = 28
VOLUNTEERS = 4
PUBLISHERS = 3
PUBLISH_EVERY = 1.5
FAULT_SECONDS = 28.0
HITS = 40
"""Things that happen to nodes that feed others, spread over that time; some find none."""
QUIET_SECONDS = 20.0
MERGE_SECONDS = 120.0
"""How long Pastry may take to make one ring of what the faults have left."""
SHOWN = 5
NO_PART = ["none", "none"]
FEW = 2
"""Children that a node may have in every other pair of seeds."""

CONFIG = Config(
    pastry=PastryConfig(heartbeat_every=2.0, lease=4.0, heal_every=5.0, leaf_set_size=8),
    rendezvous=RendezvousConfig(answer_timeout=1.0, refresh_every=10.0, expire_after=33.0),
    delivery=DeliveryConfig(gap_timeout=15.0, keep_seconds=60.0, reorder_wait=0.3),
    sv=SvConfig(beat_every=2.0, suspect_after=5.0, tentative=5.0, retry_max=8.0),
    fuse=FuseConfig(
        ping_every=2.0, edge_timeout=5.0, answer_timeout=2.0, grace=2.0, backoff_max=2.0
    ),
)
"""Times scaled down by two to five, so that a minute sees many repairs; small leaf sets, for speed."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial."""

    seed: int
    kind: str
    loops: list[str]
    impolite_bytes: int
    handed_over_bytes: int
    forwarded_bytes: int
    violations: list[str]
    hits: int
    fed_others: int
    """Nodes that fed others when they had to find another parent."""
    events: int
    fewest: int
    one_ring: bool
    seconds: float


class ObservedNode(Node):
    """A whole node; after each of its events the trial looks at it."""

    def __init__(self, trial: Trial, me: Peer, config: Config, random: Random) -> None:
        super().__init__(me, config, random)
        self.trial = trial

    def handle(self, input_: Input, now: float) -> list[Effect]:
        """Take one input, as a node does."""
        before = self.trial.roles(self) if self._topics else None
        effects = super().handle(input_, now)
        if before is not None or self._topics:
            self.trial.look(self, before or NO_PART)
        return effects


class Trial:
    """One seed."""

    def __init__(
        self, seed: int, kind: str | None = None, beats: bool = True, nodes: int = NODES
    ) -> None:
        self.seed = seed
        self.kind = kind or KINDS[seed % len(KINDS)]
        self.random = Random(f"overlaymq sv trial {seed}")
        self.faults = Faults(link_break=self.random.choice([None, 0.3]))
        self.loss = self.random.choice([0.0, 0.0, 0.01, 0.03])
        self.simulation = Simulation(seed, PlaneDelay(), self.faults)
        bound = FEW if seed % 4 in (2, 3) else CONFIG.sv.max_children
        sv = msgspec.structs.replace(CONFIG.sv, beats=beats, max_children=bound)
        self.whole = msgspec.structs.replace(CONFIG, sv=sv)
        self.config = CONFIG.pastry
        self.nodes: dict[Id, Node] = {}
        self.topics = [self._topic(mode) for mode in ("best_effort", "ordered")]
        self.ordered = self.topics[1]
        self.subscribed: dict[tuple[Id, Id], None] = {}
        self.got: Counter[tuple[Id, Id, Id, int]] = Counter()
        self.sent: Counter[tuple[Id, Id]] = Counter()
        self.loops: list[str] = []
        self.bytes: Counter[str] = Counter()
        self.numbered: dict[tuple[Id, Id, Id, int], None] = {}
        """Batches of which a root has told that it gave them a number."""
        self.allowed: dict[tuple[Id, Id], bool] = {}
        self.parents: dict[tuple[Id, Id], Id | None] = {}
        self.hits = self.fed_others = 0
        self.violations: list[str] = []
        self._count = self.fewest = nodes

    def _topic(self, mode: str) -> Descriptor:
        name = f"{mode} of {self.seed}"
        topic = topic_id(name)
        return Descriptor(topic, name, "", topic, "sv", mode, "lossless")

    # --- the oracle's ring ---

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""
        return Peer(Id(self.random.getrandbits(BITS)), f"node-{len(self.simulation.hosts)}")

    def add(self, peer: Peer) -> Node:
        """A node that has not started."""
        random = self.simulation.node_random(peer.address)
        node = self.nodes[peer.id] = ObservedNode(self, peer, self.whole, random)
        self.simulation.add_node(peer, node)
        return node

    # --- what is seen ---

    def place(self, id_: Id, topic: Id) -> Sv | None:
        """A live node's part in a topic, if it has one."""
        node = self.nodes.get(id_)
        strategy = None if node is None else node.strategy(topic)
        return strategy if isinstance(strategy, Sv) else None

    def roles(self, node: Node) -> list[str]:
        """What a node is in each topic."""
        places = [self.place(node.me.id, topic.id) for topic in self.topics]
        return ["none" if place is None else place.role for place in places]

    def look(self, node: Node, before: list[str]) -> None:
        """After an event of a node."""
        after = self.roles(node)
        for topic, was, is_ in zip(self.topics, before, after, strict=True):
            key = (node.me.id, topic.id)
            self.allowed[key] = was in PARTICIPANTS or is_ in PARTICIPANTS
            above = self._fed_by(*key)
            if above != self.parents.get(key):
                self.parents[key] = above
                self._follow(node.me.id, topic.id)
            fed = len(self._children(node, topic))
            if fed > self.whole.sv.max_children:
                self.violations.append(f"{node.me.address} feeds {fed}")

    def _fed_by(self, id_: Id, topic: Id) -> Id | None:
        """Whose content a node takes: its parent's, or that of the candidate that it has chosen."""
        place = self.place(id_, topic)
        above = None if place is None else place._above
        return None if above is None else above.id

    def _follow(self, id_: Id, topic: Id) -> None:
        way = [id_]
        while (above := self._fed_by(way[-1], topic)) is not None:
            if above == id_:
                names = " is fed by ".join([short(one) for one in (*way, id_)])
                self.loops.append(f"at {self.simulation.now:.2f}: {names}")
                return
            if above in way:
                return  # below a loop that was seen when it was closed
            way.append(above)

    def _seen(self, now: float, host: Host, peer: Peer, message: Any, fate: str) -> None:
        told = message.body if isinstance(message, Routed) else message
        if isinstance(told, BatchSequenced) and self._numbers(host, told):
            self.numbered[host.peer.id, told.topic, told.origin, told.first] = None
        if not isinstance(message, Batch) or message.origin == host.peer.id:
            return
        size = len(message.body)
        known = (host.peer.id, message.topic, message.origin, message.first) in self.numbered
        numbered = known or message.root == host.peer.id
        if self.allowed.get((host.peer.id, message.topic)):
            self.bytes["forwarded"] += size
        elif numbered and message.topic == self.ordered.id:
            self.bytes["handed over"] += size
        else:
            self.bytes["impolite"] += size
            self.violations.append(f"{host.peer.address} forwarded content at {now:.2f}")

    @staticmethod
    def _numbers(host: Host, done: BatchSequenced) -> bool:
        return done.place is not None and done.place.epoch.root == host.peer.id

    def _delivered(self, host: Host, batch: Batch) -> None:
        for sequence in range(batch.first + batch.skip, batch.last + 1):
            key = (host.peer.id, batch.topic, batch.origin, sequence)
            self.got[key] += 1
            if self.got[key] > 1:
                self.violations.append(f"{host.peer.address} got {sequence} twice")

    def _notified(self, host: Host, event: Event) -> None:
        if isinstance(event, Joined) and host.peer.id in self.nodes and self.simulation.now > 1.0:
            topic = self.random.choice(self.topics)
            self.simulation.at(self.simulation.now, lambda: self._subscribe(host.peer.id, topic))

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
            chosen = self.random.sample(self._live(), SUBSCRIBERS + VOLUNTEERS)
            for peer in chosen[:SUBSCRIBERS]:
                self._subscribe(peer.id, topic)
            for peer in chosen[SUBSCRIBERS:]:
                simulation.start(peer, Volunteer(topic))
        simulation.run_until(5.0)
        self.faults.loss = self.loss
        end = simulation.now + FAULT_SECONDS
        self._plan(simulation.now)
        while simulation.now < end:
            self._publish()
            simulation.run_until(simulation.now + PUBLISH_EVERY * self.random.uniform(0.5, 1.5))
        self.faults.loss = 0.0
        self.faults.heal()
        limit = simulation.now + MERGE_SECONDS
        while simulation.now < limit and not ring.is_one(self.nodes):
            simulation.run_until(simulation.now + 5.0)
        simulation.run_until(simulation.now + QUIET_SECONDS)
        last = self._publish()
        simulation.run_until(simulation.now + 10.0)
        self._judge(last)
        return self._outcome(time.process_time() - started)

    def _live(self) -> list[Peer]:
        return [node.me for node in self.nodes.values() if node.pastry.active]

    def _subscribe(self, id_: Id, topic: Descriptor) -> None:
        if id_ in self.nodes and (id_, topic.id) not in self.subscribed:
            self.subscribed[id_, topic.id] = None
            self.simulation.start(self.nodes[id_].me, Subscribe(topic))

    def _publish(self) -> list[tuple[Id, Id, int]]:
        published = []
        for topic in self.topics:
            for peer in self.random.sample(self._live(), PUBLISHERS):
                first = self.sent[peer.id, topic.id]
                self.sent[peer.id, topic.id] += 1
                batch = Batch(topic.id, peer.id, 0, first, 1, b"x" * 100)
                self.simulation.start(peer, Publish(topic, batch))
                published.append((topic.id, peer.id, first))
        return published

    # --- what goes wrong ---

    def _plan(self, now: float) -> None:
        random, simulation = self.random, self.simulation
        trouble: list[Callable[[], None]] = [self._crash, self._break, self._break, self._leave]
        if self.kind == "roots":
            trouble += [self._crash_root, self._arrive_closer, self._arrive_closer]
        for number in range(HITS):
            when = now + (number + random.random()) * (FAULT_SECONDS - 5) / HITS
            simulation.at(when, random.choice(trouble))
        for number in range(6):
            when = now + (number + random.random()) * (FAULT_SECONDS - 5) / 6
            simulation.at(when, random.choice([self._arrive, self._arrive, self._stop_volunteer]))
        if self.kind == "partitions":
            for number in range(2):
                when = now + 3 + number * 12 + 3 * random.random()
                simulation.at(when, self._part)
                simulation.at(when + random.uniform(3, 8), self.faults.heal)

    def _feeding(self, topic: Descriptor, roots: bool = False) -> list[Node]:
        """Nodes that feed others; of the topic's root, only if it is wanted."""
        found = []
        for node in self.nodes.values():
            place = self.place(node.me.id, topic.id)
            if place is not None and place.children and (roots or place.role != "root"):
                found.append(node)
        return found

    def _hit(self, roots: bool = False) -> tuple[Descriptor, Node] | None:
        topic = self.random.choice(self.topics)
        feeding = self._feeding(topic, roots)
        return (topic, self.random.choice(feeding)) if feeding else None

    def _crash(self) -> None:
        hit = self._hit()
        if hit is not None and len(self.nodes) > NEEDED_NODES:
            self._end(hit[1])

    def _end(self, node: Node) -> None:
        self.hits += 1
        for topic in self.topics:
            for child in self._children(node, topic):
                self.fed_others += bool(self._children(self.nodes.get(child), topic))
        self.simulation.crash(node.me)
        del self.nodes[node.me.id]
        self.fewest = min(self.fewest, len(self.nodes))

    def _children(self, node: Node | None, topic: Descriptor) -> list[Id]:
        place = None if node is None else self.place(node.me.id, topic.id)
        return [] if place is None else [child.id for child in place.children]

    def _crash_root(self) -> None:
        topic = self.random.choice(self.topics)
        closest = min(self.nodes, key=lambda id_: rank(topic.key, id_))
        if len(self.nodes) > NEEDED_NODES:
            self._end(self.nodes[closest])

    def _break(self) -> None:
        """A node that feeds others loses its link, though nobody failed: its route may be another by now."""
        hit = self._hit()
        if hit is None:
            return
        topic, node = hit
        place = self.place(node.me.id, topic.id)
        if place is not None and place.link is not None:
            self.hits += 1
            self.fed_others += 1
            self.simulation.start(node.me, SignalGroup(place.link))

    def _leave(self) -> None:
        """A member that feeds others unsubscribes, and comes back."""
        hit = self._hit()
        if hit is None:
            return
        topic, node = hit
        if self.subscribed.pop((node.me.id, topic.id), "gone") == "gone":
            return
        self.hits += 1
        self.simulation.start(node.me, Unsubscribe(topic.id))
        for key in [key for key in self.got if key[:2] == (node.me.id, topic.id)]:
            del self.got[key]
        when = self.simulation.now + self.random.choice([0.05, 1.0, 5.0])
        self.simulation.at(when, lambda: self._subscribe(node.me.id, topic))

    def _stop_volunteer(self) -> None:
        topic = self.random.choice(self.topics)
        for node in self.nodes.values():
            place = self.place(node.me.id, topic.id)
            if place is not None and place.volunteers:
                self.simulation.start(node.me, Volunteer(topic, False))
                return

    def _arrive(self) -> None:
        self._start(self.new_peer())

    def _arrive_closer(self) -> None:
        topic = self.random.choice(self.topics)
        closest = min(self.nodes, key=lambda id_: rank(topic.key, id_))
        away = self.random.randrange(distance(topic.key, closest))
        self._start(Peer(Id((topic.key + away) % RING), self.new_peer().address))

    def _start(self, peer: Peer) -> None:
        seeds = tuple(self.random.sample(self._live(), 3))
        self.add(peer)
        self.simulation.start(peer, Join(seeds))

    def _part(self) -> None:
        addresses = [node.me.address for node in self.nodes.values()]
        self.faults.part([self.random.sample(addresses, len(addresses) // 3)])

    # --- judgement ---

    def _judge(self, last: list[tuple[Id, Id, int]]) -> None:
        for id_, topic in self.subscribed:
            if id_ not in self.nodes:
                continue
            missing = [one for one in last if one[0] == topic and not self.got[id_, *one]]
            if missing:
                place = self.place(id_, topic)
                role = "none" if place is None else place.role
                name = self.nodes[id_].me.address
                self.violations.append(f"{name} ({role}) is not fed: {len(missing)} missing")
        for topic_ in self.topics:
            self._judge_tree(topic_)

    def _judge_tree(self, topic: Descriptor) -> None:
        """Links are what both ends believe."""
        for id_ in self.nodes:
            above = self._fed_by(id_, topic.id)
            if above is not None and id_ not in self._children(self.nodes.get(above), topic):
                self.violations.append(f"{short(id_)} is no child of its parent {short(above)}")
            for child in self._children(self.nodes[id_], topic):
                if self._fed_by(child, topic.id) != id_:
                    self.violations.append(f"{short(id_)} feeds {short(child)} in vain")

    def _outcome(self, seconds: float) -> Outcome:
        return Outcome(
            seed=self.seed,
            kind=self.kind,
            loops=self.loops,
            impolite_bytes=self.bytes["impolite"],
            handed_over_bytes=self.bytes["handed over"],
            forwarded_bytes=self.bytes["forwarded"],
            violations=[*self.loops, *self.violations],
            hits=self.hits,
            fed_others=self.fed_others,
            events=self.simulation.events,
            fewest=self.fewest,
            one_ring=ring.is_one(self.nodes),
            seconds=seconds,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; print one line for each that fails, and a sum."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.sv_trial")
    parser.add_argument("--seeds", default="1-10", metavar="A-B")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--without-beats", action="store_true", help="the paper's order alone")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every seed")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    sums: Counter[str] = Counter()
    tally = Tally()
    for seed in range(int(first), int(last or first) + 1):
        outcome = Trial(seed, options.kind, not options.without_beats).run()
        facts = msgspec.structs.asdict(outcome)
        tally.add(outcome)
        sums["seeds with loops"] += bool(outcome.loops)
        for name in ("impolite_bytes", "handed_over_bytes", "forwarded_bytes", "fed_others"):
            sums[name] += facts[name]
        if options.json:
            print(msgspec.json.encode(outcome).decode(), flush=True)
        elif outcome.violations:
            found = facts.pop("violations")
            del facts["loops"]
            print(facts, flush=True)
            for text in found[:SHOWN]:
                print("   ", text)
            if len(found) > SHOWN:
                print(f"    and {len(found) - SHOWN} more")
    if not options.json:
        print(tally)
        print(", ".join(f"{name} {count:,}" for name, count in sums.items()))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
