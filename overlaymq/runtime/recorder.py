"""The flight recorder: writes down everything that decides what a live node's core does.

The core is a function of its state and its inputs, so a snapshot and the inputs since then are the whole
story of a bug, however rare; ``overlaymq sim replay`` tells it again. The recorder stands between the
driver and the core, in the one place where inputs go in. Upcalls are the application's code and run inside
the core: what they answer is written down too, and played back.

It must never harm the node:

- Off (the default), it does not exist; the driver calls the core directly.
- The trio thread only pickles. A thread of its own writes, because a disk that stalls would make the node
  look dead to its neighbours.
- Disk and memory are bounded. A record is two segments of half the limit: when one is full, the older one
  goes, and a new one begins with a snapshot. So at least the last half of the limit is kept.
- Whatever goes wrong (a full disk, one that is too slow, a core too large for the limit) ends the recording
  with one line in the log and a word in `status`; the node goes on.

What is gathered is handed to the system every second and when the node closes; ``kill -9`` costs no more than
that second. A power failure may cost more: nothing waits for the disk.

A record of an earlier run at the same place becomes the older segment, so a node that is restarted after a
crash does not write over the story of that crash at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import platform
import queue
import stat
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from overlaymq import ids
from overlaymq._version import VERSION
from overlaymq.core.reliability.upcalls import Joining, Upcalls
from overlaymq.errors import ConfigError
from overlaymq.messages import Batch
from overlaymq.runtime.record import (
    HEADER,
    MAGIC,
    SNAPSHOT,
    STEP,
    Header,
    Snapshot,
    TooLarge,
    UpcallsSet,
    Verdict,
    dump,
    fingerprint,
    frame,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.config import RecorderConfig
    from overlaymq.core.node import Node
    from overlaymq.events import Effect, Input
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

log = logging.getLogger("overlaymq.recorder")

FLUSH_EVERY = 1.0
"""Seconds that a step may wait in memory: a guess."""
CHUNK = 1 << 18
"""And bytes: a guess."""
RESERVE = 1 << 20
"""Bytes left in a segment when the next one is begun, so that the step in between fits: above a frame."""
CLOSE_WAIT = 2.0
"""Seconds that a closing node waits for its record to be written: a guess."""


def older(path: Path) -> Path:
    """Where the segment before the current one is."""
    return path.with_name(path.name + ".1")


class Recorder:
    """Records the core of one node, for as long as it lives."""

    def __init__(self, config: RecorderConfig, me: Peer) -> None:
        self.path = Path(config.file)
        _check(self.path)
        self.steps = 0
        self.problem = ""
        self._me = me
        self._payloads = config.payloads
        self._segment_size = config.limit // 2
        self._reserve = min(self._segment_size // 4, RESERVE)
        self._run = os.urandom(8).hex()
        self._segment = 0
        self._written = 0
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        self._core: Node | None = None
        self._upcalls: dict[Id, tuple[str, ...]] = {}
        self._said: list[Verdict | UpcallsSet] = []
        self._in_step = False
        self._writer = _Writer(self.path, self._segment_size, self._give_up)

    # --- what the driver calls ---

    def watch(self, core: Node) -> Callable[[Input, float], list[Effect]]:
        """Record this core from now on; what the driver calls instead of its ``handle``."""
        self._core = core
        self._upcalls.clear()
        self._guarded(self._snapshot if self._segment else self._begin_segment)
        return partial(self._step, core)

    def upcalls(self, topic: Id, upcalls: Upcalls) -> Upcalls:
        """The application sets upcalls: the same ones, with their answers written down."""
        names = tuple(n for n in Upcalls.__struct_fields__ if getattr(upcalls, n) is not None)
        self._upcalls[topic] = names
        news = UpcallsSet(topic, names)
        if self._in_step:  # by an upcall
            self._said.append(news)
        elif not self.problem:
            self._guarded(partial(self._note_upcalls, news))
        return Upcalls(**{name: self._listened(name, getattr(upcalls, name)) for name in names})

    def flush(self) -> None:
        """Hand what has gathered to the writer."""
        if self._gathered and not self.problem:
            self._writer.put(b"".join(self._gathered))
            self._gathered, self._gathered_size = [], 0

    async def aclose(self) -> None:
        """Write what is left. Waits, but not for a disk that does not answer."""
        self.flush()
        await trio.to_thread.run_sync(self._writer.end, CLOSE_WAIT)

    def facts(self) -> dict[str, Any]:
        """For `status`."""
        return {"file": str(self.path), "steps": self.steps, "problem": self.problem}

    # --- steps ---

    def _step(self, core: Node, input_: Input, now: float) -> list[Effect]:
        if self.problem or not (asked := self._asked(input_, now)):
            return core.handle(input_, now)
        self._said = []
        self._in_step = True
        try:
            effects = core.handle(input_, now)
        except Exception as error:  # whatever the core raises is the most interesting step of all
            self._guarded(partial(self._note, asked, [], repr(error)))
            self.flush()
            raise
        finally:
            self._in_step = False
        self._guarded(partial(self._note, asked, effects))
        return effects

    def _asked(self, input_: Input | UpcallsSet, now: float) -> bytes:
        """The input as it is now: an upcall may change a batch."""
        try:
            return dump((self.steps + 1, now, input_), self._payloads)
        except Exception as error:  # the node must go on
            self._give_up(f"an input cannot be written down: {error!r}")
            return b""

    def _note_upcalls(self, news: UpcallsSet) -> None:
        self._said = []
        self._note(self._asked(news, time.monotonic()), [])

    def _note(self, asked: bytes, effects: list[Effect], raised: str | None = None) -> None:
        said = dump(tuple(self._said), self._payloads)
        outcome = dump((fingerprint(effects, self._payloads), raised), True)
        content = frame(STEP, asked + said + outcome)
        self.steps += 1
        fits = self._written + len(content) <= self._segment_size
        if fits:
            self._gather(content)
        if not fits or self._written > self._segment_size - self._reserve:
            self._begin_segment()  # a step that did not fit is a gap between the segments
        elif self._gathered_size > CHUNK:
            self.flush()

    def _gather(self, content: bytes) -> None:
        self._gathered.append(content)
        self._gathered_size += len(content)
        self._written += len(content)

    # --- segments ---

    def _begin_segment(self) -> None:
        self.flush()
        self._segment += 1
        header = Header(
            run=self._run,
            segment=self._segment,
            first=self.steps + 1,
            node=ids.text(self._me.id),
            address=self._me.address,
            version=VERSION,
            python=platform.python_version(),
            msgspec=msgspec.__version__,
            clock=time.monotonic(),
            wall=time.time_ns(),
            payloads=self._payloads,
        )
        if self._segment > 1:
            self._writer.rotate()
        self._written = 0
        self._gather(MAGIC + frame(HEADER, msgspec.json.encode(header)))
        self._snapshot()

    def _snapshot(self) -> None:
        topics = tuple(UpcallsSet(topic, names) for topic, names in self._upcalls.items())
        self._gather(
            frame(
                SNAPSHOT,
                dump(Snapshot(topics, self._core), self._payloads, self._segment_size // 2),
            )
        )

    # --- upcalls ---

    def _listened(self, name: str, upcall: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.problem:
                return upcall(*arguments)
            subject, tree = arguments[0], arguments[-1]
            before = msgspec.structs.replace(subject) if type(subject) is Batch else None
            asked = len(tree.effects)
            answer, verdict = None, Verdict(name)
            try:
                answer = upcall(*arguments)
                verdict = _verdict(name, subject, answer)
                return answer
            except (
                Exception
            ) as error:  # user code may raise anything; it goes on to who contains it
                verdict = Verdict(name, raised=repr(error))
                raise
            finally:
                if type(subject) is Batch and subject != before:
                    changed = msgspec.structs.replace(subject)
                    verdict = msgspec.structs.replace(verdict, changed=changed)
                if type(subject) is Joining and type(subject.note) is not bytes:
                    verdict = msgspec.structs.replace(verdict, foreign=repr(subject.note))
                elif type(subject) is Joining and subject.note:
                    verdict = msgspec.structs.replace(verdict, note=subject.note)
                if tree.effects[asked:]:
                    asks = tuple(tree.effects[asked:])
                    verdict = msgspec.structs.replace(verdict, asked=asks)
                self._said.append(verdict)

        return call

    # --- trouble ---

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TooLarge:
            self._give_up(
                f"the node's state does not fit into a quarter of recorder.limit "
                f"({self._segment_size // 2:,} bytes); raise it, or set recorder.payloads = false"
            )
        except Exception as error:  # the node must go on, whatever is wrong with its record
            self._give_up(repr(error))

    def _give_up(self, reason: str) -> None:
        """Also called by the writer's thread."""
        if not self.problem:
            self.problem = reason
            self._gathered = []
            log.error(
                "node %s: recording to %s has ended after step %d: %s; the node goes on",
                *(ids.short(self._me.id), self.path, self.steps, reason),
            )


