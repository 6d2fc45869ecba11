"""Consistency and overhead while nodes come and go, beside MSPastry's figures (DSN 2004; protocols.md 1.9).

A ring on a transit-stub network is built by the join protocol. Then nodes arrive at random times at the rate
that keeps their number, and each fails silently when its session ends. Sessions are exponential with a
mean of 2.3 h, that of the Gnutella trace (the trace itself, with its days and nights and its heavy tail, is
not at hand), and shorter ones to show the trend. Every node looks random keys up, 0.01 a second.

What is measured, after a time of churn to warm up:

- *overhead*: messages a second and node that are not lookups: heartbeats and leases, probes, arrivals,
  distances (two messages each), repair, acknowledgements. MSPastry counts acknowledgements, too.
- *loss*: lookups that were delivered nowhere, whether or not their source lived on.
- *inconsistent deliveries*: lookups delivered at a node that was not the closest active living one at that
  moment, or at two nodes. (The second is counted even if ownership moved in between.)
- *stretch*: mean delay of the lookups that left their source over the mean direct delay. The time that
  dead hops took is part of it, and so is the wait while the death of a key's owner is verified and its lease
  runs out; few lookups wait, but for many times their delay, so the median is told beside the mean.

Two configurations. ``MSPASTRY`` is the paper's (l = 32, T_o = 3 s, two retries, rows exchanged every 20
min) as far as our protocol has it. It has leases and MSPastry has none; in place of one heartbeat to the
left every 30 s there are FreePastry's leases, asked of both neighbours every 20 s for 30 s. It does not
probe its routing table nor tune that rate: entries are found dead when used. ``OURS`` are our defaults,
which are made for LANs. Round trips of this network take a second on average and 2.4 s at most, longer than
their probe timeout, so they run on the same network with all delays a tenth.

Rates of order 1e-5 need more lookups than half an hour of 2,000 nodes has (36,000, one lost is 2.8e-5): ask
for more nodes, or for ``runs``, to see them better.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from math import log
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from overlaymq.config import PastryConfig
from overlaymq.events import Joined, PeerDead
from overlaymq.ids import BITS, Id
from overlaymq.sim.churn import Churn, ChurnCounts
from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.experiments.lookups import Lookup
from overlaymq.sim.experiments.traffic import Traffic
from overlaymq.sim.experiments.walk import closest
from overlaymq.sim.faults import Faults
from overlaymq.sim.published import row
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology import TopologyNetwork, TransitStub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from overlaymq.events import Event
    from overlaymq.messages import Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Row
    from overlaymq.sim.network import NetworkModel
    from overlaymq.sim.ring import Delivery
    from overlaymq.sim.topology import Topology

HOUR, MINUTE = 3600.0, 60.0
GNUTELLA_SESSION = 2.3 * HOUR
"""Mean session of the Gnutella trace (protocols.md 1.9)."""
SESSIONS = (5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, GNUTELLA_SESSION)
LOOKUP_RATE = 0.01
"""Lookups a second and node (MSPastry's base configuration)."""
LINK_LOSS = 0.05
MEASURED = HOUR / 2
"""Virtual time of the judged run; that with loss gets half of it. As long as a quarter of an hour of a
core allows; loss and inconsistency of order 1e-5 are seen only over more ``runs``."""
SHORT = 10 * MINUTE
"""Virtual time of the others, or one session if that is shorter."""
TREND = 0.25
"""Share of the nodes in the runs that show the trend: a node that lives for five minutes sends twenty
times as much as one that lives for hours."""
WARM_UP = 5 * MINUTE
"""Virtual time of churn before anything is counted: a guess, several times what any repair takes."""
ANSWER = 2 * MINUTE
"""How long a lookup may take: longer than any message is held."""
SAMPLE = MINUTE
JOIN_SPACING = 0.2
"""While the ring is built: a join takes some twenty round trips, so a hundred are under way at once."""
SETTLE = 5 * MINUTE

MSPASTRY = PastryConfig(
    leaf_set_size=32,
    heartbeat_every=20.0,
    lease=30.0,
    probe_timeout=3.0,
    probe_retries=2,
    row_exchange_every=1200.0,
)
OURS = PastryConfig()
NEAR = 0.1
"""Delays for our defaults, as a share of the published ones."""


class Setup(msgspec.Struct, frozen=True):
    """One run: how it is configured and what is done to it."""

    name: str
    config: PastryConfig
    session: float
    seconds: float
    loss: float = 0.0
    delays: float = 1.0
    """As a share of those of the published topology."""
    nodes: float = 1.0
    """As a share of those asked for."""
    warm_up: float = WARM_UP


class Outcome(msgspec.Struct, frozen=True):
    """What one run gave. Several runs of one setup add up."""

    lookups: int
    lost: int
    inconsistent: int
    doubled: int
    """Those of them that were delivered at two nodes, each of which may have been right in its time."""
    hops: float
    """Of all delivered lookups together, as the seconds below."""
    routed_seconds: float
    direct_seconds: float
    stretches: list[float]
    """Of each lookup that left its source."""
    control_messages: int
    node_seconds: float
    arrivals: int
    failures: int
    false_deaths: int
    """Living nodes that others let go: declared dead, or joiners that said goodbye to start over."""
    events: int
    kinds: dict[str, int]

    def __add__(self, other: Outcome) -> Outcome:
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in self.__struct_fields__
            if name != "kinds"
        }
        return Outcome(**sums, kinds=dict(Counter(self.kinds) + Counter(other.kinds)))

    @property
    def overhead(self) -> float:
        """Control messages a second and node."""
        return self.control_messages / self.node_seconds

    @property
    def loss(self) -> float:
        """Share of lookups lost."""
        return self.lost / self.lookups

    @property
    def inconsistency(self) -> float:
        """Share of lookups that ended where they should not, or twice."""
        return self.inconsistent / self.lookups

    @property
    def stretch(self) -> float:
        """Delay over direct delay."""
        return self.routed_seconds / self.direct_seconds

    @property
    def median_stretch(self) -> float:
        """What half of the lookups do not exceed: those that had to wait for a death do not show in it."""
        return median(self.stretches)

    @property
    def mean_hops(self) -> float:
        """Of the lookups that were delivered."""
        return self.hops / (self.lookups - self.lost)


