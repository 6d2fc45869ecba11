"""Where our figures differ from the published ones, and why, as far as that is known. By id."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {}
