"""The event loop on which gRPC works: asyncio as a guest in the trio run.

gRPC for Python knows asyncio and threads, not trio. A second thread with an asyncio loop costs a message two
wake-ups more on either side, and the two threads fight over the interpreter lock. So this is a small asyncio
loop without a selector of its own, which takes its *turns* in the thread of the trio run that uses it:

- *after trio's wait for I/O*, if gRPC has reported something: the loop's callbacks run, then what they
  posted is handed to the nodes, and the tasks that it is for run in the same scheduling round;
- *when a node has sent something*: it is written.

gRPC itself receives and answers its own pings in a thread of its own that needs no interpreter lock, and says
with one byte an event on a socket that there is something to fetch. All bytes are read at once: asyncio's
way, one byte a turn, makes a turn for nothing of each of the others.

All nodes of a trio run share its loop. It starts with the first transport and ends with the last. An
application that computes without a checkpoint keeps the loop waiting as it keeps all of trio waiting, but
nothing is lost meanwhile, and what has arrived is taken at the first checkpoint, before its tasks go on.

What a turn does may not raise: trio throws away an instrument that does. asyncio logs what callbacks raise,
a mailbox what nodes raise.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import heapq
import logging
import os
import socket
import threading
import time
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trio

from overlaymq.errors import ForkedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

T = TypeVar("T")
log = logging.getLogger("overlaymq.transport")

LOOK_EVERY = 0.001
"""How often a busy trio run looks whether gRPC has something before its tasks run: a guess. A quiet one looks
after each wait."""
POLL = 0.05
"""How often who waits for the loop looks whether it is still served: a guess."""
BYTES = 4096


def _keep_freed_memory() -> None:
    """Let glibc keep what large frames free, instead of giving it back after each of them.

    Its thresholds for that are dynamic: freeing one large block raises them to its size. Untouched
    memory costs nothing. Measured: no page faults instead of 14 a batch of 64 KiB, a third less CPU.
    """
    bytes(16 * 1024 * 1024)


class IoLoop:
    """As much of an asyncio loop as gRPC and the links need. All of it in the trio thread, but for
    ``call_soon_threadsafe``."""

    time = staticmethod(time.monotonic)
    get_debug = bool
    """No. asyncio asks it for each future that it makes, so it is no call of Python's."""

    def __init__(self) -> None:
        _keep_freed_memory()
        self.users = 0
        self.takers: list[Callable[[], bool]] = []  # of the transports' mailboxes
        self._thread = threading.get_ident()
        self._token = trio.lowlevel.current_trio_token()
        self._ready: deque[_Due] = deque()
        self._timers: list[asyncio.TimerHandle] = []
        self._alarm = trio.CancelScope()
        self._readers: tuple[_Reader, ...] = ()
        self._scopes: list[trio.CancelScope] = []
        self._turning = False
        self._news = False  # something was posted in this turn, and not taken
        self._closed = False
        self._looked = time.perf_counter()
        self._work: set[asyncio.Task[Any]] = set()
        self.loop = cast("asyncio.AbstractEventLoop", self)
        self._in_background(self._keep_time)

    # --- for the transports ---------------------------------------------------------------------

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Run a function in the loop's next turn: at the latest before trio waits for I/O."""
        self.call_soon(function, *arguments)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task and keep it from being collected."""
        task = self.create_task(coroutine)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def perform(
        self, work: Coroutine[Any, Any, T], post: Callable[..., object] | None = None
    ) -> T:
        """From trio: run a coroutine on the loop and wait for its outcome here.

        ``post`` carries the news back, for callers that want it in order with other news. If the
        caller is cancelled, the work goes on.
        """
        done = trio.Event()
        outcome: list[tuple[T, None] | tuple[None, BaseException]] = []
        tell = post or self._token.run_sync_soon

        async def perform() -> None:
            try:
                outcome.append((await work, None))
            except BaseException as error:  # it is raised again for who waits
                outcome.append((None, error))
            with contextlib.suppress(trio.RunFinishedError):
                tell(done.set)

        self.spawn(perform())
        while not done.is_set():
            with trio.move_on_after(POLL):
                await done.wait()
            if not done.is_set():
                self._poll()
                if outcome:  # nobody was left to bring the news
                    break
        result, error = outcome[0]
        if error is not None:
            raise error
        return cast("T", result)

    def posted(self) -> None:
        """A mailbox has got something to take."""
        if self._turning:
            self._news = True
        else:
            self._call_turn()

    async def end(self) -> None:
        """Cancel what is left of it, and close it."""
        left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        for task in left:
            task.cancel()
        with trio.move_on_after(1):
            while any(not task.done() for task in left):
                self._poll()
                await trio.sleep(0.001)
        self._closed = True
        for scope in tuple(self._scopes):
            scope.cancel()

    def _poll(self) -> None:
        """What the background tasks see to, for when they are gone: a node in an abandoned async generator is
        closed when trio has ended them."""
        for reader in self._readers:
            reader.read()
        self._ring()
        self.turn()

    # --- turns ------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def turn(self) -> None:
        """Run what is ready, hand over what it posted, run what that has made ready."""
        if self._turning or self._closed:
            return
        self._turning = True
        try:
            self._run_ready()
            self._news = False
            for take in tuple(self.takers):
                if take():
                    self._news = True
            self._run_ready()
        finally:
            self._turning = False
        if self._news:
            self._call_turn()

    @trio.lowlevel.enable_ki_protection  # Ctrl-C would end the task that writes
    def write(self) -> None:
        """Write what a node has just handed over. What that posts waits for a turn."""
        if not self._ready or self._turning or self._closed:
            return
        self._turning = True
        self._news = False
        try:
            self._run_ready()
        finally:
            self._turning = False
        if self._news:
            self._call_turn()

    def before_wait(self) -> None:
        """Take a turn for what is still ready. Not here: trio has looked already at what it has to run, and
        until when, and would not notice what the turn adds."""
        if self._ready:
            self._call_turn()

    def after_wait(self, timeout: float) -> None:
        """Fetch what gRPC has, before trio's tasks run."""
        now = time.perf_counter()
        if timeout > 0 or now - self._looked >= LOOK_EVERY:
            self._looked = now
            for reader in self._readers:
                reader.look()

    def _run_ready(self) -> None:
        ready = self._ready
        if not ready:
            return
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop)
        try:
            while ready:
                due = ready.popleft()
                if due._cancelled:
                    continue
                try:
                    due._context.run(due._callback, *due._args)
                except BaseException as error:  # it would end the trio run
                    self.call_exception_handler({"message": f"{due!r} failed", "exception": error})
        finally:
            asyncio._set_running_loop(before)

    def _call_turn(self) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.turn, idempotent=True)

    def _in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> trio.CancelScope:
        scope = trio.CancelScope()
        self._scopes.append(scope)

        async def run() -> None:
            try:
                with scope:
                    await work()
            except Exception:  # what a system task raises ends the trio run
                log.exception("gRPC's event loop lost a part")
            if scope in self._scopes:
                self._scopes.remove(scope)

        trio.lowlevel.spawn_system_task(run, name=f"overlaymq {work.__name__}")
        return scope

    # --- timers -----------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._next_alarm()) as self._alarm:
                await trio.sleep_forever()
            self._ring()
            self.turn()

    def _ring(self) -> None:
        while self._timers and self._timers[0].when() <= self.time():
            timer = heapq.heappop(self._timers)
            if not timer.cancelled():
                self._ready.append(cast("_Due", timer))

    def _next_alarm(self) -> float:
        while self._timers and self._timers[0].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            return float("inf")
        return trio.current_time() + max(self._timers[0].when() - self.time(), 0)

    # --- what asyncio and gRPC ask of a loop ------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("this loop is closed: its last node has ended")
        due = _Due(callback, args, self.loop, context)
        self._ready.append(due)
        return due

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = self.call_soon(callback, *args, context=context)
        if threading.get_ident() != self._thread or not self._turning:
            self._call_turn()  # in the same thread it may be a host loop, of which trio is the guest
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, **details: Any
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, **details)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self.loop, context)
        heapq.heappush(self._timers, timer)
        if self._timers[0] is timer:
            self._alarm.deadline = self._next_alarm()
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio tells it. The timer is passed over when it is due."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.loop)

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, **_: Any
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self.loop, name=name)

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        """gRPC's socket, on which there is a byte for each event."""
        self.remove_reader(fd)
        reader = _Reader(self, fd, functools.partial(callback, *args))
        reader.scope = self._in_background(reader.watch)
        self._readers = (*self._readers, reader)

    def remove_reader(self, fd: Any) -> bool:
        if threading.get_ident() != self._thread:  # where the last gRPC object was freed
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.remove_reader, fd)
            return True
        gone = tuple([reader for reader in self._readers if reader.source is fd])
        self._readers = tuple([reader for reader in self._readers if reader not in gone])
        for reader in gone:
            with contextlib.suppress(RuntimeError):  # the trio run has ended
                reader.scope.cancel()
        return bool(gone)

    async def getaddrinfo(self, host: Any, port: Any, **details: Any) -> Any:
        """In a thread of trio's."""
        found = self.create_future()

        async def look_up() -> None:
            try:
                result = await trio.to_thread.run_sync(
                    functools.partial(socket.getaddrinfo, host, port, **details),
                    abandon_on_cancel=True,
                )
            except Exception as error:  # not only OSError; it is raised again for who waits
                if not found.done():
                    found.set_exception(error)
            else:
                if not found.done():
                    found.set_result(result)
            self.turn()

        self._in_background(look_up)
        return await found

    def is_running(self) -> bool:
        return self._turning

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        log.error("%s", context.get("message"), exc_info=error)