class Change(msgspec.Struct, frozen=True):
    """A node became active, or failed."""

    when: float
    id: Id
    active: bool


def misplaced(
    changes: Iterable[Change], deliveries: Iterable[Delivery], keys: dict[int, Id]
) -> set[int]:
    """Requests delivered at a node that was not the closest active one at that moment.

    Of things at one time, nodes become active first: a node delivers what it held as it becomes active.
    """
    ordered = sorted(changes, key=lambda change: change.when)
    active: list[Id] = []
    wrong = set()
    position = 0
    for delivery in sorted(deliveries, key=lambda delivery: delivery.when):
        while position < len(ordered) and ordered[position].when <= delivery.when:
            change = ordered[position]
            position += 1
            if change.active:
                insort(active, change.id)
            else:
                index = bisect_left(active, change.id)
                if index < len(active) and active[index] == change.id:
                    del active[index]
        owner = closest(active, keys[delivery.request], 1) if active else ()
        if owner != (delivery.at.id,):
            wrong.add(delivery.request)
    return wrong


def twice(deliveries: dict[int, list[Delivery]]) -> set[int]:
    """Requests delivered at more than one node."""
    return {
        request
        for request, ends in deliveries.items()
        if any(end.at.id != ends[0].at.id for end in ends)
    }


class Scaled:
    """A network model with all delays multiplied."""

    def __init__(self, network: NetworkModel, factor: float) -> None:
        self._network = network
        self._factor = factor

    def delay(self, source: str, target: str) -> float:
        """Seconds one way."""
        return self._factor * self._network.delay(source, target)


class Watched(Ring):
    """A ring that notes when nodes become active and when they fail."""

    def __init__(self, seed: int, network: NetworkModel, setup: Setup) -> None:
        faults = Faults(loss=setup.loss) if setup.loss else None
        super().__init__(seed, network, setup.config, faults)
        self.changes: list[Change] = []
        self.false_deaths = 0
        self.simulation.on_notify = self._on_notify

    def crash(self, peer: Peer) -> None:
        """A silent failure."""
        super().crash(peer)
        self.changes.append(Change(self.simulation.now, peer.id, False))

    def _on_notify(self, host: Host, event: Event) -> None:
        if isinstance(event, Joined):
            self.changes.append(Change(self.simulation.now, host.peer.id, True))
        elif isinstance(event, PeerDead):
            self.false_deaths += event.peer.id in self.nodes


