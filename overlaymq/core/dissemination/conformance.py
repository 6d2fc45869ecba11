"""The strategy contract as a suite: what base.py promises, tried on an implementation.

``check_strategy(make, random)`` runs every check, each on a bench of its own (``conformance_bench``); a
strategy passes when none raises. ``CHECKS`` names them, for test runners that want to run them one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from overlaymq.config import DeliveryConfig, RendezvousConfig
from overlaymq.core.dissemination.conformance_bench import (
    TOPIC,
    Bench,
    Seat,
    expect,
    heard,
)
from overlaymq.core.reliability.upcalls import Joining, Tree, Upcalls
from overlaymq.events import (
    Dropped,
    Members,
    ParentLost,
    Ready,
    Repaired,
    Sent,
)
from overlaymq.messages import Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from overlaymq.core.dissemination.base import Strategy, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer

    Make: TypeAlias = Callable[[Descriptor, Surroundings], Strategy]


def _expect_all_get(bench: Bench, published: list[tuple[Id, int]]) -> None:
    for seat in bench.members:
        missing = [name for name in published if not seat.got[name]]
        expect(not missing, f"member {seat.peer.address} did not get {missing}")


def _publish_from_all(bench: Bench) -> list[tuple[Id, int]]:
    return [bench.publish(seat) for seat in bench.by_closeness() for _ in range(2)]


def _that_feed(bench: Bench, count: int) -> list[Seat]:
    """Nodes whose failure cuts others off: in a tree those at its top, in a mesh any members."""
    return (bench.members if bench.mesh else bench.by_closeness())[:count]


def _expect_works(bench: Bench) -> None:
    """From here on, everything reaches everyone once."""
    published = _publish_from_all(bench)
    bench.settle()
    bench.wait(2 * bench.rendezvous.answer_timeout)
    _expect_all_get(bench, published)


def every_member_gets_every_batch_once(make: Make, random: Random) -> None:
    """Near and far nodes, members or not, publish; the owner too."""
    for owner_is_member in (True, False):
        bench = Bench(make, random)
        everyone = bench.by_closeness()
        bench.subscribe(*everyone[2::2], *(everyone[:1] if owner_is_member else []))
        bench.wait(1)
        published = _publish_from_all(bench)
        bench.settle()
        bench.wait(2 * bench.rendezvous.answer_timeout)
        _expect_all_get(bench, published)
        _expect_works(bench)


def ready_is_announced_once(make: Make, random: Random) -> None:
    """Once per member, by the time it counts, and never to others."""
    bench = Bench(make, random)
    bench.subscribe(*bench.far[:3], bench.owner)
    bench.wait(1)
    bench.wait_refreshed()
    for seat in bench.by_closeness():
        expect(len(heard(seat, Ready)) == seat.member, "Ready: once at each member")


def what_follows_ready_arrives(make: Make, random: Random) -> None:
    """A member that is ready gets what is published from then on."""
    bench = Bench(make, random)
    publisher = bench.far[0]
    for seat in bench.far[1:]:
        bench.subscribe(seat)
        bench.settle()
        expect(bool(heard(seat, Ready)), "Ready comes without a timer when nothing fails")
        name = bench.publish(publisher)
        bench.wait(1)
        _expect_all_get(bench, [name])


def sent_is_announced_for_every_own_batch(make: Make, random: Random) -> None:
    """Once each, with or without members, at the owner and far from it."""
    for members in (0, 3):
        bench = Bench(make, random)
        bench.subscribe(*bench.far[:members])
        bench.wait(1)
        _publish_from_all(bench)
        bench.settle()
        for seat in bench.by_closeness():
            sent = [event for event in seat.events if isinstance(event, Sent)]
            expect([one.first for one in sent] == [0, 1], "Sent: once for each own batch, in order")
            expect(
                all(one.count == 1 and one.topic == TOPIC for one in sent), "Sent names the batch"
            )
            # A mesh has nowhere to send to when nobody is subscribed.
            if seat is not bench.owner and (members or not bench.mesh):
                expect(all(one.links >= 1 for one in sent), "Sent counts the links")


def unsubscribing_stops_delivery(make: Make, random: Random) -> None:
    """At far members and at the owner; a member that comes back is served again."""
    bench = Bench(make, random)
    leaving, staying, publisher = bench.far[0], bench.far[1], bench.far[2]
    bench.subscribe(leaving, staying, bench.owner)
    bench.wait(1)
    bench.unsubscribe(leaving, bench.owner)
    bench.settle()
    name = bench.publish(publisher)
    bench.wait(1)
    _expect_all_get(bench, [name])  # and the bench refuses a delivery to the others
    bench.subscribe(leaving)
    bench.wait(1)
    _expect_works(bench)


def publishing_before_the_root_is_known_is_held(make: Make, random: Random) -> None:
    """Nothing is sent into the dark, and nothing is lost."""
    bench = Bench(make, random)
    bench.subscribe(*bench.far[1:])
    bench.wait(1)
    bench.routing = False
    published = [bench.publish(bench.far[0]) for _ in range(5)]
    bench.wait(3 * bench.rendezvous.answer_timeout)
    expect(not heard(bench.far[0], Sent), "Sent although the root cannot be found")
    bench.routing = True
    bench.wait(2 * bench.rendezvous.answer_timeout)
    _expect_all_get(bench, published)
    expect(len(heard(bench.far[0], Sent)) == 5, "Sent for each batch that was held")
    for seat in bench.members:
        mine = [batch.first for batch in seat.batches]
        expect(mine == sorted(mine), "what was held goes out in order")


def what_is_held_is_bounded(make: Make, random: Random) -> None:
    """A publisher without a root does not grow for ever; what is dropped is counted."""
    delivery = DeliveryConfig(window=1000)
    bench = Bench(make, random, delivery=delivery)
    bench.subscribe(bench.far[1])
    bench.wait(1)
    bench.routing = False
    published = [bench.publish(bench.far[0]) for _ in range(1000)]
    bench.routing = True
    bench.wait(2 * bench.rendezvous.answer_timeout)
    dropped = sum(one.messages for one in bench.far[0].events if isinstance(one, Dropped))
    got = sum(bench.far[1].got.values())
    expect(dropped > 900, "at most a few windows are held")
    expect(got + dropped == len(published), "what was not delivered was counted")
    expect(len(heard(bench.far[0], Sent)) == len(published), "each receipt is settled")


def _loses(seat: Seat, failed: Seat) -> Peer:
    """Whom a node loses when that one fails: that one, or the parent where a link needs others too."""
    parent: Peer | None = getattr(seat.strategy, "parent", None)
    if seat.strategy is None or not seat.strategy.ways or parent is None:
        return failed.peer
    return parent


def a_failed_root_is_replaced(make: Make, random: Random) -> None:
    """Members are told, the next owner takes over, delivery goes on; several times."""
    bench = Bench(make, random)
    faults: list[tuple[Id, Peer]] = []
    for seat in bench.by_closeness():
        upcalls = Upcalls(on_fault=lambda join, tree: faults.append((tree.me.id, join.peer)))
        bench.set_upcalls(seat, upcalls)
    bench.subscribe(*bench.by_closeness()[1::2])
    bench.wait(1)
    _expect_works(bench)
    for _ in range(3):
        failed = bench.owner
        above = {seat.peer.id: _loses(seat, failed) for seat in bench.by_closeness()}
        faults.clear()
        for seat in bench.by_closeness():
            seat.events.clear()
        bench.kill(failed)
        bench.wait(2 * bench.rendezvous.answer_timeout)
        cut_off: list[Seat] = []
        for seat in bench.members:
            lost = [one for one in seat.events if isinstance(one, ParentLost)]
            if lost:
                cut_off.append(seat)
                who = [one.peer for one in lost]
                expect(who == [above[seat.peer.id]], "ParentLost: once, and who")
            expect(len(heard(seat, Repaired)) == len(lost), "Repaired: once for each ParentLost")
            expect(len(heard(seat, Ready)) == len(lost), "Ready again after a repair")
        fed = not bench.mesh or failed.member
        expect(bool(faults) or not fed, "on_fault is called")
        named = all(peer == above[at] for at, peer in faults)
        expect(named, "on_fault names who was lost")
        expect(len(faults) >= len(cut_off), "on_fault before each repair")
        _expect_works(bench)


def a_root_that_fails_unseen_is_replaced(make: Make, random: Random) -> None:
    """Only the broken links tell."""
    bench = Bench(make, random)
    bench.subscribe(*bench.far)
    bench.wait(1)
    _expect_works(bench)
    bench.vanish(bench.owner)
    bench.tell_owner()
    bench.wait_refreshed()
    _publish_from_all(bench)  # what was sent to the dead node is lost; its senders learn it
    bench.wait_refreshed()
    _expect_works(bench)


def a_closer_node_takes_over(make: Make, random: Random) -> None:
    """Whatever is under way, no batch comes twice; once it has settled, none is lost."""
    for member in (True, False):
        bench = Bench(make, random)
        bench.subscribe(*bench.by_closeness()[::2])
        bench.wait(1)
        _expect_works(bench)
        for _ in range(3):
            former = bench.owner
            _publish_from_all(bench)
            bench.step(10)
            newcomer = bench.arrive_closer()
            if member:
                bench.subscribe(newcomer)
            _publish_from_all(bench)
            bench.wait(2 * bench.rendezvous.answer_timeout)
            expect(bench.owner is newcomer and former is not newcomer, "the bench moves the key")
            _expect_works(bench)
            bench.wait_refreshed()
            _expect_works(bench)


def churn_never_repeats_a_batch(make: Make, random: Random) -> None:
    """Anything in any order; then quiet, then everything works."""
    for _ in range(15):
        bench = Bench(make, random, size=8)
        for _ in range(60):
            seat = random.choice(bench.by_closeness())
            match random.randrange(10):
                case 0 | 1 if not seat.member:
                    bench.subscribe(seat)
                case 2 if seat.member:
                    bench.unsubscribe(seat)
                case 3 if len(bench.seats) > 4:
                    bench.kill(seat)
                case 4 if len(bench.seats) < 12:
                    bench.arrive_closer()
                case 5:
                    bench.wait(random.choice([0.1, 3, 40]))
                case _:
                    bench.publish(seat)
            bench.step(4)
        bench.wait_refreshed()
        _publish_from_all(bench)  # who was told of a root that is dead by now learns it
        bench.wait_refreshed()
        _expect_works(bench)


def a_late_member_gets_the_last_messages_it_asks_for(make: Make, random: Random) -> None:
    """Once each, in order, and then what follows; who asks for none gets none."""
    bench = Bench(make, random)
    early, late, later, publisher = bench.far[:4]
    bench.subscribe(early)
    bench.wait(1)
    for _ in range(4):
        bench.publish(publisher, count=5)
        bench.wait(1)
    for seat, last in ((late, 7), (later, 0)):
        bench.subscribe(seat, last=last)
        bench.wait(2 * bench.rendezvous.answer_timeout)
    bench.wait_refreshed()  # which does not ask for history again
    bench.publish(publisher, count=5)
    bench.wait(2 * bench.rendezvous.answer_timeout)
    for seat, first in ((late, 13), (later, 20)):
        got = [q for one in seat.batches for q in range(one.first + one.skip, one.last + 1)]
        expect(got == list(range(first, 25)), f"messages from {first} on, got {got}")


def on_forward_changes_or_stops(make: Make, random: Random) -> None:
    """For every other member alike, wherever it is; the sender's receipt is settled all the same."""
    bench = Bench(make, random)
    seen: dict[Id, list[int]] = {}

    def on_forward(batch: Batch, tree: Tree) -> Batch | None:
        seen.setdefault(tree.me.id, []).append(batch.first)
        return None if batch.first == 1 else msgspec.structs.replace(batch, body=b"changed")

    publisher = bench.far[0]
    # A mesh has no node that everything passes: there, all must do the same.
    for seat in bench.by_closeness() if bench.mesh else [bench.owner]:
        bench.set_upcalls(seat, Upcalls(on_forward=on_forward))
    bench.subscribe(*bench.by_closeness()[:2], *bench.far[1:])
    bench.wait(1)
    names = [bench.publish(publisher) for _ in range(3)]
    bench.wait(2 * bench.rendezvous.answer_timeout)
    for seat in bench.members:
        got = [batch for batch in seat.batches if batch.origin == publisher.peer.id]
        firsts = [batch.first for batch in got]
        in_order = sorted(firsts) if bench.mesh else firsts
        expect(in_order == [0, 2], "a stopped batch reaches nobody, others in order")
        expect(all(batch.body == b"changed" for batch in got), "a changed batch reaches all")
    for firsts in seen.values():
        expect(len(firsts) == len(set(firsts)), "on_forward sees each batch once")
    if not bench.mesh:
        expect(seen == {bench.owner.peer.id: [0, 1, 2]}, "on_forward sees all, in order")
    expect(len(heard(publisher, Sent)) == len(names), "Sent for a stopped batch too")
    bench.publish(bench.owner)
    stopped = bench.publish(bench.owner)
    bench.wait(1)
    others = [seat for seat in bench.members if seat is not bench.owner]
    expect(not any(seat.got[stopped] for seat in others), "the root's own batches are seen as well")
    expect(len(heard(bench.owner, Sent)) == 2, "Sent at the root for a stopped batch too")


