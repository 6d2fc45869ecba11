"""How gRPC is imported: with the polling of its own threads, unless the program has decided otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

VARIABLE = "GRPC_EXPERIMENTS"
WATCH = """
import importlib.abc, os, sys

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "grpc._cython":
            print("during", os.environ.get("GRPC_EXPERIMENTS"))

sys.meta_path.insert(0, Watch())
{before}
import overlaymq.transport.grpc
print("after", os.environ.get("GRPC_EXPERIMENTS"))
"""


def _seen(before: str = "", setting: str | None = None) -> tuple[dict[str, str], str]:
    """The variable while gRPC is imported and afterwards, and what gRPC has to say about it."""
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
    if setting is not None:
        environment[VARIABLE] = setting
    done = subprocess.run(
        [sys.executable, "-c", WATCH.format(before=before)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {when: value for when, _, value in lines}, done.stderr


def test_the_event_engine_is_off_for_this_process_only() -> None:
    seen, complaints = _seen()
    assert seen["during"] == "-event_engine_client,-event_engine_listener"
    assert seen["after"] == "None"  # programs that this one starts do not inherit it
    assert "Unknown experiment" not in complaints


@pytest.mark.parametrize("setting", ["", "-event_engine_dns_non_client_channel"])
def test_a_setting_of_the_program_is_kept(setting: str) -> None:
    seen, _ = _seen(setting=setting)
    assert seen == {"during": setting, "after": setting}


def test_a_program_that_uses_grpc_already_is_left_alone() -> None:
    seen, _ = _seen(before="import grpc")
    assert seen == {"during": "None", "after": "None"}
