"""What one node of an ordered topic does, told things one by one; trials of networks are in tests/sim."""

from __future__ import annotations

import itertools
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.config import DeliveryConfig
from overlaymq.core.reliability.epochs import left_out, merged
from overlaymq.core.reliability.following import GAP
from overlaymq.core.reliability.ordered import BEGIN, PREDECESSOR_WAIT
from overlaymq.core.reliability.sequencer import MAX_PLACES, Early, Sequencer
from overlaymq.core.reliability.shelf import Buffer, Shelf
from overlaymq.events import EpochChanged, Missed, Route
from overlaymq.ids import Id
from overlaymq.messages import (
    Batch,
    Epoch,
    Lost,
    Peer,
    Place,
    TreeGone,
    TreeHad,
    TreeNeed,
    TreeStatus,
    TreeTold,
)
from tests.core.stand import (
    ABOVE,
    BELOW,
    CONFIG,
    ME,
    NEW,
    OLD,
    OTHER,
    TOPIC,
    Stand,
    batch,
    published,
)

# --- the root ---


def test_a_root_numbers_from_one_without_gaps() -> None:
    """Reference: Scribe JSAC III-B.2, the root assigns sequence numbers."""
    root = Stand(root=True)
    root.mode.on_root(root.tree)
    given = [root.mode.on_forward(published(n, count=2), root.tree) for n in (0, 2, 4)]
    assert [one.root_sequence for one in given if one is not None] == [1, 3, 5]
    assert {(one.root, one.root_epoch) for one in given if one is not None} == {(ME.id, 1)}
    root.done()
    assert root.delivered == [(1, 1), (1, 3), (1, 5)]


def test_what_may_get_another_place_is_remembered_within_bounds() -> None:
    """A former root is not told when another one gives the place, so it remembered each for ever."""
    sequencer = Sequencer()
    for number in range(MAX_PLACES + 100):
        sequencer.allow(published(number))
    assert len(sequencer._again) == MAX_PLACES


def test_a_copy_gets_no_second_place_and_the_first_is_remembered() -> None:
    root = Stand(root=True)
    root.mode.on_root(root.tree)
    root.mode.on_forward(published(0), root.tree)
    assert root.mode.on_forward(published(0), root.tree) is None
    assert root.mode.place(published(0)) == Place(Epoch(1, ME.id), 1)


def test_a_root_that_knows_of_a_predecessor_waits_for_its_word() -> None:
    stand = Stand().start(5)
    stand.tree.is_root, stand.tree.parent = True, None
    stand.mode.on_root(stand.tree)
    stand.done()
    assert not stand.numbers()
    stand.joined(Peer(OLD.root, "before"), Place(OLD, 9))
    assert stand.numbers()
    status = stand.mode.status()
    assert status is not None
    assert status.last.epoch == Epoch(2, ME.id)
    assert status.past == (Place(OLD, 8),), "the predecessor's own word counts"


def test_a_publisher_that_becomes_the_root_knows_that_there_was_one() -> None:
    """In a partition it took itself for the first, and so for one that knows all subscribers: it let go what
    nobody had."""
    stand = Stand(root=True)
    stand.mode.on_placed(Place(OLD, 7))
    stand.mode.on_placed(Place(OLD, 5))
    stand.mode.on_root(stand.tree)
    assert not stand.done().numbers()
    stand.wait(3)
    assert stand.numbers()
    assert stand.mode.status() == TreeStatus(Place(Epoch(2, ME.id), 0), (Place(OLD, 7),), 1)
    assert not stand.mode._vouches(CONFIG.keep_seconds, stand.tree)


def test_a_predecessor_that_says_nothing_is_not_waited_for_long() -> None:
    stand = Stand().start(5)
    stand.tree.is_root, stand.tree.parent = True, None
    stand.mode.on_root(stand.tree)
    stand.done()
    assert stand.due() == [BEGIN]
    stand.wait(5)
    assert stand.numbers()


def test_a_root_that_hears_of_a_later_epoch_begins_above_it_and_publishes_again() -> None:
    root = Stand(root=True)
    root.mode.on_root(root.tree)
    root.mode.on_forward(published(0), root.tree)
    root.joined(BELOW, Place(Epoch(3, Id(9)), 4))
    status = root.mode.status()
    assert status is not None
    assert status.last == Place(Epoch(4, ME.id), 0)
    assert Place(Epoch(3, Id(9)), 3) in status.past
    assert [one.first for one in root.tree.again] == [0], "who was there will not come back for it"
    again = root.mode.on_forward(root.tree.again[0], root.tree)
    assert again is not None
    assert again.root_epoch == 4


