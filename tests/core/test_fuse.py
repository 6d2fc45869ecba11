"""Failure groups in small simulated rings: what is promised, one claim at a time.

Groups are made over whole nodes (tests/core/network.py); the bound is the one that the package states."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from overlaymq.config import Config, FuseConfig, PastryConfig
from overlaymq.core.fuse.bounds import notification_bound
from overlaymq.events import (
    CreateGroup,
    Dropped,
    GroupCreated,
    GroupFailed,
    Join,
    Leave,
    Received,
    Send,
    SignalGroup,
    Timer,
    TimerFired,
)
from overlaymq.ids import BITS, Id
from overlaymq.messages import FuseBroken, FuseFailed, FuseInstall, FuseSoft, Peer, Routed
from overlaymq.runtime.record import Snapshot, dump, load_snapshot
from overlaymq.sim.faults import Faults
from tests.core.network import Network

if TYPE_CHECKING:
    from overlaymq.core.node import Node
    from overlaymq.messages import Message
    from overlaymq.sim.engine import Host

CONFIG = Config(
    pastry=PastryConfig(heartbeat_every=2.0, lease=4.0, leaf_set_size=8),
    fuse=FuseConfig(
        ping_every=2.0,
        edge_timeout=5.0,
        retry_every=0.5,
        answer_timeout=3.0,
        grace=2.0,
        backoff_max=2.0,
        max_hops=4,
    ),
)
BOUND = notification_bound(CONFIG.fuse, delay=0.3)


class Groups(Network):
    """A ring with failure groups."""

    def __init__(self, seed: int = 1, size: int = 32, config: Config = CONFIG) -> None:
        self.faults = Faults()
        super().__init__(seed, size, config, self.faults, timers=True)

    def make(self, root: Node, *members: Node) -> Id:
        group = Id(self.random.getrandbits(BITS))
        self.simulation.start(root.me, CreateGroup(group, tuple(node.me for node in members)))
        return group

    def signal(self, node: Node, group: Id) -> None:
        self.simulation.start(node.me, SignalGroup(group))

    def failed(self, group: Id) -> Counter[Id]:
        """How often who was notified."""
        return Counter(id_ for id_, event in self.events if event == GroupFailed(group))

    def created(self, group: Id) -> list[Id]:
        return [id_ for id_, event in self.events if event == GroupCreated(group)]

    def drops(self) -> Counter[str]:
        return Counter(event.reason for _, event in self.events if isinstance(event, Dropped))

    def restart(self, node: Node) -> Node:
        """The same node with another incarnation, which knows no groups."""
        old = node.me
        again = Peer(old.id, old.address, old.incarnation + 1)
        seed = next(one.me for one in self.nodes.values() if one.me.id != old.id)
        self.crash(node)
        new = self.add(again)
        self.simulation.start(again, Join((seed,)))
        return new

    def isolate(self, nodes: list[Node], others: list[Node]) -> None:
        """Nothing passes between them, either way; everybody else reaches both."""
        here = [node.me.address for node in nodes]
        there = [node.me.address for node in others]
        self.faults.cut(here, there)
        self.faults.cut(there, here)

    def left(self) -> list[str]:
        """Tables that are not empty."""
        return [
            f"{node.me.address}: {snapshot}"
            for node in self.nodes.values()
            if (snapshot := node.fuse.snapshot()) != type(snapshot)(0, 0, 0, 0, 0, 0)
        ]


def once(*nodes: Node) -> Counter[Id]:
    return Counter(node.me.id for node in nodes)


def test_a_group_is_created_when_all_have_answered() -> None:
    """Reference: protocols.md 4.4, CreateGroup blocks until all members were reached."""
    ring = Groups()
    members = ring.sample(5)
    group = ring.make(*members)
    assert ring.created(group) == []
    ring.run(1.0)
    assert ring.created(group) == [members[0].me.id]
    assert all(node.fuse.has(group) for node in members)
    assert not ring.failed(group)


def test_a_group_over_a_dead_node_fails_at_all_that_learned_of_it() -> None:
    """Reference: protocols.md 4.4, else all who learned of it are notified."""
    ring = Groups()
    root, dead, *others = ring.sample(4)
    ring.crash(dead)
    group = ring.make(root, dead, *others)
    ring.run(CONFIG.fuse.answer_timeout + 1.0)
    assert ring.created(group) == []
    assert ring.failed(group) == once(root, *others)


def test_a_group_of_one_is_created_at_once() -> None:
    """Reference: protocols.md 4.4; nobody is missing."""
    ring = Groups()
    (node,) = ring.sample(1)
    group = ring.make(node, node)
    assert ring.created(group) == [node.me.id]
    ring.signal(node, group)
    assert ring.failed(group) == once(node)


@pytest.mark.parametrize("who", [0, 3])
def test_a_signal_reaches_every_member_once(who: int) -> None:
    """Within about a round trip, from the root or from a member. Reference: protocols.md 4.6, sub-second."""
    ring = Groups()
    members = ring.sample(6)
    group = ring.make(*members)
    ring.run(5.0)
    ring.signal(members[who], group)
    ring.run(1.0)
    assert ring.failed(group) == once(*members)
    ring.run(BOUND)
    assert ring.failed(group) == once(*members)


@pytest.mark.parametrize("who", [0, 3])
def test_a_crash_is_told_within_the_bound(who: int) -> None:
    """Reference: protocols.md 4.4, every live member hears exactly one notification."""
    ring = Groups()
    members = ring.sample(6)
    group = ring.make(*members)
    ring.run(5.0)
    victim = members.pop(who)
    ring.crash(victim)
    ring.run(BOUND)
    assert ring.failed(group) == once(*members)
    assert ring.left() == []


@pytest.mark.parametrize("who", [0, 3])
def test_a_restarted_member_fails_the_group(who: int) -> None:
    """It knows no groups, and says so. Reference: protocols.md 4.4, crash recovery."""
    ring = Groups()
    members = ring.sample(6)
    group = ring.make(*members)
    ring.run(5.0)
    ring.restart(members.pop(who))
    ring.run(BOUND)
    assert ring.failed(group) == once(*members)


def test_a_delegate_that_crashes_is_no_failure() -> None:
    """Its tree is repaired. Reference: protocols.md 4.5, delegate failures cause no false positives."""
    ring = Groups(size=48)
    members = ring.sample(6)
    group = ring.make(*members)
    ring.run(5.0)
    crashed = 0
    for node in list(ring.nodes.values()):
        if node not in members and node.fuse.snapshot().trees:
            ring.crash(node)
            crashed += 1
            ring.run(15.0)
    assert crashed
    assert not ring.failed(group)
    assert all(node.fuse.has(group) and not node.fuse.unwatched() for node in members)


def test_a_root_that_nobody_reaches_is_told_on_both_sides() -> None:
    """Notices are lost; silence tells. Reference: protocols.md 4.4, regardless of communication failures."""
    ring = Groups()
    root, *members = ring.sample(6)
    group = ring.make(root, *members)
    ring.run(5.0)
    ring.isolate([root], [node for node in ring.nodes.values() if node is not root])
    ring.signal(root, group)
    ring.run(BOUND)
    assert ring.failed(group) == once(root, *members)


def test_members_that_do_not_reach_their_root_are_told_although_others_do() -> None:
    """The network is not transitive: delegates reach both, so only the group's tree can carry the news.
    Reference: protocols.md 4.4, intransitive connectivity."""
    ring = Groups()
    root, *members = ring.sample(6)
    group = ring.make(root, *members)
    ring.run(5.0)
    ring.isolate([root], members)
    ring.signal(members[0], group)
    ring.run(BOUND)
    assert ring.failed(group) == once(root, *members)


def test_a_member_that_is_not_heard_any_more_fails_the_group() -> None:
    """It hears everybody. Reference: protocols.md 4.4, whatever the pattern of failures; a one-way cut."""
    ring = Groups()
    members = ring.sample(5)
    group = ring.make(*members)
    ring.run(5.0)
    silent = members[2]
    ring.faults.cut([silent.me.address], [node.me.address for node in ring.nodes.values()])
    ring.run(BOUND)
    assert ring.failed(group) == once(*members)


def test_a_node_that_leaves_fails_its_groups() -> None:
    """Reference: protocols.md 4.3, a node leaving calls SignalFailure on all its groups."""
    ring = Groups()
    members = ring.sample(5)
    group = ring.make(*members)
    ring.run(5.0)
    ring.simulation.start(members[2].me, Leave())
    ring.run(1.0)
    assert ring.failed(group) == once(*members)


def test_nothing_is_left_of_groups_that_are_over() -> None:
    """Also not at delegates. Reference: issue 5, tables must not grow with dead groups."""
    ring = Groups()
    groups = []
    for _ in range(40):
        members = ring.sample(4)
        groups.append((members[1], ring.make(*members)))
    ring.run(5.0)
    assert ring.left()
    for member, group in groups:
        ring.signal(member, group)
    ring.run(2 * CONFIG.fuse.edge_timeout + 2 * CONFIG.fuse.answer_timeout)
    assert ring.left() == []


def test_ring_neighbours_send_no_pings() -> None:
    """Their heartbeats carry the digest. Reference: protocols.md 4.5, pings of the overlay carry it."""
    ring = Groups()
    first = next(iter(ring.nodes.values()))
    beside = [ring.nodes[id_] for id_ in sorted(first.pastry.ring_neighbours)]
    group = ring.make(first, *beside)
    ring.run(10.0)
    kinds: Counter[str] = Counter()

    def count(now: float, host: Host, peer: Peer, message: Message, fate: str) -> None:
        kinds[type(message).__name__] += 1

    ring.simulation.on_send = count
    ring.run(30.0)
    assert kinds["Heartbeat"]
    assert not [name for name in kinds if name.startswith("Fuse")]
    ring.crash(beside[0])
    ring.run(BOUND)
    assert ring.failed(group) == once(first, beside[1])


def test_a_way_has_at_most_so_many_edges() -> None:
    """Longer routes are cut short, or the bound would not hold. Reference: the package's text, D."""
    fuse = FuseConfig(ping_every=2.0, edge_timeout=5.0, retry_every=0.5, grace=2.0, max_hops=1)
    ring = Groups(size=64, config=Config(pastry=CONFIG.pastry, fuse=fuse))
    root, *members = ring.sample(8)
    group = ring.make(root, *members)
    ring.run(10.0)
    assert not ring.failed(group)
    watching = [node for node in ring.nodes.values() if node.fuse.snapshot().trees]
    assert {node.me.id for node in watching} == {root.me.id, *(one.me.id for one in members)}


