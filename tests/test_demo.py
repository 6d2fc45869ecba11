"""The demo comes true, and leaves nothing behind, even when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "overlaymq.demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        start_new_session=True,  # so that whatever it leaves behind can be told by its session
    )


def _left_behind(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # it has just ended
        if int(of) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def _end(demo: subprocess.Popen[str]) -> None:
    for pid in [*_left_behind(demo.pid), demo.pid]:
        if demo.returncode is None or pid != demo.pid:
            os.kill(pid, signal.SIGKILL)
    demo.wait()
    assert demo.stdout is not None
    demo.stdout.close()


@pytest.mark.timeout(300)
def test_every_act_comes_true() -> None:
    demo = _start()
    try:
        told, _ = demo.communicate(timeout=280)
        assert demo.returncode == 0, told
        for text in (
            "she forwards the topic",
            "cy   got 'MSFT 402.15'",
            "cy wakes up",
            "all three receive again",
            "orders/tea (lossless): it got 10,000, and was told of 0 dropped",
            "All 4,500 expected deliveries happened",
            "news/scamp: 1,500 deliveries, 0 lost",
            "What to try next",
        ):
            assert text in told
        assert not _left_behind(demo.pid)
    finally:
        _end(demo)


@pytest.mark.timeout(120)
def test_an_interrupted_demo_ends_its_processes() -> None:
    demo = _start()
    try:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "got 'AAPL" in line:
                break
        assert len(_left_behind(demo.pid)) == 5
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 130
        assert not _left_behind(demo.pid)
        assert "Traceback" not in demo.stdout.read()
    finally:
        _end(demo)
