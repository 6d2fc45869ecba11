"""`overlaymq sim scenario` and `overlaymq sim soak`: faults by the seed.

``scenario`` runs one seed of a scenario and shows what was found; it is what a soak prints for a failing one.
It also runs a plan, the file that ``--shrink`` writes.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from overlaymq.cli.options import json_option
from overlaymq.cli.output import put, put_json, say
from overlaymq.cli.running import Exit
from overlaymq.cli.sim import explained

if TYPE_CHECKING:
    from overlaymq.sim.outcome import Result
    from overlaymq.sim.scenario import Plan

SHOWN = 20


@click.command()
@click.argument("name", required=False)
@click.option("--seed", type=int, default=1, show_default=True, help="Of everything random.")
@click.option("--nodes", type=click.IntRange(min=2), help="A size other than the scenario's.")
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the event log here, one JSON row a line.",
)
@click.option(
    "--shrink", is_flag=True, help="If it fails, write a smaller plan that fails to a file here."
)
@click.option(
    "--shrink-seconds", type=float, default=120.0, show_default=True, help="How long to look."
)
@json_option
def scenario(
    name: str | None,
    seed: int,
    nodes: int | None,
    log: Path | None,
    shrink: bool,
    shrink_seconds: float,
    as_json: bool,
) -> None:
    """Run one seed of the scenario NAME, or the plan in the file NAME; without a name, list them.

    Ends with 1 if an invariant was violated.
    """
    with explained():
        from overlaymq.sim import scenario as scenarios

        if name is None:
            for known in scenarios.names():
                put(f"{known:<20}{scenarios.load(known).about}")
            return
        if scenarios.is_plan(name):
            plan = scenarios.load_plan(name)
        else:
            plan = scenarios.resolve(scenarios.load(name), name, seed, nodes)
        result = _run(plan, log)
        if as_json:
            put_json({**msgspec.to_builtins(result), "counted": result.counted})
        else:
            _show(result)
        if shrink and result.violations:
            _shrink(plan, result, shrink_seconds)
    sys.exit(Exit.FAILED if result.violations else Exit.OK)


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def soak(arguments: tuple[str, ...]) -> None:
    """Run many seeds of the scenarios: see `overlaymq sim soak --help`."""
    with explained():
        from overlaymq.sim.soak import main

        sys.exit(main(arguments))


def _run(plan: Plan, log: Path | None) -> Result:
    from overlaymq.sim import workload
    from overlaymq.sim.log import EventLog

    with ExitStack() as stack:
        events = None
        if log is not None:
            file = stack.enter_context(log.open("wb"))
            events = EventLog(f"{plan.scenario}-{plan.seed}", file)
        return workload.run(plan, events)


def _show(result: Result) -> None:
    delivered = f"{result.delivered:,} of {result.lookups:,} lookups delivered"
    put(
        f"{result.scenario}, seed {result.seed}: {result.nodes} nodes, {delivered}, kind ({result.kind})"
    )
    put(
        f"live nodes declared dead {result.declared}, given up {result.given_up}; "
        f"delivered elsewhere {result.inconsistent}, contested {result.contested}, "
        f"again {result.redelivered}"
    )
    for why, count in result.unanswered.items():
        put(f"not delivered, {why}: {count}")
    hits = ", ".join(f"{what} {count}" for what, count in result.hits.items())
    put(
        f"hits: {hits}; never fewer than {result.fewest_nodes} nodes; "
        f"{'counts' if result.counted else 'does not count'}"
    )
    for title, findings in (("violated", result.violations), ("excused", result.excused)):
        for finding in findings[:SHOWN]:
            put(f"{title} {finding.at:9.3f} s  {finding.invariant}: {finding.text}")
    say(
        f"{result.events:,} events, {result.virtual_seconds:.0f} s of virtual time, "
        f"{result.cpu_seconds:.1f} s of CPU"
    )


def _shrink(plan: Plan, result: Result, seconds: float) -> None:
    from overlaymq.sim.scenario import plan_toml
    from overlaymq.sim.shrink import Shrinker

    shrinker = Shrinker(plan, result.violations[0].invariant, seconds, tell=say)
    smaller = shrinker.shrink()
    path = Path(f"{plan.scenario}-{plan.seed}-small.toml")
    path.write_text(plan_toml(smaller), encoding="utf-8")
    say(f"tried {shrinker.tried} plans; replay the smallest: overlaymq sim scenario {path}")
