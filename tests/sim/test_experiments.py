"""The frame of the experiments, and the statistics they rest on, against a dumb computation."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from overlaymq.errors import ConfigError
from overlaymq.ids import Id
from overlaymq.messages import Peer
from overlaymq.sim import oracle, reproduction
from overlaymq.sim.differences import DIFFERENCES
from overlaymq.sim.experiments import (
    figures,
    pastry_locality,
    pastry_oracle,
    pastry_replicas,
    pastry_routing,
    pastry_throughput,
    runner,
)
from overlaymq.sim.experiments.base import (
    Curve,
    Experiment,
    Findings,
    Row,
    Series,
    Settings,
    averaged,
    cdf,
    histogram,
)
from overlaymq.sim.experiments.configs import QUIET
from overlaymq.sim.experiments.lookups import (
    Lookup,
    Routes,
    delay_to,
    first_shared,
    random_lookups,
    stretch,
)
from overlaymq.sim.experiments.walk import closest, walk
from overlaymq.sim.network import ConstantDelay, PlaneDelay
from overlaymq.sim.published import SECTIONS, TARGETS, row
from overlaymq.sim.ring import Ring
from overlaymq.sim.topology import TopologyNetwork, TransitStub, TransitStubParameters

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
SMALL = TransitStubParameters(transit_domains=2, transit_routers=2, stubs=2, stub_routers=3)


def _experiment(*rows: Row) -> Experiment:
    def run(settings: Settings) -> Findings:
        return Findings(rows=list(rows), events=7)

    return Experiment(name="trial", about="", ids=(), nodes=5, run=run)


def _row(measured: float, low: float | None = None, high: float | None = None) -> Row:
    return Row(id="X-1", metric="m", published=1.0, measured=measured, low=low, high=high)


# --- the frame -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measured", "low", "high", "ok"),
    [
        (1.0, None, None, True),
        (1.0, 1.0, 1.0, True),
        (0.9, 1.0, None, False),
        (1.1, None, 1.0, False),
        (float("nan"), None, None, False),
    ],
)
def test_a_row_is_ok_within_its_range(
    measured: float, low: float | None, high: float | None, ok: bool
) -> None:
    assert _row(measured, low, high).ok is ok


def test_the_stored_object_has_exactly_the_agreed_keys() -> None:
    found = runner.run(_experiment(_row(2.0, 1.0)), seed=3).as_object()
    assert list(found) == [
        *("experiment", "seed", "nodes", "seconds", "peak_rss_mb", "events", "rows")
    ]
    assert found["rows"] == [
        {
            **{"id": "X-1", "metric": "m", "published": 1.0, "measured": 2.0},
            **{"low": 1.0, "high": None, "ok": True},
        }
    ]
    assert (found["experiment"], found["seed"], found["nodes"], found["events"]) == (
        *("trial", 3, 5, 7),
    )
    assert found["peak_rss_mb"] > 1


def test_a_value_that_is_no_number_is_null_and_not_ok() -> None:
    outcome = runner.run(_experiment(_row(float("nan"))))
    assert json.loads(json.dumps(outcome.as_object()))["rows"][0]["measured"] is None
    assert not outcome.ok


def test_each_run_has_a_seed_of_its_own() -> None:
    assert list(Settings(nodes=1, seed=5, runs=3).seeds()) == [5, 6, 7]


def test_rows_are_averaged_over_runs() -> None:
    same = Row(id="X-2", metric="m", published=1.0, measured=0.0)

    def run(settings: Settings) -> Findings:
        return Findings(rows=[_row(float(settings.seed)), same], events=settings.seed)

    found = averaged(run)(Settings(nodes=1, seed=4, runs=3))
    assert [row.measured for row in found.rows] == [5.0, 0.0]
    assert found.events == 4 + 5 + 6


def test_every_experiment_names_known_figures() -> None:
    ids = {target.id for target in TARGETS.values()}
    for experiment in runner.experiments().values():
        assert set(experiment.ids) <= ids, experiment.name


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="pastry-routing"):
        runner.named("pastry-rooting")


# --- statistics ------------------------------------------------------------------------------------


def test_cdf_is_the_share_of_values_not_larger() -> None:
    values = [random.Random(1).choice([1.0, 2.5, 3.0, 7.0]) for _ in range(50)]
    curve = cdf(values)
    assert list(curve.x) == sorted(set(values))
    for x, y in zip(curve.x, curve.y, strict=True):
        assert y == sum(value <= x for value in values) / len(values)


def test_histogram_counts_shares() -> None:
    assert histogram([0, 2, 2, 3]) == Curve(range(4), [0.25, 0.0, 0.5, 0.25])


def test_the_largest_difference_of_two_distributions() -> None:
    chance = random.Random(2)
    one = [chance.randrange(6) for _ in range(300)]
    other = [chance.randrange(1, 8) for _ in range(200)]
    dumb = max(
        abs(sum(v <= x for v in one) / 300 - sum(v <= x for v in other) / 200) for x in range(9)
    )
    assert pastry_oracle.largest_difference(one, other) == pytest.approx(dumb)


def test_stretch_in_both_ways() -> None:
    near, far = Peer(Id(1), "near"), Peer(Id(2), "far")
    network = ConstantDelay(0.5)
    lookups = [Lookup(near, far, 2, 1.0), Lookup(near, far, 1, 0.5), Lookup(far, far, 0, 0.0)]
    found = stretch(network, lookups)
    assert found.ratios == [2.0, 1.0]
    assert (found.of_means, found.mean) == (1.5, 1.5)


def test_a_lookup_takes_the_sum_of_its_hops() -> None:
    ring = Ring(1, PlaneDelay(), QUIET)
    oracle.build(ring, 200)
    routes = Routes(ring)
    delay = ring.simulation.network.delay
    for number, lookup in enumerate(random_lookups(ring, 50)):
        passed = routes.pop(number)
        hops = [delay(here.address, there.address) for here, there in pairwise(passed)]
        assert len(hops) == lookup.hops
        assert lookup.seconds == pytest.approx(sum(hops))


def test_routes_merge_at_the_first_node_of_both() -> None:
    a, b, c, d, e = (Peer(Id(number), str(number)) for number in range(5))
    network = ConstantDelay(1.0)
    assert first_shared([a, b, c, e], [d, c, e]) is c
    assert delay_to(network, [a, b, c, e], c) == 2.0
    assert delay_to(network, [a, b], a) == 0.0


def test_quality_counts_slots_against_everyone() -> None:
    """Reference: Pastry Middleware 2001, routing table quality (P4)."""
    ring = Ring(1, PlaneDelay())
    ring.grow(60, 1.0)
    assert ring.settle()
    peers = [node.pastry.me for node in ring.nodes.values()]
    twin = Ring(1, ring.simulation.network)
    oracle.build(twin, peers)
    levels = pastry_oracle.quality(ring, twin)
    delay = ring.simulation.network.delay
    slots: dict[int, int] = {}
    optimal: dict[int, int] = {}
    for node in ring.nodes.values():
        me, table = node.pastry.me, node.pastry.state.table
        fitting: dict[int, list[float]] = {}
        for peer in peers:
            if peer is not me:
                fitting.setdefault(table.slot(peer.id), []).append(delay(me.address, peer.address))
        for slot, away in fitting.items():
            level = slot >> table.bits
            entry = table.at(level, slot & 15)
            slots[level] = slots.get(level, 0) + 1
            best = entry is not None and delay(me.address, entry.address) <= min(away) * 1.000001
            optimal[level] = optimal.get(level, 0) + best
    assert [level.slots for level in levels] == [slots[n] for n in sorted(slots)]
    assert [level.optimal for level in levels] == [optimal[n] for n in sorted(optimal)]


# --- the experiments, small ------------------------------------------------------------------------


def test_routing_at_a_small_size_is_within_its_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference: Pastry Middleware 2001, P1; Scribe JSAC II, PA-1."""
    monkeypatch.setattr(pastry_routing, "TransitStub", lambda seed: TransitStub(seed, SMALL))
    outcome = runner.run(pastry_routing.EXPERIMENT, nodes=300)
    rows = {row.id: row for row in outcome.findings.rows}
    assert {"PA-1", "PA-2", "P1", "P9"} <= set(rows)
    assert rows["PA-1"].ok
    assert rows["P1"].ok
    assert outcome.findings.events > 0


