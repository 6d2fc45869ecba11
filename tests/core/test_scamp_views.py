"""The membership machine of SCAMP: each rule of the paper, and views that stay mutual."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlaymq.config import ScampConfig
from overlaymq.core.dissemination.scamp.views import MOST_RECEPTIONS, Views
from overlaymq.core.dissemination.scamp.weights import Arc
from overlaymq.ids import Id
from overlaymq.messages import (
    Message,
    Peer,
    ScampAccepted,
    ScampBeat,
    ScampForget,
    ScampForward,
    ScampKept,
    ScampReplace,
    ScampSubscribe,
    ScampWeight,
)
from overlaymq.sim.scamp_world import TOPIC, World

if TYPE_CHECKING:
    from overlaymq.events import Send

PAPER = ScampConfig(mode="paper", lease=0, indirection=False)


def peer(number: int) -> Peer:
    return Peer(Id(number), f"node:{number}")


def member(
    number: int, view: range = range(0), config: ScampConfig = PAPER, seed: int = 1
) -> Views:
    views = Views(peer(number), TOPIC, config, Random(seed))
    views.begin(0.0)
    for other in view:
        views.partial[Id(other)] = Arc(peer(other), time=math.inf)
    return views


def subscription(number: int, **fields: int | float | bool) -> ScampSubscribe:
    return ScampSubscribe(TOPIC, peer(number), 1, **fields)  # type: ignore[arg-type]


def sent(sends: list[Send], kind: type[Message]) -> list[Send]:
    return [send for send in sends if isinstance(send.message, kind)]


def test_a_contact_forwards_to_its_whole_view_and_in_c_more_copies() -> None:
    """Reference: SCAMP 2.2.1, Algorithm 1."""
    contact = member(0, range(1, 6))
    copies = sent(contact.receive(peer(9), subscription(9, copies=3), 0.0), ScampForward)
    assert len(copies) == 5 + 3
    assert {send.peer.id for send in copies} == set(range(1, 6))


def test_a_newcomer_begins_with_its_contact_and_the_two_agree() -> None:
    """Reference: SCAMP 2.2.1, step 1."""
    contact, newcomer = member(0, range(1, 4)), member(9)
    (accepted,) = sent(contact.receive(peer(9), subscription(9), 0.0), ScampAccepted)
    (kept,) = newcomer.receive(contact.me, accepted.message, 0.0)
    contact.receive(newcomer.me, kept.message, 0.0)
    assert list(newcomer.partial) == [0]
    assert list(contact.inward) == [9]


def test_a_contact_without_a_view_keeps_the_newcomer() -> None:
    """Reference: protocols.md 5.1."""
    first = member(0)
    assert sent(first.receive(peer(9), subscription(9), 0.0), ScampKept)[0].peer.id == 9
    assert list(first.partial) == [9]


@pytest.mark.parametrize("size", [1, 4, 9, 24])
def test_a_copy_is_kept_with_probability_one_over_one_more_than_the_view(size: int) -> None:
    """20,000 draws; five standard deviations. Reference: SCAMP 2.2.1, Algorithm 2."""
    draws, kept = 20_000, 0
    views = member(0, range(1, size + 1))
    for serial in range(draws):
        answer = views.receive(peer(1), ScampForward(TOPIC, peer(99), serial), 0.0)
        kept += isinstance(answer[0].message, ScampKept)
        views.partial.pop(Id(99), None)
    share = 1 / (1 + size)
    assert abs(kept / draws - share) < 5 * math.sqrt(share * (1 - share) / draws)


def test_a_copy_that_is_not_kept_goes_to_any_member_of_the_view_alike() -> None:
    """Reference: SCAMP 2.2.1, step 3."""
    views = member(0, range(1, 5))
    views.partial[Id(99)] = Arc(peer(99), time=math.inf)  # it is known, so it is never kept again
    counts = dict.fromkeys([*range(1, 5), 99], 0)
    for serial in range(10_000):
        (onward,) = views.receive(peer(1), ScampForward(TOPIC, peer(99), serial), 0.0)
        counts[onward.peer.id] += 1
    assert all(abs(count - 2000) < 5 * math.sqrt(10_000 * 0.2 * 0.8) for count in counts.values())


def test_a_node_never_keeps_itself() -> None:
    """Reference: protocols.md 5.5."""
    views = member(0, range(1, 2))
    for serial in range(100):
        (onward,) = views.receive(peer(1), ScampForward(TOPIC, peer(0), serial), 0.0)
        assert isinstance(onward.message, ScampForward)


def test_the_eleventh_reception_is_discarded_over_all_copies() -> None:
    """Reference: SCAMP 2.2.1: "more than 10 times"; protocols.md 5.5: per (node, subscription)."""
    views = member(0, range(1, 3))
    views.partial[Id(99)] = Arc(peer(99), time=math.inf)
    answers = [
        views.receive(peer(1), ScampForward(TOPIC, peer(99), 1, hops=hops), 0.0)
        for hops in range(MOST_RECEPTIONS + 1)
    ]
    assert [len(answer) for answer in answers] == [1] * MOST_RECEPTIONS + [0]
    assert views.receive(peer(1), ScampForward(TOPIC, peer(99), 2), 0.0), "another one is not"


def test_unsubscribing_replaces_all_but_c_and_one() -> None:
    """Reference: SCAMP 2.2.2."""
    config = ScampConfig(mode="paper", c=1, lease=0, indirection=False)
    views = member(0, range(1, 4), config)
    for holder in range(10, 17):
        views.receive(peer(holder), ScampKept(TOPIC), 0.0)
    sends = sent(views.unsubscribe(0.0), ScampReplace)
    by = [send.message.by for send in sends if isinstance(send.message, ScampReplace)]
    assert [None if one is None else one.id for one in by] == [1, 2, 3, 1, 2, None, None]
    assert [send.peer.id for send in sends] == list(range(10, 17))


def test_unsubscribing_tells_the_view_and_the_replacement_is_told_by_its_holder() -> None:
    """Reference: protocols.md 5.1: needed, not in the paper."""
    leaving, holder = member(0, range(1, 3)), member(10, range(1))
    leaving.receive(peer(10), ScampKept(TOPIC), 0.0)
    leaving.receive(peer(11), ScampKept(TOPIC), 0.0)
    sends = leaving.unsubscribe(0.0)
    assert {send.peer.id for send in sent(sends, ScampForget)} == {1, 2}
    (replace,) = [send for send in sends if send.peer.id == 10]
    (kept,) = holder.receive(peer(0), replace.message, 0.0)
    assert (list(holder.partial), kept.peer.id) == ([1], 1)


@pytest.mark.parametrize("by", [10, 5])
def test_a_replacement_that_is_oneself_or_known_is_only_a_deletion(by: int) -> None:
    """Reference: SCAMP 2.2.2."""
    holder = member(10, range(5, 6))
    holder.partial[Id(0)] = Arc(peer(0), time=math.inf)
    assert not holder.receive(peer(0), ScampReplace(TOPIC, peer(by)), 0.0)
    assert list(holder.partial) == [5]


def test_a_lease_ends_everywhere_and_the_renewing_node_keeps_its_view() -> None:
    """Reference: SCAMP 3.2; no c copies on resubscription."""
    config = ScampConfig(mode="paper", c=2, lease=100, indirection=False)
    views = member(0, config=config)
    views.receive(peer(9), ScampForward(TOPIC, peer(9), 1, lease=100), 0.0)
    assert not views.expire(99.0)
    (forget,) = views.expire(100.0)
    assert isinstance(forget.message, ScampForget)
    assert not views.partial
    renewing = member(1, range(2, 5), config)
    (request,) = renewing.renew(peer(2), 100.0)
    assert isinstance(request.message, ScampSubscribe)
    assert (request.message.renewal, request.message.copies) == (True, 0)
    contact = member(2, range(5, 8), config)
    answer = contact.receive(peer(1), request.message, 100.0)
    assert not sent(answer, ScampAccepted)
    assert list(renewing.partial) == [2, 3, 4]


def test_heartbeats_make_up_for_a_lost_message() -> None:
    """Whoever is held says so, and who is no member says that. Reference: protocols.md 5.5."""
    views = member(0)
    views.receive(peer(5), ScampBeat(TOPIC), 0.0)
    assert list(views.inward) == [5]
    views.unsubscribe(0.0)
    (answer,) = views.receive(peer(5), ScampBeat(TOPIC), 0.0)
    assert isinstance(answer.message, ScampReplace)


def test_a_silent_holder_is_dropped() -> None:
    """Reference: SCAMP 2.2.3: who hears no heartbeat is isolated."""
    views = member(0)
    views.receive(peer(5), ScampBeat(TOPIC), 0.0)
    views.receive(peer(6), ScampBeat(TOPIC), 10.0)
    assert [one.id for one in views.purge(PAPER.isolated_after)] == [5]
    assert list(views.inward) == [6]


def test_a_subscription_walks_twice_the_view_of_its_first_contact() -> None:
    """Reference: SCAMP 3.1, Algorithm 4."""
    config = ScampConfig(mode="paper", lease=0, indirection=True)
    contact = member(0, range(1, 4), config)
    (step,) = contact.receive(peer(9), subscription(9), 0.0)
    assert isinstance(step.message, ScampSubscribe)
    assert (step.message.walking, step.message.steps) == (True, 2 * 3 - 1)
    last = member(1, range(2, 4), config)
    assert sent(
        last.receive(peer(0), subscription(9, walking=True, steps=0), 0.0), ScampAccepted
    ), "with no steps left, the node is the contact"


def test_weights_are_scaled_and_told() -> None:
    """Reference: SCAMP 3.1, Algorithm 3 with the indices of the formulas."""
    config = ScampConfig(mode="paper", lease=0, indirection=True)
    views = member(0, range(1, 5), config)
    views.receive(peer(7), ScampKept(TOPIC), 0.0)
    views.receive(peer(8), ScampKept(TOPIC), 0.0)
    told = views.weigh()
    assert [arc.weight for arc in views.partial.values()] == [0.25] * 4
    backward = [(s.peer.id, s.message) for s in told if s.message.backward]  # type: ignore[union-attr]
    assert backward == [(7, ScampWeight(TOPIC, 0.5, True)), (8, ScampWeight(TOPIC, 0.5, True))]
    views.receive(peer(2), ScampWeight(TOPIC, 0.75, True), 0.0)
    assert views.partial[Id(2)].weight == 0.75
    views.receive(peer(7), ScampWeight(TOPIC, 0.1), 0.0)
    assert views.inward[Id(7)].weight == 0.1


def test_scaling_makes_the_weights_doubly_stochastic() -> None:
    """Reference: SCAMP 3.1: iterative scaling."""
    world = World(1, ScampConfig(mode="paper", lease=0, indirection=True))
    world.grow(60)
    for _ in range(60):
        for node in world.nodes:
            world.carry(node, node.weigh())
    for node in world.nodes:
        out = sum(arc.weight for arc in node.partial.values())
        into = sum(arc.weight for arc in node.inward.values())
        assert out == pytest.approx(1, abs=0.1)
        assert into == pytest.approx(1, abs=0.1)


def test_views_have_the_logarithm_of_the_group_in_entries() -> None:
    """Five groups of 1,000: their mean lies near H_n - 1 = 6.49. Reference: SCAMP 2.2.1, protocols.md 5.1."""
    means = []
    for seed in range(5):
        world = World(seed, PAPER)
        world.grow(1000)
        means.append(world.sizes().mean())
    assert 5.9 < sum(means) / len(means) < 7.3


Step = st.tuples(
    st.sampled_from(["join", "leave", "renew", "weigh", "beat"]), st.integers(0, 10**6)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(Step, max_size=60), st.integers(0, 2), st.booleans())
def test_views_are_mutual_without_copies_and_never_hold_oneself(
    steps: list[tuple[str, int]], c: int, indirection: bool
) -> None:
    """Whatever members do, once messages have arrived. Reference: SCAMP 2.2.1, protocols.md 5.5."""
    world = World(7, ScampConfig(mode="paper", c=c, lease=50, indirection=indirection))
    world.grow(3)
    for what, number in steps:
        members = world.members
        node = members[number % len(members)]
        if what == "join":
            world.grow(1)
        elif what == "leave" and len(members) > 2:
            world.unsubscribe([node.me.id])
        elif what == "renew" and node.partial:
            world.renew(node.me.id, next(iter(node.partial)))
        elif what == "weigh":
            world.carry(node, node.weigh())
        elif what == "beat":
            world.carry(node, node.beat())
    assert world.not_mutual() == 0
    for views in world.nodes:
        assert views.me.id not in views.partial
        assert views.me.id not in views.inward
        assert views.member or not (views.partial or views.inward)
