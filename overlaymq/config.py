"""Configuration: one Struct per part, one TOML file, environment variables and keyword arguments.

Every default cites its source or says that it is a guess. A wrong key or value raises ``ConfigError``
naming the key and what was expected; nothing is ignored silently.

Precedence, the strongest first: keyword arguments, ``OVERLAYMQ_<SECTION>_<KEY>`` environment variables,
the TOML file, the defaults here. Topics are matched by pattern: an exact name first, then the pattern
with the longest literal prefix before its ``*``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from overlaymq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

Strategy = Literal["direct", "scribe", "sv", "scamp"]
Reliability = Literal["best_effort", "fifo", "ordered", "replicated"]
Flow = Literal["lossy", "patient", "lossless"]
WhenFull = Literal["block", "drop_oldest", "drop_newest", "latest", "fail"]

Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]

DEFAULT_PORT = 7400
KIB = 1024
MIB = 1024 * KIB


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the configuration file."""


class PastryConfig(Part, frozen=True):
    """The ring. Times in seconds."""

    digit_bits: Literal[1, 2, 4, 8] = 4
    """b: bits of a digit (Scribe JSAC II: typical value 4)."""
    leaf_set_size: Annotated[int, msgspec.Meta(ge=2, multiple_of=2)] = 16
    """l: leaf set size (Scribe JSAC II: typical value 16)."""
    neighbourhood_size: Count = 32
    """|M| = 2 * 2**b (Pastry Middleware 2001, by way of protocols.md 1.1)."""
    heartbeat_every: Seconds = 5.0
    """To both neighbours on the ring, and the question for a lease. MSPastry uses 30 s (to the left one);
    a guess for LANs, where repair should take seconds."""
    lease: Seconds = 10.0
    """How long a neighbour that was asked keeps a node, whatever happens; two heartbeats.
    FreePastry: 30 s."""
    probe_timeout: Seconds = 0.9
    """T_o, the wait for each try. MSPastry uses 3 s; a guess for LANs, near FreePastry's first 0.8 s."""
    probe_retries: Annotated[int, msgspec.Meta(ge=0)] = 4
    """FreePastry: up to five tries before a node is declared dead, one in 100,000 live ones at 5 % loss.
    MSPastry: three."""
    ack_timeout_first: Seconds = 3.0
    """Per-hop acknowledgement deadline before a round trip is known (FreePastry's default RTO)."""
    ack_timeout_min: Seconds = 0.05
    """Lower bound of the adaptive deadline (FreePastry: 50 ms)."""
    reroutes: Count = 10
    """FreePastry RapidRerouter MAX_RETRIES."""
    join_retry: Seconds = 1.0
    """First wait before a join request is sent again; doubles up to 60 s. FreePastry: 2 s."""
    join_retry_max: Seconds = 60.0
    """FreePastry's cap of that back-off."""
    leaf_gossip_every: Seconds = 60.0
    """Leaf set exchange with a random leaf (FreePastry: 60 s)."""
    row_exchange_every: Seconds = 900.0
    """Routing table maintenance (FreePastry: 15 min)."""
    neighbour_check_every: Seconds = 300.0
    """Neighbourhood set maintenance: a guess."""
    heal_every: Seconds = 60.0
    """Partition healing: try a once-known node. FreePastry: 300 s; shorter, a guess."""
    heal_history: Count = 20
    """How many lost nodes are remembered for healing (FreePastry: 20)."""
    hole_patch_every: Seconds = 5.0
    """Hole patching throttle per node (FreePastry: 5 s)."""
    held_messages: Count = 10_000
    """Messages kept while joining or while their owner's liveness is in doubt; also how many may wait
    for a hop's acknowledgement: a guess."""
    recent_messages: Count = 4096
    """Routed messages remembered to tell copies from originals, at most 1 MB: a guess, above a second of
    Pastry's 3,000 messages a second and node (protocols.md P8)."""
    random_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """epsilon of randomised routing for messages that ask for it (protocols.md 1.3)."""
    seed_search_rows: Count = 10
    """Rows used in the nearest-seed search (FreePastry pns_num_rows_to_use)."""


