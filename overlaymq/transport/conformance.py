"""The transport contract as a suite: what base.py promises, tried on an implementation.

``check_transport`` runs every check, each on a rig and nodes of its own; an implementation passes
when none raises. ``CHECKS`` names them, for test runners that want to run them one by one.

Checks wait for conditions, never for time; the limit is for what never comes. Every call a node
gets is also judged by its ``Recorder``, so each check holds the whole contract, not only its own
point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from overlaymq.errors import LinkRefused, OwnAddress
from overlaymq.identity import Identity
from overlaymq.ids import Id
from overlaymq.messages import Batch, JoinRefused, JoinReply, Peer, Ping
from overlaymq.transport.conformance_bench import (
    Bench,
    Endpoint,
    MemoryRig,
    Recorder,
    Rig,
    batch,
    open_bench,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["CHECKS", "MemoryRig", "Recorder", "Rig", "check_transport", "run_check"]


async def order_is_kept(bench: Bench) -> None:
    """Control and data each arrive whole and in order, after opened, on a link that send dialled."""
    a, b = await bench.node(), await bench.node()
    for number in range(500):
        a.ping(b, number, number)
        a.call("send_batch", b.peer, batch(number))
        b.ping(a, number)
    await b.inbox.until(lambda: len(b.inbox.messages) == 1500)
    await a.inbox.until(lambda: len(a.inbox.messages) == 500)
    assert b.inbox.numbers(a.id) == [n for n in range(500) for _ in range(2)]
    assert b.inbox.firsts(a.id) == list(range(500))
    assert a.inbox.numbers(b.id) == list(range(500))
    assert {peer for peer, _ in b.inbox.messages} == {a.peer}
    assert [m for _, m in b.inbox.messages if isinstance(m, Batch)][7].body == batch(7).body


async def flushing_loses_and_repeats_nothing(bench: Bench) -> None:
    """It may come at any time, also before there is a link, and calls nobody back from inside."""
    a, b = await bench.node(), await bench.node()
    a.call("flush")
    for number in range(100):
        a.ping(b, number)
        a.call("send_batch", b.peer, batch(number))
        a.call("flush")
    await b.inbox.until(lambda: len(b.inbox.messages) == 200)
    assert b.inbox.numbers(a.id) == list(range(100))
    assert b.inbox.firsts(a.id) == list(range(100))
    assert not a.inbox.breaches


async def simultaneous_dials_end_as_one_link(bench: Bench) -> None:
    """Both dial at once: one link, one opened each, nothing lost, nothing failed."""
    for _ in range(5):
        a, b = await bench.node(), await bench.node()
        a.ping(b, *range(50))
        b.ping(a, *range(50))
        a.batches(b, 20)
        b.batches(a, 20)
        for node, other in ((a, b), (b, a)):
            await node.inbox.until(lambda node=node: len(node.inbox.messages) == 70)  # type: ignore[misc]
            assert node.inbox.numbers(other.id) == list(range(50))
            assert node.inbox.firsts(other.id) == list(range(20))
            assert node.inbox.count("opened") == 1
            assert not node.inbox.count("failed") + node.inbox.count("closed")
        assert sorted(link.dialled for n in (a, b) for link in n.transport.links()) == [False, True]


async def simultaneous_connects_both_succeed(bench: Bench) -> None:
    """connect from both sides at once names the other on both."""
    for _ in range(5):
        a, b = await bench.node(), await bench.node()
        found: dict[Id, Peer] = {}

        async def connect(node: Endpoint, other: Endpoint, found: dict[Id, Peer] = found) -> None:
            found[node.id] = await node.transport.connect(other.peer.address)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect, a, b)
            nursery.start_soon(connect, b, a)
        assert found == {a.id: b.peer, b.id: a.peer}
        assert len(a.transport.links()) == len(b.transport.links()) == 1


async def connect_says_who_is_there(bench: Bench) -> None:
    """connect returns the proven peer, again without a second link, and refuses clearly."""
    a, b = await bench.pair()
    assert await a.transport.connect(b.peer.address) == b.peer
    assert await b.transport.connect(a.peer.address) == a.peer
    assert a.inbox.count("opened") == b.inbox.count("opened") == 1
    nobody = bench.rig.unreachable()
    await _refused(a, nobody, nobody)
    await _refused(a, a.peer.address, a.peer.address)


async def _refused(
    node: Endpoint, address: str, text: str, kind: type[LinkRefused] = LinkRefused
) -> None:
    said = None
    try:
        await node.transport.connect(address)
    except kind as error:
        said = str(error)
    assert said is not None, f"connect({address!r}) was not refused"
    assert text in said, f"{text!r} is not in {said!r}"


async def a_cancelled_connect_leaves_nothing(bench: Bench) -> None:
    """Cancelling connect at any moment does not spoil later use."""
    a, b = await bench.node(), await bench.node()
    for delay in (0, 0.0005, 0.001, 0.002, 0.005):
        with trio.move_on_after(delay):
            await a.transport.connect(b.peer.address)
    assert await a.transport.connect(b.peer.address) == b.peer
    a.ping(b, 1)
    await b.inbox.until(lambda: b.inbox.numbers(a.id) == [1])


async def an_unreachable_peer_fails(bench: Bench) -> None:
    """A dial that fails gives only failed; what was queued is lost, and watchers are told."""
    a = await bench.node()
    ghost = Peer(Id(99), bench.rig.unreachable(), 1)
    a.call("send", ghost, Ping(1))
    a.call("send_batch", ghost, batch(0))
    a.call("watch", ghost)
    await a.inbox.until(lambda: a.inbox.count("failed", ghost.id) == 1)
    assert a.inbox.gone == [ghost.id]
    await a.inbox.until(lambda: a.inbox.count("drained") == 1)
    assert not a.inbox.count("opened")
    assert a.call("backlog", ghost) == 0
    assert not a.transport.links()


async def another_id_than_expected_fails(bench: Bench) -> None:
    """A message for X is never given to whoever else answers at X's address."""
    a, b = await bench.node(), await bench.node()
    wrong = Peer(Id(99), b.peer.address, 1)
    a.call("send", wrong, Ping(1))
    await a.inbox.until(lambda: a.inbox.count("failed", wrong.id) == 1)
    assert a.inbox.gone == [wrong.id]
    a.ping(b, 2)
    await b.inbox.until(lambda: bool(b.inbox.messages))
    assert b.inbox.numbers(a.id) == [2]


