"""The transport contract.

A transport carries messages between authenticated nodes. It belongs to one node, is used from that
node's trio thread only, and promises:

- ``send`` and ``send_batch`` never wait and never raise for what the network does. A link is dialled
  when first needed. Messages to one peer arrive in the order sent, control and data each on its own;
  a message is lost only together with its link, and then ``Inbox.failed`` is called.
- A peer is known by an id that it has proved. ``Inbox.received`` names the proven peer, whatever the
  message says.
- At most one link per peer: simultaneous dials end as one link and lose nothing.
- ``Inbox`` methods are called on the trio thread, never from inside a call into the transport. They must
  not block, and they may call the transport.
- For one link the calls come in this order: ``opened``, any ``received``, then one ``failed`` or
  ``closed``. A dial that fails gives only ``failed``.
- Every queue has a bound. What overflows is counted under a reason (``Inbox.dropped``).

``overlaymq.testing.check_transport`` is the conformance suite; it runs on every implementation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import msgspec

from overlaymq.messages import Peer

if TYPE_CHECKING:
    from collections.abc import Collection

    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Message


class Inbox(Protocol):
    """What a transport tells its node."""

    def opened(self, peer: Peer) -> None:
        """A link to this peer is usable: a fresh one, so credits start anew."""

    def received(self, peer: Peer, message: Message) -> None:
        """A control message or a batch arrived."""

    def failed(self, peer: Peer, reason: str, gone: bool = False) -> None:
        """The link broke or could not be opened; what was queued on it is lost. ``gone``: the other
        machine says that nobody listens at the peer's address, so its process is not there."""

    def closed(self, peer: Peer) -> None:
        """The link ended as both sides wished (idle, or the peer said goodbye)."""

    def measured(self, peer: Peer, seconds: float, offset: int | None = None) -> None:
        """The round trip that ``probe`` asked for; by how many nanoseconds the peer's wall clock is ahead of
        this one's, if it has told, to half a round trip."""

    def drained(self) -> None:
        """A backlog that ``watch`` was called for is written."""

    def dropped(self, reason: str, count: int) -> None:
        """Something was discarded."""


class LinkInfo(msgspec.Struct, frozen=True):
    """A link as `status` shows it."""

    peer: Peer
    dialled: bool
    backlog: int


class Transport(ABC):
    """See the module's text for the contract."""

    @abstractmethod
    async def start(self, inbox: Inbox) -> Peer:
        """Listen, and return this node's own Peer with the address others can reach it at."""

    @abstractmethod
    async def connect(self, address: str) -> Peer:
        """Open a link to whoever listens there and return who it is.

        Raises LinkRefused, saying what happened and what to do; OwnAddress for an address of this node.
        """

    @abstractmethod
    def send(self, peer: Peer, message: Message) -> None:
        """Queue a control message."""

    @abstractmethod
    def send_batch(self, peer: Peer, batch: Batch) -> None:
        """Queue a batch on the data stream."""

    @abstractmethod
    def flush(self) -> None:
        """Write what is queued now, not only when the application pauses. A hint."""

    @abstractmethod
    def backlog(self, peer: Peer) -> int:
        """Bytes of batches handed over for this peer and not yet written."""

    @abstractmethod
    def watch(self, peer: Peer) -> None:
        """Call ``Inbox.drained`` once when this peer's backlog is written or lost."""

    @abstractmethod
    def probe(self, peer: Peer) -> None:
        """Measure the round trip; ends in ``Inbox.measured`` or ``Inbox.failed``."""

    @abstractmethod
    def keep(self, peers: Collection[Id]) -> None:
        """Keep links to these peers open; any other link may be closed once it is idle."""

    @abstractmethod
    def links(self) -> tuple[LinkInfo, ...]:
        """The open links."""

    @abstractmethod
    async def aclose(self) -> None:
        """Write what is queued, say goodbye, and end within the configured grace."""
