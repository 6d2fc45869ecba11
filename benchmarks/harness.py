"""Starts the processes of a measurement, speaks with them, and ends every one of them.

A `Crew` owns its processes: leaving it kills each by its own handle, whatever went wrong inside.
What a child writes to stderr is kept and becomes the error's text when the child falls silent.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

ROOT = Path(__file__).resolve().parent.parent
LONGEST_LINE = 64 * 1024 * 1024
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class ChildFailed(Exception):
    """A measured process ended or fell silent; the text is the last it said."""


class Child:
    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        # Unlike a number, a handle never comes to mean another process.
        self._handle = os.pidfd_open(process.pid)
        self._log = log

    async def tell(self, do: str, **details: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
            await self._process.stdin.drain()
        except OSError:
            raise self._failure("ended") from None

    async def hear(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self._failure(f"said nothing for {seconds:g} s") from None
        if not line:
            raise self._failure("ended")
        facts: dict[str, Any] = json.loads(line)
        return facts

    async def ask(self, do: str, seconds: float = 60, **details: Any) -> dict[str, Any]:
        await self.tell(do, **details)
        return await self.hear(seconds)

    def cpu_seconds(self) -> float:
        """From the outside, for a process that cannot be asked."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / CLOCK_TICKS

    def check_alive(self) -> None:
        if self._process.returncode is not None:
            raise self._failure("ended")

    async def end(self) -> None:
        # asyncio's own kill() would reap the child behind the back of its watcher.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        os.close(self._handle)
        await self._process.wait()

    def _failure(self, what: str) -> ChildFailed:
        if self._process.returncode is not None:
            what += f" with {self._process.returncode}"
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return ChildFailed(": ".join([f"{self.name} {what}", *lines[-1:]]))


class Crew:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._children: list[Child] = []

    async def start_python(self, name: str, module: str, *arguments: str) -> Child:
        return await self.start(name, [sys.executable, "-m", module, *arguments])

    async def start(self, name: str, command: list[str]) -> Child:
        log = self.folder / f"{name}.log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=LONGEST_LINE,
            )
        child = Child(name, process, log)
        self._children.append(child)
        return child

    async def end(self) -> None:
        await asyncio.gather(*(child.end() for child in self._children))


@asynccontextmanager
async def crew() -> AsyncIterator[Crew]:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        together = Crew(Path(folder))
        try:
            yield together
        finally:
            await together.end()


def run(main: Coroutine[Any, Any, int]) -> int:
    """`asyncio.run` that also cleans up when it is asked to terminate."""

    async def terminable() -> int:
        task = asyncio.ensure_future(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(terminable())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
