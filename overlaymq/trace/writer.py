"""The tracer that writes files: append-safe segments that become Parquet.

It must never harm the node. The node's thread only packs (``packing``) and hands full packs over; a thread of
its own makes batches of them, appends them to the live segment, and when that is large or old enough makes
Parquet of it (``files``). What waits between the two is bounded, and so is a pack: when the disk is too slow,
whole packs are dropped and counted, and a ``TRACE_LOSS`` row says how many events.

``flush`` is called every ``flush_every`` seconds by the driver. What was flushed is with the operating system
a moment later, so ``kill -9`` costs what was not; a power failure may cost the live segment.

A full disk, or any other error of the disk, ends tracing: one line in the log, a word in `status`, and
everything after it counts as lost. What was written stays readable. What earlier writers have left is made
Parquet first (``files.recover``); where that fails, tracing goes on.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import struct
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from overlaymq.errors import ConfigError
from overlaymq.trace import arrow, files, schema
from overlaymq.trace.packing import LAYOUT, Pack
from overlaymq.trace.tracer import Tally, Tracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.config import TraceConfig
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

log = logging.getLogger("overlaymq.trace")


class FileTracer(Tracer):
    """Writes what happens to the nodes of this process. ``name``: of the process's files, as the node's id;
    ``boot``: which life of it. ``patient``: waits for the disk rather than lose an event, for simulations.
    ``node``: whose events are lost, if it is only one's."""

    def __init__(
        self,
        config: TraceConfig,
        name: str,
        boot: int,
        *,
        wall: Callable[[], int] = time.time_ns,
        mono: Callable[[], int] = time.monotonic_ns,
        patient: bool = False,
        node: Peer | None = None,
    ) -> None:
        super().__init__(
            run=config.run, sample=config.sample, routes=config.routes, wall=wall, mono=mono
        )
        self.directory = Path(config.directory) / config.run
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"trace.directory: {self.directory} cannot be made: {error.strerror}; "
                "name a place that this user may write to"
            ) from None
        self._node = node
        self._pack = Pack()
        self._most = config.batch_rows
        self._recorded = self._lost = self._untold = 0
        self._closed = False
        self._patience = threading.TIMEOUT_MAX if patient else 0.0
        self._thread = _Thread(config, self.directory, f"{name}-{boot}")

    def _add(
        self,
        wall: int,
        mono: int,
        event: str,
        node: Id,
        boot: int,
        strategy: str,
        topic: Id,
        name: str,
        origin: Id,
        epoch: int,
        first: int,
        count: int,
        chunk: int,
        chunks: int,
        root_epoch: int,
        root_seq: int,
        root: Id,
        peer: Id,
        hop: int,
        size: int,
        reason: str,
        duration: int,
        extra: str,
    ) -> None:
        self._recorded += 1
        if self._closed or self._thread.problem:
            self._lost += 1
            return
        pack = self._pack
        ids, words = pack.ids, pack.words
        try:
            pack.rows.append(
                LAYOUT.pack(
                    wall,
                    mono,
                    words[event],
                    ids[node],
                    boot,
                    words[strategy],
                    ids[topic],
                    words[name],
                    ids[origin],
                    epoch,
                    first,
                    count,
                    chunk,
                    chunks,
                    root_epoch,
                    root_seq,
                    ids[root],
                    ids[peer],
                    hop,
                    size,
                    words[reason],
                    duration,
                    pack.texts[extra],
                )
            )
        except struct.error:  # a peer may send numbers that no row holds
            self._lost += 1
            self._untold += 1
            return
        if len(pack.rows) == self._most:
            self.flush()

    def flush(self) -> None:
        """Hand the pack over."""
        self._flush(self._patience)

    def _flush(self, wait: float) -> None:
        if self._untold and not self._thread.problem:
            told, self._untold = self._untold, 0
            self._pack.told += told
            self.note(self._node, schema.TRACE_LOSS, count=told, reason="not written")
        pack = self._pack
        if not pack.rows:
            return
        self._pack = Pack()
        if not self._thread.take(pack, wait):
            self._lost += len(pack)
            self._untold += len(pack) + pack.told

    def close(self, wait: float = 2.0) -> None:
        """Finish the segment."""
        if not self._closed:
            self._flush(wait)
            self._closed = True
            self._thread.end(wait)

    @property
    def tally(self) -> Tally:
        """What is in files; what waits is neither written nor lost."""
        thread = self._thread
        return Tally(self._recorded, thread.written, self._lost + thread.lost, thread.problem)


