"""Routing without time: the real routing decision, asked hop by hop of the tables as they stand.

No message is sent and nothing changes, so hundreds of thousands of lookups take seconds, and a ring can be
measured in a state that the running protocol would repair at once.

*Without repair.* ``absent`` names the dead. Each node treats them as unknown: a dead leaf is passed over for
the next closest one, a dead entry for the rare case. That is Pastry's original rule at a node that has
noticed the failure (it got no answer) and has repaired nothing: leaf sets keep their gaps, and the range
that they cover still ends at the dead. The running protocol differs in one point, for consistency: it
holds a message whose owner it merely suspects, until the suspicion is settled.

*The published rare case.* Where the slot is empty, the procedure of the Middleware 2001 paper forwards to
some T of leaf set, table and neighbourhood set "such that" T shares no shorter a prefix with the key and is
numerically closer: any such node, while its line for the leaf set asks for the minimal distance. Ours takes
the best. ``any_of`` is what the published rule draws with.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.pastry.forwarding import MAX_HOPS
from overlaymq.core.pastry.routing import Way, closer, next_hop
from overlaymq.ids import rank

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from random import Random

    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer
    from overlaymq.sim.ring import PastryOnly


class Walk(msgspec.Struct, frozen=True):
    """Where a lookup went: the nodes on its way, its start first. ``delivered``: the last one took it."""

    path: tuple[Id, ...]
    delivered: bool

    @property
    def hops(self) -> int:
        """How often it was handed on."""
        return len(self.path) - 1

    def hops_to(self, goals: Container[Id]) -> int:
        """Hops until it first met one of some nodes; all of them if it never did."""
        for hops, id_ in enumerate(self.path):
            if id_ in goals:
                return hops
        return self.hops


def walk(
    nodes: Mapping[Id, PastryOnly],
    start: Id,
    key: Id,
    absent: Container[Id] = (),
    any_of: Random | None = None,
) -> Walk:
    """Follow the routing decisions from a node to wherever they end."""
    here = start
    path = [start]
    while len(path) <= MAX_HOPS:
        state = nodes[here].pastry.state
        way, peer = next_hop(state, key, absent=absent)
        if way is Way.RARE and any_of is not None:
            peer = any_of.choice(qualified(state, key, absent) or [peer])
        if way is Way.DELIVER:
            return Walk(tuple(path), True)
        if way is Way.HOLD:
            break
        here = peer.id
        path.append(here)
    return Walk(tuple(path), False)


def qualified(state: State, key: Id, absent: Container[Id]) -> list[Peer]:
    """Whom the published rare case may forward to: no shorter a prefix, and numerically closer."""
    distance = rank(key, state.me.id)
    return [peer for peer in closer(state, key, absent) if rank(key, peer.id) < distance]


def closest(ids: Sequence[Id], key: Id, count: int) -> tuple[Id, ...]:
    """The nodes closest to a key, closest first, of all ids in ring order."""
    if count >= len(ids):
        return tuple(sorted(ids, key=lambda id_: rank(key, id_)))
    index = bisect_left(ids, key)
    around = {ids[(index + step) % len(ids)] for step in range(-count, count)}
    return tuple(sorted(around, key=lambda id_: rank(key, id_))[:count])
