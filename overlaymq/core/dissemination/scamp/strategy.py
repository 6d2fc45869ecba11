"""What a node does on a gossip topic: it finds members, keeps its views, and passes batches on.

See the package's text. ``spreading`` is what is done with batches, ``belonging`` how a node becomes and stays
a member. Here is the strategy contract around them: which message is for whom, what a node does as the
rendezvous or hears from it unasked, and the heartbeat that everything periodic happens in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from overlaymq.core.dissemination.base import Standing
from overlaymq.core.dissemination.scamp.asking import Beacons
from overlaymq.core.dissemination.scamp.belonging import Belonging
from overlaymq.events import Dropped, Members, Notify, Route, Send, SetTimer, Timer
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
    from overlaymq.messages import Descriptor, Message, Peer


class Scamp(Belonging):
    """See the package's text."""

    name: ClassVar[str] = "scamp"
    mesh: ClassVar[bool] = True

    def __init__(self, descriptor: Descriptor, around: Surroundings) -> None:
        super().__init__(descriptor, around)
        self._beacons = Beacons()
        self._speaker: Peer | None = None
        """Whose note is being read."""
        self._ticking = False

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
            case ScampBeat() if self._views.heard(peer.id, now):
                return []  # most of what comes to a quiet member
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
