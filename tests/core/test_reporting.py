"""Who has what: reports that go up, counts that publishers get, and what is let go.

Reference: issue 4, delivered receipts: (subscribers below, lowest contiguous sequence), upward.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from overlaymq.config import DeliveryConfig
from overlaymq.core.reliability.reporting import MAX_ASKED, MAX_LOST, MAX_MEMBERS, joined
from overlaymq.ids import Id
from overlaymq.messages import (
    Batch,
    DeliveryIs,
    DeliveryQuery,
    Epoch,
    Lost,
    Peer,
    Place,
    TreeGone,
    TreeHad,
    TreeJoin,
    TreeNeed,
    TreeStable,
    TreeStatus,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

REIGN = Epoch(1, ME.id)
ASKER = Peer(Id(77), "a publisher")


def had(
    members: int, sequence: int | None, *, epoch: Epoch = OLD, lost: Sequence[Lost] = ()
) -> TreeHad:
    place = None if sequence is None else Place(epoch, sequence)
    return TreeHad(TOPIC.id, members, place, place, tuple(lost))


def query(first: int, last: int | None = None, *, epoch: Epoch = REIGN) -> DeliveryQuery:
    places = Place(epoch, first), Place(epoch, first if last is None else last)
    return DeliveryQuery(TOPIC.id, TOPIC, *places)


def join(stand: Stand, child: Peer, members: int) -> Stand:
    stand.mode.on_join(TreeJoin(TOPIC.id, child, TOPIC, members), stand.tree)
    return stand.done()


def tick(stand: Stand) -> Stand:
    stand.mode.on_tick(stand.tree)
    return stand.done()


def leave(stand: Stand, child: Peer) -> Stand:
    children = stand.tree._children
    assert isinstance(children, dict)
    del children[child.id]
    return stand


def ask(stand: Stand, about: DeliveryQuery, asker: Peer = ASKER) -> list[tuple[int, int, bool]]:
    """(had, members, final) of every answer since."""
    before = len(stand.said)
    stand.mode.on_query(asker, about, stand.tree)
    stand.done()
    return answers(stand, before)


def answers(stand: Stand, after: int = 0) -> list[tuple[int, int, bool]]:
    return [
        (message.had, message.members, message.final)
        for _, message in stand.said[after:]
        if isinstance(message, DeliveryIs)
    ]


def reports(stand: Stand) -> list[tuple[int, int | None]]:
    """(members, first message somebody waits for) of every report."""
    told = [one for one in stand.sent(ABOVE, TreeHad) if isinstance(one, TreeHad)]
    return [(one.members, None if one.had is None else one.had.sequence) for one in told]


def reigning(count: int, config: DeliveryConfig = CONFIG) -> Stand:
    """A root with two children of three subscribers each, and so many messages."""
    root = Stand(root=True, config=config)
    root.mode.on_root(root.tree)
    for child in (BELOW, OTHER):
        join(root, child, 3)
    for number in range(count):
        root.mode.on_forward(published(number), root.tree)
    return root.done()


# --- reports ---


def test_a_report_is_the_sum_of_subscribers_and_the_least_of_what_they_have() -> None:
    stand = Stand().start().get(batch(1), batch(2))
    join(stand, BELOW, 4)
    stand.note(BELOW, had(4, 2)).wait(1)
    assert reports(stand)[-1] == (5, 2)
    stand.note(BELOW, had(4, 3)).wait(1)
    assert reports(stand)[-1] == (5, 3)


def test_what_a_child_has_only_the_child_can_say() -> None:
    """Its join tells what it needs itself, not what those below it need."""
    stand = Stand().start().get(batch(1))
    stand.joined(BELOW, Place(OLD, 2))
    join(stand, OTHER, 2).wait(1)
    assert reports(stand)[-1] == (3, None)


def test_reports_gather_and_are_repeated_while_they_may_have_been_lost() -> None:
    stand = Stand().start()
    for number in range(1, 200):
        stand.get(batch(number)).wait(0.005)
    assert 5 <= len(reports(stand)) <= 12, "ten a second"
    stand.wait(1).said.clear()
    for _ in range(12):
        tick(stand).wait(5.0)
    assert set(reports(stand)) == {(1, 200)}
    assert len(reports(stand)) == 2, "for gap_timeout, then there is silence"


def test_a_new_parent_is_told() -> None:
    stand = Stand().start().get(batch(1)).wait(1)
    stand.said.clear()
    stand.mode.on_parent(stand.tree)
    stand.done().wait(1)
    assert reports(stand) == [(1, 2)]


def test_who_unsubscribes_says_so_at_once() -> None:
    stand = Stand().start().get(batch(1)).wait(1)
    stand.tree.member = False
    stand.mode.on_unsubscribe(stand.tree)
    stand.done()
    assert reports(stand)[-1] == (0, None)


def test_reports_of_strangers_and_parents_count_for_nothing() -> None:
    stand = Stand().start().get(batch(1)).wait(1)
    stand.note(Peer(Id(99), "stranger"), had(7, 1)).note(ABOVE, had(7, 1)).wait(1)
    assert set(reports(stand)) == {(1, 2)}


@given(st.integers(0, 10_000))
def test_the_root_never_counts_more_than_there_are(seed: int) -> None:
    """Against every subscriber's own position: a chain of three nodes, with reports in between."""
    random = Random(seed)
    top = reigning(20)
    own = [random.randrange(1, 22) for _ in range(6)]
    for child, three in ((BELOW, own[:3]), (OTHER, own[3:])):
        top.note(child, had(3, min(three), epoch=REIGN))
    for number in range(1, 21):
        truth = 1 + sum(position > number for position in own)
        count, members, final = ask(top, query(number))[0]
        assert members == 7
        assert count <= truth
        assert final == (truth == 7)
        if final:
            assert count == 7


