"""The one I/O thread of a process: an asyncio loop for gRPC, which has no trio support.

All nodes of a process share it. It starts with the first transport and ends with the last; a later
transport starts a new one. gRPC objects are made and used on this thread only.

A busy trio thread starves this one of the GIL: a thread that wants the GIL gets it only when the
holder lets go, and every system call of this thread loses it again, each time for a switch interval.
A trio loop that always has something to run lets go only for moments. So an Instrument in the trio run
watches this thread's turns. Where it has had too few while trio was busy, or a control message was just
handed over, trio gives it a *window*: it naps until this thread waits for the network again, takes what has
arrived at once (through trio's entry queue it would wait behind another slice of computing), and, if
something was sent, stays a moment longer for the answer. Windows are paid from a budget that grows with
busy time, so a question asked right after one window still gets another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trio

from overlaymq.errors import ForkedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


def _keep_freed_memory() -> None:
    """Let glibc keep what large frames free, instead of giving it back after each of them.

    Its thresholds for that are dynamic: freeing one large block raises them to its size. Untouched
    memory costs nothing. Measured: no page faults instead of 14 a batch of 64 KiB, a third less CPU.
    """
    bytes(16 * 1024 * 1024)


class _Selector(selectors.DefaultSelector):
    """Lets others see whether the loop is busy."""

    def __init__(self, thread: IoThread) -> None:
        super().__init__()
        self._thread = thread

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        thread = self._thread
        thread.turns += 1
        thread.waits = timeout != 0
        found = super().select(timeout)
        thread.waits = False
        return found


class IoThread:
    """A running loop and how to reach it."""

    def __init__(self) -> None:
        _keep_freed_memory()
        self.pid = os.getpid()
        self.pending = False
        self.asked = False  # a control message was handed over: its answer may be near
        self.users = 0
        self._ended: list[Callable[[], None]] = []
        self.turns = 0  # how often the loop has gone to look for I/O
        self.waits = False  # whether it is waiting for I/O now
        self.loop = asyncio.SelectorEventLoop(_Selector(self))
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="overlaymq-io", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Run a function on the I/O thread, soon."""
        self.pending = True
        self.loop.call_soon_threadsafe(self._called, function, *arguments)

    def _called(self, function: Callable[..., object], *arguments: object) -> None:
        self.pending = False
        function(*arguments)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """On the I/O thread: start a task and keep it from being collected."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def perform(
        self, work: Coroutine[Any, Any, T], post: Callable[..., object] | None = None
    ) -> T:
        """From trio: run a coroutine on the I/O thread and wait for its outcome here.

        ``post`` carries the news back, for callers that want it in order with other news. If the
        caller is cancelled, the work goes on.
        """
        done = trio.Event()
        outcome: list[tuple[T, None] | tuple[None, BaseException]] = []
        tell = post or trio.lowlevel.current_trio_token().run_sync_soon

        async def perform() -> None:
            try:
                outcome.append((await work, None))
            except BaseException as error:  # it is raised again on the trio thread
                outcome.append((None, error))
            with contextlib.suppress(trio.RunFinishedError):
                tell(done.set)

        self.call(self.spawn, perform())
        await done.wait()
        result, error = outcome[0]
        if error is not None:
            raise error
        return cast("T", result)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self._finish()
        finally:
            self.loop.close()
            for tell in self._ended:
                tell()

    def _finish(self) -> None:
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=1))

    async def end(self) -> None:
        """From trio: stop the loop and wait for the thread."""
        ended = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def tell() -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(ended.set)

        self._ended.append(tell)
        self.loop.call_soon_threadsafe(self.loop.stop)
        with trio.move_on_after(3):
            await ended.wait()
            self._thread.join(1)  # it has nothing left to do: this takes microseconds


_lock = threading.Lock()
_current: IoThread | None = None


def acquire() -> IoThread:
    """The process's I/O thread, started if there is none. Each ``acquire`` needs a ``release``."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = IoThread()
        _current.users += 1
        return _current