class Trial:
    """One run of a setup: a ring whose nodes come and go, and which looks keys up."""

    def __init__(self, seed: int, nodes: int, topology: Topology, setup: Setup) -> None:
        self.setup = setup
        self.nodes = nodes
        self.network = Scaled(TopologyNetwork(topology, seed), setup.delays)
        self.ring = Watched(seed, self.network, setup)
        self.random = self.ring.simulation.node_random("lookups")
        self.churn = Churn(self.ring, setup.session * log(2), return_share=0.0)
        self.asked: dict[int, tuple[Peer, float]] = {}
        self.node_seconds = 0.0
        self._end = 0.0

    def run(self, told: Callable[[float], None]) -> Outcome:
        """Build, churn, measure."""
        ring, simulation = self.ring, self.ring.simulation
        ring.grow(self.nodes, JOIN_SPACING)
        if not ring.settle(SETTLE):
            raise RuntimeError("not every node could join")
        start = simulation.now + self.setup.warm_up
        self._end = start + self.setup.seconds
        self.churn.start()
        self._run_to(start, lambda share: told(0.1 * share))
        traffic, before = Traffic(simulation), simulation.events
        self.churn.counts, ring.false_deaths, self.node_seconds = ChurnCounts(), 0, 0.0
        self._next_lookup()
        self._run_to(self._end, lambda share: told(0.1 + 0.9 * share))
        # Churn goes on while the last lookups are answered, but is not counted any more.
        simulation.on_send = simulation.on_effect = None
        counts, false_deaths = msgspec.structs.replace(self.churn.counts), ring.false_deaths
        node_seconds = self.node_seconds
        self._run_to(self._end + ANSWER, lambda share: None)
        return Outcome(
            **self._lookups(),
            control_messages=traffic.control_messages(),
            node_seconds=node_seconds,
            arrivals=counts.arrivals,
            failures=counts.crashes,
            false_deaths=false_deaths,
            events=simulation.events - before,
            kinds=dict(sorted(traffic.sent.items())),
        )

    def _run_to(self, time: float, told: Callable[[float], None]) -> None:
        simulation = self.ring.simulation
        begun = simulation.now
        while simulation.now < time:
            step = min(SAMPLE, time - simulation.now)
            before = len(self.ring.nodes)
            simulation.run_until(simulation.now + step)
            self.node_seconds += step * (before + len(self.ring.nodes)) / 2
            told((simulation.now - begun) / (time - begun))

    def _next_lookup(self) -> None:
        simulation = self.ring.simulation
        wait = self.random.expovariate(self.nodes * LOOKUP_RATE)
        if simulation.now + wait < self._end:
            simulation.at(simulation.now + wait, self._look_up)

    def _look_up(self) -> None:
        ring = self.ring
        for start in ring.random_seeds(1, self.random):
            request = ring.look_up(Id(self.random.getrandbits(BITS)), ring.nodes[start.id])
            self.asked[request] = (start, ring.simulation.now)
        self._next_lookup()

    def _lookups(self) -> dict[str, Any]:
        """What became of the lookups, as fields of an outcome."""
        ring = self.ring
        ends = [end for deliveries in ring.deliveries.values() for end in deliveries]
        doubled = twice(ring.deliveries)
        wrong = misplaced(ring.changes, ends, ring.keys) | doubled
        done = [
            Lookup(source, first.at, first.hops, first.when - sent_at)
            for request, (source, sent_at) in self.asked.items()
            for first in ring.deliveries.get(request, [])[:1]
        ]
        moved = [lookup for lookup in done if lookup.hops]
        direct = [
            self.network.delay(lookup.source.address, lookup.target.address) for lookup in moved
        ]
        return {
            "lookups": len(self.asked),
            "lost": len(self.asked) - len(done),
            "inconsistent": len(wrong),
            "doubled": len(doubled),
            "hops": sum(lookup.hops for lookup in done),
            "routed_seconds": sum(lookup.seconds for lookup in moved),
            "direct_seconds": sum(direct),
            "stretches": [
                lookup.seconds / straight for lookup, straight in zip(moved, direct, strict=True)
            ],
        }