class LinkConfig(Part, frozen=True):
    """The transport. Sizes in bytes."""

    frame_size: Count = 256 * KIB
    """A loaded link grows its frames up to this (measured: larger ones carry little more)."""
    max_frame: Count = 8 * MIB
    """gRPC's receive cap; a larger frame is refused."""
    control_queue: Count = 8 * MIB
    """Bytes of control messages waiting on one link before the link is given up: a guess."""
    data_queue: Count = 64 * MIB
    """Bytes of batches waiting on one link before they are dropped and counted; credits keep it far
    below this in practice: a guess."""
    inbox: Count = 64 * MIB
    """Bytes received and not yet taken by the node, over all links, before links are paused: a guess."""
    connect_timeout: Seconds = 3.0
    """Opening a link, handshake included: a guess."""
    reconnect_min: Seconds = 0.2
    """First wait before a broken link is dialled again; doubles: a guess."""
    reconnect_max: Seconds = 5.0
    """The cap of that back-off (peers.md 4.3)."""
    idle_timeout: Seconds = 60.0
    """A link nobody needs is closed after this silence: a guess."""
    max_links: Count = 1024
    """Links open at once; the least used goes first: a guess."""
    keepalive: Seconds = 20.0
    """HTTP/2 keepalive period (peers.md 4.3)."""
    malformed_frames: Count = 64
    """Malformed frames tolerated on one link before it is closed: a guess."""
    grace: Seconds = 1.5
    """How long shutdown may drain: a guess below the two seconds that Ctrl-C may take."""


class DeliveryConfig(Part, frozen=True):
    """Publishing and receiving. Sizes in bytes, times in seconds."""

    window: Count = 4 * MIB
    """Byte credits per (link, topic): a guess above bandwidth times scheduling delay of a busy host."""
    patience: Seconds = 1.0
    """How long a `patient` topic waits for a child without credit (design.md section 3)."""
    run_bytes: Count = 256 * KIB
    """A topic's open run is closed at this size: one frame."""
    run_messages: Count = 2048
    """And at this many messages: a guess."""
    linger: Seconds = 0.01
    """No run stays open longer than this while its application keeps publishing: a guess."""
    chunk: Count = 256 * KIB
    """Larger payloads travel in chunks of this size (the frame size)."""
    max_payload: Count = 64 * MIB
    """Larger payloads raise PayloadTooLarge (issue: default 64 MiB)."""
    chunk_timeout: Seconds = 10.0
    """An incomplete large message becomes a Missed or a counted drop after this: a guess. On an `ordered`
    topic it waits for repair instead, `keep_seconds` at most when there is no gap."""
    reassembly: Count = 256 * MIB
    """Bytes of incomplete large messages kept per topic: a guess."""
    buffer: Count = 10_000
    """Messages a subscription holds before `when_full` applies: a guess."""
    buffer_bytes: Count = 64 * MIB
    """Bytes a subscription holds before `when_full` applies: a guess."""
    event_buffer: Count = 1_000
    """Events a subscription holds; the oldest go first and are counted: a guess."""
    reorder_wait: Seconds = 0.5
    """How long `fifo` holds what came after a gap before it announces the gap: a guess."""
    history: Annotated[int, msgspec.Meta(ge=0)] = 1_000
    """Messages that a node of a topic's tree, a gossip member, or the root of a `direct` topic keeps for late
    joiners, per topic: a guess."""
    history_bytes: Count = 4 * MIB
    """And bytes: a guess."""
    keep_seconds: Seconds = 60.0
    """How long every node of an `ordered` topic keeps messages for those who missed them: longer than any
    repair takes (Scribe JSAC III-B.2); a guess, several times `scribe.suspect_after`."""
    keep_messages: Count = 100_000
    """At most so many: a guess."""
    keep_bytes: Count = 16 * MIB
    """And so many bytes, per topic: a guess. A larger payload is refused on an `ordered` topic."""
    gap_timeout: Seconds = 30.0
    """A gap of an `ordered` topic that nobody fills becomes Missed after this: a guess, half of
    `keep_seconds`, above the time that a repair takes."""


