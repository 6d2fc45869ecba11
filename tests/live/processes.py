"""Processes with a node each, that obey orders: what the live bars of trees have in common."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import count, pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROCESSES = 16


class Host:
    """One process with its node."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.id = self.address = ""

    def wait_joined(self) -> None:
        line = self.hear()
        self.id, self.address = line["id"], line["address"]

    def tell(self, do: str, **details: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **details}) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"process {self.process.pid} ended with {self.process.poll()}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        self.tell(do, **details)
        return self.hear()

    def kill(self) -> float:
        """kill -9; when that was."""
        self.process.kill()
        killed = time.monotonic()
        self.process.wait(10)
        return killed

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def start(
    hosts: list[Host], module: str, processes: int = PROCESSES, arguments: tuple[str, ...] = ()
) -> None:
    """So many processes in one ring; ``arguments`` come before their seeds."""
    first = Host(module, *arguments)
    hosts.append(first)
    first.wait_joined()
    hosts += [Host(module, *arguments, first.address) for _ in range(processes - 1)]
    for host in hosts[1:]:
        host.wait_joined()


def root_elsewhere(publisher: Host) -> tuple[str, str]:
    """A topic whose root is not the publisher, and the root."""
    for number in count():
        topic = f"bar {number}"
        owner: str = publisher.ask("owner", topic=topic)["owner"]
        if owner != publisher.id:
            return topic, owner
    raise AssertionError


def sleep_until(when: float) -> None:
    time.sleep(max(0.0, when - time.monotonic()))


def longest_silence(times: list[float], after: float, seconds: float) -> float:
    """The longest time without a message in this stretch."""
    near = [when for when in times if after - 1 <= when <= after + seconds]
    return max((later - earlier for earlier, later in pairwise(near)), default=seconds)
