"""What a node does in a topic's tree: it passes batches down, and is or follows the root.

See the package's text for the protocol, and ``tree`` for the node's place in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from overlaymq.core.dissemination.rooted import numbered_as
from overlaymq.core.dissemination.scribe.anycast import Searching
from overlaymq.core.reliability.seen import Seen
from overlaymq.events import Deliver, Dropped, Members, Notify, Route, Send, Timer
from overlaymq.messages import (
    Batch,
    BatchSequenced,
    Handover,
    RootIs,
    RootQuery,
    RootState,
    RootUnknown,
    Skipped,
    TreeAnycast,
    TreeBeat,
    TreeDrop,
    TreeGone,
    TreeJoin,
    TreeJoined,
    TreeLeave,
    TreeNeed,
    TreeNote,
    TreeRefresh,
    TreeRefused,
    TreeTold,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.messages import Descriptor, Message, Peer

STOPPED = "stopped by on_forward"
TICKS = 1e6
"""A root numbers from its clock's microseconds on, so that one that has forgotten the topic in between
never gives a number twice."""


class Scribe(Searching):
    """See the package's text."""

    name: ClassVar[str] = "scribe"

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._epoch = 0
        self._sequence = 0
        self._seen = Seen()

    # --- the application ---

    def subscribe(self, last: int, now: float, note: bytes = b"") -> Effects:
        """Become a member; a forwarder is in the tree already."""
        self._subscribed = True
        effects, served = self._replay(last, now)
        if self._rooted:
            return effects + self._announce_ready() + self._tell_size(now)
        self._last, self._note = 0 if served else last, note
        return effects + self._join(now)

    def _replay(self, last: int, now: float) -> tuple[Effects, bool]:
        """What this node can give its own late joiner, and whether that is all there is."""
        if self.around.mode is not None:
            served = self.around.mode.subscribed(last, self._mode_sees(now))
            return self._mode_asked(), served
        replay = self._history.last(last)
        return [Deliver(batch) for batch in replay], bool(replay)

    def unsubscribe(self, now: float) -> Effects:
        """Stop being a member; children are still served."""
        self._subscribed = self._ready = False
        return self._prune(now) + self._no_member_now(now)

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
            case TreeNote():
                return self._noted(peer, message, now)
            case TreeNeed() | TreeGone() | TreeTold() if self.around.mode is not None:
                self.around.mode.on_note(peer, message, self._mode_sees(now))
                return self._mode_done(now)
            case RootState() if self.around.mode is not None:
                self.around.mode.inherit(message, self._mode_sees(now))
            case BatchSequenced():
                return self._acknowledged(message) + self._flush(now)
            case TreeDrop():
                return self._dropped(peer, message, now)
            case TreeAnycast():
                return self._visited(message, now)
            case RootQuery():
                return self._asked_root(peer, message, now)
            case RootIs():
                return self._told_root(message, now)
            case RootUnknown():
                return self._not_the_root(peer)
            case Handover():
                return self._inherit(message, now)
            case Skipped():
                return self._skipped(peer, message)
        return []

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
        if isinstance(message, RootQuery):
            return [Send(source, self._root_is(self.around.me)), *self._expect_publication(now)]
        if isinstance(message, TreeAnycast):
            return self._visited(message, now)
        if not isinstance(message, TreeJoin) or message.child.id == self.around.me.id:
            return []
        taken = self._admit(message, now)
        if taken is not None:
            return taken
        return [Notify(Dropped("too many children")), self._refuse(message.child, False)]

    def root_changed(self, root: Peer | None, now: float) -> Effects:
        """Become the root, hand over, or remember who it is."""
        if root is None or root == self._root:
            return []
        return self._follow(root, now) + self._flush(now)

    def _follow(self, root: Peer, now: float) -> Effects:
        reigned, self._root = self._acts_as_root, root
        self._heir = False
        if self._is_root:
            return self._become_root(now)
        return self._hand_over(root, now) if reigned else []

    def failed(self, peer: Peer, now: float) -> Effects:
        """A child is gone, or the parent: join anew."""
        if self._root is not None and self._root.id == peer.id:
            self._root = None
        effects = self._lost_child(peer.id, now)
        if self.around.mode is not None:
            self.around.mode.on_failed(peer, self._mode_sees(now))
            effects += self._mode_done(now)
            if self._root is None:
                effects += self._ask_again()
        if self._parent is not None and self._parent.id == peer.id:
            effects += self._lost_parent(now)
        return effects

    def fired(self, timer: Timer, now: float) -> Effects:
        """Ask again, keep the soft state, or tell the size."""
        match timer.part:
            case "topic.root":
                return self._ask_again() if timer.round == self._asking else []
            case "topic.outbox":
                return self._outbox_due(now)
            case "topic.join" if timer.round == self._round and self._joining:
                self._joining = False
                return self._join(now)
            case "topic.tick":
                return self._tick(now)
            case "topic.upcall":
                return self._timed(timer.round, now)
            case "topic.mode" if self.around.mode is not None:
                self.around.mode.on_timer(timer.round, self._mode_sees(now))
                return self._mode_done(now)
            case "topic.size":
                self._will_tell = False
                return self._tell_size(now)
            case "topic.collapse":
                return self._collapse(now)
        return self._move_timer(timer, now)

    @property
    def idle(self) -> bool:
        """No part in the tree, and nothing waits."""
        mode = self.around.mode
        keeps = mode is not None and self._acts_as_root and mode.holds
        waits = self._waiting or len(self._outbox) or self._joining or self._heir
        return not (self._wanted or waits or keeps or self._parent is not None)

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

    def _begin_epoch(self, now: float) -> Effects:
        if self.around.mode is not None:
            self.around.mode.on_root(self._mode_sees(now))
            return self._mode_done(now) + self._start_ticking()
        if not self._sequence:
            self._epoch += 1
            self._sequence = int(now * TICKS) + 1
        return []

    def _hand_over(self, root: Peer, now: float) -> Effects:
        self._sequence = 0
        self._rooted = False
        mode = self.around.mode
        state = None if mode is None else mode.state(self.descriptor)
        effects: Effects = [Send(root, Handover(self.descriptor, (), self._epoch, state))]
        if mode is not None:
            effects += [Send(root, batch) for batch in mode.tail()]
            mode.on_unrooted(self._mode_sees(now))
            effects += [*self._mode_asked(), *self._start_ticking()]
        return effects + self._join(now, root=root)

    def _inherit(self, heritage: Handover, now: float) -> Effects:
        """The old root has stopped; until this node knows better, it acts as the root."""
        self._epoch = max(self._epoch, heritage.epoch)
        effects: Effects = []
        if self._root is None:
            self._heir = True
        if self.around.mode is not None and heritage.state is not None:
            self.around.mode.inherit(heritage.state, self._mode_sees(now), last_word=True)
            effects = self._mode_done(now)
        if self._is_root:
            return effects
        if self._heir:
            effects += self._begin_epoch(now)
        return effects + self._flush(now)

    def _expect_publication(self, now: float) -> Effects:
        """Whoever asks for the root of an ordered topic will publish: do not forget the topic at once."""
        if self.around.mode is None:
            return []
        self.around.mode.expect_publication(now)
        return self._start_ticking()

    def _asked_root(self, peer: Peer, query: RootQuery, now: float) -> Effects:
        if self._is_root:
            return [Send(peer, self._root_is(self.around.me)), *self._expect_publication(now)]
        onward: Effects = [Route(self.descriptor.key, query)]
        if self._root is not None:
            onward.append(Send(peer, self._root_is(self._root)))
        return onward

    def _told_root(self, told: RootIs, now: float) -> Effects:
        effects: Effects = [Notify(Members(told.topic, told.members))]
        # Whether this node is the root, only Pastry knows: others speak of what was.
        if not self._is_root and told.root.id != self.around.me.id:
            effects += self._follow(told.root, now)
        return effects + self._flush(now)

    def _to_root(self, batch: Batch, now: float) -> Effects:
        mode = self.around.mode
        if self._root is None and self._heir and (mode is None or mode.sequencing):
            return self._spread(batch, now)
        return super()._to_root(batch, now)

    # --- batches ---

    def _spread(self, batch: Batch, now: float) -> Effects:
        mode = self.around.mode
        # An ordered topic's numbers have no gaps: there the application is asked first.
        offered = self._number(batch) if mode is None else batch
        passed = self._passed(offered, now)
        effects = self._asked()
        if passed is None:
            effects.append(Notify(Dropped(STOPPED, batch.count)))
            if mode is not None:
                effects += self._acknowledge(batch, None)  # it needs not be sent again
            return effects + self._sent(batch, 0, STOPPED)
        if mode is None:
            numbered: Batch | None = numbered_as(passed, offered)
        else:
            numbered = mode.on_forward(passed, self._mode_sees(now))
        delivered = self._mode_asked()
        if mode is not None:
            delivered += self._acknowledge(batch, mode.place(batch))
        if numbered is None:
            return [*effects, *delivered, *self._sent(batch, 0)]
        sends = self._pass_on(numbered, now)
        effects += [*sends, *self._sent(batch, len(sends)), *delivered]
        # This node's own batches were delivered here when they were published.
        if mode is None and self._subscribed and batch.origin != self.around.me.id:
            effects.append(Deliver(passed))
        return effects

    def _number(self, batch: Batch) -> Batch:
        me = self.around.me.id
        numbered = msgspec.structs.replace(
            batch, root=me, root_epoch=self._epoch, root_sequence=self._sequence, wire=None
        )
        self._sequence += batch.count
        self._seen.add(me, self._epoch, numbered.root_sequence, self._sequence - 1)
        return numbered

    def _pass_on(self, batch: Batch, now: float) -> Effects:
        onward = msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None)
        if self.around.mode is None:
            self._history.add(onward)
        self._spread_at = now
        return [Send(child.peer, onward) for child in self._children.values()]

    def _receive_batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        if not batch.root_sequence:
            self._sender = peer
            effects = self._to_root(batch, now)
            self._sender = None
            if self._root is not None and not self._is_root:
                effects.append(Send(peer, self._root_is(self._root)))
            return effects
        if self._parent is not None and self._parent.id == peer.id:
            self._parent_heard = now
            effects = []
        elif self.around.mode is not None and (self._acts_as_root or peer.id in self._children):
            effects = []  # parents may ask their children, and roots are given the last batches before
        else:
            effects = self._disown(peer)
        if not self._is_new(batch):
            return [*effects, Notify(Dropped("duplicate", batch.count))]
        heir = self.around.mode is not None and self._acts_as_root
        if not self._wanted and not heir:
            return [*effects, Notify(Dropped("not subscribed", batch.count))]
        passed = self._passed(batch, now) if self._children else batch
        effects += self._asked()
        mode = self.around.mode
        if passed is None:
            if mode is not None:
                mode.on_stopped(batch, self._mode_sees(now))
            return [*effects, *self._mode_asked(), Notify(Dropped(STOPPED, batch.count))]
        effects += self._pass_on(passed, now)
        if mode is not None:
            tree = self._mode_sees(now)
            tree.source = peer
            mode.on_forward(passed, tree)
            tree.source = None
            effects += self._mode_asked()
        elif self._subscribed and batch.origin != self.around.me.id:
            effects.append(Deliver(passed))
        return effects

    def _is_new(self, batch: Batch) -> bool:
        if self.around.mode is not None:
            return self.around.mode.is_new(batch)
        self._epoch = max(self._epoch, batch.root_epoch)
        last = batch.root_sequence + batch.count - 1
        return self._seen.add(batch.root, batch.root_epoch, batch.root_sequence, last)
