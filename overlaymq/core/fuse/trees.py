"""Trees: the ways of a group's members to its root, as far as they lead through this node.

A node keeps, for each member whose ``Install`` it has passed on, the hop before and the hop after; its
neighbours in the tree are all of these. Only the newest sequence number counts: an ``Install`` with a
larger one replaces the tree, older ones are ended. What the former neighbours still watch gets old by
itself.

Pastry may send a message off a second time, by another way, when its acknowledgement is late: the hop after
is then another one. If the first did get it, the two will disagree, and the tree is broken and repaired. So
two copies may come to a node. It believes the shorter way: the hop before is always nearer to the member,
so no two nodes can be each other's, and believe in a tree that has neither a member nor a root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.fuse.state import Rooted
from overlaymq.messages import FuseKey, FuseSoft

if TYPE_CHECKING:
    from overlaymq.core.fuse.state import State
    from overlaymq.ids import Id
    from overlaymq.messages import FuseInstall, Peer


class Tree:
    """``before`` and ``after``: the hops of each member's way; ``depths``: how long it is up to here."""

    __slots__ = ("after", "before", "depths", "key")

    def __init__(self, key: FuseKey) -> None:
        self.key = key
        self.before: dict[Id, Peer] = {}
        self.after: dict[Id, Peer] = {}
        self.depths: dict[Id, int] = {}

    def neighbours(self) -> dict[Id, Peer]:
        """All hops, once."""
        hops = (*self.before.values(), *self.after.values())
        return {peer.id: peer for peer in hops}


class Trees:
    """See the module's text."""

    __slots__ = ("_state", "_trees")

    def __init__(self, state: State) -> None:
        self._state = state
        self._trees: dict[Id, Tree] = {}

    def __len__(self) -> int:
        return len(self._trees)

    def has_way(self, key: FuseKey) -> bool:
        """Whether this member's own way has left this node."""
        tree = self._trees.get(key.group)
        return tree is not None and tree.key == key and self._state.me.id in tree.after

    # --- installing --------------------------------------------------------------------------------

    def passes(self, body: FuseInstall, next_hop: Peer) -> tuple[FuseInstall | None, Peer]:
        """An ``Install`` leaves this node: what goes on, and where to. None: it ends here."""
        state = self._state
        again = body.via.id == state.me.id
        if again and not self._may_leave(body):
            return None, next_hop
        depth = body.depth + (not again)
        if depth + 1 >= state.config.max_hops:
            next_hop = body.root
        tree = self._for(body)
        if tree is None:
            return None, next_hop
        placed = again or self._place_before(tree, body)
        if not placed or not self._place(tree, tree.after, body.member, next_hop):
            self.broken(tree.key, None)
            return None, next_hop
        return msgspec.structs.replace(body, via=state.me, depth=depth), next_hop

    def arrives(self, body: FuseInstall) -> bool:
        """An ``Install`` is at its root."""
        tree = self._for(body)
        if tree is None:
            return False
        if self._place(tree, tree.before, body.member, body.via):
            return True
        self.broken(tree.key, None)
        return False

    def _may_leave(self, body: FuseInstall) -> bool:
        """This node's own way, unless another is wanted now; or one that takes another hop after all."""
        if body.member != self._state.me.id:
            tree = self._trees.get(body.group)
            return tree is not None and tree.key.seq == body.seq and body.member in tree.before
        group = self._state.groups.get(body.group)
        return group is not None and group.seq == body.seq and group.broken_at is None

    def _place_before(self, tree: Tree, body: FuseInstall) -> bool:
        if body.depth > tree.depths.get(body.member, body.depth):
            return False
        tree.depths[body.member] = body.depth
        return self._place(tree, tree.before, body.member, body.via)

    def _for(self, body: FuseInstall) -> Tree | None:
        state = self._state
        tree = self._trees.get(body.group)
        if tree is not None and tree.key.seq < body.seq:
            self._replaced(tree)
            tree = None
        if tree is None:
            if len(self._trees) >= state.config.max_groups:
                self._refuse(body, "too many trees")
                return None
            tree = self._trees[body.group] = Tree(FuseKey(body.group, body.seq))
        if tree.key.seq > body.seq:
            return None
        ways = tree.before if body.via.id != state.me.id else tree.after
        if body.member not in ways and len(ways) >= state.config.max_members:
            self._refuse(body, "too many ways of one group")
            return None
        return tree

    def _replaced(self, tree: Tree) -> None:
        """Others have been asked to repair already; if this is a member too, it should have been."""
        self.remove(tree.key.group)
        group = self._state.groups.get(tree.key.group)
        if group is not None and group.seq == tree.key.seq and not isinstance(group, Rooted):
            self._state.members.broken(group)

    def _refuse(self, body: FuseInstall, reason: str) -> None:
        self._state.drop(reason)
        if body.via.id != self._state.me.id:
            self._state.send(body.via, FuseSoft(body.group, body.seq))

    def _place(self, tree: Tree, side: dict[Id, Peer], member: Id, peer: Peer) -> bool:
        old = side.get(member)
        if peer.id == self._state.me.id or not self._state.edges.watch(peer, tree.key):
            return False
        if self._trees.get(tree.key.group) is not tree:  # the peer had another life in it
            return False
        side[member] = peer
        if old is not None and old.id not in tree.neighbours():
            self._state.edges.unwatch(old.id, tree.key.group)
        return True

    # --- breaking ----------------------------------------------------------------------------------

    def softened(self, peer: Peer, message: FuseSoft) -> None:
        """A neighbour's tree is broken."""
        tree = self._trees.get(message.group)
        if tree is not None and peer.id in tree.neighbours():
            self.broken(FuseKey(message.group, message.seq), peer.id)

    def broken(self, key: FuseKey, at: Id | None) -> None:
        """A tree is broken, seen from this peer's edge: tell the others, and see to the group."""
        tree = self._trees.get(key.group)
        if tree is None or tree.key != key:
            return
        self._soften(tree, at)
        group = self._state.groups.get(key.group)
        if group is None or group.seq != key.seq:
            return
        if isinstance(group, Rooted):
            self._state.roots.trouble(group)
        else:
            self._state.members.broken(group)

    def clear(self, group: Id) -> None:
        """A group is over: its tree is told."""
        tree = self._trees.get(group)
        if tree is not None:
            self._soften(tree, None)

    def outdate(self, key: FuseKey) -> None:
        """There will be a tree with this number: an older one ends, without a word."""
        tree = self._trees.get(key.group)
        if tree is not None and tree.key < key:
            self.remove(key.group)

    def remove(self, group: Id) -> None:
        """Without a word."""
        tree = self._trees.pop(group, None)
        if tree is not None:
            for peer in tree.neighbours():
                self._state.edges.unwatch(peer, group)

    def _soften(self, tree: Tree, at: Id | None) -> None:
        self.remove(tree.key.group)
        for peer in tree.neighbours().values():
            if peer.id != at:
                self._state.send(peer, FuseSoft(tree.key.group, tree.key.seq))
