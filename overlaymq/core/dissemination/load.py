"""How much a node forwards over all its topics.

Scribe bounds a node's children over all topics (JSAC IV-E), and a strategy sees only its own topic. So
the strategies of one node share a ``Load``: each writes down how many children it has, and the node, when
that is too many, asks the strategy with the most to send one away (``Strategy.relieve``). All children
are taken to cost the same, as in the paper's simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlaymq.ids import Id


class Load:
    """Children by topic, and their sum. A bound of 0 is none."""

    __slots__ = ("_bound", "_children", "changed", "total")

    def __init__(self, bound: int = 0) -> None:
        self._bound = bound
        self._children: dict[Id, int] = {}
        self.total = 0
        self.changed = False
        """Whether there are too many, in other numbers than when it was last asked for the heaviest."""

    def carries(self, topic: Id, children: int) -> None:
        """A topic has so many children now."""
        before = self._children.get(topic, 0)
        if children == before:
            return
        self.total += children - before
        if children:
            self._children[topic] = children
        else:
            del self._children[topic]
        self.changed = self.overloaded

    @property
    def overloaded(self) -> bool:
        """Whether a child must go."""
        return 0 < self._bound < self.total

    @property
    def full(self) -> bool:
        """Whether one more would be too many."""
        return 0 < self._bound <= self.total

    def heaviest(self) -> Id | None:
        """The topic with the most children; of several, the one that has had some for longest."""
        self.changed = False
        return max(self._children, key=self._children.__getitem__, default=None)
