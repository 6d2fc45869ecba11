"""Results as files: a table each, the headline as JSON, and the report."""

from __future__ import annotations

import json
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import pyarrow.csv as csv
import pyarrow.parquet as pq

from overlaymq.errors import ConfigError
from overlaymq.trace.report.page import page

if TYPE_CHECKING:
    from pathlib import Path

    from overlaymq.trace.analysis.tables import Table
    from overlaymq.trace.analysis.whole import Found

FORMATS = ("csv", "parquet")
REPORT = "report.html"


def demand_place(directory: Path) -> None:
    """Make the directory; raises ``ConfigError`` if nothing can be written there, before a long analysis."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ConfigError(
            f"--out: {directory} cannot be written to: {error.strerror}; name another place"
        ) from None


def write(found: Found, directory: Path, form: str = "csv", title: str = "") -> list[Path]:
    """Everything under ``directory``: what was written, the report first."""
    directory.mkdir(parents=True, exist_ok=True)
    report = directory / REPORT
    report.write_text(page(found, title), encoding="utf-8")
    headline = directory / "headline.json"
    headline.write_text(json.dumps(found.headline.as_dict(), indent=1) + "\n")
    return [
        report,
        headline,
        *(_write_table(one, directory, form) for one in found.tables.values()),
    ]


def _write_table(table: Table, directory: Path, form: str) -> Path:
    path = directory / f"{table.name}.{form}"
    if path.is_dir():
        shutil.rmtree(path)
    if table.whole is not None:
        # Too long for the driver's memory: Spark writes it, as a directory of parts.
        writer = table.whole.write.mode("overwrite")
        if form == "csv":
            writer.option("header", "true").csv(path.absolute().as_uri())
        else:
            writer.parquet(path.absolute().as_uri())
    elif form == "csv":
        csv.write_csv(table.data, path)
    else:
        pq.write_table(table.data, path)
    return path


def as_json(found: Found, rows: int | None = None) -> dict[str, Any]:
    """Headline and tables as plain values; of each table at most ``rows``."""
    return {
        "headline": found.headline.as_dict(),
        "tables": {
            name: (table.data if rows is None else table.data.slice(0, rows)).to_pylist()
            for name, table in found.tables.items()
        },
        "rows": {name: table.rows for name, table in found.tables.items()},
    }
