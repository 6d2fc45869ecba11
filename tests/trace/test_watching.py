"""What a watch makes of the core's words, where no network is needed to see it."""

from __future__ import annotations

from random import Random

import pytest

from overlaymq.config import Config
from overlaymq.core.node import Node
from overlaymq.events import Dropped, Missed, Ready, Received, Subscribe, Unsubscribe
from overlaymq.ids import Id, text, topic_id
from overlaymq.messages import Batch, Descriptor, Peer
from overlaymq.trace import schema
from overlaymq.trace.tracer import ListTracer
from overlaymq.trace.watching import MOST_NAMES, Watch, is_refusal

ME, OTHER = Peer(Id(1 << 100), "a:1", 3), Peer(Id(2 << 100), "b:1", 4)


def watch() -> tuple[Watch, ListTracer]:
    tracer = ListTracer(sample=1.0)
    return Watch(tracer, Node(ME, Config(), Random(1))), tracer


@pytest.mark.parametrize(
    ("reason", "refusal"),
    [
        ("content of a stranger", True),
        ("malformed: control frame: empty", True),
        ("credit exceeded", True),
        ("no root", False),
        ("late", False),
        ("link lost, waiting", False),
    ],
)
def test_a_refusal_is_told_from_a_loss(reason: str, refusal: bool) -> None:
    assert is_refusal(reason) is refusal
    one, tracer = watch()
    one.dropped(reason, 2)
    assert tracer.rows[-1].event == (schema.REJECT if refusal else schema.DROP)
    assert (tracer.rows[-1].reason, tracer.rows[-1].msg_count) == (reason, 2)


def test_a_duplicate_names_its_messages_and_who_sent_them() -> None:
    one, tracer = watch()
    batch = Batch(topic_id("t"), Id(7 << 100), 2, 10, 5, b"")
    one.input(Received(OTHER, batch))
    one.event(Dropped("duplicate", 5, batch))
    row = tracer.rows[-1]
    assert (row.event, row.msg_seq, row.msg_count) == (schema.DUPLICATE, 10, 5)
    assert (row.peer_id, row.msg_origin, row.msg_epoch) == (text(OTHER.id), text(Id(7 << 100)), 2)


def test_what_a_node_discards_itself_was_for_nobody_else() -> None:
    """The sender was named as the one it was for, and so its losses had other nodes' reasons."""
    one, tracer = watch()
    batch = Batch(topic_id("t"), Id(7 << 100), 2, 10, 5, b"")
    one.input(Received(OTHER, batch))
    one.event(Dropped("late", 5, batch))
    assert (tracer.rows[-1].event, tracer.rows[-1].peer_id) == (schema.DROP, "")
    one.event(Dropped("content of a stranger", 5, batch))
    assert (tracer.rows[-1].event, tracer.rows[-1].peer_id) == (schema.REJECT, text(OTHER.id))


def test_a_gap_of_a_topic_without_order_names_messages() -> None:
    one, tracer = watch()
    one.event(Missed(topic_id("t"), OTHER.id, 3, 6, 9))
    row = tracer.rows[-1]
    assert (row.msg_origin, row.msg_epoch, row.msg_seq, row.msg_count) == (text(OTHER.id), 9, 3, 4)
    assert row.root_id == ""


def test_a_sign_of_life_says_again_what_was_promised() -> None:
    """Retention removes SUBSCRIBE with the oldest files, and then no order was promised any more."""
    one, tracer = watch()
    topic = Descriptor(topic_id("t"), "t", "", topic_id("t"), "direct", "fifo", "patient")
    one.others_only.add(topic.id)
    one.input(Subscribe(topic))
    one.event(Ready(topic.id))
    one.beat()
    told = {row.event: row.extra for row in tracer.rows}
    assert told[schema.EXPECT] == told[schema.SUBSCRIBE]
    assert '"receive_own":false,"reliability":"fifo"' in told[schema.EXPECT]
    one.input(Unsubscribe(topic.id))
    assert [row.event for row in tracer.rows[-2:]] == [schema.EXPECT, schema.UNSUBSCRIBE]


def test_topics_that_peers_invent_fill_no_memory() -> None:
    one, _ = watch()
    for number in range(2 * MOST_NAMES):
        one.input(Received(OTHER, Batch(Id(number), OTHER.id, 1, 0, 1, b"")))
    assert len(one._known) <= MOST_NAMES
    assert not one._places