def what_on_forward_returns_is_the_same_batch(make: Make, random: Random) -> None:
    """At the root and at every other node: a batch made anew, or spoilt, keeps its name and its place."""
    bench = Bench(make, random)
    spoilt = {"topic": 1, "origin": 2, "epoch": 3, "first": 4, "count": 5, "hop": 0, "skip": 1}
    spoilt |= {"root": 6, "root_epoch": 7, "root_sequence": 0, "chunk": 8, "chunks": 9, "behind": 1}

    def on_forward(batch: Batch, tree: Tree) -> Batch:
        body = batch.body or b"changed"
        if batch.first % 2:
            return Batch(batch.topic, batch.origin, batch.epoch, batch.first, batch.count, body)
        for field, value in spoilt.items():
            setattr(batch, field, value)
        batch.body = body
        return batch

    for seat in bench.by_closeness():
        bench.set_upcalls(seat, Upcalls(on_forward=on_forward))
    bench.subscribe(*bench.by_closeness()[1:])
    bench.wait(1)
    published = [bench.publish(seat) for seat in bench.by_closeness() for _ in range(4)]
    bench.wait(2 * bench.rendezvous.answer_timeout)  # which ends only if the messages do
    _expect_all_get(bench, published)
    for seat in bench.members:
        expect(len(seat.batches) == len(published), "no batch that nobody published")
        others = [one for one in seat.batches if one.origin != seat.peer.id]
        expect(all(one.body == b"changed" for one in others), "a changed body reaches all")


