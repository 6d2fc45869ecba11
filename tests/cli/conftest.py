"""Real processes for the tests: started here, ended by their id, awaited by what they print."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0


class Output:
    """The lines of one pipe, gathered by a thread."""

    def __init__(self, pipe: IO[str]) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe: IO[str]) -> None:
        for line in pipe:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, wanted: Callable[[str], bool]) -> str:
        """The first line that is wanted, now or later."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: self._ended or any(map(wanted, self.lines)), PATIENCE
            )
        found = next(filter(wanted, self.lines), None)
        assert found is not None, f"{'ended' if done else 'waited'} with {self.lines}"
        return found

    def join(self) -> None:
        self._thread.join(PATIENCE)


class Running:
    """One `overlaymq` process."""

    def __init__(
        self,
        *arguments: str,
        stdin: str | None = None,
        stdout: int = subprocess.PIPE,
        **environment: str,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "overlaymq", *arguments],
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )
        assert self.process.stderr is not None
        self.out = Output(self.process.stdout or io.StringIO())
        self.err = Output(self.process.stderr)
        if stdin is not None:
            assert self.process.stdin is not None
            self.process.stdin.write(stdin)
            self.process.stdin.close()

    def record(self, **wanted: Any) -> dict[str, Any]:
        """The first JSON line with these values."""

        def matches(line: str) -> bool:
            record = json.loads(line)
            return all(record.get(key) == value for key, value in wanted.items())

        found: dict[str, Any] = json.loads(self.out.wait(matches))
        return found

    def interrupt(self) -> float:
        """Ctrl-C; how many seconds the end took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        return time.monotonic() - started

    def finish(self) -> int:
        """Wait for the end; the exit code. Whatever happened, there is no traceback."""
        code = self.process.wait(PATIENCE)
        self.out.join()
        self.err.join()
        assert "Traceback" not in self.said
        return code

    @property
    def said(self) -> str:
        return "\n".join(self.err.lines)

    @property
    def printed(self) -> str:
        return "\n".join(self.out.lines)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.out.join()
        self.err.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Starts `overlaymq` with arguments; the test's processes end with it."""
    with ExitStack() as stack:

        def run(*arguments: str, **options: Any) -> Running:
            running = Running(*arguments, **options)
            stack.callback(running.close)
            return running

        yield run


def free_address() -> str:
    """A loopback address nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def point() -> str:
    """A meeting point of the test's own, in place of the default port."""
    return free_address()


@pytest.fixture
def unused() -> str:
    """Another address nobody listens on."""
    return free_address()
