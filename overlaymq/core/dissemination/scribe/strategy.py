"""What a node does in a topic's tree: it passes batches down, and is or follows the root.

See the package's text for the protocol, and ``tree`` for the node's place in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from overlaymq.core.dissemination.rooted import refusal
from overlaymq.core.dissemination.scribe.anycast import Searching
from overlaymq.events import Dropped, Notify, Send, Timer
from overlaymq.messages import (
    Batch,
    DeliveryQuery,
    RootQuery,
    TreeAnycast,
    TreeBeat,
    TreeDrop,
    TreeJoin,
    TreeJoined,
    TreeLeave,
    TreeRefresh,
    TreeRefused,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.messages import Message, Peer


class Scribe(Searching):
    """See the package's text."""

    __slots__ = ()

    name: ClassVar[str] = "scribe"

    # --- the application ---

    def subscribe(self, last: int, now: float, note: bytes = b"") -> Effects:
        """Become a member; a forwarder is in the tree already."""
        self._subscribed = True
        effects, served = self._replay(last, now)
        if self._rooted:
            return effects + self._announce_ready() + self._tell_size(now)
        self._last, self._note = 0 if served else last, note
        return effects + self._join(now)

    def unsubscribe(self, now: float) -> Effects:
        """Stop being a member; children are still served."""
        self._subscribed = self._ready = False
        self._want_no_history()
        if self.around.mode is not None:
            self.around.mode.on_unsubscribe(self._mode_sees(now))
        return self._mode_asked() + self._prune(now) + self._no_member_now(now)

    # --- messages ---

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """From a peer, directly."""
        match message:
            case Batch():
                return self._receive_batch(peer, message, now)
            case TreeJoin():
                taken = self._take(message, now)
                return [self._refuse(message.child, True)] if taken is None else taken
            case TreeJoined():
                return self._joined(peer, message, now)
            case TreeRefused():
                return self._refused(peer, message, now)
            case TreeLeave():
                return self._left(peer, message, now)
            case TreeRefresh():
                return self._refreshed(peer, message, now)
            case TreeBeat():
                return self._beat(peer, message, now)
            case TreeDrop():
                return self._dropped(peer, message, now)
            case TreeAnycast():
                return self._visited(message, now)
        return self._of_the_tree(peer, message, now)

    def forward(
        self, message: Message, next_hop: Peer, now: float
    ) -> tuple[Message | None, Effects]:
        """A join that passes ends here, unless it is this node's own or would make a loop."""
        if isinstance(message, TreeAnycast) and self._wanted:
            return None, self._visited(message, now)
        if not isinstance(message, TreeJoin):
            return message, []
        if self._stays_out():
            return msgspec.structs.replace(message, via=self.around.me), []
        taken = self._admit(message, now)
        return (message, []) if taken is None else (None, taken)

    def deliver(self, message: Message, source: Peer, now: float) -> Effects:
        """At the root."""
        if self._root is not None and self._has_abdicated:
            if isinstance(message, TreeJoin) and message.child.id != self._root.id:
                return [Send(self._root, message)]
            if isinstance(message, RootQuery):
                return [Send(source, self._root_is(self._root))]
        if isinstance(message, RootQuery):
            self._remember_writer(source)
            return [Send(source, self._root_is(self.around.me)), *self._expect_publication(now)]
        if isinstance(message, TreeAnycast):
            return self._visited(message, now)
        if isinstance(message, DeliveryQuery) and self.around.mode is not None:
            self.around.mode.on_query(source, message, self._mode_sees(now))
            return self._mode_done(now) + self._expect_publication(now)
        if not isinstance(message, TreeJoin) or message.child.id == self.around.me.id:
            return []
        taken = self._admit(message, now)
        if taken is not None:
            return taken
        return [Notify(Dropped("too many children")), self._refuse(message.child, False)]

    def failed(self, peer: Peer, now: float) -> Effects:
        """A child is gone, or the parent: join anew."""
        effects = self._lost_child(peer.id, now) + self._root_failed(peer, now)
        if self._parent is not None and self._parent.id == peer.id:
            effects += self._lost_parent(now)
        return effects

    def fired(self, timer: Timer, now: float) -> Effects:
        """Ask again, keep the soft state, or see whether a child should go."""
        match timer.part:
            case "topic.join" if timer.round == self._round and self._joining:
                self._joining = False
                joins = self._join(now)
                return joins if self._joining else joins + self._handed_over(now)
            case "topic.tick":
                return self._tick(now)
            case "topic.collapse":
                return self._collapse(now)
            case "topic.stay":
                self._stays = False
                return []
        return self._move_timer(timer, now) + self._timed_out(timer, now)

    @property
    def idle(self) -> bool:
        """No part in the tree, and nothing waits."""
        waits = self._waiting or len(self._outbox) or self._joining or self._heir
        return not (self._wanted or waits or self._keeps or self._parent is not None)

    # --- the root ---

    def _become_root(self, now: float) -> Effects:
        effects: Effects = []
        if self._parent is not None:
            effects.append(Send(self._parent, self._leave()))
            self._parent = None
        self._joining = self._heir = False
        return [
            *effects,
            *self._begin_epoch(now),
            *self._set_path((), True),
            *self._announce_ready(),
        ]

    def _hand_over(self, root: Peer, now: float, size: int | None = None) -> Effects:
        effects = super()._hand_over(root, now, size)
        return effects + self._linger(root) if self._departing else effects

    # --- batches ---

    def _receive_batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        fed = self._parent is not None and self._parent.id == peer.id
        if not batch.root_sequence:
            if fed and not self._acts_as_root:
                # What comes down the tree is no publication: the root would spread it again, and again.
                not_numbered = Notify(Dropped("no number from the parent", batch.count, batch))
                return [not_numbered, Send(peer, refusal(batch, self._root))]
            if self._acts_as_root:
                self._remember_writer(peer)
            self._sender = peer
            effects = self._to_root(batch, now)
            self._sender = None
            if self._root is not None and not self._is_root:
                effects.append(Send(peer, self._root_is(self._root)))
            return effects
        if batch.root == self.around.me.id and self.around.mode is None:
            return self._replayed(peer, batch)
        if fed:
            self._parent_heard = now
            effects = []
        elif self.around.mode is not None and (self._acts_as_root or peer.id in self._children):
            effects = []  # parents may ask their children, and roots are given the last batches before
        else:
            effects = self._disown(peer)
        return effects + self._flow_down(peer, batch, now)
