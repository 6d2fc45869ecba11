"""Network models: how long a message takes from one address to another, and whether it arrives.

A model is asked once per message, in the order of the sends, so its own random source keeps runs
repeatable. ``ConstantDelay`` is the simplest; later models (transit-stub, partitions) keep its interface.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


class NetworkModel(Protocol):
    """``link_break`` is how long a message to a crashed node takes to fail loudly; None: never."""

    link_break: float | None

    def delay(self, source: str, target: str) -> float:
        """Seconds one way."""

    def lost(self, source: str, target: str, random: Random) -> bool:
        """Whether a message that is sent now never arrives."""


class ConstantDelay:
    """Every pair of nodes is equally far apart; a share of messages is lost.

    ``parted(source, target)`` cuts pairs off, for partition tests.
    """

    __slots__ = ("link_break", "loss", "parted", "seconds")

    def __init__(
        self, seconds: float = 0.02, loss: float = 0.0, link_break: float | None = None
    ) -> None:
        self.seconds = seconds
        self.loss = loss
        self.link_break = link_break
        self.parted: Callable[[str, str], bool] | None = None

    def delay(self, source: str, target: str) -> float:
        """The same for all."""
        return self.seconds

    def lost(self, source: str, target: str, random: Random) -> bool:
        """By chance, or because the pair is parted."""
        if self.parted is not None and self.parted(source, target):
            return True
        return self.loss > 0 and random.random() < self.loss


class PlaneDelay(ConstantDelay):
    """Nodes are points of a unit square by the hash of their address; delay grows with distance."""

    __slots__ = ("_points", "across")

    def __init__(self, across: float = 0.1, loss: float = 0.0) -> None:
        super().__init__(0.001, loss)
        self.across = across
        self._points: dict[str, complex] = {}

    def delay(self, source: str, target: str) -> float:
        """A millisecond, and the way between the two points."""
        return self.seconds + self.across * abs(self._point(source) - self._point(target))

    def _point(self, address: str) -> complex:
        point = self._points.get(address)
        if point is None:
            mixed = int.from_bytes(hashed(address), "big")
            point = complex(mixed % 65536, mixed // 65536 % 65536) / 65536
            self._points[address] = point
        return point


def hashed(text: str) -> bytes:
    """Eight bytes that do not depend on the process's hash seed."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
