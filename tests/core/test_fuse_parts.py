"""The parts of FUSE, spoken to directly: one node, and what it answers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.config import FuseConfig
from overlaymq.core.fuse import Fuse
from overlaymq.core.fuse.bounds import notification_bound
from overlaymq.core.fuse.edges import Edges
from overlaymq.core.fuse.state import State
from overlaymq.events import (
    CreateGroup,
    GroupCreated,
    GroupFailed,
    Notify,
    Route,
    Send,
    SignalGroup,
)
from overlaymq.ids import Id
from overlaymq.messages import (
    FuseBroken,
    FuseCreate,
    FuseCreated,
    FuseFailed,
    FuseHeard,
    FuseInstall,
    FuseKey,
    FuseList,
    FusePing,
    FuseRepair,
    FuseRepaired,
    FuseSoft,
    Peer,
    Routed,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.messages import Message

ME, ROOT, HOP, OTHER = (Peer(Id(number), f"node-{number}", 1) for number in (1, 2, 3, 4))
GROUP, TOPIC = Id(77), Id(99)
KEY = FuseKey(GROUP, 0)
CONFIG = FuseConfig(
    ping_every=5.0, edge_timeout=12.5, retry_every=1.0, answer_timeout=5.0, grace=5.0
)


class Recording:
    """A node whose strategies take part in everything, and what they were told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Id, Id]] = []
        self.agrees = True

    def group_asked(
        self, topic: Id, group: Id, creator: Peer, members: tuple[Peer, ...], now: float
    ) -> tuple[bool, Effects]:
        self.told.append(("asked", topic, group))
        return self.agrees, []

    def group_created(self, topic: Id, group: Id, now: float) -> Effects:
        self.told.append(("created", topic, group))
        return []

    def group_failed(self, topic: Id, group: Id, now: float) -> Effects:
        self.told.append(("failed", topic, group))
        return []


class One:
    """One node's FUSE, on its own clock."""

    def __init__(self, config: FuseConfig = CONFIG) -> None:
        self.host = Recording()
        self.fuse = Fuse(ME, config, 5.0, self.host)
        self.now = 100.0
        self.step = config.retry_every

    def hears(self, peer: Peer, message: Message) -> Effects:
        return self.fuse.receive(peer, message, self.now)

    def joins(self, topic: Id | None = None) -> Effects:
        """Become a member of ROOT's group, by way of HOP."""
        effects = self.hears(ROOT, FuseCreate(GROUP, (ME, OTHER, ROOT), topic or Id(0)))
        for effect in effects:
            if isinstance(effect, Route) and isinstance(effect.message, FuseInstall):
                self.passes(effect.message, HOP)
        return effects

    def passes(self, body: FuseInstall, next_hop: Peer) -> tuple[FuseInstall | None, Effects]:
        routed, hop, effects = self.fuse.forward(
            Routed(body.root.id, ME, 0, 0, body), body, next_hop, self.now
        )
        assert isinstance(routed.body, FuseInstall)
        return (None if hop is None else routed.body), effects

    def waits(self, seconds: float) -> Effects:
        """Let the timer fire until then."""
        effects: Effects = []
        end = self.now + seconds
        while self.now < end:
            self.now += self.step
            effects += self.fuse.fired(self.now)
        return effects


def sends(effects: Effects) -> list[tuple[Peer, Message]]:
    return [(effect.peer, effect.message) for effect in effects if isinstance(effect, Send)]


def failures(effects: Effects) -> int:
    return effects.count(Notify(GroupFailed(GROUP)))


# --- the bound -------------------------------------------------------------------------------------


def test_the_bound_is_the_documented_formula() -> None:
    """Reference: the package's text, B = 2 D (E + d) + 5 A + 2 W + 4 d."""
    config = FuseConfig(max_hops=7, edge_timeout=30.0, answer_timeout=11.0, backoff_max=13.0)
    expected = 2 * 7 * (30.0 + 0.25) + 5 * 11.0 + 2 * 13.0 + 4 * 0.25
    assert notification_bound(config, 0.25) == pytest.approx(expected)


def test_settings_that_would_break_every_tree_are_refused() -> None:
    """Reference: house rule, bad input is a clear error."""
    with pytest.raises(ValueError, match=r"edge_timeout: expected at least 7 s"):
        FuseConfig(ping_every=5.0, edge_timeout=6.0)
    with pytest.raises(ValueError, match="answer_timeout: expected at least two retries"):
        FuseConfig(answer_timeout=1.5)


# --- members ---------------------------------------------------------------------------------------