def test_a_root_that_is_outbid_again_and_again_begins_anew_only_now_and_then() -> None:
    """Two roots that hear of each other by others would otherwise never stop."""
    root = Stand(root=True)
    root.mode.on_root(root.tree)
    counters = []
    for number in range(3, 60, 3):
        root.joined(BELOW, Place(Epoch(number, Id(9)), 1)).wait(0.1)
        status = root.mode.status()
        assert status is not None
        counters.append(status.last.epoch.counter)
    assert set(counters) == {4}, "the first time at once, then it waits"
    root.wait(PREDECESSOR_WAIT)
    status = root.mode.status()
    assert status is not None
    assert status.last.epoch == Epoch(58, ME.id), "above all that it has heard of meanwhile"


def test_a_former_root_publishes_again_what_others_do_not_know_of() -> None:
    stand = Stand(root=True)
    stand.mode.on_root(stand.tree)
    for number in range(4):
        stand.mode.on_forward(published(number), stand.tree)
    stand.mode.on_unrooted(stand.tree)
    stand.tree.is_root, stand.tree.parent = False, ABOVE
    stand.done().told(TreeStatus(Place(NEW, 0), (Place(Epoch(1, ME.id), 2),)))
    assert [one.first for one in stand.tree.again] == [2, 3]
    assert all(one.root_sequence == 0 for one in stand.tree.again)


def test_a_root_tells_a_former_one_what_followers_of_a_rival_left_out() -> None:
    stand = Stand().start(5)
    stand.tree.is_root, stand.tree.parent = True, None
    stand.mode.on_root(stand.tree)
    stand.joined(Peer(OLD.root, "before"), Place(OLD, 9))
    left_out = TreeStatus(Place(Epoch(1, Id(101)), 3), (Place(OLD, 6),))
    stand.mode.on_status(BELOW, left_out, stand.tree)
    routed = [(one.key, one.message) for one in stand.tree.effects if isinstance(one, Route)]
    assert routed == [(OLD.root, TreeTold(TOPIC.id, left_out))]


def test_a_former_root_that_hears_of_it_publishes_the_rest_again() -> None:
    stand = Stand(root=True)
    stand.mode.on_root(stand.tree)
    for number in range(4):
        stand.mode.on_forward(published(number), stand.tree)
    stand.mode.on_unrooted(stand.tree)
    mine = Epoch(1, ME.id)
    stand.tree.is_root, stand.tree.parent = False, ABOVE
    stand.done().told(TreeStatus(Place(NEW, 0), (Place(mine, 4),)))
    assert stand.tree.again == [], "all of it is known"
    left_out = TreeStatus(Place(Epoch(1, Id(999)), 0), (Place(mine, 3),))
    stand.note(Peer(Id(77), "the root"), TreeTold(TOPIC.id, left_out))
    assert [one.first for one in stand.tree.again] == [3]
    stand.note(Peer(Id(77), "the root"), TreeTold(TOPIC.id, left_out))
    assert len(stand.tree.again) == 1, "once is enough"


def test_what_followers_of_a_higher_epoch_left_out_is_published_again_by_the_root() -> None:
    """The network parted: one side went on in the old epoch, the other began one that is above ours
    (partitions, seed 1). Who followed that one will not go back; who numbered the rest may have died."""
    stand = Stand().start().get(*[batch(n) for n in range(1, 6)])
    stand.tree.is_root, stand.tree.parent = True, None
    stand.mode.on_root(stand.tree)
    stand.joined(Peer(OLD.root, "before"), Place(OLD, 6))
    rival = TreeStatus(Place(Epoch(2, Id(999)), 7), (Place(OLD, 3),))
    stand.note(BELOW, TreeTold(TOPIC.id, rival))
    status = stand.mode.status()
    assert status is not None
    assert status.last.epoch == Epoch(3, ME.id)
    assert [one.first for one in stand.tree.again] == [4, 5]