# --- what publishers are told ---


def test_a_publisher_is_told_at_once_and_again_when_all_have_it() -> None:
    root = reigning(3)
    assert ask(root, query(2)) == [(1, 7, False)]
    root.note(BELOW, had(3, 4, epoch=REIGN)).wait(1)
    assert len(answers(root)) == 1, "nothing final yet"
    root.note(OTHER, had(3, 3, epoch=REIGN)).wait(1)
    assert answers(root)[1:] == [(7, 7, True)]
    assert ask(root, query(3)) == [(4, 7, False)]


def test_who_missed_it_does_not_count_as_having_it() -> None:
    root = reigning(5)
    lost = [Lost(Place(REIGN, 2), Place(REIGN, 3), 2)]
    root.note(BELOW, had(3, 6, epoch=REIGN, lost=lost)).note(OTHER, had(3, 6, epoch=REIGN))
    assert [ask(root, query(n))[0] for n in (1, 2, 3, 4)] == [
        (7, 7, True),
        (5, 7, True),
        (5, 7, True),
        (7, 7, True),
    ]
    assert ask(root, query(3, 5)) == [(5, 7, True)], "all of a run"


def test_a_subscriber_reports_what_it_missed_also_by_a_change_of_epoch() -> None:
    stand = Stand().start().get(batch(1), batch(4)).note(ABOVE, TreeGone(TOPIC.id, OLD, 2, 3))
    stand.told(TreeStatus(Place(NEW, 0), (Place(OLD, 4),))).wait(1)
    report = stand.sent(ABOVE, TreeHad)[-1]
    assert isinstance(report, TreeHad)
    assert report.lost == (
        Lost(Place(OLD, 2), Place(OLD, 3), 1),
        Lost(Place(OLD, 5), Place(NEW, 0), 1),
    )


def test_who_leaves_the_tree_counts_for_a_while_because_it_may_come_back_elsewhere() -> None:
    root = reigning(3)
    root.note(BELOW, had(3, 4, epoch=REIGN)).note(OTHER, had(3, 2, epoch=REIGN))
    leave(root, OTHER)
    assert ask(root, query(2)) == [(4, 7, False)]
    root.wait(CONFIG.gap_timeout + 1)
    assert ask(root, query(2)) == [(4, 4, True)], "then there are fewer"


