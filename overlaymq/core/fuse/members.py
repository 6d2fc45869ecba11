"""What a member does that is not the root: agree, install its way, ask for repair, and give up in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.fuse.bounds import repair_wait
from overlaymq.core.fuse.state import Group
from overlaymq.messages import FuseBroken, FuseCreated, FuseFailed, FuseKey, FuseRepaired

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Effects
    from overlaymq.core.fuse.state import State
    from overlaymq.messages import FuseCreate, FuseRepair, Peer


class Members:
    """See the module's text."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def asked(self, creator: Peer, message: FuseCreate) -> None:
        """A node makes a group over this one."""
        state = self._state
        known = state.groups.get(message.group)
        if known is not None:
            state.send(creator, FuseCreated(message.group, known.root == creator))
            return
        refusal = self._refusal(creator, message)
        if refusal:
            state.drop(refusal)
            state.send(creator, FuseCreated(message.group, False))
            return
        topic = message.topic or None
        effects: Effects = []
        if topic is not None:
            accepted, effects = state.host.group_asked(
                topic, message.group, creator, message.members, state.now
            )
            if not accepted:
                state.send(creator, FuseCreated(message.group, False))
                state.effects.extend(effects)
                return
        group = Group(message.group, creator, topic)
        state.add(group)
        state.send(creator, FuseCreated(message.group, True))
        state.install(group)
        state.effects.extend(effects)

    def _refusal(self, creator: Peer, message: FuseCreate) -> str:
        state = self._state
        if state.ended(message.group):
            return "a group that is over"
        if len(message.members) > state.config.max_members:
            return "too many members"
        if state.me not in message.members:
            return "a group over somebody else, or over an earlier life of this node"
        return "too many groups" if state.full(creator) else ""

    def broken(self, group: Group) -> None:
        """The way to the root is not watched any more."""
        state = self._state
        group.installing_at = None
        if group.broken_at is None:
            group.broken_at = state.now
            state.busy[group.id] = None
        state.send(group.root, FuseBroken(group.id, group.seq))

    def asked_to_repair(self, root: Peer, message: FuseRepair) -> None:
        """The root wants to know who is there."""
        state = self._state
        group = state.groups.get(message.group)
        if group is None:
            state.send(root, FuseFailed(message.group))
        elif group.root != root:
            state.drop("repair by a stranger")
        elif message.seq >= group.seq:
            state.send(root, FuseRepaired(message.group, message.seq))
            if message.seq > group.seq:
                group.seq = message.seq
                group.broken_at = None
                state.trees.outdate(FuseKey(group.id, group.seq))
                state.install(group)

    def tick(self, group: Group) -> None:
        """Look after a group that is not well."""
        state = self._state
        if group.broken_at is not None:
            if state.due(group.broken_at, repair_wait(state.config)):
                state.end(group, (group.root,))
            else:
                state.send(group.root, FuseBroken(group.id, group.seq))
        elif group.installing_at is None or state.trees.has_way(FuseKey(group.id, group.seq)):
            group.installing_at = None
            del state.busy[group.id]
        elif state.due(group.installing_at, state.config.edge_timeout):
            self.broken(group)
