"""A bounded memory of what was seen lately, to tell copies from originals.

A lost acknowledgement makes the previous hop send a message again, by another way or, once its doubt is
settled, by the same one. Both copies arrive. The oldest entry makes room for the newest: what is forgotten
too early costs a second delivery, never a lost one, so the eviction is not counted as a loss.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")


class Recent(Generic[Key]):
    """A set of at most ``size`` keys, the newest ones."""

    __slots__ = ("_keys", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._keys: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def seen(self, key: Key) -> bool:
        """Whether the key is known; it is from now on."""
        keys = self._keys
        if key in keys:
            return True
        if len(keys) >= self.size:
            del keys[next(iter(keys))]
        keys[key] = None
        return False
