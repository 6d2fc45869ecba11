"""Two terminals and no file: the path every newcomer takes, on a port of the test's own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def _subscribed(line: str) -> bool:
    return line.startswith("subscribed to")


def test_sub_then_pub(start: Callable[..., Any], point: str) -> None:
    sub = start("sub", "prices", "--meet", point, "--count", "1")
    assert point in sub.err.wait(_subscribed)
    pub = start("pub", "prices", "hi", "--meet", point)
    assert pub.finish() == 0
    assert sub.finish() == 0
    origin = pub.said.split()[-1]
    assert sub.printed.startswith(f"hi  (from {origin} #0, ")
    assert " hop" in sub.printed
    assert " ms)" in sub.printed


def test_pub_first_waits_for_sub(start: Callable[..., Any], point: str) -> None:
    pub = start("pub", "prices", "early", "--meet", point, "--timeout", "20", "--json")
    sub = start("sub", "prices", "--meet", point, "--count", "1", "--json")
    assert pub.finish() == 0
    assert sub.finish() == 0
    told = json.loads(pub.printed)
    assert (told["published"], told["subscribers"]) == (1, 1)
    message = json.loads(sub.printed)
    assert (message["payload"], message["origin"]) == ("early", told["id"])
    assert message["hops"] >= 0
    assert message["latency_ms"] >= 0


def test_two_that_start_at_once_meet(start: Callable[..., Any], point: str) -> None:
    subs = [start("sub", "prices", "--meet", point, "--count", "1", "--json") for _ in range(2)]
    pub = start("pub", "prices", "hi", "--meet", point, "--wait-subscribers", "2")
    assert pub.finish() == 0
    for sub in subs:
        assert sub.finish() == 0
        assert json.loads(sub.printed)["payload"] == "hi"


def test_standard_input_count_and_headers(start: Callable[..., Any], point: str) -> None:
    sub = start("sub", "log", "--meet", point, "--count", "6", "--json")
    sub.err.wait(_subscribed)
    flags = ("--meet", point, "--header", "host=web1", "--count", "2", "--json")
    pub = start("pub", "log", "first", "-", *flags, stdin="second\nthird")
    assert pub.finish() == 0
    assert json.loads(pub.printed)["published"] == 6
    assert sub.finish() == 0
    messages = [json.loads(line) for line in sub.out.lines]
    texts = [message["payload"] for message in messages]
    assert texts == ["first", "first", "second", "second", "third", "third"]
    assert {message["headers"]["host"] for message in messages} == {"web1"}
    assert [message["seq"] for message in messages] == list(range(6))


def test_created_topics_keep_their_settings(start: Callable[..., Any], point: str) -> None:
    flags = ("--meet", point, "--count", "1")
    sub = start("sub", "orders", *flags, "--reliability", "fifo", "--flow", "lossless")
    sub.err.wait(_subscribed)
    pub = start("pub", "orders", "x", "--meet", point, "--flow", "lossy")
    assert pub.finish() == 2
    assert "exists with" in pub.said
    assert "lossless" in pub.said


def test_a_node_tells_of_neighbours_and_ends_within_two_seconds(
    start: Callable[..., Any], point: str
) -> None:
    node = start("node", "--meet", point, "--json")
    assert node.record(event="started")["address"] == point
    other = start("node", "--meet", point, "--json")
    id_ = other.record(event="started")["id"]
    assert node.record(event="neighbour_joined", id=id_)["neighbours"] == 1
    assert other.interrupt() < 2
    assert other.finish() == 130
    node.record(event="neighbour_left", id=id_)
    assert node.interrupt() < 2
    assert node.finish() == 130


def test_interrupting_sub_and_pub_is_quick_and_quiet(start: Callable[..., Any], point: str) -> None:
    sub = start("sub", "prices", "--meet", point)
    sub.err.wait(_subscribed)
    pub = start("pub", "nobody-listens", "x", "--meet", point, "-v")
    pub.err.wait(lambda line: "joined at" in line)
    for running in (pub, sub):
        assert running.interrupt() < 2
        assert running.finish() == 130


@pytest.mark.parametrize("more", [True, False], ids=["more follows", "silence follows"])
def test_a_closed_pipe_ends_sub_quietly(start: Callable[..., Any], point: str, more: bool) -> None:
    """Like `overlaymq sub prices | head -1`."""
    reading, writing = os.pipe()
    sub = start("sub", "prices", "--meet", point, stdout=writing)
    os.close(writing)
    sub.err.wait(_subscribed)
    start("pub", "prices", "one", "--meet", point).finish()
    with open(reading) as pipe:
        assert pipe.readline().startswith("one")
    if more:
        start("pub", "prices", "two", "--meet", point).process.wait()
    assert sub.finish() == 0
    assert "Exception" not in sub.said
