"""What malformed or lying messages do: they are dropped, counted, and change nothing."""

from __future__ import annotations

import collections

import pytest

from overlaymq import messages as m
from overlaymq.config import PastryConfig
from overlaymq.core.pastry.liveness import PROBES_KEPT
from overlaymq.events import Dropped, Notify, PeerFailed, Received
from overlaymq.ids import Id
from overlaymq.messages import Peer, Row

from .rings import WatchedRing

STRANGER = Peer(Id(1 << 127), "stranger")
MANY = tuple(Peer(Id(n), "x") for n in range(1, 1000))

BAD = [
    m.Announce((Row(31, MANY[:2]),)),
    m.Announce((Row(-1, MANY[:2]),)),
    m.Announce((Row(0, MANY),)),
    m.Announce(tuple(Row(0) for _ in range(100))),
    m.RowOffer(Row(40, ()), reply=True),
    m.LeafProbe(MANY),
    m.LeafProbe((), tuple(peer.id for peer in MANY)),
    m.LeafProbeReply(MANY),
    m.Departing(MANY),
    m.SlotRequest(99, 0),
    m.SlotRequest(0, -1),
    m.SlotReply(0, 1, MANY[0]),
    m.StateRequest(1, (77,)),
    m.StateRequest(1, tuple(range(1000))),
    m.StateReply(12345, 99, (Row(0, MANY),)),
    m.Distance(-1.0),
    m.Distance(float("nan")),
    m.Routed(Id(5), STRANGER, 1, 1000, m.LookupRequest(1)),
    m.Routed(Id(5), STRANGER, 1, -5, m.LookupRequest(1)),
    m.JoinRequest(STRANGER),
]


@pytest.mark.parametrize("message", BAD, ids=lambda message: type(message).__name__)
def test_bad_content_is_dropped_and_counted(message: m.Message) -> None:
    ring = WatchedRing(20)
    node = ring.nodes[ring.ids()[0]]
    before = len(node.pastry.state.table)
    effects = node.pastry.handle(Received(STRANGER, message), ring.simulation.now)
    drops = [e.event for e in effects if isinstance(e, Notify) and isinstance(e.event, Dropped)]
    assert drops
    assert len(node.pastry.state.table) <= before + 1
    assert len(effects) < 10


def test_unasked_replies_are_ignored() -> None:
    ring = WatchedRing(20)
    node = ring.nodes[ring.ids()[0]]
    now = ring.simulation.now
    assert node.pastry.handle(Received(STRANGER, m.JoinReply((Row(0, MANY),), MANY)), now) == []
    assert node.pastry.handle(Received(STRANGER, m.RoutedAck(1)), now) == []
    assert node.pastry.handle(Received(STRANGER, m.JoinRefused("no", fatal=True)), now) == []
    assert node.pastry.active


def test_a_peer_with_my_own_id_is_not_believed() -> None:
    ring = WatchedRing(20)
    node = ring.nodes[ring.ids()[0]]
    me = node.pastry.me
    leaves = node.pastry.leaves()
    effects = node.pastry.handle(
        Received(Peer(me.id, "elsewhere", 9), m.Departing()), ring.simulation.now
    )
    assert [type(effect) for effect in effects] == [Notify]
    assert node.pastry.leaves() == leaves


def test_hearsay_alone_enters_no_table() -> None:
    ring = WatchedRing(20)
    node = ring.nodes[ring.ids()[0]]
    ghosts = tuple(Peer(Id(node.pastry.me.id + n), f"ghost-{n}") for n in range(1, 17))
    probe = m.LeafProbe(ghosts)
    ring.simulation.start(node.pastry.me, Received(ring.peers()[1], probe))
    for ghost in ghosts:
        assert node.pastry.state.known(ghost.id) is None
    ring.run(10)
    ring.assert_exact()


def test_a_rumour_of_death_is_verified() -> None:
    ring = WatchedRing(20)
    node = ring.nodes[ring.ids()[0]]
    alive = tuple(leaf.id for leaf in node.pastry.leaves())[1:]
    rumour = m.LeafProbe((), alive)
    ring.simulation.start(node.pastry.me, Received(node.pastry.leaves()[0], rumour))
    assert set(alive) <= node.pastry.kept
    ring.run(10)
    ring.assert_exact()
    assert node.pastry.snapshot().counters.failures == 0


