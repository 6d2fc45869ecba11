"""Byte credits, against a twin that only keeps lists.

The state machine runs one sender and two receivers over links that a test can hold up, break and make
lie. The twin never looks into the accounts: it knows what was offered, what came out, and which
transits are still held.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from overlaymq.core import flow as flow_module
from overlaymq.core.flow import MAX_PATIENCE, Flow, Transit
from overlaymq.ids import Id
from overlaymq.messages import Batch, Credit, Peer, Skipped, Window

if TYPE_CHECKING:
    import pytest

    from overlaymq.core.flow import Sendable

WINDOW = 1000
PATIENCE = 1.0
SENDER = Peer(Id(1), "sender")
PEERS = [Peer(Id(10), "a"), Peer(Id(11), "b")]
TOPICS = [Id(100), Id(101)]
MODES = ["lossy", "patient", "lossless"]


def a_batch(topic: Id, first: int = 0, count: int = 1, size: int = 100, **header: Any) -> Batch:
    return Batch(topic, Id(5), 1, first, count, bytes(size - 64), **header)


class Line:
    """What the twin knows of one (peer, topic) since the link was last dropped."""

    def __init__(self) -> None:
        self.offered: list[Batch] = []
        self.sent: list[Batch] = []
        self.announced: Counter[int] = Counter()  # messages skipped ahead of a sent batch
        self.announcing = 0  # messages skipped since the last batch, as far as the peer was told
        self.unacknowledged = 0
        self.acknowledged = 0


class CreditMachine(RuleBasedStateMachine):
    @initialize(modes=st.tuples(*[st.sampled_from(MODES)] * len(TOPICS)))
    def start(self, modes: tuple[str, ...]) -> None:
        self.linkless: set[Id] = set()  # peers whose link broke and is not there again
        self.now = 0.1
        self.modes = dict(zip(TOPICS, modes, strict=True))
        self.sender = Flow(WINDOW, PATIENCE)
        self.receivers = {peer.id: Flow(WINDOW, PATIENCE) for peer in PEERS}
        self.lines = {(peer.id, topic): Line() for peer in PEERS for topic in TOPICS}
        self.wire: dict[Id, deque[Sendable]] = {peer.id: deque() for peer in PEERS}
        self.held: dict[Id, list[Transit]] = {peer.id: [] for peer in PEERS}
        self.credits: dict[Id, deque[Credit]] = {peer.id: deque() for peer in PEERS}
        self.transits: list[tuple[Transit, Batch]] = []
        self.waited: set[int] = set()
        self.released: list[int] = []
        self.skipped = 0
        self.next = 0

    # --- what the world does ---

    @rule(
        topic=st.sampled_from(TOPICS),
        count=st.integers(1, 5),
        size=st.integers(64, 3 * WINDOW // 2),
        peers=st.sampled_from([PEERS, PEERS[:1], PEERS[1:]]),
    )
    def publish(self, topic: Id, count: int, size: int, peers: list[Peer]) -> None:
        batch = a_batch(topic, self.next, count, size)
        self.next += count
        transit = Transit(None, topic, batch.size)
        self.transits.append((transit, batch))
        for peer in peers:
            self.lines[peer.id, topic].offered.append(batch)
            self.put(peer, self.sender.offer(peer, batch, self.modes[topic], transit, self.now))
        if transit.pending:
            self.waited.add(id(transit))

    def put(self, peer: Peer, ready: list[Sendable]) -> None:
        for one in ready:
            self.wire[peer.id].append(one)
            line = self.lines[peer.id, one.topic]
            if isinstance(one, Skipped):
                assert self.modes[one.topic] != "lossless"
                line.announcing += one.messages
                continue
            assert line.unacknowledged < WINDOW, "more than a window and one batch on the way"
            line.unacknowledged += one.size
            line.sent.append(one)
            line.announced[one.first] = line.announcing
            line.announcing = 0

    @rule(peer=st.sampled_from(PEERS))
    def arrive(self, peer: Peer) -> None:
        if not self.wire[peer.id] or peer.id in self.linkless:
            return
        one = self.wire[peer.id].popleft()
        if isinstance(one, Batch):
            transit = self.receivers[peer.id].received(SENDER, one)
            assert transit is not None, "an honest sender is never refused"
            self.held[peer.id].append(transit)

    @rule(peer=st.sampled_from(PEERS), which=st.integers(0, 100))
    def consume(self, peer: Peer, which: int) -> None:
        if not self.held[peer.id]:
            return
        transit = self.held[peer.id].pop(which % len(self.held[peer.id]))
        credit = self.receivers[peer.id].consumed(transit)
        if credit is not None:
            self.credits[peer.id].append(credit)
        assert self.receivers[peer.id].consumed(transit) is None, "credit is paid once"

    @rule(peer=st.sampled_from(PEERS))
    def credit(self, peer: Peer) -> None:
        if not self.credits[peer.id]:
            return
        credit = self.credits[peer.id].popleft()
        line = self.lines[peer.id, credit.topic]
        line.unacknowledged -= credit.total - line.acknowledged
        line.acknowledged = credit.total
        assert line.unacknowledged >= 0, "credit for more than was sent"
        self.put(peer, self.sender.credited(peer, credit.topic, credit.total, self.now))
        if not self.sender.waits(credit.topic, [peer]):
            told = sum(line.announced.values()) + line.announcing
            assert told == self.missing(line), "who has credit again knows all that it missed"

    @rule(peer=st.sampled_from(PEERS), topic=st.sampled_from(TOPICS), by=st.integers(1, 5000))
    def lie(self, peer: Peer, topic: Id, by: int) -> None:
        line = self.lines[peer.id, topic]
        sent = line.acknowledged + line.unacknowledged
        assert self.sender.credited(peer, topic, sent + by, self.now) == []
        assert self.sender.credited(peer, topic, line.acknowledged - by, self.now) == []

    @rule(seconds=st.floats(0.01, 1.5))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.sender.expire(self.now)
        deadline = self.sender.deadline()
        assert deadline is None or deadline > self.now, "what is due was given up"

    @rule()
    def wait_for_the_deadline(self) -> None:
        deadline = self.sender.deadline()
        if deadline is not None:
            self.now = max(self.now, deadline)
            self.sender.expire(self.now)
            again = self.sender.deadline()
            assert again is None or again > self.now, "expire at its deadline makes progress"

    @rule(peer=st.sampled_from(PEERS))
    def reopen(self, peer: Peer) -> None:
        """A new link opens where there was none: what was sent while it was dialled goes on it."""
        if peer.id in self.linkless:
            self.linkless.discard(peer.id)
            self.receivers[peer.id].reset(SENDER, self.now)
            self.put(peer, self.sender.reset(peer, self.now))

    @rule(peer=st.sampled_from(PEERS))
    def drop(self, peer: Peer) -> None:
        """The link breaks: what was on it or waited for it is lost."""
        self.linkless.add(peer.id)
        self.wire[peer.id].clear()
        self.credits[peer.id].clear()
        waiting = self.sender.skipped
        lost = self.sender.drop(peer)
        assert self.sender.skipped == waiting, "a broken link is not a slow child"
        lines = [self.lines[peer.id, topic] for topic in TOPICS]
        self.skipped += sum(self.missing(line) for line in lines) - lost
        for topic in TOPICS:
            self.lines[peer.id, topic] = Line()
        self.receivers[peer.id].drop(SENDER)
        # What waited for other peers still waits.
        assert not self.sender.waits(TOPICS[0], [peer])

    # --- what always holds ---

    @staticmethod
    def missing(line: Line) -> int:
        return sum(b.count for b in line.offered) - sum(b.count for b in line.sent)

    @invariant()
    def every_message_is_sent_or_waits_or_was_counted(self) -> None:
        missing = sum(self.missing(line) for line in self.lines.values())
        waiting = sum(transit.pending * batch.count for transit, batch in self.transits)
        assert self.sender.skipped == self.skipped + missing - waiting
        assert (self.sender.queued() == 0) == (waiting == 0)

    @invariant()
    def order_is_kept_and_every_gap_was_announced(self) -> None:
        for (_, topic), line in self.lines.items():
            assert [b.first for b in line.sent] == sorted({b.first for b in line.sent})
            sent = {batch.first for batch in line.sent}
            gap = 0
            for batch in line.offered:
                if batch.first in sent:
                    assert line.announced[batch.first] == gap
                    gap = 0
                else:
                    gap += batch.count
            assert line.announcing <= gap, "more was announced than was skipped"
            assert gap == 0 or self.modes[topic] != "lossless" or self.sender.queued()

    @invariant()
    def a_transit_is_released_once_when_nobody_holds_it(self) -> None:
        while self.sender.released:
            self.released.append(id(self.sender.released.pop()))
        free = [id(t) for t, _ in self.transits if id(t) in self.waited and not t.pending]
        assert sorted(self.released) == sorted(free)

    def teardown(self) -> None:
        """Once the receivers read on, everything that waits goes out: no account is stuck."""
        for peer in PEERS:
            self.reopen(peer)
        for _ in range(1000):
            for peer in PEERS:
                while self.wire[peer.id] or self.held[peer.id] or self.credits[peer.id]:
                    self.arrive(peer)
                    self.consume(peer, 0)
                    self.credit(peer)
            if not self.sender.queued():
                break
        assert self.sender.queued() == 0
        self.every_message_is_sent_or_waits_or_was_counted()
        self.order_is_kept_and_every_gap_was_announced()
        self.a_transit_is_released_once_when_nobody_holds_it()


TestCredits = CreditMachine.TestCase
TestCredits.settings = settings(max_examples=150, stateful_step_count=50)


A, B = PEERS
T, U = TOPICS


def fill(flow: Flow, peer: Peer = A, topic: Id = T) -> None:
    """Use up a peer's window."""
    assert flow.offer(peer, a_batch(topic, size=WINDOW), "lossless", transit(), 0.0)


