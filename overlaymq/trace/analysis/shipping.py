"""Code that runs on the workers of a cluster, where overlaymq may not be installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import cloudpickle

if TYPE_CHECKING:
    from types import ModuleType


def by_value(module: ModuleType) -> None:
    """Send a module's functions themselves to the workers, not their names to import."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
