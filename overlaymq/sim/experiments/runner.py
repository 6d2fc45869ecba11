"""Finding experiments and running one: what it took, and the object that is stored.

The object's keys are fixed: experiment, seed, nodes, seconds, peak_rss_mb, events and rows, each row with
``ok``; a value that is no number is null there. Seconds are those of the wall; memory is the largest
resident set that the process ever had.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

import overlaymq.sim.experiments
from overlaymq.errors import ConfigError
from overlaymq.sim.experiments.base import Experiment, Settings, no_progress

if TYPE_CHECKING:
    from overlaymq.sim.experiments.base import Findings, Progress


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an experiment."""

    experiment: Experiment
    settings: Settings
    findings: Findings
    seconds: float
    peak_rss_mb: float

    @property
    def ok(self) -> bool:
        """Whether every row lies in its range."""
        return all(row.ok for row in self.findings.rows)

    def as_object(self) -> dict[str, Any]:
        """What is printed and stored."""
        return {
            "experiment": self.experiment.name,
            "seed": self.settings.seed,
            "nodes": self.settings.nodes,
            "seconds": round(self.seconds, 2),
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "events": self.findings.events,
            "rows": [
                {
                    "id": row.id,
                    "metric": row.metric,
                    "published": row.published,
                    "measured": row.measured if math.isfinite(row.measured) else None,
                    "low": row.low,
                    "high": row.high,
                    "ok": row.ok,
                }
                for row in self.findings.rows
            ],
        }


def experiments() -> dict[str, Experiment]:
    """Every experiment by its name: all modules of the package that have an ``EXPERIMENT``."""
    package = overlaymq.sim.experiments
    found: dict[str, Experiment] = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        experiment = getattr(
            importlib.import_module(f"{package.__name__}.{module.name}"), "EXPERIMENT", None
        )
        if experiment is not None:
            if experiment.name in found:
                raise ValueError(f"two experiments are called {experiment.name!r}")
            found[experiment.name] = experiment
    return dict(sorted(found.items()))


def named(name: str) -> Experiment:
    """An experiment, or an error that lists the names."""
    known = experiments()
    if name not in known:
        raise ConfigError(f"no experiment is called {name!r}; there are: {', '.join(known)}")
    return known[name]


def run(
    experiment: Experiment,
    *,
    nodes: int | None = None,
    seed: int = 1,
    runs: int | None = None,
    progress: Progress = no_progress,
) -> Outcome:
    """Run an experiment, as published unless told otherwise."""
    settings = Settings(
        nodes=nodes or experiment.nodes,
        seed=seed,
        runs=runs or experiment.runs,
        progress=progress,
    )
    started = time.perf_counter()
    findings = experiment.run(settings)
    return Outcome(
        experiment=experiment,
        settings=settings,
        findings=findings,
        seconds=time.perf_counter() - started,
        peak_rss_mb=peak_rss_mb(),
    )


def peak_rss_mb() -> float:
    """The largest resident set of this process so far, in MB of 10**6 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
