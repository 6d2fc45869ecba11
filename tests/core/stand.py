"""A node's place in the tree of an ordered topic: its mode, a parent and children that are only names, and
the effects that the mode asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.config import DeliveryConfig
from overlaymq.core.dissemination.children import Child
from overlaymq.core.reliability.ordered import Ordered
from overlaymq.core.reliability.reporting import REPORT
from overlaymq.core.reliability.upcalls import ModeTree
from overlaymq.events import Deliver, Notify, Send, SetTimer
from overlaymq.ids import Id
from overlaymq.messages import Batch, Descriptor, Epoch, Peer, Place, TreeJoin, TreeStatus

if TYPE_CHECKING:
    from overlaymq.events import Event
    from overlaymq.messages import Message

TOPIC = Descriptor(Id(7), "t", "", Id(7), "scribe", "ordered", "patient")
CONFIG = DeliveryConfig(reorder_wait=0.5, gap_timeout=10.0, keep_seconds=60.0)
ME, ABOVE, BELOW, OTHER = (Peer(Id(n), f"node-{n}") for n in (1, 2, 3, 4))
OLD, NEW = Epoch(1, Id(100)), Epoch(2, Id(100))


def batch(sequence: int, count: int = 1, *, epoch: Epoch = OLD, first: int | None = None) -> Batch:
    number = sequence if first is None else first
    return Batch(
        TOPIC.id, Id(50), 0, number, count, b"x", 0, 1, epoch.root, epoch.counter, sequence
    )


def published(first: int, *, origin: int = 50, count: int = 1) -> Batch:
    return Batch(TOPIC.id, Id(origin), 0, first, count, b"x")


class Stand:
    def __init__(self, *, root: bool = False, config: DeliveryConfig = CONFIG) -> None:
        self.mode = Ordered(TOPIC.id, config)
        children = {peer.id: Child(peer, 1e9) for peer in (BELOW, OTHER)}
        self.tree = ModeTree(ME, TOPIC, children)
        self.tree.parent = None if root else ABOVE
        self.tree.is_root = root
        self.tree.member = True
        self.delivered: list[tuple[int, int]] = []
        self.events: list[Event] = []
        self.said: list[tuple[Peer, Message]] = []
        self.timers: list[tuple[float, int]] = []

    def start(self, last: int = 0, *, epoch: Epoch = OLD, past: tuple[Place, ...] = ()) -> Stand:
        status = TreeStatus(Place(epoch, last), past, last + 1)
        self.mode.on_status(ABOVE, status, self.tree)
        return self.done()

    def get(self, *batches: Batch) -> Stand:
        for one in batches:
            if self.mode.is_new(one):
                self.mode.on_forward(one, self.tree)
        return self.done()

    def note(self, peer: Peer, message: Message) -> Stand:
        self.mode.on_note(peer, message, self.tree)
        return self.done()

    def told(self, status: TreeStatus) -> Stand:
        self.mode.on_status(ABOVE, status, self.tree)
        return self.done()

    def joined(self, child: Peer, expects: Place | None, last: int = 0) -> Stand:
        join = TreeJoin(TOPIC.id, child, TOPIC, 0, last, expects=expects)
        self.mode.on_join(join, self.tree)
        return self.done()

    def wait(self, seconds: float) -> Stand:
        until = self.tree.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= until]:
            timer = min(due)
            self.timers.remove(timer)
            self.tree.now = max(self.tree.now, timer[0])
            self.mode.on_timer(timer[1], self.tree)
            self.done()
        self.tree.now = until
        return self

    def due(self) -> list[int]:
        return [token for _, token in self.timers if token != REPORT]

    def numbers(self) -> bool:
        return self.mode.sequencing

    def done(self) -> Stand:
        effects, self.tree.effects = self.tree.effects, []
        for effect in effects:
            if isinstance(effect, Deliver):
                self.delivered.append((effect.batch.root_epoch, effect.batch.root_sequence))
            elif isinstance(effect, Notify):
                self.events.append(effect.event)
            elif isinstance(effect, Send):
                self.said.append((effect.peer, effect.message))
            elif isinstance(effect, SetTimer):
                self.timers.append((self.tree.now + effect.delay, effect.timer.round))
        return self

    def sent(self, to: Peer, kind: type) -> list[Message]:
        return [message for peer, message in self.said if peer == to and isinstance(message, kind)]