def transit() -> Transit:
    return Transit(None, T, 100)


def test_one_blocked_topic_does_not_stop_another_nor_another_peer() -> None:
    flow = Flow(WINDOW, PATIENCE)
    fill(flow)
    assert flow.offer(A, a_batch(T), "lossless", transit(), 0.0) == []
    assert flow.waits(T, [A])
    assert flow.offer(A, a_batch(U), "lossless", transit(), 0.0)
    assert flow.offer(B, a_batch(T), "lossless", transit(), 0.0)
    assert not flow.waits(U, [A, B])


def test_lossless_waits_without_limit() -> None:
    flow = Flow(WINDOW, PATIENCE)
    fill(flow)
    batch = a_batch(T, 1)
    flow.offer(A, batch, "lossless", transit(), 0.0)
    assert flow.deadline() is None
    assert flow.expire(1e9) is None
    assert flow.credited(A, T, WINDOW, 1e9) == [batch]
    assert flow.skipped == 0


def test_lossy_drops_at_once_and_announces_it_when_there_is_credit() -> None:
    flow = Flow(WINDOW, PATIENCE)
    fill(flow)
    for first in (1, 4):
        assert flow.offer(A, a_batch(T, first, 3), "lossy", transit(), 0.0) == []
    assert flow.queued() == 0
    assert flow.credited(A, T, WINDOW, 0.0) == [Skipped(T, 6, 200)]
    batch = a_batch(T, 7)
    assert flow.offer(A, batch, "lossy", transit(), 0.0) == [batch]
    assert flow.skipped == 6


