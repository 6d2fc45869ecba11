"""What this version knows: strategies, delivery modes, and the messages that are a topic's affair."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from overlaymq.config import Flow
from overlaymq.core.dissemination.direct import Direct
from overlaymq.core.dissemination.scamp import MESSAGES, Scamp
from overlaymq.core.dissemination.scribe import Scribe
from overlaymq.core.dissemination.sv import Sv
from overlaymq.core.reliability.registry import MODES, NEEDS_TREE
from overlaymq.messages import (
    BatchRefused,
    BatchSequenced,
    DeliveryQuery,
    Register,
    Registered,
    RootIs,
    RootQuery,
    Skipped,
    SvBeat,
    SvCandidate,
    SvJoin,
    SvSize,
    SvWant,
    TreeAnycast,
    TreeBeat,
    TreeDrop,
    TreeGone,
    TreeHad,
    TreeHistory,
    TreeJoin,
    TreeJoined,
    TreeLeave,
    TreeNeed,
    TreeNote,
    TreeRefresh,
    TreeRefused,
    TreeReplay,
    TreeStable,
    TreeTold,
    Unregister,
)

if TYPE_CHECKING:
    from overlaymq.core.dissemination.base import Strategy
    from overlaymq.messages import Descriptor

STRATEGIES: dict[str, type[Strategy]] = {kind.name: kind for kind in (Direct, Scribe, Sv, Scamp)}
TREES = (Scribe.name, Sv.name)
"""The strategies that have a tree, for modes that need one."""

ABOUT_TOPIC = (Register, RootQuery, TreeJoin, TreeAnycast, DeliveryQuery, SvJoin)
"""Routed messages that name a topic by its descriptor."""
ABOUT_TOPIC_DIRECT = (
    *(Registered, RootIs, BatchRefused, Unregister, Skipped),
    *(TreeJoined, TreeRefused, TreeLeave, TreeRefresh, TreeBeat, TreeNote, TreeDrop),
    *(TreeNeed, TreeGone, TreeTold, TreeHad, TreeStable, BatchSequenced),
    *(TreeHistory, TreeReplay),
    *(SvJoin, SvCandidate, SvBeat, SvSize, SvWant),
    *MESSAGES,
)
"""Messages from peer to peer about a topic that the receiver has to do with."""


def is_supported(descriptor: Descriptor) -> bool:
    """Whether this version knows the topic's strategy, reliability and flow."""
    return (
        descriptor.strategy in STRATEGIES
        and descriptor.reliability in MODES
        and (descriptor.reliability not in NEEDS_TREE or descriptor.strategy in TREES)
        and descriptor.flow in get_args(Flow)
        and not (descriptor.flow == "lossless" and STRATEGIES[descriptor.strategy].mesh)
    )
