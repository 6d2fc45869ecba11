"""Which of a node's RPF branches feed which others: a partial order (SV 3.2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlaymq.ids import Id


class Order:
    """Edges between branches, each there because of a link."""

    __slots__ = ("_edges",)

    def __init__(self) -> None:
        self._edges: dict[Id, tuple[Id, Id]] = {}

    def add(self, link: Id, feeds: Id, fed: Id) -> None:
        """By this link, one branch feeds the other."""
        self._edges[link] = (feeds, fed)

    def remove(self, link: Id) -> None:
        """The link is no more."""
        self._edges.pop(link, None)

    def fed_by(self, branch: Id) -> set[Id]:
        """The branch itself, and all that it feeds, directly or not."""
        found = {branch}
        waiting = [branch]
        for one in waiting:
            for feeds, fed in self._edges.values():
                if feeds == one and fed not in found:
                    found.add(fed)
                    waiting.append(fed)
        return found
