"""Scribe on a map of the Internet: the paper says that the results were comparable (JSAC IV.A).

The same groups are measured on our Mercator-like network and on a transit-stub network, and each figure is
given as the one over the other. The paper's map had no delays, so as in its authors' other work every link
takes equally long and distance is the number of links (protocols.md 6.5). Almost every node has a router to
itself there, so that tables take far longer to fill: 10,000 nodes are measured unless told otherwise, with
the groups of at least 11 members, the paper's smallest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlaymq.sim.experiments.base import Experiment, Findings, Series, Settings, cdf
from overlaymq.sim.experiments.scribe import GROUPS, measure
from overlaymq.sim.experiments.scribe_figures import PENALTIES, thinned
from overlaymq.sim.published import row
from overlaymq.sim.scribe_world import zipf_sizes
from overlaymq.sim.topology import TopologyNetwork, TransitStub
from overlaymq.sim.topology.mercator import Mercator, MercatorParameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.sim.experiments.scribe_figures import Found
    from overlaymq.sim.topology.graph import Topology

NODES = 10_000
SMALLEST = 11
HOP = 0.01
"""Seconds across every link: a guess, for only ratios are shown."""

FIGURES: dict[str, Callable[[Found], float]] = {
    "RAD": lambda one: float(np.median(one.average_penalty)),
    "RMD": lambda one: float(np.median(one.worst_penalty)),
    "tables": lambda one: float(one.tables.mean()),
    "entries": lambda one: float(one.entries.mean()),
    "links": lambda one: float(one.scribe.sum() / one.ip.sum()),
    "max": lambda one: float(one.scribe.max() / one.ip.max()),
}


WORDS = {
    "RAD": "median RAD",
    "RMD": "median RMD",
    "tables": "mean children tables",
    "entries": "mean children entries",
    "links": "messages of Scribe over those of IP multicast",
    "max": "max stress of Scribe over that of IP multicast",
}


def _mercator(seed: int) -> Topology:
    return Mercator(seed, MercatorParameters(fast=(HOP, HOP), slow=(HOP, HOP), inside=HOP))


TOPOLOGIES: dict[str, Callable[[int], Topology]] = {
    "transit-stub": TransitStub,
    "Mercator": _mercator,
}


def run(settings: Settings) -> Findings:
    """One network of each kind a run; means over runs."""
    found: dict[str, list[Found]] = {name: [] for name in TOPOLOGIES}
    sizes = [size for size in zipf_sizes(settings.nodes, GROUPS) if size >= SMALLEST]
    for seed in settings.seeds():
        for name, draw in TOPOLOGIES.items():

            def progress(stage: str, done: float, total: float, name: str = name) -> None:
                settings.progress(f"{name}: {stage}", done, total)

            network = TopologyNetwork(draw(seed), seed)
            found[name].append(measure(network, seed, settings.nodes, sizes, progress))
    rows = [row("SC-36/nodes", settings.nodes)]
    for part, of in FIGURES.items():
        ours = {name: float(np.mean([of(one) for one in all_])) for name, all_ in found.items()}
        rows.append(row(f"SC-36/{part}", ours["Mercator"] / ours["transit-stub"]))
        rows += [
            row(f"SC-36/{part}", value, metric=f"{WORDS[part]}, {name}")
            for name, value in ours.items()
        ]
    rows.append(row("SCRIBE-1", sum(one.faulty for all_ in found.values() for one in all_)))
    events = sum(one.events for all_ in found.values() for one in all_)
    return Findings(rows=rows, events=events, series=_series(found))


def _series(found: dict[str, list[Found]]) -> dict[str, Series]:
    curves = {}
    for name, all_ in found.items():
        for part, of in PENALTIES.items():
            values = np.concatenate([of(one) for one in all_])
            curves[f"{part}, {name}"] = thinned(cdf(values.tolist()))
    return {
        "delay": Series(
            title="Delay penalty relative to IP multicast per group",
            x_label="delay penalty",
            y_label="share of groups",
            curves=curves,
            kind="cdf",
        )
    }


EXPERIMENT = Experiment(
    name="scribe-mercator",
    about="Scribe on a map of the Internet beside Scribe on a transit-stub network",
    ids=("SC-36",),
    nodes=NODES,
    run=run,
)
