"""Synthetic traces of any size, with the truth about them, and how long their analysis takes.

    python -m benchmarks.traces --events 50000000 --report [--twice]

Trees carry runs of messages from publishers to members; gossip topics bring some of them twice; clocks are
off by up to a quarter of a second; one node is killed; some messages are lost on links, dropped by a parent
or not taken by a subscriber; some are delivered twice, some out of order. All of it is counted while it is
written. ``--report`` analyses what was written in a process of its own, whose memory (Java and Python
together) is watched from outside, and compares the result with the truth. ``--twice`` does so again with
twice the events, and says how many times as long that took.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlaymq.trace import arrow
from overlaymq.trace import schema as S
from overlaymq.trace.schema import packed

from .trace_report import Figures, measured
from .trace_world import FAN_OUT, SECOND, START, WARM_UP, Plan, Topic, Truth, World

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ROWS_AT_ONCE = 4_000_000
RUN = "synthetic"
BAR = 2.2
"""Times as long that twice the events may take."""
WORDS = ["", *S.EVENTS]
CODE = {event: code for code, event in enumerate(WORDS)}
REASONS = ["", "buffer full", "lossy", "link broke"]
FIELDS = (
    "event",
    "node",
    "peer",
    "topic",
    "origin",
    "seq",
    "count",
    "at",
    "hop",
    "reason",
    "root",
    "extra",
    "took",
)
NOBODY = -1
DELIVERY_NS = 20_000
CONSUME_NS = 60_000


class Rows:
    """Rows as columns, growing by pieces; a number stands for a whole column of it."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[Ints]] = {name: [] for name in FIELDS}

    def add(self, event: str, size: int, **columns: Any) -> None:
        given = {"event": CODE[event], "peer": NOBODY, "origin": NOBODY, "topic": NOBODY, "seq": -1}
        given |= {"count": 0, "hop": -1, "reason": 0, "root": 0, "extra": 0, "took": -1} | columns
        for name in FIELDS:
            self.pieces[name].append(np.broadcast_to(np.asarray(given[name], np.int64), (size,)))

    def taken(self) -> dict[str, Ints]:
        columns = {name: np.concatenate(pieces) for name, pieces in self.pieces.items()}
        self.__init__()  # type: ignore[misc]
        return columns

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces["event"])


