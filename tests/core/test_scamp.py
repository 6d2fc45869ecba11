"""What is special about gossip topics: history, hand-over, islands, samples, and the eager tree."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from overlaymq import ids
from overlaymq.config import DeliveryConfig, ScampConfig
from overlaymq.core.dissemination.conformance import CHECKS
from overlaymq.core.dissemination.conformance_bench import TOPIC, Bench, Seat, heard
from overlaymq.core.dissemination.scamp import Scamp
from overlaymq.core.dissemination.scamp.gossip import Gossip, Known, name_of
from overlaymq.core.dissemination.scamp.sample import Sample
from overlaymq.core.dissemination.scamp.weights import Arc
from overlaymq.events import Send, Sent
from overlaymq.ids import Id
from overlaymq.messages import (
    Batch,
    Peer,
    ScampContacts,
    ScampGraft,
    ScampHave,
    ScampPrune,
    ScampSubscribe,
)
from overlaymq.sim.scamp_group import DESCRIPTOR, Group

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Surroundings
    from overlaymq.messages import Descriptor

WITHOUT_FAILURES = (
    "every_member_gets_every_batch_once",
    "ready_is_announced_once",
    "what_follows_ready_arrives",
    "sent_is_announced_for_every_own_batch",
    "on_join_is_told_each_member_once",
    "members_are_counted",
    "what_nobody_needs_is_idle",
)


def in_mode(**settings: object) -> object:
    config = ScampConfig(**settings)  # type: ignore[arg-type]

    def make(descriptor: Descriptor, around: Surroundings) -> Scamp:
        return Scamp(descriptor, msgspec.structs.replace(around, scamp=config))

    return make


def strategy_of(seat: Seat) -> Scamp:
    assert isinstance(seat.strategy, Scamp)
    return seat.strategy


def batch(first: int, chunk: int = 0, chunks: int = 1) -> Batch:
    return Batch(TOPIC, Id(7), 1, first, 1, b"", chunk=chunk, chunks=chunks)


@pytest.mark.parametrize("check", WITHOUT_FAILURES)
def test_paper_mode_keeps_the_contract_where_nothing_fails(check: str) -> None:
    """What it reaches after failures is a matter of chance. Reference: SCAMP 4.3."""
    CHECKS[check](in_mode(mode="paper"), Random(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("fix", ["uniform_renewal", "lazy_push", "backups"])
def test_each_fix_can_be_switched_off(fix: str) -> None:
    settings = {fix: 0 if fix == "backups" else False}
    CHECKS["every_member_gets_every_batch_once"](in_mode(**settings), Random(1))  # type: ignore[arg-type]


def test_a_late_joiner_gets_the_last_messages_it_asked_for_and_first() -> None:
    bench = Bench(Scamp, Random(1))
    early, late, publisher = bench.far[:3]
    bench.subscribe(early)
    bench.wait(1)
    for _ in range(4):
        bench.publish(publisher, count=5)
    bench.wait(1)
    bench.subscribe(late, last=7)
    bench.publish(publisher, count=5)
    bench.wait(3)
    got = [q for one in late.batches for q in range(one.first + one.skip, one.last + 1)]
    assert got in (list(range(13, 25)), list(range(18, 25)))
    bench.wait_refreshed()
    assert len(late.batches) <= 3, "a refresh does not ask for history again"


@pytest.mark.parametrize("silent", [False, True])
def test_history_is_asked_for_until_a_member_has_accepted(silent: bool) -> None:
    """The rendezvous names one that has left, as long as it does not know that."""
    for seed in range(8):
        bench = Bench(Scamp, Random(seed))
        early, left, late, publisher = bench.far[:4]
        bench.subscribe(early, left)
        bench.wait(1)
        bench.publish(publisher, count=5)
        bench.wait(1)
        bench.unsubscribe(left)
        bench.settle()
        strategy_of(bench.owner)._meeting.sample.add(left.peer, bench.now)
        if silent:
            bench.vanish(left)
        bench.subscribe(late, last=3)
        bench.wait(5 * bench.rendezvous.answer_timeout)
        got = [q for one in late.batches for q in range(one.first + one.skip, one.last + 1)]
        assert got == [2, 3, 4], seed


def test_history_is_whole_although_three_contacts_send_it() -> None:
    """Copies from all of them were counted against the number that the first had told."""
    for seed in range(12):
        bench = Bench(Scamp, Random(seed), size=14)
        *early, gone, late, publisher = bench.far[:8]
        bench.subscribe(*early, gone)
        bench.wait(2)
        for _ in range(8):
            bench.publish(publisher)
        bench.wait(2)
        sample = strategy_of(bench.owner)._meeting.sample
        for seat in early:  # so that one that does not answer is asked first, and three after it
            sample.remove(seat.peer.id)
        bench.vanish(gone)
        bench.subscribe(late, last=8)
        bench.settle()
        for seat in early:
            sample.add(seat.peer, bench.now)
        bench.wait(10)
        assert [one.first for one in late.batches] == list(range(8)), seed


def test_nothing_passes_by_between_history_and_the_first_link() -> None:
    """The contact looks after whom it gave the history until it has a link."""
    gossip = linked(ScampConfig())
    newcomer = Peer(Id(9), "")
    gossip.welcome(newcomer, until=2.0)
    assert newcomer in [send.peer for send in gossip.push(batch(1), None)]
    gossip.link({newcomer.id: Arc(newcomer)}, {})
    gossip.receive(newcomer, ScampPrune(TOPIC), 0.0)
    assert newcomer not in [send.peer for send in gossip.push(batch(2), None)]
    lost = Peer(Id(10), "")
    gossip.welcome(lost, until=2.0)
    gossip.expire(2.0)
    assert lost not in [send.peer for send in gossip.push(batch(3), None)]


def test_a_publisher_that_is_no_member_is_told_of_success_only_when_a_member_has_it() -> None:
    """Reference: the issue: nothing reports success for what was dropped."""
    bench = Bench(Scamp, Random(2))
    publisher, first, second = bench.far[:3]
    bench.subscribe(first, second)
    bench.wait(1)
    bench.publish(publisher)
    bench.settle()
    assert len(heard(publisher, Sent)) == 1
    (contact,) = strategy_of(publisher)._handing.contacts
    bench.vanish(bench.seats[contact])
    name = bench.publish(publisher)
    assert len(heard(publisher, Sent)) == 1
    bench.wait(2 * bench.rendezvous.answer_timeout)
    assert len(heard(publisher, Sent)) == 2
    assert all(seat.got[name] for seat in bench.members)


def test_a_newcomer_without_links_does_not_take_what_it_is_handed() -> None:
    """It is in the sample as soon as it has registered: it said that it had the batch, and nobody got it."""
    lost = []
    for seed in range(20):
        bench = Bench(Scamp, Random(seed), size=20)
        first, second, publisher, *newcomers = bench.far
        bench.subscribe(first, second)
        bench.wait(1)
        bench.subscribe(*newcomers)
        bench.step(40)
        name = bench.publish(publisher)
        bench.wait(2 * bench.rendezvous.answer_timeout)
        assert len(heard(publisher, Sent)) == 1
        lost += [seed for one in (first, second) if not one.got[name]]
    assert lost == []


def test_what_is_published_just_before_unsubscribing_reaches_all() -> None:
    """Where all links were lazy, only its name was to be told, and that was forgotten, and the batch, too."""
    bench = Bench(Scamp, Random(1))
    leaving, *staying = bench.far
    bench.subscribe(leaving, *staying)
    bench.wait(1)
    strategy = strategy_of(leaving)
    for peer in list(strategy.gossip.eager.values()):
        strategy.gossip.receive(peer, ScampPrune(TOPIC), bench.now)
    name = bench.publish(leaving)
    bench.unsubscribe(leaving)
    assert strategy.needed
    bench.wait(2)
    assert all(seat.got[name] for seat in staying)
    assert leaving.strategy is None


def test_two_islands_grow_together() -> None:
    """A beacon reaches one of them; the other subscribes again. Reference: package text."""
    bench = Bench(Scamp, Random(3))
    bench.subscribe(*bench.far)
    bench.wait(1)
    halves = (bench.far[:3], bench.far[3:])
    for half, other in (halves, halves[::-1]):
        foreign = {seat.peer.id for seat in other}
        for seat in half:
            strategy = strategy_of(seat)
            for view in (strategy.views.partial, strategy.views.inward):
                for id_ in foreign & set(view):
                    del view[id_]
            strategy.gossip.link(strategy.views.partial, strategy.views.inward)
    bench.wait(4 * bench.rendezvous.refresh_every)
    name = bench.publish(bench.far[0])
    bench.wait(3)
    assert all(seat.got[name] for seat in bench.members)


def test_the_count_is_exact_up_to_the_bound_and_an_estimate_beyond() -> None:
    sample = Sample(TOPIC, 256, 100.0)
    random = Random(1)
    peers = [Peer(Id(random.getrandbits(128)), "") for _ in range(4000)]
    for number, peer in enumerate(peers, 1):
        sample.add(peer, 0.0)
        if number <= 256:
            assert sample.count() == number
    assert len(sample) == 256
    assert 0.8 < sample.count() / 4000 < 1.2
    for peer in peers[:2000]:
        sample.remove(peer.id)
    assert 0.75 < sample.count() / 2000 < 1.25
    sample.expire(101.0)
    assert sample.count() == 0


def test_a_sample_takes_more_when_many_have_left_and_counts_them_when_all_have_refreshed() -> None:
    sample = Sample(TOPIC, 64, 100.0)
    peers = [Peer(ids.hashed(number.to_bytes(4, "big")), "") for number in range(1000)]
    for peer in peers:
        sample.add(peer, 0.0)
    staying = peers[:100]
    for peer in peers[100:]:
        sample.remove(peer.id)
    for now in range(0, 1200, 30):
        for peer in staying:
            sample.add(peer, float(now))
        sample.expire(float(now))
    assert len(sample) > 32
    assert 60 <= sample.count() <= 150


def test_the_chunks_of_a_message_are_told_apart() -> None:
    known = Known()
    chunks = [batch(5, chunk=number, chunks=3) for number in range(3)]
    assert [known.add(one) for one in (*chunks, *chunks)] == [True] * 3 + [False] * 3
    assert name_of(chunks[1]) in known
    assert known.add(batch(6))


def test_copies_of_chunks_leave_nothing_behind() -> None:
    """Each left an empty set, and one peer could send as many as it liked."""
    known = Known()
    known.add(Batch(TOPIC, Id(7), 1, 0, 1000, b""))
    assert not any(known.add(batch(number, chunks=2)) for number in range(1000))
    assert not known._chunks


def test_a_subscription_makes_no_more_copies_than_configuration_allows() -> None:
    bench = Bench(Scamp, Random(1))
    one, other, third, stranger = bench.far[:4]
    bench.subscribe(one, other, third)
    bench.wait(1)
    greedy = ScampSubscribe(TOPIC, stranger.peer, 1, copies=1_000_000, walking=True)
    assert len(strategy_of(one).receive(stranger.peer, greedy, bench.now)) < 100


@pytest.mark.parametrize("asked", [False, True])
def test_contacts_count_only_from_who_may_have_been_asked(asked: bool) -> None:
    """Any stranger's empty answer told a publisher that its batches had reached all there are."""
    bench = Bench(Scamp, Random(1))
    member, publisher, stranger = bench.far[:3]
    bench.subscribe(member)
    bench.wait(1)
    if asked:
        bench.routing = False
    else:
        bench.publish(publisher)
        bench.settle()
        bench.vanish(member)
    bench.publish(publisher)
    before = len(heard(publisher, Sent))
    bench._receive(publisher, stranger.peer, ScampContacts(TOPIC, (), 0, 1))
    assert len(heard(publisher, Sent)) == before


