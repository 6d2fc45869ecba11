"""`overlaymq analyze --follow`: a table that grows while nodes write their traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

from overlaymq.cli.output import console, put_json, say
from overlaymq.cli.running import Exit, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlaymq.trace.follow import Sums

LOOK_EVERY = 1


def watch(paths: Sequence[str], master: str | None, memory: str | None, as_json: bool) -> None:
    """Show sums as files come, until the query fails or somebody presses Ctrl-C."""
    from overlaymq.trace import follow
    from overlaymq.trace.spark import DRIVER_MEMORY, interruptible, session, told

    for path in paths:
        if "://" not in path and not Path(path).is_dir():
            raise Failure(f"--follow: {path} is no directory", Exit.USAGE)
    spark = session(master, memory=memory or DRIVER_MEMORY)
    say("following finished trace files; Ctrl-C ends")
    with (
        told(),
        interruptible(),
        Live(console=console(), auto_refresh=False, transient=as_json) as live,
    ):

        def show(sums: Sums) -> None:
            if as_json:
                put_json(_plain(sums))
            else:
                live.update(_grid(sums), refresh=True)

        with follow.following(spark, paths, show) as query:
            # In short waits: a signal is only seen between them.
            while not query.awaitTermination(LOOK_EVERY):
                pass


def _plain(sums: Sums) -> dict[str, object]:
    from overlaymq.trace.follow import WORDS

    return {
        "events": sums.events,
        "newest_ns": sums.newest_ns,
        "topics": [
            {"run": run, "topic": topic}
            | {WORDS[event]: messages for event, messages in counts.items()}
            for (run, topic), counts in sorted(sums.topics.items())
        ],
    }


def _grid(sums: Sums) -> Table:
    from overlaymq.trace.follow import WORDS

    grid = Table(box=None, pad_edge=False, title=f"{sums.events:,} events", title_justify="left")
    for name in ("run", "topic"):
        grid.add_column(name)
    for word in WORDS.values():
        grid.add_column(word, justify="right")
    for (run, topic), counts in sorted(sums.topics.items()):
        grid.add_row(run, topic, *(f"{counts.get(event, 0):,}" for event in WORDS))
    return grid
