"""Topic names, and the descriptor a node proposes for one.

A bare name is in the open namespace: its creator is empty and anyone may use it. An owned topic is written
``name@creator``, the creator being a node id in hex. The id is the hash of both; the key, where the root
is, is the id, or the creator's node id for a creator-rooted topic.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq import ids
from overlaymq.config import TopicConfig, convert
from overlaymq.core.reliability.registry import NEEDS_TREE
from overlaymq.core.supported import STRATEGIES, TREES
from overlaymq.errors import ConfigError, NotSupported
from overlaymq.messages import Descriptor

if TYPE_CHECKING:
    from overlaymq.config import Config
    from overlaymq.messages import Peer

MAX_NAME = 512  # bytes; a guess far above any sensible name
NOT_BUILT = ("replicated",)


def split(topic: str, creator: str = "") -> tuple[str, str]:
    """Name and creator of a topic as written."""
    if not isinstance(topic, str):
        raise ConfigError(f"topic: expected a str, got {topic!r}")
    name, at, owner = topic.rpartition("@") if "@" in topic else (topic, "", creator)
    if at and creator and owner.lower() != creator.lower():
        raise ConfigError(
            f"topic {topic!r}: it names its creator, but creator={creator!r} was given"
        )
    if not name:
        raise ConfigError(f"topic {topic!r}: expected a name")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"topic {name[:20]!r}: expected text that UTF-8 can encode") from None
    if size > MAX_NAME:
        raise ConfigError(f"topic {name[:20]!r}...: expected at most {MAX_NAME} bytes")
    if "*" in name:
        raise ConfigError(
            f"topic {topic!r}: patterns only choose settings in the configuration; "
            "publish and subscribe with exact names"
        )
    # Only digits: int() would also take a sign, blanks, underscores and 0x.
    is_id = len(owner) == 2 * ids.BYTES and set(owner) <= set(string.hexdigits)
    if (at or owner) and not is_id:
        raise ConfigError(
            f"topic {topic!r}: expected a creator of 32 hex digits (a node id), got {owner!r}"
        )
    return name, owner.lower()


def proposal(
    topic: str,
    config: Config,
    me: Peer,
    *,
    creator: str = "",
    root: str = "topic",
    explicit: bool = False,
    credentials: bytes = b"",
    **settings: Any,
) -> Descriptor:
    """The descriptor this node would give the topic if it is the first to speak of it."""
    name, owner = split(topic, creator)
    chosen = config.for_topic(name)
    given = {key: value for key, value in settings.items() if value is not None}
    if given:
        chosen = convert(msgspec.structs.asdict(chosen) | given, TopicConfig, f"topic {name!r}")
    if chosen.reliability in NOT_BUILT:
        raise NotSupported(
            f"reliability={chosen.reliability!r} is not built yet; use 'ordered', 'fifo' or 'best_effort'"
        )
    if STRATEGIES[chosen.strategy].mesh:
        _check_mesh(topic, chosen)
    if chosen.reliability in NEEDS_TREE and chosen.strategy not in TREES:
        raise ConfigError(
            f"topic {topic!r}: reliability={chosen.reliability!r} works in a tree; use strategy='scribe' "
            f"or 'sv' with it, not {chosen.strategy!r}"
        )
    if explicit and owner and owner != ids.text(me.id):
        raise ConfigError(
            f"topic {topic!r}: only node {owner} can create it; this is {ids.text(me.id)}"
        )
    if root not in ("topic", "creator"):
        raise ConfigError(f"root: expected 'topic' or 'creator', got {root!r}")
    id_ = ids.topic_id(name, owner)
    return Descriptor(
        id=id_,
        name=name,
        creator=owner,
        key=(ids.parse(owner) if owner else me.id) if root == "creator" else id_,
        strategy=chosen.strategy,
        reliability=chosen.reliability,
        flow=chosen.flow,
        explicit=explicit,
        credentials=credentials,
    )


def _check_mesh(topic: str, chosen: TopicConfig) -> None:
    """What gossip cannot promise is refused, with the reason."""
    if chosen.reliability in NEEDS_TREE:
        raise ConfigError(
            f"topic {topic!r}: reliability={chosen.reliability!r} needs one node that numbers all messages, "
            f"and {chosen.strategy!r} has none: its graph has cycles and no root. Use 'fifo' with it, or "
            "strategy='scribe'"
        )
    if chosen.flow == "lossless":
        raise ConfigError(
            f"topic {topic!r}: flow='lossless' waits for the slowest, and in the cyclic graph of "
            f"{chosen.strategy!r} such waits can close a circle and stop the topic. Use 'patient' or 'lossy' "
            "with it, or strategy='scribe'"
        )