def linked(config: ScampConfig) -> Gossip:
    gossip = Gossip(TOPIC, config, DeliveryConfig(), Random(1))
    arcs = {Id(number): Arc(Peer(Id(number), "")) for number in range(1, 5)}
    gossip.link(arcs, {})
    return gossip


def test_the_first_link_is_eager_and_the_others_lazy() -> None:
    """Reference: Plumtree (protocols.md 5.7), but for new links."""
    gossip = linked(ScampConfig())
    assert (list(gossip.eager), list(gossip.lazy)) == ([1], [2, 3, 4])
    assert [send.peer.id for send in gossip.push(batch(1), None)] == [1]
    told = gossip.tick(0.0)
    assert [(send.peer.id, type(send.message)) for send in told] == [
        (number, ScampHave) for number in (2, 3, 4)
    ]


def test_a_second_copy_makes_a_link_lazy_and_a_pull_makes_it_eager() -> None:
    """Reference: Plumtree (protocols.md 5.7)."""
    gossip = linked(ScampConfig())
    (prune,) = gossip.repeated(batch(8), Peer(Id(1), ""))
    assert isinstance(prune.message, ScampPrune)
    assert not gossip.eager
    missing = batch(9)
    gossip.receive(Peer(Id(3), ""), ScampHave(TOPIC, (name_of(missing),)), 0.0)
    assert not gossip.tick(0.1), "it may come by itself"
    (graft,) = gossip.tick(0.3)
    assert isinstance(graft.message, ScampGraft)
    assert (graft.peer.id, list(gossip.eager)) == (3, [3])


