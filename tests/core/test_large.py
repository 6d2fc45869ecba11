"""Large messages of ordered topics: whole, or announced, and never counted as delivered if they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.config import DeliveryConfig
from overlaymq.core.reliability.large import runs
from overlaymq.events import Deliver, Missed
from overlaymq.ids import Id
from overlaymq.messages import Batch, Place, TreeHad
from tests.core.stand import ABOVE, CONFIG, NEW, OLD, TOPIC, Stand

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.messages import Epoch

SMALL = DeliveryConfig(gap_timeout=10.0, keep_seconds=60.0, chunk_timeout=1.0, reassembly=1000)


def chunk(
    sequence: int, number: int, *, of: int = 2, origin: int = 50, epoch: Epoch = OLD
) -> Batch:
    plain = Batch(TOPIC.id, Id(origin), 0, 0, 1, b"x" * 300, chunk=number, chunks=of)
    return msgspec.structs.replace(
        plain, root=epoch.root, root_epoch=epoch.counter, root_sequence=sequence
    )


class Subscriber(Stand):
    """Gives what the mode delivers to its reassembler, as a node does."""

    def __init__(self, config: DeliveryConfig = CONFIG) -> None:
        super().__init__(config=config)
        self.whole: list[int] = []
        self.start()

    def done(self) -> Subscriber:
        kept: Effects = []
        for effect in self.tree.effects:
            if isinstance(effect, Deliver):
                kept += self.mode.deliver(effect.batch, self.tree.now)
            else:
                kept.append(effect)
        self.tree.effects = [one for one in kept if not isinstance(one, Deliver)]
        self.whole += [int(one.batch.origin) for one in kept if isinstance(one, Deliver)]
        super().done()
        return self

    def get(self, *batches: Batch) -> Subscriber:
        super().get(*batches)
        return self

    def tick(self, seconds: float) -> Subscriber:
        self.wait(seconds)
        self.mode.on_tick(self.tree)
        return self.done()

    def missed(self) -> list[tuple[int, int, int]]:
        gaps = [event for event in self.events if isinstance(event, Missed)]
        return [(one.epoch, one.first, one.last) for one in gaps]

    def lost(self) -> list[tuple[int, int]]:
        """What its parent was told last."""
        had = self.sent(ABOVE, TreeHad)[-1]
        assert isinstance(had, TreeHad)
        return [(one.first.sequence, one.last.sequence) for one in had.lost]


def test_an_incomplete_message_waits_for_the_repair_of_its_gap() -> None:
    """After chunk_timeout it was dropped, and the chunks that the repair brought were copies of it: it was
    lost without a word, and counted as delivered."""
    one = Subscriber(msgspec.structs.replace(CONFIG, chunk_timeout=0.1, gap_timeout=100.0))
    one.get(chunk(1, 0)).tick(30.0)
    one.get(chunk(3, 0, origin=51, of=1)).tick(31.0)
    assert (one.whole, one.events) == ([], [])
    one.get(chunk(2, 1))
    assert (one.whole, one.events) == ([50, 51], [])


def test_without_a_gap_it_waits_for_its_publisher_but_not_for_ever() -> None:
    one = Subscriber(SMALL).get(chunk(1, 0), chunk(2, 0, origin=51))
    one.tick(59.0).get(chunk(3, 1))
    assert (one.whole, one.missed()) == ([50], [])
    one.tick(2.0)
    assert one.missed() == [(1, 2, 2)]
    one.tick(60.0)
    assert one.lost() == [(2, 2)]


def test_a_chunk_that_is_given_up_is_announced_with_its_gap_and_the_others_later() -> None:
    one = Subscriber(SMALL).get(chunk(1, 0, of=3), chunk(3, 2, of=3))
    one.wait(25.0)
    assert one.missed() == [(1, 2, 2)]
    one.tick(61.0).tick(1.0)
    assert one.missed() == [(1, 2, 2), (1, 1, 1), (1, 3, 3)]
    assert one.whole == []


def test_what_exceeds_the_bound_is_missed_with_all_its_chunks_and_counts_as_lost() -> None:
    """All twelve chunks of four messages came, three were dropped, and the root was told of no loss."""
    one = Subscriber(SMALL)
    for place in range(1, 13):
        one.get(chunk(place, (place - 1) // 4, of=3, origin=50 + (place - 1) % 4))
    assert one.whole == [53]
    numbers = {n for _, first, last in one.missed() for n in range(first, last + 1)}
    assert numbers == set(range(1, 13)) - {4, 8, 12}
    one.wait(1.0)
    assert {n for first, last in one.lost() for n in range(first, last + 1)} == numbers


def test_a_message_may_be_whole_over_a_change_of_epoch() -> None:
    one = Subscriber(SMALL).get(chunk(1, 0))
    one.mode._newest, one.mode._past = NEW, (Place(OLD, 1),)
    one.get(chunk(1, 0, epoch=NEW), chunk(2, 1, epoch=NEW))
    assert (one.whole, one.missed()) == ([50], [])


def test_who_subscribes_anew_has_no_old_parts() -> None:
    one = Subscriber(SMALL).get(chunk(1, 0))
    one.mode.unsubscribed()
    one.tick(61.0)
    assert one.events == []


def test_places_become_few_ranges() -> None:
    places = [Place(OLD, 4), Place(NEW, 5), Place(OLD, 3), Place(OLD, 6)]
    assert [(first.sequence, last.sequence) for first, last in runs(places)] == [
        (3, 4),
        (6, 6),
        (5, 5),
    ]