def test_what_the_root_lacks_of_that_is_asked_of_who_numbered_it() -> None:
    stand = Stand().start().get(batch(1))
    stand.tree.is_root, stand.tree.parent = True, None
    stand.mode.on_root(stand.tree)
    stand.joined(Peer(OLD.root, "before"), Place(OLD, 6))
    rival = TreeStatus(Place(Epoch(2, Id(999)), 7), (Place(OLD, 3),))
    stand.mode.on_note(BELOW, TreeTold(TOPIC.id, rival), stand.tree)
    routed = [(one.key, one.message) for one in stand.tree.effects if isinstance(one, Route)]
    assert routed == [(OLD.root, TreeTold(TOPIC.id, rival))]
    assert stand.tree.again == []


def test_an_epoch_of_which_only_a_number_is_known_has_left_out_nothing_that_is_known() -> None:
    known = [Place(OLD, 5)]
    assert left_out(TreeStatus(Place(Epoch(3, Id(9)), 4)), known) == []
    assert left_out(TreeStatus(Place(Epoch(3, Id(9)), 4), (Place(OLD, 3),)), known) == [(OLD, 4, 5)]
    assert left_out(TreeStatus(Place(Epoch(3, Id(9)), 4), (Place(OLD, 5),)), known) == []


# --- one publisher's order ---


def reigning() -> Stand:
    root = Stand(root=True)
    root.mode.on_root(root.tree)
    return root.done()


def arrive(
    root: Stand, first: int, behind: int = 0, *, chunk: int = 0, chunks: int = 1
) -> list[int]:
    """A batch comes to the root; the numbers that get a place, as a strategy would have it."""
    came = Batch(TOPIC.id, Id(50), 0, first, 1, b"x", chunk=chunk, chunks=chunks, behind=behind)
    numbered = []
    root.tree.again.append(came)
    while root.tree.again:
        one = root.tree.again.pop(0)
        if not (one.behind and root.mode.too_early(one, root.tree.now)):
            placed = root.mode.on_forward(one, root.tree)
            numbered += [] if placed is None else [placed.first]
    root.done()
    return numbered


def test_a_batch_waits_for_those_of_its_publisher_that_are_under_way() -> None:
    root = reigning()
    assert arrive(root, 0) == [0]
    assert arrive(root, 3, behind=2) == []
    assert arrive(root, 2, behind=1) == []
    assert arrive(root, 2, behind=1) == [], "sent again, it waits once"
    assert arrive(root, 1) == [1, 2, 3]
    assert arrive(root, 2, behind=1) == [], "a copy"


def test_what_was_acknowledged_before_is_not_waited_for() -> None:
    """A root that knows nothing of a publisher's past needs not know it."""
    root = reigning()
    assert arrive(root, 7) == [7]
    assert arrive(root, 9, behind=1) == []
    assert arrive(root, 9) == [9], "sent again, after 8 was given up"


def test_a_large_message_is_whole_before_the_next_has_its_turn() -> None:
    root = reigning()
    assert arrive(root, 0, chunk=1, chunks=2) == [0]
    assert arrive(root, 1, behind=1) == []
    assert arrive(root, 0, chunk=0, chunks=2) == [0, 1]


def test_who_waits_for_what_the_application_stopped_waits_no_longer() -> None:
    root = reigning()
    assert arrive(root, 1, behind=1) == []
    root.mode.on_stopped(published(0), root.tree)
    assert [one.first for one in root.tree.again] == [1]


def test_nobody_waits_for_ever_for_a_publisher_that_is_gone() -> None:
    root = reigning()
    assert arrive(root, 1, behind=1) == []
    assert arrive(root, 2, behind=2) == []
    root.wait(CONFIG.gap_timeout)
    root.mode.on_tick(root.tree)
    assert [(one.first, one.behind) for one in root.tree.again] == [(1, 0), (2, 0)]


def test_what_waits_is_bounded_in_bytes() -> None:
    early = Early(limit=3 * published(0).size)
    for number in range(1, 9):
        early.keep(published(number), 0.0)
    assert len(early) == 3
    early.take(published(2))
    early.keep(published(9), 0.0)
    assert [one.first for one in early.overdue(0.0)] == [1, 3, 9]
    assert len(early) == 0


