"""As ``tree_host``, with so little knowledge of the ring and so few children that an SV tree of 16 nodes has
forwarders and ways through others. All times are the defaults."""

from __future__ import annotations

import sys

import trio

from overlaymq.config import Config, PastryConfig, RendezvousConfig
from tests.live.tree_host import main

CONFIG = Config(
    pastry=PastryConfig(digit_bits=1, leaf_set_size=4),
    rendezvous=RendezvousConfig(max_members=3),
)

if __name__ == "__main__":
    trio.run(main, sys.argv[1:], CONFIG)
