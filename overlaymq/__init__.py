"""overlaymq: publish and subscribe without a broker.

The nodes form a Pastry ring over gRPC; topics are disseminated on the ring by a strategy that the
configuration chooses. Start with ``open_node``.
"""

# How the package is laid out:
#
#   ids, messages, events, config, errors    the vocabulary: pure, imported by everybody
#   core/         the protocols, sans-IO: handle(input, now) -> effects
#   transport/    carries messages between nodes: gRPC, and memory for tests
#   runtime/      the trio driver of the core, and the handles an application holds
#   sim/          the virtual-time driver of the same core
#   identity      keys and signatures
#   testing       in-memory networks and the conformance suites, for applications' tests and ours
#   cli/          the `overlaymq` command
#
# What is importable from here is public; everything else may change.

from overlaymq._version import VERSION
from overlaymq.config import Config
from overlaymq.core.reliability.upcalls import Joining, Tree, Upcalls
from overlaymq.errors import (
    BufferFull,
    Closed,
    ConfigError,
    ForkedProcess,
    IdentityError,
    JoinFailed,
    LinkRefused,
    NotSupported,
    OverlayError,
    PayloadMalformed,
    PayloadTooLarge,
    TopicConflict,
    TopicUnavailable,
    WouldBlock,
)
from overlaymq.events import EpochChanged, Lagged, Missed, ParentLost, Ready, Repaired
from overlaymq.runtime.message import Message
from overlaymq.runtime.node import Accepted, Node, NodeStatistics
from overlaymq.runtime.opening import open_node
from overlaymq.runtime.publishing import Reach, Receipt
from overlaymq.runtime.subscription import Last, Subscription, SubscriptionStatistics
from overlaymq.runtime.typed import (
    Codec,
    JsonCodec,
    MessagePackCodec,
    ProtobufCodec,
    Topic,
    TypedSubscription,
)

__version__ = VERSION

__all__ = [
    "Accepted",
    "BufferFull",
    "Closed",
    "Codec",
    "Config",
    "ConfigError",
    "EpochChanged",
    "ForkedProcess",
    "IdentityError",
    "JoinFailed",
    "Joining",
    "JsonCodec",
    "Lagged",
    "Last",
    "LinkRefused",
    "Message",
    "MessagePackCodec",
    "Missed",
    "Node",
    "NodeStatistics",
    "NotSupported",
    "OverlayError",
    "ParentLost",
    "PayloadMalformed",
    "PayloadTooLarge",
    "ProtobufCodec",
    "Reach",
    "Ready",
    "Receipt",
    "Repaired",
    "Subscription",
    "SubscriptionStatistics",
    "Topic",
    "TopicConflict",
    "TopicUnavailable",
    "Tree",
    "TypedSubscription",
    "Upcalls",
    "WouldBlock",
    "__version__",
    "open_node",
]
