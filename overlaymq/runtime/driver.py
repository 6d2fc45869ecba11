"""The trio driver: one thread owns the core and performs its effects.

Everything that reaches the core goes through ``handle``: what the transport brings (it calls the
``Inbox`` methods here on the trio thread), timers, and what the application asks. ``handle`` is never
re-entered: an input that comes up while effects are being performed waits its turn.

The driver holds no protocol logic. Beyond performing effects it keeps the credit accounts
(``core.flow``): a batch passing through holds a ``Transit`` until every link and every local subscription
has taken it, and only then is the credit returned to its sender.

Background work is two system tasks, for timers and for open runs, so the application's exceptions are never
wrapped in a group. What goes wrong there is logged and ends the node, loudly.
"""

from __future__ import annotations

import heapq
import logging
import os
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

import trio

from overlaymq import ids
from overlaymq.core.flow import LOST_WAITING, REFRESH_SHARE, Flow, Transit
from overlaymq.core.supported import is_supported
from overlaymq.errors import Closed, ForkedProcess, NotSupported, TopicUnavailable
from overlaymq.events import (
    AnycastAnswered,
    Deliver,
    Delivered,
    Depart,
    Dropped,
    EpochChanged,
    Found,
    Joined,
    JoinRejected,
    Lagged,
    Leave,
    Measured,
    Members,
    Missed,
    Notify,
    OpenTopic,
    ParentLost,
    PeerFailed,
    Ponged,
    Probe,
    Ready,
    Received,
    Repaired,
    Send,
    Sent,
    Sequenced,
    SetTimer,
    Subscribe,
    TimerFired,
    TopicFailed,
    TopicKnown,
    Unsubscribe,
)
from overlaymq.messages import Batch, Credit, Skipped, Window
from overlaymq.runtime.mishaps import Mishaps
from overlaymq.runtime.publishing import OwnTransit
from overlaymq.runtime.questions import Question
from overlaymq.runtime.recorder import FLUSH_EVERY
from overlaymq.trace.tracer import NOBODY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from overlaymq.config import Config
    from overlaymq.core.node import Node
    from overlaymq.core.reliability.upcalls import Upcalls
    from overlaymq.events import Effect, Event, Input, SubscriptionEvent, Timer
    from overlaymq.ids import Id
    from overlaymq.messages import Descriptor, Message, Peer
    from overlaymq.runtime.publishing import Publisher
    from overlaymq.runtime.recorder import Recorder
    from overlaymq.runtime.subscription import Subscription
    from overlaymq.runtime.tracing import Tracing
    from overlaymq.transport.base import Transport

log = logging.getLogger("overlaymq.runtime")

KEEP_EVERY = 2.0
"""How often the transport is told which links to keep: a guess well below its idle timeout."""

DRAIN_LOOK = 0.02
"""Seconds between two looks at what still waits: a guess."""
_SUBSCRIPTION_EVENTS = (Ready, Missed, EpochChanged, Lagged, ParentLost, Repaired)


