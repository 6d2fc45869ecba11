"""The conformance suite on every strategy we ship, and what is special about each."""

from __future__ import annotations

from random import Random

import pytest

from overlaymq.core.dissemination.conformance import CHECKS
from overlaymq.core.dissemination.conformance_bench import TOPIC, Bench
from overlaymq.core.dissemination.conformance_ordered import ORDERED_CHECKS
from overlaymq.core.dissemination.rooted_tree import RootedTree
from overlaymq.core.supported import STRATEGIES, TREES
from overlaymq.events import Route, Send
from overlaymq.messages import Batch, Handover, RootIs, RootQuery


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_contract(strategy: str, check: str, seed: int) -> None:
    CHECKS[check](STRATEGIES[strategy], Random(seed))


@pytest.mark.parametrize("check", ORDERED_CHECKS)
@pytest.mark.parametrize("strategy", TREES)
@pytest.mark.parametrize("seed", range(3))
def test_contract_on_ordered_topics(strategy: str, check: str, seed: int) -> None:
    """Reference: issue 5, "`ordered`, `since` and the upcalls work on SV topics as on Scribe topics"."""
    ORDERED_CHECKS[check](STRATEGIES[strategy], Random(seed))


def test_an_old_root_passes_batches_on_and_corrects_the_publisher() -> None:
    bench = Bench(STRATEGIES["direct"], Random(1))
    member, publisher = bench.far[:2]
    bench.subscribe(member)
    bench.publish(publisher)
    bench.wait(1)
    former = bench.owner
    newcomer = bench.arrive_closer()
    bench.settle()
    name = bench.publish(publisher)
    assert bench._lanes[publisher.peer.id, former.peer.id, True], "it still knows the former root"
    bench.settle()
    assert member.got[name] == 1
    bench.publish(publisher)
    assert bench._lanes[publisher.peer.id, newcomer.peer.id, True], "and was told of the new one"


def test_nodes_that_take_each_other_for_the_root_do_not_loop_for_ever() -> None:
    bench = Bench(STRATEGIES["direct"], Random(1))
    one, other = bench.far[:2]
    for mine, yours in ((one, other), (other, one)):
        strategy = bench._strategy(mine)
        strategy.receive(yours.peer, RootIs(strategy.descriptor.id, yours.peer, 0), 0.0)
    bench.publish(one)
    bench.settle()


@pytest.mark.parametrize("strategy", ["scribe", "sv"])
def test_a_child_takes_nothing_from_its_parent_for_a_publication(strategy: str) -> None:
    """It sent to the root what had lost its number above it, the root spread that again, and so on."""
    bench = Bench(STRATEGIES[strategy], Random(1))
    bench.subscribe(*bench.by_closeness()[1:])
    bench.wait(1)
    publisher = bench.far[0]
    for seat in bench.members:
        place = bench._strategy(seat)
        assert isinstance(place, RootedTree)
        assert place.parent is not None
        batch = Batch(TOPIC, publisher.peer.id, 1, 0, 1, b"")
        effects = place.receive(place.parent, batch, bench.now)
        sent = [effect.message for effect in effects if isinstance(effect, Send)]
        assert not [message for message in sent if isinstance(message, Batch)]
        bench._perform(seat, effects)
    name = bench.publish(publisher)
    bench.wait(1)
    assert all(seat.got[name] == 1 for seat in bench.members)


@pytest.mark.parametrize("strategy", ["scribe", "sv", "scamp"])
def test_a_root_is_forgotten_when_the_ring_takes_its_word_back(strategy: str) -> None:
    """While leaf sets are mended they reach too far, and name owners that are none; what went there was lost.

    Reference: overlaymq sim compare, a third of the nodes killed at once."""
    bench = Bench(STRATEGIES[strategy], Random(1))
    member, publisher, no_root = bench.far[:3]
    bench.subscribe(member)
    bench.wait(1)
    mistaken = bench._strategy(publisher)
    bench._perform(publisher, mistaken.root_changed(no_root.peer, bench.now))
    bench._perform(publisher, mistaken.root_changed(None, bench.now))
    name = bench.publish(publisher)
    bench.wait(1)
    assert member.got[name] == 1


@pytest.mark.parametrize("strategy", ["scribe", "sv"])
@pytest.mark.parametrize("heir", [False, True])
def test_a_root_that_is_too_far_to_be_one_looks_for_its_successor(
    strategy: str, heir: bool
) -> None:
    """Many arrive closer to the key at once: a root, or its heir, falls out of sight of
    the key before it hears of the new root. Reference: sv_trial, seed 52, two roots for ever."""
    bench = Bench(STRATEGIES[strategy], Random(1))
    former, successor = bench.far[:2]
    strategies = [bench._strategy(seat) for seat in (former, successor)]
    if heir:
        handover = Handover(strategies[0].descriptor, (), 1)
        effects = strategies[0].receive(successor.peer, handover, bench.now)
    else:
        strategies[0].root_changed(former.peer, bench.now)
        effects = strategies[0].root_changed(None, bench.now)
    assert any(isinstance(one, Route) and isinstance(one.message, RootQuery) for one in effects)
    told = RootIs(strategies[0].descriptor.id, successor.peer, 1)
    effects = strategies[0].receive(successor.peer, told, bench.now)
    handed = [
        one.peer for one in effects if isinstance(one, Send) and type(one.message) is Handover
    ]
    assert handed == [successor.peer]
    assert strategies[0].standing is not None
    assert strategies[0].standing.role != "root"


@pytest.mark.parametrize("strategy", ["direct", "scribe", "sv"])
def test_a_publisher_does_not_trust_an_old_answer(strategy: str) -> None:
    """A root that vanished without a word would swallow what it is sent. Reference: sv_trial, seed 13."""
    bench = Bench(STRATEGIES[strategy], Random(1))
    member, publisher = bench.far[:2]
    bench.subscribe(member)
    bench.publish(publisher)
    bench.wait(1)
    bench.vanish(bench.owner)
    bench.tell_owner()
    bench.wait(4 * bench.rendezvous.refresh_every)
    name = bench.publish(publisher)
    bench.wait(5 * bench.rendezvous.answer_timeout)
    assert member.got[name] == 1
