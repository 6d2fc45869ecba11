"""The ring: Pastry as a sans-IO state machine.

``overlay`` composes ``leafset``, ``table`` and ``neighbourhood`` (what is known), ``routing`` (a pure
decision), ``forwarding`` (with ``recent``), ``join``, ``admission``, ``arrivals``, ``liveness``, ``repair``
and ``maintenance`` over the ``state`` they share. ``application`` is what the layer above implements.
"""

from __future__ import annotations

from overlaymq.core.pastry.application import Application
from overlaymq.core.pastry.overlay import Pastry, PastrySnapshot

__all__ = ["Application", "Pastry", "PastrySnapshot"]