def test_a_pull_is_answered_with_the_batch() -> None:
    gossip = linked(ScampConfig())
    gossip.push(batch(1), None)
    answer = gossip.receive(Peer(Id(4), ""), ScampGraft(TOPIC, (name_of(batch(1)),)), 0.0)
    assert [send.message.first for send in answer if isinstance(send.message, Batch)] == [1]
    assert 4 in gossip.eager


def test_a_link_that_becomes_eager_is_told_what_waits_to_be_announced() -> None:
    """It was passed over: neither pushed, for it was lazy, nor announced, for it was eager by then.

    Reference: scamp_trial, seed 33."""
    gossip = linked(ScampConfig())
    gossip.push(batch(1), None)
    told = gossip.receive(Peer(Id(3), ""), ScampGraft(TOPIC), 0.0)
    assert [send.message for send in told] == [ScampHave(TOPIC, (name_of(batch(1)),))]
    assert 3 not in [send.peer.id for send in gossip.tick(0.0)]


def test_a_new_link_is_not_told_what_came_before_it() -> None:
    """A late joiner asked for what it had not subscribed to. Reference: tests/runtime/test_switching.py."""
    gossip = linked(ScampConfig())
    gossip.push(batch(1), None)
    newcomer = Peer(Id(9), "")
    arcs = {Id(number): Arc(Peer(Id(number), "")) for number in range(1, 5)}
    told = gossip.link({**arcs, newcomer.id: Arc(newcomer)}, {})
    assert [send.peer.id for send in told if isinstance(send.message, ScampHave)] == [2, 3, 4]
    assert not gossip.tick(0.0)
    gossip.push(batch(2), None)
    assert newcomer in [send.peer for send in gossip.tick(0.0)]


