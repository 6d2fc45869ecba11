"""The sans-IO node: Pastry, topics, strategies and reliability, composed.

``handle(input, now)`` is the only verb. Inside, the parts return effects to each other through one loop:
``Route`` goes down to Pastry, ``Send`` to this very node comes back in, ``Deliver`` passes the topic's
reliability mode; what remains is for the driver. No part holds another except through this file.

User code (upcalls) is contained here: what it raises is counted and never stops the node.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

import msgspec

from overlaymq.core import fuse, orphans, searches
from overlaymq.core.copies import Copies
from overlaymq.core.dissemination.base import Effects, Strategy, Surroundings
from overlaymq.core.dissemination.load import Load
from overlaymq.core.dissemination.scamp import no_member
from overlaymq.core.dissemination.scribe.anycast import passed_on
from overlaymq.core.held import FORGET, Held, of_a_strategy
from overlaymq.core.measurements import Measurements
from overlaymq.core.orphans import Orphans
from overlaymq.core.pastry import Pastry
from overlaymq.core.questions import Questions
from overlaymq.core.reliability.registry import MODES
from overlaymq.core.reliability.tree_mode import TreeMode
from overlaymq.core.reliability.upcalls import Upcalls, contained
from overlaymq.core.searches import Searches
from overlaymq.core.supported import ABOUT_TOPIC, ABOUT_TOPIC_DIRECT, STRATEGIES, is_supported
from overlaymq.core.topics import Topics, is_consistent
from overlaymq.events import (
    Anycast,
    AskDelivery,
    CountMembers,
    CreateGroup,
    Deliver,
    Delivered,
    Depart,
    Dropped,
    Effect,
    Found,
    Input,
    Join,
    Leave,
    Lookup,
    Measure,
    Measured,
    Notify,
    OpenTopic,
    PeerFailed,
    PingPeer,
    Ponged,
    Publish,
    Received,
    Replicate,
    Route,
    Send,
    SetTimer,
    SignalGroup,
    Subscribe,
    TimerFired,
    Unsubscribe,
    Volunteer,
)
from overlaymq.ids import Id
from overlaymq.messages import (
    AnycastOver,
    AnycastTaken,
    Batch,
    BatchRefused,
    BatchSequenced,
    DeliveryIs,
    DeliveryQuery,
    FuseInstall,
    Handover,
    LookupReply,
    LookupRequest,
    Ping,
    Pong,
    Register,
    RootQuery,
    RootState,
    SvJoin,
    TopicOpen,
    TopicOpened,
    TopicReplica,
    TreeAnycast,
    TreeJoin,
    TreeJoins,
    TreeTold,
)

if TYPE_CHECKING:
    from random import Random

    from overlaymq.config import Config
    from overlaymq.core.reliability.modes import BestEffort
    from overlaymq.core.reliability.upcalls import Report
    from overlaymq.messages import Descriptor, Message, Peer, Routed

MAX_JOINS = 256
"""Joins that travel as one message: a guess, some 64 KiB."""


class Node:
    """One node of the overlay, without any I/O."""

    def __init__(self, me: Peer, config: Config, random: Random) -> None:
        self.me = me
        self.config = config
        self._random = random
        self.pastry = Pastry(me, config.pastry, random, self)
        self.fuse = fuse.Fuse(me, config.fuse, config.pastry.heartbeat_every, self)
        self.pastry.carry(self.fuse)
        self.topics = Topics(me, config.rendezvous, self.pastry)
        self._topics: dict[Id, Held] = {}
        self._lives = 0
        """How many strategies this node has made."""
        self._upcalls: dict[Id, Upcalls] = {}
        self._opened: Effects = []
        """What topics that were just opened want done."""
        self._root_states: dict[Id, RootState] = {}
        self._copies = Copies(self.pastry, config.rendezvous.replicas, config.rendezvous.max_topics)
        self._orphans = Orphans(config.delivery.window)
        self._upcall_errors: list[str] = []
        """The names of those that failed in this step."""
        self._questions = Questions()
        self._load = Load(config.scribe.max_children)
        self._measurements = Measurements()
        self._searches = Searches(me, config.scribe.anycast_timeout)

    # --- the one verb ---

    def handle(self, input_: Input, now: float) -> list[Effect]:
        """Take one input and return what the driver must do."""
        if isinstance(input_, Received) and isinstance(input_.message, Batch):
            return self._resolve(self._batch(input_.peer, input_.message, now), now)
        if isinstance(input_, TimerFired):
            if input_.timer.part.startswith("mode."):  # what a mode gives out has passed it already
                topic = self._topics.get(Id(input_.timer.subject))
                return topic.mode.fired(input_.timer, now) if topic is not None else []
            return self._resolve(self._fired(input_, now), now)
        if isinstance(input_, Leave):
            # Resolved first: Pastry routes nothing for a node that has left.
            farewells = self._resolve(self._abdicate(now), now)
            farewells += self._resolve(self.fuse.leave(now), now)
            return farewells + self._resolve(self.pastry.handle(input_, now), now)
        if isinstance(input_, Received) and fuse.misnames_its_hop(input_.peer, input_.message):
            return [Notify(Dropped("fuse: a way by somebody else"))]
        if isinstance(input_, Received | Join):
            return self._resolve(self.pastry.handle(input_, now), now)
        if isinstance(input_, Measured):
            effects = self.pastry.handle(input_, now)
            return self._resolve(effects + self._measured(input_, now), now)
        if isinstance(input_, PeerFailed):
            effects = self.pastry.handle(input_, now) + self._failed(input_.peer, now)
            told = self.fuse.gone if input_.gone else self.fuse.suspect
            return self._resolve(effects + told(input_.peer, now), now)
        return self._resolve(self._command(input_, now), now)

    def set_upcalls(self, topic: Id, upcalls: Upcalls, report: Report | None = None) -> None:
        """Install the application's upcalls for a topic, contained."""
        kept = self._upcalls.setdefault(topic, Upcalls())
        wrapped = contained(upcalls, self._upcall_errors, report)
        for name in Upcalls.__struct_fields__:
            setattr(kept, name, getattr(wrapped, name))

    def kept(self) -> set[Id]:
        """The peers whose links should stay open."""
        kept = set(self.pastry.kept) | {peer.id for peer in self.fuse.kept}
        for topic in self._topics.values():
            kept.update(peer.id for peer in topic.strategy.kept)
        return kept

    @property
    def needed(self) -> bool:
        """Whether somebody would miss something if this node left now."""
        return any(topic.strategy.needed for topic in self._topics.values())

    def active_topics(self) -> tuple[Descriptor, ...]:
        """The topics this node has a part in."""
        return tuple(topic.strategy.descriptor for topic in self._topics.values())

    def strategy(self, topic: Id) -> Strategy | None:
        """What this node does for a topic, if it has a part in it."""
        held = self._topics.get(topic)
        return None if held is None else held.strategy

    # --- inputs ---

    def _fired(self, fired: TimerFired, now: float) -> Effects:
        timer = fired.timer
        part = timer.part
        if part.startswith("pastry."):
            return self.pastry.handle(fired, now)
        if part == "topics":
            return self.topics.fired(timer)
        if part == orphans.PART:
            return self._orphans.fired(now)
        if part == searches.PART:
            return self._searches.fired(timer)
        if part == fuse.PART:
            return self.fuse.fired(now)
        topic = self._topics.get(Id(timer.subject))
        if topic is None or topic.life != timer.life:
            return []
        if part == FORGET:
            effects: Effects = [*topic.look(now, self.config.rendezvous.refresh_every)]
        else:
            if part == "topic.tick" and isinstance(topic.mode, TreeMode):
                self._check_reach(topic, topic.mode, now)
            effects = topic.strategy.fired(timer, now)
        self._forget_if_idle(Id(timer.subject), now)
        return effects

    def _command(self, command: Input, now: float) -> Effects:
        match command:
            case Publish(descriptor, batch):
                effects = self._open(descriptor, now).publish(batch, now)
                return effects + self._used(descriptor.id, now)
            case Subscribe(descriptor, last, note, credentials):
                strategy = self._open(descriptor, now)
                strategy.credentials = credentials
                return strategy.subscribe(last, now, note)
            case Unsubscribe(topic):
                if topic not in self._topics:
                    return []
                held = self._topics[topic]
                effects = held.strategy.unsubscribe(now)
                # The next subscription begins when it begins: what passes meanwhile is no gap.
                if isinstance(held.mode, TreeMode):
                    held.mode.unsubscribed()
                else:
                    held.mode = self._new_mode(held.strategy.descriptor)
                held.let_go()
                self._forget_if_idle(topic, now)
                return effects
            case Volunteer(descriptor, willing):
                effects = self._open(descriptor, now).volunteer(willing, now)
                self._forget_if_idle(descriptor.id, now)
                return effects
            case OpenTopic(request, descriptor):
                return self.topics.open(request, descriptor)
            case AskDelivery(descriptor, first, last):
                query = DeliveryQuery(descriptor.id, descriptor, first, last)
                return [Route(descriptor.key, query)]
            case CountMembers(descriptor):
                effects = self._open(descriptor, now).count_members(now)
                return effects + self._used(descriptor.id, now)
            case Anycast():
                return self._searches.start(command)
            case Lookup(request, key):
                return self._questions.asked(request, Route(key, LookupRequest(request)))
            case PingPeer(request, peer):
                return self._questions.asked(request, Send(peer, Ping(request)))
            case CreateGroup():
                return self.fuse.create(command, now)
            case SignalGroup():
                return self.fuse.signal(command, now)
            case Depart():
                all_topics = list(self._topics.values())
                parting = [effect for one in all_topics for effect in one.strategy.depart(now)]
                return parting + self._abdicate(now)
        raise TypeError(f"not an input: {command!r}")

    def _batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        topic = self._topics.get(batch.topic)
        if topic is not None:
            return topic.strategy.receive(peer, batch, now)
        return self._orphans.add(peer, batch, now)

    def _failed(self, peer: Peer, now: float) -> Effects:
        effects: Effects = []
        for topic in list(self._topics.values()):
            if any(kept.id == peer.id for kept in topic.strategy.kept):
                effects += topic.strategy.failed(peer, now)
        return effects

    # --- the layer above Pastry ---

    def forward(
        self, routed: Routed, next_hop: Peer, now: float
    ) -> tuple[Routed, Peer | None, Effects]:
        """A routed message passes through."""
        body = routed.body
        if isinstance(body, FuseInstall):
            return self.fuse.forward(routed, body, next_hop, now)
        if isinstance(body, TreeJoins):
            if routed.source.id == self.me.id:
                return routed, next_hop, []
            return routed, None, self._joins_passed(body, next_hop, now)
        passes, effects = self._offered(body, next_hop, now)
        if passes is not None and passes is not body:
            routed = msgspec.structs.replace(routed, body=passes)
        return routed, None if passes is None else next_hop, effects

    def _offered(self, body: Message, next_hop: Peer, now: float) -> tuple[Message | None, Effects]:
        """What passes of a message, once its topic has seen it."""
        if not isinstance(body, ABOUT_TOPIC):
            return body, []
        new = body.topic not in self._topics
        if new and not isinstance(body, TreeJoin | SvJoin):
            return body, []
        if new and self._refusal(body.descriptor, body.topic) is not None:
            return body, []
        passes, effects = self._open(body.descriptor, now).forward(body, next_hop, now)
        if new:
            self._forget_if_idle(body.topic, now)
        return passes, effects

    def _joins_passed(self, body: TreeJoins, next_hop: Peer, now: float) -> Effects:
        """Each is offered to its topic; those that pass are grouped again, by where they go from here."""
        effects: Effects = []
        for join in body.joins[:MAX_JOINS]:
            passes, more = self._offered(join, next_hop, now)
            effects += more if passes is None else [*more, Route(join.descriptor.key, passes)]
        return effects

    def deliver(self, routed: Routed, now: float) -> Effects:
        """A routed message ends here."""
        body = routed.body
        if isinstance(body, LookupRequest):
            return [Send(routed.source, LookupReply(body.request, routed.key, routed.hops))]
        if isinstance(body, FuseInstall):
            return self.fuse.deliver(body, now)
        if isinstance(body, TopicOpen):
            return self.topics.asked(body, routed.source)
        if isinstance(body, TreeJoins):
            return self._joins_passed(body, self.me, now)
        if isinstance(body, ABOUT_TOPIC):
            return self._about(body.descriptor, body.topic, now, body, routed.source)
        if isinstance(body, BatchSequenced | BatchRefused | TreeTold):
            return self.receive(routed.source, body, now)
        return [Notify(Dropped(f"routed {type(body).__name__}"))]

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """A message came straight from a peer."""
        if isinstance(message, ABOUT_TOPIC_DIRECT):
            topic = self._topics.get(message.topic)
            if topic is None:
                return no_member(peer, message)
            return topic.strategy.receive(peer, message, now)
        if isinstance(message, fuse.MESSAGES):
            return self.fuse.receive(peer, message, now)
        match message:
            case Batch():
                return self._batch(peer, message, now)
            case RootState():
                return self._replica(peer, message, now)
            case DeliveryIs(about, first, last, members, had, final):
                return [Notify(Delivered(about, first, last, members, had, final))]
            case Ping(request):
                return [Send(peer, Pong(request))]
            case Pong(request):
                return self._questions.answered(request, Ponged(request))
            case LookupReply(request, _, hops):
                return self._questions.answered(request, Found(request, peer, hops))
            case TopicOpened():
                return self.topics.answered(message)
            case TopicReplica():
                return self.topics.replica(message)
            case TreeJoin():
                return self._asked_to_take(peer, message, now)
            case TreeAnycast():
                if message.topic not in self._topics:  # it has left the tree; the search goes on
                    return [passed_on(message, self.me)]
                return self._topics[message.topic].strategy.receive(peer, message, now)
            case AnycastTaken():
                return self._searches.taken(peer, message)
            case AnycastOver():
                return self._searches.over(message)
            case Register() | RootQuery():
                if message.topic in self._topics:
                    return self._topics[message.topic].strategy.receive(peer, message, now)
                owner = self.pastry.owner(message.descriptor.key) if self.pastry.active else None
                if owner is not None and owner.id == self.me.id:  # routing would lose who asks
                    return self._about(message.descriptor, message.topic, now, message, peer)
                return [Route(message.descriptor.key, message)]
            case Handover():
                return self._handed_over(peer, message, now)
        return [Notify(Dropped(f"unexpected {type(message).__name__}"))]

    def _asked_to_take(self, peer: Peer, message: TreeJoin, now: float) -> Effects:
        refusal = self._refusal(message.descriptor, message.topic)
        if refusal is not None:
            return [Notify(Dropped(refusal))]
        effects = self._open(message.descriptor, now).receive(peer, message, now)
        self._forget_if_idle(message.topic, now)
        return effects

    def new_leafs(self, now: float) -> Effects:
        """The leaf set changed: owners may have."""
        effects = self.topics.leafs_changed()
        for topic in list(self._topics.values()):
            effects += self._check_owner(topic, now)
        return effects + self._copies.leafs_changed(self._reigned())

    def peer_died(self, peer: Peer, now: float) -> Effects:
        """A peer was verified dead."""
        return self._failed(peer, now) + self.fuse.gone(peer, now)

    # --- the layer above FUSE ---

    def group_asked(
        self, topic: Id, group: Id, creator: Peer, members: tuple[Peer, ...], now: float
    ) -> tuple[bool, Effects]:
        """Whether this node takes part in a failure group of a topic."""
        strategy = self.strategy(topic)
        if strategy is None:
            return False, []
        return strategy.group_asked(group, creator, members, now)

    def group_created(self, topic: Id, group: Id, now: float) -> Effects:
        """A failure group that a topic asked for exists."""
        strategy = self.strategy(topic)
        return [] if strategy is None else strategy.group_created(group, now)

    def group_failed(self, topic: Id, group: Id, now: float) -> Effects:
        """A failure group of a topic has failed."""
        strategy = self.strategy(topic)
        if strategy is None:
            return []
        effects = strategy.group_failed(group, now)
        self._forget_if_idle(topic, now)
        return effects

    # --- parts ---

    def _about(
        self, descriptor: Descriptor, topic: Id, now: float, message: Message, source: Peer
    ) -> Effects:
        refusal = self._refusal(descriptor, topic)
        if refusal is not None:
            return [Notify(Dropped(refusal))]
        new = topic not in self._topics
        effects = self._open(descriptor, now).deliver(message, source, now)
        if new:
            self._forget_if_idle(topic, now)  # a question leaves nothing behind
        return effects

    def _refusal(self, descriptor: Descriptor, topic: Id) -> str | None:
        if descriptor.id != topic or not is_consistent(descriptor):
            return "descriptor id does not match its name"
        if not is_supported(descriptor):
            return "unknown strategy or reliability"
        if topic not in self._topics and len(self._topics) >= self.config.rendezvous.max_topics:
            return "too many topics"
        return None

    def _handed_over(self, peer: Peer, message: Handover, now: float) -> Effects:
        descriptor = message.descriptor
        refusal = self._refusal(descriptor, descriptor.id)
        if refusal is not None:
            return [Notify(Dropped(refusal))]
        strategy = self._open(descriptor, now)
        self._topics[descriptor.id].inherits(peer, now + self.config.rendezvous.expire_after)
        effects = strategy.receive(peer, message, now)
        for sender, batch in self._orphans.claim(descriptor.id):
            effects += strategy.receive(sender, batch, now)
        return effects + self._used(descriptor.id, now)

    def _replica(self, peer: Peer, state: RootState, now: float) -> Effects:
        """What a root knows, for the case that this node must be the next one."""
        refusal = self._refusal(state.descriptor, state.descriptor.id)
        if refusal is not None:
            return [Notify(Dropped(refusal))]
        known = self._root_states.get(state.descriptor.id)
        if known is None or state.status.last >= known.status.last:
            self._keep_state(state)
            self._copies.taken(state)
        topic = self._topics.get(state.descriptor.id)
        return [] if topic is None else topic.strategy.receive(peer, state, now)

    def _keep_state(self, state: RootState) -> None:
        self._root_states.pop(state.descriptor.id, None)
        self._root_states[state.descriptor.id] = state
        if len(self._root_states) > self.config.rendezvous.max_topics:
            self._root_states.pop(next(iter(self._root_states)))

    def _reigned(self) -> set[Id]:
        """Ordered topics whose root this node is, and gossip topics whose rendezvous."""
        held = self._topics.items()
        gossip = {id_ for id_, one in held if one.strategy.mesh and one.owner == self.me}
        ordered = {
            id_ for id_, one in held if isinstance(one.mode, TreeMode) and one.mode.sequencing
        }
        return gossip | ordered

    def _open(self, descriptor: Descriptor, now: float) -> Strategy:
        topic = self._topics.get(descriptor.id)
        if topic is None:
            mode = self._new_mode(descriptor)
            around = Surroundings(
                self.me,
                self._random,
                self.config.rendezvous,
                self.config.delivery,
                self.config.scribe,
                self._upcalls.setdefault(descriptor.id, Upcalls()),
                load=self._load,
                mode=mode if isinstance(mode, TreeMode) else None,
                sv=self.config.sv,
                scamp=self.config.scamp,
                willing=self.config.for_topic(descriptor.name).volunteer,
            )
            strategy = STRATEGIES[descriptor.strategy](descriptor, around)
            self._lives += 1
            topic = self._topics[descriptor.id] = Held(strategy, mode, self._lives)
            state = self._root_states.get(descriptor.id)
            if state is not None:
                self._opened += strategy.receive(self.me, state, now)
            self._opened += self._check_owner(topic, now)
        return topic.strategy

    def _new_mode(self, descriptor: Descriptor) -> BestEffort:
        mode = MODES[descriptor.reliability](descriptor.id, self.config.delivery)
        mode.mesh = STRATEGIES[descriptor.strategy].mesh
        return mode

    def _check_owner(self, topic: Held, now: float) -> Effects:
        if not self.pastry.active:
            return []
        owner = self.pastry.owner(topic.strategy.descriptor.key)
        if not topic.passes_to(owner, self.pastry.kept):
            return []
        return topic.strategy.root_changed(owner, now)

    def _check_reach(self, topic: Held, mode: TreeMode, now: float) -> None:
        """Pastry holds what is routed to a key as long as its owner has no lease, joins too."""
        if not self.pastry.owns(topic.strategy.descriptor.key, now):
            mode.deaf(now)

    def _used(self, topic: Id, now: float) -> Effects:
        return [*self._topics[topic].use(now, self.config.rendezvous.refresh_every)]

    def _abdicate(self, now: float) -> Effects:
        """This node leaves: whoever will own its topics' keys then is their root from now on."""
        effects: Effects = []
        for topic in list(self._topics.values()):
            near = self.pastry.closest(topic.strategy.descriptor.key, 2)
            if topic.abdicates(self.me, near):
                effects += topic.strategy.root_changed(topic.heir, now)
        return effects

    def _forget_if_idle(self, topic: Id, now: float) -> None:
        held = self._topics[topic]
        if held.may_go(now):
            if isinstance(held.mode, TreeMode):
                state = held.mode.state(held.strategy.descriptor)
                if state is not None and state.status.last.epoch.root == self.me.id:
                    self._keep_state(state)
            del self._topics[topic]
            if self._upcalls.get(topic) == Upcalls():
                del self._upcalls[topic]

    def _resolve(self, effects: Effects, now: float) -> list[Effect]:
        done: list[Effect] = []
        queue = deque(effects)
        joins: list[Route] = []
        while queue or joins or self._load.changed or self._opened:
            if self._opened:
                queue.extend(self._opened)
                self._opened = []
            if not queue:
                queue.extend(self._route_joins(joins, now) if joins else self._relieve(now))
                joins = []
                continue
            effect = queue.popleft()
            if isinstance(effect, Send):
                if effect.peer.id == self.me.id:
                    queue.extendleft(reversed(self.receive(self.me, effect.message, now)))
                else:
                    done.append(effect)
            elif isinstance(effect, Route):
                if isinstance(effect.message, TreeJoin) and not effect.randomize:
                    joins.append(effect)
                    continue
                routed = self.pastry.route(effect.key, effect.message, now, effect.randomize)
                queue.extendleft(reversed(routed))
            elif isinstance(effect, Replicate):
                done += self._copies.give(effect.state)
            elif isinstance(effect, CreateGroup | SignalGroup):
                queue.extendleft(reversed(self._command(effect, now)))
            elif isinstance(effect, Measure):
                done.append(self._measurements.wanted(effect))
            elif isinstance(effect, Deliver) and effect.batch.topic in self._topics:
                done += self._topics[effect.batch.topic].mode.deliver(effect.batch, now)
            elif isinstance(effect, SetTimer) and of_a_strategy(effect.timer):
                held = self._topics.get(Id(effect.timer.subject))
                if held is not None:  # otherwise the topic was forgotten in this very step
                    done.append(held.signed(effect))
            else:
                done.append(effect)
        while self._upcall_errors:
            done.append(Notify(Dropped(f"upcall failed: {self._upcall_errors.pop()}")))
        return done

    def _route_joins(self, routes: list[Route], now: float) -> Effects:
        """Joins of one step that have the same next hop travel as one (FreePastry's buildManifests)."""
        groups: dict[Id | None, list[Route]] = {None: routes}
        if len(routes) > 1:
            groups = {}
            for route in routes:
                groups.setdefault(self.pastry.next_hop(route.key), []).append(route)
        effects: Effects = []
        for hop, group in groups.items():
            if hop is None or len(group) == 1:
                for route in group:
                    effects += self.pastry.route(route.key, route.message, now)
                continue
            for start in range(0, len(group), MAX_JOINS):
                some = group[start : start + MAX_JOINS]
                joins = TreeJoins(tuple(cast("TreeJoin", route.message) for route in some))
                effects += self.pastry.route(some[0].key, joins, now)
        return effects

    def _relieve(self, now: float) -> Effects:
        """There are too many children over all topics."""
        heaviest = self._load.heaviest()
        topic = None if heaviest is None else self._topics.get(heaviest)
        return [] if topic is None else topic.strategy.relieve(now)

    def _measured(self, measured: Measured, now: float) -> Effects:
        effects: Effects = []
        for topic in self._measurements.answered(measured.peer):
            if topic in self._topics:
                effects += self._topics[topic].strategy.measured(
                    measured.peer, measured.seconds, now
                )
        return effects
