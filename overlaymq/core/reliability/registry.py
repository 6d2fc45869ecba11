"""The reliability modes by name."""

from __future__ import annotations

from overlaymq.core.reliability.modes import BestEffort, Fifo
from overlaymq.core.reliability.ordered import Ordered

MODES: dict[str, type[BestEffort]] = {
    "best_effort": BestEffort,
    "fifo": Fifo,
    "ordered": Ordered,
}

NEEDS_TREE = ("ordered",)
"""Modes that work inside a tree: only for strategies that have one."""
