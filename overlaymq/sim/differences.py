"""Where our figures differ from the published ones, and why, as far as that is known. By id."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "P9": (
        "The source gives two bounds from an analysis that it does not show. The share follows from the "
        "ids alone. At 100,000 nodes about 24 share three digits with a key; a leaf set of 16 covers most "
        "of them but not all; and of the groups of four digits, 1.5 nodes large on average, a fifth are "
        "empty. So about one lookup in eleven meets an empty slot outside its leaf set, once: 0.023 of all "
        "hops. At 3,000 nodes it is 0.018."
    ),
}