def on_join_is_told_each_member_once(make: Make, random: Random) -> None:
    """Refreshing is not joining. Whoever forwards joins as well."""
    bench = Bench(make, random)
    joined: list[tuple[Id, Id]] = []
    for seat in bench.by_closeness():
        upcalls = Upcalls(on_join=lambda join, tree: joined.append((tree.me.id, join.peer.id)))
        bench.set_upcalls(seat, upcalls)
    bench.subscribe(*bench.far)
    bench.wait(1)
    bench.wait_refreshed()
    members = [member for _, member in joined]
    # A mesh's member has several that feed it: each of them is told, once.
    told = joined if bench.mesh else members
    expect(len(told) == len(set(told)), "on_join: once for each")
    expect({seat.peer.id for seat in bench.far} <= set(members), "on_join: for each member")


def a_raising_upcall_does_no_harm(make: Make, random: Random) -> None:
    """It is as if it were absent for that call, and it is noted."""

    def broken(*_: object) -> Batch | None:
        raise RuntimeError("the application's mistake")

    bench = Bench(make, random)
    for seat in bench.by_closeness():
        bench.set_upcalls(seat, Upcalls(broken, broken, broken, broken, broken))  # type: ignore[arg-type]
    bench.subscribe(*bench.by_closeness()[1:])
    bench.wait(1)
    _expect_works(bench)
    bench.kill(_that_feed(bench, 1)[0])
    bench.wait(2 * bench.rendezvous.answer_timeout)
    _expect_works(bench)
    for upcall in ("on_forward", "on_join", "on_fault"):
        expect(any(upcall in error for error in bench.upcall_errors), f"{upcall} was not called")


