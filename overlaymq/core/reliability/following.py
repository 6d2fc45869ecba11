"""Following the root of an ordered topic: what every node of the tree does, root or not.

A node goes through the epochs in order. In each it delivers what is due, asks for what is missing, gives up
what nobody has, and announces each loss. It keeps what passes for those below, and answers their needs. See
``ordered`` for the whole, and for the root's own part.
"""

from __future__ import annotations

from abc import abstractmethod
from math import inf
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.reliability.claims import Claims
from overlaymq.core.reliability.epochs import PAST, left_out, merged
from overlaymq.core.reliability.large import Large
from overlaymq.core.reliability.shelf import Buffer, Shelf, end_of, epoch_of
from overlaymq.events import EpochChanged, Missed
from overlaymq.messages import (
    Epoch,
    Place,
    TreeGone,
    TreeHad,
    TreeNeed,
    TreeStable,
    TreeStatus,
    TreeTold,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overlaymq.config import DeliveryConfig
    from overlaymq.core.reliability.claims import Range
    from overlaymq.core.reliability.upcalls import ModeTree
    from overlaymq.ids import Id
    from overlaymq.messages import Batch, Message, Peer, TreeJoin

GAP = 0
"""The timer of gaps."""
MAX_BEEN = 32
"""Epochs that a node remembers to have gone through or left out: a guess, some times what is told."""
MAX_WANTS = 64
"""Ranges that are asked for on behalf of children at once: a guess."""
MAX_RIVALS = 64
"""Epochs of other roots that are remembered as reported: a guess."""
MAX_RANGES = 16
"""Ranges in one round of questions; the others wait for the next: a guess."""
SLOWEST = 8
"""Questions are repeated after reorder_wait, then twice that, up to so many times that: a guess."""


class Follower(Large):
    """See the module's text."""

    def __init__(self, topic: Id, config: DeliveryConfig) -> None:
        super().__init__(topic, config)
        self._buffer = Buffer(config)
        self._at: Epoch | None = None
        self._blank = True
        """Whether nothing was had yet, nor told of what was before, so that nothing old is wanted."""
        self._newest: Epoch | None = None
        self._past: tuple[Place, ...] = ()
        self._hearsay = False
        """Whether this node has only a child's word for that: what was before is not known."""
        self._wants: dict[Range, float] = {}
        self._claims = Claims()
        self._been: dict[Epoch, float] = {}
        """How far this node has gone through epochs below the present one, or has said that it will not."""
        self._rivals: dict[Epoch, None] = {}
        """Epochs of other roots that were reported upwards."""
        self._stalled_since = float("-inf")
        self._stalled: Place | None = None
        self._asking = False
        self._wait = config.reorder_wait

    # --- the root's part ---

    @abstractmethod
    def _reign(self, tree: ModeTree) -> Epoch | None:
        """The epoch in which this node gives the numbers now."""

    @abstractmethod
    def _settled_reign(self, tree: ModeTree) -> bool:
        """Whether this root has had time to hear from everybody."""

    @abstractmethod
    def _outbid(self, status: TreeStatus, tree: ModeTree) -> None:
        """Somebody has heard of an epoch above this root's."""

    @abstractmethod
    def _publish_again(self, rival: TreeStatus, tree: ModeTree) -> None:
        """Of the epochs before its last, some others know this much."""

    @abstractmethod
    def _rival(self, status: TreeStatus, tree: ModeTree) -> None:
        """At the root: some have followed another root, and know this much of the epochs before."""

    @abstractmethod
    def _word_of(self, who: Id, expects: Place, tree: ModeTree) -> None:
        """A child said what it expects; it may be the root of an epoch that it has left."""

    # --- what others ask ---

    @property
    def position(self) -> Place | None:
        """The next message this node waits for."""
        if self._at is None:
            return None
        return Place(self._at, self._buffer.shelf(self._at).next)

    def expects(self) -> Place | None:
        """For a join."""
        return self.position

    def status(self, join: TreeJoin | None = None) -> TreeStatus | None:
        """What is known, and where a newcomer begins."""
        return None if self._hearsay else self._status(join)

    def _status(self, join: TreeJoin | None = None) -> TreeStatus | None:
        if self._newest is None:
            return None
        last = self._buffer.shelf(self._newest).last
        start, skip = last + 1, 0
        if join is not None and join.expects is None and join.last:
            start, skip = self._latest(join.last)
        return TreeStatus(Place(self._newest, last), self._past, start, skip)

    def _latest(self, count: int) -> tuple[int, int]:
        """From where on the last so many messages are, and how many more that is. If they are not all here,
        it is by their numbers: others may have them, and who begins there asks for what is missing."""
        assert self._newest is not None
        shelf = self._buffer.shelf(self._newest)
        start = complete = shelf.last + 1
        by_number = max(1, start - count)
        skip = 0
        while count > 0 and (batch := shelf.at(start - 1)) is not None:
            start = batch.root_sequence
            if batch.chunk == 0:
                count -= batch.count
                complete, skip = start, max(0, -count)
        return (by_number, 0) if count > 0 and by_number < complete else (complete, skip)

    # --- members ---

    def subscribed(self, last: int, tree: ModeTree) -> bool:
        """A node that is in the tree already gives its own late joiner what it has."""
        if self._at is None:
            return False
        self._leave_what_was()  # it was told of no change of epoch until now
        if last and self._at == self._newest:
            # Nobody here has had anything yet, so it can go through that again.
            shelf = self._buffer.shelf(self._at)
            shelf.go_back(*self._latest(last))
            if self._reign(tree) is not None:  # what is not here is nowhere
                for part in shelf.absent(shelf.next, shelf.claim - 1):
                    shelf.lose(*part)
            self._advance(tree)
        return True

    # --- batches ---

    def is_new(self, batch: Batch) -> bool:
        """By its place."""
        shelf = self._buffer.find(epoch_of(batch))
        return shelf is None or not shelf.had(batch.root_sequence)

    def on_stopped(self, batch: Batch, tree: ModeTree) -> None:
        """Its number is void: for this node and for those below."""
        shelf = self._buffer.shelf(epoch_of(batch))
        shelf.last = max(shelf.last, end_of(batch))
        shelf.lose(batch.root_sequence, end_of(batch))
        self._advance(tree)

    def _keep(self, batch: Batch, tree: ModeTree) -> None:
        epoch = epoch_of(batch)
        first_of_epoch = self._buffer.find(epoch) is None
        self._buffer.add(batch, tree.now)
        self._satisfied(epoch, batch.root_sequence, end_of(batch))
        if tree.source is not None and tree.parent is not None and tree.child(tree.source.id):
            self._serve(tree.parent, [batch], tree)  # a parent has asked for it
        unheard_of = first_of_epoch and self._newest is not None and epoch > self._newest
        if unheard_of and tree.parent is not None:
            self._tell(tree.parent, tree)  # it will see that this node knows less, and answer
        self._advance(tree)

    # --- delivery ---

    def _advance(self, tree: ModeTree) -> None:
        """Deliver what is due, epoch after epoch, and see to what is missing."""
        while self._at is not None:
            shelf = self._buffer.shelf(self._at)
            self._deliver(self._at, shelf, tree)
            following = self._following() if shelf.settled else None
            if following is None:
                break
            self._enter(following, tree)
        self._progressed(tree)
        if self._missing():
            self._ask_later(tree)

    def _deliver(self, epoch: Epoch, shelf: Shelf, tree: ModeTree) -> None:
        while not shelf.settled:
            self._blank = False
            batch = shelf.at(shelf.next)
            if batch is not None and batch.chunk and shelf.next == shelf.start < shelf.claim:
                shelf.begin_after(batch)  # n numbers back may be in the midst of a large message
                continue
            if batch is not None:
                cut = shelf.next - batch.root_sequence
                cut += shelf.skip if shelf.next == shelf.start else 0
                shelf.next = end_of(batch) + 1
                if tree.member:
                    whole = cut == batch.skip
                    tree.deliver(
                        batch if whole else msgspec.structs.replace(batch, skip=cut, wire=None)
                    )
                continue
            lost = shelf.lost_from(shelf.next)
            if lost < shelf.next:
                return
            first = max(shelf.next, shelf.claim)
            if tree.member and first <= lost:
                self._below.missed(Place(epoch, first), Place(epoch, lost))
                tree.announce(Missed(self.topic, epoch.root, first, lost, epoch.counter))
            shelf.next = lost + 1

    def _following(self) -> Epoch | None:
        """The next epoch to go through, of those that are known to have been."""
        assert self._at is not None
        known = [place.epoch for place in self._past]
        if self._newest is not None:
            known.append(self._newest)
        return min((epoch for epoch in known if epoch > self._at), default=None)

    def _enter(self, epoch: Epoch, tree: ModeTree) -> None:
        """Everything of the former epoch is settled."""
        assert self._at is not None
        former = self._buffer.shelf(self._at)
        known = {place.epoch: place.sequence for place in self._past}
        if self._blank and self._newest is not None:
            epoch = self._newest
        if tree.member:
            last = min(known.get(self._at, former.last), former.last)
            self._below.missed(Place(self._at, former.next), Place(epoch, 0))
            tree.announce(EpochChanged(self.topic, self._at, last, epoch))
        for passed in (self._at, *[one for one in known if self._at < one < epoch]):
            self._pass_by(passed, inf)
        self._at = epoch
        shelf = self._buffer.shelf(epoch)
        if not shelf.begun:
            shelf.begin(1)
        shelf.last = max(shelf.last, known.get(epoch, 0))
        self._stalled = None
        self._buffer.forget({*known, epoch, self._newest or epoch})

    # --- what is known ---

    def on_parent(self, tree: ModeTree) -> None:
        """Its patience is new, and it was told with the join what is needed."""
        self._have_patience(tree)
        self._wait = self.config.reorder_wait
        self._report_to_new_parent(tree)
        if self._missing():
            self._ask_later(tree)

    def on_status(self, peer: Peer, status: TreeStatus, tree: ModeTree) -> None:
        """From above: follow. From below: somebody has heard of a later epoch, or is behind."""
        above = tree.parent is not None and tree.parent.id == peer.id
        if not above and tree.child(peer.id) is None:
            return
        if tree.is_root or not above:
            self._heard_from_below(peer, status, tree)
        elif self._newest is None:
            self._begin_with(status, tree)
        elif status.last.epoch < self._newest:
            self._tell(peer, tree)
            self._publish_again(status, tree)  # the root may speak of a rival
        else:
            self._learn(status, tree)

    def _heard_from_below(self, peer: Peer, status: TreeStatus, tree: ModeTree) -> None:
        if self._newest is None or status.last.epoch == self._newest:
            return
        if status.last.epoch < self._newest:
            self._tell(peer, tree)
            self._report(status, tree)
        elif tree.is_root:
            if (
                status.last.epoch.root != peer.id
            ):  # two that reign at once must not outbid each other
                self._outbid(status, tree)
        elif tree.parent is not None:
            tree.say(tree.parent, TreeTold(self.topic, status))

    def _report(self, status: TreeStatus, tree: ModeTree) -> None:
        """Followers of another root do not go back to what they left out: the root must know."""
        epoch = status.last.epoch
        known = any(place.epoch == epoch for place in self._past)
        if epoch in self._rivals or (known and not left_out(status, self._past)):
            return
        self._rivals[epoch] = None
        if len(self._rivals) > MAX_RIVALS:
            del self._rivals[next(iter(self._rivals))]
        if tree.is_root:
            self._rival(status, tree)
        elif tree.parent is not None:
            tree.say(tree.parent, TreeTold(self.topic, status))

    def _begin_with(self, status: TreeStatus, tree: ModeTree) -> None:
        """The first that this node hears."""
        self._at = self._newest = status.last.epoch
        self._past = status.past[:PAST]
        self._leave_what_was()
        shelf = self._buffer.shelf(self._at)
        shelf.begin(max(1, status.start))
        shelf.skip = status.skip if shelf.start == status.start else 0
        shelf.claim = status.last.sequence + 1
        shelf.last = max(shelf.last, status.last.sequence)
        self._blank = shelf.last == 0 and not self._past
        told = TreeTold(self.topic, TreeStatus(status.last, self._past, shelf.start, shelf.skip))
        for child in tree.children:
            tree.say(child, told)
        self._advance(tree)

    def _leave_out(self, past: Iterable[Place], tree: ModeTree) -> None:
        """Of two that reigned at once, others may have followed the lower one. Who is with the higher one
        does not go back, and says so to its subscribers."""
        for place in past:
            epoch, last = place.epoch, place.sequence
            told = self._been.get(epoch, 0)
            if self._at is None or epoch >= self._at or last <= told:
                continue
            self._pass_by(epoch, last)
            if tree.member:
                first = int(told) + 1
                self._below.missed(Place(epoch, first), Place(epoch, last))
                tree.announce(Missed(self.topic, epoch.root, first, last, epoch.counter))

    def _leave_what_was(self) -> None:
        """What was numbered before a subscriber came is not missed. What comes beyond it is: a rival that
        does not know yet that another has followed may still number messages."""
        for place in self._past:
            if self._at is not None and place.epoch < self._at:
                self._pass_by(place.epoch, place.sequence)

    def _pass_by(self, epoch: Epoch, last: float) -> None:
        self._been.pop(epoch, None)
        self._been[epoch] = last
        if len(self._been) > MAX_BEEN:
            del self._been[next(iter(self._been))]

    def _learn(self, status: TreeStatus, tree: ModeTree) -> None:
        """The same epoch or a later one."""
        later = self._newest is None or status.last.epoch > self._newest
        before = self._status() if later else None
        first_hand, self._hearsay = self._hearsay, False
        self._leave_out(status.past, tree)
        self._newest = status.last.epoch
        self._past = merged(status.past if later else (*status.past, *self._past), self._newest)
        for place in (status.last, *self._past):
            shelf = self._buffer.find(place.epoch)
            if shelf is None and place.epoch == self._newest:
                shelf = self._buffer.shelf(place.epoch)
            if shelf is not None:
                shelf.last = max(shelf.last, place.sequence)
        if before is not None:
            self._publish_again(status, tree)
            self._report(before, tree)
        self._advance(tree)
        if later or first_hand:
            for child in tree.children:
                self._tell(child, tree)

    def _tell(self, peer: Peer, tree: ModeTree) -> None:
        above = tree.parent is not None and tree.parent.id == peer.id
        status = self._status() if above else self.status()
        if status is not None:
            tree.say(peer, TreeTold(self.topic, status))

    # --- children ---

    def on_join(self, join: TreeJoin, tree: ModeTree) -> None:
        """Send a child what it needs next, and all that follows."""
        child, expects = join.child, join.expects
        self._below.joined(child, join.members, tree.now)
        if expects is None:
            self._claims.forget(child.id)
            if join.last and self._newest is not None:
                start, _ = self._latest(join.last)
                shelf = self._buffer.shelf(self._newest)
                self._serve(child, shelf.between(start, shelf.last), tree)
            return
        self._claims.joined(child.id, expects)
        self._word_of(child.id, expects, tree)
        if self._newest is None:
            if not tree.is_root:
                self._begin_for_child(expects)
            return
        ahead = expects.epoch > self._newest
        if expects.epoch == self._newest == self._reign(tree):
            ahead = (
                expects.sequence > self._buffer.shelf(self._newest).last + 1
            )  # numbers given twice
        if ahead and tree.is_root:
            last = Place(expects.epoch, expects.sequence - 1)
            self._outbid(TreeStatus(last), tree)
        elif ahead and tree.parent is not None:
            told = TreeStatus(Place(expects.epoch, expects.sequence - 1))
            tree.say(tree.parent, TreeTold(self.topic, told))
        else:
            self._serve(child, self._from(expects), tree)

    def _begin_for_child(self, expects: Place) -> None:
        """A forwarder that knows nothing yet needs what its first child needs. It tells its other children
        nothing before its parent has told it: they would leave out the epochs in between."""
        self._at = self._newest = expects.epoch
        self._hearsay = True
        shelf = self._buffer.shelf(expects.epoch)
        shelf.begin(max(1, expects.sequence))
        self._blank = shelf.last == 0

    def _from(self, place: Place) -> Iterator[Batch]:
        for epoch in self._buffer.epochs():
            if epoch >= place.epoch:
                shelf = self._buffer.shelf(epoch)
                first = place.sequence if epoch == place.epoch else 1
                yield from shelf.between(first, shelf.last)

    def _serve(self, peer: Peer, batches: Iterable[Batch], tree: ModeTree) -> None:
        """As much as half a window holds; for the rest the peer will ask."""
        room = self.config.window // 2
        for batch in batches:
            if tree.reticent and batch.root != tree.me.id:
                continue
            room -= batch.size
            if room < 0:
                return
            tree.send(peer, msgspec.structs.replace(batch, hop=batch.hop + 1, wire=None))

    def on_note(self, peer: Peer, message: Message, tree: ModeTree) -> None:
        """Needs and answers, between neighbours only; a root may tell a former one of a rival."""
        above = tree.parent is not None and tree.parent.id == peer.id
        if not above and tree.child(peer.id) is None:
            if isinstance(message, TreeTold):
                self._publish_again(message.status, tree)
            return
        match message:
            case TreeNeed():
                self._needed(peer, message, above, tree)
            case TreeGone():
                self._gone(message.epoch, message.first, message.last, peer, tree)
            case TreeTold():
                self.on_status(peer, message.status, tree)
            case TreeHad() if not above:
                self._heard(peer, message, tree)
            case TreeStable() if above:
                self._told_stable(message.place, tree)

    def _let_go(self, stable: Place, tree: ModeTree) -> None:
        self._buffer.stable = stable
        self._buffer.trim(tree.now)

    def _needed(self, peer: Peer, need: TreeNeed, above: bool, tree: ModeTree) -> None:
        epoch, shelf = need.epoch, self._buffer.find(need.epoch)
        if need.first < 1 or need.last < need.first:
            return
        if tree.reticent and epoch.root != tree.me.id:
            shelf = None  # who wants it asks others
        if shelf is None:
            missing = [(need.first, need.last)]
        else:
            self._serve(peer, shelf.between(need.first, need.last), tree)
            missing = shelf.absent(need.first, need.last)
        for first, last in missing[:MAX_RANGES]:
            had = min(last, shelf.next - 1) if shelf is not None and shelf.begun else 0
            if above:
                if self._ask_below(epoch, first, last, tree):
                    continue
                had = last
            elif epoch == self._reign(tree):
                had = last
            elif shelf is None or first < shelf.start:
                had = 0
            if had >= first:
                tree.say(peer, TreeGone(self.topic, epoch, first, had))
            if had < last:
                self._want(epoch, max(first, had + 1), last, tree)

    # --- gaps ---

    def _missing(self) -> bool:
        if self._wants:
            return True
        return self._at is not None and not self._buffer.shelf(self._at).settled

    def _want(self, epoch: Epoch, first: int, last: int, tree: ModeTree) -> None:
        """Something that a child needs and this node has not seen."""
        key = (epoch, first, last)
        if key in self._wants or len(self._wants) >= MAX_WANTS:
            return
        self._wants[key] = tree.now
        if not self._ask(epoch, first, last, tree) and self._settled_reign(tree):
            self._gone(epoch, first, last, None, tree)
        else:
            self._ask_later(tree)

    def _satisfied(self, epoch: Epoch, first: int, last: int) -> None:
        for key in [key for key in self._wants if key[0] == epoch]:
            if first <= key[2] and last >= key[1] and not self._absent(key):
                del self._wants[key]

    def _absent(self, want: Range) -> list[tuple[int, int]]:
        shelf = self._buffer.find(want[0])
        return [want[1:]] if shelf is None else shelf.absent(want[1], want[2])

    def _ask_later(self, tree: ModeTree) -> None:
        if not self._asking:
            self._asking = True
            tree.set_timer(self._wait, GAP)

    def _ask_all(self, tree: ModeTree) -> None:
        self._asking = False
        self._give_up_what_waited(tree)
        asked = 0
        if self._at is not None:
            for first, last in self._buffer.shelf(self._at).gaps()[:MAX_RANGES]:
                self._ask(self._at, first, last, tree)
                asked += 1
        for want in list(self._wants)[:MAX_RANGES]:
            for first, last in self._absent(want):
                self._ask(want[0], first, last, tree)
                asked += 1
        if not asked:
            self._wait = self.config.reorder_wait
        else:
            self._wait = min(2 * self._wait, SLOWEST * self.config.reorder_wait)
        if self._missing():
            self._ask_later(tree)

    def _ask(self, epoch: Epoch, first: int, last: int, tree: ModeTree) -> bool:
        """Ask the parent or, at the root, a child; whether there was somebody to ask."""
        if tree.is_root:
            return self._ask_below(epoch, first, last, tree)
        if tree.parent is not None:
            tree.say(tree.parent, TreeNeed(self.topic, epoch, first, last))
        return tree.parent is not None

    def _ask_below(self, epoch: Epoch, first: int, last: int, tree: ModeTree) -> bool:
        target = self._claims.whom_to_ask((epoch, first, last), tree)
        if target is not None:
            tree.say(target, TreeNeed(self.topic, epoch, first, last))
        return target is not None

    def _have_patience(self, tree: ModeTree) -> None:
        """Whoever could fill the gaps is asked from now on."""
        self._stalled_since = tree.now
        for want in self._wants:
            self._wants[want] = tree.now

    def _give_up_what_waited(self, tree: ModeTree) -> None:
        """A gap that was there long enough, and all others that were there then. As long as there is no way
        up to the root, nobody has been asked who could know that it is gone."""
        if not tree.rooted:
            self._have_patience(tree)
            return
        due = tree.now - self.config.gap_timeout
        for want in [want for want, since in self._wants.items() if since <= due]:
            parts = self._absent(want) if self._wants.pop(want, None) is not None else []
            for first, last in parts:
                self._gone(want[0], first, last, None, tree)
        if self._at is None:
            return
        shelf = self._buffer.shelf(self._at)
        if shelf.settled:
            self._stalled = None
            return
        if self._stalled is None or shelf.next > self._stalled.sequence:
            self._stalled = Place(self._at, shelf.last)
            self._stalled_since = tree.now
        elif self._stalled_since <= due:
            for first, last in shelf.absent(shelf.next, self._stalled.sequence):
                self._gone(self._at, first, last, None, tree)

    def _gone(self, epoch: Epoch, first: int, last: int, said: Peer | None, tree: ModeTree) -> None:
        """Nobody above has it. A root whose child has not, asks another, or waits for one that may have."""
        if said is not None and tree.child(said.id) is not None:
            self._claims.lacking(said.id, (epoch, first, last))
            if self._ask_below(epoch, first, last, tree):
                return
            if tree.parent is not None:
                tree.say(tree.parent, TreeGone(self.topic, epoch, first, last))
            if not self._settled_reign(tree):
                return
        for key in [key for key in self._wants if key[0] == epoch]:
            if first <= key[1] and key[2] <= last:
                del self._wants[key]
        shelf = self._buffer.find(epoch)
        parts = [(first, last)] if shelf is None else shelf.absent(first, last)
        for part in parts:
            for child in tree.children:
                if said is None or child.id != said.id:
                    tree.say(child, TreeGone(self.topic, epoch, *part))
            first, last = part
            if shelf is not None and shelf.begun:
                first, last = max(first, shelf.next), min(last, shelf.last)
                if first <= last:
                    shelf.lose(first, last)
        self._advance(tree)
