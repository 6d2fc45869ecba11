"""What the settings promise: see the package's text for why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlaymq.config import FuseConfig


def repair_wait(config: FuseConfig) -> float:
    """How long a member waits for its root: one that is asking already goes on for A, pauses for W, and its
    question has A to arrive."""
    return 2 * config.answer_timeout + config.backoff_max


def install_wait(config: FuseConfig) -> float:
    """How long after it began to ask a root waits for all ways: A for the answers, A for the ways."""
    return 2 * config.answer_timeout


def notification_bound(config: FuseConfig, delay: float = 0.0) -> float:
    """B: within so many seconds of the first failure every member that is up is notified, if no message is
    under way for longer than ``delay``."""
    edges = config.max_hops * (config.edge_timeout + delay)
    root_knows = install_wait(config) + edges + config.backoff_max + config.answer_timeout
    return root_knows + edges + repair_wait(config) + 4 * delay
