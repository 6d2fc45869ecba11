"""What the owner of a gossip topic's key does: it knows some members, names contacts, and sends beacons.

*Reign.* A rendezvous that begins without a predecessor's sample draws a number. Members that see another
number than before subscribe once more, through the contact that comes with it. Two groups that have formed
while two nodes took themselves for the owner, or while a new one knew nobody yet, grow together by that.

*A rendezvous that is none any more* hands its sample over. If many have come closer at once, it only hears
that the key is out of its sight: then it asks over the ring, and hands over to who answers.

*Copies.* One of the k closest nodes owns the key when the rendezvous is gone, crashed or left. So they all
get a ``Handover`` that names some members, whenever these change, and every refresh period: copies expire as
registrations do. A rendezvous that leaves gives out all that it knows. An owner that has no sample therefore
has no members, and its empty answer may be believed: the first members of a topic, and publishers that have
no readers, wait for nothing. Which members a copy names follows from their hashes, so it seldom changes in a
large group. (The paper has no rendezvous; Scribe keeps a root's state on the k closest, JSAC III-B.)

*Beacons.* Every refresh period a beacon goes to one member at random, and from there over all links of
the group. A member that misses it is on an island, with others perhaps: neither heartbeats nor isolation tell
that. It subscribes again. (Not in the paper, where the lease mends islands; not in paper mode.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.scamp.sample import Sample
from overlaymq.events import Replicate, Send
from overlaymq.messages import Handover, ScampBeacon, ScampContacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Peer, Register

NUMBER_BITS = 48
"""Of the random numbers of reigns and beacons: a guess."""
COPIED = 32
"""Members that a copy names: a guess, several times the contacts of one answer."""


class Meeting:
    """The rendezvous of one topic."""

    __slots__ = ("_around", "_beacon_at", "_copied", "_descriptor", "reign", "sample")

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        self._descriptor = descriptor
        self._around = around
        self.sample = self._new_sample()
        self.reign = 0
        self._beacon_at = 0.0
        self._copied: tuple[Peer, ...] = ()
        """The members that the last copy named."""

    def _new_sample(self) -> Sample:
        rendezvous = self._around.rendezvous
        bound = min(self._around.scamp.contacts, rendezvous.max_members)
        return Sample(self._descriptor.id, bound, rendezvous.expire_after)

    def begin(self) -> None:
        """This node owns the key."""
        if not self.reign:
            self.reign = self._around.random.getrandbits(NUMBER_BITS) + 1

    def register(self, register: Register, now: float) -> ScampContacts:
        """A member says that it is one."""
        self.begin()
        told = self.contacts((register.member.id,))
        self.sample.add(register.member, now)
        return told

    def contacts(self, without: Iterable[Id]) -> ScampContacts:
        """Some members, for a subscriber or a publisher."""
        self.begin()
        wanted = self._around.scamp.c + 1 + self._around.scamp.spare // 4
        drawn = self.sample.draw(wanted, self._around.random, without)
        return ScampContacts(self._descriptor.id, drawn, self.sample.count(), self.reign)

    def hand_over(self) -> Handover:
        """For the next owner of the key."""
        handover = Handover(self._descriptor, self.sample.peers, self.reign)
        self.sample, self._copied = self._new_sample(), ()
        self.reign = 0
        return handover

    def inherit(self, handover: Handover, now: float, instead: bool) -> None:
        """From the owner before; a sample of one's own is the more recent one. ``instead``: from the owner,
        so it is the last word."""
        if instead:
            self.sample = self._new_sample()
        if not len(self.sample):
            self.reign = handover.epoch
        for member in handover.members:
            self.sample.add(member, now)

    def copies(self) -> Effects:
        """For those that may own the key one day, if the members that they know of have changed."""
        named = self.sample.first(COPIED)
        return [] if named == self._copied else self._copy(named)

    def all_copied(self) -> Effects:
        """For those that will own the key: this node leaves."""
        self._copied = self.sample.first(COPIED)
        return [self._copy_of(self.sample.peers)] if self._copied else []

    def _copy(self, named: tuple[Peer, ...]) -> Effects:
        self._copied = named
        return [self._copy_of(named)]

    def _copy_of(self, members: tuple[Peer, ...]) -> Replicate:
        return Replicate(self._descriptor.key, Handover(self._descriptor, members, self.reign))

    def tick(self, now: float) -> Effects:
        """Forget silent members; give out copies and send a beacon when it is time."""
        self.sample.expire(now)
        due = now >= self._beacon_at + self._around.rendezvous.refresh_every
        if not due or not len(self.sample):
            return self.copies()
        self._beacon_at = now
        effects = self._copy(self.sample.first(COPIED))
        if self._around.scamp.literal:
            return effects
        random = self._around.random
        beacon = ScampBeacon(self._descriptor.id, random.getrandbits(NUMBER_BITS))
        return [*effects, *[Send(one, beacon) for one in self.sample.draw(1, random)]]
