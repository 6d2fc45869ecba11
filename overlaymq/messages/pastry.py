"""What the nodes of the ring say to each other: joining, repair, liveness and questions about owners.

Tables travel as they are kept: leaf sets as peers, routing tables as rows. ``Peer`` is here because
everything else names nodes by it. ``Routed`` holds any message, so it is in the package's own module.
"""

from __future__ import annotations

import msgspec

from overlaymq.ids import Id


class Peer(msgspec.Struct, frozen=True, gc=False):
    """How to reach a node. A restarted node has a larger incarnation."""

    id: Id
    address: str
    incarnation: int = 0


class Row(msgspec.Struct, frozen=True, gc=False):
    """One routing table row, or what is known of it."""

    number: int
    entries: tuple[Peer, ...] = ()


class RoutedAck(msgspec.Struct, frozen=True, gc=False):
    """The next hop has accepted (not delivered) a routed message."""

    serial: int


class JoinRequest(msgspec.Struct, frozen=True, gc=False):
    """Routed to the joiner's own id; collects routing table rows on its way."""

    joiner: Peer
    rows: tuple[Row, ...] = ()


class JoinReply(msgspec.Struct, frozen=True, gc=False):
    """From the node closest to the joiner: the collected rows and its own leaf set."""

    rows: tuple[Row, ...] = ()
    leaves: tuple[Peer, ...] = ()


class JoinRefused(msgspec.Struct, frozen=True, gc=False):
    """Why the joiner may not enter: its id is live somewhere else, or the node is not ready."""

    reason: str
    fatal: bool = False


class StateRequest(msgspec.Struct, frozen=True, gc=False):
    """Ask for parts of a node's state. ``deepest`` asks how many rows are populated."""

    serial: int
    rows: tuple[int, ...] = ()
    leaves: bool = False
    neighbours: bool = False


class StateReply(msgspec.Struct, frozen=True, gc=False):
    """What was asked for; ``depth`` is the number of populated rows."""

    serial: int
    depth: int = 0
    rows: tuple[Row, ...] = ()
    leaves: tuple[Peer, ...] = ()
    neighbours: tuple[Peer, ...] = ()


class LeafProbe(msgspec.Struct, frozen=True, gc=False):
    """Are you there, and who is near you? Carries what the sender believes (MSPastry LS-PROBE), whether it is
    active or still joining, and how far counter-clockwise and clockwise it knows everybody."""

    leaves: tuple[Peer, ...] = ()
    failed: tuple[Id, ...] = ()
    active: bool = True
    before: Id = Id(0)
    after: Id = Id(0)


class LeafProbeReply(msgspec.Struct, frozen=True, gc=False):
    """The answer, with the answerer's beliefs."""

    leaves: tuple[Peer, ...] = ()
    failed: tuple[Id, ...] = ()
    active: bool = True
    before: Id = Id(0)
    after: Id = Id(0)


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """I am alive and take you for my neighbour: may I answer for my keys? ``asked_at``: my clock.
    ``digest``: of the failure groups that I watch together with you (``FusePing``)."""

    asked_at: float
    digest: int = 0


class Lease(msgspec.Struct, frozen=True, gc=False):
    """You may, for a while from when you asked; till then I keep you. ``digest``: as in ``Heartbeat``."""

    asked_at: float
    digest: int = 0


class Announce(msgspec.Struct, frozen=True, gc=False):
    """I am active now. Rows that the receiver may take entries from."""

    rows: tuple[Row, ...] = ()


class SlotRequest(msgspec.Struct, frozen=True, gc=False):
    """Lazy repair: who do you know for this routing table slot?"""

    row: int
    column: int


class SlotReply(msgspec.Struct, frozen=True, gc=False):
    """The entry of that slot, if there is one."""

    row: int
    column: int
    entry: Peer | None = None


class RowOffer(msgspec.Struct, frozen=True, gc=False):
    """Here is a row of mine (hole patching and periodic exchange); ``reply`` asks for yours."""

    row: Row
    reply: bool = False


class Distance(msgspec.Struct, frozen=True, gc=False):
    """I measured this round trip to you, so you need not (MSPastry's symmetric probes)."""

    seconds: float


class Departing(msgspec.Struct, frozen=True, gc=False):
    """I leave on purpose; my leaf set may help you close the gap."""

    leaves: tuple[Peer, ...] = ()


class LookupRequest(msgspec.Struct, frozen=True, gc=False):
    """Who owns this key? Routed to it."""

    request: int


class LookupReply(msgspec.Struct, frozen=True, gc=False):
    """I do; it took this many hops."""

    request: int
    key: Id
    hops: int


class Ping(msgspec.Struct, frozen=True, gc=False):
    """A round trip through both cores (the transport's own probes stop at its links)."""

    request: int


class Pong(msgspec.Struct, frozen=True, gc=False):
    """The way back."""

    request: int
