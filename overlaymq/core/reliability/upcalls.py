"""The papers' extension point: three upcalls, the same for all strategies (Scribe JSAC III-B).

``on_forward`` sees each batch at the root and at every forwarder before it is passed on, and may return a
changed batch or None to stop it. ``on_join`` is told after a child or member was added. ``on_fault`` is
called before a repair join is sent. They are synchronous; what they raise is contained by the node,
counted, and treated as if the upcall were absent for that call.

They cost nothing when absent: strategies test ``None`` before they call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from overlaymq.messages import Batch, Peer

OnForward = Callable[["Batch"], "Batch | None"]
OnJoin = Callable[["Peer"], None]
OnFault = Callable[["Peer"], None]


class Upcalls(msgspec.Struct):
    """The upcalls of one topic on one node."""

    on_forward: OnForward | None = None
    on_join: OnJoin | None = None
    on_fault: OnFault | None = None


def contained(upcalls: Upcalls, errors: list[str]) -> Upcalls:
    """The same upcalls, with what they raise noted instead of raised."""

    def on_forward(batch: Batch) -> Batch | None:
        try:
            return upcalls.on_forward(batch) if upcalls.on_forward else batch
        except Exception as error:
            errors.append(f"on_forward: {error!r}")
            return batch

    def on_join(peer: Peer) -> None:
        try:
            if upcalls.on_join:
                upcalls.on_join(peer)
        except Exception as error:
            errors.append(f"on_join: {error!r}")

    def on_fault(peer: Peer) -> None:
        try:
            if upcalls.on_fault:
                upcalls.on_fault(peer)
        except Exception as error:
            errors.append(f"on_fault: {error!r}")

    return Upcalls(
        on_forward if upcalls.on_forward else None,
        on_join if upcalls.on_join else None,
        on_fault if upcalls.on_fault else None,
    )
