"""What a node remembers of forwarding links whose ways lead through it.

A *way* leads from the joiner to the node that feeds it. Seen from a node on it there is a neighbour *before*,
on the joiner's side, and one *after*, on the feeder's side. A link is tentative until its failure group asks
for this node; then it lives as long as the group does.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from overlaymq.core.dissemination.sv.order import Order

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Peer, SvJoin

FOREVER = float("inf")


class Part(Enum):
    """What a node does on a way."""

    UP = "passes the join up"
    TURN = "sends probes down"
    DOWN = "passes a probe down"
    FEEDS = "feeds the joiner"


class Link:
    """One way through, or to, this node."""

    __slots__ = ("after", "ask", "before", "expires", "part", "probed", "rising")

    def __init__(
        self,
        part: Part,
        ask: SvJoin,
        expires: float,
        probed: tuple[Peer, ...] = (),
        rising: bool = True,
    ) -> None:
        self.part = part
        self.rising = rising
        """Whether it came as a join, from an RPF child, and not as a probe."""
        self.ask = ask
        self.before = ask.path[-1]
        self.after: Peer | None = None
        self.probed = probed
        """The children that may be after this node."""
        self.expires = expires

    @property
    def settled(self) -> bool:
        """Whether it is more than tentative."""
        return self.expires == FOREVER


class Links:
    """All of a topic's at one node."""

    __slots__ = ("_branches", "_links", "_order", "_peers")

    def __init__(self) -> None:
        self._links: dict[Id, Link] = {}
        self._branches: dict[Id, dict[Id, None]] = {}
        self._peers: dict[Id, Peer] = {}
        self._order = Order()

    def __len__(self) -> int:
        return len(self._links)

    def __contains__(self, id_: Id) -> bool:
        return id_ in self._links

    def get(self, id_: Id) -> Link | None:
        """A link that is known."""
        return self._links.get(id_)

    def of(self, part: Part) -> list[Id]:
        """The links in which this node has that part."""
        return [id_ for id_, link in self._links.items() if link.part is part]

    def promised(self) -> list[Peer]:
        """The joiners whose join came up to here, was answered, and has not become a link yet. Offers to
        probes are not among them: of the several that a probe brings, one is taken."""
        promises = {
            link.ask.join.child.id: link.ask.join.child
            for link in self._links.values()
            if link.part is Part.FEEDS and link.rising and not link.settled
        }
        return list(promises.values())

    @property
    def sent_up(self) -> Id | None:
        """The first join that was sent up, and is not known to have come to nothing."""
        return next((id_ for id_, link in self._links.items() if link.part is Part.UP), None)

    @property
    def above(self) -> Peer | None:
        """The RPF parent: where the way of the join that was sent up goes on."""
        id_ = self.sent_up
        return None if id_ is None else self._links[id_].after

    @property
    def branches(self) -> tuple[Peer, ...]:
        """The RPF children."""
        return tuple(self._peers.values())

    def branches_for(self, branch: Id) -> list[Peer]:
        """The RPF children that a join from one branch may be sent to."""
        fed = self._order.fed_by(branch)
        return [peer for id_, peer in self._peers.items() if id_ not in fed]

    def stranded(self) -> list[SvJoin]:
        """The joins that were sent only into branches that are no more."""
        return [
            link.ask
            for link in self._links.values()
            if link.part is Part.TURN
            and not link.settled
            and not any(peer.id in self._branches for peer in link.probed)
        ]

    def add(self, link: Link) -> None:
        """A join or a probe has come by."""
        id_ = link.ask.link
        self._links[id_] = link
        if link.rising:
            self._branch(link.before, id_)

    def settle(self, id_: Id, after: Peer | None) -> None:
        """The link exists."""
        link = self._links[id_]
        link.after, link.expires = after, FOREVER
        if after is None or link.part is Part.UP:
            return
        self._branch(after, id_)
        if link.part is Part.TURN:
            self._order.add(id_, after.id, link.before.id)

    def remove(self, id_: Id) -> Link | None:
        """The link exists no more, or never will."""
        link = self._links.pop(id_, None)
        self._order.remove(id_)
        for branch in [one for one, because in self._branches.items() if id_ in because]:
            del self._branches[branch][id_]
            if not self._branches[branch]:
                del self._branches[branch], self._peers[branch]
        return link

    def expire(self, now: float) -> None:
        """Forget tentative links that nothing came of."""
        for id_ in [id_ for id_, link in self._links.items() if link.expires <= now]:
            self.remove(id_)

    def next_expiry(self) -> float | None:
        """When the first tentative link will be forgotten."""
        due = min((link.expires for link in self._links.values()), default=FOREVER)
        return None if due == FOREVER else due

    def _branch(self, peer: Peer, link: Id) -> None:
        self._branches.setdefault(peer.id, {})[link] = None
        self._peers[peer.id] = peer