class RendezvousConfig(Part, frozen=True):
    """Descriptors and their replicas."""

    replicas: Count = 5
    """k: root state lives on the k closest nodes (Scribe JSAC III-B, k = 5)."""
    max_topics: Count = 100_000
    """Descriptors kept by one node: a guess."""
    max_members: Count = 100_000
    """Members one root keeps for one `direct` topic: a guess."""
    answer_timeout: Seconds = 2.0
    """A routed question is asked again after this: a guess."""
    answer_tries: Count = 10
    """And given up after so many: a guess. Together twice `pastry.lease`, for a dead node's keys have no
    owner until its lease is over."""
    refresh_every: Seconds = 30.0
    """Members refresh their registration (protocols.md 3.4 suggests 60 s for children). Who only publishes
    remembers the root for so long after its last publication."""
    expire_after: Seconds = 100.0
    """And are forgotten after this silence: about three refreshes."""


class ScribeConfig(Part, frozen=True):
    """Scribe's trees. Children are refreshed and expire as members do (`rendezvous`)."""

    heartbeat_every: Seconds = 5.0
    """A parent that has sent nothing else says that it is there. SplitStream: 30 s; a guess for LANs."""
    suspect_after: Seconds = 12.5
    """A child joins anew after this silence of its parent (protocols.md 3.4: 2.5 heartbeats)."""
    tell_every: Seconds = 0.2
    """Changes of a subtree's size go up at most this often: a guess."""
    max_children: Annotated[int, msgspec.Meta(ge=0)] = 64
    """Children of a node over all topics before it sends some away (Scribe JSAC IV-E: 64); 0: no bound."""
    collapse_after: Annotated[float, msgspec.Meta(ge=0)] = 60.0
    """A forwarder that is no member and has had one child for so long gives it to its own parent (Scribe JSAC
    IV-F; the time is a guess); 0: never."""
    lazy_growth: bool = False
    """Joins pass through nodes that are not in the tree (the alternative of Scribe JSAC IV-F)."""
    anycast_timeout: Seconds = 5.0
    """How long an anycast may search: a guess."""


class SvConfig(Part, frozen=True):
    """Subscriber/Volunteer trees. Sizes of subtrees go up as in `scribe`."""

    beat_every: Seconds = 5.0
    """The root's beat, and the sign of life of a parent that has sent nothing else: as
    `scribe.heartbeat_every`."""
    suspect_after: Seconds = 12.5
    """A child gives its link up after this silence of its parent (protocols.md 3.4: 2.5 heartbeats). The
    nodes themselves are watched by `fuse`."""
    hasty_beat: Seconds = 0.5
    """A rejoining node that feeds others needs a beat newer than its own: the root gives extra ones at most
    this often. A guess."""
    beats: bool = True
    """Whether only a newer beat will do (not in the SV paper; see the strategy's text). Off: the paper's own
    order alone must prevent loops. For experiments."""
    tentative: Seconds = 10.0
    """What a join leaves on its way is forgotten after this, unless a link comes of it (protocols.md 4.2)."""
    retry_max: Seconds = 16.0
    """A join is tried again after `rendezvous.answer_timeout`, then twice that, up to this: a guess. If it
    was answered and refused then, after an eighth of that."""
    recall: Seconds = 10.0
    """How long a publisher can send again what a former root refused: a guess, far above a round trip. At
    most `delivery.window` bytes."""
    max_links: Count = 10_000
    """Links of one topic that lead through a node: a guess."""
    max_children: Annotated[int, msgspec.Meta(ge=0)] = 32
    """Children of a node in one topic before it hands joins down to them (not in the SV paper, which expects
    O(log N) of them and leaves more to a rebalancing that it has not built; a guess); 0: no bound."""


