"""The part of the experiment `sv` about its link stress."""

from __future__ import annotations

from overlaymq.sim.experiments.sv import LINK_STRESS, experiment

EXPERIMENT = experiment(
    "sv-link-stress", "copies of a message on physical links, SV and RPF trees", LINK_STRESS
)
