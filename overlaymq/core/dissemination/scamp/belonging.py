"""How a node becomes a member of a gossip topic's group, and stays one.

``views`` is the membership, a machine that this module feeds. Here is what moves it: the contacts that the
rendezvous names, which may be dead or members no more; subscriptions that come before the node's own is done
with; neighbours that leave or fail, backups that take their place, and the signs that a node is cut off or on
an island with few others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.scamp.backups import Backups
from overlaymq.core.dissemination.scamp.meeting import Meeting
from overlaymq.core.dissemination.scamp.replay import with_replay
from overlaymq.core.dissemination.scamp.spreading import Spreading
from overlaymq.core.dissemination.scamp.views import Views, newcomer
from overlaymq.core.reliability.upcalls import Tree
from overlaymq.events import Dropped, Members, Notify, ParentLost, Ready, Repaired, Send
from overlaymq.messages import (
    ScampAccepted,
    ScampContacts,
    ScampForget,
    ScampForward,
    ScampReplace,
    ScampSubscribe,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects, Surroundings
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Message, Peer

SURELY = 3
"""Contacts that are asked at once by who was not answered, or lost its neighbours: when many have failed
together, every second one that the rendezvous names is dead. A guess."""
FEW = 3
"""Who has fewer neighbours, though there are more members, may be on an island with them, and subscribes
again without waiting for beacons: a guess. (Of 1,000 of which half failed, two were left with each other.)"""
CALLERS = 256
"""Subscriptions that wait for a contact's own: a guess."""


