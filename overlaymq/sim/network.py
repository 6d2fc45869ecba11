"""Network models: how long a message takes from one address to another, and nothing else.

What goes wrong on the way is ``faults.py``'s matter, so that every model can be had with every fault. A
model is asked once per message that travels; it gives the same answer for the same pair.
"""

from __future__ import annotations

import hashlib
from typing import Protocol


class NetworkModel(Protocol):
    """Any map of distances."""

    def delay(self, source: str, target: str) -> float:
        """Seconds one way, between two addresses."""


class ConstantDelay:
    """Every pair of nodes is equally far apart."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds

    def delay(self, source: str, target: str) -> float:
        """The same for all."""
        return self.seconds


class PlaneDelay:
    """Nodes are points of a unit square by the hash of their address; delay grows with distance.

    The metric of Pastry's own experiments, whose nodes were random points of a plane (protocols.md 1.11).
    ``across`` is the delay along the square's side and ``seconds`` what every message takes besides: guesses.
    """

    __slots__ = ("_points", "across", "seconds")

    def __init__(self, across: float = 0.1, seconds: float = 0.001) -> None:
        self.across = across
        self.seconds = seconds
        self._points: dict[str, complex] = {}

    def delay(self, source: str, target: str) -> float:
        """A millisecond, and the way between the two points."""
        return self.seconds + self.across * abs(self.point(source) - self.point(target))

    def point(self, address: str) -> complex:
        """Where a node is."""
        point = self._points.get(address)
        if point is None:
            mixed = int.from_bytes(hashed(address), "big")
            point = complex(mixed % 65536, mixed // 65536 % 65536) / 65536
            self._points[address] = point
        return point


def hashed(text: str) -> bytes:
    """Eight bytes that do not depend on the process's hash seed."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
