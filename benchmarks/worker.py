"""One process of the fan-out: the publisher or a subscriber of one system.

A run goes through phases, and both roles know only one at a time. `probe` finds out whether the
path works, `burst` is full speed, `paced` sends at fixed times and stamps each payload with the
host's monotonic clock, which all processes share. CPU time is counted from the start of a phase
until the parent collects it, when every subscriber has finished: a library's own threads may work
on long after the last call to `publish` has returned.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import trio

from . import peers
from .child import Order, inbox, obey, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

STAMP = struct.Struct("<q")
UNSTAMPED = STAMP.pack(0)
GLANCE_SECONDS = 0.1


class Tally:
    """What one subscriber received in the present phase."""

    def __init__(self) -> None:
        self.take: Callable[[bytes], None] = self._ignore
        self._got = self._expected = self._last_ns = 0
        self._cpu = 0.0
        self._latencies: list[int] = []
        self._finished = threading.Event()

    def arm(self, phase: str, expected: int) -> None:
        self._finished.clear()
        self._got, self._expected, self._last_ns = 0, expected, time.monotonic_ns()
        self._latencies = []
        self._cpu = time.process_time()
        self.take = self._measure if phase == "paced" else self._count

    def wait(self, quiet_seconds: float) -> None:
        """Until all have come, or none has for so long that the rest is lost."""
        seen = 0
        while not self._finished.wait(GLANCE_SECONDS):
            now = time.monotonic_ns()
            if self._got > seen:
                seen, self._last_ns = self._got, now
            elif now - self._last_ns > quiet_seconds * 1e9:
                break
        self.take = self._ignore

    def report(self) -> dict[str, Any]:
        return {
            "got": self._got,
            "last_ns": self._last_ns,
            "cpu": time.process_time() - self._cpu,
            "latencies": self._latencies,
        }

    def _ignore(self, payload: bytes) -> None:
        pass

    def _count(self, payload: bytes) -> None:
        self._got += 1
        if self._got == self._expected:
            self._finish()

    def _measure(self, payload: bytes) -> None:
        now = time.monotonic_ns()
        (stamp,) = STAMP.unpack_from(payload)
        if not stamp:
            return  # A straggler of the burst.
        self._latencies.append(now - stamp)
        self._count(payload)

    def _finish(self) -> None:
        self._last_ns = time.monotonic_ns()
        self._finished.set()


def subscribe(peer: peers.Peer, address: str) -> None:
    tally = Tally()

    def follow(order: Order) -> None:
        if order["do"] == "collect":
            say(**tally.report())
            return
        _switch(peer, order)
        tally.arm(order["do"], order["count"])
        say(armed=True)
        tally.wait(order["quiet"])
        say(finished=True)

    obey(follow)
    _run(peer, lambda: peer.subscriber(address, tally))


def publish(peer: peers.Peer, broker: str) -> None:
    in_thread: Any = trio.to_thread.run_sync if peer.LOOP == "trio" else asyncio.to_thread
    sleep: Any = trio.sleep if peer.LOOP == "trio" else asyncio.sleep
    next_order = inbox()

    async def main() -> None:
        cpu = 0.0
        async with peer.publisher(broker) as publisher:
            say(address=publisher.address)
            while True:
                order = await in_thread(next_order)
                if order["do"] == "collect":
                    say(cpu=time.process_time() - cpu)
                    continue
                _switch(peer, order)
                cpu = time.process_time()
                began = time.monotonic_ns()
                await _perform(order, publisher, sleep)
                say(began_ns=began)

    _run(peer, main)


def _switch(peer: peers.Peer, order: Order) -> None:
    """Some orders say that from now on a system traces, or does not: only overlaymq knows what to do."""
    if "traced" in order:
        peer.switch(order["traced"])  # type: ignore[attr-defined]


async def _perform(order: Order, publisher: peers.Publisher, sleep: Any) -> None:
    if order["do"] == "meet":
        await publisher.wait_subscribers(order["count"])
    elif order["do"] == "probe":
        await publisher.send(_payload(UNSTAMPED, order["size"]))
    elif order["do"] == "burst":
        await publisher.burst(_payload(UNSTAMPED, order["size"]), order["count"])
    else:
        await _pace(order, publisher, sleep)


async def _pace(order: Order, publisher: peers.Publisher, sleep: Any) -> None:
    start = time.monotonic()
    for number in range(order["count"]):
        early = start + number / order["rate"] - time.monotonic()
        if early > 0:
            await sleep(early)
        await publisher.send(_payload(STAMP.pack(time.monotonic_ns()), order["size"]))


def _payload(stamp: bytes, size: int) -> bytes:
    return stamp.ljust(size, b"x")


def _run(peer: peers.Peer, main: Callable[[], Awaitable[None]]) -> None:
    if peer.LOOP == "trio":
        trio.run(main)
    else:
        asyncio.run(_as_coroutine(main))


async def _as_coroutine(main: Callable[[], Awaitable[None]]) -> None:
    await main()


if __name__ == "__main__":
    role, system, variant, address = sys.argv[1:]
    {"publisher": publish, "subscriber": subscribe}[role](peers.load(system, variant), address)
