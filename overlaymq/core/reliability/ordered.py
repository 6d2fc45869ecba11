"""ordered: one order for all, kept through failures (Scribe JSAC III-B.2, made whole).

The paper's recipe is three upcalls: ``on_forward`` numbers messages at the root and buffers them at every
node of the tree, ``on_fault`` puts the last number into the repair join, ``on_join`` sends what comes after
it. This is that, and what the paper leaves out:

- *Numbers have epochs.* An epoch is one root's reign, (counter, root); numbers in it begin with 1 and have
  no gaps. A new root begins a new epoch above all it has heard of. Order is total within an epoch, and
  nobody goes back to a smaller one.
- *Status.* Parents tell, with their answer to a join and with heartbeats, the last number and the last
  known ones of the epochs before. So a loss at the end is seen too, and a node that was away knows which
  epochs it must still go through.
- *Gaps.* What came too early waits. After ``reorder_wait`` the node asks its parent, which sends the batch,
  says that it is gone, or, if it lacks it too, asks in turn. A root, which has nobody above, asks a child
  that said in its join that it is further. Forwarders that are no members do all of this too: their
  children depend on it. What nobody fills in ``gap_timeout`` is given up; time without a way up to the root
  does not count. Each gap that is given up is announced.
- *A change of root.* A new root that knows of a predecessor waits for its word (the hand-over, or its join,
  which says how far it came) as long as a question may take, or until it is known to be dead. Then it
  begins.
- *Two roots.* If a root hears of an epoch above its own it begins one above both. Whoever has reigned and
  then sees that the epochs known to others leave out some of what it had numbered publishes that again. So
  does the root with what it has of others' epochs; for the rest it asks who numbered it.
  Whoever comes meanwhile, and hears of what the lower one had numbered by then, is told of the rest that
  it has missed: perhaps too much, since no number says when it was given.
- *Late joiners* (``since=Last(n)``) begin with the last n messages if the parent holds these, or n numbers
  before the last. The rest is a gap like others, but it is not announced if it is lost: it was there before.

Subscribers know messages by their publishers' numbers too and drop what they have had, so publishing again
does no harm but to bandwidth.

*One publisher's order.* A batch that was lost on its way is sent again after those that followed it. So a
publisher tells with each how far back the oldest is that was not acknowledged (``behind``), and the root lets
a batch wait until it has all of these (``sequencer.Early``). That says also what was acknowledged, perhaps by
another root: of what waits here, all that is older than what is under way is numbered at once. What waits
longer than ``gap_timeout`` is numbered nevertheless: its publisher is gone. What a former root publishes
again comes late, and waits for nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.reliability.epochs import left_out, merged
from overlaymq.core.reliability.following import GAP, MAX_RIVALS, Follower
from overlaymq.core.reliability.reporting import NEVER, REPORT
from overlaymq.core.reliability.sequencer import Early, Sequencer
from overlaymq.ids import Id
from overlaymq.messages import Epoch, Place, RootState, TreeStatus, TreeTold

if TYPE_CHECKING:
    from overlaymq.config import DeliveryConfig
    from overlaymq.core.reliability.shelf import Shelf
    from overlaymq.core.reliability.upcalls import ModeTree
    from overlaymq.messages import Batch, Descriptor, Peer, Run

BEGIN, REPLICATE = GAP + 1, GAP + 2
"""Timers."""
REPLICATE_EVERY = 1.0
"""Seconds between two copies of the root's state for its replicas: a guess."""
PREDECESSOR_WAIT = 2.0
"""Seconds a new root waits for the word of the one before: a guess, a routed question's time."""
TAIL_BYTES = 1 << 18
"""Bytes of its latest batches that a root hands over: a guess, one frame."""
EXPECT_SECONDS = 10.0
"""How long a root that was asked for waits for the publication: a guess."""


