"""What must hold of a whole network while it is being broken, each thing under a name.

*Territory*. An active node covers the keys that its own leaf set makes it the owner of: an interval around
its id that ends half-way to its nearest neighbour on each side, and on a side where it knows nobody, though
it knows of nodes elsewhere, at its own id. It always holds the node's id. Therefore two nodes cover one key
only if two *adjacent* active nodes do: the interval that reaches past a neighbour holds that neighbour's
id. So when a node changes, comparing it with the active nodes before and after it is a check of the whole
network, at the price of two comparisons. ``covering`` is the dumb twin that asks every node.

*Closest*. Each lookup must end at the closest of the nodes that are active at that moment (consistent
routing, MSPastry DSN 2004). A second delivery elsewhere is no fault if ownership moved meanwhile: the
acknowledgement of the first was lost. It is counted.

*Separated* nodes are those on different sides of a partition that lasts, or that ended so short a time ago
that the rings need not have merged. They may cover one key; two nodes of one side may not.

An invariant is a class with a name and a docstring; the run calls what it overrides. It reports findings,
and ``verdict`` decides which of them are violations, because that depends on whether a live node was
declared dead anywhere in the run (issue of the simulator, bar 4).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

import msgspec

from overlaymq.core.pastry.liveness import PROBES_KEPT, SPARES_KEPT
from overlaymq.core.pastry.state import ASKED_KEPT, FAILED_KEPT, MEASURING_KEPT
from overlaymq.ids import RING, Id, rank, short

if TYPE_CHECKING:
    from overlaymq.core.pastry import Pastry
    from overlaymq.sim.watched import WatchedNode
    from overlaymq.sim.workload import Trial

FINDINGS_KEPT = 50
"""Per invariant and run: one broken ring breaks the same thing over and over."""

OWNERSHIP = ("one-owner", "one-claim", "delivered-at-closest")
"""What a false declaration of death excuses (and the share of inconsistent deliveries bounds)."""


class Finding(msgspec.Struct, frozen=True):
    """An invariant did not hold at a time."""

    at: float
    invariant: str
    text: str


# --- territories -----------------------------------------------------------------------------------


def extents(pastry: Pastry) -> tuple[int, int]:
    """How many keys a node covers counter-clockwise and clockwise of its own id; (-1, -1): none at all."""
    if not pastry.active:
        return -1, -1
    state = pastry.state
    leaves = state.leaves
    members = leaves.members
    if not members:
        return (0, RING - 1) if state.whole_ring() else (0, 0)
    me = leaves.me.id
    # A key half-way between two nodes is the clockwise one's.
    before = ((me - members[-1].id) % RING) // 2
    after = ((members[0].id - me) % RING - 1) // 2
    covers_before = state.reach.covers(Id((me - 1) % RING))
    covers_after = state.reach.covers(Id((me + 1) % RING))
    return before if covers_before else 0, after if covers_after else 0


def answering(pastry: Pastry, now: float) -> tuple[int, int]:
    """As ``extents``, but only the keys that a node may answer for now: those under a lease.

    Found by asking the node, by bisection: on each side they are an interval that begins at its id. The id
    itself is among the clockwise ones, so (0, -1) is a node that may answer for nothing.
    """
    before, after = extents(pastry)
    if before < 0:
        return 0, -1
    me = pastry.me.id

    def owned(most: int, direction: int) -> int:
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            if pastry.owns(Id((me + direction * middle) % RING), now):
                low = middle
            else:
                high = middle
        return low

    return owned(before, -1), owned(after, 1) if pastry.owns(me, now) else -1


def both_own(low: WatchedNode, high: WatchedNode) -> int:
    """How many keys two nodes may both answer for now, as far as they lie clockwise of the first."""
    if not may_clash(low, high) or not may_clash(high, low, -1):
        return 0
    before, after = answering(low.pastry, low.clock())
    back, beyond = answering(high.pastry, high.clock())
    between = (high.pastry.me.id - low.pastry.me.id) % RING
    # By offsets from the first: it has [-before, after], the second [between - back, between + beyond].
    ahead = min(after, between + beyond) - max(0, between - back) + 1
    behind = min(before, back - between)
    return max(ahead, 0) + max(behind, 0)


def may_clash(near: WatchedNode, far: WatchedNode, direction: int = 1) -> bool:
    """Whether a node may answer for a key that is in its range and in another's, clockwise (1) or not (-1).

    What it may answer for begins at its id on each side: so it is enough to ask about the keys of the
    overlap that are nearest to it.
    """
    me = near.pastry.me.id
    between = ((far.pastry.me.id - me) * direction) % RING
    first = max(between - far.extent[0 if direction > 0 else 1], -1)
    nearest = [first] if first > 0 else [-1, 0, 1]
    now = near.clock()
    return any(near.pastry.owns(Id((me + direction * offset) % RING), now) for offset in nearest)


def overlapping(active: list[WatchedNode]) -> list[tuple[WatchedNode, WatchedNode]]:
    """All pairs of nodes, in ring order, whose ranges overlap clockwise from the first to the second."""
    pairs = []
    count = len(active)
    for index, low in enumerate(active):
        for step in range(1, count):
            high = active[(index + step) % count]
            if gap(low, high) >= 0:
                break
            pairs.append((low, high))
    return pairs


def adjacent(trial: Trial, node: WatchedNode) -> list[tuple[WatchedNode, WatchedNode]]:
    """A node paired with the active nodes before and after it on its side."""
    if node.extent[0] < 0:
        return []
    ids = trial.with_(node)
    if len(ids) < 2:
        return []
    index = bisect_left(ids, node.pastry.me.id)
    nodes = trial.census.nodes
    before, after = nodes[ids[index - 1]], nodes[ids[(index + 1) % len(ids)]]
    return [(before, node), (node, after)]


def covering(nodes: list[WatchedNode], key: Id) -> list[Id]:
    """The dumb twin of ranges: ask every node whether it is active and owner of the key."""
    return [
        node.pastry.me.id
        for node in nodes
        if node.pastry.active and node.pastry.owner(key) is node.pastry.me
    ]


def answering_for(nodes: list[WatchedNode], key: Id) -> list[Id]:
    """The dumb twin of leases: ask every node whether it may answer for the key now."""
    return [node.pastry.me.id for node in nodes if node.pastry.owns(key, node.clock())]


class Census:
    """The active nodes in ring order, and what each covers."""

    def __init__(self) -> None:
        self.active: list[Id] = []
        self.nodes: dict[Id, WatchedNode] = {}

    def enter(self, node: WatchedNode) -> None:
        """A node has become active."""
        id_ = node.pastry.me.id
        if id_ not in self.nodes:
            insort(self.active, id_)
        self.nodes[id_] = node

    def depart(self, node: WatchedNode) -> None:
        """A node has crashed, left, or is not active any more."""
        id_ = node.pastry.me.id
        if self.nodes.get(id_) is node:
            del self.nodes[id_]
            del self.active[bisect_left(self.active, id_)]

    def closest(self, key: Id, ids: list[Id]) -> WatchedNode | None:
        """Which of these active nodes, in ring order, should own a key."""
        if not ids:
            return None
        index = bisect_left(ids, key)
        pair = ids[index - 1], ids[index % len(ids)]
        return self.nodes[min(pair, key=lambda id_: rank(key, id_))]


def gap(low: WatchedNode, high: WatchedNode) -> int:
    """How many keys lie between what two adjacent nodes cover; negative: both cover so many."""
    between = (high.pastry.me.id - low.pastry.me.id) % RING
    return between - 1 - low.extent[1] - high.extent[0]


# --- invariants ------------------------------------------------------------------------------------


class Invariant:
    """Overrides what it needs. ``trial`` is the run that it watches."""

    name = ""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    def changed(self, node: WatchedNode) -> None:
        """A node covers other keys than before."""

    def handled(self, node: WatchedNode) -> None:
        """A node has taken an input."""

    def delivered(self, node: WatchedNode, request: int, key: Id) -> None:
        """A lookup has ended at a node."""

    def tick(self) -> None:
        """Some seconds have passed."""

    def end(self) -> None:
        """The run is over, and quiet has had its time."""

    def found(self, text: str) -> None:
        """Report it."""
        self.trial.found(self.name, text)


class OneClaim(Invariant):
    """Never do the leaf sets of two active live nodes that are not separated make both owner of one key.

    Stricter than ``one-owner``: it holds without leases, as long as no live node is declared dead.
    """

    name = "one-claim"

    def changed(self, node: WatchedNode) -> None:
        """Compare with the active nodes around."""
        for low, high in adjacent(self.trial, node):
            shared = -gap(low, high)
            if shared > 0:
                share = f"{shared / RING:.2e} of the ring"
                self.found(f"the leaf sets of {low.label} and {high.label} both cover {share}")


class OneOwner(Invariant):
    """Never may two active live nodes that are not separated both answer for one key now.

    Who may answer has it in its range and under a lease, and leases run out by themselves: so an overlap
    begins only with an input of one of the two. Only where ranges overlap are leases looked at.
    """

    name = "one-owner"

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.contested: list[tuple[WatchedNode, WatchedNode]] = []
        self.involved: set[Id] = set()
        self.reported: set[tuple[Id, Id]] = set()
        """Pairs that need no second look before the next tick or change of a range."""

    def changed(self, node: WatchedNode) -> None:
        """See whose ranges overlap now."""
        if self.contested or any(gap(*pair) < 0 for pair in adjacent(self.trial, node)):
            self._sweep()

    def tick(self) -> None:
        """Once more: nodes may be separated no longer."""
        self._sweep()

    def handled(self, node: WatchedNode) -> None:
        """Look at the leases of a node whose range overlaps another's."""
        if self.contested and node.pastry.me.id in self.involved:
            for low, high in self.contested:
                pair = low.pastry.me.id, high.pastry.me.id
                if (node is low or node is high) and pair not in self.reported:
                    self._compare(low, high)

    def _sweep(self) -> None:
        trial = self.trial
        active = [trial.census.nodes[id_] for id_ in trial.census.active]
        before = len(self.contested)
        self.contested = [
            pair for pair in overlapping(active) if not trial.separated(*[n.number for n in pair])
        ]
        self.involved = {node.pastry.me.id for pair in self.contested for node in pair}
        self.reported = set()
        if self.contested and not before:
            trial.count("disagreements")
        for low, high in self.contested:
            self._compare(low, high)

    def _compare(self, low: WatchedNode, high: WatchedNode) -> None:
        shared = both_own(low, high)
        if shared:
            self.reported.add((low.pastry.me.id, high.pastry.me.id))
            self.found(
                f"{low.label} and {high.label} both answer for {shared / RING:.2e} of the ring"
            )


