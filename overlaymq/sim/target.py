"""What a target is: one published figure, and the range that a reproduction of it must lie in."""

from __future__ import annotations

import msgspec


class Target(msgspec.Struct, frozen=True):
    """The key is the id of the reproduction list, with a part after a slash where one has several."""

    key: str
    metric: str
    published: float | str
    low: float | None = None
    high: float | None = None
    remark: str = ""
    test: str = ""
    """The test that shows it, where it is no measurement."""

    @property
    def id(self) -> str:
        """The id of the reproduction list."""
        return self.key.partition("/")[0]
