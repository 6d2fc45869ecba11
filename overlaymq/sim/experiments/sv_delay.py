"""The part of the experiment `sv` about its delays."""

from __future__ import annotations

from overlaymq.sim.experiments.sv import DELAY, experiment

EXPERIMENT = experiment(
    "sv-delay",
    "delay of SV and RPF trees over that of IP multicast, 16 to 4,096 subscribers",
    DELAY,
)