class DeliveredAtClosest(Invariant):
    """Each lookup is delivered at the closest node on its side that may answer, once by that life of it.

    A node whose lease has run out does not answer, whether it has crashed or stalls, and its neighbour takes
    its keys. Such deliveries are counted apart, as taken over.
    """

    name = "delivered-at-closest"

    def delivered(self, node: WatchedNode, request: int, key: Id) -> None:
        """Compare with all active nodes."""
        trial = self.trial
        closest = trial.closest(node, key)
        if closest is not None and closest is not node:
            if closest.pastry.owns(key, closest.clock()):
                trial.count("inconsistent")
                self.found(
                    f"lookup {request} of {short(key)} at {node.label}, not at {closest.label}"
                )
            else:
                trial.count("taken over")
        if closest is not node or trial.census.closest(key, trial.census.active) is not node:
            self._contested(node, key)
        if trial.deliveries_at(request, node) > 1:
            self.found(f"lookup {request} twice at {node.label}")

    def _contested(self, node: WatchedNode, key: Id) -> None:
        others = [other for other in self.trial.live() if other is not node]
        if answering_for(others, key):
            self.trial.count("contested")


class NoSilentLoss(Invariant):
    """A lookup that was not delivered is with a node that went, still on its way, or in a counted drop.

    Who has a lookup is followed through acceptances and acknowledgements (``watched.Custody``). A live node
    that no longer has what it never handed on must have counted at least so many dropped messages.
    """

    name = "no-silent-loss"

    def end(self) -> None:
        """Account for every lookup."""
        trial = self.trial
        for node, requests in trial.custody.account(trial):
            self.found(
                f"{node.label} lost lookups {requests[:5]} and counted {node.routed_drops} drops"
            )