def a_wrong_answer_of_an_upcall_does_no_harm(make: Make, random: Random) -> None:
    """No batch where one is expected, no note, nothing that can be sent: as if the upcall had raised."""
    answers: list[object] = ["text", True, b"bytes", 7]

    def on_forward(batch: Batch, tree: Tree) -> object:
        if batch.first == len(answers):
            return msgspec.structs.replace(batch, body="text")
        return answers[batch.first] if batch.first < len(answers) else batch

    def on_join(join: Joining, tree: Tree) -> None:
        tree.tell(join.peer, "text")  # type: ignore[arg-type]

    def on_fault(join: Joining, tree: Tree) -> None:
        join.note = random.choice([None, "text", bytes(2000)])  # type: ignore[assignment]

    bench = Bench(make, random)
    for seat in bench.by_closeness():
        bench.set_upcalls(seat, Upcalls(on_forward, on_join, on_fault))  # type: ignore[arg-type]
    bench.subscribe(*bench.by_closeness()[1:])
    bench.wait(1)
    published = [bench.publish(bench.far[0]) for _ in range(6)]
    bench.wait(2 * bench.rendezvous.answer_timeout)
    _expect_all_get(bench, published)
    bench.kill(_that_feed(bench, 1)[0])
    bench.wait(2 * bench.rendezvous.answer_timeout)
    _expect_works(bench)
    for upcall in ("on_forward", "on_join", "on_fault"):
        expect(any(upcall in error for error in bench.upcall_errors), f"{upcall} was not reported")