class Ordered(Follower):
    """See the module's text."""

    def __init__(self, topic: Id, config: DeliveryConfig) -> None:
        super().__init__(topic, config)
        self._sequencer = Sequencer()
        self._early = Early(config.window)
        self._heritage: TreeStatus | None = None
        self._furthest: Place | None = None
        """Of what was published here: a publisher may become the root, and must not take itself for the
        first."""
        self._window: tuple[Run, ...] = ()
        self._reigns = False
        self._reigned: dict[Epoch, int] = {}
        """Own epochs, and from where on their messages are known to all or were published again."""
        self._others_again: dict[Epoch, int] = {}
        """Epochs of others, and from where on this root has published their messages again."""
        self._began_at = NEVER
        self._first = False
        """Whether nobody is known to have reigned before."""
        self._deaf_at = NEVER
        self._waiting_for: Id | None = None
        self._unrooted_at = NEVER
        self._released: dict[Id, None] = {}
        self._outbids = 0
        """Epochs above its own that this root has heard of since it has last begun anew."""
        self._will_replicate = False
        self._replicated_at = NEVER
        self._expecting_until = NEVER

    # --- what others ask ---

    @property
    def sequencing(self) -> bool:
        """A root that has begun its epoch."""
        return self._reigns

    @property
    def holds(self) -> bool:
        """Kept batches, or a root that was asked for."""
        return len(self._buffer) > 0 or self._expecting_until > NEVER

    @property
    def lingers(self) -> bool:
        """A former root stays a while: others may lack what it numbered last."""
        return self._unrooted_at > NEVER

    def place(self, batch: Batch) -> Place | None:
        """Where the root has put a batch."""
        return self._sequencer.place(batch)

    def on_placed(self, place: Place) -> None:
        """There is, or was, a root."""
        if self._furthest is None or place > self._furthest:
            self._furthest = place

    def state(self, descriptor: Descriptor) -> RootState | None:
        """For a successor."""
        status = self.status() or self._heritage
        return None if status is None else RootState(descriptor, status, self._sequencer.window())

    # --- numbering ---

    def on_forward(self, batch: Batch, tree: ModeTree) -> Batch | None:
        """Number it at the root; keep it, and deliver what is due."""
        if not batch.root_sequence:
            return self._sequence(batch, tree)
        self._keep(batch, tree)
        return batch

    def _sequence(self, batch: Batch, tree: ModeTree) -> Batch | None:
        if self._sequencer.is_copy(batch):
            return None
        if self._first and not self._sequencer.knows_before(batch):
            self._first = False
        assert self._newest is not None
        shelf = self._buffer.shelf(self._newest)
        numbered = self._sequencer.propose(batch, self._newest, shelf.last + 1)
        self._sequencer.commit(numbered, self._newest)
        self._keep(numbered, tree)
        self._let_follow(batch, tree)
        self._replicate_soon(tree)
        return numbered

    def waits(self, batch: Batch) -> bool:
        """Whether a copy of it came too early."""
        return batch in self._early

    def too_early(self, batch: Batch, now: float) -> bool:
        """It comes when those before it have come."""
        if not self._sequencer.is_early(batch):
            return False
        self._early.keep(batch, now)
        return True

    def overtaken(self, batch: Batch) -> list[Batch]:
        """Its publisher was told of places for all that is not under way, by another root if not here."""
        return self._early.before(batch, batch.first - batch.behind)

    def on_stopped(self, batch: Batch, tree: ModeTree) -> None:
        """Without a number it is done with; others may have waited for it."""
        if batch.root_sequence:
            super().on_stopped(batch, tree)
            return
        self._sequencer.pass_over(batch)
        self._let_follow(batch, tree)

    def _let_follow(self, batch: Batch, tree: ModeTree) -> None:
        while (later := self._early.next(batch)) is not None:
            if self._sequencer.is_early(later):
                return
            self._early.take(later)
            tree.publish_again(later)

    # --- the root ---

    def on_root(self, tree: ModeTree) -> None:
        """Begin, or wait for the word of the root before."""
        self._unrooted_at = NEVER
        if self._reigns or self._waiting_for is not None:
            return
        before = self._known()
        if before is None or before.root == tree.me.id or before.root in self._released:
            self._begin(tree)
            return
        self._waiting_for = before.root
        tree.set_timer(PREDECESSOR_WAIT, BEGIN)

    def on_unrooted(self, tree: ModeTree) -> None:
        """Nothing is numbered from here on."""
        if self._reigns:
            self._unrooted_at = tree.now
        self._reigns = False
        self._outbids = 0
        self._waiting_for = None
        self._released.clear()
        self._early = Early(self.config.window)

    def _reign(self, tree: ModeTree) -> Epoch | None:
        return self._newest if self._reigns and tree.is_root else None

    def _settled_reign(self, tree: ModeTree) -> bool:
        return self._reign(tree) is not None and (
            tree.now - self._began_at > self.config.gap_timeout
        )

    def _vouches(self, seconds: float, tree: ModeTree, about: Epoch | None = None) -> bool:
        reign = self._reign(tree)
        if reign is None:
            return False
        known = about is None or about == reign or any(one.epoch == about for one in self._past)
        if not known:
            return False
        if tree.now - self._deaf_at <= seconds:
            return False
        return self._first or tree.now - self._began_at > seconds

    def deaf(self, now: float) -> None:
        """Whoever has lost its parent cannot come back yet."""
        self._deaf_at = now

    def tail(self) -> list[Batch]:
        """Others may lack them, and this node may be gone before they ask."""
        if self._newest is None or not self._reigns:
            return []
        shelf, room = self._buffer.shelf(self._newest), TAIL_BYTES
        chosen: list[Batch] = []
        at = shelf.last
        while (batch := shelf.at(at)) is not None and room >= batch.size:
            room -= batch.size
            chosen.append(msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None))
            at = batch.root_sequence - 1
        return chosen[::-1]

    def on_failed(self, peer: Peer, tree: ModeTree) -> None:
        """A peer is gone: if a new root waits for its word, there will be none."""
        self._claims.forget(peer.id)
        if self._waiting_for == peer.id:
            self._begin(tree)

    def inherit(self, state: RootState, tree: ModeTree, last_word: bool = False) -> None:
        """What another root knew; its last word if it hands over."""
        status = state.status
        if self._heritage is None or status.last >= self._heritage.last:
            self._heritage, self._window = status, state.window
        if not last_word:
            return
        root = status.last.epoch.root
        self._word_of(root, Place(status.last.epoch, status.last.sequence + 1), tree)
        if self._newest is None or not self._reigns:
            return
        if status.last.epoch > self._newest:
            self._outbid(status, tree)
        elif root != tree.me.id:
            self._report(status, tree)

    def _word_of(self, who: Id, expects: Place, tree: ModeTree) -> None:
        if expects.epoch.root != who or who == tree.me.id:
            return
        last = Place(expects.epoch, expects.sequence - 1)
        if self._heritage is None or last > self._heritage.last:
            past = self._heritage.past if self._heritage is not None else ()
            self._heritage = TreeStatus(last, past)
        self._released[who] = None
        if self._waiting_for == who:
            self._begin(tree)

    def expect_publication(self, now: float) -> None:
        """Somebody asked for the root and will publish."""
        self._expecting_until = now + EXPECT_SECONDS

    def _known(self) -> Epoch | None:
        known = [self._newest] if self._newest is not None else []
        if self._heritage is not None:
            known.append(self._heritage.last.epoch)
        if self._furthest is not None:
            known.append(self._furthest.epoch)
        return max(known, default=None)

    def _begin(self, tree: ModeTree) -> None:
        """A new epoch above all that were heard of."""
        self._waiting_for, self._hearsay = None, False
        before = self._known()
        past = list(self._past)
        if self._newest is not None:
            past.append(Place(self._newest, self._buffer.shelf(self._newest).last))
        if self._furthest is not None:
            past.append(self._furthest)
        told: tuple[Place, ...] = ()
        if self._heritage is not None:
            told = (self._heritage.last, *self._heritage.past)
            self._sequencer.inherit(self._window)
            self._heritage, self._window = None, ()
        epoch = Epoch(1 if before is None else before.counter + 1, tree.me.id)
        self._leave_out(told, tree)
        self._newest, self._past = epoch, merged([*past, *told], epoch)
        for place in self._past:
            shelf = self._buffer.find(place.epoch)
            if shelf is not None:
                shelf.last = max(shelf.last, place.sequence)
        self._buffer.shelf(epoch).begin(1)
        if self._at is None:
            self._at, self._blank = epoch, not self._past
            self._leave_what_was()
        self._reigns, self._began_at, self._first = True, tree.now, before is None
        if told:
            self._rival(TreeStatus(told[0], told[1:]), tree)
        self._reigned[epoch] = 0
        for child in tree.children:
            self._tell(child, tree)
        self._replicate(tree)
        self._advance(tree)

    def _outbid(self, status: TreeStatus, tree: ModeTree) -> None:
        if self._heritage is None or status.last > self._heritage.last:
            self._heritage, self._window = status, ()
        if not self._reigns:
            return
        self._outbids += 1
        if self._outbids == 1:
            self._begin(tree)
        elif self._outbids == 2:
            # Two roots that hear of each other by others would never stop: Pastry will end one of them.
            tree.set_timer(PREDECESSOR_WAIT, BEGIN)

    def _rival(self, status: TreeStatus, tree: ModeTree) -> None:
        self._publish_again(status, tree)
        for epoch, first, last in left_out(status, self._past):
            if epoch.root == tree.me.id:
                continue
            last = min(last, self._others_again.get(epoch, last + 1) - 1)
            if first > last:
                continue
            self._others_again[epoch] = first
            if len(self._others_again) > MAX_RIVALS:
                del self._others_again[next(iter(self._others_again))]
            shelf = self._buffer.find(epoch)
            if shelf is not None:
                self._again(shelf, first, last, tree)
            if shelf is None or shelf.absent(first, last):
                tree.pass_on(epoch.root, TreeTold(self.topic, status))

    def _publish_again(self, rival: TreeStatus, tree: ModeTree) -> None:
        """What this node has numbered in former reigns, and followers of this epoch have left out."""
        known = {place.epoch: place.sequence for place in rival.past}
        for epoch, done_from in list(self._reigned.items()):
            shelf = self._buffer.find(epoch)
            if shelf is None and epoch != self._newest:
                del self._reigned[epoch]
            if shelf is None or epoch >= rival.last.epoch or epoch == self._newest:
                continue
            first = known.get(epoch, 0) + 1
            last = done_from - 1 if done_from else shelf.last
            if first > last:
                continue
            self._reigned[epoch] = first
            self._again(shelf, first, last, tree)

    def _again(self, shelf: Shelf, first: int, last: int, tree: ModeTree) -> None:
        for batch in list(shelf.between(first, last)):
            self._sequencer.allow(batch)
            tree.publish_again(
                msgspec.structs.replace(
                    batch, root=Id(0), root_epoch=0, root_sequence=0, hop=0, wire=None
                )
            )

    def _replicate_soon(self, tree: ModeTree) -> None:
        if self._will_replicate:
            return
        wait = self._replicated_at + REPLICATE_EVERY - tree.now
        if wait <= 0:
            self._replicate(tree)
            return
        self._will_replicate = True
        tree.set_timer(wait, REPLICATE)

    def _replicate(self, tree: ModeTree) -> None:
        state = self.state(tree.descriptor)
        if state is not None and self._reign(tree) is not None:
            self._replicated_at = tree.now
            tree.replicate(state)

    # --- time ---

    def on_timer(self, token: int, tree: ModeTree) -> None:
        """Gaps, a predecessor that does not answer, or a copy that is due."""
        if token == GAP:
            self._ask_all(tree)
        elif token == BEGIN and tree.is_root:
            outbid = self._outbids > 1
            self._outbids = 0
            if self._waiting_for is not None or (self._reigns and outbid):
                self._begin(tree)
        elif token == REPLICATE:
            self._will_replicate = False
            self._replicate(tree)
        elif token == REPORT:
            self._report_due(tree)

    def on_tick(self, tree: ModeTree) -> None:
        """Let go what is too old."""
        self._buffer.trim(tree.now)
        for batch in self._early.overdue(tree.now - self.config.gap_timeout):
            tree.publish_again(msgspec.structs.replace(batch, behind=0, wire=None))
        if self._expecting_until <= tree.now:
            self._expecting_until = NEVER
        if tree.now - self._unrooted_at > self.config.gap_timeout:
            self._unrooted_at = NEVER
        self._claims.sweep(tree)
        self._give_up_large(tree)
        self._advance(tree)
        self._settle(tree)