class ExactWhenQuiet(Invariant):
    """After the faults and the stated time, every live node is active, leaf sets are exact, views mutual,
    and each key has exactly one owner."""

    name = "exact-when-quiet"

    def end(self) -> None:
        """Look at everybody."""
        trial = self.trial
        idle = [node.label for node in trial.live() if not node.pastry.active]
        if idle:
            self.found(f"{len(idle)} live nodes are not active: {', '.join(idle[:5])}")
        active = trial.census.active
        half = trial.config.leaf_set_size // 2
        wrong = [
            id_
            for index, id_ in enumerate(active)
            if trial.census.nodes[id_].pastry.kept != around(active, index, half)
        ]
        if wrong:
            labels = [trial.census.nodes[id_].label for id_ in wrong[:5]]
            self.found(
                f"{len(wrong)} of {len(active)} leaf sets are not exact: {', '.join(labels)}"
            )
        self._views()
        report_tiling(self, trial, [trial.census.nodes[id_] for id_ in active])

    def _views(self) -> None:
        nodes = self.trial.census.nodes
        one_sided = [
            f"{node.label} -> {nodes[id_].label}"
            for node in nodes.values()
            for id_ in sorted(node.pastry.kept)
            if id_ in nodes and node.pastry.me.id not in nodes[id_].pastry.kept
        ]
        if one_sided:
            self.found(f"{len(one_sided)} views are one-sided: {', '.join(one_sided[:5])}")


