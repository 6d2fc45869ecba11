"""Topologies in figures, from the command line.

    python -m overlaymq.sim.topology --seeds 10 [--fixed] [--no-routes] [--json]
    python -m overlaymq.sim.topology --mercator --seeds 3 [--json]

Prints each seed, the means, and the published figures. Exits with 1 if the means miss the bar of
``describe.meets_bar``; seeds that miss it alone are marked. Of Mercator-like networks the first column is the
published figure.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import msgspec

from overlaymq.sim.topology.describe import (
    DIRECTED_LINKS,
    MEAN_HOPS,
    MEAN_LINK_MS,
    ROUTERS,
    Figures,
    describe,
    meets_bar,
    overall,
)
from overlaymq.sim.topology.describe_internet import PUBLISHED, InternetFigures, describe_internet
from overlaymq.sim.topology.mercator import Mercator
from overlaymq.sim.topology.transit_stub import TransitStub

if TYPE_CHECKING:
    from collections.abc import Sequence


class Report(msgspec.Struct, frozen=True):
    """What ``--json`` prints."""

    seeds: list[Figures]
    overall: Figures
    ok: bool
    seeds_ok: int


HEADING = (
    f"{'seed':>9}{'routers':>9}{'links':>9}{'link ms':>9}{'hops':>7}{'delay ms':>10}{'max ms':>8}"
    f"{'degree':>8}  weights (diameters)"
)


def _line(name: str, figures: Figures, note: str = "") -> str:
    def cell(value: float | None, width: int, digits: int) -> str:
        return f"{'-' if value is None else format(value, f'.{digits}f'):>{width}}"

    weights = ", ".join(f"{weight:g}" for weight in figures.weights)
    diameters = ", ".join(f"{diameter:g}" for diameter in figures.diameters)
    return (
        f"{name:>9}{figures.routers:>9g}{figures.directed_links:>9.0f}{figures.mean_link_ms:>9.2f}"
        + cell(figures.mean_hops, 7, 2)
        + cell(figures.mean_delay_ms, 10, 0)
        + cell(figures.max_delay_ms, 8, 0)
        + f"{figures.mean_degree:>8.2f}  {weights} ({diameters}){note}"
    )


def _words(report: Report) -> str:
    lines = [HEADING]
    for figures in report.seeds:
        note = "" if meets_bar(figures) else "  misses alone"
        lines.append(_line(str(figures.seed), figures, note))
    lines.append(_line("mean", report.overall))
    lines.append(f"{'paper':>9}{ROUTERS:>9}{DIRECTED_LINKS:>9}{MEAN_LINK_MS:>9}{MEAN_HOPS:>7}")
    kinds = report.overall.kinds.items()
    lines.append(
        "links by kind (mean ms): "
        + ", ".join(
            f"{name} {kind.links:.0f}" + ("" if kind.mean_ms is None else f" ({kind.mean_ms:.1f})")
            for name, kind in kinds
        )
    )
    lines.append(
        f"degree: stub {report.overall.mean_stub_degree:.2f}, "
        f"transit {report.overall.mean_transit_degree:.2f}"
    )
    lines.append(
        f"the mean {'meets' if report.ok else 'misses'} the bar, "
        f"{report.seeds_ok} of {len(report.seeds)} seeds meet it alone"
    )
    return "\n".join(lines)


def _internet(seeds: int, as_json: bool) -> int:
    rows = [describe_internet(Mercator(seed), seed) for seed in range(1, seeds + 1)]
    if as_json:
        print(msgspec.json.encode({"seeds": rows, "published": PUBLISHED}).decode())
        return 0
    for name in InternetFigures.__struct_fields__:
        cells = "".join(f"{getattr(row, name):>12.6g}" for row in rows)
        print(f"{name:<22}{PUBLISHED.get(name, '-'):>12}{cells}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 0 if the means meet the bar."""
    parser = argparse.ArgumentParser(prog="python -m overlaymq.sim.topology")
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 1 on")
    parser.add_argument("--mercator", action="store_true", help="these instead of transit-stub")
    parser.add_argument("--fixed", action="store_true", help="without the generator's fault")
    parser.add_argument("--no-routes", action="store_true", help="no hops and delays: quick")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of words")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds: at least 1")
    if options.mercator:
        return _internet(options.seeds, options.json)
    rows = [
        describe(TransitStub(seed, faithful=not options.fixed), seed, not options.no_routes)
        for seed in range(1, options.seeds + 1)
    ]
    mean = overall(rows)
    report = Report(rows, mean, meets_bar(mean), sum(map(meets_bar, rows)))
    print(msgspec.json.encode(report).decode() if options.json else _words(report))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
