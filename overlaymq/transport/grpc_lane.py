"""What a node and its links share: lanes one way, a mailbox the other.

A lane is the queue towards one peer for the life of one link: from the first send (or the link's arrival)
until ``failed`` or ``closed``. The node's side appends and counts what it handed over; the link, in turns of
the loop, pops and counts what it has written. Each field has one side that writes it. Nothing is ever taken
by copy-then-clear: that loses what arrives in between.

A lane that has ended takes no more from its link. What the node appended meanwhile is lost with the link if
it failed; if it was closed in peace, the node's side moves it to a fresh lane.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from overlaymq.messages import Peer
    from overlaymq.transport.grpc_link import Link

log = logging.getLogger("overlaymq.transport")

ROUND = 64
"""Mailbox items handled per scheduling round, so that trio's tasks run in between: a guess."""


class Lane:
    """See the module's text. Fields are marked with the side that writes them."""

    __slots__ = (
        "abandoned",
        "control",
        "control_handed",
        "control_written",
        "data",
        "data_handed",
        "data_written",
        "dial",
        "dialled",
        "ended",
        "gone",
        "kill",
        "link",
        "malformed",
        "peer",
        "probed",
        "probes",
        "scheduled",
        "watched",
    )

    def __init__(self, peer: Peer) -> None:
        self.peer = peer  # hearsay until the link opens; then it sets what was proved
        self.control: deque[bytes] = deque()
        self.data: deque[bytes] = deque()
        self.control_handed = 0  # node
        self.control_written = 0  # link
        self.data_handed = 0  # node
        self.data_written = 0  # link
        self.scheduled = False  # set by the node when in the outbox, cleared before it is looked at
        self.watched = False  # set by the node, cleared by the link
        self.probes = 0  # node: how many were asked for
        self.probed = 0  # link: how many were sent
        self.kill = ""  # node: give the link up, for this reason
        self.abandoned = False  # node: its items have moved to the lane that was opened
        self.malformed = 0  # node
        self.ended = False  # link
        self.gone = False  # link: nobody, or somebody else, listens at the address
        self.dialled = False  # link
        self.link: Link | None = None  # link
        self.dial: asyncio.Task[None] | None = None  # link

    @property
    def backlog(self) -> int:
        return self.data_handed - self.data_written

    def move_to(self, other: Lane) -> None:
        """What is still waiting goes on in another lane."""
        other.control_handed += _move(self.control, other.control)
        other.data_handed += _move(self.data, other.data)
        other.watched |= self.watched
        other.probes += self.probes - self.probed


def _move(source: deque[bytes], target: deque[bytes]) -> int:
    moved = 0
    while source:
        part = source.popleft()
        target.append(part)
        moved += len(part)
    return moved


class Mailbox:
    """Calls from the links (or from inside a call of the node) to the node, in order, in a turn of their own.

    An exception in a call is logged and reported, never passed on: it would end the whole trio run.
    """

    def __init__(self, posted: Callable[[], None], broken: Callable[[], None]) -> None:
        self._posted = posted
        self._broken = broken
        self._items: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.closed = False

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """For the next turn."""
        if not self.closed:
            self._items.append((function, arguments))
            self._posted()

    def take(self) -> bool:
        """Perform what has been posted, some of it at a time; whether there is more."""
        for _ in range(ROUND):
            if not self._items or self.closed:
                return False
            function, arguments = self._items.popleft()
            try:
                function(*arguments)
            except BaseException:  # whatever the node did, the other links and the trio run go on
                log.exception("a node's inbox raised; the event is lost")
                self._broken()
        return bool(self._items)
