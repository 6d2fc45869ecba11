"""What a root does: ask all members, when it makes a group and when its tree is broken, and see that their
ways arrive.

A group is being *asked* for, or *pauses* before it is asked for again, or neither. Creating is asking under
the sequence number 0. The first repair begins at once; those that follow it wait, twice as long each time, up
to ``backoff_max``, until there was none for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.fuse.bounds import install_wait
from overlaymq.core.fuse.state import Rooted
from overlaymq.ids import Id
from overlaymq.messages import FuseCreate, FuseFailed, FuseRepair, FuseSoft

if TYPE_CHECKING:
    from overlaymq.core.fuse.state import State
    from overlaymq.events import CreateGroup
    from overlaymq.messages import (
        FuseBroken,
        FuseCreated,
        FuseInstall,
        FuseRepaired,
        Message,
        Peer,
    )

CALM = 10
"""So many of the longest pauses without a repair, and the next begins at once: a guess."""


class Roots:
    """See the module's text."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    # --- creating ----------------------------------------------------------------------------------

    def create(self, command: CreateGroup) -> None:
        """Ask all members."""
        state = self._state
        if command.group in state.groups or state.ended(command.group):
            state.drop("a group's id is used again")
            return
        others = {peer.id: peer for peer in command.members if peer.id != state.me.id}
        if len(others) >= state.config.max_members:
            state.refuse(command.group, command.topic, "too many members")
            return
        if state.full(state.me):
            state.refuse(command.group, command.topic, "too many groups")
            return
        group = Rooted(command.group, state.me, command.topic, others)
        state.add(group)
        self._ask(group)

    def answered(self, member: Peer, message: FuseCreated) -> None:
        """A member agrees, or does not."""
        group = self._of(member, message.group)
        if group is None or group.seq or member.id not in group.asking:
            return
        if message.accepted:
            self._has_answered(group, member.id)
        else:
            self.fail(group)

    # --- repairing ---------------------------------------------------------------------------------

    def told_broken(self, member: Peer, message: FuseBroken) -> None:
        """A member's way is not watched any more."""
        group = self._of(member, message.group)
        if group is None:
            if message.group not in self._state.groups:
                self._state.send(member, FuseFailed(message.group))
        elif message.seq == group.seq:
            self.trouble(group)

    def trouble(self, group: Rooted) -> None:
        """The tree is broken."""
        state = self._state
        if group.asking:
            group.again = True
            return
        if group.pause_until is not None:
            return
        config = state.config
        if state.now - group.repaired_at > CALM * config.backoff_max:
            group.repairs = 0
        group.repairs += 1
        if group.repairs == 1:
            self._repair(group)
            return
        doubled = config.retry_every * 2.0 ** min(group.repairs - 2, 16)
        group.pause_until = state.now + min(doubled, config.backoff_max)
        state.busy[group.id] = None

    def _repair(self, group: Rooted) -> None:
        state = self._state
        group.pause_until = None
        group.seq += 1
        group.repaired_at = state.now
        group.installed.clear()
        state.trees.remove(group.id)
        self._ask(group)

    def repaired(self, member: Peer, message: FuseRepaired) -> None:
        """A member is there."""
        group = self._of(member, message.group)
        if group is not None and group.seq == message.seq:
            self._has_answered(group, member.id)

    def installed(self, message: FuseInstall) -> None:
        """A member's way has arrived."""
        state = self._state
        group = state.groups.get(message.group)
        if not isinstance(group, Rooted) or message.member not in group.members:
            state.send(message.via, FuseSoft(message.group, message.seq))
        elif message.seq == group.seq and state.trees.arrives(message):
            group.installed[message.member] = None

    # --- asking ------------------------------------------------------------------------------------

    def _ask(self, group: Rooted) -> None:
        state = self._state
        group.again = False
        group.asking = dict(group.members)
        group.asked_at = state.now
        state.busy[group.id] = None
        question = self._question(group)
        for peer in group.asking.values():
            state.send(peer, question)
        if not group.asking:
            self._all_answered(group)

    def _question(self, group: Rooted) -> Message:
        if group.seq:
            return FuseRepair(group.id, group.seq)
        members = (*group.members.values(), self._state.me)
        return FuseCreate(group.id, members, group.topic or Id(0))

    def _has_answered(self, group: Rooted, member: Id) -> None:
        if group.asking.pop(member, None) is not None and not group.asking:
            self._all_answered(group)

    def _all_answered(self, group: Rooted) -> None:
        if not group.created:
            group.created = True
            self._state.created(group)
        if group.again:
            self.trouble(group)

    def fail(self, group: Rooted) -> None:
        """The group has failed: everybody is told."""
        self._state.end(group, tuple(group.members.values()))

    def _of(self, member: Peer, group: Id) -> Rooted | None:
        known = self._state.groups.get(group)
        if isinstance(known, Rooted) and known.members.get(member.id) == member:
            return known
        return None

    def tick(self, group: Rooted) -> None:
        """Ask again, give up, begin a repair that has paused, or see that a way is missing."""
        state = self._state
        config = state.config
        if group.asking:
            if state.due(group.asked_at, config.answer_timeout):
                self.fail(group)
                return
            question = self._question(group)
            for peer in group.asking.values():
                state.send(peer, question)
        elif group.pause_until is not None:
            if state.due(group.pause_until, 0.0):
                self._repair(group)
        elif len(group.installed) == len(group.members):
            del state.busy[group.id]
        elif state.due(group.asked_at, install_wait(config)):
            self.trouble(group)
