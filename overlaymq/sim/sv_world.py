"""A whole network for the SV paper's experiments: the same subscribers in an SV tree and in an RPF tree.

The set-up is that of the paper's section 5: an overlay at rest on a map of the Internet, of which some nodes
subscribe. The overlay is Pastry, not SkipNet, and its tables are the oracle's. The paper's SkipNet has
"R-Table routes". From memory, not checked: these do not know how far away nodes are, other than a P-Table's.
So every slot of our tables has any node that fits it, by chance, unless ``proximity`` is set: then it is the
nearest one, as Pastry has it, and the trees compare differently (see SV-7 in ``differences``).

The paper's SkipNet has "a base of size 8, a leaf set of size 16" (4.1), and so have our tables: digits of
three bits. Until November 2026 they had Pastry's usual four, base 16, with the same leaf set. That was no
reading of the paper, and RPF trees had fewer hops. It is no remedy for the link stress of 16 subscribers,
which missed its bar before and misses it now (SV-8).

Each *pair* is two groups with the same key and the same members: one topic of the strategy `sv`, and one of
`scribe`, whose tree is the reverse routes of its joins, which is what the paper calls an RPF tree. Both have
the same root and use the same routes, so they differ by the strategy alone. IP multicast is the union of the
unicast routes from there.

How a tree looks depends on the pace of its joins. One after the other, each finds most of the tree below it
and hangs itself there, and trees grow deep; all at once, many find nobody below, are sent up, and crowd at
the root (the experiment `sv-pace` has figures). The paper does not say how its trees of section 5.2 came to
be. The one construction that it describes is the crowd of 5.3, which is served after five seconds, so here
the subscribers of a tree join within five seconds, evenly spaced.

Nothing fails while trees are measured, so nothing periodic is wanted but FUSE's pings, which go every 60
seconds as in the paper. Of every batch that is sent it is asked whether its sender wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from overlaymq.config import SvConfig
from overlaymq.core.dissemination.sv import Sv
from overlaymq.ids import topic_id
from overlaymq.messages import Batch, Descriptor
from overlaymq.sim import oracle
from overlaymq.sim.experiments.base import no_progress
from overlaymq.sim.experiments.configs import NEVER
from overlaymq.sim.experiments.fuse import PAPER
from overlaymq.sim.experiments.walk import closest
from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.scribe_world import STILL, Group, World
from overlaymq.sim.tree_invariants import PARTICIPANTS

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Message, Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.experiments.base import Progress
    from overlaymq.sim.faults import Fate

UNKNOWN = 1.0
"""Seconds to every node, as far as tables without proximity know: enough that no acknowledgement is late."""
JOINS_WITHIN = 5.0
"""See the module's text."""
RETRY = 2.0
"""A join that nobody answered is sent again after this: our default."""

BASE_8 = 3
"""Bits of a digit; see the module's text."""

AT_REST = msgspec.structs.replace(
    STILL,
    pastry=msgspec.structs.replace(STILL.pastry, digit_bits=BASE_8, leaf_set_size=16),
    fuse=PAPER.fuse,
    sv=SvConfig(beat_every=NEVER, suspect_after=NEVER),
    rendezvous=msgspec.structs.replace(STILL.rendezvous, answer_timeout=RETRY),
)
"""The paper's base and leaf set, FUSE with its period and timeout; nothing else is periodic."""


class Pair(msgspec.Struct, frozen=True):
    """The same members in two trees with one root."""

    sv: Group
    rpf: Group


class SvWorld(World):
    """See the module's text."""

    settle = 10.0
    joins_within = JOINS_WITHIN
    impolite = 0
    """Batches of SV topics that were sent by nodes that neither want them nor are their root."""

    proximity = False
    """Whether tables hold the nearest nodes that fit, or any that do."""

    def build(self, progress: Progress = no_progress) -> None:
        """Make the nodes and fill their tables."""
        self.network.place_all(f"node-{number}" for number in range(self._count))
        if not self.proximity:
            self.simulation.network = ConstantDelay(UNKNOWN)
        oracle.build(self, self._count, progress=progress)
        self.simulation.network = self.network
        self.watch()

    def add_pair(self, size: int) -> Pair:
        """Draw the members of a pair; nobody joins yet."""
        ids = sorted(self.nodes)
        key = topic_id(f"pair {len(self.groups)} of {self.simulation.seed}")
        root = self.nodes[closest(ids, key, 1)[0]].me
        peers = [self.nodes[id_].me for id_ in ids if id_ != root.id]
        members = tuple(self._random.sample(peers, size))
        return self._add_groups(key, root, members)

    def repeat_pair(self, pair: Pair) -> Pair:
        """The same nodes once more, in trees of their own."""
        return self._add_groups(pair.sv.descriptor.key, pair.sv.root, pair.sv.members)

    def _add_groups(self, key: Id, root: Peer, members: tuple[Peer, ...]) -> Pair:
        groups = []
        for strategy in ("sv", "scribe"):
            name = f"{strategy} {len(self.groups)} of {self.simulation.seed}"
            topic = topic_id(name)
            descriptor = Descriptor(topic, name, "", key, strategy, "best_effort", "lossy")
            groups.append(Group(descriptor, root, members))
        self.groups += groups
        return Pair(*groups)

    def sv_place(self, topic: Id, id_: Id) -> Sv | None:
        """A node's part in an SV tree, if it has one."""
        node = self.nodes.get(id_)
        strategy = None if node is None else node.strategy(topic)
        return strategy if isinstance(strategy, Sv) else None

    def _on_send(self, now: float, host: Host, peer: Peer, message: Message, fate: Fate) -> None:
        super()._on_send(now, host, peer, message, fate)
        if type(message) is Batch:
            self.ask_whether_polite(host, message)

    def ask_whether_polite(self, host: Host, batch: Batch) -> None:
        """Of a batch that a node sends and has not published: does it want it?"""
        if batch.origin == host.peer.id:
            return
        (group,) = [one.descriptor for one in self.groups if one.descriptor.id == batch.topic]
        if group.strategy != Sv.name:
            return
        place = self.sv_place(batch.topic, host.peer.id)
        self.impolite += place is None or place.role not in PARTICIPANTS
