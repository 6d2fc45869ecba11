"""The next hop, message movement, and randomised routing."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from overlaymq.config import PastryConfig
from overlaymq.core.pastry import Pastry
from overlaymq.core.pastry.routing import Way, next_hop
from overlaymq.events import Received, Send, SetTimer, TimerFired
from overlaymq.ids import RING, Id, rank, shared_digits
from overlaymq.messages import LookupRequest, Peer, Routed, RoutedAck, RowOffer

from .rings import WatchedRing

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.messages import Message

IDS = st.integers(0, RING - 1).map(Id)


class Quiet:
    """An application that can redirect or stop what passes."""

    def __init__(self) -> None:
        self.delivered: list[Routed] = []
        self.chosen: Peer | str | None = "as it is"

    def forward(
        self, routed: Routed, next_hop: Peer, now: float
    ) -> tuple[Routed, Peer | None, Effects]:
        return routed, next_hop if isinstance(self.chosen, str) else self.chosen, []

    def deliver(self, routed: Routed, now: float) -> Effects:
        self.delivered.append(routed)
        return []

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        return []

    def new_leafs(self, now: float) -> Effects:
        return []

    def peer_died(self, peer: Peer, now: float) -> Effects:
        return []


def node_knowing(me: Id, ids: list[Id], size: int = 4) -> Pastry:
    config = PastryConfig(leaf_set_size=size)
    pastry = Pastry(Peer(me, "me"), config, Random(1), Quiet())
    pastry.state.reach.found_ring()
    for id_ in ids:
        peer = Peer(id_, f"at-{id_:x}")
        pastry.state.add_leaf(peer)
        pastry.state.table.consider(peer, float("inf"))
    pastry.state.active = True
    pastry.state.leaves_changed = False
    return pastry


@given(me=IDS, ids=st.lists(IDS, max_size=30, unique=True), key=IDS, randomize=st.booleans())
def test_every_hop_makes_progress(me: Id, ids: list[Id], key: Id, randomize: bool) -> None:
    ids = [id_ for id_ in ids if id_ != me]
    state = node_knowing(me, ids).state
    way, peer = next_hop(state, key, randomize=randomize)
    assert way is not Way.HOLD
    if way is Way.DELIVER:
        assert all(rank(key, me) <= rank(key, leaf.id) for leaf in state.leaves.members)
    elif way is Way.LEAF:
        assert rank(key, peer.id) < rank(key, me)
    else:
        mine, theirs = shared_digits(me, key, 4), shared_digits(peer.id, key, 4)
        assert theirs > mine or (theirs == mine and rank(key, peer.id) < rank(key, me))


@given(me=IDS, ids=st.lists(IDS, min_size=1, max_size=30, unique=True), key=IDS, data=st.data())
def test_a_suspect_is_never_the_next_hop(
    me: Id, ids: list[Id], key: Id, data: st.DataObject
) -> None:
    ids = [id_ for id_ in ids if id_ != me]
    state = node_knowing(me, ids).state
    suspects = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    for id_ in suspects:
        state.suspects[id_] = Peer(id_, "")
    way, peer = next_hop(state, key)
    assert way is Way.HOLD or peer.id not in suspects


def test_a_key_half_way_belongs_to_the_clockwise_node() -> None:
    assert node_knowing(Id(100), [Id(200)]).owner(Id(150)) == Peer(Id(200), "at-c8")
    low = node_knowing(Id(200), [Id(100)])
    assert low.owner(Id(150)) is low.me


def far_node() -> tuple[Pastry, Id, Peer]:
    """A node whose table has one way to a far key, and leaves that are near itself."""
    me = Id(0x1000 << 112)
    leaves = [Id(me + step) for step in (-2, -1, 1, 2)]
    far = Id(0xA000 << 112)
    return node_knowing(me, [*leaves, far]), Id(0xA111 << 112), Peer(far, f"at-{far:x}")


def sends(effects: Effects) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def test_an_unacknowledged_hop_is_suspected_and_the_message_rerouted() -> None:
    pastry, key, far = far_node()
    other = Peer(Id(0xA0F0 << 112), "other")
    effects = pastry.route(key, LookupRequest(1), 0.0)
    (sent,) = sends(effects)
    assert sent.peer == far
    (timer,) = [effect for effect in effects if isinstance(effect, SetTimer)]
    assert timer.delay == PastryConfig().ack_timeout_first
    pastry.state.neighbourhood.add(other, 0.1)
    effects = pastry.handle(TimerFired(timer.timer), 3.0)
    assert far.id in pastry.state.suspects
    rerouted = [send for send in sends(effects) if isinstance(send.message, Routed)]
    assert [send.peer for send in rerouted] == [other]
    assert pastry.snapshot().counters.rerouted == 1


def test_the_deadline_follows_the_round_trip() -> None:
    pastry, key, far = far_node()
    config = PastryConfig()
    now = 0.0
    for _ in range(50):
        (sent,) = sends(pastry.route(key, LookupRequest(1), now))
        assert isinstance(sent.message, Routed)
        now += 0.2
        pastry.handle(Received(far, RoutedAck(sent.message.serial)), now)
    assert 0.199 + config.ack_timeout_min <= pastry.state.forwarding.deadline(far) < 0.3


def test_an_acknowledgement_from_another_node_counts_for_nothing() -> None:
    pastry, key, _ = far_node()
    (sent,) = sends(pastry.route(key, LookupRequest(1), 0.0))
    assert isinstance(sent.message, Routed)
    pastry.handle(Received(Peer(Id(5), "liar"), RoutedAck(sent.message.serial)), 0.1)
    assert pastry.state.forwarding._pending


def test_the_application_may_stop_or_redirect_what_passes() -> None:
    pastry, key, _ = far_node()
    application = pastry.state.application
    assert isinstance(application, Quiet)
    application.chosen = None
    assert pastry.route(key, LookupRequest(1), 0.0) == []
    application.chosen = Peer(Id(77), "elsewhere")
    (sent,) = sends(pastry.route(key, LookupRequest(1), 0.0))
    assert sent.peer == application.chosen


def test_randomised_routing_takes_other_ways_and_still_arrives() -> None:
    ring = WatchedRing(120)
    start = ring.nodes[ring.ids()[0]]
    key = ring.ids()[60]
    first_hops = set()
    for _ in range(40):
        effects = start.pastry.route(key, LookupRequest(0), ring.simulation.now, randomize=True)
        first_hops.add(sends(effects)[0].peer.id)
    assert len(first_hops) > 3
    requests = [ring.look_up(key, start, randomize=True) for _ in range(40)]
    ring.run(5)
    ring.assert_right(requests)


def test_a_hop_that_gains_no_digit_is_answered_with_the_missing_row_but_not_often() -> None:
    pastry, key, far = far_node()
    previous = Peer(Id(0x2000 << 112), "previous")
    routed = Routed(key, Peer(Id(3), "source"), 1, 1, LookupRequest(1))
    offers = [
        send.message
        for send in sends(pastry.handle(Received(previous, routed), 10.0))
        if isinstance(send.message, RowOffer)
    ]
    assert len(offers) == 1
    assert far in offers[0].row.entries
    again = sends(pastry.handle(Received(previous, routed), 11.0))
    assert not any(isinstance(send.message, RowOffer) for send in again)
    later = sends(pastry.handle(Received(previous, routed), 16.0))
    assert any(isinstance(send.message, RowOffer) for send in later)


def test_held_messages_are_bounded_and_expire_with_a_count() -> None:
    ring = WatchedRing(20, config=PastryConfig(held_messages=5))
    node = ring.join(ring.new_peer(), Peer(Id(1), "silent"))
    for number in range(8):
        ring.look_up(Id(number), node)
    assert node.pastry.snapshot().held == 5
    assert ring.drops["pastry: too many messages held"] == 3
    ring.run(100)
    assert ring.drops["pastry: held too long"] == 5
