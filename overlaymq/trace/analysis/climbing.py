"""From a subscriber up its tree, as the tree was when a message was published, and soon afterwards.

Sent to the workers of a cluster by value, as ``kernel`` is: pyarrow and the standard library alone.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Times = dict[tuple[str, bytes, bytes], list[tuple[int, bytes | None]]]
"""By (run, topic, node): from when on which parent, in the order of time."""

LATER = 10_000_000_000
"""Nanoseconds after a publication in which a new parent may still be on the message's way: a guess, longer
than a repair and a publisher's retry take together."""
HIGHEST = 64
"""Steps up at most: the way may be a circle while a tree is repaired."""


def climbed(batches: Iterable[pa.RecordBatch], times: Times) -> Iterator[pa.RecordBatch]:
    """Each row with every ancestor in turn, in the place of ``published_ns``."""
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            at = row.pop("published_ns")
            way = list(_way_up(row, at, times))
            for distance, ancestor in enumerate(way, 1):
                rows.append({**row, "distance": distance, "ancestor": ancestor, "later": False})
            for distance, ancestor in _later_ways(row, at, times, way):
                rows.append({**row, "distance": distance, "ancestor": ancestor, "later": True})
        fields = [field for field in batch.schema if field.name != "published_ns"]
        fields += [pa.field("distance", pa.int32()), pa.field("ancestor", pa.binary())]
        fields += [pa.field("later", pa.bool_())]
        yield pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))


def _way_up(row: dict[str, bytes], at: int, times: Times) -> Iterator[bytes]:
    node = row["node_id"]
    passed: set[bytes] = set()
    while len(passed) < HIGHEST and node not in passed:
        passed.add(node)
        changes = times.get((str(row["run_id"]), row["topic_id"], node), [])
        index = bisect_right(changes, at, key=lambda change: change[0])
        parent = changes[index - 1][1] if index else None
        if parent is None:
            return
        yield parent
        node = parent


def _later_ways(
    row: dict[str, bytes], at: int, times: Times, way: list[bytes]
) -> Iterator[tuple[int, bytes]]:
    """Those who came to be above a subscriber soon after ``at``, and were not before; the nearest first."""
    passed = {row["node_id"], *way}
    level = [row["node_id"], *way]
    distance = 0
    while level and len(passed) < HIGHEST:
        distance += 1
        above = []
        for node in level:
            changes = times.get((str(row["run_id"]), row["topic_id"], node), [])
            index = bisect_right(changes, at, key=lambda change: change[0])
            for when, parent in changes[max(0, index - 1) :]:
                if when <= at + LATER and parent is not None and parent not in passed:
                    passed.add(parent)
                    above.append(parent)
                    yield distance, parent
        level = above