def in_both_views() -> Gossip:
    """Neighbours 1 to 4 in the partial view, of which 1 is eager; 5 to 7 in the in-view."""
    gossip = Gossip(TOPIC, ScampConfig(), DeliveryConfig(), Random(1))
    arcs = {Id(number): Arc(Peer(Id(number), "")) for number in range(1, 8)}
    partial = {id_: arc for id_, arc in arcs.items() if id_ < 5}
    gossip.link(partial, {})
    gossip.link(partial, {id_: arc for id_, arc in arcs.items() if id_ > 4})
    return gossip


def told_to(sends: list[Send]) -> list[int]:
    return [int(send.peer.id) for send in sends if isinstance(send.message, ScampHave)]


def test_names_go_along_the_arcs_and_then_to_those_who_have_not_told_them() -> None:
    """Both ends of every lazy link told the other what it had: 5.7 messages for each member and second, of
    7.2 in all. Reference: sim.compare."""
    gossip = in_both_views()
    gossip.known.add(batch(1))
    gossip.push(batch(1), Id(2))
    gossip.known.add(batch(2))
    gossip.push(batch(2), None)
    gossip.receive(Peer(Id(3), ""), ScampHave(TOPIC, (name_of(batch(2)),)), 0.0)
    first = gossip.tick(0.1)
    assert told_to(first) == [3, 4]
    assert first[0].message == ScampHave(TOPIC, (name_of(batch(1)),))
    gossip.receive(Peer(Id(5), ""), ScampHave(TOPIC, (name_of(batch(1)),)), 0.1)
    gossip.repeated(batch(2), Peer(Id(5), ""))
    gossip.repeated(batch(2), Peer(Id(6), ""))
    then = gossip.tick(0.2)
    assert told_to(then) == [6, 7]
    assert then[0].message == ScampHave(TOPIC, (name_of(batch(1)),))
    assert not gossip.waits


