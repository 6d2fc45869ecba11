"""Rings for the tests of Pastry's parts."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from overlaymq.events import Dropped, JoinRejected
from overlaymq.ids import Id
from overlaymq.sim.network import ConstantDelay
from overlaymq.sim.ring import Ring

if TYPE_CHECKING:
    from overlaymq.config import PastryConfig
    from overlaymq.events import Event
    from overlaymq.messages import Peer
    from overlaymq.sim.engine import Host
    from overlaymq.sim.faults import Faults
    from overlaymq.sim.network import NetworkModel


class WatchedRing(Ring):
    """A ring that keeps what its nodes were told."""

    def __init__(
        self,
        count: int = 0,
        seed: int = 1,
        network: NetworkModel | None = None,
        config: PastryConfig | None = None,
        faults: Faults | None = None,
    ) -> None:
        super().__init__(seed, network or ConstantDelay(), config, faults)
        self.drops: collections.Counter[str] = collections.Counter()
        self.rejected: list[str] = []
        self.simulation.on_notify = self._noted
        self.grow(count)
        assert self.settle()

    def _noted(self, host: Host, event: Event) -> None:
        if isinstance(event, Dropped):
            self.drops[event.reason] += event.messages
        elif isinstance(event, JoinRejected):
            self.rejected.append(host.peer.address)

    def run(self, seconds: float) -> None:
        self.simulation.run_until(self.simulation.now + seconds)

    def peers(self) -> list[Peer]:
        """Clockwise."""
        return [self.nodes[id_].pastry.me for id_ in self.ids()]

    def assert_exact(self) -> None:
        assert self.wrong_leaf_sets() == []
        keys = [Id(self.random.getrandbits(128)) for _ in range(50)]
        assert self.wrong_owners(keys) == []

    def assert_lookups(self, count: int = 200, over: float = 2.0, wait: float = 5.0) -> None:
        requests = self.random_lookups(count, over)
        self.run(wait)
        self.assert_right(requests)

    def assert_right(self, requests: list[int]) -> None:
        ids = self.ids()
        for request in requests:
            ends = {end.at.id for end in self.deliveries.get(request, [])}
            assert ends == {self.owner(self.keys[request], ids)}

    def assert_none_wrong(self, requests: list[int]) -> None:
        ids = self.ids()
        for request in requests:
            for end in self.deliveries.get(request, []):
                assert end.at.id == self.owner(self.keys[request], ids)
