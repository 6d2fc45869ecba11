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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from overlaymq.sim.engine import Host

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark

PLANS = {
    "lossy": Plan(seconds=8.0, loss=0.02, doubled=0.05, seed=1),
    "calm": Plan(seconds=4.0, seed=2, crash=False),
}
GRACE = 1.0


class Links:
    """Messages that came in over links, and how many of them the node had already, by topic.

    A node has what came before, and its own where it comes by gossip: a tree brings that back once.
    Where the root does not order (SV here) a message whose way to the root was doubled is spread twice, under
    two numbers, and only those who subscribe to it know.
    """

    def __init__(self, topics: Topics) -> None:
        self.received: Counter[str] = Counter()
        self.again: Counter[str] = Counter()
        self._had: set[tuple[int, ...]] = set()
        self._names = {topic.id: topic.name for topic in topics.topics}
        self._topics = topics
        topics.simulation.on_input = self._watch

    def _watch(self, now: float, host: Host, input_: Any) -> None:
        if isinstance(input_, Received) and isinstance(input_.message, Batch):
            batch = input_.message
            topic = self._names[batch.topic]
            self.received[topic] += batch.count
            for number in range(batch.first, batch.last + 1):
                self.again[topic] += self._had_already(host, batch, topic, number)

    def _had_already(self, host: Host, batch: Batch, topic: str, number: int) -> bool:
        me = host.peer.id
        message = (me, batch.topic, batch.origin, batch.epoch, number)
        copy = (*message, batch.root, batch.root_epoch, batch.root_sequence)
        came, came_so = message in self._had, copy in self._had
        self._had |= {message, copy}
        own = batch.origin == me
        if topic == "sv":
            readers = self._topics.outcome.readers
            reader = any((one.node, one.topic) == (text(me), topic) for one in readers)
            return (came_so and batch.root_sequence > 0) or (came and reader and not own)
        return came or (own and topic == "scamp")


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
    links = simulated.links[run]
    found = {
        row["topic"]: (row["received"], row["duplicates"])
        for row in simulated.rows("redundancy", run)
    }
    assert found == {topic: (count, links.again[topic]) for topic, count in links.received.items()}
    assert bool(links.again["scribe"] + links.again["sv"]) == (run == "lossy"), "trees have none"


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
