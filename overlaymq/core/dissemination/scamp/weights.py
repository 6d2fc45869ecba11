"""Indirection: weights on arcs that lead a walk to any member alike (SCAMP 3.1).

A random walk over directed arcs ends more often at nodes that many hold. If the weights of the arcs that
leave each node sum to one, and so do those that enter it, the walk's limit is uniform. Scaling both sums
again and again, at each node on its own, leads there (iterative scaling): w_ij <- w_ij / sum over i's
partial view, then w_ji <- w_ji / sum over its in-view; the other end of each arc is told. New arcs begin
with the mean weight of their view. Algorithm 3 of the paper prints the two sums with their indices
exchanged; the formulas above it are meant, and these.

A walk begins with twice the size of the contact's view steps to go, each along an arc drawn by its weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

from overlaymq.messages import Peer

SMALLEST = 1e-9
"""No weight goes below this: an arc that is never taken could not recover. A guess."""


class Arc(msgspec.Struct, gc=False):
    """An entry of a view. ``time``: of the partial view, when its lease ends; of the in-view, when it was
    last heard."""

    peer: Peer
    weight: float = 1.0
    time: float = 0.0


def mean(arcs: Collection[Arc]) -> float:
    """What a new arc among these begins with."""
    return sum([arc.weight for arc in arcs]) / len(arcs) if arcs else 1.0


def scale(arcs: Collection[Arc]) -> None:
    """Make the weights sum to one."""
    total = sum([arc.weight for arc in arcs])
    if total <= 0:
        return
    for arc in arcs:
        arc.weight = max(arc.weight / total, SMALLEST)


def drawn(arcs: Collection[Arc], random: Random) -> Peer:
    """One of them, by weight."""
    mark = random.random() * sum([arc.weight for arc in arcs])
    for arc in arcs:
        mark -= arc.weight
        if mark <= 0:
            return arc.peer
    return arc.peer