def test_too_many_members_are_refused_and_counted() -> None:
    """Reference: house rule, bounds on everything that a peer can make grow."""
    fuse = FuseConfig(max_members=3)
    ring = Groups(config=Config(pastry=CONFIG.pastry, fuse=fuse))
    root, *members = ring.sample(4)
    group = ring.make(root, *members)
    assert ring.failed(group) == once(root)
    assert ring.drops()["fuse: too many members"] == 1


def test_one_peer_cannot_fill_the_table() -> None:
    """Reference: house rule, bounds on everything that a peer can make grow."""
    fuse = FuseConfig(groups_per_peer=3)
    ring = Groups(config=Config(pastry=CONFIG.pastry, fuse=fuse))
    root, member = ring.sample(2)
    groups = [ring.make(root, member) for _ in range(5)]
    ring.run(1.0)
    assert [group for group in groups if ring.created(group)] == groups[:3]
    assert [group for group in groups if ring.failed(group)] == groups[3:]


def test_a_stranger_cannot_fail_a_group() -> None:
    """Only the root and the members can. Reference: messages, the link proves who speaks."""
    ring = Groups()
    *members, stranger = ring.sample(5)
    group = ring.make(*members)
    ring.run(5.0)
    for node in members:
        for message in (FuseFailed(group), FuseSoft(group, 0), FuseBroken(group, 0)):
            ring.simulation.perform(
                ring.simulation.hosts[stranger.me.address], [Send(node.me, message)]
            )
    ring.run(20.0)
    assert not ring.failed(group)
    assert ring.drops()["fuse: failure told by a stranger"] == len(members)