class Driver:
    """Owns a core node and its transport. Implements the transport's Inbox."""

    def __init__(
        self,
        node: Node,
        transport: Transport,
        config: Config,
        recorder: Recorder | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.recorder = recorder
        self.tracing = tracing
        self._take_core(node)
        self.me = node.me
        self.config = config
        self.transport = transport
        self.flow = Flow(config.delivery.window, config.delivery.patience)
        self.batches_sent = self.batches_received = self.control_received = self.delivered = 0
        self.drops: Counter[str] = Counter()
        self._mishaps = Mishaps(self.me.id)
        self.subscriptions: dict[Id, list[Subscription]] = {}
        self.publishers: dict[Id, Publisher] = {}
        self.descriptors: dict[Id, Descriptor] = {}
        """What rendezvous nodes have answered about the topics used here."""
        self._forwarded: dict[Id, str] = {}
        self.members: dict[Id, int] = {}
        self.members_told = trio.lowlevel.ParkingLot()
        self.joined = Question()
        self.ended = False
        self._pid = os.getpid()
        self._inputs: deque[tuple[Input, Transit | None]] = deque()
        self._handling = False
        self._timers: list[tuple[float, int, Timer | Callable[[], None]]] = []
        self._timer_count = 0
        self._timer_wake = trio.Event()
        self._background: list[trio.CancelScope] = []
        self._open_runs: list[Publisher] = []
        self._flusher = trio.lowlevel.ParkingLot()
        self._questions: dict[int, Question] = {}
        self._request = 0
        self._watching_patience = False
        self._excusing = False
        self._ready: set[Id] = set()

    # --- life ---

    def start(self) -> None:
        """Begin to keep time."""
        for work in (self._keep_time, self._keep_flushing):
            trio.lowlevel.spawn_system_task(
                self._in_background, work, name=f"overlaymq {work.__name__}"
            )
        self.after(KEEP_EVERY, self._tell_kept)
        if self.recorder is not None:
            self.after(FLUSH_EVERY, self._flush_record)
        if self.tracing is not None:
            self.tracing.start(self)

    async def drain(self, seconds: float) -> bool:
        """Before leaving: wait until nothing accepted waits here for credit or for a root, and nobody
        needs this node to pass anything on. False if that takes longer than this."""
        for publisher in self.publishers.values():
            publisher.flush()
        if not self.ended:
            self.handle(Depart())
        with trio.move_on_after(seconds):
            while self._waits():  # noqa: ASYNC110 (credits come without an event)
                await trio.sleep(DRAIN_LOOK)
            return True
        return False

    def _waits(self) -> bool:
        unsent = any(publisher.pending for publisher in self.publishers.values())
        return not self.ended and (unsent or self.flow.queued() > 0 or self.node.needed)

    def begin_again(self, node: Node) -> None:
        """Before the join has succeeded: another core, and none of the old one's timers."""
        self._take_core(node)
        self._timers = [entry for entry in self._timers if callable(entry[2])]
        heapq.heapify(self._timers)

    def _take_core(self, node: Node) -> None:
        self.node = node
        if self.tracing is not None:
            self.tracing.core = node
        self._step = node.handle if self.recorder is None else self.recorder.watch(node)

    def stop(self, reason: str = "the node is closed") -> None:
        """Leave the ring, end every handle, and stop keeping time."""
        if self.ended:
            return
        self.handle(Leave())
        for publisher in self.publishers.values():
            publisher.flush()
        for subscription in self._all_subscriptions():
            subscription.close()
        self._end(reason)

    def _all_subscriptions(self) -> list[Subscription]:
        return [one for subscriptions in self.subscriptions.values() for one in subscriptions]

    def _end(self, reason: str) -> None:
        """End every handle without asking the core anything more."""
        self.ended = True
        for publisher in self.publishers.values():
            publisher.close(reason)
        for subscription in self._all_subscriptions():
            subscription.fail(reason)
        for question in [*self._questions.values(), self.joined]:
            if question.answer is None:
                question.settle(None)
        for scope in self._background:
            scope.cancel()

    def check_open(self) -> None:
        """Raise if the node has ended, or belongs to the parent of this process."""
        if os.getpid() != self._pid:
            raise ForkedProcess(
                "this node was made before a fork; make one in the child, or start processes with spawn"
            )
        if self.ended:
            raise Closed("the node is closed")

    # --- the core ---

    def handle(self, input_: Input, transit: Transit | None = None) -> None:
        """Feed the core and perform what it returns."""
        if os.getpid() != self._pid:
            self.check_open()
        self._inputs.append((input_, transit))
        if self._handling:
            return
        self._handling = True
        try:
            while self._inputs:
                input_, transit = self._inputs.popleft()
                now = time.monotonic()
                if self.tracing is None:
                    self._perform(self._step(input_, now), transit, now)
                else:
                    self.tracing.input(input_)
                    self._perform(self._step(input_, now), transit, now)
                    self.tracing.after(input_)
                if transit is not None:
                    if transit.pending == 0:
                        self._consumed(transit)
                    else:
                        self._excuse_later()
        finally:
            self._handling = False
        self.settle()
        self.transport.flush()

    def set_upcalls(self, topic: Id, upcalls: Upcalls) -> None:
        """Install the application's upcalls in the core."""
        if self.recorder is not None:
            upcalls = self.recorder.upcalls(topic, upcalls)
        self.node.set_upcalls(topic, upcalls, self._mishaps.on_topic(topic))

    def _perform(self, effects: list[Effect], transit: Transit | None, now: float) -> None:
        for effect in effects:  # the most frequent first
            if isinstance(effect, Send):
                message = effect.message
                if isinstance(message, Batch):
                    self._send_batch(effect.peer, message, transit, now)
                else:
                    if self.tracing is not None:
                        self.tracing.sent(effect.peer, message)
                    self.transport.send(effect.peer, message)
            elif isinstance(effect, Deliver):
                self._deliver(effect.batch, transit, now)
            elif isinstance(effect, SetTimer):
                self._set_timer(now + effect.delay, effect.timer)
            elif isinstance(effect, Notify):
                self._notify(effect.event)
            elif isinstance(effect, Probe):
                self.transport.probe(effect.peer)

    def _send_batch(self, peer: Peer, batch: Batch, transit: Transit | None, now: float) -> None:
        transit = self._transit(batch, transit)
        if type(transit) is OwnTransit:
            transit.publisher.links[peer.id] = peer
        descriptor = self.descriptors.get(batch.topic)
        flow = descriptor.flow if descriptor else self._flow_of(batch.topic)
        self.batches_sent += 1
        ready = self.flow.offer(peer, batch, flow, transit, now)
        if ready:
            self._transmit(peer, ready)
        else:
            self._watch_patience()

    def _transit(self, batch: Batch, transit: Transit | None) -> Transit:
        if batch.origin == self.me.id and (publisher := self.publishers.get(batch.topic)):
            own = publisher.transit(batch)
            if own is not None:
                return own
        return transit or Transit(None, batch.topic, batch.size)

    def _flow_of(self, topic: Id) -> str:
        """The flow of a topic that this node only forwards. What peers say of it is not cached for
        the application, and is forgotten with the topic, so invented topics cannot fill the memory."""
        if topic not in self._forwarded:
            self._forwarded = {one.id: one.flow for one in self.node.active_topics()}
        return self._forwarded.get(topic, "patient")

    def _transmit(self, peer: Peer, ready: list[Batch | Skipped]) -> None:
        for one in ready:
            if isinstance(one, Batch):
                if self.tracing is not None:
                    self.tracing.sent(peer, one)
                self.transport.send_batch(peer, one)
            else:
                self.transport.send(peer, one)

    def _deliver(self, batch: Batch, transit: Transit | None, now: float) -> None:
        subscriptions = self.subscriptions.get(batch.topic)
        if not subscriptions:
            return
        transit = self._transit(batch, transit)
        own = batch.origin == self.me.id
        flow = self.descriptors[batch.topic].flow
        takers = [one for one in subscriptions if one.receive_own or not own]
        if self.tracing is not None and takers:
            self.tracing.delivered(batch)
        for subscription in takers:
            subscription.offer(batch, transit, flow, now)
        self.delivered += batch.count
        if transit.pending:
            self._watch_patience()

    # --- credit ---

    def settle(self) -> None:
        """Return the credit of batches that no sink holds any more."""
        released = self.flow.released
        while released:
            self._consumed(released.pop())
        if self.tracing is not None and self.flow.given_up:
            self.tracing.given_up(self.flow.given_up)

    def _consumed(self, transit: Transit) -> None:
        if isinstance(transit, OwnTransit):
            transit.publisher.released(transit)
        elif (credit := self.flow.consumed(transit)) is not None and transit.peer is not None:
            self.transport.send(transit.peer, credit)

    def _excuse_later(self) -> None:
        """Something is held here: tell its sender before it loses patience."""
        if not self._excusing:
            self._excusing = True
            self.after(self.config.delivery.patience / REFRESH_SHARE, self._excuse)

    def _excuse(self) -> None:
        self._excusing = False
        held = self.flow.refreshes()
        for peer, credit in held:
            self.transport.send(peer, credit)
        if held:
            self._excuse_later()

    def _watch_patience(self) -> None:
        """See to it that patience ends in time, where something waits."""
        if self._watching_patience:
            return
        waiting = [since for _, since in self._blocked()]
        due = [self.flow.deadline(), *(since + self.config.delivery.patience for since in waiting)]
        times = [when for when in due if when is not None]
        if times:
            self._watching_patience = True
            self._set_timer(min(times), self._lose_patience)

    def _blocked(self) -> list[tuple[Subscription, float]]:
        """The subscriptions on patient topics for which batches wait, and since when."""
        return [
            (subscription, subscription.blocked_since)
            for topic, subscriptions in self.subscriptions.items()
            if self.descriptors[topic].flow == "patient"
            for subscription in subscriptions
            if subscription.blocked_since is not None
        ]

    def _lose_patience(self) -> None:
        self._watching_patience = False
        now = time.monotonic()
        self.flow.expire(now)
        for subscription, since in self._blocked():
            if now - since >= self.config.delivery.patience:
                subscription.give_up()
        self.settle()
        self._watch_patience()

    def is_busy(self, publisher: Publisher) -> bool:
        """Whether a publisher's links still have something to write; if so, it will be flushed later."""
        links = publisher.links.values()
        busy = [peer for peer in links if self.transport.backlog(peer)]
        for peer in busy:
            self.transport.watch(peer)
        return bool(busy) or self.flow.waits(publisher.descriptor.id, links)

    def look_after(self, publisher: Publisher) -> None:
        """A run was opened: the flusher sends it when the application pauses."""
        self._open_runs.append(publisher)
        self._flusher.unpark()

    async def _keep_flushing(self) -> None:
        while True:
            if not self._open_runs:
                await self._flusher.park()
            runs, self._open_runs = self._open_runs, []
            self._open_runs += [publisher for publisher in runs if publisher.look()]
            await trio.lowlevel.checkpoint()

    # --- Inbox: what the transport says ---

    def opened(self, peer: Peer) -> None:
        """A fresh link."""
        if self.tracing is not None:
            self.tracing.link_up(peer)
        self.transport.send(peer, Window(self.config.delivery.window))
        self._transmit(peer, self.flow.reset(peer, time.monotonic()))
        self.settle()

    def received(self, peer: Peer, message: Message) -> None:
        """A message or a batch."""
        if isinstance(message, Batch):
            self._received_batch(peer, message)
        elif isinstance(message, Credit):
            self._credited(peer, message)
        elif isinstance(message, Window):
            for credit in self.flow.told(peer, message):
                self.transport.send(peer, credit)
        else:
            self.control_received += 1
            self.handle(Received(peer, message))

    def _received_batch(self, peer: Peer, batch: Batch) -> None:
        transit = self.flow.received(peer, batch)
        if transit is None:
            self.dropped("credit exceeded", batch.count, batch, peer)
            return
        self.batches_received += 1
        self.handle(Received(peer, batch), transit)

    def _credited(self, peer: Peer, credit: Credit) -> None:
        ready = self.flow.credited(peer, credit.topic, credit.total, time.monotonic())
        self._transmit(peer, ready)
        self.settle()
        publisher = self.publishers.get(credit.topic)
        if publisher is not None:
            publisher.links_idle()

    def failed(self, peer: Peer, reason: str, gone: bool = False) -> None:
        """A link broke: what was on it and not confirmed may be lost, and is counted."""
        if unconfirmed := self.flow.unconfirmed(peer):
            self.dropped("link lost, unconfirmed", unconfirmed, None, peer)
        self._lost_link(peer, reason)
        if not self.ended:
            self.handle(PeerFailed(peer, reason, gone))

    def closed(self, peer: Peer) -> None:
        """A link ended in peace."""
        self._lost_link(peer, "closed")

    def _lost_link(self, peer: Peer, reason: str) -> None:
        if self.tracing is not None:
            self.tracing.link_down(peer, reason)
        lost = self.flow.drop(peer)
        if lost:
            self.drops[LOST_WAITING] += lost
        for publisher in self.publishers.values():
            publisher.links.pop(peer.id, None)
        self.settle()

    def measured(self, peer: Peer, seconds: float, offset: int | None = None) -> None:
        """A round trip, and how far the peer's clock is ahead."""
        if self.tracing is None or not self.tracing.measured(peer, seconds, offset):
            self.handle(Measured(peer, seconds))

    def drained(self) -> None:
        """Links are idle again: send what has gathered."""
        for publisher in self.publishers.values():
            publisher.links_idle()

    def dropped(
        self, reason: str, count: int, batch: Batch | None = None, peer: Peer | None = None
    ) -> None:
        """Something was discarded."""
        self.drops[reason] += count
        if self.tracing is not None:
            self.tracing.dropped(reason, count, batch, NOBODY if peer is None else peer.id)

    # --- events ---

    def _notify(self, event: Event) -> None:
        if self.tracing is not None:
            self.tracing.event(event)
        if isinstance(event, Sent):
            publisher = self.publishers.get(event.topic)
            if publisher is not None:
                publisher.sent(event)
        elif isinstance(event, Sequenced):
            publisher = self.publishers.get(event.topic)
            if publisher is not None:
                publisher.sequenced(event)
        elif isinstance(event, Delivered):
            publisher = self.publishers.get(event.topic)
            if publisher is not None:
                publisher.delivered(event)
        elif isinstance(event, Dropped):
            self.drops[event.reason] += event.messages
        elif isinstance(event, _SUBSCRIPTION_EVENTS):
            if isinstance(event, Ready):
                self._ready.add(event.topic)
            elif isinstance(event, ParentLost):
                self._ready.discard(event.topic)
            self._tell(event.topic, event)
        elif isinstance(event, TopicKnown | TopicFailed | AnycastAnswered | Found | Ponged):
            question = self._questions.pop(event.request, None)
            if question is not None:
                question.settle(event)
        elif isinstance(event, Members):
            self.members[event.topic] = event.count
            self.members_told.unpark_all()
        elif isinstance(event, Joined | JoinRejected):
            self.joined.settle(event)

    def _tell(self, topic: Id, event: SubscriptionEvent) -> None:
        for subscription in self.subscriptions.get(topic, ()):
            subscription.happened(event)

    # --- questions ---

    async def ask(self, make: Callable[[int], Input]) -> tuple[Event, float]:
        """Give the core a request; the event that answers it, and how many seconds that took."""
        self.check_open()
        self._request += 1
        request = self._request
        question = self._questions[request] = Question()
        try:
            asked_at = time.monotonic()
            self.handle(make(request))
            return await question.wait(), question.answered_at - asked_at
        finally:
            self._questions.pop(request, None)

    async def open_topic(self, descriptor: Descriptor) -> Descriptor:
        """The descriptor that holds for a topic, everywhere."""
        event, _ = await self.ask(lambda request: OpenTopic(request, descriptor))
        if isinstance(event, TopicKnown):
            if not is_supported(event.descriptor):
                raise NotSupported(
                    f"topic {descriptor.name!r} uses strategy={event.descriptor.strategy!r}, "
                    f"reliability={event.descriptor.reliability!r}; this version does not know them"
                )
            self.descriptors[event.descriptor.id] = event.descriptor
            return event.descriptor
        reason = event.reason if isinstance(event, TopicFailed) else "unexpected answer"
        raise TopicUnavailable(f"topic {descriptor.name!r}: {reason}")

    # --- subscriptions ---

    def subscribe(self, subscription: Subscription, descriptor: Descriptor) -> None:
        """Connect a subscription; the first of a topic makes this node a member."""
        self.check_open()
        others = self.subscriptions.setdefault(descriptor.id, [])
        others.append(subscription)
        if self.tracing is not None:
            self.tracing.begins(descriptor.id, others)
        if len(others) == 1:
            self._ready.discard(descriptor.id)
            self.handle(Subscribe(descriptor, subscription.since, b"", subscription.credentials))
        elif descriptor.id in self._ready:
            subscription.happened(Ready(descriptor.id))

    def unsubscribe(self, subscription: Subscription) -> None:
        """Disconnect a subscription, and stop being a member after the last."""
        if subscription.descriptor is None:
            return
        topic = subscription.descriptor.id
        others = self.subscriptions.get(topic, [])
        if subscription in others:
            others.remove(subscription)
        if not others and self.subscriptions.pop(topic, None) is not None and not self.ended:
            self.handle(Unsubscribe(topic))

    # --- time ---

    def _set_timer(self, when: float, timer: Timer | Callable[[], None]) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        if self._timers[0][1] == self._timer_count:
            self._timer_wake.set()

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Do something later."""
        self._set_timer(time.monotonic() + delay, action)

    async def _in_background(self, work: Callable[[], Awaitable[None]]) -> None:
        scope = trio.CancelScope()
        self._background.append(scope)
        try:
            with scope:
                await work()
        except Exception:  # a system task must not raise; the node ends instead, loudly
            log.exception("node %s: the core failed; the node is closed", ids.short(self.me.id))
            self._end("the node failed; its log says why")

    async def _keep_time(self) -> None:
        while True:
            self._fire_due()
            await self._wait_for_timer()

    def _fire_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if callable(timer):
                timer()
            else:
                self.handle(TimerFired(timer))

    async def _wait_for_timer(self) -> None:
        self._timer_wake = trio.Event()
        delay = self._timers[0][0] - time.monotonic() if self._timers else float("inf")
        with trio.move_on_after(max(0.0, delay)):
            await self._timer_wake.wait()

    def _flush_record(self) -> None:
        assert self.recorder is not None
        self.recorder.flush()
        self.after(FLUSH_EVERY, self._flush_record)

    def _tell_kept(self) -> None:
        self.transport.keep(self.node.kept())
        self.after(KEEP_EVERY, self._tell_kept)