def test_patient_gives_up_what_waits_and_what_follows_until_there_is_credit() -> None:
    flow = Flow(WINDOW, PATIENCE)
    fill(flow)
    flow.offer(A, a_batch(T, 1), "patient", transit(), 5.0)
    flow.offer(A, a_batch(T, 2), "patient", transit(), 5.5)
    assert flow.deadline() == flow.expire(5.9) == 6.0
    assert flow.expire(6.0) is None
    assert (flow.skipped, flow.queued()) == (2, 0)
    flow.offer(A, a_batch(T, 3), "patient", transit(), 6.1)
    assert (flow.skipped, flow.queued()) == (3, 0)
    assert flow.credited(A, T, WINDOW, 6.2) == [Skipped(T, 3, 300)]
    batch = a_batch(T, 4)
    assert flow.offer(A, batch, "patient", transit(), 6.3) == [batch]


def test_the_chunks_of_a_large_message_are_skipped_as_one_message() -> None:
    flow = Flow(WINDOW, PATIENCE)
    fill(flow)
    for chunk in range(4):
        flow.offer(A, a_batch(T, 1, chunk=chunk, chunks=4), "lossy", transit(), 0.0)
    assert flow.skipped == 1


def test_a_peer_that_exceeds_its_credit_is_refused_until_it_has_credit_again() -> None:
    flow = Flow(WINDOW, PATIENCE)
    held = [flow.received(A, a_batch(T, first)) for first in range(100)]
    accepted = [one for one in held if one is not None]
    assert len(accepted) * 100 == 2 * WINDOW
    assert flow.received(B, a_batch(T)) is not None, "another peer has its own account"
    flow.consumed(accepted[0])
    assert flow.received(A, a_batch(T)) is not None


