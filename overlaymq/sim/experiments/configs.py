"""Configurations that experiments share."""

from __future__ import annotations

import msgspec

from overlaymq.config import PastryConfig

WIDE = PastryConfig(
    probe_timeout=5.0, ack_timeout_first=10.0, join_retry=15.0, heartbeat_every=30.0, lease=60.0
)
"""For the papers' topologies, where a round trip takes 1.1 s on average and 3.5 s at most: the defaults are
those of a LAN, and a node farther than a probe's timeout would be taken for dead. The heartbeat is MSPastry's
(T_ls = 30 s), a lease lasts for two of them as by default, the timeouts are guesses above the longest round
trip. A join request crosses the network about six times before its answer is back."""

NEVER = 1e9

QUIET = msgspec.structs.replace(
    WIDE,
    heartbeat_every=NEVER,
    lease=NEVER,
    leaf_gossip_every=NEVER,
    row_exchange_every=NEVER,
    neighbour_check_every=NEVER,
    heal_every=NEVER,
)
"""Nothing periodic, and leases that last: whatever is sent is sent for what the experiment does."""