class ScampConfig(Part, frozen=True):
    """Gossip topics. `mode = "paper"` is SCAMP to the letter; the default mode has four fixes on top, each
    with a switch of its own, and beacons that find islands, without one."""

    mode: Literal["default", "paper"] = "default"
    """`paper` turns all of them off, whatever their switches say."""
    c: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    """Extra copies of a new subscription: views have (c + 1) ln n entries (SCAMP 2.2.1; 4.2 uses 0)."""
    fanout: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Paper mode: how many random members of the view get a message; 0: all (SCAMP 2.2.1, 4.3)."""
    lease: Annotated[float, msgspec.Meta(ge=0)] = 300.0
    """How long a subscription lasts before its node renews it; 0: for ever (SCAMP 3.2 names no time: a
    guess)."""
    heartbeat_every: Seconds = 5.0
    """To everyone in the view (SCAMP 2.2.3 names no time; as for Scribe's trees)."""
    isolated_after: Seconds = 12.5
    """Who has heard no heartbeat for so long is isolated and subscribes again: 2.5 heartbeats, a guess."""
    indirection: bool = True
    """A subscription walks to a near-uniform contact before it is dealt with (SCAMP 3.1)."""
    weigh_every: Count = 10
    """A node scales its arcs' weights after so many subscriptions have come by (SCAMP 4.6)."""
    contacts: Annotated[int, msgspec.Meta(ge=3, le=4096)] = 1024
    """Members that a rendezvous knows: up to so many, their number is exact, beyond it an estimate with an
    error of some 3 %: a guess."""
    uniform_renewal: bool = True
    """Fix: leases are renewed through a contact of the rendezvous, not one of the own view, and in
    (c + 1) ln n copies, not as many as the contact has neighbours, so views do not grow with every lease
    (protocols.md 5.4)."""
    lazy_push: bool = True
    """Fix: payloads go over a tree of few links and are announced over the others (Plumtree, protocols.md
    5.7). Needs `pull`."""
    pull: bool = True
    """Fix: what is announced and does not come is asked for (Plumtree)."""
    backups: Annotated[int, msgspec.Meta(ge=0, le=4096)] = 30
    """Fix: so many other members are known for the day when a neighbour fails; 0: none (HyParView's passive
    view: 30)."""
    announce_every: Seconds = 0.1
    """How long announcements are gathered; half of the neighbours get them after twice that, unless they have
    made them first. Partisan: 1 s; a guess for LANs."""
    pull_after: Seconds = 0.2
    """How long something announced may take to come by itself, and an answer to a pull: a guess, so that a
    repair is done within `delivery.reorder_wait`."""

    def __post_init__(self) -> None:
        if self.lazy_push and not self.pull:
            raise ValueError(
                "lazy_push: what is only announced must be asked for; set pull as well"
            )

    @property
    def literal(self) -> bool:
        """Whether this is the paper's algorithm and nothing else."""
        return self.mode == "paper"

    @property
    def pulls(self) -> bool:
        """Whether what is announced is asked for."""
        return self.pull and not self.literal

    @property
    def pushes_lazily(self) -> bool:
        """Whether most links carry announcements only."""
        return self.lazy_push and not self.literal

    @property
    def renews_uniformly(self) -> bool:
        """Whether leases are renewed through the rendezvous."""
        return self.uniform_renewal and not self.literal

    @property
    def spare(self) -> int:
        """How many backups are kept."""
        return 0 if self.literal else self.backups


class FuseConfig(Part, frozen=True):
    """Failure groups. What they promise is a formula of these: [failure groups](fuse.md)."""

    ping_every: Seconds = 5.0
    """How often two nodes that watch groups together say so. FUSE: 60 s; a guess for LANs, the same as
    `pastry.heartbeat_every`, which then carries it for ring neighbours."""
    edge_timeout: Seconds = 12.5
    """E: what a neighbour on a group's tree has not confirmed for so long is broken. FUSE: a ping period and
    a timeout of 20 s; 2.5 periods here, as for Scribe's parents."""
    retry_every: Seconds = 1.0
    """Questions are asked again after this, and due times looked at: a guess."""
    answer_timeout: Seconds = 5.0
    """A: how long a root waits for all members, when it creates or repairs. FUSE: 2 min; a guess for LANs."""
    grace: Seconds = 5.0
    """Neighbours may disagree about a tree younger than this, whose installation may be under way (FUSE:
    5 s)."""
    backoff_max: Seconds = 5.0
    """W: the longest pause before a group is repaired once more; pauses double up to it: a guess."""
    max_hops: Count = 5
    """D: edges from a member to its root; a longer route is cut short. A guess: Pastry's mean at 100,000
    nodes rounded up (log16 N = 4.2)."""
    max_members: Count = 256
    """Members of one group: a guess (SV trees: 13 at most, protocols.md 4.6)."""
    max_groups: Count = 100_000
    """Groups that this node has any part in: a guess."""
    max_edges: Count = 4096
    """Peers that this node watches groups together with: a guess."""
    groups_per_peer: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 4096
    """Groups watched together with one peer, and made by one peer with this node: what fits a list that the
    codec takes."""

    def __post_init__(self) -> None:
        least = max(self.ping_every + 2 * self.retry_every, self.grace + self.retry_every)
        if self.edge_timeout < least:
            raise ValueError(
                f"edge_timeout: expected at least {least:g} s, a ping and two questions, and above `grace`,"
                f" got {self.edge_timeout:g}"
            )
        if self.answer_timeout < 2 * self.retry_every:
            raise ValueError(
                f"answer_timeout: expected at least two retries, {2 * self.retry_every:g} s,"
                f" got {self.answer_timeout:g}"
            )


class TopicConfig(Part, frozen=True):
    """How a topic is disseminated when nobody created it with other settings."""

    strategy: Strategy = "scribe"
    reliability: Reliability = "best_effort"
    flow: Flow = "patient"
    volunteer: bool = False
    """Whether this node forwards an `sv` topic without subscribing to it, as soon as a join comes by."""


class AdminConfig(Part, frozen=True):
    """The service that `overlaymq status` and `doctor` talk to."""

    enabled: bool = True
    listen: str = "127.0.0.1:0"
    """Loopback by default: it tells everything and is not authenticated."""


class RecorderConfig(Part, frozen=True):
    """The [flight recorder](flight-recorder.md)."""

    file: str = ""
    """Where the core's inputs are recorded, with a second file beside it. Empty: nowhere."""
    limit: Annotated[int, msgspec.Meta(ge=65536)] = 64 * MIB
    """Bytes of both files together; the oldest part goes first: a guess."""
    payloads: bool = True
    """Whether the record holds what was published; if not, only how long it was."""


class TraceConfig(Part, frozen=True):
    """[Traces](traces.md) of what happens to messages. Needs the extra `overlaymq[trace]`."""

    directory: str = ""
    """Where trace files go. Empty: nowhere, and tracing costs nothing."""
    run: Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*)?$")] = ""
    """One name for all hosts of a run: a folder below `directory`, and the `run_id` of its rows."""
    sample: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """The share of messages that is traced, the same ones at every node. All: a row stands for a batch, so
    there are few."""
    routes: bool = False
    """Whether each hop of routed messages is traced: joins and lookups, not publications."""
    flush_every: Seconds = 1.0
    """How long an event may wait in memory, and so what `kill -9` costs: a guess, as for the recorder."""
    batch_rows: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 8192
    """Or so many events, about 1.5 MB: written in some 2 ms (measured)."""
    queue: Count = 8
    """Batches that wait for the disk before some are dropped and counted: a guess, some 12 MB."""
    segment_bytes: Annotated[int, msgspec.Meta(ge=4096)] = 8 * MIB
    """A segment becomes Parquet at this size: a guess, about 300,000 events and some tenths of a second."""
    segment_seconds: Seconds = 30.0
    """And at this age: a guess between files that are many and a live analysis that is late."""
    keep_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1024 * MIB
    """Finished files of the run's folder, the oldest go first: a guess; 0: no bound."""
    keep_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """How long they are kept; 0: for ever, as nobody but you knows for how long they are of use."""
    clock_every: Seconds = 10.0
    """How often the clocks of linked nodes are compared. A guess: quartz drifts some 50 us in a second, and
    the analysis wants milliseconds."""