def test_a_peer_cannot_invent_topics_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_module, "MAX_TOPICS", 3)
    flow = Flow(WINDOW, PATIENCE)
    accepted = [flow.received(A, a_batch(Id(topic))) is not None for topic in range(5)]
    assert accepted == [True, True, True, False, False]
    assert flow.received(A, a_batch(Id(2))) is not None
    assert flow.received(B, a_batch(Id(4))) is not None


def test_what_came_on_the_old_link_gives_no_credit_on_the_new_one() -> None:
    """Otherwise totals exceed what was sent, are ignored as lies, and the sender waits for ever."""
    flow = Flow(WINDOW, PATIENCE)
    old = flow.received(A, a_batch(T, size=WINDOW))
    flow.reset(A, 0.0)
    new = flow.received(A, a_batch(T, size=WINDOW))
    assert old is not None
    assert new is not None
    assert flow.consumed(old) is None
    assert flow.consumed(new) == Credit(T, WINDOW)


def test_credit_is_granted_in_shares_of_the_window() -> None:
    flow = Flow(WINDOW, PATIENCE)
    credits = []
    for first in range(10):
        one = flow.received(A, a_batch(T, first))
        assert one is not None
        credits.append(flow.consumed(one))
    assert [c.total for c in credits if c is not None] == [300, 600, 900]


def test_patience_starts_anew_for_a_child_that_says_it_is_held_up_but_not_for_ever() -> None:
    sender, receiver = Flow(WINDOW, 1.0), Flow(WINDOW, 1.0)
    first = a_batch(T, size=WINDOW)
    assert sender.offer(A, first, "patient", transit(), 0.0)
    held = receiver.received(SENDER, first)
    assert held is not None
    assert sender.offer(A, a_batch(T, 1), "patient", transit(), 0.0) == []
    now = 0.0
    while sender.waits(T, [A]):
        now += 0.5
        ((peer, credit),) = receiver.refreshes()
        assert peer == SENDER
        assert sender.credited(A, T, credit.total, now) == []
        sender.expire(now)
    assert 1.0 < now <= MAX_PATIENCE
    assert sender.skipped == 1
    receiver.consumed(held)
    assert receiver.refreshes() == []


def test_what_a_broken_link_may_have_lost_is_known() -> None:
    flow = Flow(WINDOW, 1.0)
    for number in range(4):
        assert flow.offer(A, a_batch(T, number, size=WINDOW // 8), "patient", transit(), 0.0)
    assert flow.unconfirmed(A) == 4
    one = a_batch(T, size=WINDOW // 8).size
    flow.credited(A, T, one, 0.0)
    assert flow.unconfirmed(A) == 3
    flow.credited(A, T, 4 * one, 0.0)
    assert flow.unconfirmed(A) == 0


def test_the_smaller_window_of_a_link_holds_for_both_sides() -> None:
    """A receiver that granted in shares of its own, larger window would leave the sender waiting."""
    sender, receiver = Flow(WINDOW, PATIENCE), Flow(100 * WINDOW, PATIENCE)
    assert sender.told(A, Window(100 * WINDOW)) == []
    one = receiver.received(SENDER, a_batch(T, size=WINDOW))
    assert one is not None
    assert receiver.consumed(one) is None, "it has not heard of the smaller window yet"
    assert receiver.told(SENDER, Window(WINDOW)) == [Credit(T, WINDOW)]
    two = receiver.received(SENDER, a_batch(T, 1, size=WINDOW // 2))
    assert two is not None
    assert receiver.consumed(two) == Credit(T, WINDOW + WINDOW // 2)
    large = Flow(100 * WINDOW, PATIENCE)
    large.told(A, Window(WINDOW))
    fill(large)
    assert large.offer(A, a_batch(T, 1), "lossless", transit(), 0.0) == []
    large.drop(A)
    fill(large)
    assert large.offer(A, a_batch(T, 1), "lossless", transit(), 0.0), "a new link, a new word"


def test_a_peer_cannot_say_that_it_has_no_window() -> None:
    flow = Flow(WINDOW, PATIENCE)
    assert flow.told(A, Window(0)) == []
    assert flow.offer(A, a_batch(T), "lossy", transit(), 0.0)


def test_what_is_refused_gives_its_credit_back() -> None:
    flow = Flow(WINDOW, PATIENCE)
    held = [flow.received(A, a_batch(T, first)) for first in range(100)]
    granted = [flow.consumed(one) for one in held if one is not None]
    assert max(credit.total for credit in granted if credit) > 100 * 100 - WINDOW // 2
