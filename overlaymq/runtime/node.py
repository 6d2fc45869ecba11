"""The public handle of a running node: topics, publishing, subscribing, the ring, and counters."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from overlaymq import ids
from overlaymq.core.supported import STRATEGIES
from overlaymq.core.topics import settings
from overlaymq.errors import (
    NotSupported,
    OverlayError,
    PayloadTooLarge,
    TopicConflict,
    WouldBlock,
)
from overlaymq.events import (
    Anycast,
    AnycastAnswered,
    CountMembers,
    Found,
    Lookup,
    PingPeer,
    Ponged,
    Volunteer,
)
from overlaymq.runtime.naming import proposal, split
from overlaymq.runtime.publishing import Publisher
from overlaymq.runtime.subscription import Subscription
from overlaymq.runtime.tracing import TraceStatistics
from overlaymq.runtime.typed import CODECS, Topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from overlaymq.core.reliability.upcalls import Upcalls
    from overlaymq.messages import Descriptor
    from overlaymq.runtime.driver import Driver
    from overlaymq.runtime.publishing import Receipt
    from overlaymq.runtime.subscription import Last
    from overlaymq.runtime.typed import Codec

T = TypeVar("T")

MAX_ANYCAST = 65_536
"""Bytes of an anycast's payload, which travels with what was searched: a guess."""
POLL_MEMBERS = 0.1
"""Seconds between two questions of ``wait_subscribers``: a guess."""


class Accepted(msgspec.Struct, frozen=True):
    """Which nodes accepted an anycast. ``complete``: as many as were wanted, or nobody else would; if not,
    time ran out or the topic was too large to search."""

    nodes: tuple[str, ...]
    complete: bool


class NodeStatistics(msgspec.Struct, frozen=True):
    """What a node has done. ``drops`` counts everything discarded, by reason."""

    control_received: int
    batches_received: int
    batches_sent: int
    delivered: int
    drops: dict[str, int]
    skipped_for_slow_children: int
    queued_bytes: int
    links: int
    topics: int
    trace: TraceStatistics | None = None
    """What the tracer has done, if there is one."""