async def a_live_id_cannot_be_taken(bench: Bench) -> None:
    """A copied key is refused while its owner is linked, and a node refuses its own id."""
    identity = Identity.ephemeral()
    a, original = await bench.node(), await bench.node(identity)
    await original.transport.connect(a.peer.address)
    copy = await bench.node(identity, incarnation=2)
    await _refused(copy, a.peer.address, "in use")
    await _refused(copy, original.peer.address, original.peer.address)
    await _refused(original, original.peer.address, "itself", OwnAddress)
    original.ping(a, 1)
    await a.inbox.until(lambda: a.inbox.numbers(original.id) == [1])
    assert a.inbox.open[original.id] == original.peer


async def probes_measure(bench: Bench) -> None:
    """probe opens a link if it must, and ends in measured or failed."""
    a, b = await bench.node(), await bench.node()
    a.call("probe", b.peer)
    await a.inbox.until(lambda: a.inbox.count("measured", b.id) == 1)
    for turn in range(1, 21):
        b.call("probe", a.peer)
        await b.inbox.until(lambda turn=turn: b.inbox.count("measured", a.id) == turn)  # type: ignore[misc]
    b.call("probe", a.peer)  # two at once may share one measurement
    b.call("probe", a.peer)
    await b.inbox.until(lambda: b.inbox.count("measured", a.id) > 20)
    times = [entry[2] for node in (a, b) for entry in node.inbox.log if entry[0] == "measured"]
    assert all(0 < seconds < 5 for seconds in times), times
    ghost = Peer(Id(99), bench.rig.unreachable(), 1)
    a.call("probe", ghost)
    await a.inbox.until(lambda: a.inbox.count("failed", ghost.id) == 1)


async def idle_links_close_unless_kept(bench: Bench) -> None:
    """An idle link ends on both sides as wished; a kept one stays; a closed one opens on use."""
    a, b, c = [await bench.node(idle_timeout=0.3) for _ in range(3)]
    a.call("keep", [b.id])
    b.call("keep", [a.id])
    a.ping(b, 1)
    a.ping(c, 1)
    await c.inbox.until(lambda: c.inbox.numbers(a.id) == [1])
    await b.inbox.until(lambda: b.inbox.numbers(a.id) == [1])
    await bench.rig.pass_idle_time()
    await a.inbox.until(lambda: a.inbox.count("closed", c.id) == 1)
    await c.inbox.until(lambda: c.inbox.count("closed", a.id) == 1)
    assert a.linked() == {b.id}
    a.ping(c, 2)
    await c.inbox.until(lambda: c.inbox.numbers(a.id) == [1, 2])
    assert c.inbox.count("opened") == 2
    assert not sum(node.inbox.count("failed") for node in (a, b, c))