class NodeConfig(Part, frozen=True):
    """Who this node is and where it listens."""

    listen: str = "127.0.0.1:0"
    advertise: str = ""
    seeds: tuple[str, ...] = ()
    key_file: str = ""
    """Empty: an ephemeral key, so a new id each start."""
    join_timeout: Seconds = 20.0
    """How long entering `open_node` may take: a guess."""


class Config(Part, frozen=True):
    """The whole file."""

    node: NodeConfig = NodeConfig()
    pastry: PastryConfig = PastryConfig()
    link: LinkConfig = LinkConfig()
    delivery: DeliveryConfig = DeliveryConfig()
    rendezvous: RendezvousConfig = RendezvousConfig()
    scribe: ScribeConfig = ScribeConfig()
    scamp: ScampConfig = ScampConfig()
    sv: SvConfig = SvConfig()
    fuse: FuseConfig = FuseConfig()
    admin: AdminConfig = AdminConfig()
    recorder: RecorderConfig = RecorderConfig()
    trace: TraceConfig = TraceConfig()
    defaults: TopicConfig = TopicConfig()
    topics: dict[str, TopicConfig] = {}

    def __post_init__(self) -> None:
        for pattern in self.topics:
            if "*" in pattern[:-1]:
                raise ValueError(
                    f"topics: expected `*` only at the end of a pattern, got {pattern!r}"
                )

    def for_topic(self, name: str) -> TopicConfig:
        """The settings of the best matching pattern, or the defaults."""
        if name in self.topics:
            return self.topics[name]
        matching = [
            pattern
            for pattern in self.topics
            if pattern.endswith("*") and name.startswith(pattern[:-1])
        ]
        return self.topics[max(matching, key=len)] if matching else self.defaults


