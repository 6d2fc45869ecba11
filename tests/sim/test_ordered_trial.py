"""A few trials of ordered topics under faults, and whether their observer would see what is wrong.

The long run is ``python -m overlaymq.sim.ordered_trial --seeds 1-1000``.
"""

from __future__ import annotations

import pytest

from overlaymq.core.reliability.following import Follower
from overlaymq.events import Delivered, EpochChanged, Missed
from overlaymq.ids import Id
from overlaymq.messages import Batch, Epoch, Peer, Place
from overlaymq.sim import ordered_trial
from overlaymq.sim.ordered_trial import Published, Reader, Trial
from overlaymq.sim.tally import NEEDED_HITS, NEEDED_NODES

TOPIC, ORIGIN, ROOT = Id(7), Id(50), Id(100)
PEER = Peer(Id(1), "node-1")


def batch(sequence: int, first: int, epoch: int = 1) -> Batch:
    return Batch(TOPIC, ORIGIN, 0, first, 1, b"", 0, 0, ROOT, epoch, sequence)


@pytest.mark.parametrize(("kind", "seed"), [("forwarders", 2), ("roots", 4), ("partitions", 5)])
def test_nothing_is_lost_unannounced(kind: str, seed: int) -> None:
    """Reference: Scribe JSAC III-B.2; crashes of forwarders and roots, loss, joins, partitions that heal."""
    outcome = Trial(seed, kind).run()
    assert outcome.violations == []
    assert outcome.fewest >= NEEDED_NODES
    assert outcome.hits >= NEEDED_HITS
    assert outcome.delivered > 0.8 * outcome.expected
    if kind == "forwarders":
        assert outcome.root_crashes == 0


def test_nobody_on_an_sv_topic_is_ready_before_it_knows_where_it_begins() -> None:
    """Issue 5, `ordered` works on SV topics: here a parent dies before its child was told a number."""
    outcome = Trial(40, "roots", strategy="sv").run()
    assert outcome.violations == []
    assert outcome.delivered > 0.8 * outcome.expected


def test_a_seed_is_one_run() -> None:
    facts = []
    for _ in range(2):
        outcome = Trial(8, "roots", nodes=66).run()
        facts.append((outcome.published, outcome.delivered, outcome.changes, outcome.hits))
    assert facts[0] == facts[1]


def test_the_observer_sees_duplicates_and_disorder() -> None:
    reader = Reader(PEER, TOPIC)
    reader.deliver(batch(1, 0))
    reader.deliver(batch(2, 1))
    assert reader.faults == []
    reader.deliver(batch(3, 1))
    assert "twice" in reader.faults[-1]
    reader.deliver(batch(2, 5))
    assert "after" in reader.faults[-1]
    reader.deliver(batch(1, 6, epoch=2))
    assert len(reader.faults) == 2


def test_the_observer_takes_only_what_was_announced_for_announced() -> None:
    reader = Reader(PEER, TOPIC)
    old, new = Epoch(1, ROOT), Epoch(3, ROOT)
    reader.tell(Missed(TOPIC, ROOT, 4, 5, 1))
    reader.tell(EpochChanged(TOPIC, old, 9, new))
    covered = [n for n in range(1, 13) if reader.covers(Place(old, n))]
    assert covered == [4, 5, 10, 11, 12]
    assert reader.covers(Place(Epoch(2, Id(9)), 1))
    assert not reader.covers(Place(new, 1))


def test_the_observer_sees_a_loss_that_nobody_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mode that asks for nothing again, and subscribers that are told nothing."""
    monkeypatch.setattr(Follower, "_ask", lambda *_: False)
    monkeypatch.setattr(Reader, "covers", lambda *_: False)
    trial = Trial(3, "forwarders", nodes=66)
    trial.loss = 0.05
    assert any("unannounced" in violation for violation in trial.run().violations)


def test_a_message_without_a_place_is_excused_only_if_its_publisher_died() -> None:
    trial = Trial(1, "forwarders")
    reader = Reader(PEER, TOPIC)
    message = Published(TOPIC, ORIGIN, 0, 1.0, {})
    assert "unannounced" in trial._lost(reader, message)
    trial.lost[ORIGIN] = None
    assert trial._lost(reader, message) == ""
    message.places[Place(Epoch(1, ROOT), 1)] = 0
    assert "unannounced" in trial._lost(reader, message), "it had a place"
    reader.tell(Missed(TOPIC, ROOT, 1, 1, 1))
    assert "no root crashed" in trial._lost(reader, message)
    trial.root_crashes = 1
    assert trial._lost(reader, message) == ""


def test_a_large_message_needs_a_place_for_each_chunk() -> None:
    trial = Trial(1, "roots")
    trial.root_crashes, trial.lost[ORIGIN] = 1, None
    reader = Reader(PEER, TOPIC)
    message = Published(TOPIC, ORIGIN, 0, 1.0, {}, chunks=2)
    message.places[Place(Epoch(1, ROOT), 1)] = 0
    assert trial._lost(reader, message) == "", "its publisher died in the midst of it"
    message.places[Place(Epoch(1, ROOT), 3)] = 1
    assert "unannounced" in trial._lost(reader, message)
    reader.tell(Missed(TOPIC, ROOT, 3, 3, 1))
    assert trial._lost(reader, message) == ""


def test_the_observer_sees_a_publisher_out_of_order_unless_it_was_published_again() -> None:
    trial = Trial(1, "forwarders")
    reader = Reader(PEER, TOPIC)
    for place, first in ((1, 0), (2, 5), (3, 4)):
        message = trial.published[TOPIC, ORIGIN, first] = Published(TOPIC, ORIGIN, first, 1.0, {})
        message.places[Place(Epoch(2, ROOT), place)] = 0
        reader.deliver(batch(place, first, epoch=2))
    assert reader.disorder == 1
    assert len(trial._disordered(reader)) == 1
    message.places[Place(Epoch(1, ROOT), 9)] = 0
    assert trial._disordered(reader) == []


def test_the_observer_sees_that_a_receipt_claims_too_much() -> None:
    trial = Trial(1, "forwarders")
    reader = trial.readers[PEER.id, TOPIC] = Reader(PEER, TOPIC)
    trial.add(PEER)
    reader.ready_at = 0.5
    place = Place(Epoch(1, ROOT), 1)
    message = trial.asked[TOPIC, place] = Published(TOPIC, ORIGIN, 0, 1.0, {place: 0})
    trial._told(Delivered(TOPIC, place, place, 1, 1, False))
    assert trial.overclaims == [], "it was not the last word"
    trial._told(Delivered(TOPIC, place, place, 1, 1, True))
    assert len(trial.overclaims) == 1
    message.settled = False
    reader.deliver(batch(1, 0))
    trial._told(Delivered(TOPIC, place, place, 1, 1, True))
    assert len(trial.overclaims) == 1
    assert trial.told_delivered == 2


def test_kinds_take_turns() -> None:
    assert [Trial(seed).kind for seed in range(3)] == list(ordered_trial.KINDS)
