"""Simulated runs through the real writer: the analysis agrees with a count taken from outside.

The count knows what was published, what each subscriber was given, in order, and what came in over links;
nothing of the trace.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from overlaymq.events import Received
from overlaymq.ids import text
from overlaymq.messages import Batch
from overlaymq.sim.topics import Outcome, Plan, Reader, Topics
from overlaymq.sim.tracing import traced
from overlaymq.trace.analysis import reading, whole
from tests.receptions import Receptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.faults import Fate

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark

PLANS = {
    "lossy": Plan(seconds=8.0, loss=0.02, doubled=0.05, seed=1),
    "calm": Plan(seconds=4.0, seed=2, crash=False),
}
GRACE = 1.0


class Links:
    """What came in over links, by topic."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._of: dict[tuple[Id, str], Receptions] = {}
        topics.simulation.on_input = self._came
        topics.simulation.on_send = self._went

    def _at(self, host: Host) -> list[Receptions]:
        me = host.peer.id
        for topic in self._topics.topics:
            if (me, topic.name) not in self._of:
                readers = {(one.node, one.topic) for one in self._topics.outcome.readers}
                self._of[me, topic.name] = Receptions(
                    me,
                    topic.id,
                    topic.strategy,
                    ordered=topic.reliability == "ordered",
                    reads=(text(me), topic.name) in readers,
                )
        return [self._of[me, topic.name] for topic in self._topics.topics]

    def _came(self, now: float, host: Host, input_: Any) -> None:
        # Before the first batch all have subscribed.
        if isinstance(input_, Received) and isinstance(input_.message, Batch):
            for one in self._at(host):
                one.came(input_.message)

    def _went(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        for (node, _), one in self._of.items():
            if node == host.peer.id:
                one.went(message)

    def found(self) -> dict[str, tuple[int, int]]:
        """Received, and of that again, by topic."""
        sums: dict[str, tuple[int, int]] = {}
        for (_, topic), one in self._of.items():
            received, again = sums.get(topic, (0, 0))
            sums[topic] = received + one.received, again + one.again
        return sums


class Simulated(msgspec.Struct):
    outcomes: dict[str, Outcome]
    links: dict[str, Links]
    found: whole.Found

    def rows(self, table: str, run: str) -> list[dict[str, Any]]:
        return [row for row in self.found.tables[table].data.to_pylist() if row["run"] == run]


@pytest.fixture(scope="module")
def simulated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    directory = tmp_path_factory.mktemp("simulated")
    outcomes, links = {}, {}
    for name, plan in PLANS.items():
        topics = Topics(plan)
        links[name] = Links(topics)
        with traced(topics.simulation, directory, name) as trace:
            outcomes[name] = topics.run(trace)
    found = whole.analyse(reading.read(spark, [str(directory)]), grace=GRACE)
    return Simulated(outcomes, links, found)


def survivors(outcome: Outcome) -> list[Reader]:
    return [reader for reader in outcome.readers if reader.node != outcome.crashed]


@pytest.mark.parametrize("run", PLANS)
def test_losses_are_those_that_happened(simulated: Simulated, run: str) -> None:
    outcome = simulated.outcomes[run]
    true = {
        (reader.topic, origin, number, reader.node)
        for reader in survivors(outcome)
        for topic, origin, number, at in outcome.published
        if topic == reader.topic
        and reader.ready_at + GRACE <= at <= outcome.seconds - GRACE
        and (origin, number) not in set(reader.got)
    }
    found = {
        (row["topic"], row["origin"], row["seq"], row["node"])
        for row in simulated.rows("losses", run)
        if row["node"] != outcome.crashed
    }
    assert found == true
    assert bool(true) == (run == "lossy"), "one run loses, the other does not"


def test_the_killed_node_is_not_expected_after_its_death(simulated: Simulated) -> None:
    outcome = simulated.outcomes["lossy"]
    published = {(topic, origin, number): at for topic, origin, number, at in outcome.published}
    for row in simulated.rows("losses", "lossy"):
        if row["node"] == outcome.crashed:
            at = published[row["topic"], row["origin"], row["seq"]]
            assert at <= outcome.crashed_at - GRACE


@pytest.mark.parametrize("run", PLANS)
def test_order_and_repetitions_are_those_that_happened(simulated: Simulated, run: str) -> None:
    true: dict[tuple[str, str], tuple[int, int]] = {}
    for reader in simulated.outcomes[run].readers:
        highest: dict[str, int] = {}
        seen: Counter[tuple[str, int]] = Counter()
        late = 0
        for origin, number in reader.got:
            seen[origin, number] += 1
            late += number < highest.get(origin, -1) and seen[origin, number] == 1
            highest[origin] = max(number, highest.get(origin, -1))
        repeated = sum(count - 1 for count in seen.values())
        if late or repeated:
            true[reader.topic, reader.node] = (late, repeated)
    found = {
        (row["topic"], row["node"]): (row["late"], row["repeated"])
        for row in simulated.rows("order", run)
    }
    assert found == true
    promising = [row for row in simulated.rows("order", run) if row["reliability"] != "best_effort"]
    assert sum(row["violations"] for row in promising) == 0


@pytest.mark.parametrize("run", PLANS)
def test_duplicates_are_those_that_happened(simulated: Simulated, run: str) -> None:
    true = simulated.links[run].found()
    found = {
        row["topic"]: (row["received"], row["duplicates"])
        for row in simulated.rows("redundancy", run)
    }
    assert found == true
    assert bool(true["scribe"][1] + true["sv"][1]) == (run == "lossy"), "trees have none"


def test_a_loss_has_the_reason_of_who_discarded_it(simulated: Simulated) -> None:
    """What a subscriber got too late had the fate of some copy for its reason."""
    rows = simulated.rows("losses", "lossy")
    assert not {row["reason"] for row in rows} & {"passed", "doubled", "lost"}
    announced = [row for row in rows if row["announced"] and row["evidence"] == "subscriber"]
    assert all(row["reason"] == "late" for row in announced)


@pytest.mark.parametrize("run", PLANS)
def test_deliveries_are_those_that_happened(simulated: Simulated, run: str) -> None:
    outcome = simulated.outcomes[run]
    true = Counter(
        {
            (reader.topic, reader.node): len(set(reader.got))
            for reader in outcome.readers
            if reader.got
        }
    )
    found: Counter[tuple[object, object]] = Counter()
    for row in simulated.rows("subscribers", run):
        found[row["topic"], row["node"]] += row["delivered"]
    assert +found == true


def test_virtual_time_is_not_corrected(simulated: Simulated) -> None:
    assert simulated.found.tables["clocks"].rows == 0
    assert simulated.found.headline.negative == 0
    assert all(row["virtual"] for row in simulated.found.tables["runs"].data.to_pylist())


def test_the_crash_and_its_repairs_are_told(simulated: Simulated) -> None:
    outcome = simulated.outcomes["lossy"]
    [crash] = [row for row in simulated.rows("incidents", "lossy") if row["event"] == "FAULT"]
    assert (crash["node"], crash["reason"]) == (outcome.crashed, "crash")
    repairs = simulated.rows("repairs", "lossy")
    after = [row for row in repairs if row["at_s"] >= crash["at_s"] - 0.01]
    assert {row["topic"] for row in after if row["repaired"]} >= {"scribe", "sv"}