def test_locality_measures_every_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference: Scribe JSAC II-A, PA-5 to PA-7."""

    def routers(seed: int) -> TopologyNetwork:
        return TopologyNetwork(TransitStub(seed, SMALL), seed)

    for name in ("transit-stub", "Mercator"):
        monkeypatch.setitem(pastry_locality.MODELS, name, routers)
    monkeypatch.setattr(pastry_locality, "PAIRS", 20)
    outcome = runner.run(pastry_locality.EXPERIMENT, nodes=100)
    assert {row.id for row in outcome.findings.rows} == {"P3", "PA-5", "PA-6", "PA-7"}
    assert all(row.measured >= 1 for row in outcome.findings.rows if row.id == "PA-5")
    assert set(outcome.findings.series) == {"stretch", "merging", "merging-ratio"}


def test_a_lookup_meets_the_first_replica_of_its_route_or_the_nearest_known() -> None:
    """Reference: Pastry Middleware 2001, P5."""
    outcome = runner.run(pastry_replicas.EXPERIMENT, nodes=300)
    rows = [row.measured for row in outcome.findings.rows]
    assert {row.id for row in outcome.findings.rows} == {"P5"}
    closest_alone, two_alone, closest_told, two_told = rows
    assert 1 / 5 < closest_alone < closest_told < 1, (
        "a random replica is the nearest in a fifth of cases"
    )
    assert closest_alone < two_alone < two_told < 1
    for curve in outcome.findings.series["replicas"].curves.values():
        assert sum(curve.y) == pytest.approx(1)


def test_throughput_counts_what_nodes_were_handed() -> None:
    """Reference: Pastry Middleware 2001, P8."""
    outcome = runner.run(pastry_throughput.EXPERIMENT, nodes=100)
    (found,) = outcome.findings.rows
    assert (found.id, found.low) == ("P8", 3000)
    assert found.measured > 0


def test_the_first_replica_is_that_of_the_route() -> None:
    ring = Ring(1, PlaneDelay(), pastry_replicas.CONFIG)
    oracle.build(ring, 200)
    ids, lookups, random = ring.ids(), pastry_replicas.Lookups(ring), ring.random
    for _ in range(50):
        key, start = Id(random.getrandbits(128)), ids[random.randrange(200)]
        replicas = closest(ids, key, 5)
        path = walk(ring.nodes, start, key).path
        expected = next(id_ for id_ in path if id_ in replicas)
        assert lookups.first(start, key, replicas, informed=False) == expected


def test_the_same_seed_gives_the_same_lookups_under_another_hash_seed() -> None:
    program = (
        "from overlaymq.sim import oracle; from overlaymq.sim.ring import Ring;"
        "from overlaymq.sim.network import PlaneDelay;"
        "from overlaymq.sim.experiments.lookups import random_lookups;"
        "ring = Ring(1, PlaneDelay()); oracle.build(ring, 80, with_timers=True);"
        "ring.grow(5, 1.0); print(random_lookups(ring, 100), ring.simulation.events)"
    )

    def run(hash_seed: str) -> bytes:
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True
        ).stdout

    assert run("1") == run("2")


# --- figures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cdf", "bars", "line"])
def test_a_figure_is_written_as_data_and_drawing(tmp_path: Path, kind: str) -> None:
    series = Series(
        title="t",
        x_label="x",
        y_label="y",
        curves={"one": Curve([1, 2], [0.5, 1.0]), "two": Curve([1], [1.0])},
        kind=kind,  # type: ignore[arg-type]
    )
    data, drawing = figures.write(tmp_path, "figure", series)
    with data.open() as file:
        assert list(csv.reader(file)) == [
            ["curve", "x", "y"],
            ["one", "1", "0.5"],
            ["one", "2", "1.0"],
            ["two", "1", "1.0"],
        ]
    assert drawing.read_bytes().startswith(b"\x89PNG")


# --- the report ------------------------------------------------------------------------------------


def test_the_report_is_what_the_stored_results_make() -> None:
    made = reproduction.report(reproduction.load(ROOT / "benchmarks" / "results"))
    assert (ROOT / "docs" / "reproduction.md").read_text() == made, "run: overlaymq sim report"


def test_the_report_lists_every_id() -> None:
    expected = [
        *(f"PA-{number}" for number in range(1, 9)),
        *(f"P{number}" for number in range(1, 10)),
        *(f"SC-{number}" for number in range(1, 41)),
        *(f"SM-{number}" for number in range(1, 25)),
        *(f"SV-{number}" for number in range(1, 21)),
    ]
    text = reproduction.report([])
    for id_ in expected:
        assert f"| {id_} |" in text


def _stored(make: Callable[[Row], Row], id_: str = "P3") -> list[reproduction.Result]:
    found = runner.run(_experiment(make(row(id_, 1.35)))).as_object()
    stored = json.dumps({"command": "overlaymq sim run trial", **found})
    return [msgspec.json.decode(stored, type=reproduction.Result)]


def test_the_report_shows_a_figure_beside_the_published_one() -> None:
    text = reproduction.report(_stored(lambda row: row))
    assert "| 1.3 to 1.4 | 1.35 | 1.3 to 1.4 | yes | trial |" in text


def test_a_miss_without_an_explanation_makes_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DIFFERENCES, "P3", raising=False)
    results = _stored(lambda row: Row(id=row.id, metric="m", published=1, measured=2, high=1))
    with pytest.raises(ConfigError, match="P3"):
        reproduction.report(results)


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"odd\.json"):
        reproduction.load(tmp_path)


def test_a_test_that_stands_for_a_figure_exists() -> None:
    for target in TARGETS.values():
        if target.test:
            file, _, name = target.test.partition("::")
            assert f"def {name}(" in (ROOT / file).read_text(), target.key


def test_no_figure_has_two_keys_and_sections_hold_all() -> None:
    keys = [target.key for targets in SECTIONS.values() for target in targets]
    assert len(keys) == len(set(keys)) == len(TARGETS)
