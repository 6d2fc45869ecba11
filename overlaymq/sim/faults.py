"""What goes wrong between and inside nodes, apart from crashes.

Faults of messages are decided when a message is sent, in the order of the sends and from the one random
source that the engine hands in, so that a seed fixes them all:

- loss: the message never arrives.
- duplication: it arrives twice, each copy with a delay of its own.
- reordering: it is held back for up to ``reordering_delay`` seconds, and later ones overtake it.
- jitter: every message takes up to that much longer. Messages closer together than that change places,
  as they would on the datagrams of the papers' systems; a stream would keep them in order.
- partitions: ``part`` splits the nodes into groups that do not hear of each other, ``cut`` silences one
  direction, ``heal`` mends everything. What is under way already arrives.
- ``link_break``: how long until a message to a crashed node comes back as ``PeerFailed``, as a refused
  connection would; None: it never does. Lost and cut messages are always silent.

Faults of nodes belong to their address, so they outlast a restart:

- slow: the node takes so many seconds for each input, and inputs queue behind each other.
- skew: the node's clock runs at another rate. It sees its own time in everything: the ``now`` of its
  inputs, the delays of its timers, the round trips it measures.

All of it may change while a simulation runs. A simulation without a ``Faults`` has none of it, silently
loses what is sent to crashed nodes, and pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

Fate: TypeAlias = Literal["passed", "late", "doubled", "lost", "cut", "nobody"]
"""What became of a message: ``nobody`` is a message to an address where its addressee does not live."""

UNTOUCHED = (0.0,)
REST = -1


class Clock:
    """A node's own time: true time until it is skewed, and since then faster or slower.

    A change holds from the node's next input on, so the clock needs not be told when it was made.
    """

    __slots__ = ("_local", "_step", "_true", "_wanted", "rate")

    def __init__(self) -> None:
        self.rate = self._wanted = 1.0
        self._true = self._local = self._step = 0.0

    def skew(self, rate: float, offset: float) -> None:
        """Go at this rate, and once forward by this much."""
        if rate <= 0 or offset < 0:
            raise ValueError("a clock never goes back: rate > 0 and offset >= 0")
        self._wanted = rate
        self._step += offset

    def read(self, now: float) -> float:
        """What it shows at a true time."""
        local = self._local + (now - self._true) * self.rate
        if self._step or self._wanted != self.rate:
            local += self._step
            self._true, self._local, self._step, self.rate = now, local, 0.0, self._wanted
        return local


class Faults:
    """Attributes are shares (0 to 1) and seconds; set them at will. See the module for what they mean."""

    __slots__ = (
        "_cuts",
        "_side",
        "clocks",
        "duplication",
        "jitter",
        "link_break",
        "loss",
        "reordering",
        "reordering_delay",
        "slowness",
    )

    def __init__(
        self,
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        reordering: float = 0.0,
        reordering_delay: float = 0.1,  # a guess: some round trips of the simulated networks
        jitter: float = 0.0,
        link_break: float | None = None,
    ) -> None:
        self.loss = loss
        self.duplication = duplication
        self.reordering = reordering
        self.reordering_delay = reordering_delay
        self.jitter = jitter
        self.link_break = link_break
        self.slowness: dict[str, float] = {}
        """Seconds per input, by address."""
        self.clocks: dict[str, Clock] = {}
        """The clocks that do not show true time, by address."""
        self._side: dict[str, int] = {}
        self._cuts: list[tuple[frozenset[str], frozenset[str]]] = []

    # --- partitions --------------------------------------------------------------------------------

    def part(self, groups: Iterable[Iterable[str]]) -> None:
        """Only addresses of one group reach each other; those in no group are one more group.

        This replaces the groups of an earlier call.
        """
        self._side = {
            address: side for side, group in enumerate(groups) for address in sorted(group)
        }

    def cut(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Nothing from these addresses reaches those; the other direction still works."""
        self._cuts.append((frozenset(sources), frozenset(targets)))

    def heal(self) -> None:
        """Undo all parts and cuts."""
        self._side = {}
        self._cuts = []

    def severed(self, source: str, target: str) -> bool:
        """Whether nothing passes from one address to another now."""
        side = self._side
        if side and side.get(source, REST) != side.get(target, REST):
            return True
        return any(source in sources and target in targets for sources, targets in self._cuts)

    # --- nodes -------------------------------------------------------------------------------------

    def slow(self, address: str, seconds: float) -> None:
        """Let a node take so long for each input; 0 makes it quick again, once its queue is done."""
        self.slowness[address] = seconds

    def skew(self, address: str, rate: float, offset: float = 0.0) -> None:
        """Let a node's clock run at this rate from now on, after a step of ``offset`` seconds forward."""
        self.clocks.setdefault(address, Clock()).skew(rate, offset)

    # --- messages ----------------------------------------------------------------------------------

    def fate(self, source: str, target: str, random: Random) -> tuple[Fate, tuple[float, ...]]:
        """What becomes of a message sent now, and the extra delay of each copy that arrives."""
        if (self._side or self._cuts) and self.severed(source, target):
            return "cut", ()
        if self.loss and random.random() < self.loss:
            return "lost", ()
        copies = 2 if self.duplication and random.random() < self.duplication else 1
        if copies == 1 and not self.reordering and not self.jitter:
            return "passed", UNTOUCHED
        held_back = False
        extras = []
        for _ in range(copies):
            extra = random.random() * self.jitter if self.jitter else 0.0
            if self.reordering and random.random() < self.reordering:
                held_back = True
                extra += random.random() * self.reordering_delay
            extras.append(extra)
        return "doubled" if copies == 2 else "late" if held_back else "passed", tuple(extras)
