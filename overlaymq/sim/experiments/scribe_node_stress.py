"""The part of the experiment `scribe` about its node stress."""

from __future__ import annotations

from overlaymq.sim.experiments.scribe import NODE_STRESS, experiment

EXPERIMENT = experiment(
    "scribe-node-stress", "children tables and entries of every node, 1,500 groups", NODE_STRESS
)