class Node:
    """A running node."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._by_name: dict[str, Publisher] = {}
        self._volunteering: Counter[ids.Id] = Counter()
        self.admin_address = ""

    # --- who it is ---

    @property
    def id(self) -> str:
        """This node's id, 32 hex digits."""
        return ids.text(self._driver.me.id)

    @property
    def address(self) -> str:
        """Where others reach this node, host:port."""
        return self._driver.me.address

    def __repr__(self) -> str:
        return f"<Node {ids.short(self._driver.me.id)} at {self.address}>"

    # --- topics ---

    async def create(
        self,
        topic: str,
        *,
        strategy: str | None = None,
        reliability: str | None = None,
        flow: str | None = None,
        creator: str = "",
        root: str = "topic",
        credentials: bytes = b"",
    ) -> None:
        """Create a topic with these settings; the configured defaults fill in the rest.

        ``root="creator"`` puts the topic's root at this node, the best place if it publishes most.
        ``credentials`` are kept with the topic; nobody checks them yet.
        Raises TopicConflict if the topic exists with other settings.
        """
        wanted = proposal(
            topic,
            self._driver.config,
            self._driver.me,
            creator=creator,
            root=root,
            explicit=True,
            credentials=credentials,
            strategy=strategy,
            reliability=reliability,
            flow=flow,
        )
        held = await self._driver.open_topic(wanted)
        if settings(held) != settings(wanted):
            used = "" if held.explicit else ", because it was used before anybody created it"
            raise TopicConflict(
                f"topic {topic!r} exists with {_described(held)}{used}; you asked for "
                f"{_described(wanted)}. Use the same settings (create it, or configure it under [topics], "
                "on every node that may be the first), or another name"
            )

    def topic(self, name: str, codec: Codec[T] | str = "bytes") -> Topic[T]:
        """A typed handle: ``codec`` is "bytes", "text", "json", "msgpack", or a Codec object."""
        if isinstance(codec, str):
            if codec not in CODECS:
                raise OverlayError(f"codec: expected one of {', '.join(CODECS)}, got {codec!r}")
            codec = CODECS[codec]
        return Topic(self, name, codec)

    def set_upcalls(self, topic: str, upcalls: Upcalls) -> None:
        """Install upcalls for a topic on this node (see overlaymq.Upcalls)."""
        name, creator = split(topic)
        self._driver.set_upcalls(ids.topic_id(name, creator), upcalls)

    async def _find(self, topic: str) -> Descriptor:
        wanted = proposal(topic, self._driver.config, self._driver.me)
        known = self._driver.descriptors.get(wanted.id)
        if known is not None:
            await trio.lowlevel.checkpoint()
            return known
        return await self._driver.open_topic(wanted)

    # --- publishing ---

    async def publish(
        self, topic: str, payload: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Receipt:
        """Publish one message. Returns a receipt once it is accepted; waits while there is no room."""
        publisher = self._by_name.get(topic)
        if publisher is None:
            publisher = await self._publisher(topic)
        return await publisher.publish(payload, headers)

    def publish_nowait(
        self, topic: str, payload: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Receipt:
        """Publish without waiting: raises WouldBlock if there is no room, or if the topic is not known
        to this node yet (publish to it once, or create it, before)."""
        publisher = self._by_name.get(topic)
        if publisher is None:
            publisher = self._known_publisher(topic)
        return publisher.publish_nowait(payload, headers)

    async def publish_many(self, topic: str, payloads: Iterable[bytes]) -> list[Receipt]:
        """Publish messages in one go. If it is cancelled while it waits for room, the messages before
        are published all the same."""
        publisher = self._by_name.get(topic)
        if publisher is None:
            publisher = await self._publisher(topic)
        return await publisher.publish_many(payloads)

    async def wait_subscribers(self, topic: str, count: int = 1) -> int:
        """Wait until the topic's root counts at least this many subscribed nodes."""
        descriptor = await self._find(topic)
        while True:
            self._driver.check_open()
            self._driver.members.pop(descriptor.id, None)
            self._driver.handle(CountMembers(descriptor))
            with trio.move_on_after(POLL_MEMBERS):
                while self._driver.members.get(descriptor.id, -1) < count:
                    await self._driver.members_told.park()
                return self._driver.members[descriptor.id]

    async def anycast(self, topic: str, payload: bytes, *, count: int = 1) -> Accepted:
        """Offer a payload to subscribed nodes, near ones first, until ``count`` have accepted it.

        A node accepts by its ``on_anycast`` upcall. Raises NotSupported on a topic without a tree."""
        if count < 1:
            raise OverlayError(f"count: expected at least 1, got {count}")
        if len(payload) > MAX_ANYCAST:
            raise PayloadTooLarge(f"an anycast of {len(payload)} bytes; the most is {MAX_ANYCAST}")
        descriptor = await self._find(topic)
        if not STRATEGIES[descriptor.strategy].anycasts:
            raise NotSupported(
                f"topic {topic!r} is disseminated by {descriptor.strategy!r}, which has no tree to search; "
                "create it with strategy='scribe'"
            )
        event, _ = await self._driver.ask(lambda r: Anycast(r, descriptor, bytes(payload), count))
        assert isinstance(event, AnycastAnswered)
        return Accepted(tuple(ids.text(peer.id) for peer in event.accepted), event.complete)

    async def _publisher(self, topic: str) -> Publisher:
        self._driver.check_open()
        return self._make_publisher(topic, await self._find(topic))

    def _known_publisher(self, topic: str) -> Publisher:
        self._driver.check_open()
        name, creator = split(topic)
        known = self._driver.descriptors.get(ids.topic_id(name, creator))
        if known is None:
            raise WouldBlock(f"topic {topic!r} is not known here yet; `await node.publish` once")
        return self._make_publisher(topic, known)

    def _make_publisher(self, topic: str, descriptor: Descriptor) -> Publisher:
        publisher = self._driver.publishers.get(descriptor.id)
        if publisher is None:
            publisher = Publisher(self._driver, descriptor, self._driver.config.delivery)
            self._driver.publishers[descriptor.id] = publisher
        self._by_name[topic] = publisher
        return publisher

    # --- subscribing ---

    def subscribe(
        self,
        topic: str,
        *,
        buffer: int | None = None,
        buffer_bytes: int | None = None,
        when_full: str = "block",
        receive_own: bool = True,
        since: Last | None = None,
        credentials: bytes = b"",
    ) -> Subscription:
        """A subscription: enter it with ``async with``, iterate it with ``async for``.

        ``credentials`` are shown to the node that takes this one as a child; nobody checks them yet."""
        self._driver.check_open()
        split(topic)
        return Subscription(
            self._driver,
            topic,
            self._find,
            self._driver.config.delivery,
            buffer=buffer,
            buffer_bytes=buffer_bytes,
            when_full=when_full,
            receive_own=receive_own,
            since=since,
            credentials=credentials,
        )

    @asynccontextmanager
    async def volunteer(self, topic: str) -> AsyncIterator[None]:
        """Forward a topic's messages without subscribing to it, as long as the block lasts.

        Raises NotSupported on a topic whose strategy knows no volunteers."""
        descriptor = await self._find(topic)
        if not STRATEGIES[descriptor.strategy].takes_volunteers:
            raise NotSupported(
                f"topic {topic!r} is disseminated by {descriptor.strategy!r}, where whoever is on the way "
                "forwards; create it with strategy='sv' to have volunteers"
            )
        self._driver.handle(Volunteer(descriptor))
        self._volunteering[descriptor.id] += 1
        try:
            yield
        finally:
            self._volunteering[descriptor.id] -= 1
            if not self._volunteering[descriptor.id] and not self._driver.ended:
                self._driver.handle(Volunteer(descriptor, False))

    # --- the ring ---

    async def lookup(self, key: str) -> tuple[str, str, int]:
        """Who owns a key (32 hex digits): node id, address, and how many hops the question took.

        Waits as long as it takes: put a ``trio.fail_after`` around it."""
        event, _ = await self._driver.ask(lambda request: Lookup(request, ids.parse(key)))
        assert isinstance(event, Found)
        return ids.text(event.owner.id), event.owner.address, event.hops

    async def ping(self, node: str) -> float:
        """Seconds of a round trip through a linked node's core, as this node's core saw it.

        Waits as long as it takes, for ever if the link breaks: put a ``trio.fail_after`` around it."""
        linked = {link.peer.id: link.peer for link in self._driver.transport.links()}
        peer = linked.get(ids.parse(node))
        if peer is None:
            raise OverlayError(f"no link to node {node}")
        event, seconds = await self._driver.ask(lambda request: PingPeer(request, peer))
        assert isinstance(event, Ponged)
        return seconds

    def neighbours(self) -> tuple[str, ...]:
        """The ids of the leaf set, in ring order."""
        return tuple(ids.text(peer.id) for peer in self._driver.node.pastry.leaves())

    async def drain(self, seconds: float) -> bool:
        """Prepare to leave: wait until what was published here has gone on and no other node needs this
        one to pass messages on. False if that takes longer than this. The end of the block does so too,
        for a short while."""
        return await self._driver.drain(seconds)

    async def leave(self) -> None:
        """Leave the overlay before the block ends, as its end would: what others need is passed on within
        ``link.grace``, neighbours are told, subscriptions end."""
        await self._driver.drain(self._driver.config.link.grace)
        self._driver.stop("the node has left the overlay")
        await self._driver.transport.aclose()

    # --- what it has done ---

    def statistics(self) -> NodeStatistics:
        """Counters, as a frozen value."""
        driver = self._driver
        return NodeStatistics(
            control_received=driver.control_received,
            batches_received=driver.batches_received,
            batches_sent=driver.batches_sent,
            delivered=driver.delivered,
            drops=dict(driver.drops),
            skipped_for_slow_children=driver.flow.skipped,
            queued_bytes=driver.flow.queued(),
            links=len(driver.transport.links()),
            topics=len(driver.node.active_topics()),
            trace=driver.tracing.statistics() if driver.tracing is not None else None,
        )


def _described(descriptor: Descriptor) -> str:
    root = "its id" if descriptor.key == descriptor.id else f"node {ids.short(descriptor.key)}"
    return (
        f"strategy={descriptor.strategy!r}, reliability={descriptor.reliability!r}, "
        f"flow={descriptor.flow!r}, root at {root}"
    )
