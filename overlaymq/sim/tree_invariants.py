"""What must hold of a topic's tree when the network is at rest, each thing under a name.

All of it is seen by looking at every node at once, so these are checks of a simulated network, made between
its events. While nodes join, move or fail, a tree may be in pieces and a node may have two parents for a
moment; at rest nothing of that may be left. Each check returns a sentence for everything it finds wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlaymq.core.dissemination.scribe import Scribe
from overlaymq.ids import rank, short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overlaymq.core.node import Node
    from overlaymq.ids import Id

PARTICIPANTS = ("subscriber", "volunteer", "root")
"""Who may forward content of SV topics: the judges' own list, which the core cannot bend."""


class TreeView:
    """A topic's tree as its live nodes see it, every node from its own side."""

    def __init__(self, nodes: Mapping[Id, Node], topic: Id) -> None:
        self.topic = topic
        self.root: Id | None = None
        self.parents: dict[Id, Id] = {}
        self.children: dict[Id, tuple[Id, ...]] = {}
        self.paths: dict[Id, tuple[Id, ...]] = {}
        self.members: list[Id] = []
        for id_ in sorted(nodes):
            strategy = nodes[id_].strategy(topic)
            if not isinstance(strategy, Scribe):
                continue
            if self.root is None:
                key = strategy.descriptor.key
                self.root = min(nodes, key=lambda one: rank(key, one))
            if strategy.parent is not None:
                self.parents[id_] = strategy.parent.id
            self.children[id_] = tuple([child.id for child in strategy.children])
            self.paths[id_] = strategy.path
            if strategy.member:
                self.members.append(id_)

    def reached(self) -> list[Id]:
        """Whom a batch reaches, as often as it does, if nobody drops copies; at most once below each node."""
        if self.root is None:
            return []
        met = [self.root]
        expanded = set()
        for id_ in met:
            if id_ not in expanded:
                expanded.add(id_)
                met += self.children.get(id_, ())
        return met

    def ancestors(self, id_: Id) -> list[Id]:
        """The way up from a node, the node first; it ends before it repeats itself."""
        way = [id_]
        while way[-1] in self.parents and self.parents[way[-1]] not in way:
            way.append(self.parents[way[-1]])
        return way


def tree_is_acyclic(view: TreeView) -> list[str]:
    """Nobody is above itself, upwards or downwards."""
    found = []
    for id_ in view.parents:
        top = view.ancestors(id_)[-1]
        if top in view.parents:
            found.append(f"{short(id_)} is below a circle through {short(top)}")
    state: dict[Id, bool] = {}
    """Whether a node that was met is on the way down to here."""
    for start in view.children:
        waiting = [(start, False)]
        while waiting:
            id_, done = waiting.pop()
            if done:
                state[id_] = False
            elif state.get(id_):
                found.append(f"{short(id_)} is fed by a node below it")
            elif id_ not in state:
                state[id_] = True
                waiting.append((id_, True))
                waiting += [(child, False) for child in view.children.get(id_, ())]
    return found


def every_member_is_reached_once(view: TreeView) -> list[str]:
    """By one way from the root."""
    met = view.reached()
    times = {id_: met.count(id_) for id_ in dict.fromkeys(met)} if len(set(met)) < len(met) else {}
    found = [f"{short(id_)} is reached {count} times" for id_, count in times.items() if count > 1]
    reached = set(met)
    found += [f"member {short(id_)} is not reached" for id_ in view.members if id_ not in reached]
    return found


def no_subscriber_is_an_orphan(view: TreeView) -> list[str]:
    """The way up from every member ends at the owner of the key."""
    return [
        f"member {short(id_)} ends up at {short(top)}, not at the root"
        for id_ in view.members
        if (top := view.ancestors(id_)[-1]) != view.root
    ]


def parents_and_children_agree(view: TreeView) -> list[str]:
    """Each is in the table of its parent, and in no other."""
    found = []
    for id_, parent in view.parents.items():
        if id_ not in view.children.get(parent, ()):
            found.append(f"{short(id_)} is no child of its parent {short(parent)}")
    for id_, children in view.children.items():
        found += [
            f"{short(id_)} feeds {short(child)}, whose parent it is not"
            for child in children
            if view.parents.get(child) != id_
        ]
    return found


def paths_are_true(view: TreeView) -> list[str]:
    """The path that each node was told is the one it is on."""
    return [
        f"{short(id_)} was told a path that it is not on"
        for id_, path in view.paths.items()
        if (id_ in view.parents or id_ == view.root)
        and tuple(reversed(view.ancestors(id_))) != path
    ]


TREE_INVARIANTS: dict[str, Callable[[TreeView], list[str]]] = {
    check.__name__.replace("_", "-"): check
    for check in (
        tree_is_acyclic,
        every_member_is_reached_once,
        no_subscriber_is_an_orphan,
        parents_and_children_agree,
        paths_are_true,
    )
}


def broken(nodes: Mapping[Id, Node], topic: Id) -> list[str]:
    """Everything that is wrong with a tree, each with the invariant's name."""
    view = TreeView(nodes, topic)
    return [f"{name}: {text}" for name, check in TREE_INVARIANTS.items() for text in check(view)]