PartType = TypeVar("PartType", bound=Part)


def convert(values: Mapping[str, Any], to: type[PartType], source: str) -> PartType:
    """Check values against a Struct; errors name the key and what was expected."""
    try:
        return msgspec.convert(values, to, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_explained(str(error), to, values)}") from None


def _explained(message: str, to: type[Part], values: Mapping[str, Any]) -> str:
    # msgspec writes "Expected `int` >= 1 - at `$.pastry.leaf_set_size`"; keys read better first.
    text, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    expected: Any = to
    for step in key.replace("[...]", "[*]").replace("[", ".[").split(".") if key else ():
        expected = get_args(expected)[-1] if step[0] == "[" else get_type_hints(expected)[step]
    if "[...]" in key:
        key = key.replace("[...]", f".{_wrong_topic(values)!r}")
    if text.startswith("Object contains unknown field"):
        text = f"{text}; expected one of {', '.join(expected.__struct_fields__)}"
    elif get_origin(expected) is Literal:
        text = f"{text}; expected one of {', '.join(map(str, get_args(expected)))}"
    return f"{key}: {text[0].lower()}{text[1:]}" if key else text


def _wrong_topic(values: Mapping[str, Any]) -> str:
    for pattern, settings in values["topics"].items():
        try:
            msgspec.convert(settings, TopicConfig, strict=False)
        except msgspec.ValidationError:
            return str(pattern)
    return "..."


def load(
    path: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    **node: Any,
) -> Config:
    """Read a TOML file, then environment variables, then keyword arguments for ``[node]``.

    Each is checked before the next is laid over it, so an error names where the value came from."""
    values: dict[str, Any] = {}
    if path is not None:
        values = _read(Path(path))
        convert(values, Config, str(path))
    _overlay_environment(values, environment or {})
    convert(values, Config, "environment")
    given = {key: value for key, value in node.items() if value is not None}
    if given:
        section = values.setdefault("node", {})
        section.update(given)
    _inherit_defaults(values)
    return convert(values, Config, "arguments")


def _inherit_defaults(values: dict[str, Any]) -> None:
    """A topic's section says only what differs from ``[defaults]``."""
    defaults = values.get("defaults", {})
    topics = values.get("topics", {})
    for pattern, section in topics.items():
        topics[pattern] = {**defaults, **section}


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _overlay_environment(values: dict[str, Any], environment: Mapping[str, str]) -> None:
    parts = {name: type(getattr(Config(), name)) for name in Config.__struct_fields__}
    sections = {name: part.__struct_fields__ for name, part in parts.items() if name != "topics"}
    for variable in sorted(environment):
        if not variable.startswith("OVERLAYMQ_"):
            continue
        section, _, key = variable.removeprefix("OVERLAYMQ_").lower().partition("_")
        if section not in sections or not key:
            known = ", ".join(f"OVERLAYMQ_{name.upper()}_<KEY>" for name in sorted(sections))
            raise ConfigError(f"{variable}: not a setting; expected one of {known}")
        if key not in sections[section]:
            raise ConfigError(
                f"{variable}: [{section}] has no {key!r}; expected one of {', '.join(sections[section])}"
            )
        text = environment[variable]
        seeds = (seed.strip() for seed in text.split(","))
        value: Any = tuple(filter(None, seeds)) if key == "seeds" else text
        values.setdefault(section, {})[key] = value
