"""How long the analysis of a synthetic trace takes and how much memory, and whether it finds the truth.

The analysis runs as a user would run it, in processes of its own: Python, the Java it starts, and Spark's
Python workers. Their resident memory is added up from outside four times a second; pages that processes
share are counted for each, so the sum is an upper bound.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trace_world import Truth

PAGE = os.sysconf("SC_PAGE_SIZE")
EVERY = 0.25


@dataclass(frozen=True)
class Figures:
    """What an analysis took; ``right``: it found the truth."""

    seconds: float = 0.0
    right: bool = False


def measured(directory: Path, truth: Truth, master: str) -> Figures:
    """Analyse, print the figures and what differs from the truth."""
    out = directory / "report"
    command = [sys.executable, "-m", "overlaymq.trace.job", str(directory / "synthetic")]
    command += ["--master", master, "--out", str(out), "--json", "--steps"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        peak, cpu = _watch(job)
        said = job.stdout.read() if job.stdout else ""
    took = time.perf_counter() - began
    if job.returncode:
        print(f"the analysis ended with code {job.returncode}", file=sys.stderr)
        return Figures()
    found = json.loads(said)
    print(
        f"report of {truth.rows:,} events on {master}: {took:.0f} s, {cpu:.0f} s of CPU, "
        f"{peak / 1e9:.2f} GB at most, load {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores",
        flush=True,
    )
    wrong = {name: pair for name, pair in compared(found, truth).items() if pair[0] != pair[1]}
    for name, (has, wanted) in wrong.items():
        print(f"  {name}: found {has:,}, but the truth is {wanted:,}")
    if not wrong:
        print("  losses, announcements, duplicates, repetitions and order: exactly the truth")
    return Figures(took, not wrong)


def compared(found: dict[str, Any], truth: Truth) -> dict[str, tuple[int, int]]:
    """(found, true) for everything that was planted."""
    return {
        "events": (found["events"], truth.rows),
        "published": (found["published"], truth.published),
        "delivered": (found["delivered"], truth.delivered),
        "lost": (found["lost"], truth.lost_total),
        "announced": (found["announced"], truth.announced),
        "duplicates": (found["duplicates"], truth.duplicates),
        "repeated": (found["repeated"], truth.repeated),
        "late": (found["late"], truth.late),
        "violations": (found["violations"], truth.violations),
        "repairs": (found["repairs"], len(truth.repairs_ms)),
        "negative": (found["negative"], 0),
    }


def _watch(job: subprocess.Popen[str]) -> tuple[int, float]:
    """The most resident memory of a process and all below it until it ends, and their CPU seconds."""
    peak = 0
    used: dict[int, float] = {}
    while job.poll() is None:
        family = _family(job.pid)
        peak = max(peak, sum(_resident(pid) for pid in family))
        used |= {pid: spent for pid in family if (spent := _cpu(pid)) > 0}
        time.sleep(EVERY)  # a look at the memory four times a second
    return peak, sum(used.values())


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    family = [root]
    for pid in family:
        family += children.get(pid, [])
    return family


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0
