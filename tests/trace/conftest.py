"""Tracers that write into a directory of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.config import TraceConfig
from overlaymq.trace import files
from overlaymq.trace.writer import FileTracer

if TYPE_CHECKING:
    from pathlib import Path

    from overlaymq.trace.schema import Row


class Desk:
    """Makes file tracers, each in its own folder, and reads what the last one wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made = 0
        self.tracer: FileTracer | None = None

    def make(self, **settings: Any) -> FileTracer:
        clocks = {name: settings.pop(name) for name in ("wall", "mono") if name in settings}
        self.made += 1
        here = self.directory / str(self.made)
        config = TraceConfig(directory=str(here), **{"batch_rows": 1000, "queue": 100, **settings})
        self.tracer = FileTracer(config, "ab" * 16, 7, **clocks)
        return self.tracer

    def read(self) -> list[Row]:
        assert self.tracer is not None
        return list(files.rows(files.files(self.tracer.directory)))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