async def links_are_capped(bench: Bench) -> None:
    """Above max_links the least used link that is not kept goes."""
    hub = await bench.node(max_links=3)
    others = [await bench.node() for _ in range(5)]
    hub.call("keep", [others[0].id])
    for other in others:
        hub.ping(other, 1)
        await other.inbox.until(lambda other=other: other.inbox.numbers(hub.id) == [1])  # type: ignore[misc]
    await hub.inbox.until(lambda: len(hub.linked()) <= 3)
    assert {others[0].id, others[4].id} <= hub.linked()
    assert not hub.inbox.count("failed")


async def a_restarted_peer_is_reached_again(bench: Bench) -> None:
    """After a goodbye sends fail; after a restart they reach the new incarnation."""
    identity = Identity.ephemeral()
    a, b = await bench.node(), await bench.node(identity)
    b.ping(a, 1)
    await a.inbox.until(lambda: a.inbox.numbers(b.id) == [1])
    old = b.peer
    await b.aclose()
    await a.inbox.until(lambda: a.inbox.count("closed", b.id) == 1)
    a.call("send", old, Ping(2))
    await a.inbox.until(lambda: a.inbox.count("failed", b.id) == 1)
    again = await bench.node(identity, incarnation=2, address=old.address)
    assert again.peer == Peer(old.id, old.address, 2)
    await _send_until_received(a, again)
    assert a.inbox.open[old.id] == again.peer


async def _send_until_received(a: Endpoint, b: Endpoint) -> None:
    """Send, and again after each failure: a dial may hit the back-off's end just too early."""
    for number in range(100, 200):
        failures = a.inbox.count("failed", b.id)
        a.ping(b, number)
        async with trio.open_nursery() as nursery:

            async def fails(failures: int = failures, nursery: trio.Nursery = nursery) -> None:
                await a.inbox.until(lambda: a.inbox.count("failed", b.id) > failures)
                nursery.cancel_scope.cancel()

            nursery.start_soon(fails)
            await b.inbox.until(lambda number=number: number in b.inbox.numbers(a.id))  # type: ignore[misc]
            nursery.cancel_scope.cancel()
        if number in b.inbox.numbers(a.id):
            return
    raise AssertionError("it was never reached again")


async def control_overtakes_data(bench: Bench) -> None:
    """A control message does not wait behind megabytes of batches."""
    a, b = await bench.pair()
    a.batches(b, 200, 64 * 1024)
    a.ping(b, 1)
    await b.inbox.until(lambda: len(b.inbox.messages) == 201)
    position = [isinstance(message, Ping) for _, message in b.inbox.messages].index(True)
    assert position < 200, "the ping came last"
    assert b.inbox.firsts(a.id) == list(range(200))


async def a_backlog_is_bounded_and_watched(bench: Bench) -> None:
    """backlog counts what is not written, drained is told once, what overflows is counted."""
    a, b = await bench.pair(data_queue=256 * 1024)
    for first in range(1000):
        a.call("send_batch", b.peer, batch(first, 1024))
        assert a.call("backlog", b.peer) <= 256 * 1024
    assert a.call("backlog", b.peer) > 0
    a.call("watch", b.peer)
    await a.inbox.until(lambda: a.inbox.count("drained") == 1)
    assert a.call("backlog", b.peer) == 0
    lost = sum(a.inbox.drops.values())
    await b.inbox.until(lambda: len(b.inbox.messages) + sum(a.inbox.drops.values()) == 1000)
    assert lost, "a megabyte fitted into a quarter of one"
    assert b.inbox.firsts(a.id) == sorted(set(b.inbox.firsts(a.id)))
    a.call("watch", b.peer)
    await a.inbox.until(lambda: a.inbox.count("drained") == 2)
    assert not a.inbox.count("failed")


async def a_flooded_control_queue_gives_the_link_up(bench: Bench) -> None:
    """Control messages are never dropped singly: the link fails instead, and can be had again."""
    a, b = await bench.pair(control_queue=64 * 1024)
    for _ in range(5000):
        a.call("send", b.peer, JoinRefused("x" * 1000))
    await a.inbox.until(lambda: a.inbox.count("failed", b.id) > 0)
    await a.inbox.until(lambda: sum(a.inbox.drops.values()) > 0)
    await _send_until_received(a, b)


