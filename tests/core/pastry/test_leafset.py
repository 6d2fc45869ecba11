"""The leaf set against a twin that sorts everybody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlaymq.core.pastry.leafset import LeafSet
from overlaymq.ids import RING, Id, clockwise, rank
from overlaymq.messages import Peer

IDS = st.integers(0, RING - 1).map(Id)
# Many ids that are close together, and the two ends of the ring.
CROWDED = st.integers(-40, 40).map(lambda n: Id(n % RING))
SOME_IDS = st.lists(IDS | CROWDED, max_size=40, unique=True)


def peer(id_: Id, incarnation: int = 0) -> Peer:
    return Peer(id_, f"at-{id_:x}", incarnation)


def built(me: Id, ids: list[Id], size: int = 8) -> LeafSet:
    leaves = LeafSet(peer(me), size)
    for id_ in ids:
        leaves.add(peer(id_))
    return leaves


def twin(me: Id, ids: list[Id], size: int) -> tuple[list[Id], list[Id]]:
    others = [id_ for id_ in ids if id_ != me]
    up = sorted(others, key=lambda id_: clockwise(me, id_))
    return up[: size // 2], up[::-1][: size // 2]


@given(me=IDS | CROWDED, ids=SOME_IDS)
def test_halves_are_the_nearest_on_each_side(me: Id, ids: list[Id]) -> None:
    leaves = built(me, ids)
    above, below = twin(me, ids, 8)
    assert [leaf.id for leaf in leaves.clockwise] == above
    assert [leaf.id for leaf in leaves.counterclockwise] == below
    assert {leaf.id for leaf in leaves.ring} == {*above, *below}


@given(me=IDS | CROWDED, ids=SOME_IDS, candidate=IDS | CROWDED)
def test_admits_says_what_add_does(me: Id, ids: list[Id], candidate: Id) -> None:
    leaves = built(me, ids)
    admitted = leaves.admits(candidate)
    before = leaves.ring
    assert leaves.add(peer(candidate)) == admitted
    assert (leaves.ring != before) == admitted


@given(me=IDS | CROWDED, ids=SOME_IDS, key=IDS | CROWDED)
def test_closest_is_the_best_of_all_members(me: Id, ids: list[Id], key: Id) -> None:
    leaves = built(me, ids)
    everyone = [me, *(leaf.id for leaf in leaves.ring)]
    assert leaves.closest(key).id == min(everyone, key=lambda id_: rank(key, id_))
    nearest = sorted(everyone, key=lambda id_: rank(key, id_))[:3]
    assert [found.id for found in leaves.closest_many(key, 3)] == nearest


@given(me=IDS | CROWDED, ids=SOME_IDS, key=IDS | CROWDED, data=st.data())
def test_closest_can_leave_one_out(me: Id, ids: list[Id], key: Id, data: st.DataObject) -> None:
    leaves = built(me, ids)
    members = [leaf.id for leaf in leaves.ring]
    if members:
        absent = data.draw(st.sampled_from(members))
        left = [me, *(id_ for id_ in members if id_ != absent)]
        assert leaves.closest(key, (absent,)).id == min(left, key=lambda id_: rank(key, id_))


@given(me=IDS | CROWDED, ids=SOME_IDS, named=SOME_IDS)
def test_picked_are_those_that_stay_if_all_are_added(
    me: Id, ids: list[Id], named: list[Id]
) -> None:
    leaves, after = built(me, ids), built(me, ids)
    peers = [Peer(id_, "") for id_ in named if id_ != me and leaves.get(id_) is None]
    before = leaves.ring
    picked = {peer.id for peer in leaves.pick(peers)}
    assert leaves.ring == before
    for peer in peers:
        after.add(peer)
    assert picked == {leaf.id for leaf in after.ring} & {peer.id for peer in peers}


@given(me=IDS, ids=SOME_IDS, data=st.data())
def test_removing_undoes_adding(me: Id, ids: list[Id], data: st.DataObject) -> None:
    few = [id_ for id_ in ids if id_ != me][:8]
    leaves = built(me, few)
    for id_ in data.draw(st.permutations(few)):
        assert leaves.remove(id_)
        assert not leaves.remove(id_)
    assert leaves.ring == ()


def test_a_node_that_came_back_replaces_its_handle_and_an_old_handle_does_not() -> None:
    leaves = built(Id(100), [Id(200)])
    assert leaves.add(peer(Id(200), incarnation=2))
    assert not leaves.add(peer(Id(200), incarnation=1))
    assert leaves.ring == (peer(Id(200), incarnation=2),)


def test_a_side_that_lacks_members_is_named_with_its_farthest_one() -> None:
    """The extreme live member of the short side knows who is beyond.

    Reference: Scribe JSAC II-B; protocols.md 1.5
    """
    me = Id(1000)
    ids = [Id(1000 + step) for step in range(-8, 9) if step]
    leaves = built(me, ids, 16)
    assert leaves.short_sides() == []
    leaves.remove(Id(1003))
    assert leaves.short_sides() == [(1, peer(Id(1008)))]
    leaves.remove(Id(992))
    assert leaves.short_sides() == [(1, peer(Id(1008))), (-1, peer(Id(993)))]
    assert built(me, [Id(1001)]).short_sides() == [(1, peer(Id(1001))), (-1, None)]


def test_a_range_is_spanned_if_no_id_in_it_is_beyond_the_extremes() -> None:
    leaves = built(Id(1000), [Id(n) for n in (900, 950, 1050, 1100)], 4)
    assert leaves.span(Id(900), Id(1100))
    assert leaves.span(Id(960), Id(960))
    assert not leaves.span(Id(899), Id(1000))
    assert not leaves.span(Id(1000), Id(1101))
    assert not leaves.span(Id(1050), Id(950)), "all around, but for the middle"
    assert not built(Id(1000), []).span(Id(1000), Id(1000))
