"""Where our figures differ from the published ones, and why, as far as that is known. By id."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "PA-7": (
        "Not reproduced with far keys. The sources say neither how pairs and keys were drawn nor give a "
        "figure, only that the two distances are about equal. Drawing both at random, messages travel 1.34 "
        "times the distance of their sources along the route (plane: 1.20), and the node where they meet is "
        "0.91 times that distance away (plane: 0.92). With keys more than twice as far away as the sources "
        "are apart it is 2.4. The tables are not the reason, as they are perfect here. With each digit the "
        "candidates for a slot become 16 times fewer and the hop about four times longer, so the first hop "
        "that is long enough for both nodes to choose the same target overshoots their distance, by a factor "
        "of about two; only where the key's own node is no farther than the sources are from each other does "
        "the route end before that."
    ),
    "P9": (
        "The source gives two bounds from an analysis that it does not show. The share follows from the "
        "ids alone. At 100,000 nodes about 24 share three digits with a key; a leaf set of 16 covers most "
        "of them but not all; and of the groups of four digits, 1.5 nodes large on average, a fifth are "
        "empty. So about one lookup in eleven meets an empty slot outside its leaf set, once: 0.023 of all "
        "hops. At 3,000 nodes it is 0.018."
    ),
}
