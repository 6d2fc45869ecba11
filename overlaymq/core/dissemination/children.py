"""The table of those whom a node feeds: soft state, refreshed or forgotten (Scribe JSAC III-B.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlaymq.messages import Peer


class Child:
    """An entry of the children table; ``members`` counts the subtree's, ``serial`` is the child's number of
    the join that brought it, ``credentials`` are what it showed."""

    __slots__ = ("credentials", "expires", "members", "peer", "serial")

    def __init__(
        self,
        peer: Peer,
        expires: float,
        members: int = 1,
        serial: int = 0,
        credentials: bytes = b"",
    ) -> None:
        self.peer = peer
        self.expires = expires
        self.members = members
        self.serial = serial
        self.credentials = credentials