def test_who_comes_back_to_the_same_parent_counts_once() -> None:
    root = reigning(3)
    children = root.tree._children
    assert isinstance(children, dict)
    entry = children[OTHER.id]
    root.note(BELOW, had(3, 4, epoch=REIGN)).note(OTHER, had(3, 2, epoch=REIGN))
    tick(leave(root, OTHER))
    children[OTHER.id] = entry
    join(root, OTHER, 3).note(OTHER, had(3, 4, epoch=REIGN))
    assert ask(root, query(2)) == [(7, 7, True)]


def test_who_comes_back_restarted_leaves_those_that_were_below_it() -> None:
    root = reigning(3)
    root.note(BELOW, had(3, 4, epoch=REIGN)).note(OTHER, had(3, 2, epoch=REIGN))
    again = Peer(OTHER.id, OTHER.address, 1)
    join(root, again, 1).note(again, had(1, 4, epoch=REIGN))
    assert ask(root, query(2)) == [(5, 8, False)]


def test_who_has_unsubscribed_is_not_waited_for() -> None:
    root = reigning(3)
    root.note(BELOW, had(3, 4, epoch=REIGN)).note(OTHER, had(0, None))
    tick(leave(root, OTHER))
    assert ask(root, query(2)) == [(4, 4, True)]


def test_a_new_root_has_no_last_word_until_everybody_may_have_come() -> None:
    stand = Stand().start(5)
    stand.tree.is_root, stand.tree.parent = True, None
    stand.mode.on_root(stand.tree)
    stand.done().wait(3)
    second = Epoch(2, ME.id)
    stand.mode.on_forward(published(0), stand.tree)
    stand.done()
    assert ask(stand, query(1, epoch=second)) == [(1, 1, False)]
    stand.wait(CONFIG.gap_timeout)
    assert ask(stand, query(1, epoch=second)) == [(1, 1, True)]
    assert ask(stand, query(1, epoch=Epoch(9, Id(3)))) == [(0, 1, False)], (
        "of that it knows nothing"
    )


def test_who_places_only_what_came_later_is_not_the_first_root() -> None:
    """It said that all 0 subscribers have it, before those of the root before had come to it."""
    root = Stand(root=True)
    root.tree.member = False
    root.mode.on_root(root.tree)
    root.mode.on_forward(published(0), root.tree)
    root.mode.on_forward(published(1), root.tree)
    root.done()
    assert ask(root, query(2)) == [(0, 0, True)]
    root.mode.on_forward(published(7, origin=51), root.tree)
    root.done()
    assert ask(root, query(3)) == [(0, 0, False)]
    root.wait(CONFIG.gap_timeout + 1)
    assert ask(root, query(3)) == [(0, 0, True)]


def test_a_root_that_has_forgotten_everything_does_not_vouch_for_others_epochs() -> None:
    root = Stand(root=True)
    root.tree.member = False
    root.mode.on_root(root.tree)
    root.done()
    assert ask(root, query(4, epoch=Epoch(1, Id(0)))) == [(0, 0, False)]
    root.wait(100)
    assert ask(root, query(4, epoch=Epoch(1, Id(0)))) == [(0, 0, False)]


def test_questions_are_bounded_and_forgotten() -> None:
    root = reigning(1)
    for number in range(MAX_ASKED + 50):
        ask(root, query(1), Peer(Id(1000 + number), "p"))
    root.said.clear()
    root.note(BELOW, had(3, 2, epoch=REIGN)).note(OTHER, had(3, 2, epoch=REIGN)).wait(1)
    assert len(answers(root)) == MAX_ASKED
    root = reigning(1)
    ask(root, query(1))
    root.wait(60).said.clear()
    root.note(BELOW, had(3, 2, epoch=REIGN)).note(OTHER, had(3, 2, epoch=REIGN)).wait(1)
    assert answers(root) == []


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5), st.integers(1, 3)), max_size=40))
def test_losses_are_bounded_and_never_fewer(ranges: list[tuple[int, int, int]]) -> None:
    losses = [Lost(Place(OLD, n), Place(OLD, n + more), members) for n, more, members in ranges]
    bounded = joined(losses)
    assert len(bounded) <= MAX_LOST
    for number in range(1, 70):
        at = Place(OLD, number)
        told = sum(one.members for one in bounded if one.first <= at <= one.last)
        assert told >= sum(one.members for one in losses if one.first <= at <= one.last)