def test_what_waits_cannot_grow_under_its_name() -> None:
    """A copy with another body counts for what it is."""
    small = published(1)
    large = msgspec.structs.replace(small, body=b"x" * 500)
    early = Early(limit=small.size + 10)
    early.keep(small, 0.0)
    early.keep(large, 0.0)
    assert early.overdue(0.0) == [small]
    early.keep(published(2), 0.0)
    early.keep(published(3), 0.0)
    assert [one.first for one in early.overdue(0.0)] == [2], "nothing is left that takes room"


@given(st.permutations(list(range(8))), st.integers(0, 10_000))
def test_whatever_is_lost_and_sent_again_keeps_its_order(arrivals: list[int], seed: int) -> None:
    """A publisher that sends all that is not acknowledged again, oldest first, over a network that loses."""
    random, root = Random(seed), reigning()
    placed: list[int] = []
    unacknowledged = list(range(8))
    for number in arrivals:  # the first time, in any order
        if random.random() < 0.6:
            placed += arrive(root, number, behind=number)
    while unacknowledged := [n for n in unacknowledged if n not in placed]:
        oldest = unacknowledged[0]
        for number in unacknowledged:
            if random.random() < 0.6:
                placed += arrive(root, number, behind=number - oldest)
    assert placed == list(range(8))


# --- order and gaps ---


def test_what_comes_too_early_waits_and_the_parent_is_asked_for_the_gap() -> None:
    stand = Stand().start().get(batch(1), batch(3), batch(4))
    assert stand.delivered == [(1, 1)]
    stand.wait(0.4)
    assert stand.sent(ABOVE, TreeNeed) == []
    stand.wait(0.2)
    assert stand.sent(ABOVE, TreeNeed) == [TreeNeed(TOPIC.id, OLD, 2, 2)]
    stand.get(batch(2))
    assert stand.delivered == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert stand.events == []


def test_what_the_parent_has_no_more_is_missed() -> None:
    stand = Stand().start().get(batch(1), batch(4)).note(ABOVE, TreeGone(TOPIC.id, OLD, 2, 3))
    assert stand.events == [Missed(TOPIC.id, OLD.root, 2, 3, OLD.counter)]
    assert stand.delivered == [(1, 1), (1, 4)]
    assert TreeGone(TOPIC.id, OLD, 2, 3) in stand.sent(BELOW, TreeGone), "children are told"


def test_a_gap_that_nobody_fills_is_given_up_and_announced() -> None:
    stand = Stand().start().get(batch(2)).wait(30)
    assert stand.events == [Missed(TOPIC.id, OLD.root, 1, 1, OLD.counter)]
    assert stand.delivered == [(1, 2)]
    assert 3 <= len(stand.sent(ABOVE, TreeNeed)) <= 10
    stand.get(batch(1))
    assert stand.delivered == [(1, 2)], "what comes after that is too late"


def test_a_lost_tail_is_seen_by_the_status() -> None:
    stand = Stand().start().get(batch(1)).told(TreeStatus(Place(OLD, 3))).wait(1)
    assert stand.sent(ABOVE, TreeNeed) == [TreeNeed(TOPIC.id, OLD, 2, 3)]


def test_a_number_that_the_application_stopped_is_void() -> None:
    stand = Stand().start().get(batch(1))
    stand.mode.on_stopped(batch(2), stand.tree)
    stand.get(batch(3))
    assert stand.delivered == [(1, 1), (1, 3)]
    assert stand.events == [Missed(TOPIC.id, OLD.root, 2, 2, OLD.counter)]


def test_a_forwarder_that_is_no_member_repairs_too_and_tells_nobody() -> None:
    stand = Stand()
    stand.tree.member = False
    stand.start().get(batch(1), batch(3)).wait(1)
    assert stand.sent(ABOVE, TreeNeed)
    stand.wait(30)
    assert stand.delivered == []
    assert stand.events == []


@given(st.integers(0, 10_000), st.integers(1, 30))
def test_any_order_of_arrival_gives_one_order_of_delivery(seed: int, count: int) -> None:
    """And what never arrives is announced: what was delivered and what was missed is one unbroken run."""
    random = Random(seed)
    batches, sequence = [], 1
    for _ in range(count):
        length = random.choice([1, 1, 3])
        batches.append(batch(sequence, length))
        sequence += length
    arriving = [one for one in batches if random.random() < 0.8]
    random.shuffle(arriving)
    stand = Stand().start()
    for one in arriving:
        stand.get(one)
        stand.wait(random.choice([0, 0, 0.3]))
    stand.told(TreeStatus(Place(OLD, sequence - 1))).wait(60)
    told = [(event.first, event.last) for event in stand.events if isinstance(event, Missed)]
    lengths = {one.root_sequence: one.count for one in batches}
    told += [(first, first + lengths[first] - 1) for _, first in stand.delivered]
    told.sort()
    assert stand.delivered == sorted(stand.delivered)
    assert told[0][0] == 1
    assert told[-1][1] == sequence - 1
    assert all(after[0] == before[1] + 1 for before, after in itertools.pairwise(told))
    if len(arriving) == len(batches):
        assert not stand.events


