"""`overlaymq sim`: the experiments of the papers, run in virtual time.

``list`` names them; ``run`` runs one and shows what it measured beside what was published; ``report`` writes
down what stored runs have shown. The simulator needs numpy, scipy and matplotlib, which an ordinary node
does not: only its own modules import them, and an error says how to install them. Other modules add
their commands to the group.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from overlaymq.cli.options import json_option
from overlaymq.cli.output import console, counted, put, put_json, say
from overlaymq.cli.running import Exit, Failure, code_of
from overlaymq.errors import OverlayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overlaymq.sim.experiments.runner import Outcome

EXTRAS = {"numpy": "sim", "scipy": "sim", "matplotlib": "sim", "pyarrow": "trace"}
EXTRAS |= dict.fromkeys(("pyspark", "pandas", "py4j"), "spark")
"""Where the libraries come from that a plain installation has not."""


@click.group()
def sim() -> None:
    """Run the papers' experiments in virtual time."""


@contextmanager
def explained() -> Iterator[None]:
    """Tell the errors of a command in one line, and end with the code that they mean."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _fail(Failure(f"this needs {error.name}: pip install 'overlaymq[{extra}]'", Exit.USAGE))
    except (OverlayError, OSError) as error:
        _fail(error)


def _fail(error: Exception) -> None:
    click.secho("overlaymq: ", fg="red", bold=True, nl=False, err=True)
    click.echo(str(error), err=True)
    sys.exit(code_of(error))


trace_option = click.option(
    "--trace",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Trace what happens to messages into files here.",
)


@sim.command("list")
@json_option
def list_experiments(as_json: bool) -> None:
    """The experiments, and which published figures each of them reproduces."""
    with explained():
        from overlaymq.sim.experiments.runner import experiments

        known = experiments()
        if as_json:
            for experiment in known.values():
                put_json(
                    {
                        "name": experiment.name,
                        "about": experiment.about,
                        "ids": list(experiment.ids),
                        "nodes": experiment.nodes,
                        "runs": experiment.runs,
                    }
                )
            return
        table = Table(box=None, pad_edge=False)
        for heading in ("name", "nodes", "about", "figures"):
            table.add_column(heading, justify="right" if heading == "nodes" else "left")
        for experiment in known.values():
            table.add_row(
                experiment.name,
                f"{experiment.nodes:,}",
                experiment.about,
                " ".join(experiment.ids),
            )
        console().print(table)


@sim.command("run")
@click.argument("name")
@click.option("--nodes", type=click.IntRange(min=2), help="How many nodes; else as published.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of everything random.")
@click.option("--runs", type=click.IntRange(min=1), help="Repetitions; else as published.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the figures (PNG) and their data (CSV) here.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Store the JSON object with its command here, for `sim report`.",
)
@json_option
def run_experiment(
    name: str,
    nodes: int | None,
    seed: int,
    runs: int | None,
    out: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Run the experiment NAME. Ends with 1 if a measured value lies outside its range."""
    with explained():
        from overlaymq.sim.experiments import figures, runner

        experiment = runner.named(name)
        # A run may take an hour: where it cannot be stored, that is said before.
        for directory in (out, save.parent if save is not None else None):
            if directory is not None:
                directory.mkdir(parents=True, exist_ok=True)
        with progress_bar() as progress:
            outcome = runner.run(experiment, nodes=nodes, seed=seed, runs=runs, progress=progress)
        if out is not None:
            for title, series in outcome.findings.series.items():
                for path in figures.write(out, f"{name}-{title}", series):
                    say(f"wrote {path}")
        if save is not None:
            command = {"command": _command(outcome)}
            save.write_text(json.dumps(command | outcome.as_object(), indent=1) + "\n")
        if as_json:
            put(json.dumps(outcome.as_object()))
        else:
            _show(outcome)
    sys.exit(Exit.OK if outcome.ok else Exit.FAILED)


@sim.command("report")
@click.option(
    "--results",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("benchmarks/results"),
    show_default=True,
    metavar="DIR",
    help="Where `sim run --save` stored results.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("docs/reproduction.md"),
    show_default=True,
    metavar="FILE",
    help="The report.",
)
def write_report(results: Path, out: Path) -> None:
    """Write every published figure beside ours, from stored results."""
    with explained():
        from overlaymq.sim import reproduction

        out.write_text(reproduction.report(reproduction.load(results)))
        say(f"wrote {out}")


def _command(outcome: Outcome) -> str:
    """What gives this outcome again."""
    experiment, settings = outcome.experiment, outcome.settings
    runs = f" --runs {settings.runs}" if settings.runs != experiment.runs else ""
    return (
        f"overlaymq sim run {experiment.name} --nodes {settings.nodes} --seed {settings.seed}{runs}"
    )


class _Bar:
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=1.0)

    def __call__(self, stage: str, done: float, total: float) -> None:
        self._bar.update(self._task, description=stage, completed=done, total=total)


@contextmanager
def progress_bar() -> Iterator[_Bar]:
    """A bar on standard error, if that is a terminal."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        yield _Bar(bar)


def _show(outcome: Outcome) -> None:
    from overlaymq.sim.experiments.base import figure_text, range_text

    settings = outcome.settings
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "metric", "published", "measured", "range", "ok"):
        table.add_column(heading)
    for row in outcome.findings.rows:
        table.add_row(
            row.id,
            row.metric,
            figure_text(row.published),
            figure_text(row.measured),
            range_text(row.low, row.high) or "reported",
            "[green]yes[/]" if row.ok else "[bold red]no[/]",
        )
    console().print(table)
    for note in outcome.findings.notes:
        put(note)
    misses = sum(not row.ok for row in outcome.findings.rows)
    say(
        f"{outcome.experiment.name}: {counted(settings.nodes, 'node')}, seed {settings.seed}, "
        f"{counted(outcome.findings.events, 'event')}, {outcome.seconds:.1f} s, "
        f"{outcome.peak_rss_mb:,.0f} MB, {misses} of {len(outcome.findings.rows)} rows outside"
    )
