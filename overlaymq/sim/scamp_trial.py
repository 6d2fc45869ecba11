"""Gossip topics under churn: whole nodes in the simulator, and an observer that looks into their views.

A *trial* is a seed. For a while members subscribe, unsubscribe, crash without a word, come back, and publish;
nothing is lost on the way. In half of the trials a broken link is noticed, in the others only silence tells.
One lease after the last of that, the observer asks, of whatever lasts longer than messages are under way:

- are views mutual among live members: x in the partial view of y exactly when y is in the in-view of x?
- does nobody know anybody who is not a live member, itself, or anyone twice?
- does everybody know somebody, unless it is alone?
- do publications of members and of others reach every live member exactly once?

Paper mode, in every fourth trial, is only asked the first two: it promises no more.

    python -m overlaymq.sim.scamp_trial --seeds 1-200 [--json]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import msgspec

from overlaymq.config import Config, PastryConfig, RendezvousConfig, ScampConfig
from overlaymq.core.dissemination.scamp import Scamp
from overlaymq.core.node import Node
from overlaymq.events import Join, Publish, Subscribe, Unsubscribe
from overlaymq.ids import BITS, Id, topic_id
from overlaymq.messages import Batch, Descriptor, Peer
from overlaymq.sim import oracle, ring
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.scenario import seeds_of
from overlaymq.sim.tally import NEEDED_NODES, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from overlaymq.core.dissemination.scamp.views import Views
    from overlaymq.sim.engine import Host

NODES = 104
STEPS = 160
CHURN_SECONDS = 60.0
SETTLING = 8.0
UNDER_WAY = 0.4
"""Above what two messages take, one after the other: 0.15 s each across the plane."""
FINAL = 6
"""Publications that are judged."""
SHOWN = 5

LEASE = 60.0
PASTRY = PastryConfig(heartbeat_every=2.0, lease=4.0, heal_every=5.0, leaf_set_size=8)
RENDEZVOUS = RendezvousConfig(refresh_every=10.0, expire_after=25.0, answer_timeout=1.0)
TOPIC = topic_id("churn")
DESCRIPTOR = Descriptor(TOPIC, "churn", "", TOPIC, "scamp", "best_effort", "lossy")


class Outcome(msgspec.Struct, frozen=True):
    """What became of one seed."""

    seed: int
    mode: str
    members: int
    mean_view: float
    hits: int
    """Crashes of members."""
    fewest: int
    one_ring: bool
    violations: list[str]
    seconds: float


class Trial:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(f"overlaymq scamp trial {seed}")
        self.mode = "paper" if seed % 4 == 0 else "default"
        gossip = ScampConfig(
            mode="paper" if self.mode == "paper" else "default",
            c=random.choice([0, 0, 1]),
            lease=LEASE,
            heartbeat_every=2.0,
            isolated_after=5.0,
        )
        self.whole = Config(pastry=PASTRY, rendezvous=RENDEZVOUS, scamp=gossip)
        self.config = PASTRY
        faults = Faults(link_break=random.choice([None, 0.3]))
        self.simulation = Simulation(seed, PlaneDelay(), faults)
        self.nodes: dict[Id, Node] = {}
        self.members: dict[Id, None] = {}
        self.hits = 0
        self.fewest = NODES
        self._published = 0
        self._got: Counter[tuple[Id, int]] = Counter()
        self._judged: list[int] = []

    # --- the oracle's ring ---

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""
        return Peer(Id(self.random.getrandbits(BITS)), f"node-{len(self.simulation.hosts)}", 1)

    def add(self, peer: Peer) -> Node:
        """A node that has not started."""
        random = self.simulation.node_random(f"{peer.address} {peer.incarnation}")
        node = self.nodes[peer.id] = Node(peer, self.whole, random)
        self.simulation.add_node(peer, node)
        return node

    # --- the run ---

    def run(self) -> Outcome:
        """From building to judgement."""
        started = time.process_time()
        oracle.build(self, NODES, with_timers=True)
        simulation = self.simulation
        simulation.on_deliver = self._delivered
        for node in self.random.sample(list(self.nodes.values()), NODES * 3 // 4):
            self._subscribe(node)
        simulation.run_until(2.0)
        for _ in range(STEPS):
            simulation.at(simulation.now + self.random.uniform(0, CHURN_SECONDS), self._happen)
        simulation.run_until(simulation.now + CHURN_SECONDS + LEASE)
        violations = self._of_views()
        # Leases go on being renewed: what only waits for a message under way is none.
        simulation.run_until(simulation.now + UNDER_WAY)
        violations = [one for one in self._of_views() if one in violations]
        if self.mode == "default":
            self._publish_finally()
            simulation.run_until(simulation.now + SETTLING)
            violations += self._of_publications()
        views = [self._views(id_) for id_ in self.members]
        sizes = [len(one.partial) for one in views if one is not None]
        return Outcome(
            seed=self.seed,
            mode=self.mode,
            members=len(sizes),
            mean_view=sum(sizes) / max(1, len(sizes)),
            hits=self.hits,
            fewest=self.fewest,
            one_ring=ring.is_one(self.nodes),
            violations=violations,
            seconds=time.process_time() - started,
        )

    def _happen(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        match self.random.randrange(8):
            case 0 | 1 | 2 if node.me.id not in self.members:
                self._subscribe(node)
            case 3 if len(self.members) > 2:
                leaving = self.random.choice(list(self.members))
                del self.members[leaving]
                self.simulation.start(self.nodes[leaving].me, Unsubscribe(TOPIC))
            case 4 | 5 if len(self.nodes) > NEEDED_NODES and len(self.members) > 2:
                self._crash(self.nodes[self.random.choice(list(self.members))])
            case _:
                self._publish(node)

    def _subscribe(self, node: Node) -> None:
        if node.pastry.active:
            self.members[node.me.id] = None
            self.simulation.start(node.me, Subscribe(DESCRIPTOR))

    def _crash(self, node: Node) -> None:
        self.hits += 1
        self.simulation.crash(node.me)
        del self.nodes[node.me.id]
        self.fewest = min(self.fewest, len(self.nodes))
        self.members.pop(node.me.id, None)
        if self.random.random() < 0.5:
            back = Peer(node.me.id, node.me.address, node.me.incarnation + 1)
            when = self.simulation.now + self.random.uniform(0.5, 15)
            self.simulation.at(when, lambda: self._restart(back))

    def _restart(self, peer: Peer) -> None:
        seed = self.random.choice(list(self.nodes.values())).me
        self.add(peer)
        self.simulation.start(peer, Join((seed,)))

    def _publish(self, node: Node) -> int:
        self._published += 1
        batch = Batch(TOPIC, node.me.id, node.me.incarnation, self._published, 1, b"")
        self.simulation.start(node.me, Publish(DESCRIPTOR, batch))
        return self._published

    def _publish_finally(self) -> None:
        up = [node for node in self.nodes.values() if node.pastry.active]
        self._judged = [self._publish(node) for node in self.random.sample(up, FINAL)]

    def _delivered(self, host: Host, batch: Batch) -> None:
        self._got[host.peer.id, batch.first] += 1

    # --- the observer ---

    def _views(self, id_: Id) -> Views | None:
        strategy = self.nodes[id_].strategy(TOPIC) if id_ in self.nodes else None
        return strategy.views if isinstance(strategy, Scamp) else None

    def _of_views(self) -> list[str]:
        found = []
        for id_ in self.members:
            views = self._views(id_)
            name = self.nodes[id_].me.address
            if views is None or not views.member:
                found.append(f"{name} is no member, although it subscribed")
                continue
            found += self._not_mutual(name, views)
            lonely = not views.partial and not views.inward
            if self.mode == "default" and lonely and len(self.members) > 1:
                found.append(f"{name} knows nobody")
        return found

    def _not_mutual(self, name: str, views: Views) -> Iterator[str]:
        me = views.me.id
        for id_, arc in views.partial.items():
            other = self._views(id_)
            if id_ not in self.members or other is None or id_ == me:
                yield f"{name} sends to {arc.peer.address}, which is no member"
            elif me not in other.inward:
                yield f"{name} sends to {arc.peer.address}, which does not know it"
        for id_, arc in views.inward.items():
            other = self._views(id_)
            if id_ not in self.members or other is None or id_ == me:
                yield f"{name} hears {arc.peer.address}, which is no member"
            elif me not in other.partial:
                yield f"{name} hears {arc.peer.address}, which does not send to it"

    def _of_publications(self) -> list[str]:
        return [
            f"{self.nodes[id_].me.address} got publication {number} {times} times"
            for number in self._judged
            for id_ in self.members
            if (times := self._got[id_, number]) != 1
        ]


class Summary(msgspec.Struct):
    """All seeds."""

    tally: Tally
    failing_seeds: list[int]
    members: int
    hits: int
    mean_view: float
    cpu_seconds: float


def summary(trials: Sequence[Outcome]) -> Summary:
    """All seeds together."""
    tally = Tally()
    for one in trials:
        tally.add(one)
    return Summary(
        tally=tally,
        failing_seeds=[one.seed for one in trials if one.violations],
        members=sum(one.members for one in trials),
        hits=sum(one.hits for one in trials),
        mean_view=sum(one.mean_view for one in trials) / max(1, len(trials)),
        cpu_seconds=sum(one.seconds for one in trials),
    )


def outcomes(seeds: Iterable[int]) -> Iterator[Outcome]:
    """One seed after the other, until somebody presses Ctrl-C; failures are told at once."""
    try:
        for seed in seeds:
            outcome = Trial(seed).run()
            yield outcome
            if outcome.violations:
                print(f"seed {seed}, {outcome.mode} mode:", file=sys.stderr)
                for violation in outcome.violations[:SHOWN]:
                    print("   ", violation, file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; print what fails, and the sums."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.scamp_trial")
    parser.add_argument("--seeds", default="1-20", metavar="A-B")
    parser.add_argument("--json", action="store_true", help="the sums as JSON")
    options = parser.parse_args(arguments)
    total = summary(list(outcomes(seeds_of(options.seeds))))
    if options.json:
        print(msgspec.json.encode(total).decode())
    else:
        print(
            f"{total.tally}; {total.members} members judged, {total.hits} crashes of members, "
            f"mean view {total.mean_view:.2f}; {total.cpu_seconds:.0f} CPU seconds"
        )
    return 1 if total.failing_seeds else 0


if __name__ == "__main__":
    sys.exit(main())
