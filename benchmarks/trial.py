"""One system at one payload size, once: a publisher, its subscribers, perhaps a broker.

The same processes serve all phases. First probes go out until every subscriber has seen one, which
answers for every system alike whether it is ready. Then the burst, then the paced messages.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import peers
from .harness import Child, Crew, crew, quantile

if TYPE_CHECKING:
    from .peers import Broker

START_SECONDS = 60.0
QUIET_SECONDS = 5.0
PROBE_INTERVAL_SECONDS = 0.05
# Lets the probes still on their way arrive before counting begins.
SETTLE_SECONDS = 0.3
TRIAL_SECONDS = 240.0


@dataclass(frozen=True)
class Plan:
    system: str
    variant: str
    size: int
    subscribers: int
    messages: int
    paced_messages: int
    paced_rate: float

    @property
    def name(self) -> str:
        """As it is called in tables."""
        return f"{self.system} {self.variant}".strip()


@dataclass(frozen=True)
class Figures:
    deliveries_per_second: float
    bytes_per_second: float
    cpu_per_million: float
    p50_ms: float
    p99_ms: float
    loss: int


@dataclass(frozen=True)
class Phase:
    """What all processes together did in one phase."""

    seconds: float
    got: int
    lost: int
    cpu: float
    latencies: list[int]


class Trial:
    def __init__(self, plan: Plan, processes: Crew) -> None:
        self._plan = plan
        self._crew = processes
        self._broker: Child | None = None
        self._publisher: Child
        self._subscribers: list[Child]

    async def run(self) -> Figures:
        await self._start()
        await self._probe()
        plan = self._plan
        burst = await self._phase("burst", count=plan.messages)
        paced = await self._phase("paced", count=plan.paced_messages, rate=plan.paced_rate)
        latencies = sorted(nanoseconds / 1e6 for nanoseconds in paced.latencies)
        return Figures(
            deliveries_per_second=burst.got / burst.seconds,
            bytes_per_second=burst.got * plan.size / burst.seconds,
            cpu_per_million=burst.cpu * 1e6 / max(burst.got, 1),
            p50_ms=quantile(latencies, 0.5) if latencies else float("nan"),
            p99_ms=quantile(latencies, 0.99) if latencies else float("nan"),
            loss=burst.lost + paced.lost,
        )

    async def _start(self) -> None:
        system, variant = self._plan.system, self._plan.variant
        broker = peers.load_broker(system)
        broker_address = await self._start_broker(broker) if broker else ""
        self._publisher = await self._crew.start_python(
            "publisher", "benchmarks.worker", "publisher", system, variant, broker_address
        )
        address = (await self._publisher.hear(START_SECONDS))["address"]
        self._subscribers = [
            await self._crew.start_python(
                f"subscriber-{number}", "benchmarks.worker", "subscriber", system, variant, address
            )
            for number in range(self._plan.subscribers)
        ]

    async def _start_broker(self, broker: Broker) -> str:
        folder = self._crew.folder
        self._broker = await self._crew.start("broker", broker.broker_command(folder))
        async with asyncio.timeout(START_SECONDS):
            while not (address := broker.broker_address(folder)):
                self._broker.check_alive()
                await asyncio.sleep(0.05)
        return address

    async def _probe(self) -> None:
        await self._arm("probe", count=1, quiet=START_SECONDS)
        await self._publisher.ask("meet", START_SECONDS, count=self._plan.subscribers)
        all_reached = asyncio.ensure_future(self._finished(START_SECONDS))
        while not all_reached.done():
            await self._publisher.ask("probe", size=self._plan.size)
            await asyncio.wait([all_reached], timeout=PROBE_INTERVAL_SECONDS)
        await all_reached
        if sum(report["got"] for report in await self._collect()) < self._plan.subscribers:
            raise TimeoutError(f"some subscribers saw no probe in {START_SECONDS:g} s")
        await asyncio.sleep(SETTLE_SECONDS)

    async def _phase(self, kind: str, *, count: int, **details: float) -> Phase:
        await self._arm(kind, count=count, quiet=QUIET_SECONDS, **details)
        broker_cpu = self._broker.cpu_seconds() if self._broker else 0.0
        sent = await self._publisher.ask(
            kind, TRIAL_SECONDS, count=count, size=self._plan.size, **details
        )
        await self._finished(TRIAL_SECONDS)
        if self._broker:
            broker_cpu = self._broker.cpu_seconds() - broker_cpu
        reports = await self._collect()
        publisher_cpu = (await self._publisher.ask("collect"))["cpu"]
        got = sum(report["got"] for report in reports)
        return Phase(
            seconds=(max(report["last_ns"] for report in reports) - sent["began_ns"]) / 1e9,
            got=got,
            lost=count * self._plan.subscribers - got,
            cpu=publisher_cpu + broker_cpu + sum(report["cpu"] for report in reports),
            latencies=[latency for report in reports for latency in report["latencies"]],
        )

    async def _arm(self, kind: str, **details: float) -> None:
        await asyncio.gather(
            *(child.ask(kind, START_SECONDS, **details) for child in self._subscribers)
        )

    async def _finished(self, seconds: float) -> None:
        await asyncio.gather(*(child.hear(seconds) for child in self._subscribers))

    async def _collect(self) -> list[dict[str, Any]]:
        return await asyncio.gather(*(child.ask("collect") for child in self._subscribers))


async def run_trial(plan: Plan) -> Figures:
    async with asyncio.timeout(TRIAL_SECONDS), crew() as processes:
        return await Trial(plan, processes).run()
