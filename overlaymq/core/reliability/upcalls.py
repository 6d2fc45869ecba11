"""The papers' extension point: three upcalls, the same for all strategies (Scribe JSAC III-B).

``on_forward`` sees each batch at the root and at every forwarder before it is passed on, and may return a
changed batch or None to stop it. ``on_join`` is told after a child or member was added. ``on_fault`` is
called before a repair join is sent. They are synchronous; what they raise is contained by the node,
counted, and treated as if the upcall were absent for that call.

They cost nothing when absent: strategies test ``None`` before they call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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

    def guarded(name: str) -> Callable[[Any], Any] | None:
        upcall = getattr(upcalls, name)
        if upcall is None:
            return None

        def call(subject: Any) -> Any:
            try:
                return upcall(subject)
            except Exception as error:  # user code may raise anything; the node goes on
                errors.append(f"{name}: {error!r}")
                return subject  # a batch passes unchanged; the others' answer is not looked at

        return call

    return Upcalls(*(guarded(name) for name in Upcalls.__struct_fields__))
