"""Failure groups under faults: whole nodes in the simulator, and an observer that trusts none of them.

A *trial* is a seed. Groups of 2 to 16 of its 72 nodes are made one after the other, while nodes crash (some
of them come back, with another incarnation), members signal, messages are lost, and the network parts, or
is cut in one direction, or between two members only. In some trials that lasts until nobody is owed a
notice any more. Then all is mended. Of the kinds of trials,

- ``calm``: members signal, and nodes that are in no group crash;
- ``crashes``: any node crashes, no message is lost;
- ``loss``: up to 10 % of all messages are lost too;
- ``partitions``: the network parts and is cut too.

The *observer* knows when a group has failed: when a member crashed (one that has not answered yet, too: the
group cannot be made), or one signalled, or anybody was notified, whichever came first. It asks:

- was every member that had installed a failed group, and stayed up, notified exactly once, and within the
  bound (``notification_bound``) of the failure, or of its own installation if that came later?
- was nobody else notified, and nobody twice?
- if no message was lost: was nobody notified of a group in which nobody had crashed or signalled before?
- does every member have, at all times, a way that is watched, or an end to its waiting?
- when all groups are over, is nothing left of them anywhere?

    python -m overlaymq.sim.fuse_trial --seeds 1-100 [--json]
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq.config import Config, FuseConfig, PastryConfig
from overlaymq.core.fuse.bounds import notification_bound
from overlaymq.core.node import Node
from overlaymq.events import CreateGroup, GroupCreated, GroupFailed, Join, SignalGroup
from overlaymq.ids import BITS, Id
from overlaymq.messages import FuseCreated, Peer
from overlaymq.sim import oracle
from overlaymq.sim.engine import Simulation
from overlaymq.sim.faults import Faults
from overlaymq.sim.network import PlaneDelay
from overlaymq.sim.tally import NEEDED_NODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from overlaymq.events import Event
    from overlaymq.sim.engine import Host

KINDS = ("calm", "crashes", "loss", "partitions")
NODES = 72
GROUPS = 24
SIZES = (2, 2, 3, 4, 4, 8, 16)
CREATE_SECONDS = 20.0
FAULT_SECONDS = 25.0
CRASHES = 10
LOSSES = (0.01, 0.03, 0.06, 0.1)
LOOK_EVERY = 2.5
AFTERWARDS = 5.0
DELAY = 0.3
"""Above what any message takes: 0.15 s across the plane, and 0.1 s if it is held back."""
TIDYING = "signal at the end"
SHOWN = 5
REPORT_EVERY = 50

CONFIG = Config(
    pastry=PastryConfig(heartbeat_every=2.0, lease=4.0, heal_every=5.0, leaf_set_size=8),
    fuse=FuseConfig(
        ping_every=2.0,
        edge_timeout=5.0,
        retry_every=0.5,
        answer_timeout=3.0,
        grace=2.0,
        backoff_max=2.0,
        max_hops=4,
    ),
)
"""Times scaled down by two and a half, so that a minute sees many repairs; small leaf sets, for speed."""
BOUND = notification_bound(CONFIG.fuse, DELAY)

Life = tuple[Id, int]
"""A node's id and incarnation."""


class Watch:
    """What the observer knows of one group. ``cause`` is the first thing that made it fail."""

    def __init__(self, root: Peer, members: list[Peer], asked_at: float) -> None:
        self.lives = {_life(peer) for peer in members}
        self.size = len(members)
        self.asked_at = asked_at
        self.created_at: float | None = None
        self.installed: dict[Life, float] = {_life(root): asked_at}
        self.notified: dict[Life, list[float]] = {}
        self.failed_at: float | None = None
        self.cause = ""

    def fails(self, now: float, cause: str) -> None:
        """The first cause counts."""
        if self.failed_at is None:
            self.failed_at, self.cause = now, cause


class Notice(msgspec.Struct, frozen=True):
    """One notification: what the group failed of, and how long after that."""

    cause: str
    seconds: float


