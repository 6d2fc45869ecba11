"""Whether our transit-stub networks are those of the Scribe paper, as far as it describes them.

It gives the numbers of routers and domains, the mean delay of a core link and, by way of its count of all
links, the number of core links. Networks differ from seed to seed, so the means over ten are compared, as
the paper's own results are means over ten. ``--nodes`` has no say: the paper fixes the routers.
"""

from __future__ import annotations

from overlaymq.sim.experiments.base import Curve, Experiment, Findings, Series, Settings
from overlaymq.sim.published import row
from overlaymq.sim.topology import TransitStub
from overlaymq.sim.topology.describe import ROUTERS, describe, overall


def run(settings: Settings) -> Findings:
    """Draw one network for each run."""
    found = []
    for done, seed in enumerate(settings.seeds()):
        settings.progress("drawing", done, settings.runs)
        found.append(describe(TransitStub(seed), seed, routes=False))
    means = overall(found)
    seeds = [float(seed) for seed in settings.seeds()]
    return Findings(
        rows=[
            row("SC-1", means.mean_link_ms),
            row("SC-2", max(abs(figures.routers - ROUTERS) for figures in found)),
            row("SC-2/links", means.directed_links),
        ],
        series={
            "links": Series(
                title="Mean core link of each network",
                x_label="seed",
                y_label="ms",
                curves={"measured": Curve(seeds, [figures.mean_link_ms for figures in found])},
                kind="bars",
            )
        },
    )


EXPERIMENT = Experiment(
    name="transit-stub",
    about="routers and links of the transit-stub networks, over ten of them",
    ids=("SC-1", "SC-2"),
    nodes=ROUTERS,
    runs=10,
    run=run,
)