def test_what_a_child_claims_is_bounded() -> None:
    stand = Stand().start().get(batch(1))
    far = (1 << 63) - 1
    losses = [Lost(Place(OLD, n), Place(OLD, n), far) for n in range(100)]
    stand.note(BELOW, had(far, 2, lost=losses)).note(OTHER, had(far, 2, lost=losses)).wait(1)
    report = stand.sent(ABOVE, TreeHad)[-1]
    assert isinstance(report, TreeHad)
    assert report.members == MAX_MEMBERS
    assert len(report.lost) == MAX_LOST
    assert all(one.members == MAX_MEMBERS for one in report.lost)


# --- what is let go ---


def kept(stand: Stand, epoch: Epoch = OLD) -> list[int]:
    return [one.root_sequence for one in stand.mode._buffer.shelf(epoch).between(1, 999)]


SHORT = DeliveryConfig(
    reorder_wait=0.5, gap_timeout=10.0, keep_seconds=60.0, history=3, history_bytes=1 << 20
)


def test_what_all_have_is_let_go_but_for_the_history() -> None:
    root = reigning(10, SHORT)
    root.note(BELOW, had(3, 6, epoch=REIGN))
    assert kept(tick(root), REIGN) == list(range(1, 11)), "of the others nothing is known"
    root.note(OTHER, had(3, 9, epoch=REIGN))
    assert kept(tick(root), REIGN) == list(range(6, 11))
    root.note(BELOW, had(3, 11, epoch=REIGN)).note(OTHER, had(3, 11, epoch=REIGN))
    assert kept(tick(root), REIGN) == [8, 9, 10], "late joiners may want three"
    stable = TreeStable(TOPIC.id, Place(REIGN, 11))
    assert root.sent(BELOW, TreeStable)[-1] == root.sent(OTHER, TreeStable)[-1] == stable


def test_the_history_has_its_bytes_too() -> None:
    root = reigning(10, DeliveryConfig(history=8, history_bytes=2 * 65))
    root.note(BELOW, had(3, 11, epoch=REIGN)).note(OTHER, had(3, 11, epoch=REIGN))
    assert kept(tick(root), REIGN) == [9, 10]


def test_below_the_root_it_is_let_go_when_the_root_says_so() -> None:
    """Not when all below have it: others may come, and a new root may ask."""
    stand = Stand(config=SHORT).start().get(*[batch(n) for n in range(1, 11)])
    join(stand, BELOW, 1).note(BELOW, had(1, 11))
    assert kept(tick(stand)) == list(range(1, 11))
    stand.note(BELOW, TreeStable(TOPIC.id, Place(OLD, 9)))
    assert kept(stand) == list(range(1, 11)), "a child cannot say so"
    stand.note(ABOVE, TreeStable(TOPIC.id, Place(OLD, 5)))
    assert kept(stand) == list(range(5, 11))
    assert stand.sent(BELOW, TreeStable) == [TreeStable(TOPIC.id, Place(OLD, 5))]
    stand.note(ABOVE, TreeStable(TOPIC.id, Place(OLD, 3)))
    assert len(stand.sent(BELOW, TreeStable)) == 1


def test_what_somebody_lacks_who_has_just_gone_is_kept_for_it() -> None:
    root = reigning(10, SHORT)
    root.note(BELOW, had(3, 11, epoch=REIGN)).note(OTHER, had(3, 4, epoch=REIGN))
    tick(leave(root, OTHER))
    assert kept(root, REIGN) == list(range(4, 11))
    tick(root.wait(SHORT.keep_seconds - 1))
    assert kept(root, REIGN) == list(range(4, 11))
    assert root.note(BELOW, TreeNeed(TOPIC.id, REIGN, 4, 4)).sent(BELOW, Batch)


def test_a_new_root_lets_nothing_go_before_its_time() -> None:
    stand = Stand(config=SHORT).start().get(*[batch(n) for n in range(1, 11)])
    stand.tree.is_root, stand.tree.parent = True, None
    stand.mode.on_root(stand.tree)
    stand.done().wait(3)
    assert kept(tick(stand)) == list(range(1, 11))
