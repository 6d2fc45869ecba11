"""The event log of a simulated run: rows of ``trace.schema``, written as they happen.

Nothing in a row depends on the machine or the process: times are virtual, ids are the plan's, and every
list is in the order in which the run made it. So a plan gives the same bytes wherever it runs, and two logs
that differ show, at their first different line, where a run lost its determinism.

Rows go to a buffered file one by one and none is kept, so a log costs no memory. ``digest`` is for those who
want to compare runs without keeping their logs.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, BinaryIO

from overlaymq.events import Dropped, Joined, LeafsChanged, PeerDead
from overlaymq.ids import text
from overlaymq.messages import Routed
from overlaymq.trace import schema

if TYPE_CHECKING:
    from overlaymq.events import Event
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer
    from overlaymq.sim.invariants import Finding
    from overlaymq.sim.scenario import Action
    from overlaymq.sim.watched import WatchedNode

NANOSECONDS = 1_000_000_000
RING = "pastry"
"""In place of a strategy: what no topic has carried."""


class EventLog:
    """Give it a binary file, or nothing for the digest alone."""

    def __init__(self, run_id: str, file: BinaryIO | None = None) -> None:
        self.run_id = run_id
        self.rows = 0
        self._file = file
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """Of all bytes so far."""
        return self._hash.hexdigest()

    # --- what happens ------------------------------------------------------------------------------

    def node(self, now: float, node: WatchedNode, phase: str) -> None:
        """A node is up, active or down."""
        self._write(now, schema.NODE, node, reason=phase, extra=_name(node))

    def action(self, now: float, action: Action) -> None:
        """The plan does something."""
        facts = schema.packed(node=action.node, nodes=action.nodes, value=action.value)
        self._write(now, schema.FAULT, reason=action.do, extra=facts)

    def lookup(self, now: float, node: WatchedNode, request: int, key: Id) -> None:
        """A lookup begins."""
        me = node.pastry.me
        self._write(now, schema.PUBLISH, node, **_lookup(key, me.id, request))

    def delivered(self, now: float, node: WatchedNode, request: int, routed: Routed) -> None:
        """A lookup ends."""
        self._write(
            now,
            schema.DELIVER,
            node,
            hop=routed.hops,
            **_lookup(routed.key, routed.source.id, request),
        )

    def sent(self, now: float, node: WatchedNode, peer: Peer, message: Message, fate: str) -> None:
        """A message is sent, and its fate known."""
        if type(message) is Routed:
            request = getattr(message.body, "request", -1)
            self._write(
                now,
                schema.ROUTE_HOP,
                node,
                peer_id=text(peer.id),
                hop=message.hops,
                reason=fate,
                extra=schema.packed(kind=type(message.body).__name__),
                **_lookup(message.key, message.source.id, request),
            )
            return
        kind = schema.packed(kind=type(message).__name__)
        self._write(now, schema.SEND, node, peer_id=text(peer.id), reason=fate, extra=kind)

    def event(self, now: float, node: WatchedNode, event: Event) -> None:
        """A core tells something."""
        if type(event) is Joined:
            self.node(now, node, "active")
        elif type(event) is LeafsChanged:
            leaves = schema.packed(leaves=[text(leaf.id) for leaf in event.leaves])
            self._write(now, schema.LEAF_SET, node, extra=leaves)
        elif type(event) is PeerDead:
            self._write(now, schema.LINK_DOWN, node, peer_id=text(event.peer.id))
        elif type(event) is Dropped:
            self._write(now, schema.DROP, node, reason=event.reason, msg_count=event.messages)

    def finding(self, now: float, finding: Finding) -> None:
        """An invariant did not hold."""
        facts = schema.packed(text=finding.text)
        self._write(now, schema.CHECK, reason=finding.invariant, extra=facts)

    def _write(
        self, now: float, event: str, node: WatchedNode | None = None, **fields: Any
    ) -> None:
        at = round(now * NANOSECONDS)
        if node is not None:
            me = node.pastry.me
            fields |= {"node_id": text(me.id), "boot_id": me.incarnation}
        row = schema.Row(
            run_id=self.run_id,
            schema_version=schema.SCHEMA_VERSION,
            event=event,
            ts_wall_ns=at,
            ts_mono_ns=at,
            **fields,
        )
        line = schema.encode(row)
        self.rows += 1
        self._hash.update(line)
        if self._file is not None:
            self._file.write(line)


def _lookup(key: Id, origin: Id, request: int) -> dict[str, Any]:
    """A lookup is a message to a key: one that the ring carries by itself."""
    asked = {"strategy": RING, "topic_id": text(key), "msg_origin": text(origin)}
    return asked if request < 0 else {**asked, "msg_seq": request, "msg_count": 1}


def _name(node: WatchedNode) -> str:
    return schema.packed(number=node.number, address=node.pastry.me.address)
