"""The sans-IO node: Pastry, topics, strategies and reliability, composed.

``handle(input, now)`` is the only verb. Inside, the parts return effects to each other through one loop:
``Route`` goes down to Pastry, ``Send`` to this very node comes back in, ``Deliver`` passes the topic's
reliability mode; what remains is for the driver. No part holds another except through this file.

User code (upcalls) is contained here: what it raises is counted and never stops the node.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast, get_args

import msgspec

from overlaymq.config import Flow
from overlaymq.core import searches
from overlaymq.core.dissemination.base import Effects, Strategy, Surroundings
from overlaymq.core.dissemination.direct import Direct
from overlaymq.core.dissemination.load import Load
from overlaymq.core.dissemination.scribe import Scribe
from overlaymq.core.dissemination.scribe.anycast import passed_on
from overlaymq.core.measurements import Measurements
from overlaymq.core.pastry import Pastry
from overlaymq.core.reliability.registry import MODES, NEEDS_TREE
from overlaymq.core.reliability.tree_mode import TreeMode
from overlaymq.core.reliability.upcalls import Upcalls, contained
from overlaymq.core.searches import Searches
from overlaymq.core.topics import Topics, is_consistent
from overlaymq.events import (
    Anycast,
    CountMembers,
    Deliver,
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
    Subscribe,
    Timer,
    TimerFired,
    Unsubscribe,
)
from overlaymq.ids import Id
from overlaymq.messages import (
    AnycastOver,
    AnycastTaken,
    Batch,
    BatchSequenced,
    Handover,
    LookupReply,
    LookupRequest,
    Ping,
    Pong,
    Register,
    Registered,
    RootIs,
    RootQuery,
    RootState,
    RootUnknown,
    Skipped,
    TopicOpen,
    TopicOpened,
    TopicReplica,
    TreeAnycast,
    TreeBeat,
    TreeDrop,
    TreeGone,
    TreeJoin,
    TreeJoined,
    TreeJoins,
    TreeLeave,
    TreeNeed,
    TreeNote,
    TreeRefresh,
    TreeRefused,
    TreeTold,
    Unregister,
)

if TYPE_CHECKING:
    from random import Random

    from overlaymq.config import Config
    from overlaymq.core.reliability.modes import BestEffort
    from overlaymq.messages import Descriptor, Message, Peer, Routed

STRATEGIES: dict[str, type[Strategy]] = {kind.name: kind for kind in (Direct, Scribe)}
TREES = (Scribe.name,)
"""The strategies that have a tree, for modes that need one."""

ORPHAN_WAIT = 2.0
"""Seconds a batch of an unknown topic waits for a hand-over that it has overtaken: a guess."""
ORPHANS = 1024
"""Batches that wait so at once: a guess."""
LOOKUPS = 65_536
"""Lookups and pings waiting for an answer: a guess."""
MAX_JOINS = 256
"""Joins that travel as one message: a guess, some 64 KiB."""

_ABOUT_TOPIC = (Register, RootQuery, TreeJoin, TreeAnycast)
_ABOUT_TOPIC_DIRECT = (
    *(Registered, RootIs, RootUnknown, Unregister, Skipped),
    *(TreeJoined, TreeRefused, TreeLeave, TreeRefresh, TreeBeat, TreeNote, TreeDrop),
    *(TreeNeed, TreeGone, TreeTold, BatchSequenced),
)


def is_supported(descriptor: Descriptor) -> bool:
    """Whether this version knows the topic's strategy, reliability and flow."""
    return (
        descriptor.strategy in STRATEGIES
        and descriptor.reliability in MODES
        and (descriptor.reliability not in NEEDS_TREE or descriptor.strategy in TREES)
        and descriptor.flow in get_args(Flow)
    )


class _Topic:
    """A topic this node has to do with."""

    __slots__ = ("mode", "owner", "strategy")

    def __init__(self, strategy: Strategy, mode: BestEffort) -> None:
        self.strategy = strategy
        self.mode = mode
        self.owner: Peer | None = None