# --- children ---


def test_a_repair_join_is_answered_with_all_that_follows() -> None:
    """Reference: Scribe JSAC III-B.2, joinHandler retransmits buffered messages above n."""
    stand = Stand().start().get(*[batch(n) for n in range(1, 6)]).joined(BELOW, Place(OLD, 3))
    sent = [one.root_sequence for one in stand.sent(BELOW, Batch) if isinstance(one, Batch)]
    assert sent == [3, 4, 5]


def test_a_need_is_served_or_answered_or_passed_up() -> None:
    stand = Stand(config=DeliveryConfig(keep_messages=3, reorder_wait=0.5))
    stand.start(10).get(*[batch(n) for n in range(11, 16)])  # 11 and 12 are forgotten
    stand.note(BELOW, TreeNeed(TOPIC.id, OLD, 8, 14))
    sent = [one.root_sequence for one in stand.sent(BELOW, Batch) if isinstance(one, Batch)]
    assert sent == [13, 14]
    assert stand.sent(BELOW, TreeGone) == []
    assert stand.sent(ABOVE, TreeNeed) == [TreeNeed(TOPIC.id, OLD, 8, 12)], "never had 8 to 10"
    stand.said.clear()
    stand.note(BELOW, TreeNeed(TOPIC.id, OLD, 11, 13))
    assert stand.sent(BELOW, TreeGone) == [TreeGone(TOPIC.id, OLD, 11, 12)]


def test_a_root_asks_a_child_that_is_further_for_an_epoch_before_its_own() -> None:
    stand = Stand().start()
    stand.tree.is_root, stand.tree.parent = True, None
    stand.get(batch(1), batch(4))
    stand.mode.on_root(stand.tree)
    stand.wait(3)
    stand.said.clear()
    stand.joined(OTHER, Place(OLD, 5)).wait(5)
    assert TreeNeed(TOPIC.id, OLD, 2, 3) in stand.sent(OTHER, TreeNeed)


def test_a_child_that_lacks_one_message_is_still_asked_for_others() -> None:
    """Its answer that one was gone took back all its claims: then the root asked nobody, and a message was
    missed that a sibling had."""
    stand = Stand(root=True).joined(BELOW, Place(OLD, 1)).joined(OTHER, Place(OLD, 1))
    stand.mode.on_root(stand.tree)
    for child in (BELOW, OTHER):
        stand.note(child, TreeGone(TOPIC.id, OLD, 1, 1))
    stand.said.clear()
    stand.note(BELOW, TreeNeed(TOPIC.id, OLD, 1, 2))
    stand.note(BELOW, TreeGone(TOPIC.id, OLD, 1, 2))
    assert TreeNeed(TOPIC.id, OLD, 1, 2) in stand.sent(OTHER, TreeNeed)
    stand.said.clear()
    stand.note(OTHER, TreeGone(TOPIC.id, OLD, 1, 2))
    assert stand.sent(BELOW, TreeNeed) == stand.sent(OTHER, TreeNeed) == [], "both have said it"
    stand.joined(OTHER, Place(OLD, 3)).wait(5)
    assert TreeNeed(TOPIC.id, OLD, 1, 2) in stand.sent(OTHER, TreeNeed), "it may have it now"


def test_a_forwarder_that_knows_nothing_needs_what_its_first_child_needs() -> None:
    stand = Stand().joined(BELOW, Place(OLD, 7))
    assert stand.mode.expects() == Place(OLD, 7)
    stand.told(TreeStatus(Place(OLD, 9), (), 10)).wait(1)
    assert stand.sent(ABOVE, TreeNeed) == [TreeNeed(TOPIC.id, OLD, 7, 9)]


