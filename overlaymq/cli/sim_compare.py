"""`overlaymq sim compare`: the strategies side by side on one workload, to choose by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from overlaymq.cli.options import json_option
from overlaymq.cli.output import console, counted, put_json, say
from overlaymq.cli.running import Exit, Failure
from overlaymq.cli.sim import explained, progress_bar, trace_option

if TYPE_CHECKING:
    from overlaymq.sim.compare import Comparison


@click.command("compare")
@click.option("--nodes", type=click.IntRange(min=20), default=1000, show_default=True)
@click.option(
    "--members", type=click.IntRange(min=4), default=100, show_default=True, help="Of the topic."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of everything random.")
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Means over so many seeds.",
)
@click.option(
    "--fail",
    type=click.FloatRange(0, 0.9),
    default=0.3,
    show_default=True,
    metavar="SHARE",
    help="Of all nodes, killed at once.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write compare.png and compare.json here.",
)
@trace_option
@json_option
def compare(
    nodes: int,
    members: int,
    seed: int,
    runs: int,
    fail: float,
    out: Path | None,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Carry one workload by Scribe, SV and SCAMP, and show what each costs and survives."""
    with explained():
        if members > nodes:
            raise Failure(f"--members: {members} of {nodes} nodes cannot subscribe", Exit.USAGE)
        import msgspec

        from overlaymq.sim import compare as measuring
        from overlaymq.sim import compare_picture

        work = measuring.Workload(nodes=nodes, members=members, seed=seed, fail=fail)
        with progress_bar() as progress:
            found = measuring.compare(work, runs, progress, trace=trace)
        plain = msgspec.to_builtins(found)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            compare_picture.draw(out / "compare.png", found)
            data = msgspec.json.format(msgspec.json.encode(plain), indent=1)
            (out / "compare.json").write_bytes(data + b"\n")
            say(f"wrote {out / 'compare.png'} and {out / 'compare.json'}")
        if as_json:
            put_json(plain)
        else:
            _show(found)


def _show(found: Comparison) -> None:
    from overlaymq.sim.compare import LABELS
    from overlaymq.sim.experiments.base import figure_text

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in found.ways:
        table.add_column(name, justify="right")
    for measure, label in LABELS.items():
        values = [getattr(way, measure) for way in found.ways.values()]
        table.add_row(label, *("-" if value is None else figure_text(value) for value in values))
    console().print(table)
    work = found.workload
    say(
        f"{counted(work.members, 'member')} among {counted(work.nodes, 'node')}, {work.fail:.0%} of them "
        f"fail, seed {work.seed}, {counted(found.runs, 'run')}; '-': none, or not within half a minute"
    )
