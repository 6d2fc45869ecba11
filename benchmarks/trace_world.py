"""The world that synthetic traces tell of: nodes with wrong clocks, topics with trees, and what goes wrong.

Everything that goes wrong is chosen here, counted, and kept as the truth to compare an analysis with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND
FAN_OUT = 4
WARM_UP = 3.0
"""Seconds from READY to the first message, and from the last one to the end: nothing is uncertain."""
KINDS = (
    ("scribe", "fifo"),
    ("sv", "ordered"),
    ("scamp", "best_effort"),
    ("direct", "fifo"),
)


@dataclass(frozen=True)
class Plan:
    """How large a trace, and of what."""

    events: int
    nodes: int = 64
    topics: int = 8
    seconds: float = 600.0
    seed: int = 1
    loss: float = 0.0005
    """Share of (run, leaf) pairs that lose something."""
    repeat: float = 0.0002
    swap: float = 0.0002
    echo: float = 0.5
    """Share of gossip receptions that come once more."""
    skew_ms: float = 250.0


@dataclass
class Truth:
    """What an analysis should find, in messages."""

    published: int = 0
    delivered: int = 0
    lost: dict[str, int] = field(default_factory=lambda: {"link": 0, "dropped": 0, "subscriber": 0})
    announced: int = 0
    duplicates: int = 0
    repeated: int = 0
    late: int = 0
    violations: int = 0
    repairs_ms: list[float] = field(default_factory=list)
    offsets_ms: dict[str, float] = field(default_factory=dict)
    lost_pairs: list[tuple[str, str, int, str, bool, str, str]] = field(default_factory=list)
    """(topic, origin, seq, subscriber, announced, evidence, last node)."""
    rows: int = 0

    @property
    def lost_total(self) -> int:
        """Over all kinds of evidence."""
        return sum(self.lost.values())


@dataclass(frozen=True)
class Topic:
    """A topic and its tree: ``order`` are its members, root first; member i's parent is (i-1)//FAN_OUT."""

    index: int
    name: str
    identity: bytes
    strategy: str
    reliability: str
    publishers: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def leaves(self) -> tuple[int, ...]:
        """Places in the order that feed nobody."""
        inner = (len(self.order) - 2) // FAN_OUT
        return tuple(range(inner + 1, len(self.order)))


class World:
    """Nodes, clocks, topics, and the source of chance."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = np.random.default_rng(plan.seed)
        self.ids = [self.random.bytes(16) for _ in range(plan.nodes)]
        limit = int(plan.skew_ms * 1e6)
        self.offsets = self.random.integers(-limit, limit + 1, plan.nodes)
        self.mono_zero = self.random.integers(10**9, 10**15, plan.nodes)
        self.boots = np.arange(1, plan.nodes + 1)
        self.killed = plan.nodes - 1
        self.killed_at = START + int(plan.seconds * 0.6 * SECOND)
        self.end = START + int(plan.seconds * SECOND)
        self.delay = self._delays()
        self.topics = [self._topic(index) for index in range(plan.topics)]

    def _delays(self) -> NDArray[np.int64]:
        """One-way delays of a plane, the same both ways, 0.2 to some 10 ms."""
        at = self.random.random((self.plan.nodes, 2))
        apart = np.sqrt(((at[:, None] - at[None]) ** 2).sum(2))
        delays: NDArray[np.int64] = (200_000 + apart * 8_000_000).astype(np.int64)
        return delays

    def _topic(self, index: int) -> Topic:
        strategy, reliability = KINDS[index % len(KINDS)]
        everyone = [int(one) for one in self.random.permutation(self.plan.nodes - 1)]
        number = 1 if reliability == "ordered" else 2
        publishers = tuple(everyone[:number])
        members = everyone[number : number + max(6, self.plan.nodes // 2)]
        return Topic(
            index,
            f"{strategy}/{index}",
            self.random.bytes(16),
            strategy,
            reliability,
            publishers,
            (*members, self.killed),
        )

    def rows_of_a_run(self) -> float:
        """About how many rows one published run makes, over all topics."""
        each = []
        for topic in self.topics:
            members = len(topic.order)
            echoes = 3 * self.plan.echo * members if topic.strategy == "scamp" else 0
            each.append(1 + 4 * members + echoes)
        return float(np.mean(each))
