"""`overlaymq analyze`: what traces say, as tables, as files and as one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table as Grid
from rich.text import Text

from overlaymq.cli.options import json_option
from overlaymq.cli.output import console, counted, put_json, say
from overlaymq.cli.running import Exit
from overlaymq.cli.sim import explained, progress_bar

if TYPE_CHECKING:
    from overlaymq.trace.analysis.tables import Table
    from overlaymq.trace.analysis.whole import Found

SHOWN = 10
"""Rows of a table on the terminal."""
SHORTENED = ("node", "origin", "peer", "last_node", "old_parent", "new_parent")
ON_TERMINAL = (
    "topics",
    "losses",
    "order",
    "latency",
    "redundancy",
    "drops",
    "repairs",
    "nodes",
    "clocks",
)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: local[2], spark://host:7077.  [default: local[*]]",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write every table and report.html here.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="Of the tables in --out.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="At both ends of a subscription, in which a missing message is not a loss.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True),
    metavar="FILE",
    help="One-way delays (node_id, peer_id, delay_ns) for RAD and RMD, CSV or Parquet.",
)
@click.option("--memory", metavar="SIZE", help="For Spark on this machine.  [default: 2g]")
@click.option(
    "--strict", is_flag=True, help="End with code 1 on silent loss, full buffers or broken order."
)
@click.option("--follow", is_flag=True, help="Keep reading, and update a table, until Ctrl-C.")
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show every table on the terminal, not only the main ones.",
)
@json_option
def analyze(
    paths: tuple[str, ...],
    master: str | None,
    out: Path | None,
    form: str,
    grace: float,
    baseline: str | None,
    memory: str | None,
    strict: bool,
    follow: bool,
    show_all: bool,
    as_json: bool,
) -> None:
    """Say what traces show: losses, delays, redundancy, order, stress, trees, repairs.

    PATH is a directory of traces, of one run or many, from one host or many; killed nodes' unfinished
    segments are read too.
    """
    with explained():
        from overlaymq.trace import job, output
        from overlaymq.trace.spark import interruptible

        if follow:
            from overlaymq.cli.analyze_follow import watch

            watch(paths, master, memory, as_json)
            return
        if out is not None:
            output.demand_place(out)
        with progress_bar() as progress, interruptible():
            found = job.perform(
                paths,
                master=master,
                memory=memory,
                grace=grace,
                baseline=baseline,
                progress=progress,
            )
        if out is not None:
            written = output.write(found, out, form, ", ".join(paths))
            say(f"wrote {written[0]} and {counted(len(written) - 1, 'more file')}")
        if as_json:
            put_json(output.as_json(found))
        else:
            show(found, show_all)
        headline = found.headline
        failed = headline.silent or headline.untaken or headline.violations
        sys.exit(Exit.FAILED if strict and failed else Exit.OK)


def show(found: Found, everything: bool) -> None:
    """The headline in words, and the first rows of the main tables or of all."""
    screen = console()
    for sentence in found.headline.sentences():
        mark, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "bright_black")}[
            sentence.good
        ]
        screen.print(Text.assemble((f"{mark} ", style), sentence.text))
    for name in found.tables if everything else ON_TERMINAL:
        table = found.tables[name]
        if table.rows:
            screen.print()
            screen.print(_grid(table))


def _grid(table: Table) -> Grid:
    more = f"  ({SHOWN} of {table.rows:,})" if table.rows > SHOWN else ""
    grid = Grid(box=None, pad_edge=False, title_justify="left", title_style="")
    grid.title = Text.assemble((table.name, "bold"), f"{more}  ", (table.about, "bright_black"))
    rows = table.data.slice(0, SHOWN).to_pylist()
    columns = [name for name in table.data.column_names if _tells(name, rows)]
    for name in columns:
        number = any(isinstance(row[name], int | float) for row in rows)
        grid.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(_cell(name, row[name]) for name in columns))
    return grid


def _tells(name: str, rows: list[dict[str, Any]]) -> bool:
    """Whether a column says anything; boots are long numbers that few ask for."""
    return name != "boot" and any(row[name] not in ("", None) for row in rows)


def _cell(name: str, value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)[:8] if name in SHORTENED else str(value)