def test_a_forwarder_with_only_a_childs_word_does_not_tell_others_that_nothing_was_before() -> None:
    """It told its next child of the epoch without those before: that child left out what it lacked of them,
    although no root had failed."""
    stand = Stand().joined(BELOW, Place(NEW, 1)).joined(OTHER, Place(OLD, 4))
    assert stand.mode.status() is None
    assert stand.sent(OTHER, TreeTold) == []
    known = TreeStatus(Place(NEW, 0), (Place(OLD, 9),), 1)
    stand.told(known)
    assert stand.mode.status() == known
    assert stand.sent(OTHER, TreeTold) == stand.sent(BELOW, TreeTold) == [TreeTold(TOPIC.id, known)]


def test_a_need_from_above_goes_down_to_who_has_more_and_the_batch_goes_up() -> None:
    stand = Stand().start(10).joined(OTHER, Place(OLD, 9))
    stand.note(ABOVE, TreeNeed(TOPIC.id, OLD, 4, 4))
    assert stand.sent(OTHER, TreeNeed) == [TreeNeed(TOPIC.id, OLD, 4, 4)]
    stand.tree.source = OTHER
    stand.get(batch(4))
    sent = [one.root_sequence for one in stand.sent(ABOVE, Batch) if isinstance(one, Batch)]
    assert sent == [4]
    stand.tree.source = None
    stand.note(ABOVE, TreeNeed(TOPIC.id, OLD, 5, 5)).note(OTHER, TreeGone(TOPIC.id, OLD, 5, 5))
    assert stand.sent(ABOVE, TreeGone) == [TreeGone(TOPIC.id, OLD, 5, 5)]
    assert stand.events == [], "what a child has not may still be had"


def test_wants_that_are_given_up_together_are_given_up_once_each() -> None:
    """Giving up one also gives up those within it: the others are not there any more."""
    stand = Stand().start(20)
    for first, last in ((3, 9), (4, 5), (6, 6)):
        stand.note(BELOW, TreeNeed(TOPIC.id, OLD, first, last))
    stand.wait(30)
    assert stand.sent(BELOW, TreeGone) == [TreeGone(TOPIC.id, OLD, 3, 9)]
    assert stand.events == [], "this node has begun later"


def test_strangers_are_not_answered() -> None:
    stand = Stand().start().get(batch(1))
    stand.note(Peer(Id(99), "stranger"), TreeNeed(TOPIC.id, OLD, 1, 1))
    assert stand.said == [] or all(peer.id != 99 for peer, _ in stand.said)


# --- epochs ---


def test_the_old_epoch_is_settled_before_the_new_one_begins() -> None:
    stand = Stand().start().get(batch(1), batch(1, epoch=NEW))
    stand.told(TreeStatus(Place(NEW, 1), (Place(OLD, 2),)))
    assert stand.delivered == [(1, 1)]
    stand.get(batch(2))
    assert stand.delivered == [(1, 1), (1, 2), (2, 1)]
    assert stand.events == [EpochChanged(TOPIC.id, OLD, 2, NEW)]


def test_what_the_old_root_numbered_beyond_what_is_known_may_be_lost() -> None:
    stand = (
        Stand().start().get(batch(1), batch(2)).told(TreeStatus(Place(NEW, 0), (Place(OLD, 1),)))
    )
    assert stand.events == [EpochChanged(TOPIC.id, OLD, 1, NEW)]
    assert stand.delivered == [(1, 1), (1, 2)]


def test_nobody_goes_back_an_epoch() -> None:
    stand = Stand().start(epoch=NEW).get(batch(1, epoch=NEW), batch(1, epoch=OLD))
    assert stand.delivered == [(2, 1)]
    stand.told(TreeStatus(Place(OLD, 5)))
    assert stand.sent(ABOVE, TreeTold), "a parent that is behind is told"


def test_epochs_in_between_are_gone_through() -> None:
    between, last = Epoch(2, Id(8)), Epoch(3, Id(9))
    stand = Stand().start().get(batch(1))
    stand.told(TreeStatus(Place(last, 1), (Place(between, 2), Place(OLD, 1))))
    stand.get(batch(1, 2, epoch=between), batch(1, epoch=last))
    assert stand.delivered == [(1, 1), (2, 1), (3, 1)]
    changes = [(event.old, event.new) for event in stand.events if isinstance(event, EpochChanged)]
    assert changes == [(OLD, between), (between, last)]


