"""Which messages of which origins have been seen: duplicate detection by (origin, epoch, sequence).

Sequence numbers of one origin are dense, so what has been seen is a few intervals, almost always one. The
memory is bounded: the least recently active origins are forgotten first, and an origin with too many
holes forgets its lowest ones (a message that would fill them counts as a duplicate).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlaymq.ids import Id

MAX_ORIGINS = 4096
MAX_INTERVALS = 256


class Seen:
    """Intervals of sequence numbers per (origin, epoch)."""

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        self._streams: OrderedDict[tuple[Id, int], list[tuple[int, int]]] = OrderedDict()

    def __contains__(self, message: tuple[Id, int, int]) -> bool:
        origin, epoch, sequence = message
        intervals = self._streams.get((origin, epoch), [])
        index = bisect_right(intervals, (sequence, float("inf"))) - 1
        return index >= 0 and intervals[index][1] >= sequence

    def covers(self, origin: Id, epoch: int, first: int, last: int) -> bool:
        """Whether all of a run was seen."""
        intervals = self._streams.get((origin, epoch), [])
        index = bisect_right(intervals, (first, float("inf"))) - 1
        return index >= 0 and intervals[index][1] >= last

    def add(self, origin: Id, epoch: int, first: int, last: int) -> bool:
        """Note a run of messages; False if its first was seen before."""
        if (origin, epoch, first) in self:
            return False
        intervals = self._stream(origin, epoch)
        if intervals and intervals[-1][1] == first - 1:
            intervals[-1] = (intervals[-1][0], last)
        else:
            self._insert(intervals, first, last)
        return True

    def merge(self, origin: Id, epoch: int, first: int, last: int) -> None:
        """Note a run, whatever of it was seen before."""
        self._insert(self._stream(origin, epoch), first, last)

    def latest(self, count: int) -> list[tuple[Id, int, int, int]]:
        """Runs as (origin, epoch, first, last): of the most recently active origins, the highest first."""
        runs = [
            (origin, epoch, first, last)
            for (origin, epoch), intervals in reversed(self._streams.items())
            for first, last in reversed(intervals)
        ]
        return runs[:count]

    def _stream(self, origin: Id, epoch: int) -> list[tuple[int, int]]:
        key = (origin, epoch)
        if key not in self._streams:
            self._streams[key] = []
            if len(self._streams) > MAX_ORIGINS:
                self._streams.popitem(last=False)
        self._streams.move_to_end(key)
        return self._streams[key]

    @staticmethod
    def _insert(intervals: list[tuple[int, int]], first: int, last: int) -> None:
        intervals.append((first, last))
        intervals.sort()
        merged: list[tuple[int, int]] = []
        for low, high in intervals:
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        if len(merged) > MAX_INTERVALS:
            merged[:2] = [(merged[0][0], merged[1][1])]
        intervals[:] = merged
