"""What trials of ordered topics have found, told to one node: each was a loss, a wrong order or a receipt
that came too early, in a seed of ``overlaymq.sim.ordered_trial``."""

from __future__ import annotations

import msgspec

from overlaymq.events import EpochChanged, Missed
from overlaymq.ids import Id
from overlaymq.messages import (
    Batch,
    DeliveryIs,
    DeliveryQuery,
    Epoch,
    Lost,
    Peer,
    Place,
    RootState,
    TreeGone,
    TreeHad,
    TreeJoin,
    TreeNeed,
    TreeStatus,
)
from tests.core.stand import ABOVE, BELOW, CONFIG, ME, NEW, OLD, TOPIC, Stand, batch, published

BETWEEN, LAST = Epoch(3, Id(8)), Epoch(4, Id(9))
ASKER = Peer(Id(77), "a publisher")


def missed_of(stand: Stand) -> list[Missed]:
    return [event for event in stand.events if isinstance(event, Missed)]


def test_a_new_root_that_had_nothing_goes_through_what_others_number_after_it() -> None:
    """Seed 102: it was ready, and took what a former root published again for older than that."""
    stand = Stand(root=True)
    stand.mode.inherit(RootState(TOPIC, TreeStatus(Place(OLD, 5)), ()), stand.tree)
    stand.mode.on_root(stand.tree)
    mine = Epoch(OLD.counter + 1, ME.id)
    assert stand.done().wait(3).mode.status() == TreeStatus(Place(mine, 0), (Place(OLD, 5),), 1)
    stand.tree.is_root, stand.tree.parent = False, ABOVE
    stand.mode.on_unrooted(stand.tree)
    stand.told(TreeStatus(Place(LAST, 1), (Place(BETWEEN, 2), Place(mine, 0), Place(OLD, 7))))
    stand.get(batch(1, 2, epoch=BETWEEN), batch(1, epoch=LAST))
    assert stand.delivered == [(3, 1), (4, 1)]
    missed = missed_of(stand)
    assert missed == [Missed(TOPIC.id, OLD.root, 6, 7, OLD.counter)], "not what was before it came"


def test_who_began_with_an_empty_epoch_after_others_goes_through_those_that_follow() -> None:
    """Seed 102: so did those that had joined the new root meanwhile."""
    stand = Stand().start(0, epoch=NEW, past=(Place(OLD, 4),))
    stand.told(TreeStatus(Place(LAST, 1), (Place(BETWEEN, 2), Place(NEW, 0), Place(OLD, 4))))
    stand.get(batch(1, 2, epoch=BETWEEN), batch(1, epoch=LAST))
    assert stand.delivered == [(3, 1), (4, 1)]
    changes = [(event.old, event.new) for event in stand.events if isinstance(event, EpochChanged)]
    assert changes == [(NEW, BETWEEN), (BETWEEN, LAST)]


def test_what_a_lower_rival_numbers_after_a_subscriber_came_is_announced() -> None:
    """Seed 593: it joined the higher one of two roots in a parted network, and the lower one, of which it was
    told with the join, had numbered five more messages when they met."""
    stand = Stand().start(3, epoch=NEW, past=(Place(OLD, 4),)).get(batch(4, epoch=NEW))
    stand.told(TreeStatus(Place(LAST, 0), (Place(NEW, 4), Place(OLD, 9))))
    assert missed_of(stand) == [Missed(TOPIC.id, OLD.root, 5, 9, OLD.counter)]
    report = stand.wait(1).sent(ABOVE, TreeHad)[-1]
    assert isinstance(report, TreeHad)
    assert Lost(Place(OLD, 5), Place(OLD, 9), 1) in report.lost, "no receipt counts it"
    stand.told(TreeStatus(Place(LAST, 1), (Place(NEW, 4), Place(OLD, 9))))
    assert len(missed_of(stand)) == 1, "once"


def test_so_it_is_to_a_forwarder_that_subscribes_after_a_change_of_epoch() -> None:
    """Who subscribed earlier was told of the change, which covers that."""

    def meets(subscribes: bool) -> list[Missed]:
        stand = Stand()
        stand.tree.member = not subscribes
        stand.start(4).told(TreeStatus(Place(NEW, 0), (Place(OLD, 4),)))
        if subscribes:
            stand.tree.member = True
            assert stand.mode.subscribed(0, stand.tree)
        stand.told(TreeStatus(Place(LAST, 0), (Place(NEW, 0), Place(OLD, 9))))
        return missed_of(stand)

    assert meets(subscribes=True) == [Missed(TOPIC.id, OLD.root, 5, 9, OLD.counter)]
    assert meets(subscribes=False) == []


def test_a_gap_is_not_given_up_as_long_as_there_is_no_way_to_the_root() -> None:
    """Seed 603: its parent had none for 20 seconds, and the root had the message."""
    stand = Stand().start().get(batch(1), batch(3))
    stand.tree.rooted = False
    stand.wait(3 * CONFIG.gap_timeout)
    assert stand.events == []
    stand.tree.rooted = True
    stand.wait(CONFIG.gap_timeout / 2)
    assert stand.events == [], "those above have only now been asked"
    stand.get(batch(2))
    assert stand.delivered == [(1, 1), (1, 2), (1, 3)]


def test_nor_is_what_a_child_needs() -> None:
    stand = Stand().start(5)
    stand.mode._want(OLD, 2, 3, stand.tree)
    stand.tree.rooted = False
    stand.done().wait(3 * CONFIG.gap_timeout)
    assert stand.mode._wants
    stand.tree.rooted = True
    stand.wait(2 * CONFIG.gap_timeout)
    assert not stand.mode._wants


