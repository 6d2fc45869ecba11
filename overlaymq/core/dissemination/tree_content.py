"""What flows down a topic's tree: batches, numbered at the root and passed on by every node below it.

*Copies.* While a node changes its parent, two may feed it. Whatever comes twice, by the root's number, is
dropped. Each batch is offered to the application's ``on_forward`` at the root and wherever there are
children, then to the topic's mode, if it has a part in the tree.

*Leaving.* A node that will leave first passes on what is on its way through it. That may be its own: a
publication goes to the root, and comes back for those below the publisher. Then it gives its children away.
A root hands over first (see ``rooted_tree``), and is a node like others then.

The messages and timers that come with this are the same for all strategies: ``_of_the_tree``, ``_timed_out``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.late import LateJoining
from overlaymq.events import Deliver, Dropped, Notify, Send
from overlaymq.messages import (
    BatchRefused,
    BatchSequenced,
    Handover,
    RootIs,
    RootQuery,
    RootState,
    Skipped,
    TreeGone,
    TreeHad,
    TreeHistory,
    TreeNeed,
    TreeNote,
    TreeReplay,
    TreeStable,
    TreeTold,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.events import Timer
    from overlaymq.messages import Batch, Descriptor, Message, Peer

STOPPED = "stopped by on_forward"


class ContentTree(LateJoining):
    """A tree that batches flow through."""

    __slots__ = (
        "_own_back",
        "_own_sent",
    )

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._own_sent = self._own_back = (-1, 0)
        """The last of this node's own batches that those below it need, and the last that came back."""

    # --- leaving ---

    def publish(self, batch: Batch, now: float) -> Effects:
        """Send to the root; those below get it when it comes back."""
        if self._children:
            self._own_sent = batch.first, batch.chunk
        return super().publish(batch, now)

    def depart(self, now: float) -> Effects:
        """Pass on what is on its way, then give the children away."""
        self._departing = True
        return [] if self._expects_own else self._yield_children()

    @property
    def needed(self) -> bool:
        """A forwarder is needed by its children, and for what it holds for the root or may still get."""
        if self._waiting or len(self._outbox) or self._stays:
            return True
        return bool(self._children) and not self._acts_as_root

    @property
    def _expects_own(self) -> bool:
        return self._own_sent > self._own_back and not self._acts_as_root

    def _own_came_back(self, batch: Batch) -> Effects:
        self._own_back = max(self._own_back, (batch.first, batch.chunk))
        return self._yield_children() if self._departing and not self._expects_own else []

    def _parted_from(self, former: Peer | None) -> Effects:
        """There is a new parent, after this one: who leaves sends its children there."""
        moved = self._parent is not None and (former is None or former.id != self._parent.id)
        leaves = self._departing and not self._expects_own
        return self._yield_children() if moved and leaves else []

    def _yield_children(self) -> Effects:
        """Find another parent for every child; feed them until they have gone there."""
        return []

    # --- messages and timers ---

    def _of_the_tree(self, peer: Peer, message: Message, now: float) -> Effects:
        """What is not about a node's place in the tree."""
        match message:
            case TreeNote():
                return self._noted(peer, message, now)
            case TreeNeed() | TreeGone() | TreeTold() | TreeHad() | TreeStable() if (
                self.around.mode is not None
            ):
                self.around.mode.on_note(peer, message, self._mode_sees(now))
                return self._mode_done(now)
            case RootState() if self.around.mode is not None:
                self.around.mode.inherit(message, self._mode_sees(now))
            case BatchSequenced():
                return self._acknowledged(message) + self._flush(now)
            case RootQuery():
                return self._asked_root(peer, message, now)
            case RootIs():
                return self._told_root(message, now)
            case BatchRefused():
                return self._batch_refused(peer, message, now)
            case Handover():
                return self._take_over(peer, message, now)
            case Skipped():
                return self._skipped(peer, message)
            case TreeHistory():
                return self._asked_for_history(peer, message)
            case TreeReplay():
                return self._told_history(peer, message)
        return []

    def _timed_out(self, timer: Timer, now: float) -> Effects:
        match timer.part:
            case "topic.root":
                return self._ask_again() if timer.round == self._asking else []
            case "topic.outbox":
                return self._outbox_due(now)
            case "topic.upcall":
                return self._timed(timer.round, now)
            case "topic.history":
                return self._history_due(timer.round)
            case "topic.mode" if self.around.mode is not None:
                self.around.mode.on_timer(timer.round, self._mode_sees(now))
                return self._mode_done(now)
            case "topic.size":
                self._will_tell = False
                return self._tell_size(now)
        return []

    # --- the root ---

    def _to_root(self, batch: Batch, now: float) -> Effects:
        mode = self.around.mode
        if self._root is None and self._heir and (mode is None or mode.sequencing):
            return self._spread(batch, now)
        if self._handing_over and self._root is not None and not self._is_root:
            return self._hold(batch)
        return super()._to_root(batch, now)

    def _spread(self, batch: Batch, now: float) -> Effects:
        mode = self.around.mode
        effects: Effects = []
        before = [] if mode is None else mode.overtaken(batch)
        for one in (*before, batch):
            effects += self._spread_one(one, now)
            tree = self._mode_tree
            while tree is not None and tree.again:  # what had to wait for this one
                again, tree.again = tree.again, []
                for later in again:
                    effects += self._spread_one(later, now)
        return effects

    def _spread_one(self, batch: Batch, now: float) -> Effects:
        mode = self.around.mode
        if batch.origin == self.around.me.id:
            self._own_back = batch.first, batch.chunk
        if mode is not None and batch.behind:
            again = self._came_again(batch) if mode.waits(batch) else []
            if mode.too_early(batch, now):
                return again
        # An ordered topic's numbers have no gaps: there the application is asked first.
        offered = self._number(batch) if mode is None else batch
        passed = self._passed(offered, now)
        effects = self._asked()
        if passed is None:
            effects.append(Notify(Dropped(STOPPED, batch.count, batch)))
            if mode is not None:
                mode.on_stopped(batch, self._mode_sees(now))
                effects += self._acknowledge(batch, None, stopped=True)  # never sent again
            return effects + self._sent(batch, 0, STOPPED)
        if mode is None:
            numbered: Batch | None = passed
        else:
            numbered = mode.on_forward(passed, self._mode_sees(now))
        delivered = self._mode_asked()
        if mode is not None:
            delivered += self._acknowledge(batch, mode.place(batch))
        if numbered is None:
            return [*effects, *self._came_again(batch), *delivered, *self._sent(batch, 0)]
        sends = self._pass_on(numbered, now)
        effects += [*sends, *self._sent(batch, len(sends)), *delivered]
        # This node's own batches were delivered here when they were published.
        if mode is None and self._subscribed and batch.origin != self.around.me.id:
            effects.append(Deliver(passed))
        return effects

    def _came_again(self, batch: Batch) -> Effects:
        """A batch has its place, or waits for it: its publisher did not hear of that, or it was doubled."""
        if batch.origin == self.around.me.id:
            return []
        # The chunks of one message count once.
        return [Notify(Dropped("duplicate", batch.count if batch.chunk == 0 else 0, batch))]

    def _number(self, batch: Batch) -> Batch:
        me = self.around.me.id
        numbered = msgspec.structs.replace(
            batch, root=me, root_epoch=self._epoch, root_sequence=self._sequence, wire=None
        )
        self._sequence += batch.count
        self._seen.add(me, self._epoch, numbered.root_sequence, self._sequence - 1)
        return numbered

    # --- every node ---

    def _replay(self, last: int, now: float) -> tuple[Effects, bool]:
        """What this node can give its own late joiner, and whether a join need not ask for more."""
        if self.around.mode is not None:
            served = self.around.mode.subscribed(last, self._mode_sees(now))
            return self._mode_asked(), served
        self._want_history(last)
        return [], True

    def _pass_on(self, batch: Batch, now: float) -> Effects:
        onward = msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None)
        if self.around.mode is None:
            self._history.add(onward)
        self._spread_at = now
        return [Send(child.peer, onward) for child in self._children.values()]

    def _flow_down(self, peer: Peer, batch: Batch, now: float) -> Effects:
        """A numbered batch came from somebody who may give it."""
        if not self._is_new(batch):
            return [Notify(Dropped("duplicate", batch.count, batch))]
        mode = self.around.mode
        heir = mode is not None and self._acts_as_root
        if not self._wanted and not heir:
            return [Notify(Dropped("not subscribed", batch.count, batch))]
        passed = self._passed(batch, now) if self._children else batch
        effects = self._asked()
        if batch.origin == self.around.me.id:
            effects += self._own_came_back(batch)
        if passed is None:
            if mode is not None:
                mode.on_stopped(batch, self._mode_sees(now))
            return [*effects, *self._mode_asked(), Notify(Dropped(STOPPED, batch.count, batch))]
        effects += self._pass_on(passed, now)
        if mode is not None:
            tree = self._mode_sees(now)
            tree.source = peer
            mode.on_forward(passed, tree)
            tree.source = None
            effects += self._mode_asked()
        elif self._subscribed and batch.origin != self.around.me.id:
            effects += self._awaited.deliver(passed)
        return effects

    def _is_new(self, batch: Batch) -> bool:
        if self.around.mode is not None:
            return self.around.mode.is_new(batch)
        self._epoch = max(self._epoch, batch.root_epoch)
        last = batch.root_sequence + batch.count - 1
        return self._seen.add(batch.root, batch.root_epoch, batch.root_sequence, last)
