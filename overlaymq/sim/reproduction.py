"""docs/reproduction.md: every figure of the reproduction list beside ours, made from stored results.

    overlaymq sim run NAME --save benchmarks/results/NAME.json
    overlaymq sim report

A stored result is the object that `sim run --json` prints, with the command that made it. The report lists
every id, whether or not an experiment covers it yet. Where a figure is not reproduced, ``DIFFERENCES`` says
why, as far as that is known; a figure outside its range without such a word makes the report fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.errors import ConfigError
from overlaymq.sim.differences import DIFFERENCES
from overlaymq.sim.experiments.base import figure_text, range_text
from overlaymq.sim.published import SECTIONS, TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class StoredRow(msgspec.Struct, frozen=True):
    """A row of the printed object."""

    id: str
    metric: str
    published: float | str
    measured: float | None
    low: float | None
    high: float | None
    ok: bool


class Result(msgspec.Struct, frozen=True):
    """The printed object, and how it came about."""

    command: str
    experiment: str
    seed: int
    nodes: int
    seconds: float
    peak_rss_mb: float
    events: int
    rows: list[StoredRow]


def load(directory: Path) -> list[Result]:
    """All stored results, by the name of their file."""
    results = []
    for path in sorted(directory.glob("*.json")):
        try:
            results.append(msgspec.json.decode(path.read_bytes(), type=Result))
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} is no stored result: {error}") from None
    return results


def report(results: list[Result]) -> str:
    """The text of docs/reproduction.md."""
    unexplained = sorted(
        {row.id for result in results for row in result.rows if not row.ok} - set(DIFFERENCES)
    )
    if unexplained:
        raise ConfigError(
            f"outside their range, and nothing in differences.py says why: {', '.join(unexplained)}"
        )
    return "\n".join([*_opening(results), *_sections(results)]) + "\n"


def _opening(results: list[Result]) -> Iterator[str]:
    ids = {target.id for target in TARGETS.values()}
    covered = {row.id for result in results for row in result.rows}
    covered |= {target.id for target in TARGETS.values() if target.test}
    rows = [row for result in results for row in result.rows if not _only_reported(row)]
    yield "# Reproduction of the published figures"
    yield ""
    yield (
        "Made by `overlaymq sim report` from `benchmarks/results`; not written by hand. "
        f"{len(covered)} of {len(ids)} ids are covered so far, the others are open. "
        f"{sum(row.ok for row in rows)} of {len(rows)} judged figures lie in their range. "
        "A range comes from the publication, not from what was measured."
    )
    yield ""
    yield "| experiment | command | nodes | events | seconds | peak MB |"
    yield "|---|---|---:|---:|---:|---:|"
    for result in results:
        yield _line(
            result.experiment,
            f"`{result.command}`",
            f"{result.nodes:,}",
            f"{result.events:,}",
            f"{result.seconds:,.0f}",
            f"{result.peak_rss_mb:,.0f}",
        )
    yield ""


def _sections(results: list[Result]) -> Iterator[str]:
    for title, targets in SECTIONS.items():
        yield f"## {title}"
        yield ""
        yield "| id | figure | published | ours | range | in range | experiment |"
        yield "|---|---|---|---|---|---|---|"
        ids = list(dict.fromkeys(target.id for target in targets))
        for id_ in ids:
            lines = list(_measured(id_, results))
            yield from lines or _open(id_)
        yield ""
        for id_ in ids:
            if id_ in DIFFERENCES:
                yield f"**{id_}.** {DIFFERENCES[id_]}"
                yield ""


def _measured(id_: str, results: list[Result]) -> Iterator[str]:
    for result in results:
        for row in result.rows:
            if row.id == id_:
                verdict = "reported" if _only_reported(row) else "yes" if row.ok else "**no**"
                yield _line(
                    row.id,
                    row.metric,
                    figure_text(row.published),
                    figure_text(row.measured),
                    range_text(row.low, row.high),
                    verdict,
                    result.experiment,
                )


def _open(id_: str) -> Iterator[str]:
    for target in TARGETS.values():
        if target.id == id_:
            cells = (id_, target.metric, figure_text(target.published), "", "")
            shown = ("tested", f"`{target.test}`") if target.test else ("open", "")
            yield _line(*cells, *shown)


def _only_reported(row: StoredRow) -> bool:
    return row.low is None and row.high is None


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