def a_repair_carries_the_note_of_on_fault(make: Make, random: Random) -> None:
    """What a node adds to its join, its new parent reads; a first join carries none."""
    bench = Bench(make, random)
    notes: list[bytes] = []

    def on_fault(join: Joining, tree: Tree) -> None:
        join.note = b"lost " + join.peer.address.encode()

    upcalls = Upcalls(on_fault=on_fault, on_join=lambda join, _: notes.append(join.note))
    for seat in bench.by_closeness():
        bench.set_upcalls(seat, upcalls)
    bench.subscribe(*bench.far)
    bench.wait(1)
    expect(set(notes) == {b""}, "a first join has no note")
    notes.clear()
    for failed in _that_feed(bench, 3):  # at least one of them feeds somebody who must join anew
        bench.kill(failed)
        bench.wait(2 * bench.rendezvous.answer_timeout)
    expect(any(note.startswith(b"lost ") for note in notes), "on_fault's note reaches on_join")


def neighbours_tell_each_other_notes(make: Make, random: Random) -> None:
    """Down when a child joins, up as the answer, and later by a timer; too long a note is refused."""
    bench = Bench(make, random)
    heard: list[bytes] = []

    def on_join(join: Joining, tree: Tree) -> None:
        expect(join.peer in tree.children, "on_join comes after the child was added")
        if join.peer.id != tree.me.id:
            tree.tell(join.peer, b"welcome")
            tree.set_timer(5.0, 7)

    def on_note(peer: Peer, note: bytes, tree: Tree) -> None:
        heard.append(note)
        if note == b"welcome":
            expect(tree.parent == peer, "the parent said so")
            tree.tell(peer, b"thanks")
        elif note == b"thanks":
            tree.tell(peer, b"never mind")
            tree.tell(peer, bytes(2000))

    def on_timer(token: int, tree: Tree) -> None:
        heard.append(b"timer %d" % token)

    upcalls = Upcalls(on_join=on_join, on_note=on_note, on_timer=on_timer)
    for seat in bench.by_closeness():
        bench.set_upcalls(seat, upcalls)
    bench.subscribe(*bench.far)
    bench.wait(1)
    expect(b"welcome" in heard and b"thanks" in heard, "notes go down and up")
    expect(b"timer 7" not in heard, "a timer waits")
    bench.wait(5)
    expect(b"timer 7" in heard, "a timer fires")
    expect(any("at most" in error for error in bench.upcall_errors), "notes are bounded")
    expect(b"never mind" not in heard, "what a raising upcall asked for is not done")


