"""Every error an application can meet.

Each is an ``OverlayError`` and says what to do next. Errors that a peer causes never reach the
application: a bad frame is counted with a reason and dropped (see ``node.statistics()``).
"""

from __future__ import annotations


class OverlayError(Exception):
    """Anything overlaymq raises on purpose."""


class ConfigError(OverlayError, ValueError):
    """A configuration value is wrong; the message names the key and what was expected."""


class IdentityError(OverlayError):
    """A key file cannot be used, or this node's id is already live somewhere else."""


class JoinFailed(OverlayError):
    """No seed let this node into the overlay; the message names each seed and why."""


class Closed(OverlayError):
    """The node or the subscription has been closed."""


class ForkedProcess(OverlayError):
    """The node was made in a parent process; gRPC does not survive a fork."""


class WouldBlock(OverlayError):
    """``publish_nowait`` would have to wait: the topic's run is full."""


class TopicConflict(OverlayError):
    """The topic exists with other settings."""


class TopicUnavailable(OverlayError):
    """The topic's rendezvous node did not answer in time."""


class PayloadTooLarge(OverlayError, ValueError):
    """The payload is above the configured cap."""


class PayloadMalformed(OverlayError, ValueError):
    """A typed subscription got a payload that its codec cannot read; ``message`` is the message. The next
    receive goes on behind it."""

    def __init__(self, message: object, error: Exception) -> None:
        super().__init__(f"a payload that the codec cannot read: {error}")
        self.message = message


class NotSupported(OverlayError):
    """Known, but not built yet or not offered by the topic's mode."""


class BufferFull(OverlayError):
    """A subscription with ``when_full="fail"`` overflowed."""


class LinkRefused(OverlayError):
    """The other side refused the link, or could not prove who it is."""


class OwnAddress(LinkRefused):
    """The address leads back to this node."""
