"""Messages followed from their publication to every subscriber, on columns.

Spark hands one function, ``follow``, all publications, deliveries and announced misses of a set of messages
(whole ones: what is known of a message is in one place). Everything is intervals: a row stands for a run
of messages, and a run may be published in one piece and delivered in several, or the other way round. A
delivery that the subscription then threw away (it had no room) is none: what is *untaken* is taken out of the
deliveries before anything is counted.

Publications are laid end to end on one axis, so that a message is a number, a run is an interval on the axis,
and a subscriber's share of the axis is one stretch of a longer one. What follows is sorting and searching.

This module is sent to the workers of a cluster by value: it may import nothing but numpy and pyarrow, which
they have, and not overlaymq, which they may not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

PUBLISHED, DELIVERED, MISSED, UNTAKEN = 0, 1, 2, 3
"""Kinds of rows that come in."""
DELAY, PATH, DUE, LOST = 0, 1, 2, 3
"""Kinds of rows that go out."""

SEQUENCE_BITS = 40
CELLS_AT_ONCE = 4_000_000
"""Bounds the memory of comparing publications with subscribers: a few bytes a pair. A guess."""

RESULT = pa.schema(
    [
        ("kind", pa.int32()),
        ("run_id", pa.string()),
        ("topic_id", pa.binary()),
        ("msg_origin", pa.binary()),
        ("msg_epoch", pa.int64()),
        ("msg_seq", pa.int64()),
        ("node_id", pa.binary()),
        ("boot_id", pa.int64()),
        ("hop", pa.int32()),
        ("bucket", pa.int32()),
        ("messages", pa.int64()),
        ("repeated", pa.int64()),
        ("unmatched", pa.int64()),
        ("delay_sum", pa.int64()),
        ("delay_least", pa.int64()),
        ("delay_most", pa.int64()),
        ("negative", pa.int64()),
        ("expected", pa.int64()),
        ("lost", pa.int64()),
        ("announced", pa.int64()),
        ("untaken", pa.int64()),
        ("uncertain", pa.int64()),
        ("published_ns", pa.int64()),
    ]
)
"""What comes out, all kinds in one shape; a column that a kind has no use for is zero or empty."""


@dataclass(frozen=True)
class Periods:
    """When nodes were subscribers of one topic, in corrected time: ``begins[i, k]`` of the k-th time."""

    nodes: list[bytes]
    boots: Ints
    begins: Ints
    ends: Ints
    receive_own: Mask


@dataclass(frozen=True)
class World:
    """What the analysis knows besides the rows."""

    offsets: dict[tuple[str, bytes], int] = field(default_factory=dict)
    """Of (run, node): its wall clock minus the common one."""
    periods: dict[tuple[str, bytes], Periods] = field(default_factory=dict)
    """By (run, topic)."""
    grace_ns: int = 1_000_000_000


def follow(batches: Iterable[pa.RecordBatch], world: World) -> Iterator[pa.RecordBatch]:
    """Delays, paths, what was due and what was lost, of the messages in ``batches``."""
    held = list(batches)
    if not held:
        return
    table = pa.Table.from_batches(held).combine_chunks()
    del held
    if table.num_rows:
        yield from _Messages(table, world).results()


def factorised(values: Ints) -> tuple[Ints, Ints]:
    """Codes from 0 in the place of values, and the value of each code."""
    coded = pc.dictionary_encode(pa.array(values))
    return _int64(coded.indices), _int64(coded.dictionary)


def _int64(column: Any) -> Ints:
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    result: Ints = flat.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return result


def _coded(column: Any) -> tuple[Ints, list[Any]]:
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = pc.dictionary_encode(flat)
    return _int64(coded.indices), coded.dictionary.to_pylist()


@dataclass(frozen=True)
class _Pieces:
    """Runs of rows cut where publications begin and end: each piece lies within one publication."""

    row: Ints
    publication: Ints
    begin: Ints
    end: Ints


class _Messages:
    """One set of messages and all that is known of them."""

    def __init__(self, table: pa.Table, world: World) -> None:
        self.world = world
        self._name_things(table)
        self._place_publications(table)
        self._cut_deliveries()

    def _name_things(self, table: pa.Table) -> None:
        """Small numbers in the place of ids."""
        run, self.runs = _coded(table["run_id"])
        topic, self.topics = _coded(table["topic_id"])
        self.origin, self.origins = _coded(table["msg_origin"])
        self.node, self.nodes = _coded(table["node_id"])
        epoch, self.epochs = factorised(_int64(table["msg_epoch"]))
        boot, self.boots = factorised(_int64(table["boot_id"]))
        self.place, places = factorised(run * len(self.topics) + topic)
        self.place_run, self.place_topic = np.divmod(places, len(self.topics))
        """A place is a topic of a run, a stream a publisher's life on a place, a reader a node's life."""
        stream = (self.place * len(self.origins) + self.origin) * len(self.epochs) + epoch
        self.stream, streams = factorised(stream)
        self.stream_epoch = self.epochs[streams % len(self.epochs)]
        self.stream_origin = streams // len(self.epochs) % len(self.origins)
        self.stream_place = streams // len(self.epochs) // len(self.origins)
        self.reader, readers = factorised(self.node * len(self.boots) + boot)
        self.reader_node, reader_boot = np.divmod(readers, len(self.boots))
        self.reader_boot = self.boots[reader_boot]
        self.reader_codes = {
            (self.nodes[node], int(boot)): code
            for code, (node, boot) in enumerate(
                zip(self.reader_node, self.reader_boot, strict=True)
            )
        }
        self.time = _int64(table["ts_wall_ns"]) - self._offsets(run)

    def _offsets(self, run: Ints) -> Ints:
        if not self.world.offsets:
            return np.zeros(1, dtype=np.int64)
        known = self.world.offsets
        grid = np.array(
            [[known.get((name, node), 0) for node in self.nodes] for name in self.runs],
            dtype=np.int64,
        )
        return grid[run, self.node]

    def _place_publications(self, table: pa.Table) -> None:
        """Lay the publications end to end; a message published twice counts where it was first."""
        kind = _int64(table["kind"])
        sequence = _int64(table["msg_seq"])
        self.hop = _int64(table["hop"])
        least = np.full(len(self.stream_epoch), np.iinfo(np.int64).max)
        np.minimum.at(least, self.stream, sequence)
        self.stream_least = least
        relative = sequence - least[self.stream]
        if relative.max(initial=0) >= 1 << SEQUENCE_BITS:
            raise ValueError("sequence numbers of one publisher are too far apart to analyse")
        self.low = (self.stream << SEQUENCE_BITS) + relative
        self.high = self.low + _int64(table["msg_count"])
        self.kind = kind
        rows = np.flatnonzero(kind == PUBLISHED)
        rows = rows[np.lexsort((self.time[rows], self.low[rows]))]
        begin, end = self.low[rows], self.high[rows]
        before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
        begin = np.maximum(begin, before)
        new = end > begin
        self.pub_row, self.pub_low, self.pub_high = rows[new], begin[new], end[new]
        self.pub_size = self.pub_high - self.pub_low
        self.pub_start = np.cumsum(self.pub_size) - self.pub_size
        self.axis = int(self.pub_size.sum()) + 1
        self.pub_time = self.time[self.pub_row]
        self.pub_stream = self.stream[self.pub_row]
        self.pub_place = self.place[self.pub_row]

    def _cut(self, rows: Ints) -> _Pieces:
        """The runs of rows, as far as they were published, on the axis."""
        low, high = self.low[rows], self.high[rows]
        first = np.searchsorted(self.pub_high, low, side="right")
        last = np.searchsorted(self.pub_low, high, side="left")
        number = np.maximum(last - first, 0)
        which = np.repeat(np.arange(len(rows)), number)
        within = np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number)
        publication = first[which] + within
        shift = self.pub_start[publication] - self.pub_low[publication]
        begin = np.maximum(low[which], self.pub_low[publication]) + shift
        end = np.minimum(high[which], self.pub_high[publication]) + shift
        return _Pieces(rows[which], publication, begin, end)

    def _cut_deliveries(self) -> None:
        """Deliveries in the order of (reader, message), and how much of each is new to its reader."""
        rows = np.flatnonzero(self.kind == DELIVERED)
        self.delivered_rows = rows
        pieces = self._cut(rows)
        matched = np.bincount(pieces.row, pieces.end - pieces.begin, minlength=len(self.kind))
        self.unmatched = (self.high - self.low)[rows] - matched[rows].astype(np.int64)
        row, publication = pieces.row, pieces.publication
        begin = self.reader[row] * self.axis + pieces.begin
        end = begin + pieces.end - pieces.begin
        order = np.argsort(begin, kind="stable")
        self.untaken = self._joined(UNTAKEN)
        twice = (begin[order][1:] < np.maximum.accumulate(end[order])[:-1]).any()
        if twice or len(self.untaken[0]):
            which, begin, end = _split(begin, end, np.concatenate((begin, end, *self.untaken)))
            taken = ~self._inside(*self.untaken, begin)
            row, publication = row[which[taken]], publication[which[taken]]
            begin, end = begin[taken], end[taken]
            # Of the same message twice, the earlier delivery is the delivery.
            order = np.lexsort((self.time[row], begin))
        self.piece_row = row[order]
        self.piece_publication = publication[order]
        self.piece_begin = begin[order]
        self.piece_end = end[order]
        before = np.concatenate(([0], np.maximum.accumulate(self.piece_end)[:-1]))
        self.piece_size = self.piece_end - self.piece_begin
        new_begin = np.maximum(self.piece_begin, before[: len(order)])
        self.piece_new = np.maximum(self.piece_end - new_begin, 0)
        self.piece_reader = self.reader[self.piece_row]

    def _joined(self, kind: int) -> tuple[Ints, Ints]:
        """The rows of one kind as intervals of (reader, message), in order and apart from each other."""
        pieces = self._cut(np.flatnonzero(self.kind == kind))
        begin = self.reader[pieces.row] * self.axis + pieces.begin
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], (begin + pieces.end - pieces.begin)[order]
        if not len(begin):
            return begin, end
        reach = np.maximum.accumulate(end)
        starts = np.flatnonzero(np.concatenate(([True], begin[1:] > reach[:-1])))
        return begin[starts], reach[np.concatenate((starts[1:] - 1, [len(end) - 1]))]

    def results(self) -> Iterator[pa.RecordBatch]:
        """Everything that is found, kind by kind."""
        delay = self.time[self.piece_row] - self.pub_time[self.piece_publication]
        yield from self._delays(delay)
        yield from self._paths(delay)
        yield from self._dues()

    def _batch(self, kind: int, size: int, **columns: Any) -> Iterator[pa.RecordBatch]:
        if not size:
            return
        arrays = []
        for one in RESULT:
            if one.name == "kind":
                arrays.append(pa.array(np.full(size, kind), type=one.type))
            elif one.name in columns:
                given = columns[one.name]
                arrays.append(given if isinstance(given, pa.Array) else pa.array(given, one.type))
            elif pa.types.is_integer(one.type):
                arrays.append(pa.array(np.zeros(size, dtype=np.int64), type=one.type))
            else:
                nothing = "" if pa.types.is_string(one.type) else b""
                arrays.append(pa.array([nothing] * size, type=one.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=RESULT)

    def _taken(self, names: list[Any], codes: Ints, kind: pa.DataType) -> pa.Array:
        return pa.array(names, type=kind).take(pa.array(codes))

    def _of_place(self, place: Ints) -> dict[str, pa.Array]:
        return {
            "run_id": self._taken(self.runs, self.place_run[place], pa.string()),
            "topic_id": self._taken(self.topics, self.place_topic[place], pa.binary()),
        }

    def _of_subscriber(self, periods: Periods, codes: Ints) -> dict[str, Any]:
        return {
            "node_id": self._taken(periods.nodes, codes, pa.binary()),
            "boot_id": periods.boots[codes],
        }

    def _delays(self, delay: Ints) -> Iterator[pa.RecordBatch]:
        """How many messages took how long over how many hops, by topic."""
        hop = self.hop[self.piece_row]
        local = (hop < 0) & (self._is_own(self.piece_row))
        hop = np.where(local, 0, hop)
        place = self.pub_place[self.piece_publication]
        new = self.piece_new > 0
        bucket = buckets_of(delay[new])
        if not len(bucket):
            return
        least, hops = int(bucket.min()), int(hop.max()) + 2
        width = int(bucket.max()) - least + 1
        codes, keys = factorised(((place[new] * hops) + hop[new] + 1) * width + bucket - least)
        total = np.bincount(codes, self.piece_new[new]).astype(np.int64)
        rest, found = np.divmod(keys, width)
        found_place, found_hop = np.divmod(rest, hops)
        yield from self._batch(
            DELAY,
            len(keys),
            **self._of_place(found_place),
            hop=found_hop - 1,
            bucket=found + least,
            messages=total,
        )

    def _is_own(self, rows: Ints) -> Mask:
        """Whether the node of a row is the origin of its messages."""
        code_of = {name: code for code, name in enumerate(self.origins)}
        same = np.array([code_of.get(name, -1) for name in self.nodes], dtype=np.int64)
        result: Mask = same[self.node[rows]] == self.origin[rows]
        return result

    def _paths(self, delay: Ints) -> Iterator[pa.RecordBatch]:
        """What each reader got from each publisher, how often twice, and how fast."""
        readers = len(self.reader_boot)
        whose = self.stream_place * len(self.origins) + self.stream_origin
        from_rows = whose[self.stream[self.delivered_rows]] * readers
        from_rows += self.reader[self.delivered_rows]
        codes, keys = factorised(from_rows)
        at = np.empty(len(self.kind), dtype=np.int64)
        at[self.delivered_rows] = codes
        code, new, size = at[self.piece_row], self.piece_new, len(keys)
        fresh = new > 0
        path, reader = np.divmod(keys, readers)
        place, origin = np.divmod(path, len(self.origins))
        least = np.full(size, np.iinfo(np.int64).max)
        most = np.full(size, np.iinfo(np.int64).min)
        np.minimum.at(least, code[fresh], delay[fresh])
        np.maximum.at(most, code[fresh], delay[fresh])
        summed = np.zeros(size, dtype=np.int64)
        np.add.at(summed, code, delay * new)
        yield from self._batch(
            PATH,
            size,
            **self._of_place(place),
            node_id=self._taken(self.nodes, self.reader_node[reader], pa.binary()),
            boot_id=self.reader_boot[reader],
            msg_origin=self._taken(self.origins, origin, pa.binary()),
            messages=_summed(code, new, size),
            repeated=_summed(code, self.piece_size - new, size),
            unmatched=_summed(codes, self.unmatched, size),
            delay_sum=summed,
            delay_least=least,
            delay_most=most,
            negative=_summed(code, np.where(delay < 0, new, 0), size),
        )

    def _dues(self) -> Iterator[pa.RecordBatch]:
        """What each subscriber should have got of each publisher, and the messages that it did not."""
        for place in np.unique(self.pub_place):
            topic = (self.runs[self.place_run[place]], self.topics[self.place_topic[place]])
            periods = self.world.periods.get(topic)
            if periods is not None and len(periods.nodes):
                publications = np.flatnonzero(self.pub_place == place)
                step = max(1, CELLS_AT_ONCE // max(1, periods.begins.size))
                for first in range(0, len(publications), step):
                    yield from self._due_of(place, periods, publications[first : first + step])

    def _due_of(self, place: int, periods: Periods, pubs: Ints) -> Iterator[pa.RecordBatch]:
        subscribers = len(periods.nodes)
        certain, possible = self._cells(periods, pubs)
        reader = np.array(
            [
                self.reader_codes.get((node, int(boot)), -1)
                for node, boot in zip(periods.nodes, periods.boots, strict=True)
            ],
            dtype=np.int64,
        )
        which, who = np.nonzero(possible)
        got = self._covered(reader[who], pubs[which])
        sure = certain[which, who]
        size = self.pub_size[pubs[which]]
        lost = np.where(sure, size - got, 0)
        cells = np.flatnonzero(lost)
        found = self._lost_messages(reader[who[cells]], pubs[which[cells]], got[cells])
        lost_who = who[cells][found[0]]
        lost_pub, message, announced, untaken = found[1:]
        origin = self.stream_origin[self.pub_stream[pubs[which]]]
        codes, keys = factorised(origin * subscribers + who)
        total = len(keys)
        key_origin, key_who = np.divmod(keys, subscribers)
        yield from self._batch(
            DUE,
            total,
            **self._of_place(np.full(total, place)),
            **self._of_subscriber(periods, key_who),
            msg_origin=self._taken(self.origins, key_origin, pa.binary()),
            expected=_summed(codes, np.where(sure, size, got), total),
            lost=_summed(codes, lost, total),
            uncertain=_summed(codes, np.where(sure, 0, got), total),
        )
        stream = self.pub_stream[lost_pub]
        offset = message - self.pub_start[lost_pub] + self.pub_low[lost_pub]
        yield from self._batch(
            LOST,
            len(message),
            **self._of_place(np.full(len(message), place)),
            **self._of_subscriber(periods, lost_who),
            msg_origin=self._taken(self.origins, self.stream_origin[stream], pa.binary()),
            msg_epoch=self.stream_epoch[stream],
            msg_seq=offset - (stream << SEQUENCE_BITS) + self.stream_least[stream],
            announced=announced.astype(np.int64),
            untaken=untaken.astype(np.int64),
            published_ns=self.pub_time[lost_pub],
        )

    def _cells(self, periods: Periods, pubs: Ints) -> tuple[Mask, Mask]:
        """Which subscriber should surely, and which may, have got which publication."""
        when = self.pub_time[pubs][:, None]
        grace = self.world.grace_ns
        shape = (len(pubs), len(periods.nodes))
        certain, possible = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        for turn in range(periods.begins.shape[1]):
            begin, end = periods.begins[:, turn], periods.ends[:, turn]
            certain |= (begin + grace <= when) & (when <= end - grace)
            possible |= (begin - grace <= when) & (when <= end + grace)
        reluctant = np.flatnonzero(~periods.receive_own)
        if len(reluctant):
            origin = [self.origins[one] for one in self.stream_origin[self.pub_stream[pubs]]]
            for one in reluctant:
                own = np.array([name == periods.nodes[one] for name in origin], dtype=bool)
                certain[own, one] = possible[own, one] = False
        return certain, possible

    def _covered(self, reader: Ints, publication: Ints) -> Ints:
        """How many messages of a publication a reader has."""
        count = len(self.pub_row)
        cell = self.piece_reader * count + self.piece_publication
        # Pieces are in the order of (reader, message), and so of (reader, publication).
        starts = np.flatnonzero(np.diff(cell, prepend=-1))
        if not len(starts):
            return np.zeros(len(reader), dtype=np.int64)
        known, held = cell[starts], np.add.reduceat(self.piece_new, starts)
        wanted = reader * count + publication
        found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        result: Ints = np.where((known[found] == wanted) & (reader >= 0), held[found], 0)
        return result

    def _lost_messages(
        self, reader: Ints, publication: Ints, got: Ints
    ) -> tuple[Ints, Ints, Ints, Mask, Mask]:
        """The messages missing from incomplete cells: (cell, publication, message, whether announced, whether
        thrown away)."""
        size = self.pub_size[publication]
        cell = np.repeat(np.arange(len(reader)), size)
        within = np.arange(len(cell)) - np.repeat(np.cumsum(size) - size, size)
        message = self.pub_start[publication][cell] + within
        have = (got[cell] > 0) & self._inside(
            self.piece_begin, self.piece_end, reader[cell] * self.axis + message
        )
        gone = ~have
        cell, message = cell[gone], message[gone]
        known = reader[cell] >= 0
        point = reader[cell] * self.axis + message
        told = self._inside(*self._joined(MISSED), point) & known
        untaken = self._inside(*self.untaken, point) & known
        return cell, publication[cell], message, told, untaken

    @staticmethod
    def _inside(begins: Ints, ends: Ints, points: Ints) -> Mask:
        """Whether points lie in one of some intervals, which are in the order of their begins."""
        if not len(begins):
            return np.zeros(len(points), dtype=bool)
        reach = np.maximum.accumulate(ends)
        at = np.searchsorted(begins, points, side="right") - 1
        result: Mask = (at >= 0) & (points < reach[np.maximum(at, 0)])
        return result


def _split(begins: Ints, ends: Ints, points: Ints) -> tuple[Ints, Ints, Ints]:
    """Intervals cut at points, their own ends among them: which one a part is of, and its begin and end."""
    edges = np.unique(points)
    first, last = np.searchsorted(edges, begins), np.searchsorted(edges, ends)
    number = last - first
    which = np.repeat(np.arange(len(begins)), number)
    at = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number)
    return which, edges[at], edges[at + 1]


def _summed(codes: Ints, values: Ints, size: int) -> Ints:
    # Sums of counts: far below 2**53, where a double stops counting by ones.
    result: Ints = np.bincount(codes, values, minlength=size).astype(np.int64)
    return result


BITS = 6
STEPS = 1 << BITS


def buckets_of(values: Ints) -> Ints:
    """The bucket of each delay: see ``histogram``, which reads them."""
    size = np.abs(values)
    # frexp is exact far beyond any delay: 2**53 ns are a hundred days.
    exponent = np.maximum(np.frexp(size.astype(np.float64))[1].astype(np.int64) - 1 - BITS, 0)
    bucket = exponent * STEPS + (size >> exponent)
    result: Ints = np.where(values < 0, -1 - bucket, bucket)
    return result
