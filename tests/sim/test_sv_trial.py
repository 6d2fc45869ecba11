"""A few trials of SV trees under churn and faults, and whether their observer would see what is wrong.

The long run is ``python -m overlaymq.sim.sv_trial --seeds 1-500``.
"""

from __future__ import annotations

import pytest

from overlaymq.core.dissemination.sv import Sv
from overlaymq.core.dissemination.sv.order import Order
from overlaymq.ids import Id
from overlaymq.messages import Batch, Peer
from overlaymq.sim.engine import Host
from overlaymq.sim.sv_trial import KINDS, Trial


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for seed, kind in enumerate(KINDS, 3)])
def test_no_loop_no_impoliteness_and_everybody_is_fed_again(kind: str, seed: int) -> None:
    """Reference: SV-16, SV-17; after every event, with crashes, lost links, loss and partitions."""
    outcome = Trial(seed, kind, nodes=64).run()
    assert outcome.loops == []
    assert outcome.impolite_bytes == 0
    assert outcome.violations == []
    assert outcome.fewest >= 50
    assert outcome.fed_others > 0
    assert outcome.forwarded_bytes > 100_000


@pytest.mark.parametrize("seed", [1, 52, 216])
def test_seeds_that_failed_once(seed: int) -> None:
    """1: a former root gave its successor what other roots had numbered. 52: two roots for ever.
    216: one that had just left came back below those who did not know yet."""
    outcome = Trial(seed).run()
    assert outcome.violations == []
    assert outcome.loops == []


def test_the_observer_sees_impolite_forwarding() -> None:
    trial = Trial(1)
    me, topic = Peer(Id(1), "node-1"), trial.topics[0].id
    batch = Batch(topic, Id(9), 0, 0, 1, b"content", root=Id(5), root_sequence=1)
    trial._seen(0.0, Host(me, trial), me, batch, "passed")  # type: ignore[arg-type]
    assert (trial.bytes["impolite"], len(trial.violations)) == (7, 1)
    trial.allowed[me.id, topic] = True
    trial._seen(0.0, Host(me, trial), me, batch, "passed")  # type: ignore[arg-type]
    assert (trial.bytes["impolite"], trial.bytes["forwarded"]) == (7, 7)


def test_the_observer_excuses_only_what_a_former_root_of_an_ordered_topic_numbered() -> None:
    trial = Trial(1)
    me = Peer(Id(1), "node-1")
    for topic, root in ((0, me.id), (1, Id(5)), (1, me.id)):
        batch = Batch(
            trial.topics[topic].id, Id(9), 0, 0, 1, b"content", root=root, root_sequence=1
        )
        trial._seen(0.0, Host(me, trial), me, batch, "passed")  # type: ignore[arg-type]
    assert (trial.bytes["impolite"], trial.bytes["handed over"]) == (14, 7)


def test_the_order_alone_does_not_prevent_loops() -> None:
    """It is local to one node: a rejoiner whose route has changed is led into its own subtree. Reference:
    issue 5, "show in the simulator whether the case occurs without it"."""
    without = Trial(3, "churn", beats=False).run()
    assert without.loops
    assert set(without.loops) <= set(without.violations)
    assert not Trial(3, "churn").run().loops


def test_the_observer_sees_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without beats and without order, nodes are led into their own subtrees."""
    monkeypatch.setattr(Order, "fed_by", lambda self, branch: {branch})
    assert Sv.ways
    assert any(Trial(seed, "churn", beats=False).run().loops for seed in range(3))
