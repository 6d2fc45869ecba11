"""Descriptors at the rendezvous node and its replicas, on a tiny ring of sorted ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlaymq import ids
from overlaymq.config import RendezvousConfig
from overlaymq.core.topics import Topics, settings, settled
from overlaymq.events import Dropped, Notify, Route, Send, SetTimer, TopicFailed, TopicKnown
from overlaymq.ids import Id
from overlaymq.messages import Descriptor, Peer, TopicOpen, TopicOpened, TopicReplica

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.events import Event, Timer

CONFIG = RendezvousConfig(replicas=3, answer_tries=3, answer_timeout=2.0, max_topics=100)
TOPIC = ids.topic_id("prices")


def described(name: str = "prices", **changes: str | bool | int) -> Descriptor:
    id_ = ids.topic_id(name)
    plain = Descriptor(id_, name, "", id_, "direct", "best_effort", "patient")
    return msgspec.structs.replace(plain, **changes)


def near(steps: int) -> Peer:
    """A peer that many steps clockwise of the topic; closer ones have fewer."""
    return Peer(Id((TOPIC + steps) % ids.RING), f"node {steps}")


class Ring:
    """Who is alive, as every node sees it."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []

    def owner(self, key: Id) -> Peer | None:
        return next(iter(self.closest(key, 1)), None)

    def closest(self, key: Id, count: int) -> list[Peer]:
        return sorted(self.peers, key=lambda peer: ids.rank(key, peer.id))[:count]


