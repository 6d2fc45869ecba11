"""How strategies call the application's upcalls: they see a ``Tree``, and what they ask for is done after."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from overlaymq.core.dissemination.base import Effects, Strategy
from overlaymq.core.reliability.upcalls import MAX_NOTE, Joining
from overlaymq.events import Dropped, Notify

if TYPE_CHECKING:
    from overlaymq.core.reliability.upcalls import Tree
    from overlaymq.messages import Batch, Peer, TreeNote


class Upcalling(Strategy):
    """A strategy that keeps the upcalls' view of the tree. ``_tree`` holds its children."""

    _tree: Tree
    _subscribed: bool

    @property
    @abstractmethod
    def _above(self) -> Peer | None:
        """Who feeds this node, if it is another one."""

    @property
    @abstractmethod
    def _is_root(self) -> bool:
        """Whether everything starts here."""

    def _look(self, now: float) -> Tree:
        """The tree as an upcall may see it now."""
        tree = self._tree
        tree.parent, tree.is_root = self._above, self._is_root
        tree.member, tree.now = self._subscribed, now
        return tree

    def _asked(self) -> Effects:
        """What upcalls have asked for since the last time."""
        asked: Effects = [*self._tree.effects]
        self._tree.effects.clear()
        return asked

    def _passed(self, batch: Batch, now: float) -> Batch | None:
        """What the application lets pass."""
        on_forward = self.around.upcalls.on_forward
        return batch if on_forward is None else on_forward(batch, self._look(now))

    def _told_joined(self, child: Peer, note: bytes, now: float) -> Effects:
        if self.around.upcalls.on_join is None:
            return []
        self.around.upcalls.on_join(Joining(child, note[:MAX_NOTE]), self._look(now))
        return self._asked()

    def _told_fault(self, lost: Peer, now: float) -> tuple[bytes, Effects]:
        """The note that goes with the repair join."""
        if self.around.upcalls.on_fault is None:
            return b"", []
        joining = Joining(lost)
        self.around.upcalls.on_fault(joining, self._look(now))
        return joining.note, self._asked()

    def _noted(self, peer: Peer, message: TreeNote, now: float) -> Effects:
        above = self._above
        if self._tree.child(peer.id) is None and (above is None or above.id != peer.id):
            return [Notify(Dropped("note of a stranger"))]
        if self.around.upcalls.on_note is None or len(message.note) > MAX_NOTE:
            return [Notify(Dropped("note that nobody wants"))]
        self.around.upcalls.on_note(peer, message.note, self._look(now))
        return self._asked()

    def _timed(self, token: int, now: float) -> Effects:
        if self.around.upcalls.on_timer is None:
            return []
        self.around.upcalls.on_timer(token, self._look(now))
        return self._asked()