async def release(thread: IoThread) -> None:
    """Give it back; the last one ends it."""
    global _current
    with _lock:
        thread.users -= 1
        last = thread.users == 0
        if last and _current is thread:
            _current = None
    if last:
        with trio.CancelScope(shield=True):
            await thread.end()
    else:
        await trio.lowlevel.checkpoint()


def check_process(pid: int) -> None:
    """Raise in a forked child: gRPC's threads did not come along."""
    if os.getpid() != pid:
        raise ForkedProcess(
            "this node was made before the process forked, and gRPC does not survive a fork: "
            "create the node in the child, or start children with the spawn method"
        )


# --- Against starvation ---------------------------------------------------------------------------


CHECK_EVERY = 0.001
"""How often a busy trio run looks after the I/O thread: a guess well below the switch interval."""
SHARE = 0.5
"""How fast the budget grows: the part of a busy trio run's time that windows may take. They end early when
nothing is on its way."""
LONGEST = 0.003
"""The most the budget holds, so the longest window. Measured with slices of 5 ms, six runs: round trips to
the busy node p99 8.2-8.4 ms, from it 6.8-7.2 ms (benchmarks/busy_application.py)."""
NAP = 0.00002
"""The kernel makes about 80 us of it: long enough for the other thread to take the GIL."""


class HandoverInstrument(trio.abc.Instrument):
    """Lets the I/O thread have the GIL while it has something to do."""

    def __init__(self, thread: IoThread) -> None:
        self.thread = thread
        self.takers: list[Callable[[], None]] = []  # of the transports' mailboxes
        self._looked = time.perf_counter()
        self._turns = 0
        self._budget = LONGEST

    def before_io_wait(self, timeout: float) -> None:
        """Called by trio once per scheduling round."""
        if timeout > 0:
            return  # trio has nothing to run and lets go of the GIL by itself
        thread = self.thread
        now = time.perf_counter()
        elapsed = now - self._looked
        asked, thread.asked = thread.asked, False
        if elapsed < CHECK_EVERY and not asked:
            return
        turns, self._turns = thread.turns - self._turns, thread.turns
        self._looked = now
        self._budget = min(self._budget + elapsed * SHARE, LONGEST)
        if asked or turns * CHECK_EVERY < elapsed:  # it may be starved, or have nothing to do
            self._let_work(now + max(self._budget, 2 * NAP), asked or thread.pending)
            self._budget = max(0.0, self._budget - (self._looked - now))

    def after_io_wait(self, timeout: float) -> None:
        """Called by trio when the wait is over: an idle wait gave the I/O thread all it needed.

        What has arrived is taken here: through trio's entry queue, the tasks that it is for would run one
        scheduling round later."""
        if timeout > 0:
            for take in self.takers:
                take()
            self._looked = time.perf_counter()
            self._turns = self.thread.turns

    def _let_work(self, until: float, expecting: bool) -> None:
        """Until the thread waits for the network and no answer is expected, or the time is up."""
        thread = self.thread
        while True:
            time.sleep(NAP)  # first: whether the thread wants the GIL cannot be seen
            for take in self.takers:
                take()
            expecting |= thread.pending
            now = time.perf_counter()
            quiet = thread.waits and not thread.pending and not expecting
            if quiet or now >= until:
                self._looked = now
                thread.asked = False
                return


_instrument: trio.lowlevel.RunVar[HandoverInstrument | None] = trio.lowlevel.RunVar(
    "overlaymq-handover", None
)


def install_instrument(thread: IoThread, take: Callable[[], None]) -> None:
    """One instrument per trio run; ``take`` empties a transport's mailbox."""
    instrument = _instrument.get()
    if instrument is None or instrument.thread is not thread:
        instrument = HandoverInstrument(thread)
        trio.lowlevel.add_instrument(instrument)
        _instrument.set(instrument)
    instrument.takers.append(take)


def remove_instrument(take: Callable[[], None]) -> None:
    """The last user of the run removes it."""
    instrument = _instrument.get()
    if instrument is not None and take in instrument.takers:
        instrument.takers.remove(take)
        if not instrument.takers:
            trio.lowlevel.remove_instrument(instrument)
            _instrument.set(None)
