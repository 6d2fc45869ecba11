"""The strategy contract on ordered topics: what a tree owes to a mode that has a part in it (``tree_mode``).

``ORDERED_CHECKS`` is every check of ``conformance``, with the mode `ordered` in each node's chain of upcalls,
and what that mode promises its subscribers on any tree: one order, nothing lost while nobody dies with it,
and a word about what is. ``check_ordered(make, random)`` runs them all.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.dissemination.conformance import CHECKS
from overlaymq.core.dissemination.conformance_bench import Bench, Seat, expect
from overlaymq.core.reliability.ordered import Ordered
from overlaymq.events import EpochChanged, Missed, Sequenced

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from overlaymq.core.dissemination.base import Strategy, Surroundings
    from overlaymq.core.dissemination.conformance import Make
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Place

    Name = tuple[Id, int]
    Check = Callable[[Make, Random], None]


def in_order(make: Make) -> Make:
    """The same strategy on ordered topics."""

    def made(descriptor: Descriptor, around: Surroundings) -> Strategy:
        descriptor = msgspec.structs.replace(descriptor, reliability="ordered")
        mode = Ordered(descriptor.id, around.delivery)
        return make(descriptor, msgspec.structs.replace(around, mode=mode))

    return made


def _in_mode(check: Check, make: Make, random: Random) -> None:
    check(in_order(make), random)


def _names(seat: Seat) -> list[Name]:
    return [(batch.origin, batch.first) for batch in seat.batches]


def _expect_places_in_order(bench: Bench) -> None:
    """Nobody goes back, in an epoch or to an earlier one."""
    for seat in bench.members:
        places = [(one.root_epoch, one.root, one.root_sequence) for one in seat.batches]
        expect(places == sorted(places), "delivered out of order")


def _expect_one_order(bench: Bench) -> None:
    """Of any two members, what both have; and each publisher's. (What a dead root had spread to some only is
    published again for the others: there it comes later.)"""
    _expect_places_in_order(bench)
    seats = bench.members
    for one, other in pairwise(seats):
        both = set(_names(one)) & set(_names(other))
        orders = [[name for name in _names(seat) if name in both] for seat in (one, other)]
        expect(orders[0] == orders[1], "members have different orders")
    for seat in seats:
        for origin in {origin for origin, _ in _names(seat)}:
            mine = [first for who, first in _names(seat) if who == origin]
            expect(mine == sorted(mine), "a publisher's messages changed places")


def _publish_some(bench: Bench, times: int) -> list[Name]:
    published = []
    for _ in range(times):
        published.append(bench.publish(bench.random.choice(bench.by_closeness())))
        bench.step(6)
    return published


def _settle(bench: Bench) -> None:
    """Until every gap was filled, or given up."""
    bench.wait(bench.delivery.gap_timeout + 3 * bench.rendezvous.answer_timeout)


def all_have_one_order_and_lack_nothing(make: Make, random: Random) -> None:
    """While members come and go and the root moves: whoever was there throughout has it all."""
    bench = Bench(make, random, size=14)
    stay = bench.by_closeness()[1::2]
    bench.subscribe(*stay)
    bench.wait(1)
    published: list[Name] = []
    for _ in range(4):
        published += _publish_some(bench, 10)
        bench.subscribe(bench.arrive_closer())
        published += _publish_some(bench, 10)
        bench.wait(2 * bench.rendezvous.answer_timeout)
        published += _publish_some(bench, 10)
        bench.unsubscribe(bench.owner)
    _settle(bench)
    for seat in stay:
        missing = [name for name in published if not seat.got[name]]
        expect(not missing, f"member {seat.peer.address} did not get {missing}")
        lost = [event for event in seat.events if isinstance(event, Missed)]
        expect(not lost, f"announced although nobody has died: {lost}")
    _expect_one_order(bench)


def what_a_forwarder_took_along_is_sent_again(make: Make, random: Random) -> None:
    """Those below a dead node lack nothing once they have another parent."""
    bench = Bench(make, random, size=14)
    bench.subscribe(*bench.by_closeness()[1:])
    bench.wait(1)
    published: list[Name] = []
    for _ in range(3):
        publishers = [bench.owner, *bench.by_closeness()[-3:]]
        for _ in range(10):
            published.append(bench.publish(random.choice(publishers)))
            bench.step(6)
        parents = {getattr(seat.strategy, "parent", None) for seat in bench.members}
        spared = {seat.peer for seat in publishers}
        fed = [seat for seat in bench.members if seat.peer in parents - spared]
        bench.kill(random.choice(fed or [bench.by_closeness()[1]]))
        bench.wait(2 * bench.rendezvous.answer_timeout)
    _settle(bench)
    for seat in bench.members:
        missing = [name for name in published if not seat.got[name]]
        expect(not missing, f"member {seat.peer.address} did not get {missing}")
    _expect_one_order(bench)


def what_a_dead_root_took_along_is_announced(make: Make, random: Random) -> None:
    """Nothing is lost without a word, and the next root goes on."""
    bench = Bench(make, random)
    stay = bench.by_closeness()[2:]
    bench.subscribe(*stay)
    bench.wait(1)
    published: list[Name] = []
    for _ in range(2):
        for _ in range(10):
            published.append(bench.publish(random.choice(stay)))
            bench.step(6)
        bench.kill(bench.owner)
        bench.wait(2 * bench.rendezvous.answer_timeout)
    _settle(bench)
    places = _places(stay)
    expect(set(published) <= places.keys(), "a publisher that lives was not answered")
    for seat in stay:
        for name in published:
            announced = seat.got[name] or _is_announced(seat, places[name])
            expect(bool(announced), f"{name} was lost without a word")
    _expect_places_in_order(bench)


def _places(seats: list[Seat]) -> dict[Name, Place | None]:
    """Of what was published: the number that its publisher was told; none, if only the dead root knew it."""
    return {
        (seat.peer.id, event.first): event.place
        for seat in seats
        for event in seat.events
        if isinstance(event, Sequenced)
    }


def _is_announced(seat: Seat, place: Place | None) -> bool:
    if place is None:
        return any(isinstance(event, Missed | EpochChanged) for event in seat.events)
    for event in seat.events:
        if isinstance(event, Missed) and event.origin == place.epoch.root:
            if event.epoch == place.epoch.counter and event.first <= place.sequence <= event.last:
                return True
        elif isinstance(event, EpochChanged):
            after = event.old == place.epoch and place.sequence > event.last_known
            if after or event.old < place.epoch < event.new:
                return True
    return False


OWN: tuple[Check, ...] = (
    all_have_one_order_and_lack_nothing,
    what_a_forwarder_took_along_is_sent_again,
    what_a_dead_root_took_along_is_announced,
)

ORDERED_CHECKS: dict[str, Check] = {
    check.__name__: partial(_in_mode, check) for check in (*CHECKS.values(), *OWN)
}


def check_ordered(make: Make, random: Random) -> None:
    """Run every check on ordered topics; raises AssertionError with what was broken."""
    for check in ORDERED_CHECKS.values():
        check(make, random)
