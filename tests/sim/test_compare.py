"""`overlaymq sim compare`: what it measures, in a small network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.sim.compare import IP, LABELS, WAYS, Measures, Workload, compare, repaired
from overlaymq.sim.compare_picture import draw
from overlaymq.sim.topology.transit_stub import TransitStubParameters

if TYPE_CHECKING:
    from pathlib import Path

SMALL = TransitStubParameters(transit_domains=2, stubs=2, stub_routers=5, unit=0.0005)
WORK = Workload(nodes=24, members=10, fail=0.3)


def test_the_ways_side_by_side(tmp_path: Path) -> None:
    """Reference: issue 6, `overlaymq sim compare`."""
    found = compare(WORK, routers=SMALL)
    assert set(found.ways) == {IP, *WAYS}
    assert set(LABELS) == set(Measures.__struct_fields__)
    for name in WAYS:
        way = found.ways[name]
        assert way.reach_before == way.reach_later == 1.0
        assert way.repair is not None
        assert way.rad >= 1.0
        assert (way.hops_mean or 0) >= 1.0
        assert len(found.reach[name]) == 30
    gossip, paper = found.ways["SCAMP"], found.ways["SCAMP paper"]
    assert (gossip.copies or 9) < 1.5 < (paper.copies or 0)
    assert gossip.unwilling == paper.unwilling == 0.0
    draw(tmp_path / "compare.png", found)
    assert (tmp_path / "compare.png").stat().st_size > 10_000
    again = msgspec.json.decode(msgspec.json.encode(found), type=type(found))
    assert again == found


def test_repaired_is_when_the_last_loss_was_over() -> None:
    """Reference: sim/compare.py, "Repair"."""
    assert repaired([(0.0, 1.0), (1.0, 1.0)]) == 0.0
    assert repaired([(0.0, 1.0), (1.0, 0.5), (2.0, 1.0)]) == 2.0
    assert repaired([(0.0, 1.0), (1.0, 0.5)]) is None
