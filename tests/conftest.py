"""Settings that every test shares.

`make test` must give the same verdict twice, so the default hypothesis profile is derandomised.
`HYPOTHESIS_PROFILE=explore` looks for new examples instead.
"""

from __future__ import annotations

import os

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