class Belonging(Spreading):
    """The half of the strategy that has to do with members."""

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        config = around.scamp
        bound = around.rendezvous.max_members
        self._config = config
        self._views = Views(around.me, descriptor.id, config, around.random, bound)
        self._meeting = Meeting(descriptor, around)
        self._tree = Tree(around.me, descriptor, self._views.partial)
        self._reign = 0
        self._ready = False
        self._lost: Peer | None = None
        """Who fed this node last, while nobody does."""
        self._registered_at = float("-inf")
        self._renewing = self._lonely = False
        self._last = 0
        self._note = b""
        self._callers: list[tuple[Peer, ScampSubscribe]] = []
        """Subscriptions that came before this node's own was done with."""
        self._backups = Backups(around.me.id, config.spare)
        self._contacts: dict[Id, Peer] = {}
        """Whom this node has asked to introduce it, and who has not answered."""
        self._members = 0
        """How many there are, as the rendezvous said last,"""
        self._lately = 0
        """and the more of its last two answers: a new one begins to count at none."""
        self._bequeaths = False
        """Whether this node was the rendezvous, and does not know yet who is."""
        self._in_vain = False
        """Whether nobody answered the last time, or might not."""
        self._asked_twice = False
        """Whether the rendezvous was asked again because a contact was none, since an answer was due."""

    @property
    def views(self) -> Views:
        """The membership, for those who want to look."""
        return self._views

    # --- the rendezvous ---

    def _unanswered(self, now: float) -> Effects:
        """The rendezvous, a contact or those who might keep this node have not answered."""
        effects = self._replay.over()
        self._replay.expect(self._last)
        self._contacts.clear()
        self._asked_twice = False
        if self._subscribed and not self._fed:
            # Those who wait for this node may be those it waits for.
            effects += self._answer_callers(now, anyway=True)
            asks = not self._views.inward
        else:
            busy = self._subscribed or self._handing.busy or self._bequeaths
            asks = self._asking.owed and busy
            asks = asks or bool(self._last) or self._lonely
        if not asks:
            return effects
        self._in_vain = True
        if self._asking.owed:
            self._asking.doubt()
        return effects + self._asking.contacts(self._subscribed)

    @property
    def _fed(self) -> bool:
        return bool(self._views.inward) or self._alone

    def _told_contacts(self, peer: Peer, told: ScampContacts, now: float) -> Effects:
        """The rendezvous has answered."""
        if not self._asking.awaits(peer):
            return [Notify(Dropped("unasked contacts"))]
        self._asking.answered(peer)
        self._lately, self._members = max(self._members, told.members), told.members
        effects: Effects = [Notify(Members(self.descriptor.id, told.members))]
        if self._bequeaths:
            self._bequeaths = False
            effects.append(Send(peer, self._meeting.hand_over()))
        me = self.around.me.id
        contacts = [one for one in told.contacts if one.id != me]
        self._backups.remember(contacts)
        if self._subscribed:
            self._registered_at = now
            effects += self._enter(contacts, told.reign, now)
        else:
            self._asking.settled()
            effects += self._handing.meet(contacts, now)
        return effects

    def _enter(self, contacts: list[Peer], reign: int, now: float) -> Effects:
        """Subscribe through a contact, or again, if there is a reason to."""
        views = self._views
        anew = reign != self._reign and self._reign != 0
        self._reign = reign
        if not contacts:
            if views.partial or views.inward:
                self._renewing = False
                views.begin(now)
                return []
            return self._be_alone(now)
        if not views.partial or not self._fed or self._last or self._lonely:
            self._alone = self._renewing = False
            wanted = SURELY if self._in_vain else 1
            return self._try(self.around.random.sample(contacts, min(wanted, len(contacts))), now)
        contact = self.around.random.choice(contacts)
        note, self._note = self._note, b""
        if self._renewing or anew:
            self._renewing = False
            return [*views.renew(contact, now, self._copies, note=note)]
        return []

    @property
    def _copies(self) -> int:
        """Of a renewal through the rendezvous; 0: as many as its contact has neighbours."""
        return self._views.enough(self._lately) if self._config.renews_uniformly else 0

    def _try(self, contacts: list[Peer], now: float) -> Effects:
        """Subscribe through these. History is asked for until one has accepted."""
        views = self._views
        effects: Effects = []
        for contact in contacts:
            self._contacts[contact.id] = contact
            if self._lonely or not views.partial:
                effects += views.subscribe(contact, now, self._last, self._note)
            else:
                effects += views.renew(contact, now, self._copies, self._last, self._note)
        if views.partial:
            self._note = b""
        return [*effects, self._asking.wait()]

    def _try_another(self, peer: Peer, now: float) -> Effects:
        """The contact is gone or no member (any more): the rendezvous may not have known that, but named
        others too. If there were none, it may know better now, and is asked once more before this node
        waits."""
        self._backups.forget(peer.id)
        asked = self._contacts.pop(peer.id, None)
        satisfied = self._fed and not self._last and not self._lonely
        if asked is None or self._contacts or satisfied:
            return []
        another = self._backups.draw(self.around.random)
        if another is not None:
            return self._try([another], now)
        if self._asked_twice or self._asking.owed:
            return []
        self._asked_twice = True
        return self._asking.register()

    def _be_alone(self, now: float) -> Effects:
        self._views.begin(now)
        self._alone = True
        self._renewing = self._lonely = self._asked_twice = False
        self._last = 0
        effects = self._fed_again() + self._replay.over() + self._spread_waiting(now)
        return effects + self._answer_callers(now)

    # --- the views ---

    def _about_views(self, peer: Peer, message: Message, now: float) -> Effects:
        if isinstance(message, ScampSubscribe) and self._subscribed and not self._fed:
            if len(self._callers) < CALLERS:
                self._callers.append((peer, message))
            return []
        return self._views_heard(peer, message, now)

    def _views_heard(self, peer: Peer, message: Message, now: float) -> Effects:
        views = self._views
        about = newcomer(peer, message)
        known = about is None or about.id in views.partial
        full = len(views.inward) >= views.limit
        sends = views.receive(peer, message, now)
        effects: Effects = [*sends]
        if isinstance(message, ScampSubscribe) and message.last:
            effects = with_replay(sends, message, self._gossip.history)
            if any(isinstance(send.message, ScampAccepted) for send in sends):
                patience = self.around.rendezvous.answer_timeout
                self._gossip.welcome(message.subscriber, now + patience)
        if full and any(isinstance(send.message, ScampReplace) for send in sends):
            effects.append(Notify(Dropped("too many members")))
        if isinstance(message, ScampAccepted):
            self._last, self._note = 0, b""
            self._lonely = self._in_vain = self._asked_twice = False
            self._contacts.clear()
            self._backups.remember(message.others)
            effects += self._replay.announced(peer.id, message.replay)
        elif isinstance(message, ScampForward | ScampSubscribe):
            self._backups.remember((message.subscriber,))
        effects += self._views_changed(now)
        if isinstance(message, ScampForget | ScampReplace):
            effects += self._if_cut_off(now) + self._if_lonely()
        if isinstance(message, ScampReplace):
            effects += self._try_another(peer, now)
        if about is not None and not known and about.id in views.partial:
            note = message.note if isinstance(message, ScampForward | ScampSubscribe) else b""
            effects += self._told_joined(about, note, now)
        return effects

    def _views_changed(self, now: float) -> Effects:
        """Links follow the views; a member is ready once somebody sends to it."""
        effects: Effects = [*self._gossip.link(self._views.partial, self._views.inward)]
        if not self._subscribed:
            return effects
        if self._views.inward:
            self._alone = False
            effects += self._fed_again()
        if self._connected:
            effects += self._spread_waiting(now)
        return effects + self._answer_callers(now)

    def _answer_callers(self, now: float, anyway: bool = False) -> Effects:
        effects: Effects = []
        if self._callers and (self._fed or anyway):
            self._views.begin(now)
            callers, self._callers = self._callers, []
            for peer, request in callers:
                effects += self._views_heard(peer, request, now)
        return effects

    def _fed_again(self) -> Effects:
        topic = self.descriptor.id
        effects: Effects = [] if self._ready else [Notify(Ready(topic))]
        self._ready = True
        if self._lost is not None:
            self._lost = None
            effects.append(Notify(Repaired(topic, self._above or self.around.me)))
        return effects

    # --- failures ---

    def _lost_feeder(self, peer: Peer, now: float) -> Effects:
        """One that sent to this node is gone: ask a spare one to do so instead.

        As many arcs go with a failed node as with a leaving one, all that it had and c + 1: so one in view /
        (c + 1) is not replaced."""
        if not self._subscribed:
            return []
        effects: Effects = []
        if not self._views.inward:
            self._ready = False
            if self._lost is None:
                self._lost = peer
                effects.append(Notify(ParentLost(self.descriptor.id, peer)))
        note, asked = self._told_fault(peer, now)
        effects += asked
        size = len(self._views.inward)
        if size and self.around.random.random() * (size + 1) < self._config.c + 1 and not note:
            return effects
        backup = self._backups.draw(self.around.random, without=self._views.inward)
        if backup is not None:
            return [*effects, self._views.stand_in(backup, now, note)]
        self._note = note
        return effects

    def _if_lonely(self, doubtful: bool = False) -> Effects:
        """Few are left, and perhaps only among themselves. ``doubtful``: so may be those that the rendezvous
        names."""
        views = self._views
        if not views.member or self._alone or self._config.literal or self._lonely:
            return []
        if len(views.partial.keys() | views.inward.keys()) >= min(FEW, self._members - 1):
            return []
        self._lonely = True
        self._in_vain |= doubtful
        return [] if self._asking.pending else self._asking.register()

    def _if_cut_off(self, now: float) -> Effects:
        """Nobody left who sends to this node, or nobody to send to: subscribe again."""
        views = self._views
        if not self._subscribed or self._alone or (views.inward and views.partial):
            return []
        asked = self._asking.owed or self._contacts
        if not views.member or asked or (self._asking.pending and (views.partial or views.inward)):
            return []  # it has not subscribed yet, or is about to
        if self._config.literal and views.partial:
            contact = self.around.random.choice([arc.peer for arc in views.partial.values()])
            return [*views.renew(contact, now), self._asking.wait()]
        return self._asking.register()
