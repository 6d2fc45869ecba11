"""The next hop: a pure decision (Pastry Middleware 2001, by way of protocols.md 1.2).

A key inside the leaf set's range goes to the numerically closest of this node and the leaves. Otherwise
it goes to the routing table's entry that shares one more digit with it, or, if that is missing (the rare
case), to any known node that shares as many digits as this one and is numerically closer. Every hop
lengthens the prefix, or keeps it and comes closer, so there are no loops.

Deviation, for consistency (MSPastry; FreePastry's leases serve the same end): if the owner is in the
leaf set and merely suspected, the answer is HOLD. Handing the message to the next closest node would let
two nodes believe they own one key. A key in a gap next to this node waits as well, until it is known who
lives there (``reach``): whoever is beyond would send it back.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from overlaymq.ids import rank, shared_digits

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer


class Way(Enum):
    """Why the next hop is what it is."""

    DELIVER = "deliver"
    LEAF = "leaf"
    TABLE = "table"
    RARE = "rare"
    HOLD = "hold"


def next_hop(
    state: State,
    key: Id,
    avoid: Container[Id] = (),
    absent: Container[Id] = (),
    randomize: bool = False,
) -> tuple[Way, Peer]:
    """Where a message goes. ``avoid`` are nodes that just failed it; ``absent`` are treated as unknown."""
    leaves = state.leaves
    if state.reach.covers(key):
        owner = leaves.closest(key, absent)
        if owner is state.me:
            return Way.DELIVER, owner
        doubtful = owner.id in state.suspects or owner.id in avoid
        return (Way.HOLD if doubtful else Way.LEAF), owner
    if state.reach.in_gap(key):
        return Way.HOLD, state.me
    if randomize and state.random.random() < state.config.random_share:
        legal = [peer for peer in closer(state, key, absent) if usable(state, peer, avoid)]
        if legal:
            return Way.TABLE, legal[state.random.randrange(len(legal))]
    entry = state.table.hop(key)
    if entry is not None and entry.id not in absent and usable(state, entry, avoid):
        return Way.TABLE, entry
    return _rare_case(state, key, avoid, absent)


def usable(state: State, peer: Peer, avoid: Container[Id]) -> bool:
    """Whether a message may be handed to this node now."""
    return peer.id not in state.suspects and peer.id not in avoid


def closer(state: State, key: Id, absent: Container[Id]) -> Iterator[Peer]:
    """All known nodes that are a legal next hop: no shorter prefix, and longer or closer."""
    bits = state.config.digit_bits
    prefix = shared_digits(state.me.id, key, bits)
    distance = rank(key, state.me.id)
    for peer in state.everyone():
        shared = shared_digits(peer.id, key, bits)
        nearer = shared > prefix or (shared == prefix and rank(key, peer.id) < distance)
        if nearer and peer.id not in absent:
            yield peer


def _rare_case(
    state: State, key: Id, avoid: Container[Id], absent: Container[Id]
) -> tuple[Way, Peer]:
    bits = state.config.digit_bits
    best: Peer | None = None
    best_worth = (0, 0)
    for peer in closer(state, key, absent):
        if usable(state, peer, avoid):
            worth = (shared_digits(peer.id, key, bits), -rank(key, peer.id))
            if best is None or worth > best_worth:
                best, best_worth = peer, worth
    return (Way.HOLD, state.me) if best is None else (Way.RARE, best)