def members_are_counted(make: Make, random: Random) -> None:
    """At the owner and from afar, also after members came and went."""
    bench = Bench(make, random)
    bench.subscribe(*bench.far)
    bench.wait(1)
    bench.unsubscribe(bench.far[0])
    bench.settle()
    if bench.ways:
        bench.wait(2 * bench.rendezvous.answer_timeout)  # whom it fed must find others first
    for seat in (bench.owner, bench.far[0], bench.far[1]):
        seat.events.clear()
        bench.count_members(seat)
        bench.settle()
        told = [one.count for one in seat.events if isinstance(one, Members)]
        expect(told == [len(bench.members)], f"Members: expected {len(bench.members)}, got {told}")


def tables_are_bounded(make: Make, random: Random) -> None:
    """No node keeps more members than it may; who is turned away is counted."""
    rendezvous = RendezvousConfig(max_members=3)
    bench = Bench(make, random, rendezvous=rendezvous)
    bench.subscribe(*bench.far)
    bench.wait_refreshed()
    for seat in bench.by_closeness():
        kept = len(seat.strategy.kept) if seat.strategy is not None else 0
        bound = 2 * 3 + 2 if bench.mesh else 3 + 1  # a mesh has two views, and contacts
        expect(kept <= bound, "at most max_members, and the way to the root")
    dropped = [one for seat in bench.by_closeness() for one in heard(seat, Dropped)]
    all_in = all(heard(seat, Ready) for seat in bench.members)
    expect(all_in or bool(dropped), "a member that was turned away is counted")
    _publish_from_all(bench)
    bench.settle()


def silent_members_are_forgotten(make: Make, random: Random) -> None:
    """A member that dies unseen costs nothing after a while."""
    bench = Bench(make, random)
    bench.subscribe(*bench.far)
    bench.wait(1)
    gone = bench.far[0]
    bench.vanish(gone)
    bench.wait(2 * bench.rendezvous.expire_after)
    for seat in bench.by_closeness():
        kept = seat.strategy.kept if seat.strategy is not None else ()
        expect(gone.peer.id not in [peer.id for peer in kept], "a silent member is still kept")
    _expect_works(bench)


def what_nobody_needs_is_idle(make: Make, random: Random) -> None:
    """When the last member has left, every node may forget the topic."""
    bench = Bench(make, random)
    bench.subscribe(*bench.far, bench.owner)
    bench.wait(1)
    bench.publish(bench.far[0])
    bench.settle()
    for seat in bench.members:
        expect(seat.strategy is not None and not seat.strategy.idle, "a member is not idle")
    expect(bench.owner.strategy is not None and not bench.owner.strategy.idle, "nor is the root")
    bench.unsubscribe(*bench.members)
    bench.settle()
    bench.wait(2 * bench.rendezvous.expire_after)
    for seat in bench.by_closeness():
        expect(seat.strategy is None or seat.strategy.idle, "not idle although nobody is a member")
    bench.subscribe(*bench.far[:2])
    bench.wait(1)
    _expect_works(bench)


CHECKS: dict[str, Callable[[Make, Random], None]] = {
    check.__name__: check
    for check in (
        every_member_gets_every_batch_once,
        ready_is_announced_once,
        what_follows_ready_arrives,
        sent_is_announced_for_every_own_batch,
        unsubscribing_stops_delivery,
        publishing_before_the_root_is_known_is_held,
        what_is_held_is_bounded,
        a_failed_root_is_replaced,
        a_root_that_fails_unseen_is_replaced,
        a_closer_node_takes_over,
        churn_never_repeats_a_batch,
        a_late_member_gets_the_last_messages_it_asks_for,
        on_forward_changes_or_stops,
        what_on_forward_returns_is_the_same_batch,
        on_join_is_told_each_member_once,
        a_raising_upcall_does_no_harm,
        a_wrong_answer_of_an_upcall_does_no_harm,
        a_repair_carries_the_note_of_on_fault,
        neighbours_tell_each_other_notes,
        members_are_counted,
        tables_are_bounded,
        silent_members_are_forgotten,
        what_nobody_needs_is_idle,
    )
}


def check_strategy(make: Make, random: Random) -> None:
    """Run every check; raises AssertionError with what was broken."""
    for check in CHECKS.values():
        check(make, random)