def test_who_has_had_nothing_wants_nothing_old() -> None:
    late = Epoch(5, Id(9))
    stand = (
        Stand().start(0, epoch=OLD).told(TreeStatus(Place(late, 0), (Place(Epoch(4, Id(8)), 700),)))
    )
    stand.get(batch(1, epoch=late))
    assert stand.delivered == [(5, 1)]
    assert stand.events == [EpochChanged(TOPIC.id, OLD, 0, late)]


def test_a_batch_of_an_unknown_epoch_makes_a_node_ask() -> None:
    stand = Stand().start().get(batch(1), batch(1, epoch=NEW))
    assert len(stand.sent(ABOVE, TreeTold)) == 1


def test_what_is_told_of_the_past_is_bounded() -> None:
    places = [Place(Epoch(n, Id(1)), n) for n in range(100)]
    assert [place.sequence for place in merged(places, Epoch(50, Id(0)))] == list(range(49, 41, -1))


# --- the buffer ---


def test_the_buffer_is_bounded_in_messages_bytes_and_time() -> None:
    for config in (DeliveryConfig(keep_messages=5), DeliveryConfig(keep_bytes=5 * 65)):
        buffer = Buffer(config)
        for number in range(1, 20):
            buffer.add(batch(number), 0.0)
        assert [one.root_sequence for one in buffer.shelf(OLD).between(1, 99)] == list(
            range(15, 20)
        )
    buffer = Buffer(DeliveryConfig(keep_seconds=10))
    for number in range(1, 20):
        buffer.add(batch(number), float(number))
    assert [one.root_sequence for one in buffer.shelf(OLD).between(1, 99)] == list(range(9, 20))


def test_what_waits_and_has_to_go_is_missed() -> None:
    stand = Stand(config=DeliveryConfig(keep_messages=2, reorder_wait=0.5, gap_timeout=10))
    stand.start().get(batch(2), batch(3), batch(4), batch(5)).get(batch(1))
    assert [event for event in stand.events if isinstance(event, Missed)]
    assert stand.delivered == sorted(stand.delivered)
    assert stand.delivered[-1] == (1, 5)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4)), max_size=20))
def test_a_shelf_knows_what_it_lacks(runs: list[tuple[int, int]]) -> None:
    """Against a set of numbers."""
    shelf, here = Shelf(), set[int]()
    shelf.begin(1)
    for first, count in runs:
        numbers = set(range(first, first + count))
        if not numbers & here:
            shelf.add(batch(first, count))
            here |= numbers
    lacking = [n for first, last in shelf.absent(1, 50) for n in range(first, last + 1)]
    assert lacking == [n for n in range(1, 51) if n not in here]
    assert all((shelf.at(n) is not None) == (n in here) for n in range(1, 51))


def test_gap_timers_do_not_pile_up() -> None:
    stand = Stand().start().get(*[batch(n) for n in range(2, 40, 2)])
    assert stand.due() == [GAP]


def test_what_a_lower_rival_numbered_is_announced_by_who_does_not_go_back_to_it() -> None:
    """Found in roots, seed 23: the next root had followed the rival, and its past is what it tells.

    Reference: design 4, no silent loss.
    """
    rival = Epoch(OLD.counter, Id(OLD.root - 1))
    stand = Stand().start().get(batch(1))
    stand.told(TreeStatus(Place(NEW, 0), (Place(rival, 3),)))
    assert Missed(TOPIC.id, rival.root, 1, 3, rival.counter) in stand.events
    report = stand.wait(1).sent(ABOVE, TreeHad)[-1]
    assert isinstance(report, TreeHad)
    assert Lost(Place(rival, 1), Place(rival, 3), 1) in report.lost
    before = len(stand.events)
    stand.told(TreeStatus(Place(NEW, 0), (Place(rival, 5),)))
    assert stand.events[before:] == [Missed(TOPIC.id, rival.root, 4, 5, rival.counter)], (
        "only the rest"
    )


def test_epochs_before_the_first_that_a_subscriber_was_told_of_are_not_missed() -> None:
    """Reference: issue 4, a subscriber never goes back an epoch."""
    stand = Stand()
    stand.told(TreeStatus(Place(NEW, 0), (Place(OLD, 4),)))
    stand.told(TreeStatus(Place(NEW, 1), (Place(OLD, 4),)))
    assert not [event for event in stand.events if isinstance(event, Missed)]
