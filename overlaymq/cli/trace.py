"""`overlaymq trace`: what can be done with traces without Spark."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from overlaymq.cli.output import counted, say
from overlaymq.cli.running import Exit, Failure
from overlaymq.cli.sim import explained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overlaymq.trace.schema import Row

JSON = (".json", ".ndjson", ".jsonl")
FORMATS = click.Choice(["overlaymq", "libp2p", "lines"])


@click.group("trace")
def trace() -> None:
    """Convert and mend traces."""


@trace.command("convert")
@click.argument("source", metavar="IN", type=click.Path(exists=True, path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--from", "source_format", type=FORMATS, default="overlaymq", show_default=True)
@click.option("--to", "target_format", type=FORMATS, default="overlaymq", show_default=True)
@click.option("--run", default="", metavar="NAME", help="The run that foreign events belong to.")
def convert(source: Path, target: Path, source_format: str, target_format: str, run: str) -> None:
    """Convert a trace to or from the format of libp2p's Go pubsub library, or lines of JSON.

    An overlaymq trace is a directory, or one file of it. A libp2p trace is a file: lines of JSON if its name
    ends in .json, .ndjson or .jsonl, else length-delimited protobuf. `lines` are our own rows, one a line, as
    `overlaymq sim scenario --log` writes them.
    """
    with explained():
        if source_format == target_format:
            raise Failure("--from and --to are the same; nothing to convert", Exit.USAGE)
        if target.exists():
            raise Failure(f"{target} exists; name another one", Exit.USAGE)
        with ExitStack() as stack:
            try:
                _write(_read(source, source_format, run, stack), target, target_format)
            except ValueError as error:  # a line that is no row, an event that is none
                raise Failure(f"{source}: {error}", Exit.FAILED) from None


@trace.command("recover")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
def recover(directory: Path) -> None:
    """Make Parquet of what killed nodes have left in a directory. The next node there does so too."""
    with explained():
        from overlaymq.trace import files

        folders = {directory, *(path.parent for path in directory.rglob(f".*{files.OPEN}"))}
        aside: list[Path] = []
        made = [path for folder in sorted(folders) for path in files.recover(folder, aside)]
        say(f"made {counted(len(made), 'file')}")
        for path in aside:
            say(f"cannot be read, set aside: {path}")


def _read(source: Path, kind: str, run: str, stack: ExitStack) -> Iterator[Row]:
    """The rows of a trace, as they are needed."""
    from overlaymq.trace import files, libp2p, schema

    if kind == "overlaymq":
        return files.rows(files.files(source) if source.is_dir() else [source])
    file = stack.enter_context(source.open("rb"))
    if kind == "lines":
        return map(schema.decode, file)
    return libp2p.from_libp2p(libp2p.read_events(file, source.suffix in JSON), run)


def _write(rows: Iterator[Row], target: Path, kind: str) -> None:
    from overlaymq.trace import libp2p, schema

    if kind == "overlaymq":
        _write_parquet(rows, target)
        return
    left_out: Counter[str] = Counter()
    with target.open("wb") as file:
        if kind == "lines":
            count = sum(file.write(schema.encode(row)) > 0 for row in rows)
        else:
            events = libp2p.to_libp2p(rows, left_out)
            count = libp2p.write_events(file, events, target.suffix in JSON)
    say(f"wrote {counted(count, 'row' if kind == 'lines' else 'event')} to {target}")
    if left_out:
        named = ", ".join(f"{event} {number:,}" for event, number in sorted(left_out.items()))
        say(f"that format has no word for {counted(sum(left_out.values()), 'row')}: {named}")


def _write_parquet(rows: Iterator[Row], target: Path) -> None:
    from overlaymq.trace import arrow, files

    target.mkdir(parents=True)
    final = target / "converted-0-000000.parquet"
    part = target / f".{final.name}.part"
    try:
        count = files.write_parquet(part, arrow.batches(rows))
        part.rename(final)
    finally:
        part.unlink(missing_ok=True)
    say(f"wrote {counted(count, 'row')} to {final}")