def setups() -> list[Setup]:
    """The judged runs first."""
    published = Setup("MSPastry's configuration", MSPASTRY, GNUTELLA_SESSION, MEASURED)
    ours = Setup("our defaults", OURS, GNUTELLA_SESSION, SHORT, delays=NEAR)
    trend = [session for session in SESSIONS if session != GNUTELLA_SESSION]
    return [
        published,
        lossy(published, MEASURED / 2),
        *(
            Setup(
                f"sessions of {each / MINUTE:.0f} min",
                MSPASTRY,
                each,
                min(SHORT, each),
                nodes=TREND,
            )
            for each in trend
        ),
        ours,
        lossy(ours, SHORT),
    ]


def lossy(setup: Setup, seconds: float) -> Setup:
    """The same with lost messages."""
    name = f"{setup.name}, {LINK_LOSS:.0%} loss"
    return msgspec.structs.replace(setup, name=name, loss=LINK_LOSS, seconds=seconds)


def run(settings: Settings) -> Findings:
    """Every setup, over every seed."""
    outcomes: dict[str, Outcome] = {}
    plans = setups()
    for seed in settings.seeds():
        topology = TransitStub(seed)
        for number, setup in enumerate(plans):

            def told(share: float, number: int = number, name: str = setup.name) -> None:
                settings.progress(name, number + share, len(plans))

            nodes = max(2, int(settings.nodes * setup.nodes))
            outcome = Trial(seed, nodes, topology, setup).run(told)
            known = outcomes.get(setup.name)
            outcomes[setup.name] = outcome if known is None else known + outcome
    return Findings(
        rows=[made for setup in plans for made in rows(setup, outcomes[setup.name])],
        events=sum(outcome.events for outcome in outcomes.values()),
        series=series(plans, outcomes),
        notes=[words(name, outcome) for name, outcome in outcomes.items()],
    )


def rows(setup: Setup, outcome: Outcome) -> list[Row]:
    """Only runs with the published configuration and sessions are held to the published figures."""
    judged = setup.config is MSPASTRY and setup.session == GNUTELLA_SESSION
    lossy = "/loss" if setup.loss else ""
    figures = {
        "MS-overhead" + lossy: outcome.overhead,
        "MS-stretch" + lossy: outcome.stretch,
        "MS-loss" + lossy: outcome.loss,
        "MS-inconsistent" + lossy: outcome.inconsistency,
        "MS-hops" + lossy: outcome.mean_hops,
    }
    made = []
    for key, value in figures.items():
        held = row(key, value)
        metric = f"{held.metric}, {setup.name}"
        bounds = {} if judged else {"low": None, "high": None}
        made.append(msgspec.structs.replace(held, metric=metric, **bounds))
    return made


def series(plans: list[Setup], outcomes: dict[str, Outcome]) -> dict[str, Series]:
    """Everything over the mean session."""
    trend = sorted(
        (setup for setup in plans if setup.config is MSPASTRY and not setup.loss),
        key=lambda setup: setup.session,
    )
    minutes = [setup.session / MINUTE for setup in trend]
    found = [outcomes[setup.name] for setup in trend]
    measures = {
        "overhead": ("control messages a second and node", [each.overhead for each in found]),
        "stretch": ("delay over direct delay", [each.stretch for each in found]),
        "loss": ("share of lookups lost", [each.loss for each in found]),
        "inconsistent": ("share inconsistent", [each.inconsistency for each in found]),
    }
    return {
        name: Series(
            title=label.capitalize(),
            x_label="mean session, minutes",
            y_label=label,
            curves={"measured": Curve(minutes, values)},
            log_x=True,
        )
        for name, (label, values) in measures.items()
    }


def words(name: str, outcome: Outcome) -> str:
    """A run in one line."""
    kinds = sorted(outcome.kinds.items(), key=lambda item: -item[1])
    rates = ", ".join(f"{kind} {count / outcome.node_seconds:.3f}" for kind, count in kinds[:8])
    return (
        f"{name}: {outcome.lookups} lookups, {outcome.lost} lost, {outcome.inconsistent} inconsistent "
        f"({outcome.doubled} of them at two nodes); "
        f"{outcome.arrivals} arrivals, {outcome.failures} failures, {outcome.false_deaths} living nodes "
        f"let go; median stretch {outcome.median_stretch:.2f}; messages a second and node: {rates}"
    )


EXPERIMENT = Experiment(
    name="pastry-churn",
    about="consistency and overhead while nodes come and go, beside MSPastry",
    ids=("MS-overhead", "MS-stretch", "MS-loss", "MS-inconsistent", "MS-hops"),
    nodes=2_000,
    run=run,
)
