"""Gossip topics under churn, a few seeds; more by ``python -m overlaymq.sim.scamp_trial``."""

from __future__ import annotations

import pytest

from overlaymq.sim.scamp_trial import TOPIC, Trial, main


@pytest.mark.parametrize("seed", [1, 4])
def test_views_are_mutual_one_lease_after_the_last_fault(seed: int) -> None:
    """Reference: SCAMP 2.2.1: who is in whose view."""
    assert not Trial(seed).run().violations


def test_the_observer_sees_a_view_that_is_not_mutual() -> None:
    trial = Trial(1)
    trial.run()
    views = [trial._views(id_) for id_ in trial.members]
    held = next(one for one in views if one is not None and one.inward)
    held.inward.pop(next(iter(held.inward)))
    assert any("does not know it" in text for text in trial._of_views())
    assert TOPIC in {topic.id for node in trial.nodes.values() for topic in node.active_topics()}


def test_the_same_seed_gives_the_same_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Trial(2).run(), Trial(2).run()
    assert (first.members, first.mean_view, first.hits) == (
        second.members,
        second.mean_view,
        second.hits,
    )
    assert main(["--seeds", "2", "--json"]) == 0
    assert '"seeds":1' in capsys.readouterr().out
