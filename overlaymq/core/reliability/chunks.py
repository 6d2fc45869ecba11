"""Large payloads travel as chunks of one sequence number; only subscribers put them together.

A chunk's body is a slice of the encoded body, so joining the slices gives back what the publisher encoded
and nobody on the way has to look inside. What is incomplete is bounded in bytes and in time; whatever is
given up is reported once per message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from overlaymq.config import DeliveryConfig
    from overlaymq.ids import Id
    from overlaymq.messages import Batch

MessageId = tuple["Id", int, int]


class _Partial:
    __slots__ = ("deadline", "first", "parts", "size")

    def __init__(self, first: Batch, deadline: float) -> None:
        self.first = first
        self.parts: dict[int, bytes] = {}
        self.size = 0
        self.deadline = deadline


class Reassembler:
    """The incomplete messages of one topic on one node."""

    __slots__ = ("_config", "_partials", "_size")

    def __init__(self, config: DeliveryConfig) -> None:
        self._config = config
        self._partials: dict[MessageId, _Partial] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._partials)

    def add(self, chunk: Batch, now: float) -> Batch | None:
        """Take a chunk; the whole message once it is complete."""
        key = (chunk.origin, chunk.epoch, chunk.first)
        partial = self._partials.get(key)
        if partial is None:
            partial = self._partials[key] = _Partial(chunk, now + self._config.chunk_timeout)
        if chunk.chunk in partial.parts or chunk.chunks != partial.first.chunks:
            return None
        partial.parts[chunk.chunk] = chunk.body
        partial.size += chunk.size
        partial.deadline = now + self._config.chunk_timeout
        self._size += chunk.size
        if len(partial.parts) < partial.first.chunks:
            return None
        self._forget(key)
        body = b"".join(partial.parts[index] for index in range(partial.first.chunks))
        return msgspec.structs.replace(chunk, body=body, chunk=0, chunks=1, wire=None)

    def give_up(self, now: float) -> list[MessageId]:
        """What has waited too long, and the oldest of what exceeds the bound."""
        given_up = [key for key, partial in self._partials.items() if partial.deadline <= now]
        for key in given_up:
            self._forget(key)
        while self._size > self._config.reassembly:
            oldest = next(iter(self._partials))
            self._forget(oldest)
            given_up.append(oldest)
        return given_up

    def _forget(self, key: MessageId) -> None:
        self._size -= self._partials.pop(key).size
