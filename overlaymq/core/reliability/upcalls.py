"""The papers' extension point: upcalls, the same for all strategies (Scribe JSAC III-B).

``on_forward`` sees each batch at the root, and wherever there are children, before it is passed on; it may
return a changed batch, or None to stop it. ``on_join`` is told after a child was added. ``on_fault`` is
called before a repair join is sent and may add a note to it, which the new parent's ``on_join`` reads. With
these three and a buffer one can build reliable delivery (JSAC III-B.2), and the shipped modes are built so.

What a node needs for that is in the ``Tree`` that every upcall gets: who is above and below, a way to send a
batch or a note to them, and timers. Asking is all that an upcall does: what it asked for is kept in
``effects`` and performed by the strategy after the call. So a Tree holds no function and no node, and can be
written into a flight record like the rest of the core.

Upcalls are synchronous; what they raise is contained by the node, counted, and treated as if the upcall
were absent for that call. They cost nothing when absent: strategies test ``None`` before they call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from overlaymq.events import Deliver, Notify, Replicate, Route, Send, SetTimer, Timer
from overlaymq.messages import TreeNote

if TYPE_CHECKING:
    from overlaymq.events import Effect, Event, Measure
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Descriptor, Message, Peer

MAX_NOTE = 1024
"""Bytes of a note: a guess, enough for what a child must tell its parent."""


class Joining(msgspec.Struct):
    """A join that was taken, with its note; or one that is about to be sent, and gets one.

    ``peer`` is the child that joined, or the parent whose loss makes this node join again."""

    peer: Peer
    note: bytes = b""


class HasPeer(Protocol):
    """An entry of a children table."""

    peer: Peer


class Tree:
    """What an upcall sees of the tree around its node, and what it may ask for."""

    __slots__ = (
        "_children",
        "descriptor",
        "effects",
        "is_root",
        "me",
        "member",
        "now",
        "parent",
    )

    part = "topic.upcall"

    def __init__(self, me: Peer, descriptor: Descriptor, children: Mapping[Id, HasPeer]) -> None:
        self.me = me
        self.descriptor = descriptor
        self.parent: Peer | None = None
        self.is_root = False
        self.member = False
        self.now = 0.0
        self.effects: list[Effect | Route | Replicate | Measure] = []
        self._children = children

    @property
    def children(self) -> tuple[Peer, ...]:
        """Who is fed by this node."""
        return tuple([child.peer for child in self._children.values()])

    def child(self, id_: Id) -> Peer | None:
        """The child of this id, if there is one."""
        child = self._children.get(id_)
        return None if child is None else child.peer

    def send(self, peer: Peer, batch: Batch) -> None:
        """Give a batch to the parent or to a child."""
        self._check(peer)
        self.effects.append(Send(peer, batch))

    def tell(self, peer: Peer, note: bytes) -> None:
        """Give a note to the parent or to a child: its ``on_note`` gets it."""
        self._check(peer)
        if len(note) > MAX_NOTE:
            raise ValueError(f"a note has at most {MAX_NOTE} bytes, not {len(note)}")
        self.effects.append(Send(peer, TreeNote(self.descriptor.id, note)))

    def set_timer(self, delay: float, token: int = 0) -> None:
        """Call ``on_timer`` with this number after so many seconds."""
        self.effects.append(SetTimer(Timer(self.part, self.descriptor.id, token), delay))

    def _check(self, peer: Peer) -> None:
        if peer.id not in self._children and (self.parent is None or peer.id != self.parent.id):
            raise ValueError(f"{peer.address} is neither the parent nor a child of this node")


class ModeTree(Tree):
    """The same for a reliability mode, which may also deliver and announce, and whose notes are messages."""

    __slots__ = ("again", "source")

    part = "topic.mode"

    def __init__(self, me: Peer, descriptor: Descriptor, children: Mapping[Id, HasPeer]) -> None:
        super().__init__(me, descriptor, children)
        self.again: list[Batch] = []
        self.source: Peer | None = None
        """Whom the batch in hand came from."""

    def publish_again(self, batch: Batch) -> None:
        """Send a batch to the root as if it had never been there."""
        self.again.append(batch)

    def say(self, peer: Peer, message: Message) -> None:
        """Send a message of the mode's own."""
        self.effects.append(Send(peer, message))

    def pass_on(self, node: Id, message: Message) -> None:
        """Send a message to a node that is known only by its id."""
        self.effects.append(Route(node, message))

    def deliver(self, batch: Batch) -> None:
        """Give a batch to this node's subscriptions."""
        self.effects.append(Deliver(batch))

    def announce(self, event: Event) -> None:
        """Tell the application."""
        self.effects.append(Notify(event))

    def replicate(self, message: Message) -> None:
        """Give a message to those that may become the root."""
        self.effects.append(Replicate(self.descriptor.key, message))


OnForward = Callable[["Batch", Tree], "Batch | None"]
OnJoin = Callable[[Joining, Tree], None]
OnFault = Callable[[Joining, Tree], None]
OnNote = Callable[["Peer", bytes, Tree], None]
OnTimer = Callable[[int, Tree], None]
OnAnycast = Callable[[bytes, "Peer", Tree], bool]


class Upcalls(msgspec.Struct):
    """The upcalls of one topic on one node."""

    on_forward: OnForward | None = None
    on_join: OnJoin | None = None
    on_fault: OnFault | None = None
    on_note: OnNote | None = None
    on_timer: OnTimer | None = None
    on_anycast: OnAnycast | None = None


def contained(upcalls: Upcalls, errors: list[str]) -> Upcalls:
    """The same upcalls, with what they raise noted instead of raised."""

    def guarded(name: str) -> Callable[..., Any] | None:
        upcall = getattr(upcalls, name)
        if upcall is None:
            return None

        def call(*arguments: Any) -> Any:
            asked = arguments[-1].effects
            before = len(asked)
            try:
                return upcall(*arguments)
            except Exception as error:  # user code may raise anything; the node goes on
                errors.append(f"{name}: {error!r}")
                del asked[before:]
                return arguments[0]  # a batch passes unchanged; the others' answer is not looked at

        return call

    return Upcalls(*(guarded(name) for name in Upcalls.__struct_fields__))
