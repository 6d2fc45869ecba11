"""A topic that a node has to do with: its strategy and its mode, who owns its key, and for how long the node
remembers it.

*Owners leave.* One that does names the heir that it hands over to, and stays by it although the ring leads to
itself until it has gone. An heir that dies before that is none: then it is the owner again. The heir, too,
remembers that it is one until the ring says so, but not for ever.

*Lives.* Nothing cancels a timer. A node that forgets a topic and takes it up again soon makes a new strategy,
and the timers of the one before are still to come: they would start its chains a second time, and their
rounds may be its own. So strategies are counted, and a timer comes back only to the one that set it.

*Remembering.* A node that only publishes has no part in the topic: its strategy is idle between any two
publications. But it knows the root, and should not have to ask again. So it is kept for a while after it was
last used (``rendezvous.refresh_every``: about as long as a publisher trusts what it was told). A timer of
its own sees to it that it is forgotten then, whatever else happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.events import SetTimer, Timer

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from overlaymq.core.dissemination.base import Strategy
    from overlaymq.core.reliability.modes import BestEffort
    from overlaymq.ids import Id
    from overlaymq.messages import Peer

FORGET = "topic.forget"


class Held:
    """One topic, from when the node takes it up until it forgets it."""

    __slots__ = ("_heir_until", "_until", "_watched", "heir", "life", "mode", "owner", "strategy")

    def __init__(self, strategy: Strategy, mode: BestEffort, life: int) -> None:
        self.strategy = strategy
        self.mode = mode
        self.life = life
        self.owner: Peer | None = None
        self.heir: Peer | None = None
        """Who was given the owner's part. This node is asked for that name until it has left."""
        self._until = self._heir_until = float("-inf")
        self._watched = False

    def passes_to(self, owner: Peer | None, leaves: Container[Id]) -> bool:
        """The ring names the owner of the key: whether that is news."""
        me = self.strategy.around.me
        heir_lives = self.heir is None or self.heir == me or self.heir.id in leaves
        if owner == self.owner and heir_lives:
            return False
        self.owner, self.heir = owner, None
        return True

    def inherits(self, giver: Peer, until: float) -> None:
        """A root hands over to this node. By then it should have gone."""
        if self.owner is not None and self.owner.id == giver.id:
            self.heir, self._heir_until = self.strategy.around.me, until

    def abdicates(self, me: Peer, near: Iterable[Peer]) -> bool:
        """This node leaves: whether it must hand over, to the first of these but itself."""
        if self.owner != me or self.heir is not None or self.strategy.mesh:
            return False
        self.heir = next((peer for peer in near if peer.id != me.id), None)
        return self.heir is not None

    def signed(self, effect: SetTimer) -> SetTimer:
        """A timer of this strategy's, so that it comes back to no other."""
        part, subject, round_ = effect.timer.part, effect.timer.subject, effect.timer.round
        return SetTimer(Timer(part, subject, round_, self.life), effect.delay)

    def use(self, now: float, keep: float) -> list[SetTimer]:
        """This node itself wants something of the topic: keep it for so long."""
        self._until = now + keep
        if self._watched:
            return []
        self._watched = True
        return [self._look_again(keep)]

    def let_go(self) -> None:
        """This node wants nothing more: what it kept as a member should not outlast that."""
        self._until = float("-inf")

    def look(self, now: float, keep: float) -> list[SetTimer]:
        """The time may be up; if it is, and the topic is not forgotten all the same, look again later."""
        wait = self._until - now
        return [self._look_again(wait if wait > 0 else keep)]

    def may_go(self, now: float) -> bool:
        """Whether the node would lose nothing with it."""
        if self.heir is not None and (
            self.heir != self.strategy.around.me or now < self._heir_until
        ):
            return False
        return now >= self._until and self.strategy.idle

    def _look_again(self, delay: float) -> SetTimer:
        return SetTimer(Timer(FORGET, self.strategy.descriptor.id), delay)


def of_a_strategy(timer: Timer) -> bool:
    """Whether it goes back to a topic's strategy."""
    return timer.part.startswith("topic.") or timer.part == "topic"