def early(first: int, behind: int, chunk: int = 0) -> Batch:
    return Batch(TOPIC.id, Id(50), 0, first, 1, b"x", chunk=chunk, chunks=2, behind=behind)


def test_what_its_publisher_was_told_of_a_place_for_waits_no_longer() -> None:
    """Seed 836: another root had numbered what it waited for, and it came 15 seconds after later ones."""
    root = Stand(root=True)
    root.mode.on_root(root.tree)
    for one in (early(7, 5, 1), early(7, 5), early(5, 3), early(9, 7)):
        assert root.mode.too_early(one, root.tree.now)
    assert root.mode.overtaken(published(6, origin=51)) == [], "of another publisher"
    assert root.mode.overtaken(early(8, 6)) == [], "all of them are still under way"
    free = root.mode.overtaken(early(10, 1))
    assert [(one.first, one.chunk, one.behind) for one in free] == [(5, 0, 0), (7, 0, 0), (7, 1, 0)]
    assert not root.mode.waits(free[0])
    assert root.mode.waits(early(9, 7))


def test_a_root_that_nobody_could_join_does_not_say_that_all_have_it() -> None:
    """Seed 399: Pastry held all joins for 20 seconds, and those that could not come back counted no more."""
    root = Stand(root=True)
    root.mode.on_root(root.tree)
    root.mode.on_forward(published(0), root.tree)
    place = Place(Epoch(1, ME.id), 1)
    query = DeliveryQuery(TOPIC.id, TOPIC, place, place)

    def final() -> bool:
        root.mode.on_query(ASKER, query, root.tree)
        answer = root.done().sent(ASKER, DeliveryIs)[-1]
        assert isinstance(answer, DeliveryIs)
        return answer.final

    assert final()
    root.mode.deaf(root.tree.now)
    assert not final()
    root.wait(CONFIG.gap_timeout)
    assert not final()
    root.wait(0.1)
    assert final()


# --- late joiners ---


def late(last: int, start: int, skip: int = 0) -> Stand:
    """A late joiner that is told to begin before what its parent holds."""
    return Stand().told(TreeStatus(Place(OLD, last), (), start, skip))


def test_a_parent_that_holds_too_few_names_an_earlier_start() -> None:
    """Of fifteen late joiners of a tree that had just grown, nine got nothing, and nobody was asked."""
    stand = Stand().start(6).get(batch(7), batch(8, 3))

    def begins(count: int) -> tuple[int, int]:
        join = TreeJoin(TOPIC.id, BELOW, TOPIC, 1, count)
        status = stand.mode.status(join)
        assert status is not None
        return status.start, status.skip

    assert begins(2) == (8, 1), "a run that is here is sent whole"
    assert begins(4) == (7, 0)
    assert begins(7) == (4, 0)
    assert begins(99) == (1, 0)


def test_a_late_joiner_asks_for_what_it_was_promised_and_misses_nothing_that_is_gone() -> None:
    stand = late(10, 6).get(batch(9, 2), batch(11))
    assert stand.delivered == []
    stand.wait(CONFIG.reorder_wait)
    assert stand.sent(ABOVE, TreeNeed) == [TreeNeed(TOPIC.id, OLD, 6, 8)]
    stand.get(batch(8)).note(ABOVE, TreeGone(TOPIC.id, OLD, 6, 7))
    assert stand.delivered == [(1, 8), (1, 9), (1, 11)]
    assert stand.events == []
    stand.get(batch(13)).note(ABOVE, TreeGone(TOPIC.id, OLD, 12, 12))
    assert stand.events == [Missed(TOPIC.id, OLD.root, 12, 12, OLD.counter)]


def test_a_loss_that_begins_before_its_subscriber_is_announced_from_there_on() -> None:
    stand = late(10, 6).get(batch(14)).note(ABOVE, TreeGone(TOPIC.id, OLD, 6, 13))
    assert stand.events == [Missed(TOPIC.id, OLD.root, 11, 13, OLD.counter)]


def test_a_late_joiner_does_not_begin_in_the_midst_of_a_large_message() -> None:
    chunk = msgspec.structs.replace(batch(6), chunk=2, chunks=3)
    stand = late(7, 6).get(chunk, batch(7))
    assert stand.delivered == [(1, 7)]


def test_a_forwarder_that_subscribes_goes_back_and_asks_for_the_rest() -> None:
    stand = Stand()
    stand.tree.member = False
    stand.start(6).get(batch(7), batch(8))
    stand.tree.member = True
    assert stand.mode.subscribed(4, stand.tree)
    assert stand.done().delivered == []
    stand.wait(CONFIG.reorder_wait).get(batch(5, 2))
    assert stand.sent(ABOVE, TreeNeed) == [TreeNeed(TOPIC.id, OLD, 5, 6)]
    assert stand.delivered == [(1, 5), (1, 7), (1, 8)]


def test_a_root_that_subscribes_waits_for_nobody() -> None:
    root = Stand(root=True, config=msgspec.structs.replace(CONFIG, keep_messages=2))
    root.tree.member = False
    root.mode.on_root(root.tree)
    for number in range(5):
        root.mode.on_forward(published(number), root.tree)
    root.tree.member = True
    assert root.mode.subscribed(4, root.tree)
    assert root.done().delivered == [(1, 4), (1, 5)]
    assert root.events == []
