"""Whom a root asks for what it lacks: children that came further, or may have.

A child says in its join what it expects next, so it has, or has had, all that is before that. What is beyond
it may have too: a gap holds back what came after it. Only a child that has said that it lacks a range is not
asked for that again until it joins anew; it is still asked for others. A child that does not answer may be
dead, and is not known to be for a while: those that were asked less often come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.messages import Epoch, Place

if TYPE_CHECKING:
    from overlaymq.core.reliability.upcalls import ModeTree
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

Range = tuple[Epoch, int, int]
"""An epoch, the first and the last number."""
MAX_LACKS = 64
"""Ranges that are remembered as lacking of one child, the latest: a guess."""


class Claims:
    """What children expected when they joined, and what they have said since that they lack."""

    __slots__ = ("_asked", "_expects", "_lacks")

    def __init__(self) -> None:
        self._expects: dict[Id, Place] = {}
        self._lacks: dict[Id, dict[Range, None]] = {}
        self._asked: dict[Id, int] = {}
        """How often, since it joined or answered."""

    def joined(self, child: Id, expects: Place) -> None:
        """A child has joined, perhaps again."""
        self._expects[child] = expects
        self._lacks.pop(child, None)
        self._asked[child] = 0

    def forget(self, child: Id) -> None:
        """It is gone, or claims nothing."""
        self._expects.pop(child, None)
        self._lacks.pop(child, None)
        self._asked.pop(child, None)

    def sweep(self, tree: ModeTree) -> None:
        """Forget those that are children no more."""
        for id_ in [one for one in self._expects if tree.child(one) is None]:
            self.forget(id_)

    def lacking(self, child: Id, range_: Range) -> None:
        """It has said so."""
        if child not in self._expects:
            return
        self._asked[child] = 0
        said = self._lacks.setdefault(child, {})
        said[range_] = None
        if len(said) > MAX_LACKS:
            del said[next(iter(said))]

    def whom_to_ask(self, wanted: Range, tree: ModeTree) -> Peer | None:
        """A child that is beyond this range or, if none is, has come furthest towards it."""
        there = [
            (claim, id_)
            for id_, claim in self._expects.items()
            if tree.child(id_) is not None and not self._is_lacking(id_, wanted)
        ]
        beyond = sorted([pair for pair in there if pair[0] > Place(wanted[0], wanted[2])])
        order = beyond or sorted(there, reverse=True)
        if not order:
            return None
        chosen = min([id_ for _, id_ in order], key=self._asked.__getitem__)
        self._asked[chosen] += 1
        return tree.child(chosen)

    def _is_lacking(self, child: Id, wanted: Range) -> bool:
        epoch, first, last = wanted
        said = self._lacks.get(child, ())
        return any(one[0] == epoch and one[1] <= first and last <= one[2] for one in said)
