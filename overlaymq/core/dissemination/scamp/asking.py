"""What a node asks the owner of a gossip topic's key, and what it hears from it.

``meeting`` is the other end. A member registers, again and again, for the sample forgets those who do not; a
publisher that is no member asks for contacts. Either answer is a list of some members. The question goes to
the owner that answered last, and over the ring while none is known: a question without an answer makes the
next one go over the ring, so a wrong owner is believed once only.

Only an answer that was asked for is taken: from who was asked, or from one that is closer to the key, for a
former owner passes questions on. What went over the ring is answered by somebody closer than this node. (A
node that is closer and lies is believed: it could as well lie on the way there.)

One timer watches over the last question of any kind, also over those put to a contact: its round tells it
from the timers of earlier ones, and nothing is asked again before it has fired.

*Beacons* are signs of life of the rendezvous that travel over the links of the group. Nobody asks for them. A
member that misses them is on an island, and subscribes again (see ``meeting``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from overlaymq import ids
from overlaymq.events import Route, Send, SetTimer, Timer
from overlaymq.messages import Register, RootQuery

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer

MISSED_BEACONS = 1.5
"""Beacon periods without one before a node takes itself to be on an island: a guess above one."""
BEACONS = 8
"""How many are remembered, to tell copies: a guess above those under way at once."""


class Asking:
    """The owner of the key, as far as it is known, and the question that is under way."""

    __slots__ = ("_around", "_counting", "_descriptor", "_round", "owed", "owner", "pending")

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        self._descriptor = descriptor
        self._around = around
        self._round = 0
        self.owner: Peer | None = None
        self._counting = False
        """Whether the members are being counted."""
        self.owed = False
        """Whether the rendezvous was asked and has not answered."""
        self.pending = False
        """Whether there is a timer for an answer."""

    @property
    def at_home(self) -> bool:
        """Whether this very node is the rendezvous."""
        return self.owner is not None and self.owner.id == self._around.me.id

    @property
    def debtor(self) -> Peer | None:
        """The rendezvous, if it is another node and owes an answer."""
        return self.owner if self.owed and not self.at_home else None

    # --- questions ---

    def register(self) -> Effects:
        """Say that this node is a member, and ask for contacts."""
        topic, me = self._descriptor.id, self._around.me
        self.owed = True
        return [self._ask(Register(topic, me, self._descriptor)), self.wait()]

    def contacts(self, member: bool) -> Effects:
        """Ask for some members; a member registers at that."""
        if member:
            return self.register()
        self.owed = True
        return [*self.census(), self.wait()]

    def census(self) -> Effects:
        """Ask how many members there are: a question that nobody watches over."""
        self._counting = True
        return [self._ask(RootQuery(self._descriptor.id, self._descriptor))]

    def _ask(self, message: Register | RootQuery) -> Send | Route:
        if self.owner is not None:
            return Send(self.owner, message)
        return Route(self._descriptor.key, message)

    def wait(self) -> SetTimer:
        """Watch over a question that was put just now, here or to a contact."""
        self._round += 1
        self.pending = True
        timer = Timer("topic.join", self._descriptor.id, self._round)
        return SetTimer(timer, self._around.rendezvous.answer_timeout)

    # --- answers, and none ---

    def expired(self, timer: Timer) -> bool:
        """Whether this timer is that of the last question; it has no other then."""
        if timer.round != self._round:
            return False
        self.pending = False
        return True

    def awaits(self, peer: Peer) -> bool:
        """Whether something was asked that this one may answer."""
        if not (self.owed or self.pending or self._counting):
            return False
        asked, key = self.owner or self._around.me, self._descriptor.key
        if self.owner is not None and peer.id == self.owner.id:
            return True
        return ids.rank(key, peer.id) < ids.rank(key, asked.id)

    def answered(self, peer: Peer) -> None:
        """The rendezvous has answered, so it is known."""
        self._counting = False
        if not self.at_home:
            self.owner = peer
        self.owed = False

    def settled(self) -> None:
        """The timer has nothing to wait for."""
        self._round += 1
        self.pending = False

    def doubt(self) -> None:
        """It did not answer: the next question goes over the ring."""
        if not self.at_home:
            self.owner = None

    def lost(self, peer: Id) -> bool:
        """A node is gone. Whether it owed an answer that must be asked for again."""
        if self.owner is None or self.owner.id != peer:
            return False
        self.owner = None
        return self.owed


class Beacons:
    """The signs of life of the rendezvous that came, the last ones at least."""

    __slots__ = ("_heard_at", "_numbers")

    def __init__(self) -> None:
        self._numbers: deque[int] = deque(maxlen=BEACONS)
        self._heard_at = 0.0

    def expect(self, now: float) -> None:
        """Wait for the next one from now on."""
        self._heard_at = now

    def heard(self, number: int, now: float) -> bool:
        """One has come. Whether it is the first copy."""
        if number in self._numbers:
            return False
        self._numbers.append(number)
        self._heard_at = now
        return True

    def missed(self, now: float, period: float) -> bool:
        """Whether one should have come."""
        return now - self._heard_at > MISSED_BEACONS * period
