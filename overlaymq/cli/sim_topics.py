"""`overlaymq sim topics`: publications on all strategies with a crash, few enough to follow each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from overlaymq.cli.options import json_option
from overlaymq.cli.output import counted, put, put_json, say, short
from overlaymq.cli.sim import explained, trace_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command("topics")
@click.option("--nodes", type=click.IntRange(min=3), default=8, show_default=True)
@click.option(
    "--subscribers", type=click.IntRange(min=1), default=6, show_default=True, help="Of each topic."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=20.0,
    show_default=True,
    help="Of publishing.",
)
@click.option(
    "--rate", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Runs a second."
)
@click.option("--crash/--no-crash", default=True, show_default=True, help="Kill a node half-way.")
@click.option("--loss", type=click.FloatRange(0, 0.9), default=0.0, show_default=True)
@click.option("--doubled", type=click.FloatRange(0, 1), default=0.0, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of everything random.")
@trace_option
@json_option
def topics(trace: Path | None, as_json: bool, **settings: float) -> None:
    """Publish on a Scribe, an SV and a SCAMP topic, kill a node, and count who got what.

    The count is taken from outside, so it can be held against the analysis of the trace.
    """
    with explained():
        import msgspec

        from overlaymq.sim.topics import Plan, Topics
        from overlaymq.sim.tracing import traced

        plan = msgspec.convert(settings, Plan, strict=False)
        if plan.subscribers > plan.nodes:
            raise click.UsageError(f"--subscribers: {plan.subscribers} of {plan.nodes} nodes")
        run = Topics(plan)
        if trace is None:
            outcome = run.run()
        else:
            with traced(run.simulation, trace, f"topics-{plan.seed}") as watching:
                outcome = run.run(watching)
            say(f"traced to {trace / f'topics-{plan.seed}'}")
        if as_json:
            put_json(msgspec.to_builtins(outcome))
            return
        for reader in outcome.readers:
            published = sum(topic == reader.topic for topic, *_ in outcome.published)
            fate = "  (killed)" if reader.node == outcome.crashed else ""
            got = f"{len(reader.got):,} of {counted(published, 'message')}"
            put(f"{reader.topic:<8}{short(reader.node)}  {got}{fate}")