class _Thread:
    """Writes packs until it is told to end or cannot. Counters are written by this side only."""

    def __init__(self, config: TraceConfig, directory: Path, name: str) -> None:
        self.problem = ""
        self.written = 0
        self.lost = 0
        self._config = config
        self._directory = directory
        self._name = name
        self._number = 0
        self._segment: _Segment | None = None
        self._packs: queue.Queue[Pack | None] = queue.Queue(config.queue)
        self._ending = threading.Event()
        # A daemon: a disk that does not answer must not keep the process.
        self._thread = threading.Thread(target=self._work, name="overlaymq trace", daemon=True)
        self._thread.start()

    # --- the node's side ---

    def take(self, pack: Pack, wait: float) -> bool:
        """Whether there was room for it, at once or after this many seconds."""
        if self.problem:
            return False
        try:
            self._packs.put(pack, wait > 0, wait)
        except queue.Full:
            return False
        return True

    def end(self, wait: float) -> None:
        """Write what waits, and finish."""
        self._ending.set()
        with contextlib.suppress(queue.Full):  # then it is awake anyway
            self._packs.put_nowait(None)
        self._thread.join(wait)

    # --- the thread ---

    def _work(self) -> None:
        pack: Pack | None = None
        try:
            self._recover()
            self._number = files.next_number(self._directory, self._name)
            while True:
                pack = self._next()
                if pack is not None:
                    self._write(pack)
                ended = pack is None and self._ending.is_set() and self._packs.empty()
                pack = None
                if self._segment is not None and (ended or self._segment.is_due(self._config)):
                    self._finish()
                if ended:
                    return
        except Exception as error:  # whatever it is, the node goes on and says so once
            self._give_up(error, pack)

    def _recover(self) -> None:
        """What others have left is worth a try, and no reason to trace nothing."""
        try:
            files.recover(self._directory)
        except Exception as error:  # whatever is wrong with them, ours may go well
            why = str(error).partition("\n")[0]
            log.warning("leftovers in %s stay as they are: %s", self._directory, why)

    def _next(self) -> Pack | None:
        segment = self._segment
        wait = None if segment is None else max(0.0, segment.due - time.monotonic())
        try:
            # Who ends finds the queue full, and puts nothing into it that would wake this one, or empty.
            return self._packs.get(not self._ending.is_set(), wait)
        except queue.Empty:
            return None

    def _write(self, pack: Pack) -> None:
        if self._segment is None:
            path = files.open_segment(self._directory, f"{self._name}-{self._number:06d}")
            self._number += 1
            self._segment = _Segment(path, time.monotonic() + self._config.segment_seconds)
        self._segment.write(pack.batch(self._config.run))
        self.written += len(pack)

    def _finish(self) -> None:
        assert self._segment is not None
        segment, self._segment = self._segment, None
        try:
            segment.close()
            files.compact(segment.path)
        finally:
            segment.release()
        files.prune(self._directory, self._config.keep_bytes, self._config.keep_seconds)

    def _give_up(self, error: Exception, pack: Pack | None) -> None:
        reason = getattr(error, "strerror", None) or str(error) or repr(error)
        self.problem = f"{self._directory}: {reason}"
        if pack is not None:
            self.lost += len(pack)
        with contextlib.suppress(queue.Empty):
            while True:
                waiting = self._packs.get_nowait()
                self.lost += len(waiting) if waiting is not None else 0
        if self._segment is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._segment.abandon()
        log.error("tracing has ended: %s; the node goes on without it", self.problem)


class _Segment:
    """A live segment: an Arrow stream that is locked by this process."""

    def __init__(self, path: Path, due: float) -> None:
        self.path = path
        self.due = due
        # It has its lock before it has its name: others take a segment that nobody holds for a leftover.
        new = path.with_name(path.name.removesuffix(files.OPEN) + files.NEW)
        self._file = pa.OSFile(str(new), "wb")
        self._lock = files.Lock(new)
        new.rename(path)
        # A quarter of zstd's time for twice the bytes, of a file that will not stay; and Arrow's own threads
        # would cost a small batch more than they save (both measured).
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        self._stream = pa.ipc.new_stream(self._file, arrow.SCHEMA, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch: the operating system has it when this returns."""
        self._stream.write_batch(batch)

    def is_due(self, config: TraceConfig) -> bool:
        """Whether it is large or old enough."""
        return self._file.tell() >= config.segment_bytes or time.monotonic() >= self.due

    def close(self) -> None:
        """No more batches; still locked."""
        self._stream.close()
        self._file.close()

    def release(self) -> None:
        """Let others have what is left of it."""
        self._lock.release()

    def abandon(self) -> None:
        """Leave it as it is, for ``recover``."""
        try:
            self._file.close()
        finally:
            self.release()
