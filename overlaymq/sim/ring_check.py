"""The acceptance bar of the ring, from the command line.

    python -m overlaymq.sim.ring_check --nodes 1000 --seed 1 [--json]

Builds a ring by the join protocol, looks keys up, lets a tenth of the nodes fail silently at once, looks
keys up while the ring repairs itself, and again afterwards. Exits with 1 if a figure misses the bar.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.ring import Ring

if TYPE_CHECKING:
    from collections.abc import Sequence

JOIN_SPACING = 0.05
"""Virtual seconds between two arrivals: a joiner needs about twenty round trips, so joins overlap."""
DURING_SECONDS = 20.0
"""The first seconds after the failures, when nearly all of the repair happens."""
ANSWER_SECONDS = 30.0
"""How long a lookup may be held while its owner is in doubt."""
REPAIR_SECONDS = 60.0
"""Virtual time for repair. Detection takes at most 10 s and verification 4.5 s on default settings;
failures that are discovered one after another take that several times."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a number of lookups."""

    asked: int
    delivered: int
    correct: int
    """Delivered at the closest living node, and nowhere else."""
    wrong_live: int
    """Delivered at a living node that is not the closest: what consistent routing forbids."""
    twice: int
    mean_hops: float

    @property
    def share(self) -> float:
        """The share that was delivered."""
        return self.delivered / self.asked


class Figures(msgspec.Struct, frozen=True):
    """What the bar asks for, and what it cost to find out."""

    nodes: int
    seed: int
    all_joined: bool
    failed: int
    hops_bound: int
    inexact_leaf_sets: int
    before: Outcome
    during: Outcome
    inexact_after_repair: int
    after: Outcome
    virtual_seconds: float
    join_events: int
    join_stale_timers: int
    """Timers that caused nothing. They cost time as well, but ``join_events`` does not count them."""
    events: int
    join_cpu_seconds: float
    cpu_seconds: float
    kilobytes_per_node: float
    """By how much joining raised the largest memory the process has had."""

    def misses(self) -> list[str]:
        """Which figures are not good enough."""
        checks = {
            "all joined": self.all_joined,
            "leaf sets after joining": self.inexact_leaf_sets == 0,
            "lookups before": self.before.correct == self.before.asked,
            "mean hops": self.before.mean_hops < self.hops_bound,
            "99 % delivered during repair": self.during.share >= 0.99,
            "none at a wrong live node during repair": self.during.wrong_live == 0,
            "leaf sets after repair": self.inexact_after_repair == 0,
            "lookups after": self.after.correct == self.after.asked,
        }
        return [name for name, met in checks.items() if not met]


def peak_kilobytes() -> float:
    """The largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform == "darwin" else peak


def outcome(ring: Ring, requests: Sequence[int]) -> Outcome:
    """Compare where lookups ended with where they should have."""
    ids = ring.ids()
    delivered = correct = wrong = twice = hops = 0
    for request in requests:
        deliveries = ring.deliveries.get(request, [])
        if not deliveries:
            continue
        closest = ring.owner(ring.keys[request], ids)
        at_closest = [delivery.at.id == closest for delivery in deliveries]
        delivered += 1
        hops += deliveries[0].hops
        correct += all(at_closest)
        wrong += not all(at_closest)
        twice += len(deliveries) > 1
    return Outcome(
        len(requests), delivered, correct, wrong, twice, hops / delivered if delivered else math.inf
    )


def ask(ring: Ring, lookups: int, over: float, wait: float) -> Outcome:
    """Look random keys up from random nodes."""
    requests = ring.random_lookups(lookups, over)
    ring.simulation.run_until(ring.simulation.now + wait)
    return outcome(ring, requests)


def check(nodes: int, seed: int, lookups: int = 10_000, share: float = 0.1) -> Figures:
    """Run the bar."""
    started, memory = time.process_time(), peak_kilobytes()
    ring = Ring(seed, ConstantDelay())
    simulation = ring.simulation
    ring.grow(nodes, JOIN_SPACING)
    all_joined = ring.settle()
    simulation.run_until(simulation.now + 1.0)
    joined_cpu, join_events = time.process_time() - started, simulation.events
    join_stale_timers, kilobytes = simulation.stale_timers, peak_kilobytes() - memory
    inexact = len(ring.wrong_leaf_sets())
    before = ask(ring, lookups, 10.0, 5.0)
    peers = [node.pastry.me for node in ring.nodes.values()]
    victims = ring.random.sample(peers, int(nodes * share))
    for victim in victims:
        ring.crash(victim)
    failed_at = simulation.now
    during = ask(ring, lookups, DURING_SECONDS, ANSWER_SECONDS)
    simulation.run_until(failed_at + REPAIR_SECONDS)
    inexact_after = len(ring.wrong_leaf_sets())
    after = ask(ring, lookups, 10.0, 10.0)
    return Figures(
        nodes=nodes,
        seed=seed,
        all_joined=all_joined,
        failed=len(victims),
        hops_bound=math.ceil(math.log(nodes, 2**ring.config.digit_bits)),
        inexact_leaf_sets=inexact,
        before=before,
        during=during,
        inexact_after_repair=inexact_after,
        after=after,
        virtual_seconds=simulation.now,
        join_events=join_events,
        join_stale_timers=join_stale_timers,
        events=simulation.events,
        join_cpu_seconds=joined_cpu,
        cpu_seconds=time.process_time() - started,
        kilobytes_per_node=kilobytes / nodes,
    )


def _describe(figures: Figures) -> str:
    def line(name: str, outcome: Outcome) -> str:
        return (
            f"{name:<8}{outcome.asked:>7} asked{outcome.delivered:>7} delivered"
            f"{outcome.correct:>7} at the closest only{outcome.wrong_live:>4} at a wrong live node"
            f"{outcome.twice:>4} twice{outcome.mean_hops:>6.2f} hops"
        )

    misses = figures.misses()
    return "\n".join(
        [
            f"{figures.nodes} nodes, seed {figures.seed}, {figures.failed} failed silently",
            line("before", figures.before) + f"  (bound: {figures.hops_bound} hops)",
            line("during", figures.during),
            line("after", figures.after),
            f"inexact leaf sets: {figures.inexact_leaf_sets} after joining, "
            f"{figures.inexact_after_repair} after repair",
            f"{figures.events} events ({figures.join_events} to join), "
            f"{figures.virtual_seconds:.0f} s of virtual time, "
            f"{figures.cpu_seconds:.1f} s of CPU ({figures.join_cpu_seconds:.1f} to join)",
            f"{figures.join_events / figures.join_cpu_seconds:.0f} events a second while joining, "
            f"besides {figures.join_stale_timers} stale timers; "
            f"{figures.kilobytes_per_node:.1f} KB per node",
            "missed: " + ", ".join(misses) if misses else "all met",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 0 if all are met."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.ring_check")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lookups", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of words")
    options = parser.parse_args(arguments)
    if options.nodes < 2:
        parser.error("--nodes: a ring has at least 2")
    figures = check(options.nodes, options.seed, options.lookups)
    print(msgspec.json.encode(figures).decode() if options.json else _describe(figures))
    return 1 if figures.misses() else 0


if __name__ == "__main__":
    sys.exit(main())
