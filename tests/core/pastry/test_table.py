"""The routing table and the neighbourhood set."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from overlaymq.core.pastry.neighbourhood import Neighbourhood
from overlaymq.core.pastry.table import RoutingTable
from overlaymq.ids import RING, Id, digit, parse, shared_digits
from overlaymq.messages import Peer

IDS = st.integers(0, RING - 1).map(Id)


def peer(prefix: str, incarnation: int = 0) -> Peer:
    return Peer(parse(prefix.ljust(32, "0")), f"at-{prefix}", incarnation)


ME = parse("65a1".ljust(32, "f"))


@given(ids=st.lists(IDS, max_size=60), bits=st.sampled_from([1, 2, 4, 8]))
def test_each_entry_stands_where_its_digits_say(ids: list[Id], bits: int) -> None:
    table = RoutingTable(ME, bits)
    for id_ in ids:
        table.consider(Peer(id_, ""), inf)
    for row in range(table.depth):
        for entry in table.row(row):
            assert shared_digits(ME, entry.id, bits) == row
            assert table.at(row, digit(entry.id, row, bits)) is entry
    assert sum(len(table.row(row)) for row in range(table.rows)) == len(table)


def test_the_nearer_node_wins_and_an_unmeasured_one_never() -> None:
    table = RoutingTable(ME, 4)
    assert table.consider(peer("1a"), inf)
    assert not table.consider(peer("1b"), inf)
    assert table.consider(peer("1c"), 0.5)
    assert not table.consider(peer("1d"), 0.5)
    assert not table.consider(peer("1e"), inf)
    assert table.consider(peer("1f"), 0.2)
    assert table.row(0) == (peer("1f"),)
    assert table.distance(peer("1f").id) == 0.2


def test_a_returning_node_keeps_its_slot_with_the_new_handle() -> None:
    table = RoutingTable(ME, 4)
    table.consider(peer("1a"), 0.3)
    assert not table.consider(peer("1a", incarnation=1), inf)
    assert table.get(peer("1a").id) == peer("1a", incarnation=1)
    assert table.distance(peer("1a").id) == 0.3


def test_this_node_itself_is_never_an_entry() -> None:
    table = RoutingTable(ME, 4)
    assert not table.consider(Peer(ME, ""), 0.0)
    assert not table.wants(ME)
    assert table.hop(ME) is None


def test_removal_leaves_the_slot_to_anyone() -> None:
    table = RoutingTable(ME, 4)
    table.consider(peer("65b"), 0.1)
    assert table.depth == 3
    assert not table.remove(peer("65b1").id)
    assert table.remove(peer("65b").id)
    assert table.wants(peer("65b").id)
    assert table.distance(peer("65b").id) == inf
    assert table.depth == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), max_size=60))
def test_the_neighbourhood_is_the_nearest_by_last_measure(
    measures: list[tuple[int, float]],
) -> None:
    near = Neighbourhood(100)
    last: dict[int, float] = {}
    for id_, seconds in measures:
        near.add(Peer(Id(id_), ""), seconds)
        last[id_] = seconds
    assert [p.id for p in near.peers] == sorted(last, key=lambda id_: (last[id_], id_))


def test_a_full_neighbourhood_gives_up_its_farthest() -> None:
    near = Neighbourhood(2)
    assert near.add(peer("1"), 0.2)
    assert near.add(peer("2"), 0.1)
    assert not near.add(peer("3"), 0.3)
    assert near.add(peer("4"), 0.15)
    assert near.peers == (peer("2"), peer("4"))


@given(me=IDS, other=IDS, bits=st.sampled_from([1, 2, 4, 8]))
def test_a_slot_spans_exactly_the_ids_that_belong_into_it(me: Id, other: Id, bits: int) -> None:
    table = RoutingTable(me, bits)
    if me == other:
        return
    slot = table.slot(other)
    low, high = table.span(slot)
    assert low <= other <= high
    assert table.slot(low) == table.slot(high) == slot
    for outside in (low - 1, high + 1):
        if 0 <= outside < RING and outside != me:
            assert table.slot(Id(outside)) != slot
