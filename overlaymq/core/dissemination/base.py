"""The strategy contract: how a topic's batches find its members.

A strategy is one object per (node, topic), made when the node first has to do with the topic, as a
subscriber, a publisher, a forwarder or the root. It is called by the node and **returns effects**; it
never holds its host, reads no clock and keeps no callbacks. It sees a publication only as a ``Batch``
and decides where it goes, never what is inside.

What the node guarantees:

- calls come one at a time; ``now`` never goes back;
- ``root_changed`` is called before anything else, and whenever the owner of the topic's key changes as
  far as this node can tell (only nodes near the key are told of changes far from them by routing);
- ``deliver`` is called only at an active node that owns the key;
- ``fired`` is called with this object's own timers, never with those of one that was forgotten before it;
- ``measured`` is called with the round trip to a peer that ``Measure`` asked for, if it answers;
- ``relieve`` is called when the node has too many children, on the strategy that has the most;
- ``failed`` is called once for every peer verified dead, and for a broken link to a kept peer.

What a strategy must do: return ``Deliver`` for a batch only while the node is a member and at most once
per batch; return ``Notify(Sent)`` for each batch of this node's own once it is handed to links; announce
``Ready`` once and again after a repair; keep every table that peers can grow bounded.

``overlaymq.testing.check_strategy`` is the conformance suite; it runs on every strategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import msgspec

from overlaymq.config import ScampConfig, ScribeConfig, SvConfig
from overlaymq.core.dissemination.load import Load
from overlaymq.events import CreateGroup, Effect, Measure, Replicate, Route, SignalGroup

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from overlaymq.config import DeliveryConfig, RendezvousConfig
    from overlaymq.core.reliability.tree_mode import TreeMode
    from overlaymq.core.reliability.upcalls import Upcalls
    from overlaymq.events import Timer
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Descriptor, Message, Peer

Effects: TypeAlias = list[Effect | Route | Replicate | Measure | CreateGroup | SignalGroup]


class Surroundings(msgspec.Struct, frozen=True):
    """What a strategy is given of its node, once. ``mode``: the topic's, if it takes part in the tree;
    ``load`` is shared by all topics of the node."""

    me: Peer
    random: Random
    rendezvous: RendezvousConfig
    delivery: DeliveryConfig
    scribe: ScribeConfig
    upcalls: Upcalls
    mode: TreeMode | None = None
    load: Load = msgspec.field(default_factory=Load)
    sv: SvConfig = SvConfig()
    scamp: ScampConfig = ScampConfig()
    willing: bool = False
    """Whether the node would forward this topic without being a member."""


class Standing(msgspec.Struct, frozen=True):
    """A node's place in a topic's trees or its views, for people and traces. Joins have a tree of their own
    only where it differs from that of content."""

    role: str
    parent: Peer | None = None
    children: tuple[Peer, ...] = ()
    rpf_parent: Peer | None = None
    rpf_children: tuple[Peer, ...] | None = None
    view: tuple[Peer, ...] = ()
    """Gossip goes to these,"""
    in_view: tuple[Peer, ...] = ()
    """and comes from these."""


class Strategy(ABC):
    """See the module's text for the contract."""

    __slots__ = (
        "around",
        "credentials",
        "descriptor",
    )

    name: ClassVar[str]
    anycasts: ClassVar[bool] = False
    mesh: ClassVar[bool] = False
    """Whether a member is fed by several nodes, and nothing passes one node in particular."""
    takes_volunteers: ClassVar[bool] = False
    ways: ClassVar[bool] = False
    """Whether a node's link to its parent needs others too: then a parent may be lost that has not failed."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        self.descriptor = descriptor
        self.around = around
        self.credentials = b""
        """What this node shows when it joins. Opaque: nobody checks them yet."""

    @abstractmethod
    def subscribe(self, last: int, now: float, note: bytes = b"") -> Effects:
        """This node becomes a member; ``last`` asks for that many recent messages, ``note`` is for the
        upcalls of its parent."""

    @abstractmethod
    def unsubscribe(self, now: float) -> Effects:
        """This node stops being a member."""

    @abstractmethod
    def publish(self, batch: Batch, now: float) -> Effects:
        """Disseminate a batch of this node's own."""

    @abstractmethod
    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """A message about this topic came straight from a peer: a Batch, or one of the strategy's own."""

    @abstractmethod
    def deliver(self, message: Message, source: Peer, now: float) -> Effects:
        """A routed message about this topic ended here, at the owner of its key."""

    @abstractmethod
    def root_changed(self, root: Peer | None, now: float) -> Effects:
        """This node owns the key (root is me), or this neighbour does, or it is too far to know."""

    @abstractmethod
    def failed(self, peer: Peer, now: float) -> Effects:
        """A peer is gone."""

    @abstractmethod
    def fired(self, timer: Timer, now: float) -> Effects:
        """A timer of this strategy came back."""

    @abstractmethod
    def count_members(self, now: float) -> Effects:
        """Answer with ``Notify(Members)``, now or when the root has told."""

    def forward(
        self, message: Message, next_hop: Peer, now: float
    ) -> tuple[Message | None, Effects]:
        """A routed message about this topic passes through: what goes on, if anything (Pastry's forward)."""
        return message, []

    @property
    def standing(self) -> Standing | None:
        """This node's place in the topic's tree or mesh."""
        return None

    def volunteer(self, willing: bool, now: float) -> Effects:
        """Forward without being a member, or no more, if the strategy knows volunteers."""
        return []

    def measured(self, peer: Peer, seconds: float, now: float) -> Effects:
        """The round trip that ``Measure`` asked for."""
        return []

    def relieve(self, now: float) -> Effects:
        """The node has too many children (``Surroundings.load``), and most of them in this topic."""
        return []

    def group_asked(
        self, group: Id, creator: Peer, members: tuple[Peer, ...], now: float
    ) -> tuple[bool, Effects]:
        """Another node makes a failure group over this one, about this topic: whether it takes part."""
        return False, []

    def group_created(self, group: Id, now: float) -> Effects:
        """The failure group that ``CreateGroup`` asked for exists: all members have answered."""
        return []

    def group_failed(self, group: Id, now: float) -> Effects:
        """A failure group has failed, or could not be made: called once for each that this node took part
        in or asked for, also after its own ``SignalGroup``. As long as there is one, ``idle`` is false."""
        return []

    def depart(self, now: float) -> Effects:
        """This node will leave soon: find others for what it does here."""
        return []

    @property
    def needed(self) -> bool:
        """Whether somebody would miss something if this node left now."""
        return False

    @property
    @abstractmethod
    def kept(self) -> Collection[Peer]:
        """The peers this topic needs open links to."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether the node may forget this object: no member, no role, nothing pending."""