def _verdict(name: str, subject: Any, answer: Any) -> Verdict:
    if name == "on_anycast" and (answer is None or isinstance(answer, bool)):
        return Verdict(name, accepted=answer is True)
    if name not in ("on_forward", "on_anycast"):  # nobody looks at the others' answers
        return Verdict(name)
    if answer is subject:
        return Verdict(name, same=True)
    if answer is None:
        return Verdict(name)
    if type(answer) is Batch:
        return Verdict(name, answer=msgspec.structs.replace(answer))
    return Verdict(name, foreign=repr(answer))


def _check(path: Path) -> None:
    """That a record can be written there without harm to anything else."""
    if not path.parent.is_dir():
        raise ConfigError(f"recorder.file: there is no directory {path.parent}")
    for one in (path, older(path)):
        if not one.exists():
            continue
        if not stat.S_ISREG(one.stat().st_mode):
            raise ConfigError(f"recorder.file: {one} is not an ordinary file")
        try:
            with one.open("rb") as file:
                begins = file.read(len(MAGIC))
        except OSError as error:
            raise ConfigError(f"recorder.file: {one} cannot be read: {error.strerror}") from None
        if not MAGIC.startswith(begins):
            raise ConfigError(
                f"recorder.file: {one} exists and is no record; move it away, or choose another name"
            )
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"recorder.file: nothing can be written in {path.parent}")


