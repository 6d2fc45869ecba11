"""Settings that every test shares.

`make test` must give the same verdict twice, so the default hypothesis profile is derandomised.
`HYPOTHESIS_PROFILE=explore` looks for new examples instead.

It runs two workers (`-n 2 --dist loadgroup`). The tests of a file stay together, and so do all that share the
one Spark session.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        together = item.path.parent if item.path.parent.name == "spark" else item.path
        item.add_marker(pytest.mark.xdist_group(str(together)))
