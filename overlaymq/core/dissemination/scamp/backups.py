"""Members that a node knows of and does not need now: for the day when a neighbour, or a contact, fails.

They come from the rendezvous and from what subscriptions tell of others. The oldest go first; one that has
failed or is no member any more goes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from random import Random

    from overlaymq.ids import Id
    from overlaymq.messages import Peer


class Backups:
    """At most ``most`` of them, and never the node itself."""

    __slots__ = ("_me", "_most", "_peers")

    def __init__(self, me: Id, most: int) -> None:
        self._me = me
        self._most = most
        self._peers: dict[Id, Peer] = {}

    def remember(self, peers: Iterable[Peer]) -> None:
        """These are members."""
        for peer in peers:
            if peer.id != self._me:
                self._peers.pop(peer.id, None)
                self._peers[peer.id] = peer
        while len(self._peers) > self._most:
            del self._peers[next(iter(self._peers))]

    def forget(self, peer: Id) -> None:
        """This one is none, or gone."""
        self._peers.pop(peer, None)

    def draw(self, random: Random, without: Container[Id] = ()) -> Peer | None:
        """One of them at random, but for these, if there is one."""
        others = [peer for id_, peer in self._peers.items() if id_ not in without]
        return random.choice(others) if others else None
