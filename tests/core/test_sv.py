"""SV trees: the paper's figures as scenarios on maps drawn by hand, and what is ours."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from overlaymq.config import SvConfig
from overlaymq.core.dissemination.conformance_bench import TOPIC, Bench, heard
from overlaymq.core.dissemination.sv import Sv
from overlaymq.core.dissemination.sv.order import Order
from overlaymq.core.dissemination.sv.search import ASKED
from overlaymq.events import CreateGroup, Dropped, Members, ParentLost, Ready, Sent
from overlaymq.ids import Id
from overlaymq.messages import Batch, Beat, Handover, RootIs, SvCandidate, SvJoin, SvSize, TreeJoin
from tests.core.sv_map import Map

if TYPE_CHECKING:
    from overlaymq.messages import Peer

FIGURE_2 = "S1>N1 S3>N1 N1>V1 V1>N2 N2>R"
FIGURE_3 = "S3>N1 N1>S1 S1>R S2>R"
FIGURE_5 = "S2>N3 N3>N1 S3>N4 S4>N4 N4>N1 S5>N1 N1>R"
FIGURE_7 = "S1>N1 S2>N1 S3>N1 S4>N1 N1>R"


# --- the figures ---


def test_content_goes_around_who_does_not_want_it() -> None:
    """Reference: SV Figure 2, SV-19; by the RPF tree R is four hops from S1, by the forwarding tree two."""
    bench = Map(FIGURE_2, willing="V1")
    bench.join("S1")
    assert (bench.parent("S1"), bench.parent("V1")) == ("V1", "R")
    name = bench.publish(bench.seat("R"))
    bench.settle()
    assert bench.seat("S1").got[name] == 1
    assert bench.seat("S1").batches[0].hop == 2
    assert [bench.sv(one).role for one in ("N1", "N2", "V1")] == ["path", "path", "volunteer"]


def test_a_join_at_a_non_participant_is_given_to_who_is_fed_around_it() -> None:
    """Reference: SV Figure 2, section 3 "Node Joins"; S1 feeds S3, which N1 knows of."""
    bench = Map(FIGURE_2, willing="V1")
    bench.join("S1", "S3")
    assert bench.parent("S3") == "S1"
    assert not bench.sv("N1").children


def test_a_join_may_meet_the_forwarding_tree_at_its_first_hop() -> None:
    """Reference: SV 3.1.1, the simplest case."""
    bench = Map(FIGURE_3)
    bench.join("S1")
    assert bench.parent("S1") == "R"
    assert bench.group_of("S1") == {"S1", "R"}
    assert bench.rpf_children("R") == {"S1"}


def test_a_join_may_take_several_hops() -> None:
    """Reference: SV Figures 3 and 4; the link bypasses N1, the RPF tree does not."""
    bench = Map(FIGURE_3)
    bench.join("S1", "S2", "S3")
    assert bench.parent("S3") == "S1"
    assert bench.rpf_children("S1") == {"N1"}
    assert bench.rpf_children("N1") == {"S3"}
    assert bench.group_of("S3") == {"S3", "N1", "S1"}


def test_later_joins_are_sent_down_to_all_children_then_to_one() -> None:
    """Reference: SV Figure 5; N1 asks both branches, N4 only one of its two."""
    bench = Map(FIGURE_5)
    bench.join("S2", "S3", "S4")
    bench.joins.clear()
    bench.join("S5")
    assert bench.sent_to("N1") == {"N3", "N4"}
    assert bench.sent_to("N3") == {"S2"}
    assert len(bench.sent_to("N4")) == 1
    assert "R" not in bench.sent_to("N1"), "one join was sent up, and no other"


def test_the_first_candidate_wins_and_its_way_is_the_failure_group() -> None:
    """Reference: SV Figure 6, 3.2; of seeds in which S2 wins, the group is {S5, N1, N3, S2}."""
    winners = set()
    for seed in range(20):
        bench = Map(FIGURE_5, seed)
        bench.join("S2", "S3", "S5")
        winner = bench.parent("S5")
        winners.add(winner)
        between = {"S2": {"N3"}, "S3": {"N4"}}[winner or ""]
        assert bench.group_of("S5") == {"S5", "N1", winner, *between}
    assert winners == {"S2", "S3"}


def figure_7() -> Map:
    """S1 feeds S2, which feeds S3, which feeds S4: one of the ways in which candidates may win."""
    for seed in range(1000):
        bench = Map(FIGURE_7, seed)
        bench.join("S1", "S2", "S3", "S4")
        if [bench.parent(name) for name in ("S2", "S3", "S4")] == ["S1", "S2", "S3"]:
            return bench
    raise AssertionError("no such seed")


def test_who_feeds_others_is_not_led_to_those() -> None:
    """Reference: SV Figures 7 and 8, 3.2.2; S3 feeds S4, so its new join does not go there."""
    bench = figure_7()
    bench.joins.clear()
    bench.kill(bench.seat("S2"))
    bench.settle()
    asked = {target for one, target, ask in bench.joins if ask.path[0].address == "S3"}
    assert asked == {"N1", "S1"}
    bench.wait(5)
    assert bench.parent("S3") == "S1"


def test_those_below_a_rejoining_node_do_nothing() -> None:
    """Reference: SV 3, "Tree Repairs"; only the node whose link broke joins again."""
    bench = figure_7()
    link = bench.sv("S4").link
    bench.kill(bench.seat("S2"))
    bench.wait(5)
    assert bench.sv("S4").link == link
    assert not heard(bench.seat("S4"), ParentLost)
    assert len(heard(bench.seat("S3"), ParentLost)) == 1
    name = bench.publish(bench.seat("R"))
    bench.settle()
    assert [bench.seat(one).got[name] for one in ("S1", "S3", "S4")] == [1, 1, 1]


def test_the_order_is_transitive() -> None:
    """Reference: protocols.md 4.2; S2 feeds S4 through S3, so a join of S2 is led to neither."""
    bench = figure_7()
    bench.joins.clear()
    bench._fail_group(bench.sv("S2").link or Id(0))
    bench.settle()
    asked = {target for one, target, ask in bench.joins if ask.path[0].address == "S2"}
    assert asked == {"N1", "S1"}


# --- cleanup ---


def test_the_next_join_goes_up_when_the_link_of_the_first_is_gone() -> None:
    """Reference: SV 3.2.3; "if S1 failed then N1 would clear its 'sent up' state"."""
    bench = Map(FIGURE_7)
    bench.join("S1")
    bench.unsubscribe(bench.seat("S1"))
    bench.settle()
    assert bench.seat("N1").strategy is None, "nothing is left of it"
    bench.joins.clear()
    bench.join("S2")
    assert bench.parent("S2") == "R"
    assert bench.sent_to("N1") == {"R"}


def test_unsubscription_and_crash_clean_up_alike() -> None:
    """Reference: SV 3, "Node Departures": treated as if the departing node had failed."""
    left = []
    for crashes in (False, True):
        bench = figure_7()
        if crashes:
            bench.kill(bench.seat("S2"))
        else:
            bench.unsubscribe(bench.seat("S2"))
        bench.wait(5)
        left.append((bench.parent("S3"), bench.parent("S4"), bench.rpf_children("N1")))
    assert left[0] == left[1] == ("S1", "S3", {"S1", "S3", "S4"})


def test_a_node_of_the_rpf_tree_that_subscribes_sends_its_join_up() -> None:
    """Reference: protocols.md 4.2; N1 has sent one up already, but this one is its own."""
    bench = Map(FIGURE_7)
    bench.join("S1", "N1")
    assert bench.parent("N1") == "R"
    bench.join("S2")
    assert bench.parent("S2") == "N1"


def test_what_a_join_leaves_on_its_way_expires() -> None:
    """Reference: protocols.md 4.2, "tentative state must expire"."""
    bench = Map(FIGURE_3)
    bench.subscribe(bench.seat("S3"))
    bench.step(2)
    while not bench.sv("N1").rpf_children:
        bench.step(2)
    bench.vanish(bench.seat("S3"))
    bench.settle()
    assert bench.rpf_children("N1") == {"S3"}
    bench.wait(11)
    assert bench.seat("N1").strategy is None


def test_a_join_is_tried_again_later_and_later() -> None:
    """Reference: SV 3.2.4; a dead end costs time, not the subscription."""
    bench = Map(FIGURE_3)
    bench.routing = False
    bench.subscribe(bench.seat("S3"))
    bench.wait(20)
    assert not heard(bench.seat("S3"), Ready)
    assert bench.sv("S3")._tries in (2, 3), "after about 2, 4 and 8 seconds"
    bench.routing = True
    bench.wait(20)
    assert heard(bench.seat("S3"), Ready)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12), st.integers(0, 6))
def test_order_is_the_transitive_closure(edges: list[tuple[int, int]], start: int) -> None:
    """Against a dumb twin: whatever is reached by repeating single steps."""
    order = Order()
    for number, (feeds, fed) in enumerate(edges):
        order.add(Id(number), Id(feeds), Id(fed))
    reached = {start}
    for _ in range(8):
        reached |= {fed for feeds, fed in edges if feeds in reached}
    assert order.fed_by(Id(start)) == reached
    for number in range(len(edges)):
        order.remove(Id(number))
    assert order.fed_by(Id(start)) == {start}


# --- beats ---


def test_who_feeds_others_takes_only_a_newer_beat() -> None:
    """Ours: a candidate from below has no newer beat than the node above it."""
    bench = figure_7()
    bench.routing = False
    bench.kill(bench.seat("S2"))
    bench.settle()
    joiner = bench.sv("S3")
    assert joiner._attempt is not None
    beat = joiner.beat
    assert beat is not None
    below = bench.seat("S4").peer
    way = (bench.seat("S3").peer, bench.seat("N1").peer, below)
    offer = SvCandidate(TOPIC, joiner._attempt.link, beat, way)
    told = joiner.receive(below, offer, bench.now)
    assert [one.event for one in told] == [Dropped("candidate with an old beat")]  # type: ignore[union-attr]
    newer = msgspec.structs.replace(offer, beat=Beat(beat.epoch, beat.number + 1))
    assert joiner.receive(below, newer, bench.now) != told


def test_who_feeds_nobody_need_not_wait_for_a_beat() -> None:
    """Ours: it has no subtree that it could be led into."""
    bench = figure_7()
    bench._fail_group(bench.sv("S4").link or Id(0))
    bench.settle()
    assert bench.parent("S4") is not None, "no timer was needed"


def test_beats_flow_down_and_nobody_is_ahead_of_its_parent() -> None:
    bench = figure_7()
    bench.wait(11)
    beats = [bench.sv(name).beat for name in ("R", "S1", "S2", "S3", "S4")]
    assert all(beat is not None and beat.number > 1 for beat in beats)
    assert beats == sorted(beats, reverse=True)  # type: ignore[type-var]


def test_nobody_can_use_up_the_roots_beats() -> None:
    """Ours: a beat above the last number that can be sent would silence the root for ever."""
    bench = Map("S1>R S2>R")
    bench.join("S1")
    root, joiner = bench.sv("R"), bench.seat("S2").peer
    join = TreeJoin(TOPIC, joiner, root.descriptor)
    ask = SvJoin(join, Id(7), (joiner,), Beat((1 << 63) - 1, 1))
    told = root.deliver(ask, joiner, bench.now)
    assert [one.event for one in told] == [Dropped("impossible beat")]  # type: ignore[union-attr]
    assert root.beat is not None
    assert root.beat.epoch < 10


def test_children_cannot_claim_more_members_than_can_be_told() -> None:
    """The sum must fit a message, or the parent would be taken for the liar."""
    bench = Map("S1>R S2>R S3>R")
    bench.join("S1", "S2", "S3")
    root = bench.sv("R")
    for child in root.children:
        root.receive(child, SvSize(TOPIC, root._child_links[child.id], (1 << 63) - 1), bench.now)
    bench.count_members(bench.seat("R"))
    assert heard(bench.seat("R"), Members)[-1] == Members(TOPIC, 1 << 32)


# --- politeness ---


def test_a_former_root_refuses_and_the_publisher_sends_again() -> None:
    """Reference: issue 5, "old roots redirect"; nobody but publisher and root sends the batch."""
    bench = Map("S1>N1 P>N1 N1>R")
    bench.join("S1")
    publisher = bench.sv("P")
    former = bench.seat("N1").peer
    publisher.receive(former, RootIs(TOPIC, former, 0), bench.now)
    senders: list[Peer] = []
    receive = bench._receive

    def watch(seat: object, peer: Peer, message: object) -> None:
        if isinstance(message, Batch):
            senders.append(peer)
        receive(seat, peer, message)  # type: ignore[arg-type]

    bench._receive = watch  # type: ignore[method-assign]
    name = bench.publish(bench.seat("P"))
    bench.settle()
    assert bench.seat("S1").got[name] == 1
    assert [peer.address for peer in senders] == ["P", "P", "R"]
    assert len(heard(bench.seat("P"), Sent)) == 1, "it was sent once, as far as its receipt goes"


def test_a_root_that_is_root_no_more_gives_up_whom_it_fed() -> None:
    """Reference: issue 5, politeness; it is neither subscriber nor volunteer."""
    bench = Map("S1>R N1>R")
    bench.join("S1")
    former = bench.sv("R")
    assert former.children
    bench._perform(bench.seat("R"), former.root_changed(bench.seat("N1").peer, bench.now))
    assert not former.children
    assert former.role != "root"


def test_volunteers_do_not_count_as_subscribers() -> None:
    """Reference: issue 5, "volunteers forward without subscribing"."""
    bench = Map(FIGURE_2, willing="V1")
    bench.join("S1", "S3")
    bench.wait(1)
    bench.count_members(bench.seat("R"))
    assert heard(bench.seat("R"), Members)[-1] == Members(TOPIC, 2)
    name = bench.publish(bench.seat("S3"))
    bench.settle()
    assert bench.seat("S1").got[name] == 1
    assert not bench.seat("V1").got


def test_a_volunteer_that_stops_lets_those_it_fed_go() -> None:
    bench = Map(FIGURE_2)
    bench.volunteer("V1")
    bench.join("S1")
    assert bench.parent("S1") == "V1"
    bench.volunteer("V1", False)
    bench.wait(5)
    assert bench.parent("S1") == "R"
    assert bench.sv("V1").role == "path"


def test_a_late_joiner_gets_the_last_messages_from_who_feeds_it() -> None:
    """Reference: issue 5; history is with those who hold content anyway."""
    bench = Map(FIGURE_3)
    bench.join("S1")
    names = [bench.publish(bench.seat("S2")) for _ in range(4)]
    bench.settle()
    bench.subscribe(bench.seat("S3"), last=2)
    bench.settle()
    assert bench.parent("S3") == "S1"
    assert [bench.seat("S3").got[name] for name in names] == [0, 0, 1, 1]


def narrow(routes: str, children: int, seed: int = 0) -> Map:
    """A map on which nobody feeds more than so many."""
    bench = Map(routes, seed)
    bench.sv_config = SvConfig(max_children=children)
    return bench


def test_a_full_root_asks_those_that_it_feeds_about_a_join() -> None:
    """Ours: `sv.max_children`; the way to who answers first, and so the failure group, leads through R."""
    winners = set()
    for seed in range(20):
        bench = narrow("S1>R S2>R S3>N1 N1>R", 2, seed)
        bench.join("S1", "S2")
        bench.joins.clear()
        bench.join("S3")
        assert bench.sent_to("R") == {"S1", "S2"}
        winner = bench.parent("S3")
        winners.add(winner)
        assert bench.group_of("S3") == {"S3", "N1", "R", winner}
    assert winners == {"S1", "S2"}


def test_a_full_root_with_many_children_asks_some() -> None:
    """Ours: one join does not cost as many messages as there are children."""
    names = [f"S{number}" for number in range(9)]
    asked = set()
    for seed in range(20):
        bench = narrow(" ".join(f"{name}>R" for name in names), 8, seed)
        bench.join(*names[:8])
        bench.joins.clear()
        bench.join(names[8])
        assert len(bench.sent_to("R")) == ASKED
        asked |= bench.sent_to("R")
    assert asked == set(names[:8])


def test_who_is_full_and_is_probed_asks_one_child() -> None:
    """Ours, as RPF children do (SV 3.1.2); if all were asked, a join would go to the whole tree."""
    for seed in range(10):
        bench = narrow("S1>R S2>S1 S3>S1 S4>R S5>R", 2, seed)
        bench.join("S1", "S2", "S3", "S4")
        bench.joins.clear()
        bench.join("S5")
        assert bench.sent_to("R") == {"S1", "S4"}
        assert len(bench.sent_to("S1")) == 1
        assert bench.sent_to("S1") < {"S2", "S3"}
        assert bench.parent("S5") in ("S2", "S3", "S4")


def crowd(size: int, children: int) -> Map:
    """So many join at R before anybody is fed; at no time does one feed more than it may."""
    names = [f"S{number}" for number in range(size)]
    bench = narrow(" ".join(f"{name}>R" for name in names), children)
    for name in names:
        bench.subscribe(bench.seat(name))
    for _ in range(40):
        bench.wait(0.05)
        assert all(len(bench.sv(name).children) <= children for name in [*names, "R"])
    sent = bench.publish(bench.seat("R"))
    bench.settle()
    assert [bench.seat(name).got[sent] for name in names] == [1] * size
    return bench


def test_a_crowd_does_not_overrun_the_bound() -> None:
    """Ours: whoever takes an offer that others were quicker to take tries again, and soon."""
    bench = crowd(30, 2)
    assert {ask.tries for _, _, ask in bench.joins} > {0}


def test_places_that_are_promised_count() -> None:
    """Ours: R offers no more than it has, so of a small crowd nobody has to try again."""
    assert {ask.tries for _, _, ask in crowd(10, 5).joins} == {0}


def test_a_place_that_has_become_free_is_taken_again() -> None:
    """Ours."""
    bench = narrow("S1>R S2>R S3>R", 1)
    bench.join("S1")
    bench.unsubscribe(bench.seat("S1"))
    bench.settle()
    bench.join("S2", "S3")
    assert (bench.parent("S2"), bench.parent("S3")) == ("R", "S2")


def test_who_comes_back_to_a_full_root_is_not_led_below_itself() -> None:
    """Ours, as SV Figures 7 and 8: S3 has taken the place of S1, which feeds S2. Its join is handed down, and
    only S3 has a newer beat that does not come from S1."""
    bench = narrow("S1>R S2>R S3>R", 1)
    bench.join("S1", "S2")
    bench.routing = False
    bench._fail_group(bench.sv("S1").link or Id(0))
    bench.settle()
    bench.routing = True
    bench.join("S3")
    bench.wait(20)
    above = {name: bench.parent(name) for name in ("S1", "S2", "S3")}
    assert above == {"S3": "R", "S1": "S3", "S2": "S1"}


def test_without_a_bound_of_its_own_the_general_one_counts() -> None:
    """Reference: `rendezvous.max_members`, which bounds every table of members."""
    for children, bound in ((0, 2), (3, 2), (1, 1)):
        bench = narrow("S1>R S2>R S3>R", children)
        bench.rendezvous = msgspec.structs.replace(bench.rendezvous, max_members=2)
        bench.join("S1", "S2", "S3")
        assert len(bench.sv("R").children) == bound


def test_an_answer_to_the_try_before_is_taken() -> None:
    """In a crowd, who is asked waits for a parent itself, and answers late: the joiner had begun again, threw
    the answer away, and waited anew. Reference: SV 3.1.2, the first candidate wins; sv-flash-crowd."""
    bench = Bench(Sv, Random(1))
    member, other = bench.far[:2]
    bench.routing = False
    bench.subscribe(member)
    joining = bench._strategy(member)
    assert isinstance(joining, Sv)
    links = []
    for _ in range(3):
        assert joining._attempt is not None
        links.append(joining._attempt.link)
        while joining._attempt.link == links[-1]:
            bench.wait(1)
    assert joining._attempt is not None
    now = joining._attempt.link
    way = (member.peer, other.peer)
    asked = []
    for link in (links[0], links[-1], now):  # too old, the one before, this one
        offer = SvCandidate(TOPIC, link, Beat(1, 1), way)
        effects = joining.receive(other.peer, offer, bench.now)
        asked += [one.group for one in effects if isinstance(one, CreateGroup)]
    assert asked == [links[-1]]


def test_who_becomes_the_root_takes_what_the_one_before_had_sent_it() -> None:
    """The news that it is the root overtook a message, which was then a stranger's. Reference: issue 5, "root
    change as in Scribe"."""
    bench = Bench(Sv, Random(1))
    root, heir = bench.by_closeness()[:2]
    bench.subscribe(heir, *bench.far[:2])
    bench.wait(1)
    place = bench._strategy(heir)
    assert isinstance(place, Sv)
    assert place.parent == root.peer
    name = bench.publish(root)
    handed = Handover(place.descriptor, (), 1, None, 2)
    bench._perform(heir, place.receive(root.peer, handed, bench.now))
    assert place.role == "root"
    bench.settle()
    assert heir.got[name] == 1
