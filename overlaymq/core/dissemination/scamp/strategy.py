"""What a node does on a gossip topic: it finds members, keeps its views, and passes batches on.

See the package's text. ``views`` is the membership, a machine that this module feeds; ``spreading`` is what
is done with batches. Here are their surroundings: the rendezvous, its sample of members and its beacons, the
heartbeat that everything periodic happens in, repair, and the strategy contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from overlaymq.core.dissemination.base import Standing
from overlaymq.core.dissemination.scamp.asking import Beacons
from overlaymq.core.dissemination.scamp.backups import Backups
from overlaymq.core.dissemination.scamp.meeting import Meeting
from overlaymq.core.dissemination.scamp.replay import with_replay
from overlaymq.core.dissemination.scamp.spreading import Spreading
from overlaymq.core.dissemination.scamp.views import Views, newcomer
from overlaymq.core.reliability.upcalls import Tree
from overlaymq.events import (
    Dropped,
    Members,
    Notify,
    ParentLost,
    Ready,
    Repaired,
    Route,
    Send,
    SetTimer,
    Timer,
)
from overlaymq.messages import (
    Batch,
    BatchRefused,
    Handover,
    Register,
    RootQuery,
    ScampAccepted,
    ScampBeacon,
    ScampBeat,
    ScampContacts,
    ScampForget,
    ScampForward,
    ScampGraft,
    ScampHave,
    ScampKept,
    ScampPrune,
    ScampReplace,
    ScampSubscribe,
    ScampTaken,
    ScampWeight,
    Skipped,
    TreeNote,
    Unregister,
)

if TYPE_CHECKING:
    from collections.abc import Collection

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


class Scamp(Spreading):
    """See the package's text."""

    name: ClassVar[str] = "scamp"
    mesh: ClassVar[bool] = True

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        config = around.scamp
        bound = around.rendezvous.max_members
        self._config = config
        self._views = Views(around.me, descriptor.id, config, around.random, bound)
        self._meeting = Meeting(descriptor, around)
        self._beacons = Beacons()
        self._tree = Tree(around.me, descriptor, self._views.partial)
        self._speaker: Peer | None = None
        self._reign = 0
        self._ready = False
        self._lost: Peer | None = None
        """Who fed this node last, while nobody does."""
        self._registered_at = float("-inf")
        self._renewing = self._lonely = False
        self._ticking = False
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

    # --- the application ---

    def subscribe(self, last: int, now: float, note: bytes = b"") -> Effects:
        """Register at the rendezvous, which names a contact."""
        if not self._subscribed:
            self._gossip = self._new_gossip()
            self._lingers_until = float("-inf")
        self._subscribed = True
        self._last, self._note = last, note
        self._replay.expect(last)
        self._beacons.expect(now)
        return [*self._asking.register(), *self._start_ticking()]

    def unsubscribe(self, now: float) -> Effects:
        """Leave, and give those that know this node others instead."""
        if not self._subscribed:
            return []
        self._subscribed = self._ready = self._alone = self._renewing = False
        self._lost = None
        self._asking.owed = False
        self._callers.clear()
        self._last, self._lonely = 0, False
        self._contacts.clear()
        self._replay.abandon()
        self._unspread.release()
        effects = self._unregister()
        effects += [*self._gossip.retire(), *self._views.unsubscribe(now), *self._linger(now)]
        if not self.needed:
            self._gossip = self._new_gossip()
        return effects

    def _unregister(self) -> Effects:
        """Before the neighbours hear of it: one that was alone with this node asks for others at once."""
        if self._is_rendezvous:
            self._meeting.sample.remove(self.around.me.id)
            return self._meeting.copies()
        owner = self._asking.owner
        return [] if owner is None else [Send(owner, Unregister(self.descriptor.id))]

    def count_members(self, now: float) -> Effects:
        """Ask the rendezvous."""
        if self._is_rendezvous:
            return [Notify(Members(self.descriptor.id, self._meeting.sample.count()))]
        return self._asking.census()

    def depart(self, now: float) -> Effects:
        """Those that may be the next rendezvous get all that this one knows; see *last words*."""
        effects = self._linger(now) if self._subscribed else []
        return effects + (self._meeting.all_copied() if self._is_rendezvous else [])

    # --- what is around ---

    @property
    def views(self) -> Views:
        """The membership, for those who want to look."""
        return self._views

    @property
    def standing(self) -> Standing | None:
        """Both views."""
        role = "member" if self._subscribed else "rendezvous" if self._is_rendezvous else "none"
        view = tuple([arc.peer for arc in self._views.partial.values()])
        return Standing(
            role, view=view, in_view=tuple([a.peer for a in self._views.inward.values()])
        )

    @property
    def _is_root(self) -> bool:
        return False  # nothing starts anywhere in particular

    @property
    def _is_rendezvous(self) -> bool:
        return self._asking.at_home

    @property
    def _above(self) -> Peer | None:
        if self._speaker is not None:
            return self._speaker
        return next((arc.peer for arc in self._views.inward.values()), None)

    @property
    def kept(self) -> Collection[Peer]:
        """Both views, and those that owe an answer."""
        peers = {arc.peer.id: arc.peer for arc in self._views.inward.values()}
        peers |= {arc.peer.id: arc.peer for arc in self._views.partial.values()}
        peers |= self._handing.contacts
        peers |= self._contacts
        debtor = self._asking.debtor
        if debtor is not None:
            peers[debtor.id] = debtor
        return list(peers.values())

    @property
    def idle(self) -> bool:
        """No member, no sample, nothing to hand over."""
        busy = self._subscribed or self._handing.busy or self.needed
        return not (busy or len(self._meeting.sample))

    # --- messages ---

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """From a peer, directly."""
        match message:
            case Batch():
                return self._receive_batch(peer, message, now)
            case (
                ScampForward()
                | ScampSubscribe()
                | ScampAccepted()
                | ScampKept()
                | ScampReplace()
                | ScampForget()
                | ScampBeat()
                | ScampWeight()
            ):
                return self._about_views(peer, message, now)
            case ScampHave() | ScampPrune() if not self._subscribed:
                return []
            case ScampHave() | ScampGraft() | ScampPrune():
                return [*self._gossip.receive(peer, message, now), *self._watch_gossip()]
            case ScampTaken():
                return self._handing.taken(message.name) + self._handing.flush(now)
            case BatchRefused():
                return self._refused(peer, now)
            case ScampContacts():
                return self._told_contacts(peer, message, now)
            case ScampBeacon():
                return self._beaconed(peer, message, now)
            case Register() | RootQuery():
                if self._is_rendezvous:
                    return self.deliver(message, peer, now)
                return [Route(self.descriptor.key, message)]
            case Unregister():
                self._meeting.sample.remove(peer.id)
                return self._meeting.copies() if self._is_rendezvous else []
            case Handover():
                by_owner = peer == self._asking.owner and not self._is_rendezvous
                self._meeting.inherit(message, now, instead=by_owner)
                anew = self._subscribed and self._alone and not by_owner
                return (self._asking.register() if anew else []) + self._start_ticking()
            case TreeNote():
                self._speaker = peer if peer.id in self._views.inward else None
                effects = self._noted(peer, message, now)
                self._speaker = None
                return effects
            case Skipped():
                # Another neighbour may bring it: no gap yet.
                return [Notify(Dropped("skipped by a neighbour", message.messages))]
        return []

    def deliver(self, message: Message, source: Peer, now: float) -> Effects:
        """At the rendezvous."""
        if isinstance(message, Register):
            told = self._meeting.register(message, now)
            return [Send(message.member, told), *self._meeting.copies(), *self._start_ticking()]
        if isinstance(message, RootQuery):
            return [Send(source, self._meeting.contacts((source.id,)))]
        return []

    def root_changed(self, root: Peer | None, now: float) -> Effects:
        """Be the rendezvous, or give what it needs to the new one."""
        if root == self._asking.owner:
            return []
        effects: Effects = []
        if self._is_rendezvous and len(self._meeting.sample):
            if root is None:
                self._asking.owner, self._bequeaths = None, True
                return self._asking.contacts(self._subscribed)
            effects.append(Send(root, self._meeting.hand_over()))
        self._asking.owner, self._bequeaths = root, False
        if root is None:
            return []
        if self._is_rendezvous:
            self._meeting.begin()
            effects += self._meeting.copies()
        if self._subscribed:
            effects += self._asking.register()
        if self._handing.busy and not self._handing.contacts:
            effects += self._asking.contacts(self._subscribed)
        return effects + self._start_ticking()

    def fired(self, timer: Timer, now: float) -> Effects:
        """The heartbeat, a tick of the gossip, or a question without an answer."""
        match timer.part:
            case "topic.tick":
                self._ticking = False
                return self._tick(now)
            case "topic.gossip":
                self._gossiping = False
                return [*self._gossip.tick(now), *self._watch_gossip()]
            case "topic.join" if self._asking.expired(timer):
                return self._unanswered(now)
            case "topic.linger":
                self._lingered(now)
            case "topic.hand":
                return self._handing.fired(self._subscribed, now)
            case "topic.upcall":
                return self._timed(timer.round, now)
        return []

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

    def failed(self, peer: Peer, now: float) -> Effects:
        """A neighbour is gone, or a contact, or the rendezvous."""
        effects: Effects = []
        self._backups.forget(peer.id)
        if self._asking.lost(peer.id):
            effects += self._asking.contacts(self._subscribed)
        effects += self._handing.without(peer.id, now)
        if self._views.failed(peer.id):
            effects += self._lost_feeder(peer, now)
        effects += self._views_changed(now) + self._if_cut_off(now)
        effects += self._if_lonely(doubtful=True)
        return effects + self._try_another(peer, now)

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

    # --- upkeep ---

    def _start_ticking(self) -> Effects:
        if self._ticking or not (self._subscribed or len(self._meeting.sample)):
            return []
        self._ticking = True
        timer = Timer("topic.tick", self.descriptor.id)
        return [SetTimer(timer, self._config.heartbeat_every)]

    def _tick(self, now: float) -> Effects:
        effects: Effects = []
        if self._is_rendezvous:
            effects += self._meeting.tick(now)
        else:
            self._meeting.sample.expire(now)
        if self._subscribed:
            effects += self._tick_member(now)
        return effects + self._start_ticking()

    def _tick_member(self, now: float) -> Effects:
        views = self._views
        effects: Effects = [*views.beat(), *views.expire(now)]
        self._gossip.expire(now)
        for silent in views.purge(now):
            if not views.inward:
                effects += self._lost_feeder(silent, now)
        effects += self._views_changed(now) + self._if_cut_off(now)
        period = self.around.rendezvous.refresh_every
        if not self._config.literal and self._beacons.missed(now, period):
            self._renewing = True
            self._beacons.expect(now)
            return effects + self._asking.register()
        if now >= views.until - views.ending * 2 / 3:
            return effects + self._renew(now)
        due = self._alone or now - self._registered_at >= period
        if due and not self._asking.pending:
            effects += self._asking.register()
        return effects

    def _renew(self, now: float) -> Effects:
        """The lease ends: subscribe again, through the own view or, as it should be, through anyone."""
        views = self._views
        if self._config.renews_uniformly or not views.partial:
            if self._asking.pending:
                return []
            self._renewing = True
            return self._asking.register()
        contact = self.around.random.choice([arc.peer for arc in views.partial.values()])
        return [*views.renew(contact, now)]

    def _beaconed(self, peer: Peer, beacon: ScampBeacon, now: float) -> Effects:
        """A sign of life of the rendezvous, passed on once to all neighbours."""
        if not self._subscribed or not self._beacons.heard(beacon.number, now):
            return []
        neighbours = {**self._gossip.eager, **self._gossip.lazy}
        return [Send(one, beacon) for id_, one in neighbours.items() if id_ != peer.id]

    def _refused(self, peer: Peer, now: float) -> Effects:
        """It is no member (any more)."""
        effects = self._handing.refused(peer.id, now)
        if self._views.partial.pop(peer.id, None) is not None:
            effects += self._views_changed(now) + self._if_cut_off(now)
        return effects
