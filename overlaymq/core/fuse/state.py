"""What the parts of FUSE share: the groups, those that are over, and the effects being built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from overlaymq.events import Dropped, GroupCreated, GroupFailed, Notify, Route, Send
from overlaymq.messages import FuseFailed, FuseInstall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.config import FuseConfig
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.fuse.edges import Edges
    from overlaymq.core.fuse.members import Members
    from overlaymq.core.fuse.roots import Roots
    from overlaymq.core.fuse.trees import Trees
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer

ENDED_KEPT = 4096
"""Groups that are over and remembered as such: a guess."""


class Host(Protocol):
    """The node, which knows the topics' strategies."""

    def group_asked(
        self, topic: Id, group: Id, creator: Peer, members: tuple[Peer, ...], now: float
    ) -> tuple[bool, Effects]:
        """Whether a topic takes part in a group."""

    def group_created(self, topic: Id, group: Id, now: float) -> Effects:
        """A topic's group exists."""

    def group_failed(self, topic: Id, group: Id, now: float) -> Effects:
        """A topic's group has failed."""


class Group:
    """A group that this node is a member of. ``broken_at``: since when its tree is broken;
    ``installing_at``: since when its way is being installed, until that has left this node."""

    __slots__ = ("broken_at", "id", "installing_at", "root", "seq", "topic")

    def __init__(self, id_: Id, root: Peer, topic: Id | None) -> None:
        self.id = id_
        self.root = root
        self.topic = topic
        self.seq = 0
        self.broken_at: float | None = None
        self.installing_at: float | None = None


class Rooted(Group):
    """A group that this node has made. ``asking``: who has not answered since ``asked_at``; ``installed``:
    whose way has come here; ``again``: it is to be repaired as soon as nobody is asked any more."""

    __slots__ = (
        *("again", "asked_at", "asking", "created", "installed", "members", "pause_until"),
        *("repaired_at", "repairs"),
    )

    def __init__(self, id_: Id, me: Peer, topic: Id | None, members: dict[Id, Peer]) -> None:
        super().__init__(id_, me, topic)
        self.members = members
        self.asking: dict[Id, Peer] = {}
        self.asked_at = 0.0
        self.installed: dict[Id, None] = {}
        self.created = False
        self.again = False
        self.pause_until: float | None = None
        self.repairs = 0
        self.repaired_at = 0.0


class Farewell:
    """A hard notice that somebody has not acknowledged."""

    __slots__ = ("since", "to")

    def __init__(self, to: dict[Id, Peer], since: float) -> None:
        self.to = to
        self.since = since


class State:
    """See the module's text. ``busy``: the groups to look at when time passes; steady ones are not."""

    __slots__ = (
        *(
            "_ended",
            "_made_by",
            "busy",
            "config",
            "edges",
            "effects",
            "farewells",
            "groups",
            "host",
        ),
        *("me", "members", "now", "roots", "trees"),
    )

    edges: Edges
    trees: Trees
    members: Members
    roots: Roots

    def __init__(self, me: Peer, config: FuseConfig, host: Host) -> None:
        self.me = me
        self.config = config
        self.host = host
        self.now = 0.0
        self.effects: Effects = []
        self.groups: dict[Id, Group] = {}
        self.busy: dict[Id, None] = {}
        self.farewells: dict[Id, Farewell] = {}
        self._ended: dict[Id, float] = {}
        self._made_by: dict[Id, int] = {}

    # --- effects -----------------------------------------------------------------------------------

    def send(self, peer: Peer, message: Message) -> None:
        """Give a message to a peer."""
        self.effects.append(Send(peer, message))

    def drop(self, reason: str) -> None:
        """Count what is discarded."""
        self.effects.append(Notify(Dropped(f"fuse: {reason}")))

    def install(self, group: Group) -> None:
        """Send this member's way to the root off."""
        group.installing_at = self.now
        self.busy[group.id] = None
        body = FuseInstall(group.id, group.seq, group.root, self.me.id, self.me)
        self.effects.append(Route(group.root.id, body))

    def due(self, since: float, limit: float) -> bool:
        """Whether a time will have passed before it is looked at again."""
        return self.now - since + self.config.retry_every > limit

    # --- groups ------------------------------------------------------------------------------------

    def full(self, maker: Peer) -> bool:
        """Whether there is no room for one more group that this peer makes."""
        mine = maker.id == self.me.id
        made = 0 if mine else self._made_by.get(maker.id, 0)
        return len(self.groups) >= self.config.max_groups or made >= self.config.groups_per_peer

    def add(self, group: Group) -> None:
        """A new group."""
        self.groups[group.id] = group
        self._made_by[group.root.id] = self._made_by.get(group.root.id, 0) + 1

    def ended(self, group: Id) -> bool:
        """Whether a group is over that somebody might still ask about."""
        return group in self._ended

    def created(self, group: Group) -> None:
        """Tell who asked for it."""
        if group.topic is None:
            self.effects.append(Notify(GroupCreated(group.id)))
        else:
            self.effects.extend(self.host.group_created(group.topic, group.id, self.now))

    def end(self, group: Group, tell: Iterable[Peer]) -> None:
        """A group has failed: forget it, so that nobody takes this node for a believer, and say so."""
        del self.groups[group.id]
        self.busy.pop(group.id, None)
        left = self._made_by[group.root.id] - 1
        if left:
            self._made_by[group.root.id] = left
        else:
            del self._made_by[group.root.id]
        self.remember_end(group.id)
        self.trees.clear(group.id)
        to = {peer.id: peer for peer in tell}
        for peer in to.values():
            self.send(peer, FuseFailed(group.id))
        if to:
            self._bid_farewell(group.id, to)
        self._tell_failed(group.id, group.topic)

    def refuse(self, group: Id, topic: Id | None, reason: str) -> None:
        """A group that this node asked for cannot be: that is its failure."""
        self.drop(reason)
        self._tell_failed(group, topic)

    def remember_end(self, group: Id) -> None:
        """A question that comes late must not bring it back."""
        self._ended[group] = self.now
        if len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def forget_ended(self) -> None:
        """Nobody asks for longer than A."""
        ended = self._ended
        while ended and self.now - ended[next(iter(ended))] > 2 * self.config.answer_timeout:
            del ended[next(iter(ended))]

    @property
    def remembers(self) -> bool:
        """Whether there is anything that time makes forget."""
        return bool(self._ended)

    def _tell_failed(self, group: Id, topic: Id | None) -> None:
        if topic is None:
            self.effects.append(Notify(GroupFailed(group)))
        else:
            self.effects.extend(self.host.group_failed(topic, group, self.now))

    def _bid_farewell(self, group: Id, to: dict[Id, Peer]) -> None:
        self.farewells[group] = Farewell(to, self.now)
        if len(self.farewells) > self.config.max_groups:
            del self.farewells[next(iter(self.farewells))]

    def repeat_farewells(self) -> None:
        """Say it again to who has not acknowledged it, for A seconds: then its tree must tell it."""
        for group, farewell in list(self.farewells.items()):
            if self.due(farewell.since, self.config.answer_timeout):
                del self.farewells[group]
                continue
            for peer in farewell.to.values():
                self.send(peer, FuseFailed(group))

    def heard_farewell(self, peer: Peer, group: Id) -> None:
        """A hard notice has arrived."""
        farewell = self.farewells.get(group)
        if farewell is not None:
            farewell.to.pop(peer.id, None)
            if not farewell.to:
                del self.farewells[group]
