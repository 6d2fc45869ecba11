"""gRPC, imported in one place, because how it polls is decided when it is imported.

Since 1.80, gRPC for Python waits for the network in the threads of an *event engine*: one finds that a
socket is readable, another reads it and parses the frame, and only then does the thread wake that tells
asyncio. Each wake-up costs as much as all that overlaymq does with a message. Without the engine, the thread
that tells asyncio reads the socket itself, as it did before 1.80, and a received message wakes two threads:
that one, and the application's.

The switch is an environment variable that gRPC reads once. It is set only for the import, so that programs
which this one starts do not inherit it. A program that has set the variable itself, or has imported gRPC
before, keeps what it has: then everything works as well, only slower. A gRPC that has lost the switch says so
once on stderr.
"""

from __future__ import annotations

import os
import sys

_VARIABLE = "GRPC_EXPERIMENTS"
_OWN_POLLING = "-event_engine_client,-event_engine_listener"

_decided = _VARIABLE in os.environ or "grpc" in sys.modules
if not _decided:
    os.environ[_VARIABLE] = _OWN_POLLING
try:
    import grpc
finally:
    if not _decided:
        del os.environ[_VARIABLE]

__all__ = ["grpc"]
