"""The experiment `sv` on tables that prefer near nodes: what SV trees cost on Pastry as it is meant to be.

The paper's overlay probably did not know distances, so that each hop that an SV tree leaves out is worth a
mean way through the network. With Pastry's tables the first hops of a route are short, and an RPF tree takes
little longer than IP multicast. There is no published figure for this; the bar is the same.
"""

from __future__ import annotations

from overlaymq.sim.experiments import sv_figures as figures
from overlaymq.sim.experiments.base import Experiment, Findings, Settings
from overlaymq.sim.experiments.scribe_figures import Rows
from overlaymq.sim.experiments.sv import NODES, measure
from overlaymq.sim.experiments.sv_figures import of_rpf, of_sv

TREES = 1


def run(settings: Settings) -> Findings:
    """As `sv`, with one tree of each size."""
    found = measure(settings, TREES, proximity=True)
    rows = Rows([], judged=settings.nodes == NODES)
    for size in found.sizes:
        rows.add(f"SV-near/RPF {size}", found.over_ip(size, of_rpf))
        rows.add(f"SV-near/SV {size}", found.over_ip(size, of_sv))
    ratios = [found.over_ip(size, of_sv) / found.over_ip(size, of_rpf) for size in found.sizes]
    rows.add("SV-near/worst", max(ratios))
    rows.add("SV-16", found.impolite, always=True)
    return Findings(rows=rows.rows, events=found.events, series=figures.delay_series(found))


EXPERIMENT = Experiment(
    name="sv-proximity",
    about="delay of SV and RPF trees on tables that prefer near nodes",
    ids=("SV-near", "SV-16"),
    nodes=NODES,
    run=run,
)
