"""The bench that strategies are tried on: a ring without Pastry.

The owner of the key is the closest live node, the few closest know it, a routed message ends there. On its
way it halves the number of nodes that are closer, and each of them is asked to forward it.
Messages between two nodes keep their order on each of two lanes, control and data, and the random source
picks the lane that goes next, so batches overtake the news about them as they do on real links. Timers fire
when a check lets time pass. Failure groups are what FUSE promises: all are asked; once one member has
signalled, or was seen to die, or was dead for a while, all others hear of it. Where the topic's mode has a
part in the tree, nodes keep its root's state for the next one, and deliver through it. The bench judges every
``Deliver`` as it comes: to a member, once per batch.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from overlaymq import ids
from overlaymq.config import DeliveryConfig, RendezvousConfig, ScribeConfig
from overlaymq.core.dissemination.base import Surroundings
from overlaymq.core.dissemination.scamp import no_member
from overlaymq.core.reliability.upcalls import Upcalls, contained
from overlaymq.events import (
    CreateGroup,
    Deliver,
    Measure,
    Notify,
    Replicate,
    Route,
    Send,
    SetTimer,
    SignalGroup,
    Timer,
)
from overlaymq.ids import Id
from overlaymq.messages import (
    Batch,
    Descriptor,
    Handover,
    Peer,
    Register,
    RootQuery,
    RootState,
    SvJoin,
    TreeJoin,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from overlaymq.core.dissemination.base import Effects, Strategy
    from overlaymq.core.reliability.tree_mode import TreeMode
    from overlaymq.events import Effect, Event
    from overlaymq.messages import Message

    Make: TypeAlias = Callable[[Descriptor, Surroundings], Strategy]
NEAR = 4
"""How many nodes around the key know its owner without routing."""
GROUP_BOUND = 30.0
"""Seconds until a failure group's members hear of a death that nobody saw."""
PATIENCE = 10_000
"""Messages that one settling may take: far above what any needs."""

GROUPS = "bench.groups"

TOPIC = ids.topic_id("conformance")


def expect(holds: bool, what: str) -> None:
    """Raise with a sentence that says what the strategy broke."""
    if not holds:
        raise AssertionError(what)


class Seat:
    """One node of the bench."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.strategy: Strategy | None = None
        self.owner: Peer | None = None
        self.upcalls = Upcalls()
        self.member = False
        self.published = 0
        self.got: Counter[tuple[Id, int]] = Counter()
        self.batches: list[Batch] = []
        self.events: list[Event] = []
        self.orphans: list[tuple[Peer, Batch]] = []
        self.state: RootState | None = None
        """What a root of an ordered topic knows, kept here for the next one."""

    @property
    def mode(self) -> TreeMode | None:
        """The topic's, if it has a part in the tree."""
        return None if self.strategy is None else self.strategy.around.mode

    def keep(self, state: RootState | None) -> None:
        """The newest is kept."""
        if state is not None and (
            self.state is None or state.status.last >= self.state.status.last
        ):
            self.state = state


class OnItsWay:
    """A routed message between two hops."""

    def __init__(self, route: Route, source: Peer) -> None:
        self.route = route
        self.source = source


class Group:
    """A failure group: who must agree, who has, and whether it has failed."""

    def __init__(self, creator: Peer, members: tuple[Peer, ...]) -> None:
        self.creator = creator
        self.members = members
        self.others = [peer for peer in members if peer.id != creator.id]
        self.installed = {creator.id: creator}
        self.missing = len(self.others)
        self.failed = False


class Asked(msgspec.Struct, frozen=True):
    """Will you be in this group?"""

    group: Id


class Agreed(msgspec.Struct, frozen=True):
    """I will, or not."""

    group: Id
    agreed: bool


class Failed(msgspec.Struct, frozen=True):
    """The group is no more."""

    group: Id


Word = Asked | Agreed | Failed
"""What failure groups say."""


