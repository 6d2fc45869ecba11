"""Leaves that are still joining: what a member does while it waits for them.

A joiner is in its neighbours' leaf sets before it is active, and holds the messages for its keys
(MSPastry; protocols.md 1.7). If it never became active, those keys would have no owner for ever, and
join requests that end at it no answer. So:

- A join request passes over joiners: the closest *active* node answers it. It names the joiners among its
  leaves, and the newcomer is confirmed by them like by any other.
- A joiner is active or starts over within ``confirm_seconds``. When it starts over it says goodbye first
  (``join``), so members need no patience with it.
- A goodbye may be late, from before the attempt that this member has confirmed. So the first one only makes
  the member ask; a joiner that has started over says goodbye again, and then it is believed.
- Should that goodbye be lost, a member asks after half as long again. An answer that is still "not active"
  can only be from another attempt: the joiner leaves the leaf set, and is told to start over.

Why this keeps one owner a key: a joiner is active only by confirmations of its current attempt, and no
member that gave one forgets the joiner before that attempt is over.

Deviation: MSPastry lets a joiner wait for ever; FreePastry retries every 30 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.messages import JoinRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overlaymq.config import PastryConfig
    from overlaymq.core.pastry.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

PATIENCE = 1.5
"""How much longer than a joiner's attempt a member waits: a guess, above any delay of messages."""
TOO_LONG = "not active for too long: start over"


def confirm_seconds(config: PastryConfig) -> float:
    """How long a joiner's leaf set may take to confirm it: four rounds of probes, dead nodes included."""
    return 4 * config.probe_timeout * (config.probe_retries + 2)


class Arrivals:
    """``_since``: joiner -> (when it last asked to be confirmed, its timer's round). All are leaves."""

    __slots__ = ("_doubted", "_round", "_since", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._since: dict[Id, tuple[float, int]] = {}
        self._doubted: set[Id] = set()
        self._round = 0

    def __len__(self) -> int:
        return len(self._since)

    def __iter__(self) -> Iterator[Id]:
        return iter(self._since)

    def waits(self, peer: Peer, asks: bool) -> None:
        """A joiner has spoken; ``asks``: to be confirmed, which starts the wait anew."""
        state = self._state
        known = self._since.get(peer.id)
        self._doubted.discard(peer.id)
        if known is None:
            if state.leaves.get(peer.id) is not None:
                self._round += 1
                self._since[peer.id] = (state.now, self._round)
                state.set_timer("arrival", self._patience(), peer.id, self._round)
        elif asks:
            self._since[peer.id] = (state.now, known[1])
        elif state.now - known[0] >= self._patience():
            state.send(peer, JoinRefused(TOO_LONG))
            del self._since[peer.id]
            state.liveness.departed(peer, ())

    def doubts(self, id_: Id) -> bool:
        """Whether a goodbye is the first of a joiner's, and not to be believed yet."""
        if id_ not in self._since or id_ in self._doubted:
            self._doubted.discard(id_)
            return False
        self._doubted.add(id_)
        return True

    def joined(self, id_: Id) -> None:
        """A node is active."""
        if self._since:
            self._since.pop(id_, None)

    def prune(self) -> None:
        """The leaf set has changed: only leaves are waited for."""
        get = self._state.leaves.get
        for id_ in [id_ for id_ in self._since if get(id_) is None]:
            del self._since[id_]
            self._doubted.discard(id_)

    def due(self, id_: Id, round_: int) -> None:
        """Ask a joiner that should be active by now."""
        state = self._state
        since, latest = self._since.get(id_, (0.0, 0))
        if latest != round_:
            return
        remaining = since + self._patience() - state.now
        leaf = state.leaves.get(id_)
        if remaining <= 0 and leaf is not None:
            state.liveness.probe(leaf)
            remaining = self._patience()
        state.set_timer("arrival", remaining, id_, round_)

    def _patience(self) -> float:
        return PATIENCE * confirm_seconds(self._state.config)
