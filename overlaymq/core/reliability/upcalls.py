"""The papers' extension point: upcalls, the same for all strategies (Scribe JSAC III-B).

``on_forward`` sees each batch at the root, and wherever there are children, before it is passed on; it may
return a changed batch, or None to stop it. Only the body can be changed: which batch it is and which place
the root gave it are what copies are known by, and what has no number is taken for a publication. ``on_join``
is told after a child was added. ``on_fault`` is called before a repair join is sent and may add a note to
it, which the new parent's ``on_join`` reads. With these three and a buffer one can build reliable delivery
(JSAC III-B.2), and the shipped modes are built so.

What a node needs for that is in the ``Tree`` that every upcall gets: who is above and below, a way to send a
batch or a note to them, and timers. Asking is all that an upcall does: what it asked for is kept in
``effects`` and performed by the strategy after the call. So a Tree holds no function and no node, and can be
written into a flight record like the rest of the core.

Upcalls are synchronous; what they raise is contained by the node, counted, reported, and treated as if the
upcall were absent for that call; so is an answer or a note that is none. They cost nothing when absent:
strategies test ``None`` before they call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from overlaymq.events import Deliver, Notify, Replicate, Route, Send, SetTimer, Timer
from overlaymq.messages import Batch, TreeNote

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.events import Event
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Message, Peer, RootState

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
        self.effects: Effects = []
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
        _check_batch(batch)
        if batch.topic != self.descriptor.id:
            raise ValueError("a batch of another topic")
        self.effects.append(Send(peer, batch))

    def tell(self, peer: Peer, note: bytes) -> None:
        """Give a note to the parent or to a child: its ``on_note`` gets it."""
        self._check(peer)
        _check_note(note)
        self.effects.append(Send(peer, TreeNote(self.descriptor.id, note)))

    def set_timer(self, delay: float, token: int = 0) -> None:
        """Call ``on_timer`` with this number after so many seconds."""
        _check_timer(delay, token)
        self.effects.append(SetTimer(Timer(self.part, self.descriptor.id, token), delay))

    def _check(self, peer: Peer) -> None:
        if peer.id not in self._children and (self.parent is None or peer.id != self.parent.id):
            raise ValueError(f"{peer.address} is neither the parent nor a child of this node")


class ModeTree(Tree):
    """The same for a reliability mode, which may also deliver and announce, and whose notes are messages."""

    __slots__ = ("again", "reticent", "rooted", "source")

    part = "topic.mode"

    def __init__(self, me: Peer, descriptor: Descriptor, children: Mapping[Id, HasPeer]) -> None:
        super().__init__(me, descriptor, children)
        self.again: list[Batch] = []
        self.source: Peer | None = None
        """Whom the batch in hand came from."""
        self.rooted = True
        """Whether the way up is known to end at the root."""
        self.reticent = False
        """Whether this node passes on nothing but what it has numbered itself."""

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

    def replicate(self, state: RootState) -> None:
        """Give a root's state to those that may become the root."""
        self.effects.append(Replicate(self.descriptor.key, state))


OnForward = Callable[[Batch, Tree], "Batch | None"]
OnJoin = Callable[[Joining, Tree], None]
OnFault = Callable[[Joining, Tree], None]
OnNote = Callable[["Peer", bytes, Tree], None]
OnTimer = Callable[[int, Tree], None]
OnAnycast = Callable[[bytes, "Peer", Tree], bool]
Report = Callable[[str, Exception], None]
"""Is told the name of an upcall that failed, and how, while the exception is being handled."""


class Upcalls(msgspec.Struct):
    """The upcalls of one topic on one node."""

    on_forward: OnForward | None = None
    on_join: OnJoin | None = None
    on_fault: OnFault | None = None
    on_note: OnNote | None = None
    on_timer: OnTimer | None = None
    on_anycast: OnAnycast | None = None


def contained(upcalls: Upcalls, errors: list[str], report: Report | None = None) -> Upcalls:
    """The same upcalls: what they raise, or answer against the rules, is noted and reported, not raised."""

    def guarded(name: str) -> Callable[..., Any] | None:
        upcall = getattr(upcalls, name)
        if upcall is None:
            return None
        ruled = _RULED.get(name)

        def call(*arguments: Any) -> Any:
            asked = arguments[-1].effects
            before = len(asked)
            try:
                return upcall(*arguments) if ruled is None else ruled(upcall, *arguments)
            except Exception as error:  # user code may raise anything; the node goes on
                errors.append(name)
                del asked[before:]
                if report is not None:
                    report(name, error)
                return arguments[0]  # a batch passes unchanged; the others' answer is not looked at

        return call

    return Upcalls(*(guarded(name) for name in Upcalls.__struct_fields__))


def _forwarded(on_forward: OnForward, batch: Batch, tree: Tree) -> Batch | None:
    """The upcall gets a copy, and of what it returns only the body counts."""
    answer = on_forward(msgspec.structs.replace(batch, wire=None), tree)
    if answer is None:
        return None
    _check_batch(answer)
    if answer.body == batch.body:
        return batch
    return msgspec.structs.replace(batch, body=answer.body, wire=None)


def _at_fault(on_fault: OnFault, join: Joining, tree: Tree) -> None:
    """The note counts only if all went well."""
    offered = msgspec.structs.replace(join)
    on_fault(offered, tree)
    _check_note(offered.note)
    join.note = offered.note


def _offered(on_anycast: OnAnycast, payload: bytes, origin: Peer, tree: Tree) -> bool:
    answer: Any = on_anycast(payload, origin, tree)
    if answer is not None and not isinstance(answer, bool):
        raise TypeError(f"on_anycast returns True or False, not {type(answer).__name__}")
    return answer is True


_RULED: dict[str, Callable[..., Any]] = {
    "on_forward": _forwarded,
    "on_fault": _at_fault,
    "on_anycast": _offered,
}
"""How the upcalls are called whose answers matter."""


def _check_batch(batch: Any) -> None:
    if not isinstance(batch, Batch):
        raise TypeError(f"not a batch: {type(batch).__name__}")
    if type(batch.body) is not bytes:
        raise TypeError(f"a batch's body is bytes, not {type(batch.body).__name__}")


def _check_timer(delay: Any, token: Any) -> None:
    if not isinstance(delay, int | float) or not isfinite(delay) or not isinstance(token, int):
        raise TypeError(f"a timer needs seconds and a whole number, not {delay!r} and {token!r}")


def _check_note(note: Any) -> None:
    """Notes are short, and bytes."""
    if type(note) is not bytes:
        raise TypeError(f"a note is bytes, not {type(note).__name__}")
    if len(note) > MAX_NOTE:
        raise ValueError(f"a note has at most {MAX_NOTE} bytes, not {len(note)}")