class _Writer:
    """The thread that writes, and waits for the disk."""

    def __init__(self, path: Path, most_waiting: int, on_failure: Callable[[str], None]) -> None:
        self._path = path
        self._most_waiting = most_waiting
        self._on_failure = on_failure
        self._waiting = 0
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._file = -1
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="overlaymq recorder", daemon=True)

    def put(self, content: bytes) -> None:
        """Write this later."""
        with self._lock:
            self._waiting += len(content)
            too_many = self._waiting - len(content) > self._most_waiting
        if too_many:
            self._on_failure(f"the disk does not keep up: {self._waiting:,} bytes wait for it")
            return
        self._do(partial(self._write, content))

    def rotate(self) -> None:
        """Begin another segment."""
        self._do(self._close)

    def end(self, seconds: float) -> None:
        """No more will come: wait until all is written, but not longer than this."""
        if self._thread.ident is not None:
            self._queue.put(None)
            self._thread.join(seconds)

    def _do(self, work: Callable[[], None]) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._queue.put(work)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if self._failed:
                continue
            try:
                work()
            except OSError as error:
                self._failed = True
                self._on_failure(error.strerror or repr(error))
        self._close()

    def _write(self, content: bytes) -> None:
        if self._file < 0:
            self._open()
        left = memoryview(content)
        while left:
            left = left[os.write(self._file, left) :]
        with self._lock:
            self._waiting -= len(content)

    def _open(self) -> None:
        """Make a new file; what was there before becomes the older segment."""
        with contextlib.suppress(FileNotFoundError):
            _unused(self._path)
            self._path.replace(older(self._path))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)  # payloads are nobody else's business
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _unused(path: Path) -> None:
    """Raise if another node is recording to this file."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(0, "another node is recording to this file") from None
    finally:
        os.close(file)