class Creation(msgspec.Struct, frozen=True):
    """How long it took to make a group."""

    size: int
    seconds: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial."""

    seed: int
    kind: str
    loss: float
    violations: list[str]
    fewest: int
    groups: int
    created: int
    failed: int
    unprovoked: int
    notices: list[Notice]
    creations: list[Creation]
    events: int
    seconds: float

    @property
    def counted(self) -> bool:
        """Whether the seed was large enough, and anything failed in it."""
        return self.fewest >= NEEDED_NODES and self.failed > 0


def _life(peer: Peer) -> Life:
    return peer.id, peer.incarnation


class Trial:
    """One seed."""

    def __init__(self, seed: int, kind: str | None = None, nodes: int = NODES) -> None:
        self.seed = seed
        self.kind = kind or KINDS[seed % len(KINDS)]
        self.random = Random(f"overlaymq fuse trial {seed}")
        self.faults = Faults(link_break=self.random.choice([None, 0.3]))
        self.lossy = self.kind == "loss" or (
            self.kind == "partitions" and self.random.random() < 0.5
        )
        self.loss = self.random.choice(LOSSES) if self.lossy else 0.0
        self.lasting = self.random.random() < 0.4
        self.simulation = Simulation(seed, PlaneDelay(), self.faults)
        self.config = CONFIG.pastry
        self.nodes: dict[Id, Node] = {}
        self.groups: dict[Id, Watch] = {}
        self.ended: dict[Life, float] = {}
        """When lives ended that did."""
        self.violations: list[str] = []
        self._count = self.fewest = nodes

    # --- the oracle's ring ---

    def new_peer(self) -> Peer:
        """A node that does not exist yet."""
        return Peer(Id(self.random.getrandbits(BITS)), f"node-{len(self.simulation.hosts)}", 1)

    def add(self, peer: Peer) -> Node:
        """A node that has not started."""
        random = self.simulation.node_random(f"{peer.address} {peer.incarnation}")
        node = self.nodes[peer.id] = Node(peer, CONFIG, random)
        self.simulation.add_node(peer, node)
        return node

    # --- the run ---

    def run(self) -> Outcome:
        """From building to judgement."""
        started = time.process_time()
        oracle.build(self, self._count, with_timers=True)
        simulation = self.simulation
        simulation.on_notify = self._notified
        simulation.on_send = self._seen
        simulation.run_until(2.0)
        self._plan()
        end = simulation.now + FAULT_SECONDS
        while simulation.now < end:
            simulation.run_until(simulation.now + LOOK_EVERY)
            self._look()
        if not self.lasting:
            self._mend()
        self._run_while_awaited()
        self._mend()
        simulation.run_until(simulation.now + AFTERWARDS)
        self._end_all()
        self._judge()
        return self._outcome(time.process_time() - started)

    def _mend(self) -> None:
        self.faults.loss = self.faults.reordering = self.faults.duplication = 0.0
        self.faults.heal()

    def _plan(self) -> None:
        simulation, random = self.simulation, self.random
        self.faults.loss = self.loss
        self.faults.reordering = self.faults.duplication = 0.02 if self.lossy else 0.0
        start = simulation.now
        for _ in range(GROUPS):
            simulation.at(start + random.uniform(0, CREATE_SECONDS), self._create)
        for _ in range(GROUPS // 6):
            simulation.at(start + random.uniform(5, FAULT_SECONDS), self._signal)
        for _ in range(CRASHES):
            simulation.at(start + random.uniform(2, FAULT_SECONDS), self._crash)
        if self.kind == "partitions":
            for _ in range(3):
                when = start + random.uniform(2, FAULT_SECONDS - 5)
                simulation.at(when, random.choice([self._part, self._cut, self._cut_members]))
                if not self.lasting:
                    simulation.at(when + random.uniform(2, 15), self.faults.heal)

    def _run_while_awaited(self) -> None:
        """Until nobody is owed a notice, or the bound has passed."""
        limit = self.simulation.now + BOUND + 1.0
        while self.simulation.now < limit and self._awaited():
            self.simulation.run_until(self.simulation.now + LOOK_EVERY)
            self._look()

    def _awaited(self) -> bool:
        return any(
            watch.failed_at is not None
            and any(
                life not in watch.notified and life not in self.ended for life in watch.installed
            )
            for watch in self.groups.values()
        )

    def _end_all(self) -> None:
        """Signal what is left, and see that nothing remains of it."""
        for group, watch in self.groups.items():
            if watch.failed_at is None:
                self._declare(group, watch, TIDYING)
        limit = self.simulation.now + BOUND
        while self.simulation.now < limit and (self._awaited() or self._left()):
            self.simulation.run_until(self.simulation.now + LOOK_EVERY)
        self.violations += [f"left behind: {text}" for text in self._left()]

    def _left(self) -> list[str]:
        return [
            f"{node.me.address}: {snapshot}"
            for node in self.nodes.values()
            if any(msgspec.structs.astuple(snapshot := node.fuse.snapshot()))
        ]

    # --- what happens ---

    def _peers(self) -> list[Peer]:
        return [node.me for node in self.nodes.values() if node.pastry.active]

    def _create(self) -> None:
        members = self.random.sample(self._peers(), self.random.choice(SIZES))
        group = Id(self.random.getrandbits(BITS))
        root = members[0]
        self.groups[group] = Watch(root, members, self.simulation.now)
        self.simulation.start(root, CreateGroup(group, tuple(members[1:])))

    def _signal(self) -> None:
        whole = [pair for pair in self.groups.items() if pair[1].failed_at is None]
        if whole:
            self._declare(*self.random.choice(whole))

    def _declare(self, group: Id, watch: Watch, cause: str = "signal") -> None:
        up = [node for node in self.nodes.values() if node.fuse.has(group)]
        if up:
            watch.fails(self.simulation.now, cause)
            self.simulation.start(self.random.choice(up).me, SignalGroup(group))

    def _crash(self) -> None:
        if self.kind == "calm":
            busy = {life for watch in self.groups.values() for life in watch.lives}
            candidates = [peer for peer in self._peers() if _life(peer) not in busy]
        else:
            candidates = self._peers()
        if not candidates or len(self.nodes) <= NEEDED_NODES:
            return
        victim = self.random.choice(candidates)
        now = self.simulation.now
        self.simulation.crash(victim)
        del self.nodes[victim.id]
        self.fewest = min(self.fewest, len(self.nodes))
        self.ended[_life(victim)] = now
        for watch in self.groups.values():
            if _life(victim) in watch.lives:
                watch.fails(now, "crash")
        if self.random.random() < 0.5:
            self.simulation.at(now + self.random.uniform(0.2, 8), lambda: self._restart(victim))

    def _restart(self, peer: Peer) -> None:
        seeds = tuple(self.random.sample(self._peers(), 3))
        again = Peer(peer.id, peer.address, peer.incarnation + 1)
        self.add(again)
        self.simulation.start(again, Join(seeds))

    def _addresses(self) -> list[str]:
        return [peer.address for peer in self._peers()]

    def _part(self) -> None:
        addresses = self._addresses()
        self.faults.part(
            [self.random.sample(addresses, len(addresses) // self.random.choice([2, 3, 8]))]
        )

    def _cut(self) -> None:
        """Some nodes are not heard by some others, but hear them."""
        addresses = self._addresses()
        some = self.random.choice([1, 5, len(addresses) // 3])
        self.faults.cut(
            self.random.sample(addresses, some), self.random.sample(addresses, len(addresses) // 2)
        )

    def _cut_members(self) -> None:
        """Members of some groups do not reach each other; everybody else reaches them."""
        addresses = {_life(peer): peer.address for peer in self._peers()}
        for watch in self.random.sample(list(self.groups.values()), len(self.groups) // 3):
            here = sorted(addresses[life] for life in watch.lives if life in addresses)
            if len(here) >= 2:
                one, other = self.random.sample(here, 2)
                self.faults.cut([one], [other])
                self.faults.cut([other], [one])

    # --- what is seen ---

    def _seen(self, now: float, host: Host, peer: Peer, message: Any, fate: str) -> None:
        if isinstance(message, FuseCreated) and message.accepted:
            watch = self.groups[message.group]
            life = _life(host.peer)
            if life not in watch.installed:
                watch.installed[life] = now
            elif life in watch.notified:
                self.violations.append(f"{host.peer.address} took part again in what was over")

    def _notified(self, host: Host, event: Event) -> None:
        now = self.simulation.now
        if isinstance(event, GroupCreated):
            self.groups[event.group].created_at = now
        elif isinstance(event, GroupFailed):
            watch = self.groups[event.group]
            watch.fails(now, "unprovoked")
            watch.notified.setdefault(_life(host.peer), []).append(now)

    def _look(self) -> None:
        for node in self.nodes.values():
            for group in node.fuse.unwatched():
                self.violations.append(f"{node.me.address} waits in vain in {group >> 112:x}")

    # --- judgement ---

    def _judge(self) -> None:
        for group, watch in self.groups.items():
            name = f"{group >> 112:x} ({watch.cause} at {watch.failed_at})"
            for life, times in watch.notified.items():
                if len(times) > 1:
                    self.violations.append(f"{name}: notified at {times}")
                if life not in watch.installed:
                    self.violations.append(f"{name}: notified, but never installed")
            if watch.failed_at is None:
                self.violations.append(f"{name}: nobody was left to signal")
                continue
            for life, installed_at in watch.installed.items():
                deadline = max(watch.failed_at, installed_at) + BOUND
                if self.ended.get(life, deadline) < deadline:
                    continue
                times = watch.notified.get(life, [])
                if not times or times[0] > deadline:
                    self.violations.append(f"{name}: due at {deadline:.1f}, notified at {times}")
            loses = self.lossy or self.kind == "partitions"
            if watch.cause == "unprovoked" and not loses:
                self.violations.append(f"{name}: a false notice")

    def _outcome(self, seconds: float) -> Outcome:
        watches = list(self.groups.values())
        notices = [
            Notice(watch.cause, times[0] - max(watch.failed_at or 0.0, watch.installed[life]))
            for watch in watches
            for life, times in watch.notified.items()
            if life in watch.installed and watch.cause != TIDYING
        ]
        creations = [
            Creation(watch.size, watch.created_at - watch.asked_at)
            for watch in watches
            if watch.created_at is not None
        ]
        return Outcome(
            seed=self.seed,
            kind=self.kind,
            loss=self.loss,
            violations=self.violations,
            fewest=self.fewest,
            groups=len(watches),
            created=len(creations),
            failed=sum(watch.cause != TIDYING for watch in watches),
            unprovoked=sum(watch.cause == "unprovoked" for watch in watches),
            notices=notices,
            creations=creations,
            events=self.simulation.events,
            seconds=seconds,
        )


# --- the command -----------------------------------------------------------------------------------


class Summary(msgspec.Struct, kw_only=True):
    """The sums over all seeds."""

    bound: float = BOUND
    seeds: int = 0
    counted: int = 0
    failing_seeds: list[int] = []
    groups: int = 0
    created: int = 0
    unprovoked: dict[str, int] = {}
    notices: dict[str, dict[str, float]] = {}
    creation: dict[int, dict[str, float]] = {}
    cpu_seconds: float = 0.0


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """How many, and how they are distributed."""
    ordered = sorted(values)
    at = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "max": 1.0}
    last = len(ordered) - 1
    shown = {name: round(ordered[round(share * last)], 3) for name, share in at.items()}
    return {"count": len(ordered), **shown}


def summary(trials: Sequence[Outcome]) -> Summary:
    """All seeds together."""
    total = Summary()
    notices: dict[str, list[float]] = {}
    creation: dict[int, list[float]] = {}
    for outcome in trials:
        total.seeds += 1
        total.counted += outcome.counted
        if outcome.violations:
            total.failing_seeds.append(outcome.seed)
        total.groups += outcome.groups
        total.created += outcome.created
        loss = f"{outcome.kind}, {outcome.loss:.0%} loss"
        total.unprovoked[loss] = total.unprovoked.get(loss, 0) + outcome.unprovoked
        total.cpu_seconds += outcome.seconds
        for notice in outcome.notices:
            notices.setdefault(f"{outcome.kind}: {notice.cause}", []).append(notice.seconds)
        if outcome.kind == "calm":
            for one in outcome.creations:
                creation.setdefault(one.size, []).append(one.seconds)
    total.notices = {name: quantiles(values) for name, values in sorted(notices.items())}
    total.creation = {size: quantiles(values) for size, values in sorted(creation.items())}
    total.unprovoked = dict(sorted(total.unprovoked.items()))
    return total


def _print_summary(total: Summary) -> None:
    print(f"{total.seeds} seeds, {total.counted} counted, {len(total.failing_seeds)} failed")
    print(
        f"{total.groups} groups, {total.created} of them created; the bound is {total.bound:.1f} s"
    )
    print("failed without a crash or a signal:", total.unprovoked)
    print("seconds from failure to notice:")
    for name, figures in total.notices.items():
        print(f"  {name:24}", figures)
    print("seconds to create a group, by its size, in calm trials:")
    for size, figures in total.creation.items():
        print(f"  {size:24}", figures)


def outcomes(seeds: Iterable[int], kind: str | None = None) -> Iterator[Outcome]:
    """One seed after the other, until somebody presses Ctrl-C; failures are told at once."""
    try:
        for number, seed in enumerate(seeds, 1):
            outcome = Trial(seed, kind).run()
            yield outcome
            if outcome.violations:
                print(f"seed {seed}, {outcome.kind}:", file=sys.stderr)
                for violation in outcome.violations[:SHOWN]:
                    print("   ", violation, file=sys.stderr, flush=True)
            if number % REPORT_EVERY == 0:
                print(f"{number} seeds so far", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; print what fails, and the sums."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.fuse_trial")
    parser.add_argument("--seeds", default="1-20", metavar="A-B")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--json", action="store_true", help="the sums as JSON")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    total = summary(list(outcomes(seeds, options.kind)))
    if options.json:
        print(msgspec.json.encode(total).decode())
    else:
        _print_summary(total)
    return 1 if total.failing_seeds else 0


if __name__ == "__main__":
    sys.exit(main())