async def large_things_cross(bench: Bench) -> None:
    """Frames up to max_frame arrive unharmed; what is larger is dropped, not the link."""
    a, b = await bench.pair(max_frame=8 << 20)
    big = batch(5, 6 << 20)
    a.call("send_batch", b.peer, big)
    a.call("send_batch", b.peer, batch(6, 9 << 20))
    a.call("send_batch", b.peer, batch(7))
    many = JoinReply(leaves=tuple(Peer(Id(n), "host:1", n) for n in range(4096)))
    a.call("send", b.peer, many)
    await b.inbox.until(lambda: b.inbox.firsts(a.id) == [5, 7] and len(b.inbox.messages) == 3)
    received = [message for _, message in b.inbox.messages]
    assert many in received
    assert any(isinstance(m, Batch) and m.body == big.body for m in received)
    await a.inbox.until(lambda: sum(a.inbox.drops.values()) == 1)
    assert not a.inbox.count("failed")


async def a_failing_node_is_contained(bench: Bench) -> None:
    """An exception of the node stops neither the link nor the next message."""
    a, b = await bench.pair()
    b.inbox.poison = Ping(3)
    a.ping(b, *range(10))
    a.batches(b, 3)
    await b.inbox.until(lambda: len(b.inbox.messages) == 13)
    assert b.inbox.numbers(a.id) == list(range(10))


async def closing_delivers_what_is_queued(bench: Bench) -> None:
    """aclose writes the queues, says goodbye, ends in time; afterwards the transport is inert."""
    a, b = await bench.pair(grace=1.5)
    a.ping(b, *range(200))
    a.batches(b, 50, 64 * 1024)
    with trio.fail_after(2.5):
        await a.aclose()
    await b.inbox.until(lambda: b.inbox.count("closed", a.id) == 1)
    assert b.inbox.numbers(a.id) == list(range(200))
    assert b.inbox.firsts(a.id) == list(range(50))
    assert not a.transport.links()
    a.ping(b, 1)
    a.call("probe", b.peer)
    await a.aclose()


async def closing_does_not_wait_for_the_unreachable(bench: Bench) -> None:
    """A dial under way and a full queue do not hold aclose beyond its grace."""
    a = await bench.node(grace=0.5)
    ghost = Peer(Id(99), bench.rig.unreachable(), 1)
    for first in range(50):
        a.call("send_batch", ghost, batch(first, 64 * 1024))
    with trio.fail_after(1.5):
        await a.aclose()


async def many_nodes_share_the_network(bench: Bench) -> None:
    """Everyone talks to everyone; each hears each, in order."""
    nodes = [await bench.node() for _ in range(6)]
    for number in range(20):
        for a in nodes:
            for b in nodes:
                if a is not b:
                    a.ping(b, number)
    for b in nodes:
        await b.inbox.until(lambda b=b: len(b.inbox.messages) == 100)  # type: ignore[misc]
        for a in nodes:
            if a is not b:
                assert b.inbox.numbers(a.id) == list(range(20))
        assert len(b.transport.links()) == 5


CHECKS: dict[str, Callable[[Bench], Awaitable[None]]] = {
    check.__name__: check
    for check in (
        order_is_kept,
        flushing_loses_and_repeats_nothing,
        simultaneous_dials_end_as_one_link,
        simultaneous_connects_both_succeed,
        connect_says_who_is_there,
        a_cancelled_connect_leaves_nothing,
        an_unreachable_peer_fails,
        another_id_than_expected_fails,
        a_live_id_cannot_be_taken,
        probes_measure,
        idle_links_close_unless_kept,
        links_are_capped,
        a_restarted_peer_is_reached_again,
        control_overtakes_data,
        a_backlog_is_bounded_and_watched,
        a_flooded_control_queue_gives_the_link_up,
        large_things_cross,
        a_failing_node_is_contained,
        closing_delivers_what_is_queued,
        closing_does_not_wait_for_the_unreachable,
        many_nodes_share_the_network,
    )
}


async def run_check(name: str, rig: Rig) -> None:
    """One check by its name."""
    async with open_bench(rig) as bench:
        await CHECKS[name](bench)


async def check_transport(make_rig: Callable[[], Rig]) -> None:
    """Every check, each on a rig of its own."""
    for name in CHECKS:
        await run_check(name, make_rig())