class World:
    """Nodes with nothing but topics; messages arrive in order, or are lost on demand."""

    def __init__(self, *steps: int, config: RendezvousConfig = CONFIG) -> None:
        self.config = config
        self.ring = Ring()
        self.nodes: dict[Id, Topics] = {}
        self.events: dict[Id, list[Event]] = {}
        self.timers: list[tuple[Peer, Timer]] = []
        self.copies = 0
        self.answering = True
        for number in steps:
            self.arrive(number)

    def arrive(self, number: int) -> Topics:
        peer = near(number)
        node = self.nodes[peer.id] = Topics(peer, self.config, self.ring)
        self.events[peer.id] = []
        self.ring.peers.append(peer)
        self.changed()
        return node

    def leave(self, number: int) -> None:
        peer = near(number)
        self.ring.peers.remove(peer)
        del self.nodes[peer.id]
        self.changed()

    def changed(self) -> None:
        for peer in list(self.ring.peers):
            self.perform(peer, self.nodes[peer.id].leafs_changed())

    def node(self, number: int) -> Topics:
        return self.nodes[near(number).id]

    def open(self, number: int, descriptor: Descriptor, request: int = 1) -> list[Event]:
        """What a node learns when it opens a topic."""
        peer = near(number)
        self.events[peer.id].clear()
        self.perform(peer, self.nodes[peer.id].open(request, descriptor))
        return self.events[peer.id]

    def holders(self, topic: Id = TOPIC) -> dict[int, Descriptor]:
        """Who holds the topic, by steps."""
        return {
            (id_ - TOPIC) % ids.RING: held
            for id_, node in self.nodes.items()
            for held in node.held
            if held.id == topic
        }

    def perform(self, at: Peer, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Route(key, TopicOpen() as question):
                    owner = self.ring.owner(key)
                    if self.answering and owner is not None:
                        self.perform(owner, self.nodes[owner.id].asked(question, at))
                case Send(peer, TopicOpened() as answer):
                    self.perform(peer, self.nodes[peer.id].answered(answer))
                case Send(peer, TopicReplica() as copy):
                    self.copies += 1
                    assert self.copies < 10_000, "copies without end"
                    assert peer.id != at.id
                    self.perform(peer, self.nodes[peer.id].replica(copy))
                case Notify(event):
                    self.events[at.id].append(event)
                case SetTimer(timer, delay):
                    assert delay == self.config.answer_timeout
                    self.timers.append((at, timer))
                case _:
                    pytest.fail(f"unexpected {effect}")

    def fire(self) -> None:
        """All timers that are set come back."""
        timers, self.timers = self.timers, []
        for peer, timer in timers:
            if peer.id in self.nodes:
                self.perform(peer, self.nodes[peer.id].fired(timer))


FIFO = described(reliability="fifo")
PLAIN = described()


def test_the_first_descriptor_wins_and_the_second_asker_is_told_which_holds() -> None:
    world = World(1, 5, 10, 50)
    assert world.open(50, FIFO) == [TopicKnown(1, FIFO)]
    assert world.open(10, PLAIN, 2) == [TopicKnown(2, FIFO)]
    assert world.open(10, described(explicit=True), 3) == [TopicKnown(3, FIFO)]


def test_creating_what_was_used_before_with_the_same_settings_makes_it_explicit_everywhere() -> (
    None
):
    world = World(1, 5, 10, 50)
    world.open(50, PLAIN)
    created = described(explicit=True)
    assert world.open(10, created) == [TopicKnown(1, created)]
    assert set(world.holders().values()) == {created}
    assert world.open(50, PLAIN, 2) == [TopicKnown(2, created)], "using it does not undo that"


def test_a_descriptor_lives_on_the_k_closest() -> None:
    world = World(1, 5, 10, 50, 60)
    world.open(60, PLAIN)
    assert sorted(world.holders()) == [1, 5, 10]


def test_a_root_has_five_copies_unless_told_otherwise() -> None:
    """Reference: Scribe JSAC III-B, k = 5 (PA-8)."""
    world = World(1, 5, 10, 20, 30, 50, 60, config=RendezvousConfig())
    world.open(60, PLAIN)
    assert sorted(world.holders()) == [1, 5, 10, 20, 30]


def test_nothing_is_copied_again_while_nothing_changes() -> None:
    world = World(1, 5, 10, 50)
    world.open(50, PLAIN)
    before = world.copies
    world.open(50, PLAIN)
    world.changed()
    assert world.copies == before


def test_a_closer_node_gets_the_descriptor_and_the_farthest_forgets_it() -> None:
    world = World(5, 10, 20, 50)
    world.open(50, FIFO)
    world.arrive(2)
    assert sorted(world.holders()) == [2, 5, 10]
    assert world.open(20, PLAIN) == [TopicKnown(1, FIFO)]


def test_a_failed_root_is_survived_and_the_number_of_copies_restored() -> None:
    world = World(1, 5, 10, 50, 60)
    world.open(60, FIFO)
    for failed in (1, 5):
        world.leave(failed)
        assert len(world.holders()) == 3
        assert world.open(60, PLAIN) == [TopicKnown(1, FIFO)]


def test_a_root_that_restarts_unnoticed_is_corrected_by_its_replicas() -> None:
    world = World(1, 5, 10, 50)
    created = described(explicit=True, reliability="fifo")
    world.open(50, created)
    world.nodes[near(1).id] = Topics(near(1), CONFIG, world.ring)
    world.open(50, PLAIN)
    assert set(world.holders().values()) == {created}
    assert sorted(world.holders()) == [1, 5, 10]


@given(st.data())
def test_whatever_comes_and_goes_the_k_closest_agree(data: st.DataObject) -> None:
    world = World(100)
    absent, present = list(range(1, 12)), [100]
    opened = None
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["arrive", "leave", "open"]))
        if action == "arrive" and absent:
            number = data.draw(st.sampled_from(absent))
            absent.remove(number)
            present.append(number)
            world.arrive(number)
        elif action == "leave" and len(present) > 2:
            number = data.draw(st.sampled_from(present[1:]))
            present.remove(number)
            absent.append(number)
            world.leave(number)
        else:
            settings_ = data.draw(st.sampled_from([PLAIN, FIFO]))
            (event,) = world.open(100, settings_)
            assert isinstance(event, TopicKnown)
            opened = opened or event.descriptor
            assert event.descriptor == opened, "the first descriptor holds for ever"
        if opened is not None:
            closest = world.ring.closest(TOPIC, CONFIG.replicas)
            assert sorted(world.holders()) == sorted((p.id - TOPIC) % ids.RING for p in closest)
            assert set(world.holders().values()) == {opened}


some_descriptors = st.builds(
    described,
    strategy=st.sampled_from(["direct", "scribe"]),
    reliability=st.sampled_from(["best_effort", "fifo"]),
    flow=st.sampled_from(["lossy", "patient", "lossless"]),
    explicit=st.booleans(),
    epoch=st.integers(0, 2),
)