def test_a_question_that_comes_late_does_not_bring_a_group_back() -> None:
    """Or a member would hear twice. Reference: protocols.md 4.4, exactly one notification."""
    one = One()
    one.joins()
    assert failures(one.hears(ROOT, FuseFailed(GROUP))) == 1
    late = one.hears(ROOT, FuseCreate(GROUP, (ME, OTHER, ROOT)))
    assert (ROOT, FuseCreated(GROUP, False)) in sends(late)
    again = one.hears(ROOT, FuseFailed(GROUP))
    assert sends(again) == [(ROOT, FuseHeard(GROUP))]
    assert failures(again) == 0


def test_a_question_that_is_asked_twice_is_answered_twice() -> None:
    """And installed once. Reference: the package's text; messages are lost and doubled."""
    one = One()
    one.joins()
    again = one.hears(ROOT, FuseCreate(GROUP, (ME, OTHER, ROOT)))
    assert again == [Send(ROOT, FuseCreated(GROUP, True))]


def test_an_earlier_life_is_not_this_one() -> None:
    """Reference: protocols.md 4.4, a recovering node knows no groups."""
    one = One()
    before = Peer(ME.id, ME.address, 0)
    effects = one.hears(ROOT, FuseCreate(GROUP, (before, ROOT)))
    assert (ROOT, FuseCreated(GROUP, False)) in sends(effects)
    assert not one.fuse.has(GROUP)


def test_a_member_gives_up_when_its_root_is_silent() -> None:
    """E for its edge, 2A + W for the repair, and never twice. Reference: protocols.md 4.5, member waits."""
    one = One()
    one.joins()
    wait = CONFIG.edge_timeout + 2 * CONFIG.answer_timeout + CONFIG.backoff_max
    effects = one.waits(wait)
    assert (ROOT, FuseBroken(GROUP, 0)) in sends(effects)
    assert failures(effects) == 1
    assert failures(one.waits(200.0)) == 0


def test_repair_gives_a_member_new_patience_and_a_new_way() -> None:
    """Reference: protocols.md 4.5, each replies and re-installs with the new sequence number."""
    one = One()
    one.joins()
    assert (ROOT, FuseBroken(GROUP, 0)) in sends(one.hears(HOP, FuseSoft(GROUP, 0)))
    effects = one.hears(ROOT, FuseRepair(GROUP, 1))
    assert (ROOT, FuseRepaired(GROUP, 1)) in sends(effects)
    assert Route(ROOT.id, FuseInstall(GROUP, 1, ROOT, ME.id, ME)) in effects
    assert not one.fuse.unwatched()
    assert failures(one.waits(CONFIG.edge_timeout - 2)) == 0


def test_who_does_not_know_a_group_says_that_it_has_failed() -> None:
    """Reference: protocols.md 4.5, a member that no longer knows id: HARD."""
    assert sends(One().hears(ROOT, FuseRepair(GROUP, 1))) == [(ROOT, FuseFailed(GROUP))]
    assert sends(One().hears(OTHER, FuseBroken(GROUP, 1))) == [(OTHER, FuseFailed(GROUP))]


def test_a_member_whose_tree_others_have_renewed_does_not_wait_for_ever() -> None:
    """It was not asked to repair, others were; then all is silent. Reference: the package's text; silence
    means failure."""
    one = One()
    one.joins()
    newer = FuseInstall(GROUP, 1, ROOT, OTHER.id, OTHER)
    passed, effects = one.passes(newer, ROOT)
    assert passed is not None
    assert (ROOT, FuseBroken(GROUP, 0)) in sends(effects)
    assert not one.fuse.unwatched()
    assert failures(one.waits(100.0)) == 1


# --- roots -----------------------------------------------------------------------------------------


def test_a_root_is_answered_by_all_or_the_group_fails() -> None:
    """Reference: protocols.md 4.5, any missing reply: HARD notification to those contacted."""
    one = One()
    one.fuse.create(CreateGroup(GROUP, (HOP, OTHER)), one.now)
    assert one.hears(HOP, FuseCreated(GROUP, True)) == []
    effects = one.waits(CONFIG.answer_timeout)
    assert failures(effects) == 1
    assert {(HOP, FuseFailed(GROUP)), (OTHER, FuseFailed(GROUP))} <= set(sends(effects))


def test_a_refusal_fails_the_group_at_once() -> None:
    """Reference: the seam, False = the creation fails."""
    one = One()
    one.fuse.create(CreateGroup(GROUP, (HOP, OTHER)), one.now)
    assert failures(one.hears(HOP, FuseCreated(GROUP, False))) == 1