class Bench:
    """A ring of nodes that run one strategy on one topic."""

    def __init__(
        self,
        make: Make,
        random: Random,
        size: int = 10,
        rendezvous: RendezvousConfig | None = None,
        delivery: DeliveryConfig | None = None,
        name: str = "direct",
    ) -> None:
        self.now = 0.0
        self.random = random
        self.routing = True
        self.rendezvous = rendezvous or RendezvousConfig()
        self.delivery = delivery or DeliveryConfig()
        self.seats: dict[Id, Seat] = {}
        self.dead: dict[Id, Peer] = {}
        self.upcall_errors: list[str] = []
        self._make = make
        self._descriptor = Descriptor(
            TOPIC, "conformance", "", TOPIC, name, "best_effort", "lossless"
        )
        self._lanes: dict[tuple[Id, Id, bool], deque[Message | OnItsWay | Word]] = {}
        self._groups: dict[Id, Group] = {}
        self._timers: list[tuple[float, int, Id, Timer, Strategy | None]] = []
        self._count = 0
        for number in range(size):
            peer = Peer(ids.hashed(b"node", bytes([number])), f"bench:{number}")
            self.seats[peer.id] = Seat(peer)

    # --- who is there ---

    def by_closeness(self) -> list[Seat]:
        """The live nodes, the owner of the key first."""
        return sorted(self.seats.values(), key=lambda seat: ids.rank(TOPIC, seat.peer.id))

    @property
    def owner(self) -> Seat:
        """The node at the key."""
        return self.by_closeness()[0]

    @property
    def far(self) -> list[Seat]:
        """The nodes that must route to learn who the owner is."""
        return self.by_closeness()[NEAR:]

    @property
    def members(self) -> list[Seat]:
        """The live members."""
        return [seat for seat in self.by_closeness() if seat.member]

    def kill(self, seat: Seat) -> None:
        """A node dies, and everyone whose link it was is told."""
        self.vanish(seat)
        for other in self.by_closeness():
            self._failed(other, seat.peer)
        self._fail_groups_of(seat.peer)
        self.tell_owner()

    def vanish(self, seat: Seat) -> None:
        """A node dies and nobody is told."""
        del self.seats[seat.peer.id]
        self.dead[seat.peer.id] = seat.peer
        for lane in [lane for lane in self._lanes if seat.peer.id in lane[:2]]:
            del self._lanes[lane]
        self._count += 1
        due = self.now + GROUP_BOUND
        heapq.heappush(self._timers, (due, self._count, seat.peer.id, Timer(GROUPS), None))

    def arrive_closer(self) -> Seat:
        """A node appears that is closer to the key than the owner."""
        self._count += 1  # an id that was never used before
        away = ids.distance(TOPIC, self.owner.peer.id) // 2 - self._count
        peer = Peer(ids.Id((TOPIC + away) % ids.RING), f"bench:closer {away}")
        seat = Seat(peer)
        for near in self.by_closeness()[:NEAR]:  # they know of a joiner before it is active
            seat.keep(near.state if near.mode is None else near.mode.state(self._descriptor))
        self.seats[peer.id] = seat
        self.tell_owner()
        return seat

    # --- what a node's application does ---

    def subscribe(self, *seats: Seat, last: int = 0) -> None:
        """These nodes become members."""
        for seat in seats:
            seat.member = True
            self._perform(seat, self._strategy(seat).subscribe(last, self.now))

    def unsubscribe(self, *seats: Seat) -> None:
        """These nodes stop being members."""
        for seat in seats:
            seat.member = False
            seat.got.clear()  # what the next subscription gets is its own affair
            if seat.strategy is not None:
                self._perform(seat, seat.strategy.unsubscribe(self.now))
                if seat.mode is not None:
                    seat.mode.unsubscribed()
                self._forget_if_idle(seat)

    def publish(self, seat: Seat, count: int = 1) -> tuple[Id, int]:
        """A node publishes a batch; the batch's name."""
        batch = Batch(TOPIC, seat.peer.id, 1, seat.published, count, b"")
        seat.published += count
        self._perform(seat, self._strategy(seat).publish(batch, self.now))
        return batch.origin, batch.first

    def count_members(self, seat: Seat) -> None:
        """A node asks how many members there are."""
        self._perform(seat, self._strategy(seat).count_members(self.now))

    def set_upcalls(self, seat: Seat, upcalls: Upcalls) -> None:
        """Before the node has to do with the topic; what they raise is contained, as in a node."""

        def report(name: str, error: Exception) -> None:
            self.upcall_errors.append(f"{name}: {error!r}")

        seat.upcalls = contained(upcalls, [], report)

    # --- time ---

    def settle(self) -> None:
        """Deliver messages until there are none."""
        for _ in range(PATIENCE):
            lanes = [lane for lane in sorted(self._lanes) if self._lanes[lane]]
            if not lanes:
                return
            self._step(self.random.choice(lanes))
        raise AssertionError(f"messages do not end: {PATIENCE} and more")

    def step(self, most: int) -> None:
        """Deliver a few messages and leave the rest under way."""
        for _ in range(self.random.randrange(most)):
            lanes = [lane for lane in sorted(self._lanes) if self._lanes[lane]]
            if lanes:
                self._step(self.random.choice(lanes))

    def wait(self, seconds: float) -> None:
        """Let time pass: timers fire, messages arrive."""
        until = self.now + seconds
        self.settle()
        while self._timers and self._timers[0][0] <= until:
            self.now, _, id_, timer, setter = heapq.heappop(self._timers)
            seat = self.seats.get(id_)
            if timer.part == GROUPS:
                self._fail_groups_of(self.dead[id_])
            elif seat is not None and seat.strategy is not None and seat.strategy is setter:
                self._perform(seat, seat.strategy.fired(timer, self.now))
                self._forget_if_idle(seat)
            self.settle()
        self.now = until

    def wait_refreshed(self) -> None:
        """Long enough for every soft state to be refreshed twice."""
        self.wait(2 * self.rendezvous.refresh_every + self.rendezvous.answer_timeout)

    # --- what the node around a strategy does ---

    @property
    def mesh(self) -> bool:
        """Whether members are fed by several nodes, and nothing passes one node in particular."""
        return self._example().mesh

    @property
    def ways(self) -> bool:
        """Whether links need others than their two ends, so that a member's going takes others along."""
        return self._example().ways

    def _example(self) -> Strategy:
        return self._made(Seat(Peer(ids.Id(0), "bench:nobody")))

    def _made(self, seat: Seat) -> Strategy:
        around = Surroundings(
            *(seat.peer, self.random, self.rendezvous, self.delivery, ScribeConfig()),
            seat.upcalls,
        )
        return self._make(self._descriptor, around)

    def _strategy(self, seat: Seat) -> Strategy:
        if seat.strategy is None:
            seat.strategy = self._made(seat)
            seat.owner = None
            if seat.state is not None:
                self._perform(seat, seat.strategy.receive(seat.peer, seat.state, self.now))
            self._check_owner(seat)
        return seat.strategy

    def _check_owner(self, seat: Seat) -> None:
        near = self.by_closeness()[:NEAR]
        if seat.strategy is None or seat not in near or seat.owner == near[0].peer:
            return
        seat.owner = near[0].peer
        self._perform(seat, seat.strategy.root_changed(seat.owner, self.now))

    def tell_owner(self) -> None:
        """Those near the key learn who owns it now."""
        for seat in self.by_closeness():
            self._check_owner(seat)

    def _failed(self, seat: Seat, peer: Peer) -> None:
        strategy = seat.strategy
        if strategy is not None and any(kept.id == peer.id for kept in strategy.kept):
            self._perform(seat, strategy.failed(peer, self.now))

    def _forget_if_idle(self, seat: Seat) -> None:
        if seat.strategy is not None and seat.strategy.idle:
            expect(not seat.member, "idle although this node is a member")
            if seat.mode is not None:
                seat.keep(seat.mode.state(self._descriptor))
            seat.strategy = None

    def _perform(self, seat: Seat, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Deliver(batch) if seat.mode is not None:
                    self._perform_mode(seat, seat.mode.deliver(batch, self.now))
                case Deliver(batch):
                    self._deliver(seat, batch)
                case Notify(event):
                    seat.events.append(event)
                case SetTimer(timer, delay):
                    expect(timer.subject == TOPIC, "a strategy's timer names its topic")
                    self._count += 1
                    due = self.now + delay
                    entry = (due, self._count, seat.peer.id, timer, seat.strategy)
                    heapq.heappush(self._timers, entry)
                case Send(peer, message):
                    self._send(seat, peer, message)
                case CreateGroup(group, members):
                    self._create_group(seat, group, members)
                case SignalGroup(group):
                    self._fail_group(group, seat)
                case Measure(_, peer):
                    self._measure(seat, peer)
                case Replicate(_, state):
                    for near in self.by_closeness()[:NEAR]:
                        if near is not seat:
                            self._put(seat.peer.id, near.peer.id, state)
                case Route():
                    if self.routing:
                        self._hop(seat, OnItsWay(effect, seat.peer))
                case _:
                    raise AssertionError(f"not for a strategy: {effect}")
        while seat.strategy is not None and (load := seat.strategy.around.load).changed:
            load.heaviest()
            self._perform(seat, seat.strategy.relieve(self.now))

    def _perform_mode(self, seat: Seat, effects: list[Effect]) -> None:
        """What a mode gives out has passed it already."""
        for effect in effects:
            if isinstance(effect, Deliver):
                self._deliver(seat, effect.batch)
            else:
                self._perform(seat, [effect])

    def _measure(self, seat: Seat, peer: Peer) -> None:
        """Nodes are as far apart as their numbers; who is dead does not answer."""
        if peer.id in self.seats and seat.strategy is not None:
            apart = abs(seat.peer.id - peer.id) / ids.RING
            self._perform(seat, seat.strategy.measured(peer, apart, self.now))

    def _deliver(self, seat: Seat, batch: Batch) -> None:
        name = (batch.origin, batch.first)
        expect(seat.member, "delivered to a node that is no member")
        expect(not seat.got[name], f"batch {name} was delivered twice")
        seat.got[name] += 1
        seat.batches.append(batch)

    def _send(self, seat: Seat, peer: Peer, message: Message) -> None:
        if peer.id == seat.peer.id:
            self._receive(seat, seat.peer, message)
        elif peer.id in self.seats:
            self._put(seat.peer.id, peer.id, message)
        else:
            self._failed(seat, peer)

    def _hop(self, seat: Seat, what: OnItsWay) -> None:
        """Pastry's forward at a node, then the next hop."""
        message = what.route.message
        order = self.by_closeness()
        at = order.index(seat)
        if at and (seat.strategy is not None or isinstance(message, TreeJoin | SvJoin)):
            next_hop = order[at // 2].peer
            new = seat.strategy is None
            passes, effects = self._strategy(seat).forward(message, next_hop, self.now)
            self._perform(seat, effects)
            if new:
                self._forget_if_idle(seat)
            if passes is None:
                return
            what = OnItsWay(Route(what.route.key, passes, what.route.randomize), what.source)
        straight = what.route.randomize
        self._put(seat.peer.id, order[0 if straight else at // 2].peer.id, what)

    def _put(self, source: Id, target: Id, what: Message | OnItsWay | Word) -> None:
        lane = (source, target, isinstance(what, Batch))
        self._lanes.setdefault(lane, deque()).append(what)

    def _step(self, lane: tuple[Id, Id, bool]) -> None:
        what = self._lanes[lane].popleft()
        source, target = (self.seats[id_] for id_ in lane[:2])
        if isinstance(what, Word):
            self._heard_of_group(target, source, what)
        elif not isinstance(what, OnItsWay):
            self._receive(target, source.peer, what)
        elif target is not self.owner:
            self._hop(target, what)
        else:
            message = what.route.message
            effects = self._strategy(target).deliver(message, what.source, self.now)
            self._perform(target, effects)

    def _receive(self, seat: Seat, peer: Peer, message: Message) -> None:
        if isinstance(message, Handover | TreeJoin) or (
            isinstance(message, Register | RootQuery) and seat is self.owner
        ):
            self._strategy(seat)
        if isinstance(message, RootState):
            seat.keep(message)
        if seat.strategy is not None:
            self._perform(seat, seat.strategy.receive(peer, message, self.now))
        elif isinstance(message, Batch):
            seat.orphans.append((peer, message))
        elif isinstance(message, Register | RootQuery):
            self._perform(seat, [Route(TOPIC, message)])
        else:
            self._perform(seat, no_member(peer, message))
        while seat.strategy is not None and seat.orphans:
            self._perform(seat, seat.strategy.receive(*seat.orphans.pop(0), self.now))

    # --- failure groups ---

    def _create_group(self, seat: Seat, id_: Id, members: tuple[Peer, ...]) -> None:
        group = self._groups[id_] = Group(seat.peer, members)
        for peer in group.others:
            if peer.id in self.seats:
                self._put(seat.peer.id, peer.id, Asked(id_))
            else:
                self._fail_group(id_)

    def _heard_of_group(self, seat: Seat, source: Seat, word: Asked | Agreed | Failed) -> None:
        group = self._groups[word.group]
        match word:
            case Asked(id_):
                agreed = False
                if seat.strategy is not None and not group.failed:
                    agreed, effects = seat.strategy.group_asked(
                        id_, group.creator, group.members, self.now
                    )
                    if agreed:
                        group.installed[seat.peer.id] = seat.peer
                    self._perform(seat, effects)
                self._put(seat.peer.id, source.peer.id, Agreed(id_, agreed))
            case Agreed(id_, agreed):
                group.missing -= 1
                if not agreed:
                    self._fail_group(id_)
                elif not group.missing and not group.failed and seat.strategy is not None:
                    self._perform(seat, seat.strategy.group_created(id_, self.now))
            case Failed(id_):
                self._group_failed(seat, id_)

    def _fail_group(self, id_: Id, by: Seat | None = None) -> None:
        """Everybody in it hears, one after the other; who says so, at once."""
        group = self._groups.get(id_)
        if group is None or group.failed:
            return
        group.failed = True
        for peer in group.installed.values():
            if peer.id in self.seats and (by is None or peer != by.peer):
                self._put(peer.id, peer.id, Failed(id_))
        if by is not None and by.peer.id in group.installed:
            self._group_failed(by, id_)

    def _group_failed(self, seat: Seat, id_: Id) -> None:
        if seat.strategy is not None:
            self._perform(seat, seat.strategy.group_failed(id_, self.now))
            self._forget_if_idle(seat)

    def _fail_groups_of(self, dead: Peer) -> None:
        for id_, group in self._groups.items():
            if dead.id in group.installed or dead in group.members:
                self._fail_group(id_)


# --- the checks ---


def heard(seat: Seat, kind: type) -> list[Event]:
    return [event for event in seat.events if isinstance(event, kind)]
