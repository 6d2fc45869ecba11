"""Delays counted in buckets whose width grows with the delay.

A sum of buckets does not depend on the order in which parts of a cluster add to it, so percentiles read off
them are the same on one machine and on many; and one count a bucket stands for any number of messages.
Each power of two is cut into 64 buckets: a value is known to 1.6 % of itself, its middle to 0.8 %.
Clocks that differ give negative delays. They have buckets of their own, below zero, and are not hidden.
The kernel counts (``kernel.buckets_of``); what is here reads the counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.trace.analysis.kernel import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable


def bounds_of(bucket: int) -> tuple[int, int]:
    """The smallest value of a bucket, and the first one beyond it."""
    if bucket < 0:
        low, high = bounds_of(-1 - bucket)
        return 1 - high, 1 - low
    exponent = max(bucket // STEPS - 1, 0)
    low = (bucket - exponent * STEPS) << exponent
    return low, low + (1 << exponent)


def middle_of(bucket: int) -> float:
    """The value that stands for a bucket."""
    low, high = bounds_of(bucket)
    return (low + high - 1) / 2


def percentile(counts: dict[int, int], share: float) -> float | None:
    """The value that ``share`` of all counted ones do not exceed; None of nothing."""
    total = sum(counts.values())
    wanted = share * total
    passed = 0
    for bucket in sorted(counts):
        passed += counts[bucket]
        if passed >= wanted and passed:
            return middle_of(bucket)
    return None


def cumulative(counts: dict[int, int], points: int = 200) -> list[tuple[float, float]]:
    """The distribution as (value, share not above it), thinned to about ``points``."""
    total = sum(counts.values())
    curve: list[tuple[float, float]] = []
    passed = 0
    told = -1.0
    for bucket in sorted(counts):
        passed += counts[bucket]
        share = passed / total
        if share - told >= 1 / points or passed == total:
            curve.append((float(bounds_of(bucket)[1] - 1), share))
            told = share
    return curve


def merged(rows: Iterable[tuple[int, int]]) -> dict[int, int]:
    """One histogram from rows of (bucket, count)."""
    counts: dict[int, int] = {}
    for bucket, count in rows:
        counts[bucket] = counts.get(bucket, 0) + count
    return counts