@given(some_descriptors, some_descriptors, some_descriptors)
def test_the_merge_rule_does_not_depend_on_order(
    a: Descriptor, b: Descriptor, c: Descriptor
) -> None:
    assert settled(a, b) == settled(b, a)
    assert settled(settled(a, b), c) == settled(a, settled(b, c))
    assert settled(a, a) == settled(None, a) == a
    assert settled(a, b) in (a, b)


@given(some_descriptors, some_descriptors)
def test_explicit_beats_implicit(a: Descriptor, b: Descriptor) -> None:
    assert settled(a, b).explicit == (a.explicit or b.explicit)


@given(some_descriptors, some_descriptors)
def test_rings_that_merge_agree_on_one_descriptor(a: Descriptor, b: Descriptor) -> None:
    one, other = World(1, 5, 10), World(2, 6, 11)
    one.open(1, a)
    other.open(2, b)
    for peer in other.ring.peers:
        one.ring.peers.append(peer)
    for id_, node in other.nodes.items():
        node._ring = one.ring
        one.nodes[id_] = node
        one.events[id_] = []
    one.changed()
    assert set(one.holders().values()) == {settled(a, b)}
    assert sorted(one.holders()) == [1, 2, 5]


# --- questions ---


def test_a_question_is_asked_again_and_then_given_up() -> None:
    world = World(1)
    world.answering = False
    assert world.open(1, PLAIN) == []
    for _ in range(CONFIG.answer_tries - 1):
        world.fire()
        assert world.events[near(1).id] == []
    world.fire()
    (event,) = world.events[near(1).id]
    assert isinstance(event, TopicFailed)
    assert "3 tries" in event.reason
    world.fire()
    assert len(world.events[near(1).id]) == 1


def test_a_late_answer_is_taken_and_its_timer_does_nothing() -> None:
    world = World(1, 50)
    world.answering = False
    world.open(50, PLAIN)
    world.answering = True
    world.fire()
    world.fire()
    assert world.events[near(50).id] == [TopicKnown(1, PLAIN)]
    effects = world.node(50).answered(TopicOpened(1, PLAIN))
    assert effects == [], "a second answer finds no question"


@pytest.mark.parametrize("wrong", [described("other"), described(name="lie")])
def test_an_answer_about_another_topic_does_not_end_the_question(wrong: Descriptor) -> None:
    world = World(1)
    world.answering = False
    world.open(1, PLAIN)
    assert world.node(1).answered(TopicOpened(1, wrong)) == [
        Notify(Dropped("answer about another topic"))
    ]
    world.answering = True
    world.fire()
    assert world.events[near(1).id] == [TopicKnown(1, PLAIN)]


# --- what peers may not do ---


@pytest.mark.parametrize(
    "bad",
    [
        msgspec.structs.replace(PLAIN, id=Id(5)),
        msgspec.structs.replace(PLAIN, creator="someone else"),
        described("x" * 100_000),
        described(strategy="x" * 100_000),
    ],
)
def test_a_descriptor_that_does_not_fit_its_id_is_refused(bad: Descriptor) -> None:
    node = World(1).node(1)
    assert [type(effect) for effect in node.asked(TopicOpen(1, bad), near(1))] == [Notify]
    assert [type(effect) for effect in node.replica(TopicReplica(bad))] == [Notify]
    assert node.held == ()


def test_a_node_keeps_only_so_many_topics_and_says_so() -> None:
    world = World(1, config=RendezvousConfig(max_topics=2))
    for name in ("a", "b"):
        assert isinstance(world.open(1, described(name))[0], TopicKnown)
    (event,) = world.open(1, described("c"))
    assert isinstance(event, TopicFailed)
    assert "2 topics already" in event.reason
    assert isinstance(world.open(1, described("a"))[0], TopicKnown), "what it has, it answers"
    effects = world.node(1).replica(TopicReplica(described("c")))
    assert effects == [Notify(Dropped("too many topics"))]
    assert len(world.node(1).held) == 2


def test_settings_are_what_two_creators_must_agree_on() -> None:
    assert settings(PLAIN) == settings(described(explicit=True, epoch=3))
    for change in ({"strategy": "x"}, {"reliability": "fifo"}, {"flow": "lossy"}, {"key": 1}):
        assert settings(described(**change)) != settings(PLAIN)