class OneRootPerComponent(Invariant):
    """Under partition each side has one root for each key once it had time to notice, and the whole
    network has one within the stated time of healing. A side that is only unheard (one-way) sees the
    others still, so it has no ring of its own to check."""

    name = "one-root-per-component"

    def tick(self) -> None:
        """Look at each side when its time has come."""
        trial = self.trial
        for nodes in trial.components_due():
            report_tiling(self, trial, nodes)


class Bounded(Invariant):
    """What a node keeps stays within its caps."""

    name = "bounded"

    def tick(self) -> None:
        """Measure every node."""
        for node in self.trial.live():
            for what, size, cap in sizes(node.pastry):
                if size > cap:
                    self.found(f"{node.label} keeps {size} {what}, more than {cap}")


INVARIANTS: dict[str, type[Invariant]] = {
    kind.name: kind
    for kind in (
        OneOwner,
        OneClaim,
        DeliveredAtClosest,
        NoSilentLoss,
        ExactWhenQuiet,
        OneRootPerComponent,
        Bounded,
    )
}


def around(active: list[Id], index: int, half: int) -> set[Id]:
    """The ids that belong into a leaf set."""
    count = len(active)
    return {active[(index + step) % count] for step in range(-half, half + 1)} - {active[index]}


def report_tiling(invariant: Invariant, trial: Trial, nodes: list[WatchedNode]) -> None:
    """Whether these nodes, in ring order, cover every key exactly once."""
    if len(nodes) < 2:
        return
    for index, high in enumerate(nodes):
        low = nodes[index - 1]
        missing = gap(low, high)
        if missing:
            what = "nobody covers" if missing > 0 else "both cover"
            share = abs(missing) / RING
            invariant.found(f"between {low.label} and {high.label} {what} {share:.2e} of the ring")


def sizes(pastry: Pastry) -> list[tuple[str, int, int]]:
    """What a node keeps, how much of it, and how much it may keep."""
    state, config = pastry.state, pastry.state.config
    forwarding, liveness = state.forwarding, state.liveness
    tables = config.leaf_set_size + state.table.rows * (1 << config.digit_bits)
    tables += config.neighbourhood_size
    return [
        ("leaves", len(state.leaves), config.leaf_set_size),
        ("neighbours", len(state.neighbourhood.peers), config.neighbourhood_size),
        ("suspects", len(state.suspects), PROBES_KEPT + tables),
        ("probes", len(liveness._probing), PROBES_KEPT + tables),
        ("spares", len(liveness._spares), SPARES_KEPT),
        ("failed nodes", len(state.failed), FAILED_KEPT),
        ("measurements", len(state.measuring), MEASURING_KEPT),
        ("questions", len(state.asked), ASKED_KEPT),
        ("joiners", len(state.arrivals), config.leaf_set_size),
        ("held messages", forwarding.held, config.held_messages),
        ("unacknowledged messages", len(forwarding._pending), config.held_messages),
        ("accepted numbers", len(forwarding._accepted), config.recent_messages),
        ("delivered numbers", len(forwarding._delivered), config.recent_messages),
    ]