def test_who_moves_from_one_view_to_the_other_is_not_passed_over() -> None:
    """In between, the partial view had been told already, and then only the others were."""
    gossip = in_both_views()
    gossip.push(batch(1), None)
    assert told_to(gossip.tick(0.1)) == [2, 3, 4]
    gossip.link({Id(5): Arc(Peer(Id(5), ""))}, {Id(2): Arc(Peer(Id(2), ""))})
    assert told_to(gossip.tick(0.2)) == [5]


def test_who_leaves_tells_everyone_at_once_and_a_new_eager_link_is_told_all_that_waits() -> None:
    gossip = in_both_views()
    gossip.push(batch(1), None)
    gossip.tick(0.1)
    gossip.push(batch(2), None)
    assert told_to(gossip.receive(Peer(Id(7), ""), ScampGraft(TOPIC), 0.1)) == [7]
    assert told_to(gossip.retire()) == [2, 3, 4, 5, 6]
    assert not gossip.waits


def test_paper_mode_gossips_to_a_random_subset_of_the_view() -> None:
    """Reference: SCAMP 2.2.1: different subsets for different notifications."""
    gossip = linked(ScampConfig(mode="paper", fanout=2))
    targets = Counter(send.peer.id for n in range(100) for send in gossip.push(batch(n), None))
    assert sum(targets.values()) == 200
    assert set(targets) == {1, 2, 3, 4}


def test_a_payload_costs_one_copy_and_half_of_the_group_may_fail() -> None:
    """Reference: the issue, bar 3, on a small group."""
    group = Group(1, ScampConfig())
    group.grow(100)
    for _ in range(3):
        group.publish()
        group.run(1.0)
    before = group.copies()
    numbers = [group.publish() for _ in range(3)]
    group.run(2.0)
    assert group.copies_per_delivery(numbers, before) <= 1.2
    assert all(group.reached(number) == 1.0 for number in numbers)
    group.fail(0.5)
    group.run(5.0)
    later = group.publish()
    group.run(3.0)
    assert group.reached(later) == 1.0


def test_views_have_the_logarithm_of_the_group_after_some_leases() -> None:
    """A renewal added as many arcs as its contact had, and its contact had more than most: views of a group
    that had come together were twice too large after two leases.

    Reference: issue 6, bar 3."""
    group = Group(1, ScampConfig(heartbeat_every=20, isolated_after=50))
    group.grow(60)
    for _ in range(2):
        group.run(group.config.lease)
    assert 0.85 < group.mean_view() / math.log(60) < 1.15


def test_a_rendezvous_that_has_just_begun_to_count_does_not_shrink_the_views() -> None:
    """Everyone renews because its reign is new, while it has heard of few."""
    group = Group(1, ScampConfig())
    group.grow(60)
    root, *_, last = group.members.values()
    owner = root.strategy.around.me
    told = ScampContacts(DESCRIPTOR.id, (owner,), members=1, reign=7)
    last.strategy._asking.register()
    effects = last.strategy.receive(owner, told, group.simulation.now)
    (renewal,) = [
        effect.message
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, ScampSubscribe)
    ]
    assert renewal.renewal
    assert renewal.copies >= 4
