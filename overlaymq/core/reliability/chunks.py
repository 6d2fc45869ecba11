"""Large payloads travel as chunks of one sequence number; only subscribers put them together.

A chunk's body is a slice of the encoded body, so joining the slices gives back what the publisher encoded
and nobody on the way has to look inside. What is incomplete is bounded in bytes and in time; whatever is
given up is reported once per message. An ordered topic's root numbers chunks one by one: where they were is
remembered, so that it can be told (``large``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.messages import Epoch, Place

if TYPE_CHECKING:
    from overlaymq.config import DeliveryConfig
    from overlaymq.ids import Id
    from overlaymq.messages import Batch

MessageId = tuple["Id", int, int]


class Partial:
    """An incomplete message: one of its chunks, and what came of all of them."""

    __slots__ = ("deadline", "first", "parts", "places", "size")

    def __init__(self, first: Batch, deadline: float) -> None:
        self.first = first
        self.parts: dict[int, bytes] = {}
        self.places: list[Place] = []
        self.size = 0
        self.deadline = deadline


class Reassembler:
    """The incomplete messages of one topic on one node."""

    __slots__ = ("_config", "_partials", "_patience", "_size")

    def __init__(self, config: DeliveryConfig, patience: float | None = None) -> None:
        self._config = config
        self._patience = config.chunk_timeout if patience is None else patience
        self._partials: dict[MessageId, Partial] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._partials)

    def add(self, chunk: Batch, now: float) -> Batch | None:
        """Take a chunk; the whole message once it is complete."""
        key = (chunk.origin, chunk.epoch, chunk.first)
        partial = self._partials.get(key)
        if partial is None:
            partial = self._partials[key] = Partial(chunk, now + self._patience)
        if len(partial.places) < 2 * partial.first.chunks:  # copies have places of their own
            partial.places.append(place_of(chunk))
        if chunk.chunk in partial.parts or chunk.chunks != partial.first.chunks:
            return None
        partial.parts[chunk.chunk] = chunk.body
        partial.size += chunk.size
        partial.deadline = now + self._patience
        self._size += chunk.size
        if len(partial.parts) < partial.first.chunks:
            return None
        self._forget(key)
        body = b"".join(partial.parts[index] for index in range(partial.first.chunks))
        return msgspec.structs.replace(chunk, body=body, chunk=0, chunks=1, wire=None)

    def give_up(self, now: float) -> list[Partial]:
        """What has waited too long, and the oldest of what exceeds the bound."""
        return self.overdue(now) + self.excess()

    def overdue(self, now: float) -> list[Partial]:
        """What has waited too long; it waits no more."""
        overdue = [key for key, partial in self._partials.items() if partial.deadline <= now]
        return [self._forget(key) for key in overdue]

    def excess(self) -> list[Partial]:
        """The oldest of what exceeds the bound; they wait no more."""
        given_up = []
        while self._size > self._config.reassembly:
            given_up.append(self._forget(next(iter(self._partials))))
        return given_up

    def _forget(self, key: MessageId) -> Partial:
        partial = self._partials.pop(key)
        self._size -= partial.size
        return partial


def place_of(chunk: Batch) -> Place:
    """Where the root has put a chunk."""
    return Place(Epoch(chunk.root_epoch, chunk.root), chunk.root_sequence)
