"""Bar: 32 nodes in 8 processes over gRPC survive kill -9 of two processes, and the killed return."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from overlaymq import ids

HOST = Path(__file__).with_name("host.py")
PROCESSES = 8
NODES_EACH = 4


class Host:
    """One process with its nodes."""

    def __init__(self, keys: Path, seeds: list[str]) -> None:
        self.keys = keys
        self.process = subprocess.Popen(
            [sys.executable, str(HOST), str(keys), str(NODES_EACH), *seeds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.nodes: list[dict[str, str]] = []

    def wait_joined(self) -> None:
        self.nodes = self._line()["nodes"]

    @property
    def nodes_ids(self) -> list[str]:
        return [node["id"] for node in self.nodes]

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"process {self.process.pid} ended with {self.process.poll()}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self._gone()

    def _gone(self) -> None:
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def end(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self._gone()
            except subprocess.TimeoutExpired:
                self.kill()


def wrong_lookups(hosts: list[Host], count: int, dice: random.Random) -> int:
    everyone = [ids.parse(node["id"]) for host in hosts for node in host.nodes]
    wrong = 0
    for _ in range(count):
        key = ids.Id(dice.getrandbits(128))
        host = dice.choice(hosts)
        got = host.ask({"node": dice.randrange(NODES_EACH), "key": ids.text(key)})
        wrong += got["owner"] != ids.text(ids.closest(key, everyone))
    return wrong


@pytest.mark.live
@pytest.mark.timeout(240)
def test_32_nodes_in_8_processes_survive_kill_9(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dice = random.Random(7)
    hosts: list[Host] = []
    try:
        started = time.monotonic()
        first = Host(tmp_path / "0", [])
        hosts.append(first)
        first.wait_joined()
        seed = [first.nodes[0]["address"]]
        hosts += [Host(tmp_path / str(number), seed) for number in range(1, PROCESSES)]
        for host in hosts[1:]:
            host.wait_joined()
        joined = time.monotonic() - started
        assert wrong_lookups(hosts, 1000, dice) == 0

        victims, hosts = hosts[3:5], hosts[:3] + hosts[5:]
        for victim in victims:
            victim.kill()
        killed = time.monotonic()
        while wrong := wrong_lookups(hosts, 60, dice):
            assert time.monotonic() - killed < 15, f"{wrong} of 60 lookups still wrong after 15 s"
        healed = time.monotonic() - killed
        assert wrong_lookups(hosts, 1000, dice) == 0

        back = [Host(victim.keys, seed) for victim in victims]
        hosts += back
        for host in back:
            host.wait_joined()
        assert [host.nodes_ids for host in back] == [victim.nodes_ids for victim in victims]
        assert wrong_lookups(hosts, 1000, dice) == 0
        with capsys.disabled():
            print(
                f"\n32 nodes joined in {joined:.1f} s; correct again {healed:.1f} s after kill -9 of 8 nodes"
            )
    finally:
        for host in hosts:
            host.end()