def test_a_way_is_believed_only_if_it_comes_from_the_hop_that_it_names() -> None:
    """Nobody is made to watch an edge to a third node. Reference: messages, the link proves who speaks."""
    ring = Groups()
    root, delegate, liar, third = ring.sample(4)
    for via, edges in ((third, 0), (liar, 2)):
        install = FuseInstall(Id(7), 0, root.me, liar.me.id, via.me)
        handed = Received(liar.me, Routed(root.me.id, liar.me, 1, 1, install, False, edges + 1))
        ring.simulation.start(delegate.me, handed)
        assert ring.drops()["fuse: a way by somebody else"] == 1
        assert delegate.fuse.snapshot().edges == edges


def test_a_recorded_node_goes_on_with_its_groups() -> None:
    """What comes out of a snapshot answers as the node would have. Reference: docs/flight-recorder.md."""
    ring = Groups()
    for _ in range(10):
        ring.make(*ring.sample(4))
    ring.run(5.0)
    node = max(ring.nodes.values(), key=lambda one: one.fuse.snapshot().trees)
    copy = load_snapshot(dump(Snapshot((), node), payloads=True)).core
    assert copy.fuse.snapshot() == node.fuse.snapshot()
    tick = TimerFired(Timer("fuse"))
    for later in range(1, 30):
        now = ring.simulation.now + later * CONFIG.fuse.retry_every
        assert copy.handle(tick, now) == node.handle(tick, now)
