"""Every example runs as its text says, in processes of its own, and stays short enough to read."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@contextmanager
def _running(
    name: str, *arguments: str, stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    try:
        with process:
            yield process
    finally:
        process.kill()
        process.wait()


def _line(process: subprocess.Popen[str], start: str) -> str:
    """The next line that starts so; the test's timeout bounds the wait."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line.rstrip("\n")
    raise AssertionError(f"ended without a line that starts with {start!r}")


def _type(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 80


def test_hello() -> None:
    with _running("hello.py") as hello:
        assert _line(hello, "bob got") == "bob got 'hello, ring' from alice"
        assert _line(hello, "  alice's receipt") == "  alice's receipt: 1 link(s) took it"
        assert hello.wait() == 0


def test_chat() -> None:
    with _running("chat.py", "ann") as ann:
        address = _line(ann, "* you are ann").split()[-1]
        _line(ann, "* you are in the room")
        with _running("chat.py", "bob", "--seed", address) as bob:
            _line(bob, "* you are in the room")
            _type(ann, "hi bob")
            assert _line(bob, "<ann>").startswith("<ann> hi bob ")
            _type(bob, "hi ann")
            assert _line(ann, "<bob>").startswith("<bob> hi ann ")
            for one in (bob, ann):
                assert one.stdin is not None
                one.stdin.close()
                assert one.wait() == 0


def test_chat_ends_at_ctrl_c_without_another_line() -> None:
    with _running("chat.py", "ann") as ann:
        _line(ann, "* you are in the room")
        ann.send_signal(signal.SIGINT)
        assert ann.wait(10) == 130


def test_chat_says_why_it_cannot_join() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
    with _running("chat.py", "bob", "--seed", nobody, stderr=subprocess.PIPE) as bob:
        _, said = bob.communicate()
        assert bob.returncode == 1
    assert "none of the seeds let this node in" in said
    assert "Traceback" not in said


def test_upcalls() -> None:
    with _running("upcalls.py") as example:
        assert _line(example, "display 1") == "display 1 shows 21.5 C"
        assert _line(example, "display 2") == "display 2 shows 21.5 C"
        assert _line(example, "2 displays") == "2 displays read it"
        assert example.wait() == 0


@pytest.mark.parametrize("strategy", ["scribe", "sv", "scamp"])
def test_newsroom_runs_on_every_strategy(strategy: str, tmp_path: Path) -> None:
    """Reference: issue 6, one word of the file is changed."""
    config = (ROOT / "examples" / "newsroom.toml").read_text()
    changed = tmp_path / "newsroom.toml"
    changed.write_text(config.replace('strategy = "scribe"', f'strategy = "{strategy}"'))
    with _running("newsroom.py", str(changed)) as example:
        told = _line(example, f"{strategy}:")
        assert told.startswith(f"{strategy}: 4 readers got 20 headlines in order")
        assert example.wait() == 0


def test_embed_in_app() -> None:
    with _running("embed_in_app.py", "2") as app:
        assert _line(app, "25.").endswith("C: window opened")
        assert int(_line(app, "the window's node").split()[4]) > 0
        assert app.wait() == 0
