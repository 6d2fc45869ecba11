"""The conformance suite on every strategy we ship, and what is special about each."""

from __future__ import annotations

from random import Random

import pytest

from overlaymq.core.dissemination.conformance import CHECKS
from overlaymq.core.dissemination.conformance_bench import Bench
from overlaymq.core.node import STRATEGIES
from overlaymq.messages import RootIs


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_contract(strategy: str, check: str, seed: int) -> None:
    CHECKS[check](STRATEGIES[strategy], Random(seed))


def test_a_late_joiner_of_direct_gets_the_last_messages_it_asked_for() -> None:
    bench = Bench(STRATEGIES["direct"], Random(1))
    early, late, publisher = bench.far[:3]
    bench.subscribe(early)
    bench.wait(1)
    for _ in range(4):
        bench.publish(publisher, count=5)
    bench.settle()
    bench.subscribe(late, last=7)
    bench.wait(1)
    got = [q for batch in late.batches for q in range(batch.first + batch.skip, batch.last + 1)]
    assert got == list(range(13, 20))
    bench.wait_refreshed()
    assert len(late.batches) == 2, "a refresh does not ask for history again"


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
