"""Who is alive: heartbeats, suspicion, verification, death (MSPastry, DSN 2004; protocols.md 1.7, 1.9).

Each node asks its two neighbours on the ring for a lease every period (``leases``), and probes the one that
does not answer. A node that does not acknowledge or whose link breaks is *suspected*: routed around, and
probed. Only when the probe and its retries fail, and no lease that this node granted it is running, is it
dead and removed. A rumour of death is never believed, only verified, and not more often than a probe takes.
Who finds a death out probes its whole leaf set with the list of the failed, so that several adjacent
failures are found in parallel; who is told of it meanwhile by another leaf, or was told before, verifies it
and does not tell it again (deviation: MSPastry's nodes all do, about l * l messages a death). Such a node
also has the teller's leaf set, in which its own new leaf usually is: it asks that one first, and an extreme
leaf only if nobody there fits. So even who was told by nobody hears of the death, from the one whose new leaf
it is to be. Deaths come in bursts, so there is one such round in a probe timeout, which tells of all, and
leaves out who has heard of them by another probe or answer; the gap itself is closed at once (``settle``).

A leaf probe carries the prober's leaf set and the ids it believes failed. Whoever is heard from in a
probe or its answer enters the leaf set; those it names are probed before they may, but only as many as
there is room for: a leaf set with a gap would admit the whole ring. The others are looked at again when
no probe is outstanding, in case those preferred to them were dead. This is also how a joiner is
confirmed: it is active once no probe is outstanding, its leaf set is complete, and it knows who is next to it
on both sides (``reach``).

Deviations: MSPastry removes leaves that another node reports failed at once and adds them back when they
answer; here, as in FreePastry, they stay until this node's own probe has failed. Rumours about nodes that
are only in the other tables are verified too.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from overlaymq.core.pastry.state import FAILED_SECONDS
from overlaymq.events import PeerDead
from overlaymq.ids import RING, Id
from overlaymq.messages import Departing, LeafProbe, LeafProbeReply

if TYPE_CHECKING:
    from overlaymq.core.pastry.state import State
    from overlaymq.messages import Heartbeat, Peer

PROBES_KEPT = 1024
SPARES_KEPT = 256
FAILED_TOLD = 16
GATHER = 0.05
"""Share of the probe timeout in which further deaths are awaited before the first round: a guess."""
BROKEN_LINK_PAUSE = 0.25
"""Share of the probe timeout to wait before a broken link is tried again."""


class Probing:
    """An outstanding leaf probe. ``round`` tells its timer from that of an earlier try; ``rumour``: others
    know of the death, if it is one; ``heirs``: who may take the place, by the word of who told of it."""

    __slots__ = ("heard", "heirs", "peer", "round", "rumour", "sent_at", "tries")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.tries = 0
        self.round = 0
        self.sent_at = 0.0
        self.heard = False
        self.rumour = False
        self.heirs: tuple[Peer, ...] = ()


class Liveness:
    """See the module's text."""

    __slots__ = (
        "_answered",
        "_heirs",
        "_probing",
        "_quiet",
        "_round",
        "_rumours",
        "_spares",
        "_state",
        "_told",
        "_told_at",
        "_will_tell",
    )

    def __init__(self, state: State) -> None:
        self._state = state
        self._probing: dict[Id, Probing] = {}
        self._quiet = False
        self._heirs: tuple[Peer, ...] = ()
        self._round = 0
        self._spares: dict[Id, Peer] = {}
        self._answered: dict[Id, float] = {}
        self._rumours: dict[Id, None] = {}
        self._told: set[Id] = set()
        self._told_at = -inf
        self._will_tell = False

    @property
    def probing(self) -> bool:
        """Whether any probe is outstanding."""
        return bool(self._probing)

    def asks(self, id_: Id) -> bool:
        """Whether a probe of this node is outstanding."""
        return id_ in self._probing

    def asked(self) -> tuple[Id, ...]:
        """Whom outstanding probes went to."""
        return tuple(self._probing)

    # --- signs of life -----------------------------------------------------------------------------

    def heard(self, peer: Peer) -> None:
        """Any message from a node shows that it lives."""
        id_ = peer.id
        if self._state.suspects and self._state.suspects.pop(id_, None) is not None:
            self._state.release_due = True
        if self._probing:
            probing = self._probing.get(id_)
            if probing is not None:
                probing.heard = True

    def beat(self, peer: Peer, question: Heartbeat) -> None:
        """A heartbeat: only active nodes send it."""
        self._state.arrivals.joined(peer.id)
        self._state.leases.asked(peer, question)
        self._state.hear_rider(peer, question.digest)

    def heard_member(self, peer: Peer) -> bool:
        """A message that only a ring member sends; False if it is from before the node came back."""
        state = self._state
        known = state.leaves.get(peer.id) or state.table.get(peer.id)
        if known is not None and known is not peer:
            if known.incarnation > peer.incarnation:
                state.drop("pastry: from an earlier incarnation")
                return False
            if known.incarnation < peer.incarnation:
                state.renew(peer)
                probing = self._probing.get(peer.id)
                if probing is not None:
                    probing.peer = peer
        return True

    # --- suspicion and probes ----------------------------------------------------------------------

    def suspect(self, peer: Peer) -> None:
        """Route around a node, and find out about it."""
        state = self._state
        if not state.joining.admitted:
            # A leaf probe would ask to be taken into a leaf set, and there are other nodes.
            state.unlearn(peer.id)
            state.forwarding.reroute_from(peer.id)
            return
        if peer.id not in state.suspects:
            known = state.known(peer.id)
            if known is None and peer.id in state.failed:
                state.forwarding.reroute_from(peer.id)
                return
            if self.probe(peer):
                # Only with a probe, whose end is the suspicion's: so probes bound suspects, too.
                state.suspects[peer.id] = peer
                state.counters.suspected += 1
        state.forwarding.reroute_from(peer.id)

    def link_failed(self, peer: Peer, gone: bool) -> None:
        """The driver could not reach a node: a strong suspicion, verified at once. If its machine says
        that the process is gone, no lease counts, and to hear it once more is enough."""
        state = self._state
        if gone:
            state.leases.release(peer.id)
        probing = self._probing.get(peer.id)
        if probing is not None:
            if peer.incarnation >= probing.peer.incarnation:
                if gone:
                    probing.tries = max(probing.tries, state.config.probe_retries)
                self._pause(probing)
            return
        known = state.known(peer.id)
        if known is not None and known.incarnation <= peer.incarnation:
            self.suspect(known)
        else:
            state.forwarding.reroute_from(peer.id)

    def probe(self, peer: Peer) -> bool:
        """Ask a node whether it lives and who is near it; whether that is under way now."""
        state = self._state
        if peer.id in self._probing:
            return True
        if peer.id == state.me.id or not state.joining.admitted:
            return False
        if len(self._probing) >= PROBES_KEPT and state.known(peer.id) is None:
            # Those in the tables, which are bounded, must not wait for what others name.
            state.drop("pastry: too many probes")
            return False
        self._probing[peer.id] = probing = Probing(peer)
        self._send_probe(probing)
        return True

    def probe_due(self, id_: Id, round_: int) -> None:
        """A try has timed out, or the pause after a broken link is over."""
        probing = self._probing.get(id_)
        if probing is None or probing.round != round_:
            return
        if probing.tries <= self._state.config.probe_retries:
            self._send_probe(probing)
            return
        promised = self._state.leases.promised(id_)
        if promised > 0 and not probing.heard:
            self._state.set_timer("probe", promised, id_, round_)
            return
        del self._probing[id_]
        if probing.heard:
            # It lives, though its answers were lost; it may have been suspected again meanwhile.
            self._state.suspects.pop(id_, None)
            self._state.release_due = True
        else:
            self._quiet, self._heirs = probing.rumour, probing.heirs
            self.died(probing.peer)
            self._quiet, self._heirs = False, ()
        self.settle()

    def died(self, peer: Peer) -> None:
        """A node is verified dead."""
        state = self._state
        known = state.known(peer.id)
        was_leaf = state.leaves.get(peer.id) is not None
        state.forget(peer)
        if not state.active and not was_leaf and not self._quiet:
            # A joiner: it was named the dead by leaves that have it still, and whom it tells will be quiet.
            self.tell_leaves()
        if known is not None:
            state.counters.failures += 1
            state.maintenance.remember(peer)
            self._tell_gone(peer)
        state.admission.old_handle_died(peer)

    def departed(self, peer: Peer, leaves: tuple[Peer, ...]) -> None:
        """A node says itself that it leaves: no need to verify, unless it is just arriving."""
        state = self._state
        if state.arrivals.doubts(peer.id):
            self._probing.pop(peer.id, None)
            self.probe(peer)
            return
        self._probing.pop(peer.id, None)
        known = state.known(peer.id)
        # It tells all its leaves itself.
        self._quiet, self._heirs = True, state.listed(leaves, "leaf set")
        state.forget(peer)
        self._quiet, self._heirs = False, ()
        if known is not None:
            self._tell_gone(peer)
        else:
            state.forwarding.reroute_from(peer.id)
        self.probe_named(leaves)
        self.settle()

    # --- leaf probes -------------------------------------------------------------------------------

    def probed(self, peer: Peer, message: LeafProbe) -> None:
        """Answer with what this node believes."""
        state = self._state
        if not state.joining.admitted:
            # Whoever asks has this node in its leaf set, or would take it into it. And it lives: if it has
            # said goodbye before, as it started over, it is not to be passed over when this node is let in.
            state.failed.pop(peer.id, None)
            state.send(peer, Departing())
            return
        self._believe(peer, message)
        failed = self._told_failed(peer)
        before, after = state.reach.known()
        reply = LeafProbeReply(state.leaves.ring, failed, state.active, Id(before), Id(after))
        state.send(peer, reply)

    def answered(self, peer: Peer, message: LeafProbeReply) -> None:
        """A probe came back."""
        asked = self._probing.pop(peer.id, None)
        if not self._probing:
            # A join leaves it large, and a dict never shrinks.
            self._probing = {}
        if asked is None and not self._state.active:
            # It may be from before this joiner started over, and confirms nothing now.
            return
        if asked is not None and asked.tries == 1:
            # Karn's rule: after a second try nobody knows which one was answered.
            self._state.forwarding.takes(peer.id, self._state.now - asked.sent_at)
        self._note_answer(peer.id)
        self._believe(peer, message)
        self.settle()

    def _note_answer(self, id_: Id) -> None:
        answered, now = self._answered, self._state.now
        answered.pop(id_, None)
        answered[id_] = now
        while now - answered[next(iter(answered))] > self._rumour_pause():
            del answered[next(iter(answered))]

    def abandon(self) -> tuple[Peer, ...]:
        """End all probes; whom they went to."""
        asked = tuple([probing.peer for probing in self._probing.values()])
        self._probing.clear()
        self._spares.clear()
        return asked

    def tell_leaves(self) -> None:
        """A leaf is gone: the others will be told, together with what else dies meanwhile. Who was told
        itself only closes its gap."""
        if self._quiet:
            self._state.repair.close_gap(self._heirs)
            return
        self._told.clear()
        if self._will_tell:
            return
        self._will_tell = True
        state = self._state
        timeout = state.config.probe_timeout
        wait = max(self._told_at + timeout - state.now, GATHER * timeout)
        state.set_timer("deaths", wait)

    def deaths_due(self) -> None:
        """Ask the whole leaf set."""
        self._will_tell = False
        self._told_at = self._state.now
        told, self._told = self._told, set()
        for leaf in self._state.leaves.ring:
            if leaf.id not in told:
                self.probe(leaf)

    def settle(self) -> None:
        """Nothing outstanding: the leaf set is complete, or its gap must be closed."""
        state = self._state
        if self._spares and not self._probing:
            spares, self._spares = tuple(self._spares.values()), {}
            self.probe_named(spares)
            self._spares = {}
        if self._probing or not state.joining.admitted:
            return
        if not state.leaf_set_complete():
            state.repair.fill_leaf_set()
        elif not state.active and not state.reach.torn:
            state.joining.leaf_set_confirmed()

    def _believe(self, peer: Peer, message: LeafProbe | LeafProbeReply) -> None:
        state = self._state
        leaves = state.listed(message.leaves, "leaf set")
        state.failed.pop(peer.id, None)
        state.add_leaf(peer)
        if message.active:
            state.arrivals.joined(peer.id)
            state.table.consider(peer, inf)
            state.maintenance.get_to_know(peer)
        else:
            state.arrivals.waits(peer, isinstance(message, LeafProbe))
        if len(message.failed) > FAILED_TOLD * 4:
            state.drop("pastry: list of failed is too long")
        else:
            for id_ in message.failed:
                known = state.known(id_)
                if known is not None and id_ != peer.id:
                    self._verify(known, (peer, *leaves), isinstance(message, LeafProbe))
        if message.active and state.active:
            self._miss(peer, message, leaves)
        self.probe_named(leaves)
        state.reach.told(peer, message.before, message.after, leaves)

    def _miss(
        self, peer: Peer, message: LeafProbe | LeafProbeReply, leaves: tuple[Peer, ...]
    ) -> None:
        """Members whom a node does not name, though they are within its reach: it has verified them dead.
        Words of a death miss who changes its leaf set at that moment, and are forgotten after a while; this
        is not, so gossip brings leaf sets together. Of joiners it may not have heard yet."""
        named = {one.id for one in leaves}
        arrivals = self._state.arrivals
        for member in self._state.leaves.ring:
            offset = (member.id - peer.id) % RING
            within = offset <= message.after or RING - offset <= message.before
            if offset and within and member.id not in named and member.id not in arrivals:
                self._verify(member, (peer, *leaves), False)

    def _verify(self, peer: Peer, heirs: tuple[Peer, ...], told: bool) -> None:
        """Look into a rumour of death, but not of the same node again and again: every answer carries
        rumours, too, and after a partition all of them are about the living."""
        state = self._state
        probing = self._probing.get(peer.id)
        if probing is not None:
            if told and state.leaves.get(heirs[0].id) is not None:
                # Who finds out at the same time need not tell the same leaves again.
                probing.rumour = True
                probing.heirs = heirs
            return
        pause = self._rumour_pause() - (state.now - self._answered.get(peer.id, -inf))
        if pause <= 0:
            self._probe_rumoured(peer, heirs)
        elif peer.id not in self._rumours:
            self._rumours[peer.id] = None
            state.set_timer("rumour", pause, peer.id)

    def rumour_due(self, id_: Id) -> None:
        """A rumour came too soon after an answer to be looked into then."""
        self._rumours.pop(id_, None)
        known = self._state.known(id_)
        if known is not None:
            self._probe_rumoured(known)

    def _probe_rumoured(self, peer: Peer, heirs: tuple[Peer, ...] = ()) -> None:
        if peer.id not in self._probing and self.probe(peer):
            probing = self._probing[peer.id]
            probing.rumour = True
            probing.heirs = heirs

    def _rumour_pause(self) -> float:
        config = self._state.config
        return config.probe_timeout * (config.probe_retries + 1)

    def probe_named(self, peers: tuple[Peer, ...]) -> bool:
        """Probe those that there is room for in the leaf set; whether there are any."""
        state = self._state
        admits = state.leaves.admits
        fitting = [
            named
            for named in state.listed(peers, "leaf set")
            if admits(named.id) and named.id not in state.failed
        ]
        chosen = state.leaves.pick(fitting) if len(fitting) > 1 else fitting
        for named in chosen:
            self.probe(named)
        if len(chosen) < len(fitting):
            self._keep_spares(fitting, chosen)
        return bool(chosen)

    def _keep_spares(self, fitting: list[Peer], chosen: list[Peer]) -> None:
        spares = self._spares
        for peer in fitting:
            if peer not in chosen:
                if len(spares) >= SPARES_KEPT:
                    self._state.drop("pastry: too many candidates for the leaf set")
                    return
                spares[peer.id] = peer

    def _send_probe(self, probing: Probing) -> None:
        state = self._state
        probing.tries += 1
        probing.sent_at = state.now
        self._round += 1
        probing.round = self._round
        state.counters.probes += 1
        failed = self._told_failed(probing.peer)
        before, after = state.reach.known()
        probe = LeafProbe(state.leaves.ring, failed, state.active, Id(before), Id(after))
        state.send(probing.peer, probe)
        state.set_timer("probe", state.config.probe_timeout, probing.peer.id, probing.round)

    def _pause(self, probing: Probing) -> None:
        # The link breaks once per try however many messages were queued on it: the new round makes
        # the try's own timer stale, and a pause that is under way has an even earlier end.
        state = self._state
        if probing.round < 0:
            return
        self._round += 1
        probing.round = -self._round
        pause = state.config.probe_timeout * BROKEN_LINK_PAUSE
        state.set_timer("probe", pause, probing.peer.id, probing.round)

    def _told_failed(self, peer: Peer) -> tuple[Id, ...]:
        if self._will_tell and len(self._told) < SPARES_KEPT:
            self._told.add(peer.id)
        failed = self._state.failed
        return tuple(failed)[-FAILED_TOLD:] if failed else ()

    def _tell_gone(self, peer: Peer) -> None:
        state = self._state
        state.forwarding.reroute_from(peer.id)
        state.forwarding.forget(peer.id)
        state.notify(PeerDead(peer))
        state.effects.extend(state.application.peer_died(peer, state.now))

    def forget_old_failures(self) -> None:
        """The dead are remembered only while rumours of them go round."""
        state = self._state
        for id_ in [i for i, at in state.failed.items() if state.now - at > FAILED_SECONDS]:
            del state.failed[id_]
