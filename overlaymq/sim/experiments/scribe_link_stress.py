"""The part of the experiment `scribe` about its link stress."""

from __future__ import annotations

from overlaymq.sim.experiments.scribe import LINK_STRESS, experiment

EXPERIMENT = experiment(
    "scribe-link-stress", "messages over every physical link, 1,500 groups", LINK_STRESS
)
