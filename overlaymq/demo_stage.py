"""Where the demo plays: a directory with keys and settings, and processes that print what they get.

The keys are made beforehand, so the ids are known, and a topic can be chosen whose rendezvous node is the
process that gets killed: the hardest one to lose.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any

import trio

from overlaymq import ids
from overlaymq.identity import Identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

SUBSCRIBERS = ("ann", "bob", "cy")


class Member:
    """A process with a node, started through the command line, and what it has printed."""

    def __init__(self, name: str, process: trio.Process) -> None:
        self.name = name
        self.process = process
        self.records: list[dict[str, Any]] = []
        self._news = trio.Event()

    async def listen(self) -> None:
        """Gather the JSON lines it prints."""
        assert self.process.stdout is not None
        rest = b""
        async for block in self.process.stdout:
            *lines, rest = (rest + block).split(b"\n")
            self.records += map(json.loads, lines)
            self._news.set()
            self._news = trio.Event()

    async def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first thing it printed that is wanted, now or later."""
        seen = 0
        while True:
            for record in self.records[seen:]:
                if wanted(record):
                    return record
            seen = len(self.records)
            await self._news.wait()

    async def got(self, text: str) -> dict[str, Any]:
        """Wait until it has received this message."""
        return await self.wait_for(lambda record: record.get("payload") == text)

    def told(self, event: str) -> list[dict[str, Any]]:
        """The events of one kind that it was told."""
        return [record for record in self.records if record.get("event") == event]


class Stage:
    """Where the demo plays: a directory with keys and settings, and the processes."""

    def __init__(self, directory: Path, settings: str, nursery: trio.Nursery) -> None:
        self.settings = directory / "demo.toml"
        self.settings.write_text(settings)
        self.keys = {name: directory / f"{name}.pem" for name in ("me", "dora", *SUBSCRIBERS)}
        found = {name: Identity.load_or_create(path).id for name, path in self.keys.items()}
        self.topic = _topic_owned_by(found["dora"], found.values())
        self.members: dict[str, Member] = {}
        self._nursery = nursery

    async def start(self, name: str, seed: str, *command: str) -> Member:
        """Start a member of the overlay in a process of its own."""
        arguments = ("--config", self.settings, "--key-file", self.keys[name], "--seed", seed)
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "overlaymq", *command, "--json", *map(str, arguments)],
            stdout=PIPE,
            stderr=DEVNULL,
        )
        member = self.members[name] = Member(name, process)
        self._nursery.start_soon(member.listen)
        return member

    @property
    def subscribers(self) -> list[Member]:
        """The members that subscribe."""
        return [self.members[name] for name in SUBSCRIBERS]

    async def clear(self) -> None:
        """End every process, by its id."""
        for member in self.members.values():
            if member.process.poll() is None:
                member.process.kill()
            await member.process.wait()


def _topic_owned_by(owner: ids.Id, nodes: Collection[ids.Id]) -> str:
    names = (f"prices/{number}" for number in itertools.count(1))
    return next(name for name in names if ids.closest(ids.topic_id(name), nodes) == owner)


@asynccontextmanager
async def open_stage(settings: str) -> AsyncIterator[Stage]:
    """Somewhere to play; afterwards nothing of it is left."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="overlaymq-demo-"))
        nursery = await stack.enter_async_context(trio.open_nursery())
        stage = Stage(Path(directory), settings, nursery)
        try:
            yield stage
        finally:
            with trio.CancelScope(shield=True):
                await stage.clear()
            nursery.cancel_scope.cancel()
