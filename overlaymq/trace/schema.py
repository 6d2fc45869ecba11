"""The trace format: one flat row an event, the same from a live node and from the simulator.

Rows are flat so that a table reader (Parquet, Spark, a line of ``jq``) needs to know nothing else: a field
that an event has no use for is left out. Ids are 32 hex digits. Times are nanoseconds: ``ts_mono_ns`` counts
from the start of a run and orders the rows of one node, ``ts_wall_ns`` is the time of day, which the
simulator counts from 1970. What has no field of its own is a JSON object in ``extra``, keys in order.

The fields and the events follow the delivery-trace proposal that libp2p's pubsub traces were widened to
(peers.md 5.4). ``NODE``, ``FAULT`` and ``CHECK`` are ours: a run of the simulator tells what was done to it,
and which invariant did not hold.

A row is written as one line of JSON with its fields in the order of the class, so equal rows are equal
bytes. A field that is added goes to the end and raises ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA_VERSION = 1

NODE = "NODE"
"""A node's life; ``reason``: up, active, down."""
LEAF_SET = "LEAF_SET"
"""The leaf set is different; ``extra.leaves``: the members, clockwise."""
LINK_DOWN = "LINK_DOWN"
"""A peer was removed as dead or departed."""
PUBLISH = "PUBLISH"
"""A message, here a lookup, begins at a node; ``topic``: its key."""
SEND = "SEND"
"""A message is handed to a link; ``reason``: its fate, in the simulator; ``extra.kind``: what it is."""
ROUTE_HOP = "ROUTE_HOP"
"""As SEND, of a routed message; ``hop`` counts from 1."""
DELIVER = "DELIVER"
"""A message has reached the node it was meant for."""
DROP = "DROP"
"""Something was discarded, and why; ``extra.messages``: how many."""
FAULT = "FAULT"
"""What a scenario did; ``reason``: the deed."""
CHECK = "CHECK"
"""An invariant did not hold; ``reason``: its name."""

EVENTS = (NODE, LEAF_SET, LINK_DOWN, PUBLISH, SEND, ROUTE_HOP, DELIVER, DROP, FAULT, CHECK)


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One event."""

    run_id: str
    schema_version: int
    node_id: str = ""
    boot_id: str = ""
    """One life of a node: its incarnation."""
    event: str
    ts_wall_ns: int
    ts_mono_ns: int
    strategy: str = ""
    strategy_config_hash: str = ""
    topic: str = ""
    msg_origin: str = ""
    msg_epoch: int = 0
    msg_seq: int = -1
    msg_id: str = ""
    peer_id: str = ""
    hop: int = -1
    size_bytes: int = -1
    reason: str = ""
    duration_ns: int = -1
    extra: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Row)


def encode(row: Row) -> bytes:
    """One line, with its end."""
    return _encoder.encode(row) + b"\n"


def decode(line: bytes) -> Row:
    """A row from its line."""
    return _decoder.decode(line)


def packed(**facts: Any) -> str:
    """The ``extra`` of a row: JSON, keys in order."""
    return msgspec.json.encode(facts, order="deterministic").decode()
