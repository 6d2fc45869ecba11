"""FUSE, composed of its parts: one object that takes messages, commands and time, and yields effects.

The node hands it what is FUSE's (``receive``, ``forward``, ``deliver``, ``fired``) and calls ``gone`` and
``suspect`` with what the ring finds out. Pastry's leases let its digests ride (``digest``, ``heard``).
There is one timer, and only while there is anything to look after: a node without groups does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq import messages as m
from overlaymq.core.fuse.edges import Edges
from overlaymq.core.fuse.members import Members
from overlaymq.core.fuse.roots import Roots
from overlaymq.core.fuse.state import Rooted, State
from overlaymq.core.fuse.trees import Trees
from overlaymq.events import SetTimer, Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlaymq.config import FuseConfig
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.fuse.state import Group, Host
    from overlaymq.events import CreateGroup, SignalGroup
    from overlaymq.ids import Id
    from overlaymq.messages import FuseInstall, Message, Peer, Routed

PART = "fuse"


class FuseSnapshot(msgspec.Struct, frozen=True):
    """FUSE's state for trials and tests: tables, by how full they are."""

    rooted: int
    member: int
    trees: int
    edges: int
    busy: int
    farewells: int


class Fuse:
    """See the package's text."""

    __slots__ = ("_state", "_ticking")

    def __init__(self, me: Peer, config: FuseConfig, heartbeat_every: float, host: Host) -> None:
        self._state = state = State(me, config, host)
        state.edges = Edges(state, heartbeat_every)
        state.trees = Trees(state)
        state.members = Members(state)
        state.roots = Roots(state)
        self._ticking = False

    @property
    def kept(self) -> list[Peer]:
        """The peers whose links should stay open."""
        return self._state.edges.peers()

    def snapshot(self) -> FuseSnapshot:
        """What there is."""
        state = self._state
        rooted = sum(isinstance(group, Rooted) for group in state.groups.values())
        return FuseSnapshot(
            rooted=rooted,
            member=len(state.groups) - rooted,
            trees=len(state.trees),
            edges=len(state.edges),
            busy=len(state.busy),
            farewells=len(state.farewells),
        )

    def has(self, group: Id) -> bool:
        """Whether this node is a member of a group that has not failed as far as it knows."""
        return group in self._state.groups

    def unwatched(self) -> list[Id]:
        """Groups that this node believes in without evidence, and without an end to that: there are none."""
        state = self._state
        return [
            group.id
            for group in state.groups.values()
            if not isinstance(group, Rooted)
            and group.broken_at is None
            and group.installing_at is None
            and not state.trees.has_way(m.FuseKey(group.id, group.seq))
        ]

    # --- commands ----------------------------------------------------------------------------------

    def create(self, command: CreateGroup, now: float) -> Effects:
        """Make a group."""
        return self._step(now, lambda state: state.roots.create(command))

    def signal(self, command: SignalGroup, now: float) -> Effects:
        """Declare a group failed; one that is not known has failed already."""
        return self._step(now, lambda state: _signal(state, state.groups.get(command.group)))

    def leave(self, now: float) -> Effects:
        """This node leaves: none of its groups outlives it."""

        def all_fail(state: State) -> None:
            for group in list(state.groups.values()):
                _signal(state, group)

        return self._step(now, all_fail)

    # --- messages ----------------------------------------------------------------------------------

    def receive(self, peer: Peer, message: Message, now: float) -> Effects:
        """A message came straight from a peer."""
        return self._step(now, lambda state: HANDLERS[type(message)](state, peer, message))

    def forward(
        self, routed: Routed, body: FuseInstall, next_hop: Peer, now: float
    ) -> tuple[Routed, Peer | None, Effects]:
        """A member's way leads through this node."""
        passed: list[tuple[FuseInstall | None, Peer]] = []
        effects = self._step(now, lambda state: passed.append(state.trees.passes(body, next_hop)))
        onward, hop = passed[0]
        if onward is None:
            return routed, None, effects
        return msgspec.structs.replace(routed, body=onward), hop, effects

    def deliver(self, body: FuseInstall, now: float) -> Effects:
        """A member's way ends here."""

        def end(state: State) -> None:
            key = m.FuseKey(body.group, body.seq)
            if body.root.id == state.me.id:
                state.roots.installed(body)
            elif body.via.id == state.me.id:
                state.trees.broken(key, None)
            else:
                state.send(body.via, m.FuseSoft(*msgspec.structs.astuple(key)))

        return self._step(now, end)

    # --- the ring ----------------------------------------------------------------------------------

    def digest(self, peer: Id, now: float) -> int:
        """What a heartbeat to a peer carries."""
        return self._state.edges.digest(peer, now)

    def heard(self, peer: Peer, digest: int, now: float) -> Effects:
        """What a peer's heartbeat carried."""
        if not digest and not self._state.edges:
            return []
        return self._step(now, lambda state: state.edges.heard(peer, digest))

    def gone(self, peer: Peer, now: float) -> Effects:
        """A peer is dead."""
        return self._step(now, lambda state: state.edges.gone(peer))

    def suspect(self, peer: Peer, now: float) -> Effects:
        """A link broke."""
        return self._step(now, lambda state: state.edges.suspect(peer))

    # --- time --------------------------------------------------------------------------------------

    def fired(self, now: float) -> Effects:
        """The timer came back."""
        self._ticking = False
        return self._step(now, _tick)

    def _step(self, now: float, do: Callable[[State], Any]) -> Effects:
        state = self._state
        outer, state.effects, state.now = state.effects, [], now
        do(state)
        if not self._ticking and _has_work(state):
            self._ticking = True
            state.effects.append(SetTimer(Timer(PART), state.config.retry_every))
        effects, state.effects = state.effects, outer
        return effects


