"""What rides on the heartbeats between ring neighbours: a digest of what the layer above shares with them.

Pastry does not know what it means. It asks for it when it sends a ``Heartbeat`` or a ``Lease``, and hands
over what it gets; 0 says nothing and costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.ids import Id
    from overlaymq.messages import Peer


class Rider(Protocol):
    """Who has something to say to neighbours."""

    def digest(self, peer: Id, now: float) -> int:
        """What a message to a neighbour carries."""

    def heard(self, peer: Peer, digest: int, now: float) -> Effects:
        """What a message from one carried."""


class NoRider:
    """Nobody has."""

    __slots__ = ()

    def digest(self, peer: Id, now: float) -> int:
        """Nothing."""
        return 0

    def heard(self, peer: Peer, digest: int, now: float) -> Effects:
        """Nobody listens."""
        return []
