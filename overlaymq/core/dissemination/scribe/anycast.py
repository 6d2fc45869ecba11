"""Anycast: find a member that accepts something, or some of them (NGC 2003; the search is FreePastry's).

An anycast is routed to the topic's key until it meets a node of the tree. Routes converge near their
source, so that is one near the sender. From there it searches the tree depth first: a node that is a
member may accept; then come its children, in random order so that the load spreads, and last its parent.
The message carries who was visited and who is still to be, so nodes keep nothing; it ends when enough
have accepted, or when nobody is left. Acceptors answer the sender themselves; the last node tells it that
the search is over. With more than one wanted this is a manycast.

Both lists are bounded, and what they cannot hold is not searched; the sender is told so. A node that
fails while it has the message ends the search: the sender's deadline tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from overlaymq.core.dissemination.scribe.shapes import Shaping
from overlaymq.events import Send
from overlaymq.messages import AnycastOver, AnycastTaken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.core.dissemination.base import Effects
    from overlaymq.messages import Peer, TreeAnycast

MAX_VISITED = 1024
"""Nodes that one search visits: a guess. Their ids take 16 KiB."""
MAX_TO_VISIT = 512
"""Nodes that wait to be visited: a guess, above the children of a whole path."""


def passed_on(
    search: TreeAnycast, me: Peer, found: Iterable[Peer] = (), last: Peer | None = None
) -> Send:
    """Where a search goes from a node: first to those found here, at the very end to ``last``."""
    known = {me.id, *search.visited, *[peer.id for peer in search.to_visit]}
    fresh = [peer for peer in found if peer.id not in known]
    after = [last] if last is not None and last.id not in known else []
    waiting = [*fresh, *search.to_visit, *after]
    cut = search.cut or len(waiting) > MAX_TO_VISIT
    visited = (*search.visited, me.id)
    if not waiting or len(visited) >= MAX_VISITED:
        over = AnycastOver(search.request, search.accepted, cut or bool(waiting))
        return Send(search.origin, over)
    there, *rest = waiting[:MAX_TO_VISIT]
    return Send(there, replace(search, visited=visited, to_visit=tuple(rest), cut=cut))


class Searching(Shaping):
    """A place in the tree that searches pass through."""

    __slots__ = ()

    anycasts: ClassVar[bool] = True

    def _visited(self, search: TreeAnycast, now: float) -> Effects:
        """Offer it to the application, and pass it on if more are wanted."""
        me = self.around.me
        effects: Effects = []
        if me.id not in search.visited and self._accepts(search, now):
            effects.append(Send(search.origin, AnycastTaken(search.request)))
            search = replace(search, wanted=search.wanted - 1, accepted=search.accepted + 1)
        effects += self._asked()
        if search.wanted <= 0:
            return effects
        below = [child.peer for child in self._children.values()]
        self.around.random.shuffle(below)
        return [*effects, passed_on(search, me, below, self._parent)]

    def _accepts(self, search: TreeAnycast, now: float) -> bool:
        upcall = self.around.upcalls.on_anycast
        if not self._subscribed or upcall is None or search.origin.id == self.around.me.id:
            return False
        # An upcall that raises gives its argument back, which is no consent.
        return upcall(search.payload, search.origin, self._look(now)) is True
