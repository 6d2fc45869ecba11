"""One run of a plan: the network is built, the schedule done to it, and everything watched meanwhile.

The watched node is the ring's own, with eyes: after each input the run compares what the node covers with
what it covered before, and each lookup is followed from node to node. What is asked of a run is in
``invariants``; here are the facts that they need.

*A declaration of death* is false if it names a node that runs, in that incarnation. It shows as ``PeerDead``,
or, when a joiner gives up a candidate that it had in no table yet, only as a probe that ended with the node
among the failed; both count. A node that speaks itself (goodbye, or too slow to join) is not declared dead.
Between nodes that a partition separates no declaration is false.

*A hit* is a fault of a working node: one that has forwarded or delivered a lookup within the last
``WORKING_SECONDS``. Crashes, slowdowns and nodes cut off (those of the smaller side) count, one each. Lost
messages are counted too, but apart: they are not what a seed needs twenty of.

Beside the named invariants every run must build its ring (``build``) and keep its messages within reason
(``no-storm``); a soak adds ``no-exception``.

A system other than the ring plugs in by a class like ``Trial`` in ``SYSTEMS``.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

from overlaymq.events import Dropped, Join, Notify, PeerDead, Received, Send
from overlaymq.ids import RING, Id
from overlaymq.messages import LookupRequest, Peer, Routed, RoutedAck
from overlaymq.sim.faults import Faults
from overlaymq.sim.invariants import (
    FINDINGS_KEPT,
    INVARIANTS,
    OWNERSHIP,
    Census,
    Finding,
    Invariant,
    extents,
)
from overlaymq.sim.network import ConstantDelay, PlaneDelay
from overlaymq.sim.outcome import Result
from overlaymq.sim.ring import Ring
from overlaymq.sim.scenario import node_id, pastry_config
from overlaymq.sim.watched import ROUTED_DROPS, Custody, WatchedNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.pastry.overlay import PastryInput
    from overlaymq.events import Event
    from overlaymq.sim.engine import Host
    from overlaymq.sim.log import EventLog
    from overlaymq.sim.network import NetworkModel
    from overlaymq.sim.scenario import Action, Plan

TICK_SECONDS = 5.0
NOTICE_SECONDS = 45.0
"""The stated time in which the sides of a partition, left alone, have one root for each key."""
JOIN_SPACING = 0.05
SETTLE_SECONDS = 120.0
SEEDS_GIVEN = 3
STORM_RATE = 100.0
"""Messages a second and node, over a tick, that no repair explains: a guess, ten times what churn makes."""
STORM_MESSAGES = 2_000_000
MEAN_LINK = 21.0
"""Length of a link of the small transit-stub network, in its units (measured over 5 seeds: 20 to 22)."""
BACKLOG_SECONDS = 120.0
"""The longest wait for slow nodes to be done before quiet begins."""
LAST_LOOKUPS = 50
LAST_SECONDS = 10.0
HOT_NODES = 8
HOT_SPREAD = RING >> 7


class Storm(Exception):
    """A run made so many messages that it would not end."""


class Trial:
    """A Pastry ring under a plan. ``run`` does all of it."""

    def __init__(self, plan: Plan, log: EventLog | None = None) -> None:
        self.plan = plan
        self.log = log
        self.faults = Faults()
        self.config = pastry_config(plan.pastry)
        self.ring = Ring(plan.seed, network(plan), self.config, self.faults)
        self.simulation = self.ring.simulation
        self.simulation.on_notify = self._notified
        self.simulation.on_send = self._sent
        self.random = Random(f"overlaymq trial {plan.scenario} {plan.seed}")
        self.census = Census()
        self.custody = Custody()
        self.nodes: dict[int, WatchedNode] = {}
        """The latest life of each number."""
        self.current: Any = None
        self.hops_due = False
        self.keys: dict[int, Id] = {}
        self.starts: dict[int, WatchedNode] = {}
        self.ends: dict[int, list[WatchedNode]] = {}
        self.hot: list[Id] = []
        self.counts: dict[str, int] = {}
        self.hits = {"crash": 0, "cut": 0, "slow": 0}
        self.unanswered_by: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.found_by: dict[str, int] = {}
        self.fewest = 0
        self.changed_at = 0.0
        self.origin = 0.0
        self.sides: frozenset[int] = frozenset()
        self.parted_at = self.healed_at = -1.0
        self.one_way = False
        self.load_at, self.load_messages, self.most_messages = 0.0, 0, 0.0
        self.invariants = [INVARIANTS[name](self) for name in plan.invariants]
        self.handled = [i.handled for i in self.invariants if type(i).handled != Invariant.handled]
        """Called after every input, so only where somebody listens."""

    @property
    def now(self) -> float:
        """True time."""
        return self.simulation.now

    # --- the run -----------------------------------------------------------------------------------

    def run(self) -> Result:
        """Build, break, wait, look."""
        started = time.process_time()
        self._build()
        self.origin = self.now
        self._set_message_faults(self.plan)
        try:
            self._follow_schedule()
            self._calm()
            self._wait(self.plan.quiet)
            self._last_lookups()
            for invariant in self.invariants:
                invariant.end()
        except Storm as storm:
            self.found("no-storm", str(storm))
        return self._result(time.process_time() - started)

    def _build(self) -> None:
        absent = frozenset(self.plan.absent)
        present = [number for number in range(self.plan.nodes) if number not in absent]
        for number in present:
            self._start(number, 0)
            self._run_for(JOIN_SPACING)
        end = self.now + SETTLE_SECONDS
        while self.now < end and len(self.census.active) < len(present):
            self._run_for(0.5)
        self._run_for(1.0)
        self.fewest = len(present)
        if len(self.census.active) < len(present):
            self.found("build", f"only {len(self.census.active)} of {len(present)} are active")

    def _follow_schedule(self) -> None:
        """Actions and lookups in the order of their times; an action comes before a lookup."""
        end = self.plan.seconds
        tick, lookup = TICK_SECONDS, self._next_lookup(0.0)
        actions = [action for action in self.plan.actions if action.at <= end]
        for action in [*actions, None]:
            until = end if action is None else action.at
            while min(tick, lookup) < until:
                self.simulation.run_until(self.origin + min(tick, lookup))
                if lookup <= tick:
                    self._look_up()
                    lookup = self._next_lookup(lookup)
                else:
                    self._tick()
                    tick += TICK_SECONDS
            self.simulation.run_until(self.origin + until)
            if action is not None:
                self._act(action)

    def _next_lookup(self, at: float) -> float:
        rate = self.plan.lookups_per_second
        return at + self.random.expovariate(rate) if rate else float("inf")

    def _calm(self) -> None:
        """All faults end."""
        self._set_message_faults(None)
        self._heal()
        for address in self.faults.slowness:
            self.faults.slow(address, 0.0)
        # A slow node is slow until it is done with what it has received.
        busy = max((self._host(node).busy_until for node in self.live()), default=0.0)
        self._wait(min(max(busy - self.now, 0.0), BACKLOG_SECONDS))
        for address in self.faults.clocks:
            self.faults.skew(address, 1.0)

    def _host(self, node: WatchedNode) -> Host:
        return self.simulation.hosts[node.pastry.me.address]

    def _wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self._run_for(min(TICK_SECONDS, end - self.now))
            self._tick()

    def _last_lookups(self) -> None:
        first = len(self.keys)
        for _ in range(LAST_LOOKUPS if self.plan.lookups_per_second else 0):
            self._look_up()
            self._run_for(0.02)
        self._run_for(LAST_SECONDS)
        missing = [request for request in range(first, len(self.keys)) if request not in self.ends]
        if missing and "exact-when-quiet" in self.plan.invariants:
            self.found("exact-when-quiet", f"lookups {missing[:5]} in quiet were not delivered")

    def _run_for(self, seconds: float) -> None:
        self.simulation.run_until(self.now + seconds)

    def _tick(self) -> None:
        self._watch_load()
        for invariant in self.invariants:
            invariant.tick()
        if self.healed_at >= 0 and self.now > self.healed_at + self.plan.merge:
            self.sides = frozenset()

    def _watch_load(self) -> None:
        """A storm of messages is a fault of its own, and would make a run endless."""
        seconds, messages = self.now - self.load_at, self.simulation.messages
        if seconds <= 0:
            return
        rate = (messages - self.load_messages) / seconds / max(len(self.ring.nodes), 1)
        self.load_at, self.load_messages = self.now, messages
        self.most_messages = max(self.most_messages, rate)
        if rate > STORM_RATE:
            self.found("no-storm", f"{rate:.0f} messages a second and node")
        if messages > STORM_MESSAGES:
            raise Storm(f"{messages} messages in {self.now - self.origin:.0f} s")

    def _set_message_faults(self, plan: Plan | None) -> None:
        faults = self.faults
        faults.loss = 0.0 if plan is None else plan.loss
        faults.duplication = 0.0 if plan is None else plan.duplication
        faults.reordering = 0.0 if plan is None else plan.reordering
        faults.jitter = 0.0 if plan is None else plan.jitter
        if plan is not None:
            faults.link_break = plan.link_break

    # --- actions -----------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        if self.log is not None:
            self.log.action(self.now, action)
        deed, number = action.do, action.node
        node = self.nodes.get(number)
        if deed == "join":
            if node is None:
                self._start(number, 0)
        elif deed == "return":
            if node is not None and not node.alive:
                self._start(number, node.pastry.me.incarnation + 1)
        elif deed in ("part", "one-way"):
            self._part(frozenset(action.nodes), one_way=deed == "one-way")
        elif deed == "heal":
            self._heal()
        elif deed == "skew":
            self.faults.skew(address(number), action.value)
        elif node is not None and node.alive:
            self._strike(node, action)

    def _strike(self, node: WatchedNode, action: Action) -> None:
        if action.do == "slow":
            self.hits["slow"] += node.working and action.value > 0
            self.faults.slow(address(node.number), action.value)
            return
        self.hits["crash"] += node.working and action.do == "crash"
        if action.do == "leave":
            self.ring.leave(node.pastry.me)
        else:
            self.ring.crash(node.pastry.me)
        node.alive = False
        self.census.depart(node)
        self._membership_changed(node)
        self.fewest = min(self.fewest, len(self.ring.nodes))

    def _start(self, number: int, incarnation: int) -> None:
        peer = Peer(node_id(self.plan.seed, number), address(number), incarnation)
        random = Random(f"overlaymq trial {self.plan.seed} entrance {number} {incarnation}")
        entrances = [
            self.census.nodes[id_].pastry.me
            for id_ in self.census.active
            if not self.separated(number, self.census.nodes[id_].number)
        ]
        seeds = random.sample(entrances, min(SEEDS_GIVEN, len(entrances)))
        node = self.nodes[number] = WatchedNode(self, number, peer)
        self.simulation.add_node(peer, node)
        self.ring.nodes[peer.id] = node
        self._membership_changed(node)
        if self.log is not None:
            self.log.node(self.now, node, "up")
        self.simulation.start(peer, Join(tuple(seeds)))

    def _membership_changed(self, node: WatchedNode) -> None:
        self.changed_at = self.now
        self.hot.append(node.pastry.me.id)
        del self.hot[:-HOT_NODES]
        if self.log is not None and not node.alive:
            self.log.node(self.now, node, "down")

    # --- partitions --------------------------------------------------------------------------------

    def _part(self, side: frozenset[int], one_way: bool) -> None:
        self.sides, self.one_way = side, one_way
        self.parted_at, self.healed_at = self.now, -1.0
        inside = [node for node in self.live() if node.number in side]
        outside = [node for node in self.live() if node.number not in side]
        smaller = min(inside, outside, key=len)
        self.hits["cut"] += sum(node.working for node in smaller)
        everyone = range(max(max(side, default=0), *self.nodes, self.plan.nodes) + 1)
        here = [address(number) for number in sorted(side)]
        if one_way:
            there = [address(number) for number in everyone if number not in side]
            self.faults.cut(here, there)
        else:
            self.faults.part([here])

    def _heal(self) -> None:
        self.faults.heal()
        if self.parted_at >= 0 and self.healed_at < 0:
            self.healed_at = self.now

    def separated(self, one: int, other: int) -> bool:
        """Whether two nodes are, or were until lately, on different sides."""
        sides = self.sides
        return bool(sides) and (one in sides) != (other in sides)

    def components_due(self) -> Iterator[list[WatchedNode]]:
        """The nodes of each side, or of the whole after its merging, if nothing else happens to them."""
        if self.parted_at < 0 or self.now - self.changed_at < NOTICE_SECONDS:
            return
        active = [self.census.nodes[id_] for id_ in self.census.active]
        if self.healed_at < 0:
            if not self.one_way and self.now - self.parted_at >= NOTICE_SECONDS:
                yield [node for node in active if node.number in self.sides]
                yield [node for node in active if node.number not in self.sides]
        elif self.now > self.healed_at + self.plan.merge:
            yield active

    # --- lookups -----------------------------------------------------------------------------------

    def _look_up(self) -> None:
        random = self.random
        active = self.census.active
        if not active:
            return
        start = self.census.nodes[active[random.randrange(len(active))]]
        key = Id(random.getrandbits(128))
        if self.hot and random.random() < self.plan.hot_share:
            near = self.hot[random.randrange(len(self.hot))]
            key = Id((near + random.randrange(-HOT_SPREAD, HOT_SPREAD)) % RING)
        request = len(self.keys)
        self.keys[request] = key
        self.starts[request] = start
        self.custody.holders[request] = {start: None}
        if self.log is not None:
            self.log.lookup(self.now, start, request, key)
        now, start.handled_at = start.clock(), self.now
        self.current = None
        effects = start.pastry.route(key, LookupRequest(request), now)
        self._follow(start, effects)
        self.simulation.perform(self._host(start), effects)

    def delivered(self, node: WatchedNode, request: int, routed: Routed) -> None:
        """A lookup has ended at a node."""
        if node.pastry.active:
            # It may have become so by the very input that it is still busy with.
            self.census.enter(node)
        ends = self.ends.setdefault(request, [])
        if ends:
            self.count("redelivered")
        ends.append(node)
        self.custody.delivered(request)
        if self.log is not None:
            self.log.delivered(self.now, node, request, routed)
        for invariant in self.invariants:
            invariant.delivered(node, request, self.keys[request])

    def deliveries_at(self, request: int, node: WatchedNode) -> int:
        """How often one life of a node has delivered a lookup."""
        return self.ends.get(request, []).count(node)

    # --- watching ----------------------------------------------------------------------------------

    def after(self, node: WatchedNode, input: PastryInput, effects: Effects) -> None:
        """A node has taken an input."""
        if type(input) is Received:
            message = input.message
            if type(message) is RoutedAck:
                self.custody.acknowledged(node, message.serial)
            elif type(message) is Routed and isinstance(message.body, LookupRequest):
                self._received(node, message, effects)
        if self.hops_due:
            self._follow(node, effects)
        node.duplicates = node.pastry.state.counters.duplicates
        extent = extents(node.pastry)
        if extent != node.extent:
            self._covers(node, extent)
        for handled in self.handled:
            handled(node)

    def _covers(self, node: WatchedNode, extent: tuple[int, int]) -> None:
        was_active, node.extent = node.extent[0] >= 0, extent
        if extent[0] >= 0 and not was_active:
            self.census.enter(node)
        elif extent[0] < 0:
            self.census.depart(node)
        for invariant in self.invariants:
            invariant.changed(node)

    def _received(self, node: WatchedNode, message: Routed, effects: Effects) -> None:
        acknowledged = any(type(e) is Send and type(e.message) is RoutedAck for e in effects)
        is_copy = node.pastry.state.counters.duplicates != node.duplicates
        body = message.body
        if acknowledged and not is_copy and isinstance(body, LookupRequest):
            self.custody.accepted(node, body.request)

    def _follow(self, node: WatchedNode, effects: Effects) -> None:
        self.hops_due = False
        for effect in effects:
            if type(effect) is Send and type(effect.message) is Routed:
                self.custody.sent(node, effect.message)

    def _notified(self, host: Host, event: Event) -> None:
        node = host.node
        if not isinstance(node, WatchedNode):
            return
        if type(event) is Dropped:
            if event.reason in ROUTED_DROPS:
                node.routed_drops += event.messages
        elif type(event) is PeerDead:
            self._declared(node, event.peer)
        if self.log is not None:
            self.log.event(self.now, node, event)

    def _declared(self, node: WatchedNode, peer: Peer) -> None:
        current = self.current
        if type(current) is Received and current.peer == peer:
            return
        if self._lives(node, peer):
            self.count("declared")

    def probe_ended(self, node: WatchedNode, peer: Peer, effects: Effects) -> None:
        """A probe's time is over: was somebody given up who never was in a table?"""
        state = node.pastry.state
        if state.failed.get(peer.id) == state.now and self._lives(node, peer):
            told = any(type(e) is Notify and e.event == PeerDead(peer) for e in effects)
            if not told:
                self.count("given up")

    def _lives(self, node: WatchedNode, peer: Peer) -> bool:
        other = self.ring.nodes.get(peer.id)
        return (
            isinstance(other, WatchedNode)
            and other.pastry.me.incarnation == peer.incarnation
            and not self.separated(node.number, other.number)
        )

    def _sent(self, now: float, host: Host, peer: Peer, message: Any, fate: str) -> None:
        if fate == "lost":
            self.count("lost")
        if self.log is not None and isinstance(host.node, WatchedNode):
            self.log.sent(now, host.node, peer, message, fate)

    # --- what invariants ask -----------------------------------------------------------------------

    def live(self) -> list[WatchedNode]:
        """Every node that runs."""
        return [node for node in self.nodes.values() if node.alive]

    def with_(self, node: WatchedNode) -> list[Id]:
        """The active nodes that are not separated from one, in ring order."""
        active = self.census.active
        if not self.sides:
            return active
        nodes, number = self.census.nodes, node.number
        return [id_ for id_ in active if not self.separated(number, nodes[id_].number)]

    def closest(self, node: WatchedNode, key: Id) -> WatchedNode | None:
        """Who should own a key, on a node's side."""
        return self.census.closest(key, self.with_(node))

    def count(self, what: str) -> None:
        """One more of it."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def unanswered(self, why: str) -> None:
        """A lookup was not delivered."""
        self.unanswered_by[why] = self.unanswered_by.get(why, 0) + 1

    def found(self, invariant: str, text: str) -> None:
        """An invariant did not hold."""
        count = self.found_by[invariant] = self.found_by.get(invariant, 0) + 1
        if count <= FINDINGS_KEPT:
            finding = Finding(round(self.now - self.origin, 6), invariant, text)
            self.findings.append(finding)
            if self.log is not None:
                self.log.finding(self.now, finding)

    def _result(self, cpu_seconds: float) -> Result:
        declared, given_up = self.counts.get("declared", 0), self.counts.get("given up", 0)
        false_deaths = declared + given_up
        excused = [f for f in self.findings if false_deaths and f.invariant in OWNERSHIP]
        parted = self.parted_at >= 0
        return Result(
            scenario=self.plan.scenario,
            seed=self.plan.seed,
            kind="c" if parted else "b" if false_deaths else "a",
            violations=[finding for finding in self.findings if finding not in excused],
            excused=excused,
            lookups=len(self.keys),
            delivered=len(self.ends),
            inconsistent=self.counts.get("inconsistent", 0),
            contested=self.counts.get("contested", 0),
            redelivered=self.counts.get("redelivered", 0),
            unanswered=self.unanswered_by,
            declared=declared,
            given_up=given_up,
            disagreements=self.counts.get("disagreements", 0),
            hits=self.hits,
            lost_messages=self.counts.get("lost", 0),
            fewest_nodes=self.fewest,
            nodes=self.plan.nodes - len(self.plan.absent),
            events=self.simulation.events,
            messages=self.simulation.messages,
            most_messages=round(self.most_messages, 1),
            virtual_seconds=round(self.now, 3),
            cpu_seconds=cpu_seconds,
        )


def address(number: int) -> str:
    """Where a plan's node listens."""
    return f"node-{number}"


def network(plan: Plan) -> NetworkModel:
    """The model that a plan names."""
    if plan.model == "plane":
        return PlaneDelay(plan.delay)
    if plan.model == "transit-stub":
        # It needs numpy, which the other models do not.
        from overlaymq.sim.topology import TopologyNetwork, TransitStub, TransitStubParameters

        small = TransitStubParameters(
            transit_domains=2,
            transit_routers=3,
            stubs=3,
            stub_routers=4,
            unit=plan.delay / MEAN_LINK,
        )
        return TopologyNetwork(TransitStub(plan.seed, small), plan.seed)
    return ConstantDelay(plan.delay)


SYSTEMS: dict[str, Callable[[Plan, EventLog | None], Trial]] = {"pastry": Trial}


def run(plan: Plan, log: EventLog | None = None) -> Result:
    """Run a plan of any system."""
    return SYSTEMS[plan.system](plan, log).run()