class Node:
    """One node of the overlay, without any I/O."""

    def __init__(self, me: Peer, config: Config, random: Random) -> None:
        self.me = me
        self.config = config
        self._random = random
        self.pastry = Pastry(me, config.pastry, random, self)
        self.topics = Topics(me, config.rendezvous, self.pastry)
        self._topics: dict[Id, _Topic] = {}
        self._upcalls: dict[Id, Upcalls] = {}
        self._opened: Effects = []
        """What topics that were just opened want done."""
        self._root_states: dict[Id, RootState] = {}
        self._orphans: deque[tuple[Peer, Batch, float]] = deque()
        self._upcall_errors: list[str] = []
        self._waiting: dict[int, None] = {}
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
        if isinstance(input_, Received | Join | Leave):
            return self._resolve(self.pastry.handle(input_, now), now)
        if isinstance(input_, Measured):
            effects = self.pastry.handle(input_, now)
            return self._resolve(effects + self._measured(input_, now), now)
        if isinstance(input_, PeerFailed):
            effects = self.pastry.handle(input_, now)
            return self._resolve(effects + self._failed(input_.peer, now), now)
        return self._resolve(self._command(input_, now), now)

    def set_upcalls(self, topic: Id, upcalls: Upcalls) -> None:
        """Install the application's upcalls for a topic, contained."""
        kept = self._upcalls.setdefault(topic, Upcalls())
        wrapped = contained(upcalls, self._upcall_errors)
        for name in Upcalls.__struct_fields__:
            setattr(kept, name, getattr(wrapped, name))

    def kept(self) -> set[Id]:
        """The peers whose links should stay open."""
        kept = set(self.pastry.kept)
        for topic in self._topics.values():
            kept.update(peer.id for peer in topic.strategy.kept)
        return kept

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
        if part == "orphans":
            return self._drop_orphans(now)
        if part == searches.PART:
            return self._searches.fired(timer)
        topic = self._topics.get(Id(timer.subject))
        if topic is None:
            return []
        effects: Effects = topic.strategy.fired(timer, now)
        self._forget_if_idle(Id(timer.subject))
        return effects

    def _command(self, command: Input, now: float) -> Effects:
        match command:
            case Publish(descriptor, batch):
                return self._open(descriptor, now).publish(batch, now)
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
                    held.mode = type(held.mode)(topic, self.config.delivery)
                self._forget_if_idle(topic)
                return effects
            case OpenTopic(request, descriptor):
                return self.topics.open(request, descriptor)
            case CountMembers(descriptor):
                return self._open(descriptor, now).count_members(now)
            case Anycast():
                return self._searches.start(command)
            case Lookup(request, key):
                return self._expecting(request, Route(key, LookupRequest(request)))
            case PingPeer(request, peer):
                return self._expecting(request, Send(peer, Ping(request)))
        raise TypeError(f"not an input: {command!r}")

    def _expecting(self, request: int, effect: Send | Route) -> Effects:
        self._waiting[request] = None
        if len(self._waiting) > LOOKUPS:
            self._waiting.pop(next(iter(self._waiting)))
        return [effect]

    def _batch(self, peer: Peer, batch: Batch, now: float) -> Effects:
        topic = self._topics.get(batch.topic)
        if topic is not None:
            return topic.strategy.receive(peer, batch, now)
        # It may have overtaken, on the data stream, the hand-over that explains it.
        size = sum(orphan.size for _, orphan, _ in self._orphans)
        if len(self._orphans) >= ORPHANS or size > self.config.delivery.window:
            return [Notify(Dropped("unknown topic", batch.count))]
        self._orphans.append((peer, batch, now))
        if len(self._orphans) > 1:
            return []
        return [SetTimer(Timer("orphans"), ORPHAN_WAIT)]

    def _drop_orphans(self, now: float) -> Effects:
        lost = 0
        mistaken: dict[tuple[Peer, Id], None] = {}
        while self._orphans and now - self._orphans[0][2] >= ORPHAN_WAIT / 2:
            sender, batch, _ = self._orphans.popleft()
            lost += batch.count
            if not batch.root_sequence:
                mistaken[sender, batch.topic] = None
        effects: Effects = [Send(sender, RootUnknown(topic)) for sender, topic in mistaken]
        effects += [Notify(Dropped("unknown topic", lost))] if lost else []
        return [*effects, SetTimer(Timer("orphans"), ORPHAN_WAIT)] if self._orphans else effects

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
        if not isinstance(body, _ABOUT_TOPIC):
            return body, []
        new = body.topic not in self._topics
        if new and not isinstance(body, TreeJoin):
            return body, []
        if new and self._refusal(body.descriptor, body.topic) is not None:
            return body, []
        passes, effects = self._open(body.descriptor, now).forward(body, next_hop, now)
        if new:
            self._forget_if_idle(body.topic)
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
        if isinstance(body, TopicOpen):
            return self.topics.asked(body, routed.source)
        if isinstance(body, TreeJoins):
            return self._joins_passed(body, self.me, now)
        if isinstance(body, _ABOUT_TOPIC):
            return self._about(body.descriptor, body.topic, now, body, routed.source)
        if isinstance(body, BatchSequenced | TreeTold):
            return self.receive(routed.source, body, now)
        return [Notify(Dropped(f"routed {type(body).__name__}"))]

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """A message came straight from a peer."""
        if isinstance(message, _ABOUT_TOPIC_DIRECT):
            topic = self._topics.get(message.topic)
            return topic.strategy.receive(peer, message, now) if topic is not None else []
        match message:
            case Batch():
                return self._batch(peer, message, now)
            case RootState():
                return self._replica(peer, message, now)
            case Ping(request):
                return [Send(peer, Pong(request))]
            case Pong(request):
                return self._answer(request, Ponged(request))
            case LookupReply(request, _, hops):
                return self._answer(request, Found(request, peer, hops))
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
        self._forget_if_idle(message.topic)
        return effects

    def new_leafs(self, now: float) -> Effects:
        """The leaf set changed: owners may have."""
        effects = self.topics.leafs_changed()
        for topic in list(self._topics.values()):
            effects += self._check_owner(topic, now)
        return effects

    def peer_died(self, peer: Peer, now: float) -> Effects:
        """A peer was verified dead."""
        return self._failed(peer, now)

    # --- parts ---

    def _answer(self, request: int, event: Found | Ponged) -> Effects:
        if request not in self._waiting:
            return []
        del self._waiting[request]
        return [Notify(event)]

    def _about(
        self, descriptor: Descriptor, topic: Id, now: float, message: Message, source: Peer
    ) -> Effects:
        refusal = self._refusal(descriptor, topic)
        if refusal is not None:
            return [Notify(Dropped(refusal))]
        new = topic not in self._topics
        effects = self._open(descriptor, now).deliver(message, source, now)
        if new:
            self._forget_if_idle(topic)  # a question leaves nothing behind
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
        effects = strategy.receive(peer, message, now)
        mine = [pair for pair in self._orphans if pair[1].topic == descriptor.id]
        self._orphans = deque(pair for pair in self._orphans if pair[1].topic != descriptor.id)
        for sender, batch, _ in mine:
            effects += strategy.receive(sender, batch, now)
        return effects

    def _replica(self, peer: Peer, state: RootState, now: float) -> Effects:
        """What a root knows, for the case that this node must be the next one."""
        refusal = self._refusal(state.descriptor, state.descriptor.id)
        if refusal is not None:
            return [Notify(Dropped(refusal))]
        self._keep_state(state)
        topic = self._topics.get(state.descriptor.id)
        return [] if topic is None else topic.strategy.receive(peer, state, now)

    def _keep_state(self, state: RootState) -> None:
        self._root_states.pop(state.descriptor.id, None)
        self._root_states[state.descriptor.id] = state
        if len(self._root_states) > self.config.rendezvous.max_topics:
            self._root_states.pop(next(iter(self._root_states)))

    def _open(self, descriptor: Descriptor, now: float) -> Strategy:
        topic = self._topics.get(descriptor.id)
        if topic is None:
            mode = MODES[descriptor.reliability](descriptor.id, self.config.delivery)
            around = Surroundings(
                self.me,
                self._random,
                self.config.rendezvous,
                self.config.delivery,
                self.config.scribe,
                self._upcalls.setdefault(descriptor.id, Upcalls()),
                load=self._load,
                mode=mode if isinstance(mode, TreeMode) else None,
            )
            strategy = STRATEGIES[descriptor.strategy](descriptor, around)
            topic = self._topics[descriptor.id] = _Topic(strategy, mode)
            state = self._root_states.get(descriptor.id)
            if state is not None:
                self._opened += strategy.receive(self.me, state, now)
            self._opened += self._check_owner(topic, now)
        return topic.strategy

    def _check_owner(self, topic: _Topic, now: float) -> Effects:
        owner = self.pastry.owner(topic.strategy.descriptor.key) if self.pastry.active else None
        if owner is None or owner == topic.owner:
            return []
        topic.owner = owner
        return topic.strategy.root_changed(owner, now)

    def _forget_if_idle(self, topic: Id) -> None:
        held = self._topics[topic]
        if held.strategy.idle:
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
                holders = self.pastry.closest(effect.key, self.config.rendezvous.replicas)
                done += [Send(one, effect.message) for one in holders if one.id != self.me.id]
            elif isinstance(effect, Measure):
                done.append(self._measurements.wanted(effect))
            elif isinstance(effect, Deliver) and effect.batch.topic in self._topics:
                done += self._topics[effect.batch.topic].mode.deliver(effect.batch, now)
            else:
                done.append(effect)
        while self._upcall_errors:
            done.append(Notify(Dropped(f"upcall raised: {self._upcall_errors.pop()}")))
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
