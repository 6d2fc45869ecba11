"""The part of the experiment `scribe` about its delay."""

from __future__ import annotations

from overlaymq.sim.experiments.scribe import DELAY, experiment

EXPERIMENT = experiment("scribe-delay", "delay penalty of 1,500 groups over IP multicast", DELAY)
