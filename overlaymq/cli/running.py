"""Running a command: trio inside, signals to a clean end, and errors to one line and an exit code.

A signal cancels the command, so a node always leaves the ring properly; it has ``link.grace`` for that,
less than two seconds. A second signal ends it at once. What overlaymq raises on purpose is told in its
own words; anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import enum
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

import click
import trio

from overlaymq.errors import (
    ConfigError,
    IdentityError,
    JoinFailed,
    LinkRefused,
    NotSupported,
    OverlayError,
    PayloadTooLarge,
    TopicConflict,
    TopicUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import NoReturn


class Exit(enum.IntEnum):
    """Exit codes, and what each means."""

    OK = 0, "done"
    FAILED = 1, "a check failed, or nobody is there"
    USAGE = 2, "wrong usage or configuration"
    CANNOT_JOIN = 3, "cannot join the overlay"
    TIMED_OUT = 4, "timed out"
    INTERRUPTED = 130, "interrupted (Ctrl-C or SIGTERM)"

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member


EXIT_CODES = tuple(Exit)

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (ConfigError, Exit.USAGE),
    (IdentityError, Exit.USAGE),
    (NotSupported, Exit.USAGE),
    (PayloadTooLarge, Exit.USAGE),
    (TopicConflict, Exit.USAGE),
    (JoinFailed, Exit.CANNOT_JOIN),
    (LinkRefused, Exit.CANNOT_JOIN),
    (TopicUnavailable, Exit.TIMED_OUT),
    (OverlayError, Exit.FAILED),
    (OSError, Exit.FAILED),
)


class Failure(OverlayError):
    """A command's own reason to end, with the exit code it means."""

    def __init__(self, text: str, code: Exit) -> None:
        super().__init__(text)
        self.code = code


def run(command: Callable[[], Awaitable[Exit]], *, verbose: int = 0) -> NoReturn:
    """Run a command to its end and exit with its code."""
    _log_to_stderr(verbose)
    try:
        code = trio.run(_until_signal, command)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except (OverlayError, OSError, BaseExceptionGroup) as error:
        code = _explain(error)
    sys.exit(code)


async def _until_signal(command: Callable[[], Awaitable[Exit]]) -> Exit:
    code = Exit.INTERRUPTED

    async def watch(task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            await anext(signals)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        await nursery.start(watch)
        code = await command()
        nursery.cancel_scope.cancel()
    return code


def _explain(error: BaseException) -> Exit:
    """Say what went wrong in one line, or raise it again if nobody meant it to happen."""
    causes = list(_causes(error))
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        return Exit.INTERRUPTED
    if any(isinstance(cause, BrokenPipeError) for cause in causes):
        # Whoever read our output has had enough. Nothing more may be flushed to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    for cause in causes:
        if not isinstance(cause, OverlayError | OSError):
            raise error
    click.secho("overlaymq: ", fg="red", bold=True, nl=False, err=True)
    click.echo(str(causes[0]), err=True)
    return code_of(causes[0])


def code_of(error: BaseException) -> Exit:
    """The exit code an error means."""
    if isinstance(error, Failure):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.FAILED)


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _log_to_stderr(verbose: int) -> None:
    level = (logging.ERROR, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(
        level=level, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr
    )