def misnames_its_hop(peer: Peer, message: Message) -> bool:
    """Whether a member's way comes from another node than it says: who believed it would watch an edge that
    its other end knows nothing of."""
    if not isinstance(message, m.Routed) or not isinstance(message.body, m.FuseInstall):
        return False
    return message.body.via != peer


def _has_work(state: State) -> bool:
    return bool(state.edges or state.busy or state.farewells or state.remembers)


def _tick(state: State) -> None:
    state.edges.tick()
    state.repeat_farewells()
    state.forget_ended()
    for id_ in list(state.busy):
        group = state.groups.get(id_)
        if isinstance(group, Rooted):
            state.roots.tick(group)
        elif group is not None:
            state.members.tick(group)


def _signal(state: State, group: Group | None) -> None:
    if isinstance(group, Rooted):
        state.roots.fail(group)
    elif group is not None:
        state.end(group, (group.root,))


def _failed(state: State, peer: Peer, message: m.FuseFailed) -> None:
    state.send(peer, m.FuseHeard(message.group))
    group = state.groups.get(message.group)
    if group is None:
        return
    if isinstance(group, Rooted) and peer.id in group.members:
        others = [other for other in group.members.values() if other.id != peer.id]
        state.end(group, others)
    elif peer.id == group.root.id:
        state.end(group, ())
    else:
        state.drop("failure told by a stranger")


# Keyed by the type that each handler takes: the checker cannot follow that, hence Any.
HANDLERS: dict[type, Callable[[State, Peer, Any], None]] = {
    m.FuseCreate: lambda s, peer, message: s.members.asked(peer, message),
    m.FuseCreated: lambda s, peer, message: s.roots.answered(peer, message),
    m.FuseInstall: lambda s, peer, message: s.drop("an install that is not routed"),
    m.FuseBroken: lambda s, peer, message: s.roots.told_broken(peer, message),
    m.FuseRepair: lambda s, peer, message: s.members.asked_to_repair(peer, message),
    m.FuseRepaired: lambda s, peer, message: s.roots.repaired(peer, message),
    m.FuseSoft: lambda s, peer, message: s.trees.softened(peer, message),
    m.FuseFailed: _failed,
    m.FuseHeard: lambda s, peer, message: s.heard_farewell(peer, message.group),
    m.FusePing: lambda s, peer, message: s.edges.pinged(peer, message),
    m.FuseList: lambda s, peer, message: s.edges.listed(peer, message),
}
MESSAGES = tuple(HANDLERS)
