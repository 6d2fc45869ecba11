"""How much memory a simulated node takes.

    python -m overlaymq.sim.footprint --nodes 100000 [--seed 1]

Builds a ring by the oracle on a transit-stub network, in a process of its own so that nothing else is
counted, and prints one JSON object: the resident set before the nodes and after, and what that is for
each node. The network itself, whose size does not depend on the nodes, is built before. What building it has
left free is given back first: nodes would move in there, and the first ten thousand seem cheaper by a sixth.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from overlaymq.sim import oracle
from overlaymq.sim.experiments.configs import QUIET
from overlaymq.sim.experiments.runner import peak_rss_mb
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology import TopologyNetwork, TransitStub

if TYPE_CHECKING:
    from collections.abc import Sequence


class Footprint(msgspec.Struct, frozen=True):
    """Memory in MB of 10**6 bytes."""

    nodes: int
    seconds: float
    before_mb: float
    after_mb: float
    peak_mb: float

    @property
    def kb_per_node(self) -> float:
        """What one more node costs, in units of 1,000 bytes."""
        return (self.after_mb - self.before_mb) * 1000 / self.nodes


def resident_mb() -> float:
    """What this process holds now, without what it has freed; only Linux tells."""
    # glibc keeps freed memory until it is asked for it; other C libraries have no such question.
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(nodes: int, seed: int) -> Footprint:
    """In this process, which should have done nothing else before."""
    topology = TransitStub(seed)
    topology.delay_row(0)
    before, started = resident_mb(), time.process_time()
    ring = Ring(seed, TopologyNetwork(topology, seed), QUIET)
    oracle.build(ring, nodes)
    seconds = time.process_time() - started
    return Footprint(nodes, seconds, before, resident_mb(), peak_rss_mb())


def measure_apart(nodes: int, seed: int) -> Footprint:
    """In a process of its own."""
    command = [
        sys.executable,
        "-m",
        "overlaymq.sim.footprint",
        "--nodes",
        str(nodes),
        "--seed",
        str(seed),
    ]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Footprint)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.footprint")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print(msgspec.json.encode(measure(options.nodes, options.seed)).decode())


if __name__ == "__main__":
    main()