class Generator:
    """Writes a trace and keeps the truth."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.world = World(plan)
        self.random = self.world.random
        self.directory = directory / RUN
        self.truth = Truth()
        self.rows = Rows()
        self.extras = [""]
        self.files = 0
        self.sequence: dict[tuple[int, int], int] = {}
        self.arrival: dict[tuple[int, int], Ints] = {}

    def write(self) -> Truth:
        """Everything, in slices of time."""
        self.directory.mkdir(parents=True)
        world, plan = self.world, self.plan
        self.truth.offsets_ms = {
            node.hex(): offset / 1e6 for node, offset in zip(world.ids, world.offsets, strict=True)
        }
        self._lives()
        runs = int(plan.events / world.rows_of_a_run() / plan.topics)
        slices = max(1, round(plan.events / ROWS_AT_ONCE))
        edges = np.linspace(START + WARM_UP * SECOND, world.end - WARM_UP * SECOND, slices + 1)
        for number in range(slices):
            for topic in world.topics:
                share = runs * (number + 1) // slices - runs * number // slices
                for publisher in topic.publishers:
                    self._publications(
                        topic, publisher, share // len(topic.publishers), edges[number : number + 2]
                    )
            self._flush()
        (self.directory.parent / "truth.json").write_text(json.dumps(asdict(self.truth)))
        return self.truth

    def _extra(self, text: str) -> int:
        self.extras.append(text)
        return len(self.extras) - 1

    def _lives(self) -> None:
        """What does not depend on messages: nodes, subscriptions, clocks, parents."""
        world, rows = self.world, self.rows
        ends = np.full(self.plan.nodes, world.end)
        ends[world.killed] = world.killed_at
        for node in range(self.plan.nodes):
            rows.add(S.NODE, 1, node=node, at=START, extra=self._extra(""))
        for topic in world.topics:
            promise = self._extra(packed(reliability=topic.reliability, receive_own=True))
            for node in topic.order:
                rows.add(S.SUBSCRIBE, 1, node=node, topic=topic.index, at=START + 1, extra=promise)
                rows.add(S.READY, 1, node=node, topic=topic.index, at=START + 2)
                signs = np.arange(START + 3, ends[node], SECOND)
                rows.add(S.EXPECT, len(signs), node=node, topic=topic.index, at=signs)
            self._reluctant_publisher(topic)
            self._parents(topic)
        self._clocks()

    def _reluctant_publisher(self, topic: Topic) -> None:
        """A publisher that reads its own topic without its own messages: nothing is expected of it."""
        if len(topic.publishers) == 1:
            node = topic.publishers[0]
            promise = self._extra(packed(reliability=topic.reliability, receive_own=False))
            self.rows.add(S.SUBSCRIBE, 1, node=node, topic=topic.index, at=START + 1, extra=promise)
            self.rows.add(S.READY, 1, node=node, topic=topic.index, at=START + 2)
            signs = np.arange(START + 3, self.world.end, SECOND)
            self.rows.add(S.EXPECT, len(signs), node=node, topic=topic.index, at=signs)

    def _parents(self, topic: Topic) -> None:
        if topic.strategy not in ("scribe", "sv"):
            return
        for place in range(1, len(topic.order)):
            parent = topic.order[(place - 1) // FAN_OUT]
            self.rows.add(
                S.PARENT_SET,
                1,
                node=topic.order[place],
                peer=parent,
                topic=topic.index,
                at=START + 5,
            )
        middle = START + int(self.plan.seconds / 2 * SECOND)
        for place in topic.leaves[:3]:
            node, parent = topic.order[place], topic.order[(place - 1) // FAN_OUT]
            took = int(self.random.integers(2_000_000, 900_000_000))
            self.rows.add(S.PARENT_LOST, 1, node=node, peer=parent, topic=topic.index, at=middle)
            self.rows.add(
                S.PARENT_SET, 1, node=node, peer=parent, topic=topic.index, at=middle + took
            )
            self.truth.repairs_ms.append(took / 1e6)

    def _clocks(self) -> None:
        """Each node measures the next one on a ring and two others, several times."""
        world = self.world
        for node in range(self.plan.nodes):
            others = {(node + 1) % self.plan.nodes, *self.random.integers(0, self.plan.nodes, 2)}
            for peer in sorted(int(one) for one in others - {node}):
                for at in range(START + SECOND, min(world.end, world.killed_at), 20 * SECOND):
                    there, back = world.delay[node, peer] + self.random.integers(0, 400_000, 2)
                    error = (there - back) // 2
                    offset = int(world.offsets[peer] - world.offsets[node] + error)
                    extra = self._extra(packed(offset_ns=offset))
                    self.rows.add(
                        S.CLOCK, 1, node=node, peer=peer, at=at, extra=extra, took=int(there + back)
                    )

    def _publications(self, topic: Topic, publisher: int, runs: int, span: Any) -> None:
        """One publisher's runs over a span of time, down the tree."""
        if not runs:
            return
        key = (topic.index, publisher)
        counts = np.minimum(self.random.geometric(0.5, runs), 16)
        first = self.sequence.get(key, 0) + np.cumsum(counts) - counts
        self.sequence[key] = int(first[-1] + counts[-1])
        at = np.sort(self.random.integers(int(span[0]), int(span[1]), runs))
        what = {"topic": topic.index, "origin": publisher, "seq": first, "count": counts}
        what["root"] = first + 1 if topic.reliability == "ordered" else np.zeros(runs, np.int64)
        self.rows.add(S.PUBLISH, runs, node=publisher, at=at, hop=0, **what)
        self.truth.published += int(counts.sum())
        last = self.arrival.setdefault(key, np.zeros(len(topic.order), np.int64))
        arrived = np.empty((len(topic.order), runs), np.int64)
        hops = np.empty(len(topic.order), np.int64)
        for place, node in enumerate(topic.order):
            parent = publisher if place == 0 else topic.order[(place - 1) // FAN_OUT]
            sent = at if place == 0 else arrived[(place - 1) // FAN_OUT]
            hops[place] = 1 if place == 0 else hops[(place - 1) // FAN_OUT] + 1
            jitter = self.random.exponential(300_000, runs).astype(np.int64)
            came = sent + 50_000 + self.world.delay[parent, node] + jitter
            arrived[place] = np.maximum.accumulate(np.maximum(came, last[place] + 1))
            arrived[place] += np.arange(runs)
            last[place] = arrived[place][-1]
            self._edge(topic, place, parent, sent + 50_000, arrived[place], int(hops[place]), what)

    def _edge(
        self, topic: Topic, place: int, parent: int, sent: Ints, came: Ints, hop: int, what: Any
    ) -> None:
        """One link of the tree and the member below it, with what goes wrong there."""
        node, size = topic.order[place], len(sent)
        alive = np.ones(size, bool)
        if node == self.world.killed:
            alive = came < self.world.killed_at - SECOND // 2
        fate = self._fates(topic, place, alive, came)
        arrays = {"seq": what["seq"], "count": what["count"], "root": what["root"]}
        same = {"topic": topic.index, "origin": what["origin"], "hop": hop}

        def some(event: str, mask: Any, shift: Any = 0, **more: Any) -> None:
            chosen = {name: column[mask] for name, column in arrays.items()}
            at = (more.pop("at") + shift)[mask]
            self.rows.add(event, len(at), at=at, **same, **chosen, **more)

        dropped, untaken, linked = (fate == kind for kind in (1, 2, 3))
        got = alive & (fate == 0)
        some(S.SEND, alive & ~dropped, at=sent, node=parent, peer=node)
        some(S.DROP, dropped, at=sent, node=parent, peer=node, reason=2)
        some(S.RECV, got | untaken, at=came, node=node, peer=parent)
        delivered = came + DELIVERY_NS
        some(S.DELIVER, untaken, at=delivered, node=node)
        some(S.UNDELIVERABLE, untaken, 1000, at=delivered, node=node, reason=1)
        swapped = self._swap(topic, place, got, delivered, what["count"])
        some(S.DELIVER, got, at=swapped, node=node)
        some(S.CONSUME, got, CONSUME_NS, at=np.maximum(swapped, delivered), node=node)
        self.truth.delivered += int(what["count"][got].sum())
        self._lose(topic, node, parent, what, (dropped, untaken, linked), came)
        if topic.strategy == "scamp":
            self._echo(topic, node, some, got, came, what["count"])
        again = got & (self.random.random(size) < self.plan.repeat)
        # Nothing else is delivered at that very instant, so the second copy is not taken for a swap.
        some(S.DELIVER, again, 7, at=swapped, node=node)
        messages = int(what["count"][again].sum())
        self.truth.repeated += messages
        if topic.reliability != "best_effort":
            self.truth.violations += messages

    def _fates(self, topic: Topic, place: int, alive: Any, came: Ints) -> Ints:
        """0 well; 1 dropped by the parent, 2 not taken by the subscriber, 3 lost on the link."""
        fate = np.zeros(len(alive), np.int64)
        if place in topic.leaves and topic.order[place] != self.world.killed:
            unlucky = self.random.random(len(alive)) < self.plan.loss
            fate[unlucky] = self.random.integers(1, 4, int(unlucky.sum()))
        return fate

    def _lose(
        self, topic: Topic, node: int, parent: int, what: Any, masks: Any, came: Ints
    ) -> None:
        ids = self.world.ids
        for mask, evidence, holder in zip(
            masks, ("dropped", "subscriber", "link"), (parent, node, parent), strict=True
        ):
            chosen = np.flatnonzero(mask)
            told = self.random.random(len(chosen)) < 0.5
            noticed = chosen[told]
            self.rows.add(
                S.MISS,
                len(noticed),
                node=node,
                topic=topic.index,
                origin=what["origin"],
                seq=what["seq"][noticed],
                count=what["count"][noticed],
                at=came[noticed] + 100 * 1_000_000,
            )
            self.truth.lost[evidence] += int(what["count"][chosen].sum())
            self.truth.announced += int(what["count"][noticed].sum())
            for index, announced in zip(chosen, told, strict=True):
                first, count = int(what["seq"][index]), int(what["count"][index])
                self.truth.lost_pairs += [
                    (
                        *(topic.name, ids[what["origin"]].hex(), seq, ids[node].hex()),
                        *(bool(announced), evidence, ids[holder].hex()),
                    )
                    for seq in range(first, first + count)
                ]

    def _swap(self, topic: Topic, place: int, got: Any, delivered: Ints, counts: Ints) -> Ints:
        """Deliver some runs after their successors."""
        size = len(got)
        times = delivered.copy()
        chosen = np.flatnonzero(self.random.random(max(0, size - 1)) < self.plan.swap)
        busy = -1
        for index in chosen.tolist():
            if index > busy and got[index] and got[index + 1]:
                times[index] = times[index + 1] + 3
                busy = index + 2
                self.truth.late += int(counts[index])
                if topic.reliability != "best_effort":
                    self.truth.violations += int(counts[index])
        return times

    def _echo(self, topic: Topic, node: int, some: Any, got: Any, came: Ints, counts: Ints) -> None:
        again = got & (self.random.random(len(got)) < self.plan.echo)
        peer = topic.order[int(self.random.integers(0, len(topic.order) - 1))]
        some(S.SEND, again, at=came, node=peer, peer=node)
        some(S.RECV, again, 2_000_000, at=came, node=node, peer=peer)
        some(S.DUPLICATE, again, 2_000_001, at=came, node=node, peer=peer)
        self.truth.duplicates += int(counts[again].sum())

    def _flush(self) -> None:
        """One file a node, its rows in the order of time."""
        columns = self.rows.taken()
        self.truth.rows += len(columns["at"])
        order = np.lexsort((columns["at"], columns["node"]))
        columns = {name: column[order] for name, column in columns.items()}
        edges = np.searchsorted(columns["node"], np.arange(self.plan.nodes + 1))
        for node in range(self.plan.nodes):
            piece = {n: c[edges[node] : edges[node + 1]] for n, c in columns.items()}
            if len(piece["at"]):
                name = f"{self.world.ids[node].hex()}-{self.world.boots[node]}-{self.files:06}"
                pq.write_table(
                    self._table(piece), self.directory / f"{name}.parquet", compression="zstd"
                )
        self.files += 1

    def _table(self, piece: dict[str, Ints]) -> pa.Table:
        world, size = self.world, len(piece["at"])
        ids = pa.array([*world.ids, b""], pa.binary())
        topic_ids = pa.array([*(one.identity for one in world.topics), b""], pa.binary())
        names = [*(one.name for one in world.topics), ""]
        strategies = [*(one.strategy for one in world.topics), ""]

        def id_of(codes: Ints, of: Any) -> Any:
            return of.take(pa.array(np.where(codes < 0, len(of) - 1, codes)))

        def word(codes: Ints, words: list[str]) -> Any:
            chosen = pa.array(np.where(codes < 0, len(words) - 1, codes), pa.int32())
            return pa.DictionaryArray.from_arrays(chosen, pa.array(words, pa.string()))

        def same(value: int) -> Ints:
            return np.full(size, value)

        node = piece["node"]
        used, compact = np.unique(piece["extra"], return_inverse=True)
        made = {
            "run_id": word(same(0), [RUN]),
            "schema_version": same(S.SCHEMA_VERSION),
            "node_id": id_of(node, ids),
            "boot_id": world.boots[node],
            "event": word(piece["event"], WORDS),
            "ts_wall_ns": piece["at"] + world.offsets[node],
            "ts_mono_ns": piece["at"] - START + world.mono_zero[node],
            "strategy": word(piece["topic"], strategies),
            "topic_id": id_of(piece["topic"], topic_ids),
            "topic": word(piece["topic"], names),
            "msg_origin": id_of(piece["origin"], ids),
            "msg_epoch": np.where(piece["origin"] < 0, 0, 1),
            "msg_seq": piece["seq"],
            "msg_count": piece["count"],
            "chunk": same(0),
            "chunks": same(1),
            "root_epoch": np.where(piece["root"] > 0, 1, 0),
            "root_seq": piece["root"],
            "root_id": id_of(same(NOBODY), ids),
            "peer_id": id_of(piece["peer"], ids),
            "hop": piece["hop"],
            "size_bytes": np.where(piece["count"] > 0, piece["count"] * 100, -1),
            "reason": word(piece["reason"], REASONS),
            "duration_ns": piece["took"],
            "extra": pa.array([self.extras[code] for code in used]).take(pa.array(compact)),
        }
        columns = [
            column if isinstance(column, pa.Array) else pa.array(column, one.type)
            for one, column in zip(arrow.SCHEMA, made.values(), strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=arrow.SCHEMA)


def generate(plan: Plan, directory: Path) -> Truth:
    """Write a trace under ``directory``, with ``truth.json`` beside it."""
    return Generator(plan, directory).write()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--topics", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=600.0, help="that the trace tells of")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="keep the traces here")
    parser.add_argument(
        "--report", action="store_true", help="analyse them, and show time and memory"
    )
    parser.add_argument("--twice", action="store_true", help="and again with twice the events")
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    if options.twice and (options.out or not options.report):
        parser.error("--twice needs --report, and keeps no traces")
    good, seconds = True, []
    for events in (options.events, 2 * options.events) if options.twice else (options.events,):
        figures = _written(options, events)
        if figures is not None:
            good &= figures.right
            seconds.append(figures.seconds)
    if len(seconds) == 2 and good:
        ratio = seconds[1] / seconds[0]
        good = ratio <= BAR
        verdict = "within" if good else "ABOVE"
        print(f"twice the events took {ratio:.2f} times as long: {verdict} the bar of {BAR}")
    sys.exit(0 if good else 1)


def _written(options: argparse.Namespace, events: int) -> Figures | None:
    """Write a trace, and analyse it if that is wanted."""
    directory = options.out or Path(tempfile.mkdtemp(prefix="overlaymq-traces-"))
    plan = Plan(events, options.nodes, options.topics, options.seconds, options.seed)
    try:
        began = time.perf_counter()
        truth = generate(plan, directory)
        size = sum(file.stat().st_size for file in directory.rglob("*.parquet"))
        print(
            f"{truth.rows:,} events, {size / 1e6:,.0f} MB, written in {time.perf_counter() - began:.0f} s",
            flush=True,
        )
        return measured(directory, truth, options.master) if options.report else None
    finally:
        if options.out is None:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
