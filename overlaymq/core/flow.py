"""Flow control: byte credits per (link, topic).

A sender may have ``window`` bytes of a topic on a link that the receiver has not consumed. The receiver
has consumed a batch once it has nowhere left to go: every child has credit for it, every local
subscription has taken it into its buffer, or the topic's flow mode gave it up. So a stopped subscriber
holds back the credit of exactly its own topic, link by link, up to the publisher; nothing is queued
anywhere beyond one window per link and topic, and other topics never notice.

What a child without credit means is the topic's ``flow``:

- ``lossy``: its share is dropped at once;
- ``patient``: its share waits for ``patience``, then what waits is dropped, and so is what follows until
  there is credit again;
- ``lossless``: its share waits.

Patience ends nearest to the one who is slow. A node that holds batches because something behind it is slow
says so to the sender from time to time (``refreshes``: a credit that grants nothing), and the sender's
patience starts anew, up to a limit. A frozen child does not say so, and a slow local subscription is given up
by its own node; so a forwarder is never skipped for what one of its children does.

What was dropped is counted and announced to the child (``Skipped``) as soon as it has credit again.

The two ends of a link may be configured with other windows. Each says its own when the link opens, and the
smaller one holds: a receiver that thought in shares of a larger one would never grant, and the sender would
wait for ever. What came before that word may exceed the smaller window; it is refused beyond two windows, and
counts as consumed, so that its credit is not lost with it.

A ``Transit`` is one batch passing through this node; it counts the sinks that still hold it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from overlaymq.messages import Batch, Credit, Peer, Skipped, Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.ids import Id

GRANT_SHARE = 4
"""Credit is returned when this share of the window is consumed: a guess that keeps grants rare."""
REFRESH_SHARE = 3
"""A node that holds batches says so this many times per patience: a guess above one lost."""
MAX_PATIENCE = 8
"""However often it says so, a child without progress is given up after so many patiences: a guess."""
MARKS = 64
"""Into how many parts a window is divided to know how many messages are unconfirmed: a guess."""
MAX_TOPICS = 16_384
"""Topics that one peer may send on one link, so that invented ones cannot fill the memory: a guess."""

SLOW_CHILD = "a child was too slow"
LOST_WAITING = "link lost, waiting"

Sendable = Batch | Skipped


class Transit:
    """One batch on its way through this node. ``peer`` is None for this node's own publications.

    ``pending`` sinks hold it; ``waiting`` of them are links without credit for it, and ``skipped`` links
    will not get it. ``account`` is where its credit is due, until it is paid."""

    __slots__ = ("account", "peer", "pending", "size", "skipped", "topic", "waiting")

    def __init__(
        self, peer: Peer | None, topic: Id, size: int, account: _Incoming | None = None
    ) -> None:
        self.peer = peer
        self.topic = topic
        self.size = size
        self.account = account
        self.pending = self.waiting = self.skipped = 0

    def left(self) -> None:
        """It waits for no link any more: each has it, or will not get it."""


class _Outgoing:
    """What one peer may still be sent of one topic, and what waits for that."""

    __slots__ = (
        "acknowledged",
        "blocked_since",
        "excused_at",
        "given_up",
        "marks",
        "queue",
        "sent",
        "skipped",
        "skipped_bytes",
    )

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.queue: deque[tuple[Batch, Transit]] = deque()
        self.blocked_since: float | None = None
        self.excused_at = 0.0
        self.given_up = False
        self.marks: deque[tuple[int, int]] = deque()  # (offset, messages sent from there on)
        self.skipped = 0
        self.skipped_bytes = 0


class _Incoming:
    """What one peer has sent of one topic, and how much of it is consumed."""

    __slots__ = ("consumed", "granted", "peer", "received")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.received = 0
        self.consumed = 0
        self.granted = 0


class Flow:
    """The credit accounts of one node. Pure: the driver sends what the methods return."""

    def __init__(self, window: int, patience: float) -> None:
        self._window = window
        self._told: dict[Id, int] = {}
        """The windows of linked peers that have a smaller one."""
        self._patience = patience
        self._outgoing: dict[tuple[Id, Id], _Outgoing] = {}
        self._incoming: dict[Id, dict[Id, _Incoming]] = {}
        self._blocked: dict[tuple[Id, Id], None] = {}
        self.released: list[Transit] = []
        """Transits that no sink holds any more; the driver takes them."""
        self.skipped = 0
        """Messages dropped because a child was too slow."""
        self.given_up: list[tuple[Id, Batch, str]] | None = None
        """Every batch that was dropped, for whom and why, if somebody wants to know: who set the list takes
        from it."""

    # --- sending ---

    def offer(
        self, peer: Peer, batch: Batch, flow: str, transit: Transit, now: float
    ) -> list[Sendable]:
        """A batch for a peer: what may be sent now."""
        key = (peer.id, batch.topic)
        account = self._outgoing.get(key)
        if account is None:
            account = self._outgoing[key] = _Outgoing()
        if not account.queue and self._has_room(account, peer):
            return self._send(account, batch)
        due = self._due(account)
        if flow == "lossy" or (
            flow == "patient" and (account.given_up or (due is not None and now >= due))
        ):
            self._skip(account, batch, peer.id)
            transit.skipped += 1
            return []
        transit.pending += 1
        transit.waiting += 1
        account.queue.append((batch, transit))
        if account.blocked_since is None:
            account.blocked_since = now
        if flow == "patient":
            self._blocked[key] = None
        return []

    def credited(self, peer: Peer, topic: Id, total: int, now: float) -> list[Sendable]:
        """The peer has consumed ``total`` bytes of the topic since the link opened."""
        account = self._outgoing.get((peer.id, topic))
        if account is None or not account.acknowledged <= total <= account.sent:
            return []
        progressed = total > account.acknowledged
        account.acknowledged = total
        while len(account.marks) > 1 and account.marks[1][0] <= total:
            account.marks.popleft()
        ready: list[Sendable] = []
        while account.queue and self._has_room(account, peer):
            batch, transit = account.queue.popleft()
            ready += self._send(account, batch)
            self._end_wait(transit)
        if not account.queue and self._has_room(account, peer):
            account.blocked_since = None
            account.given_up = False
            self._blocked.pop((peer.id, topic), None)
        elif progressed:
            account.blocked_since = account.excused_at = now
        else:
            account.excused_at = now
        if account.skipped and not account.queue:
            ready.append(self._announcement(account, topic))
        return ready

    def _has_room(self, account: _Outgoing, peer: Peer) -> bool:
        return account.sent - account.acknowledged < self._told.get(peer.id, self._window)

    def _due(self, account: _Outgoing) -> float | None:
        """When patience with a blocked peer ends."""
        since = account.blocked_since
        if since is None:
            return None
        excused = max(since, account.excused_at) + self._patience
        return min(excused, since + MAX_PATIENCE * self._patience)

    def expire(self, now: float) -> float | None:
        """Drop what patient topics have waited for too long; when to call again."""
        later: float | None = None
        for key in list(self._blocked):
            account = self._outgoing[key]
            due = self._due(account)
            if due is None:
                del self._blocked[key]
            elif now >= due:
                del self._blocked[key]
                self._give_up(account, key[0])
            else:
                later = min(later or float("inf"), due)
        return later

    def deadline(self) -> float | None:
        """When ``expire`` has something to do."""
        due = [self._due(self._outgoing[key]) for key in self._blocked]
        times = [when for when in due if when is not None]
        return min(times) if times else None

    def waits(self, topic: Id, peers: Iterable[Peer]) -> bool:
        """Whether a batch of this topic waits for credit of one of these peers."""
        for peer in peers:
            account = self._outgoing.get((peer.id, topic))
            if account is not None and account.queue:
                return True
        return False

    def queued(self) -> int:
        """Bytes waiting for credit, over all links."""
        return sum(b.size for account in self._outgoing.values() for b, _ in account.queue)

    def _send(self, account: _Outgoing, batch: Batch) -> list[Sendable]:
        messages = batch.count if batch.chunk == 0 else 0
        if account.marks and account.sent - account.marks[-1][0] < self._window // MARKS:
            offset, earlier = account.marks[-1]
            account.marks[-1] = (offset, earlier + messages)
        else:
            account.marks.append((account.sent, messages))
        account.sent += batch.size
        if not account.skipped:
            return [batch]
        return [self._announcement(account, batch.topic), batch]

    @staticmethod
    def _announcement(account: _Outgoing, topic: Id) -> Skipped:
        skipped = Skipped(topic, account.skipped, account.skipped_bytes)
        account.skipped = account.skipped_bytes = 0
        return skipped

    def _skip(self, account: _Outgoing, batch: Batch, peer: Id) -> None:
        if self.given_up is not None:
            self.given_up.append((peer, batch, SLOW_CHILD))
        messages = batch.count if batch.chunk == 0 else 0
        account.skipped += messages
        account.skipped_bytes += batch.size
        self.skipped += messages

    def _give_up(self, account: _Outgoing, peer: Id) -> None:
        account.given_up = True
        while account.queue:
            batch, transit = account.queue.popleft()
            self._skip(account, batch, peer)
            transit.skipped += 1
            self._end_wait(transit)

    # --- receiving ---

    def received(self, peer: Peer, batch: Batch) -> Transit | None:
        """A batch arrived; None if the peer had no credit for it."""
        topics = self._incoming.setdefault(peer.id, {})
        account = topics.get(batch.topic)
        if account is None:
            if len(topics) >= MAX_TOPICS:
                return None
            account = topics[batch.topic] = _Incoming(peer)
        held = account.received - account.consumed
        account.received += batch.size
        # The sender may overshoot by one batch; twice the window is no accident.
        if held >= 2 * self._window:
            account.consumed += batch.size
            return None
        return Transit(peer, batch.topic, batch.size, account)

    def consumed(self, transit: Transit) -> Credit | None:
        """Nothing holds the batch any more: the credit to send to its sender, if it is time."""
        account, transit.account = transit.account, None
        if account is None or transit.peer is None:
            return None
        if self._incoming.get(transit.peer.id, {}).get(transit.topic) is not account:
            return None  # it came on a link that is gone; the new one counts from zero
        account.consumed += transit.size
        return self._grant(account, transit.topic)

    def _grant(self, account: _Incoming, topic: Id) -> Credit | None:
        """Credit, if enough is consumed to be worth a message."""
        window = self._told.get(account.peer.id, self._window)
        if account.consumed - account.granted < max(1, window // GRANT_SHARE):
            return None
        account.granted = account.consumed
        return Credit(topic, account.consumed)

    def refreshes(self) -> list[tuple[Peer, Credit]]:
        """What to tell the senders of batches that are still held here: nothing granted, but alive."""
        told: list[tuple[Peer, Credit]] = []
        for topics in self._incoming.values():
            for topic, account in topics.items():
                if account.received > account.consumed:
                    account.granted = account.consumed
                    told.append((account.peer, Credit(topic, account.consumed)))
        return told

    def let_go(self, transit: Transit) -> None:
        """A sink does not hold the batch any more."""
        transit.pending -= 1
        if transit.pending == 0:
            self.released.append(transit)

    def _end_wait(self, transit: Transit) -> None:
        transit.waiting -= 1
        self.let_go(transit)
        if transit.waiting == 0:
            transit.left()

    # --- links ---

    def told(self, peer: Peer, window: Window) -> list[Credit]:
        """The peer has said its window; the credit that is due if it is the smaller one."""
        if not 0 < window.bytes < self._window:
            return []
        self._told[peer.id] = window.bytes
        topics = self._incoming.get(peer.id, {})
        due = [self._grant(account, topic) for topic, account in topics.items()]
        return [credit for credit in due if credit is not None]

    def reset(self, peer: Peer, now: float) -> list[Sendable]:
        """A fresh link, where there was none since ``drop``: both sides count from zero."""
        self._incoming.pop(peer.id, None)
        ready: list[Sendable] = []
        for key in [key for key in self._outgoing if key[0] == peer.id]:
            account = self._outgoing[key]
            # ``drop`` ended the old link's accounts: what is counted here waited for this link.
            ready += self.credited(peer, key[1], account.acknowledged, now)
        return ready

    def unconfirmed(self, peer: Peer) -> int:
        """Messages sent on a link that nobody has confirmed; an upper bound, exact to a mark."""
        accounts = [account for key, account in self._outgoing.items() if key[0] == peer.id]
        return sum(
            messages
            for account in accounts
            if account.acknowledged < account.sent
            for _, messages in account.marks
        )

    def drop(self, peer: Peer) -> int:
        """The link is gone: how many messages waited for its credit and are lost."""
        lost = 0
        for key in [key for key in self._outgoing if key[0] == peer.id]:
            account = self._outgoing.pop(key)
            self._blocked.pop(key, None)
            for batch, transit in account.queue:
                lost += batch.count if batch.chunk == 0 else 0
                if self.given_up is not None:
                    self.given_up.append((peer.id, batch, LOST_WAITING))
                transit.skipped += 1
                self._end_wait(transit)
        self._incoming.pop(peer.id, None)
        self._told.pop(peer.id, None)
        return lost