class _Due(asyncio.Handle):
    """A callback that is to run. There are two for each frame that is written, and asyncio's own takes
    more calls to make and run."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Reader:
    """Fetches what gRPC has announced."""

    def __init__(self, loop: IoLoop, source: socket.socket, fetch: Callable[[], object]) -> None:
        self.scope = trio.CancelScope()
        self.source = source
        self._looked = False
        self._loop = loop
        self._fetch = fetch

    async def watch(self) -> None:
        """See to it that trio's wait ends when there is something."""
        while not self.scope.cancel_called:  # then gRPC may have closed the socket
            await trio.lowlevel.wait_readable(self.source)
            if not self._looked:
                self.read()
            self._looked = False

    def look(self) -> None:
        """Fetch what there is before the tasks run, of which ``watch`` is one."""
        self._looked = True
        self.read()

    def read(self) -> None:
        """Fetch it, if there is anything, and let the loop take its turn."""
        try:
            if not self._announced():
                return
            self._fetch()
        except BlockingIOError:
            return  # nothing, or another loop of the process was quicker
        except Exception:  # whatever gRPC raises: an instrument that raises is gone
            log.exception("gRPC could not take its events")
        self._loop.turn()

    def _announced(self) -> bool:
        """Whether a byte has come. One is left for gRPC: all that they stand for is fetched at once."""
        waiting = len(self.source.recv(BYTES, socket.MSG_PEEK))
        if waiting > 1:
            self.source.recv(waiting - 1)
        return waiting > 0