def test_an_earlier_incarnation_is_not_heard() -> None:
    ring = WatchedRing(5)
    node = ring.nodes[ring.ids()[0]]
    other = ring.peers()[1]
    now = ring.simulation.now
    node.pastry.handle(Received(Peer(other.id, other.address, 3), m.LeafProbe()), now)
    assert node.pastry.state.leaves.get(other.id) == Peer(other.id, other.address, 3)
    node.pastry.handle(Received(other, m.Departing()), now)
    assert node.pastry.state.leaves.get(other.id) == Peer(other.id, other.address, 3)


SMALL = PastryConfig(held_messages=100, recent_messages=50)


def test_every_table_stays_bounded() -> None:
    """Whatever strangers send, and however long nobody answers."""
    ring = WatchedRing(5, config=SMALL)
    node = ring.nodes[ring.ids()[0]]
    now = ring.simulation.now
    drops: collections.Counter[str] = collections.Counter()
    for n in range(2000):
        peer = Peer(Id(ring.random.getrandbits(128)), f"flood-{n}")
        other = Peer(Id(ring.random.getrandbits(128)), f"other-{n}")
        for message in (
            m.Announce((Row(0, (other,)),)),
            m.Distance(0.01),
            m.LeafProbe((other,), active=n % 2 == 0),
            m.LeafProbeReply((other,), active=False),
            m.RowOffer(Row(0, (other,))),
            m.StateRequest(n),
            m.Routed(other.id, peer, n, 0, m.LookupRequest(n), origin_serial=n + 1),
            m.Routed(peer.id, peer, n, 0, m.JoinRequest(other)),
            m.Routed(peer.id, peer, n, 0, m.JoinRequest(Peer(node.pastry.leaves()[0].id, "x"))),
        ):
            effects = node.pastry.handle(Received(peer, message), now)
            for effect in effects:
                if isinstance(effect, Notify) and isinstance(effect.event, Dropped):
                    drops[effect.event.reason] += effect.event.messages
        if n % 3 == 0:
            node.pastry.handle(PeerFailed(peer, "gone"), now)
        if n % 5 == 0:
            node.pastry.handle(Received(peer, m.Departing((other,))), now)
    state = node.pastry.state
    assert len(state.leaves) <= 16
    assert len(state.neighbourhood) <= 32
    assert len(state.table) <= 32 * 15
    assert len(state.arrivals) <= 16
    assert len(state.failed) <= 64
    assert len(state.measuring) <= 512
    assert len(state.asked) <= 256
    assert len(state.hops) <= 64
    liveness, forwarding = state.liveness, state.forwarding
    everyone = len(list(state.everyone()))
    assert len(liveness._probing) <= 1024 + everyone
    assert set(state.suspects) <= set(liveness._probing)
    assert len(liveness._spares) <= 256
    assert len(liveness._told) <= 256
    assert len(forwarding._pending) <= 100
    assert len(forwarding._held) <= 100
    assert len(forwarding._accepted) <= 50
    assert len(forwarding._delivered) <= 50
    assert len(forwarding._round_trips) <= 256
    assert len(forwarding._distances) <= 256
    assert len(state.repair._repairs) <= 64
    assert len(state.repair._patched) <= 64
    assert len(state.admission._duels) <= 64
    assert len(state.maintenance._lost) <= 20
    for what in ("measurements", "messages unacknowledged"):
        assert drops[f"pastry: too many {what}"], what
    assert node.pastry.snapshot().counters.dropped >= sum(drops.values())


def test_a_suspicion_without_room_for_a_probe_is_none() -> None:
    """It would last for ever: only the end of a probe ends it."""
    ring = WatchedRing(20)
    state = ring.nodes[ring.ids()[0]].pastry.state
    for n in range(PROBES_KEPT):
        state.liveness.probe(Peer(Id(ring.random.getrandbits(128)), f"ghost-{n}"))
    state.liveness.suspect(STRANGER)
    assert not state.suspects
    assert state.counters.dropped == 1
    leaf = state.leaves.ring[0]
    state.liveness.suspect(leaf)
    assert state.suspects == {leaf.id: leaf}, "who is in the tables can always be verified"
