"""The inside of a measured process: orders come in on stdin, facts go out on stdout, in JSON lines.

A child outlives its parent by nothing: the end of stdin ends it, without the farewells of whatever
library it runs. So no measurement leaves a process behind.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Order = dict[str, Any]


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def obey(follow: Callable[[Order], None]) -> None:
    """Follow orders in a thread beside the main one, until there are no more."""

    def read() -> None:
        try:
            for line in sys.stdin:
                follow(json.loads(line))
        except BaseException:  # whatever it was, the process must end and say why
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    threading.Thread(target=read, name="orders", daemon=True).start()


def inbox() -> Callable[[], Order]:
    """A blocking call for the next order, for a main loop that follows them itself."""
    waiting: queue.Queue[Order] = queue.Queue()
    obey(waiting.put)
    return waiting.get
