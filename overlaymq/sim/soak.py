"""The long run: many seeds of the scenarios, on some processes, and one table at the end.

    python -m overlaymq.sim.soak [--scenario NAME ...] [--seeds A-B] [--jobs N] [--minutes M] [--json]

Seeds of different scenarios take turns, so a run that is cut short by ``--minutes`` has seen all of them.
A failing seed prints the one command that replays it, at once. Exits with 1 after a violation, and if there
was no time for a single seed.

A seed counts if it had 64 nodes all the time and 20 hits of working nodes (design, section 8; ``workload``
says what a hit is); the table tells how many did. Of the three kinds of seeds,

- (a), no live node was declared dead: every finding is a violation;
- (b), one was: findings about ownership are excused, and instead at most one in ``ONE_IN`` lookups, summed
  over these seeds, may be delivered elsewhere than at the closest node;
- (c), the network was parted: as (a) and (b) on each side, and as one again after its time of healing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING

import msgspec

from overlaymq.errors import ConfigError
from overlaymq.sim import outcome, workload
from overlaymq.sim import scenario as scenarios
from overlaymq.sim.invariants import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from overlaymq.sim.outcome import Result

ONE_IN = 100_000
"""Bar of the seeds where a live node was declared dead."""
QUEUED_PER_JOB = 2
SHOWN = 3


class Task(msgspec.Struct, frozen=True):
    """One seed of one scenario."""

    scenario: str
    seed: int
    nodes: int | None = None

    @property
    def command(self) -> str:
        """What replays it."""
        size = "" if self.nodes is None else f" --nodes {self.nodes}"
        return f"overlaymq sim scenario {self.scenario} --seed {self.seed}{size}"


class Totals(msgspec.Struct, kw_only=True):
    """The sums over the seeds of a scenario."""

    scenario: str
    seeds: int = 0
    enough_nodes: int = 0
    enough_hits: int = 0
    counted: int = 0
    failed: int = 0
    violations: int = 0
    excused: int = 0
    kinds: dict[str, int] = {}
    lookups: dict[str, int] = {}
    inconsistent: dict[str, int] = {}
    contested: dict[str, int] = {}
    undelivered: int = 0
    hits: int = 0
    events: int = 0
    cpu_seconds: float = 0.0

    def add(self, result: Result) -> None:
        """One more seed."""
        kind = result.kind
        self.seeds += 1
        self.enough_nodes += result.enough_nodes
        self.enough_hits += result.enough_hits
        self.counted += result.counted
        self.failed += bool(result.violations)
        self.violations += len(result.violations)
        self.excused += len(result.excused)
        for table, number in (
            (self.kinds, 1),
            (self.lookups, result.lookups),
            (self.inconsistent, result.inconsistent),
            (self.contested, result.contested),
        ):
            table[kind] = table.get(kind, 0) + number
        self.undelivered += result.lookups - result.delivered
        self.hits += sum(result.hits.values())
        self.events += result.events
        self.cpu_seconds += result.cpu_seconds

    @property
    def too_inconsistent(self) -> bool:
        """Whether the seeds of kind (b) miss their bar."""
        return self.inconsistent.get("b", 0) * ONE_IN > self.lookups.get("b", 0)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failed and not self.too_inconsistent


def attempt(task: Task) -> Result:
    """Run one seed; an exception is the worst of violations."""
    plan = scenarios.resolve(scenarios.load(task.scenario), task.scenario, task.seed, task.nodes)
    try:
        return workload.run(plan)
    except (
        Exception
    ):  # whatever the core raises is a finding about this seed, not the end of the soak
        last = traceback.format_exc().strip().splitlines()
        finding = Finding(0.0, "no-exception", f"{last[-1]} ({last[-3].strip()})")
        return outcome.nothing(plan, [finding])


def tasks(names: Sequence[str], seeds: Sequence[int], nodes: int | None = None) -> Iterator[Task]:
    """Seed by seed, all scenarios in turn."""
    for seed in seeds:
        for name in names:
            yield Task(name, seed, nodes)


def results(work: Iterable[Task], jobs: int, deadline: float) -> Iterator[tuple[Task, Result]]:
    """Run the tasks, until a time, on some processes; in the order in which they end."""
    if jobs == 1:
        for task in work:
            if time.monotonic() >= deadline:
                return
            yield task, attempt(task)
        return
    waiting: dict[Future[Result], Task] = {}
    queue = iter(work)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        while True:
            while len(waiting) < jobs * QUEUED_PER_JOB and time.monotonic() < deadline:
                following = next(queue, None)
                if following is None:
                    break
                waiting[pool.submit(attempt, following)] = following
            if not waiting:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()


def soak(
    work: Iterable[Task], jobs: int = 1, minutes: float | None = None, quiet: bool = False
) -> list[Totals]:
    """Run, report failures as they come, and sum up by scenario."""
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    totals: dict[str, Totals] = {}
    started = time.monotonic()
    for number, (task, result) in enumerate(results(work, jobs, deadline), 1):
        totals.setdefault(task.scenario, Totals(scenario=task.scenario)).add(result)
        if result.violations:
            print(failure(task, result), file=sys.stderr, flush=True)
        if not quiet and sys.stderr.isatty():
            rate = number / (time.monotonic() - started)
            print(f"\r{number} seeds, {rate:.2f} a second ", end="", file=sys.stderr, flush=True)
    return [totals[name] for name in sorted(totals)]


def failure(task: Task, result: Result) -> str:
    """What went wrong in one seed, and how to see it again."""
    lines = [f"{task.scenario}, seed {task.seed}: {len(result.violations)} violations"]
    lines += [f"  {f.at:9.3f} s  {f.invariant}: {f.text}" for f in result.violations[:SHOWN]]
    return "\n".join([*lines, f"  replay: {task.command}"])


def table(totals: Sequence[Totals]) -> str:
    """For people."""
    heading = (
        f"{'scenario':<20}{'seeds':>6}{'counted':>8}{'nodes':>6}{'hits':>6}{'failed':>7}"
        f"{'(a)':>5}{'(b)':>5}{'(c)':>5}{'(b) lookups':>12}{'elsewhere':>10}{'contested':>10}"
        f"{'undelivered':>12}{'CPU s/seed':>11}"
    )
    lines = [heading]
    for row in totals:
        kinds, b_lookups = row.kinds, row.lookups.get("b", 0)
        lines.append(
            f"{row.scenario:<20}{row.seeds:>6}{row.counted:>8}{row.enough_nodes:>6}"
            f"{row.enough_hits:>6}{row.failed:>7}{kinds.get('a', 0):>5}{kinds.get('b', 0):>5}"
            f"{kinds.get('c', 0):>5}{b_lookups:>12}{row.inconsistent.get('b', 0):>10}"
            f"{sum(row.contested.values()):>10}{row.undelivered:>12}"
            f"{row.cpu_seconds / row.seeds:>11.2f}"
        )
    lines += [
        f"{row.scenario}: {row.inconsistent['b']} of {row.lookups['b']} lookups of (b) were delivered "
        f"elsewhere, more than one in {ONE_IN:,}"
        for row in totals
        if row.too_inconsistent
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 if nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.soak")
    parser.add_argument("--scenario", action="append", metavar="NAME", help="default: all")
    parser.add_argument("--seeds", default="1-1000", metavar="A-B")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--nodes", type=int, help="a size other than the scenario's")
    parser.add_argument("--json", action="store_true", help="one JSON object a scenario")
    options = parser.parse_args(arguments)
    try:
        names = options.scenario or scenarios.names()
        for name in names:
            scenarios.load(name)
        seeds = scenarios.seeds_of(options.seeds)
    except ConfigError as error:
        parser.error(str(error))
    if options.jobs < 1:
        parser.error("--jobs: at least one process")
    totals = soak(tasks(names, seeds, options.nodes), options.jobs, options.minutes)
    if options.json:
        for row in totals:
            print(msgspec.json.encode(row).decode())
    else:
        print(table(totals))
    if not totals:
        print("no seed was run: nothing is known", file=sys.stderr)
    return 0 if totals and all(row.ok for row in totals) else 1


if __name__ == "__main__":
    sys.exit(main())
