"""What a reliability mode may do inside a tree: the papers' upcalls, and what a child and its parent tell
each other about them.

A mode that only looks at what arrives (``best_effort``, ``fifo``) is none of these. One that is, stands in
the chain of upcalls behind the application's own: a strategy calls it for every new batch on every node of
the tree, leaves too, because a leaf may be somebody's parent tomorrow. Like the application's upcalls it asks
the ``ModeTree`` for what it wants done.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from overlaymq.core.reliability.modes import BestEffort
from overlaymq.core.reliability.seen import Seen

if TYPE_CHECKING:
    from overlaymq.core.reliability.upcalls import ModeTree
    from overlaymq.messages import (
        Batch,
        DeliveryQuery,
        Descriptor,
        Message,
        Peer,
        Place,
        RootState,
        TreeJoin,
        TreeStatus,
    )


class TreeMode(BestEffort):
    """The upcalls of a mode. It delivers itself, in its own order, also this node's own batches."""

    def unsubscribed(self) -> None:
        """This node is no member any more: the next subscription begins when it begins."""
        self._seen = Seen()

    @abstractmethod
    def on_unsubscribe(self, tree: ModeTree) -> None:
        """This node is no member any more, and may leave the tree."""

    @property
    @abstractmethod
    def sequencing(self) -> bool:
        """At the root: whether batches may be numbered now."""

    @property
    @abstractmethod
    def holds(self) -> bool:
        """Whether somebody may still ask for what is kept here."""

    @property
    @abstractmethod
    def lingers(self) -> bool:
        """Whether this node must stay in the tree although nobody here needs it."""

    @abstractmethod
    def subscribed(self, last: int, tree: ModeTree) -> bool:
        """This node became a member; whether the messages it asks for can be had here."""

    @abstractmethod
    def is_new(self, batch: Batch) -> bool:
        """Whether a numbered batch has not been here yet."""

    @abstractmethod
    def on_forward(self, batch: Batch, tree: ModeTree) -> Batch | None:
        """Each new batch, at the root before it has a number; None if it has had one before."""

    @abstractmethod
    def waits(self, batch: Batch) -> bool:
        """Whether the root has a copy of a batch for which it is too early."""

    @abstractmethod
    def too_early(self, batch: Batch, now: float) -> bool:
        """At the root: whether a batch must wait for others of its publisher. It is kept, or sent again."""

    @abstractmethod
    def overtaken(self, batch: Batch) -> list[Batch]:
        """At the root: what has waited long enough, now that this batch comes. It comes first."""

    @abstractmethod
    def deaf(self, now: float) -> None:
        """The ring leads nobody to this node now."""

    @abstractmethod
    def on_stopped(self, batch: Batch, tree: ModeTree) -> None:
        """The application stopped a batch here, at the root before it has a number."""

    @abstractmethod
    def expects(self) -> Place | None:
        """What goes up with a join: the message that is needed next."""

    @abstractmethod
    def status(self, join: TreeJoin | None = None) -> TreeStatus | None:
        """What goes down with the answer to a join, with news of the path, and with heartbeats."""

    @abstractmethod
    def on_join(self, join: TreeJoin, tree: ModeTree) -> None:
        """A child joined, or joined again."""

    @abstractmethod
    def on_parent(self, tree: ModeTree) -> None:
        """This node has another parent."""

    @abstractmethod
    def on_status(self, peer: Peer, status: TreeStatus, tree: ModeTree) -> None:
        """From a neighbour in the tree."""

    @abstractmethod
    def on_note(self, peer: Peer, message: Message, tree: ModeTree) -> None:
        """A message of this mode from a neighbour."""

    @abstractmethod
    def on_timer(self, token: int, tree: ModeTree) -> None:
        """A timer of this mode."""

    @abstractmethod
    def on_tick(self, tree: ModeTree) -> None:
        """A heartbeat's time has passed."""

    @abstractmethod
    def on_failed(self, peer: Peer, tree: ModeTree) -> None:
        """A peer is gone."""

    @abstractmethod
    def place(self, batch: Batch) -> Place | None:
        """At the root: where a batch is."""

    @abstractmethod
    def on_placed(self, place: Place) -> None:
        """A root has acknowledged a batch that was published here."""

    @abstractmethod
    def state(self, descriptor: Descriptor) -> RootState | None:
        """What a successor of this root needs."""

    @abstractmethod
    def tail(self) -> list[Batch]:
        """What a successor should have at once: the latest batches of this root."""

    @abstractmethod
    def inherit(self, state: RootState, tree: ModeTree, last_word: bool = False) -> None:
        """What another root knew; its last word if it has stopped."""

    @abstractmethod
    def expect_publication(self, now: float) -> None:
        """Somebody asked for the root, and will publish."""

    @abstractmethod
    def on_query(self, peer: Peer, query: DeliveryQuery, tree: ModeTree) -> None:
        """At the root: a publisher asks who has its message."""

    @abstractmethod
    def on_root(self, tree: ModeTree) -> None:
        """This node is the root now."""

    @abstractmethod
    def on_unrooted(self, tree: ModeTree) -> None:
        """It is no more: nothing may be numbered from here on."""