def test_a_hard_notice_is_repeated_until_it_is_acknowledged() -> None:
    """For A seconds: nothing is kept of a group that is over. Reference: issue 5, lost messages."""
    one = One()
    one.fuse.create(CreateGroup(GROUP, (HOP, OTHER)), one.now)
    one.fuse.signal(SignalGroup(GROUP), one.now)
    one.hears(HOP, FuseHeard(GROUP))
    assert sends(one.waits(1.0)) == [(OTHER, FuseFailed(GROUP))]
    one.waits(2 * CONFIG.answer_timeout + 2)
    assert one.fuse.snapshot().farewells == 0
    assert one.fuse.fired(one.now + 1) == []


def test_repairs_back_off_up_to_the_longest_pause() -> None:
    """Reference: protocols.md 4.5, per-group exponential back-off of repairs."""
    one = One()
    one.fuse.create(CreateGroup(GROUP, (OTHER,)), one.now)
    one.hears(OTHER, FuseCreated(GROUP, True))
    begun = []
    for seq in range(8):
        effects = one.hears(OTHER, FuseBroken(GROUP, seq))
        while (OTHER, FuseRepair(GROUP, seq + 1)) not in sends(effects):
            effects = one.waits(one.step)
        begun.append(one.now)
        one.hears(OTHER, FuseRepaired(GROUP, seq + 1))
    pauses = [after - before for before, after in pairwise(begun)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= CONFIG.retry_every
    assert CONFIG.backoff_max - CONFIG.retry_every <= pauses[-1] <= CONFIG.backoff_max


def test_a_way_that_does_not_arrive_is_repaired() -> None:
    """Reference: protocols.md 4.5, the root expects an INSTALL from every member, else starts repair."""
    one = One()
    one.fuse.create(CreateGroup(GROUP, (OTHER,)), one.now)
    one.hears(OTHER, FuseCreated(GROUP, True))
    assert (OTHER, FuseRepair(GROUP, 1)) in sends(one.waits(2 * CONFIG.answer_timeout))


# --- topics ----------------------------------------------------------------------------------------


def test_a_topics_strategy_hears_instead_of_the_application() -> None:
    """As a member and as the root, once. Reference: the seam between FUSE and strategies."""
    member, root = One(), One()
    member.joins(TOPIC)
    effects = member.hears(ROOT, FuseFailed(GROUP))
    assert member.host.told == [("asked", TOPIC, GROUP), ("failed", TOPIC, GROUP)]
    root.fuse.create(CreateGroup(GROUP, (OTHER,), TOPIC), root.now)
    effects += root.hears(OTHER, FuseCreated(GROUP, True))
    effects += root.fuse.signal(SignalGroup(GROUP), root.now)
    assert root.host.told == [("created", TOPIC, GROUP), ("failed", TOPIC, GROUP)]
    events = (Notify(GroupFailed(GROUP)), Notify(GroupCreated(GROUP)))
    assert not [effect for effect in effects if effect in events]


def test_a_strategy_may_stay_out() -> None:
    """Reference: the seam, group_asked."""
    one = One()
    one.host.agrees = False
    assert (ROOT, FuseCreated(GROUP, False)) in sends(one.joins(TOPIC))
    assert not one.fuse.has(GROUP)


# --- trees -----------------------------------------------------------------------------------------


def test_a_delegate_watches_both_hops_and_tells_one_of_the_other() -> None:
    """Reference: protocols.md 4.5, SOFT to all tree neighbours; the application never hears it."""
    one = One()
    passed, _ = one.passes(FuseInstall(GROUP, 0, ROOT, OTHER.id, OTHER), HOP)
    assert passed == FuseInstall(GROUP, 0, ROOT, OTHER.id, ME, 1)
    assert {peer.id for peer in one.fuse.kept} == {OTHER.id, HOP.id}
    effects = one.hears(HOP, FuseSoft(GROUP, 0))
    assert sends(effects) == [(OTHER, FuseSoft(GROUP, 0))]
    assert failures(effects) == 0
    assert one.fuse.snapshot().trees == one.fuse.snapshot().edges == 0


def test_a_stale_soft_notice_is_ignored() -> None:
    """Reference: protocols.md 4.5, stale INSTALL/SOFT with older seq ignored."""
    one = One()
    one.passes(FuseInstall(GROUP, 3, ROOT, OTHER.id, OTHER), HOP)
    assert one.hears(HOP, FuseSoft(GROUP, 2)) == []
    passed, _ = one.passes(FuseInstall(GROUP, 2, ROOT, OTHER.id, OTHER), HOP)
    assert passed is None
    assert one.fuse.snapshot().trees == 1


def test_a_way_that_comes_round_breaks_the_tree() -> None:
    """Two delegates must not confirm each other. Reference: trees.py, the shorter way is believed."""
    one = One()
    one.passes(FuseInstall(GROUP, 0, ROOT, OTHER.id, OTHER, 0), HOP)
    passed, _ = one.passes(FuseInstall(GROUP, 0, ROOT, OTHER.id, HOP, 2), HOP)
    assert passed is None
    assert one.fuse.snapshot().trees == 0


def test_a_way_that_is_sent_again_after_its_tree_broke_ends() -> None:
    """Pastry sends again what was not acknowledged. Reference: trees.py; no tree without its member."""
    one = One()
    passed, _ = one.passes(FuseInstall(GROUP, 0, ROOT, OTHER.id, OTHER, 0), HOP)
    one.hears(HOP, FuseSoft(GROUP, 0))
    assert passed is not None
    again, _ = one.passes(passed, ROOT)
    assert again is None
    assert one.fuse.snapshot().trees == 0


# --- edges -----------------------------------------------------------------------------------------


def test_equal_digests_confirm() -> None:
    """Reference: protocols.md 4.5, match: all timers are reset."""
    one = One()
    one.joins()
    digest = one.fuse.digest(HOP.id, one.now)
    for _ in range(20):
        effects = one.waits(5.0) + one.hears(HOP, FusePing(digest))
        assert (ROOT, FuseBroken(GROUP, 0)) not in sends(effects)


def test_a_list_without_a_tree_breaks_it_after_the_grace_period() -> None:
    """Reference: protocols.md 4.5, grace period 5 s, disagreement drops only the trees concerned."""
    one = One()
    one.joins()
    young = one.hears(HOP, FuseList(()))
    assert (ROOT, FuseBroken(GROUP, 0)) not in sends(young)
    one.waits(CONFIG.grace)
    old = one.hears(HOP, FuseList((FuseKey(Id(5), 0),)))
    assert (ROOT, FuseBroken(GROUP, 0)) in sends(old)


def test_unequal_digests_exchange_lists() -> None:
    """Reference: protocols.md 4.5, mismatch: exchange lists."""
    one = One()
    one.joins()
    assert sends(one.hears(HOP, FusePing(12345))) == [(HOP, FuseList((KEY,), True))]
    assert sends(One().hears(HOP, FusePing(12345))) == [(HOP, FuseList(()))]


def test_lists_are_not_sent_as_often_as_they_are_asked_for() -> None:
    """They may be a thousand times as long as a ping. Reference: house rule, bounds."""
    one = One()
    one.joins()
    effects: Effects = []
    for _ in range(100):
        effects += one.hears(HOP, FusePing(12345))
    assert len(sends(effects)) == 1


def test_another_life_of_a_neighbour_has_no_trees() -> None:
    """And what an earlier one said confirms nothing. Reference: protocols.md 4.4, crash recovery."""
    one = One()
    one.joins()
    digest = one.fuse.digest(HOP.id, one.now)
    assert one.hears(Peer(HOP.id, HOP.address, 0), FusePing(digest, True)) == []
    effects = one.hears(Peer(HOP.id, HOP.address, 2), FusePing(digest))
    assert (ROOT, FuseBroken(GROUP, 0)) in sends(effects)


def test_a_link_that_breaks_again_and_again_is_asked_over_once_a_retry() -> None:
    """The question may be what breaks it. Reference: events.py, PeerFailed is a suspicion."""
    one = One()
    one.joins()
    one.now += 2.0
    first = one.fuse.suspect(HOP, one.now)
    assert [type(message) for _, message in sends(first)] == [FusePing]
    assert sends(one.fuse.suspect(HOP, one.now + 0.1)) == []


Changes: TypeAlias = list[tuple[bool, int, int]]
CHANGES: st.SearchStrategy[Changes] = st.lists(
    st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 2)), max_size=40
)


@given(CHANGES, CHANGES)
def test_digests_are_equal_when_the_lists_are(mine: Changes, theirs: Changes) -> None:
    """Against sets of keys, in any order of changes. Reference: edges.py, an exclusive or of hashes."""
    digests, twins = [], []
    for changes in (mine, theirs):
        edges = Edges(State(ME, CONFIG, Recording()), 5.0)
        twin: dict[int, FuseKey] = {}
        for adds, group, seq in changes:
            if adds and group not in twin:
                twin[group] = FuseKey(Id(group), seq)
                assert edges.watch(HOP, twin[group])
            elif not adds:
                edges.unwatch(HOP.id, Id(group))
                twin.pop(group, None)
        digests.append(edges.digest(HOP.id, 0.0))
        twins.append(set(twin.values()))
    assert (digests[0] == digests[1]) == (twins[0] == twins[1])
    assert (digests[0] == 0) == (not twins[0])
