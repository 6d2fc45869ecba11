"""What nodes of an ordered topic know of epochs before the present one: the last number of each, of some."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.messages import Epoch, Place, TreeStatus

PAST = 8
"""Epochs before the present one that are told: a guess, more than a repair's time sees."""


def left_out(status: TreeStatus, known: Iterable[Place]) -> list[tuple[Epoch, int, int]]:
    """What is known of epochs before this one, and its followers have not gone through.

    An epoch that is not the first had one before it: if none is told, it is not known what they know."""
    theirs = {place.epoch: place.sequence for place in status.past}
    if not theirs and status.last.epoch.counter > 1:
        return []
    return [
        (place.epoch, theirs.get(place.epoch, 0) + 1, place.sequence)
        for place in known
        if place.epoch < status.last.epoch and place.sequence > theirs.get(place.epoch, 0)
    ]


def merged(places: Iterable[Place], below: Epoch) -> tuple[Place, ...]:
    """The furthest place of each epoch before this one, the latest epochs first."""
    furthest: dict[Epoch, Place] = {}
    for place in places:
        known = furthest.get(place.epoch)
        if place.epoch < below and (known is None or place > known):
            furthest[place.epoch] = place
    return tuple(sorted(furthest.values(), reverse=True)[:PAST])
