"""Edges: what this node watches together with a peer, and when the peer has last confirmed it.

An edge has one digest for all its trees and one time of confirmation for all *settled* ones; a tree is
*young* on an edge until it is first confirmed there, and has its own time. So a tick costs as much as there
are edges and young trees, and a ping as much as a ping.

A digest is the exclusive or of a hash per tree: adding and removing one costs the same whatever else there
is. A peer that lies about its digest could as well lie about its list; nobody is protected from a neighbour
that claims to watch and does not.

Neither side waits for the other: each sends its digest every ``ping_every`` seconds. Where heartbeats go
(``digest``, called by Pastry's leases) they carry it. Who has heard nothing for a period and one retry
asks, and asks at every retry, so that the loss of some messages is no silence.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from overlaymq.ids import BYTES
from overlaymq.messages import FuseKey, FuseList, FusePing

if TYPE_CHECKING:
    from overlaymq.core.fuse.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

BEATS_LATE = 1.5
"""Heartbeats that are later than so many periods do not come: a guess."""


def mark(key: FuseKey) -> int:
    """63 bits, which the codec takes, that stand for a tree."""
    raw = key.group.to_bytes(BYTES, "big") + key.seq.to_bytes(8, "big")
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big") >> 1


class Watched:
    """A tree on an edge."""

    __slots__ = ("key", "mark", "since")

    def __init__(self, key: FuseKey, since: float) -> None:
        self.key = key
        self.mark = mark(key)
        self.since = since


class Edge:
    """One peer."""

    __slots__ = (
        "beat_at",
        "confirmed_at",
        "digest",
        "listed_at",
        "peer",
        "pinged_at",
        "trees",
        "young",
    )

    def __init__(self, peer: Peer, now: float) -> None:
        self.peer = peer
        self.digest = 0
        self.trees: dict[Id, Watched] = {}
        self.young: dict[Id, None] = {}
        self.confirmed_at = self.pinged_at = now
        self.beat_at = self.listed_at = float("-inf")

    def keys(self) -> tuple[FuseKey, ...]:
        """The list."""
        return tuple([watched.key for watched in self.trees.values()])


class Edges:
    """See the module's text."""

    __slots__ = ("_edges", "_heartbeat_every", "_state")

    def __init__(self, state: State, heartbeat_every: float) -> None:
        self._state = state
        self._edges: dict[Id, Edge] = {}
        self._heartbeat_every = heartbeat_every

    def __len__(self) -> int:
        return len(self._edges)

    def peers(self) -> list[Peer]:
        """Who is at the other ends."""
        return [edge.peer for edge in self._edges.values()]

    # --- what is watched ---------------------------------------------------------------------------

    def watch(self, peer: Peer, key: FuseKey) -> bool:
        """Watch a tree together with a peer; False if there are too many."""
        edge = self._edges.get(peer.id)
        if edge is not None and edge.peer.incarnation != peer.incarnation:
            if edge.peer.incarnation > peer.incarnation:
                return False
            self._lose(edge)
            edge = None
        if edge is None:
            if len(self._edges) >= self._state.config.max_edges:
                self._state.drop("too many edges")
                return False
            edge = self._edges[peer.id] = Edge(peer, self._state.now)
        if key.group in edge.trees:
            return True
        if len(edge.trees) >= self._state.config.groups_per_peer:
            self._state.drop("too many groups with a peer")
            return False
        watched = edge.trees[key.group] = Watched(key, self._state.now)
        edge.young[key.group] = None
        edge.digest ^= watched.mark
        return True

    def unwatch(self, peer: Id, group: Id) -> None:
        """No longer."""
        edge = self._edges.get(peer)
        watched = None if edge is None else edge.trees.pop(group, None)
        if edge is None or watched is None:
            return
        edge.digest ^= watched.mark
        edge.young.pop(group, None)
        if not edge.trees:
            del self._edges[peer]

    # --- what peers say ----------------------------------------------------------------------------

    def digest(self, peer: Id, now: float) -> int:
        """What a heartbeat to a peer carries; it needs no ping then."""
        edge = self._edges.get(peer)
        if edge is None:
            return 0
        edge.beat_at = now
        return edge.digest

    def pinged(self, peer: Peer, ping: FusePing) -> None:
        """A peer's ping."""
        if self._is_late(peer):
            return
        if ping.reply:
            edge = self._edges.get(peer.id)
            self._state.send(peer, FusePing(0 if edge is None else edge.digest))
        self.heard(peer, ping.digest)

    def heard(self, peer: Peer, digest: int) -> None:
        """A peer's digest, however it came."""
        if self._is_late(peer):
            return
        edge = self._of(peer)
        state = self._state
        if edge is None:
            if digest:
                state.send(peer, FuseList(()))
        elif digest == edge.digest:
            edge.confirmed_at = state.now
            edge.young.clear()
        else:
            self._send_list(edge, True)

    def listed(self, peer: Peer, message: FuseList) -> None:
        """A peer's list: what both have is confirmed, what only this node has is broken."""
        state = self._state
        if self._is_late(peer):
            return
        if len(message.keys) > state.config.groups_per_peer:
            state.drop("list is too long")
            return
        edge = self._of(peer)
        if edge is None:
            if message.keys:
                state.send(peer, FuseList(()))
            return
        if message.reply:
            self._send_list(edge, False)
        theirs = frozenset(message.keys)
        edge.confirmed_at = state.now
        lost = []
        for group, watched in edge.trees.items():
            if watched.key in theirs:
                edge.young.pop(group, None)
            elif state.now - watched.since >= state.config.grace:
                lost.append(watched.key)
            else:
                edge.young[group] = None
        self._break(edge, lost)

    def _send_list(self, edge: Edge, reply: bool) -> None:
        # Lists may be long: a peer cannot have more than two in each period of retries.
        state = self._state
        if state.now - edge.listed_at < state.config.retry_every / 2:
            return
        edge.listed_at = state.now
        state.send(edge.peer, FuseList(edge.keys(), reply))

    def _is_late(self, peer: Peer) -> bool:
        """Whether this is from a life of the peer that is over."""
        edge = self._edges.get(peer.id)
        return edge is not None and edge.peer.incarnation > peer.incarnation

    def _of(self, peer: Peer) -> Edge | None:
        """The edge to a peer in its present life: of an earlier one, nothing is left."""
        edge = self._edges.get(peer.id)
        if edge is not None and edge.peer.incarnation < peer.incarnation:
            self._lose(edge)
            return None
        return edge

    # --- what peers do not say ---------------------------------------------------------------------

    def tick(self) -> None:
        """Ping, ask, and break what is too old."""
        state = self._state
        config = state.config
        for edge in list(self._edges.values()):
            settled_lost = state.due(edge.confirmed_at, config.edge_timeout)
            self._break(
                edge,
                [
                    watched.key
                    for group, watched in edge.trees.items()
                    if state.due(watched.since, config.edge_timeout)
                    and (settled_lost or group in edge.young)
                ]
                if settled_lost or edge.young
                else [],
            )
            if edge.trees:
                self._ping(edge)

    def _ping(self, edge: Edge) -> None:
        state = self._state
        config = state.config
        if state.now - edge.confirmed_at >= config.ping_every + config.retry_every:
            edge.pinged_at = state.now
            state.send(edge.peer, FusePing(edge.digest, True))
            return
        if state.now - edge.pinged_at < config.ping_every - config.retry_every / 2:
            return
        if not self._beats(edge):
            edge.pinged_at = state.now
            state.send(edge.peer, FusePing(edge.digest))

    def _beats(self, edge: Edge) -> bool:
        every = self._heartbeat_every
        if every > self._state.config.ping_every:
            return False
        return self._state.now - edge.beat_at <= BEATS_LATE * every

    def suspect(self, peer: Peer) -> None:
        """The link to a peer broke: ask at once, but not because the question broke it."""
        edge = self._edges.get(peer.id)
        now = self._state.now
        if edge is not None and now - edge.pinged_at >= self._state.config.retry_every:
            edge.pinged_at = now
            self._state.send(edge.peer, FusePing(edge.digest, True))

    def gone(self, peer: Peer) -> None:
        """A peer's life is over."""
        edge = self._edges.get(peer.id)
        if edge is not None and edge.peer.incarnation <= peer.incarnation:
            self._lose(edge)

    def _lose(self, edge: Edge) -> None:
        self._break(edge, list(edge.keys()))
        if self._edges.get(edge.peer.id) is edge:
            del self._edges[edge.peer.id]

    def _break(self, edge: Edge, keys: list[FuseKey]) -> None:
        for key in keys:
            self._state.trees.broken(key, edge.peer.id)
