"""What Pastry asks of the layer above it: the papers' application interface (Scribe JSAC II-C).

``route`` and ``send`` go down, ``forward``, ``deliver`` and ``new_leafs`` come up. The upcalls return
effects, like everything in the core; ``Route`` among them is resolved by the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.messages import Message, Peer, Routed


class Application(Protocol):
    """The layer above."""

    def forward(
        self, routed: Routed, next_hop: Peer, now: float
    ) -> tuple[Routed, Peer | None, Effects]:
        """Just before a message goes to next_hop. May change the message or the next hop; None ends it."""

    def deliver(self, routed: Routed, now: float) -> Effects:
        """This node owns the key."""

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """A message that is not Pastry's came straight from a peer (the papers' send)."""

    def new_leafs(self, now: float) -> Effects:
        """The leaf set changed."""

    def peer_died(self, peer: Peer, now: float) -> Effects:
        """A peer was verified dead and removed."""