class _Turns(trio.abc.Instrument):
    """Gives a loop its turns."""

    def __init__(self, loop: IoLoop) -> None:
        self.before_io_wait = lambda timeout: loop.before_wait()  # type: ignore[method-assign]
        self.after_io_wait = loop.after_wait  # type: ignore[method-assign]


# --- one for each trio run ------------------------------------------------------------------------

_current: trio.lowlevel.RunVar[tuple[IoLoop, _Turns] | None] = trio.lowlevel.RunVar(
    "overlaymq-io-loop", None
)


def current() -> IoLoop | None:
    """The trio run's loop, if it has one."""
    found = _current.get()
    return None if found is None else found[0]


def acquire() -> IoLoop:
    """The trio run's loop, started if there is none. Each ``acquire`` needs a ``release``."""
    found = _current.get()
    if found is None:
        loop = IoLoop()
        found = (loop, _Turns(loop))
        trio.lowlevel.add_instrument(found[1])
        _current.set(found)
    found[0].users += 1
    return found[0]


async def release(loop: IoLoop) -> None:
    """Give it back; the last one ends it."""
    loop.users -= 1
    if loop.users:
        await trio.lowlevel.checkpoint()
        return
    found = _current.get()
    if found is not None and found[0] is loop:
        _current.set(None)
    with trio.CancelScope(shield=True):
        await loop.end()
    if found is not None and found[0] is loop:
        with contextlib.suppress(KeyError):  # trio has thrown it away
            trio.lowlevel.remove_instrument(found[1])


def check_process(pid: int) -> None:
    """Raise in a forked child: gRPC's threads did not come along."""
    if os.getpid() != pid:
        raise ForkedProcess(
            "this node was made before the process forked, and gRPC does not survive a fork: "
            "create the node in the child, or start children with the spawn method"
        )
