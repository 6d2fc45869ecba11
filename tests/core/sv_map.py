"""A bench whose routes are drawn by hand, for the SV paper's figures: nodes have names and a next hop."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec

from overlaymq import ids
from overlaymq.config import SvConfig
from overlaymq.core.dissemination.conformance_bench import TOPIC, Bench, OnItsWay, Seat
from overlaymq.core.dissemination.sv import Sv
from overlaymq.events import Route
from overlaymq.messages import Peer, SvJoin

if TYPE_CHECKING:
    from overlaymq.ids import Id
    from overlaymq.messages import Message


class Map(Bench):
    """``Map("S1>N1 N1>R")``: S1's next hop is N1, whose next hop is R, the root."""

    def __init__(self, routes: str, seed: int = 0, willing: str = "") -> None:
        super().__init__(Sv, Random(seed), size=0, name="sv")
        self.next = dict(pair.split(">") for pair in routes.split())
        self.willing = willing.split()
        self.sv_config = SvConfig()
        self.joins: list[tuple[str, str, SvJoin]] = []
        """Joins and probes: from whom, to whom."""
        for name in dict.fromkeys([*self.next, *self.next.values()]):
            id_ = TOPIC if name == "R" else ids.hashed(name.encode())
            self.seats[id_] = Seat(Peer(id_, name))

    def seat(self, name: str) -> Seat:
        return next(seat for seat in self.seats.values() if seat.peer.address == name)

    def sv(self, name: str) -> Sv:
        strategy = self._strategy(self.seat(name))
        assert isinstance(strategy, Sv)
        return strategy

    def join(self, *names: str) -> None:
        """One after the other subscribes and is fed."""
        for name in names:
            self.subscribe(self.seat(name))
            self.settle()

    def parent(self, name: str) -> str | None:
        above = self.sv(name).parent
        return None if above is None else above.address

    def rpf_children(self, name: str) -> set[str]:
        return {peer.address for peer in self.sv(name).rpf_children}

    def group_of(self, name: str) -> set[str]:
        """Who is in the failure group of a node's link."""
        link = self.sv(name).link
        assert link is not None
        return {peer.address for peer in self._groups[link].installed.values()}

    def sent_to(self, source: str) -> set[str]:
        """To whom a node has sent joins or probes."""
        return {target for one, target, _ in self.joins if one == source}

    def _check_owner(self, seat: Seat) -> None:
        """Only the root knows that it is."""
        if seat.strategy is not None and seat is self.owner and seat.owner != seat.peer:
            seat.owner = seat.peer
            self._perform(seat, seat.strategy.root_changed(seat.peer, self.now))

    def _strategy(self, seat: Seat) -> Sv:
        new = seat.strategy is None
        strategy = super()._strategy(seat)
        assert isinstance(strategy, Sv)
        if new:
            strategy.around = msgspec.structs.replace(strategy.around, sv=self.sv_config)
        if new and seat.peer.address in self.willing:
            strategy.around = msgspec.structs.replace(strategy.around, willing=True)
        return strategy

    def volunteer(self, name: str, willing: bool = True) -> None:
        """A node volunteers, or stops."""
        self._perform(self.seat(name), self.sv(name).volunteer(willing, self.now))
        self.settle()

    def _hop(self, seat: Seat, what: OnItsWay) -> None:
        there = self.seat(self.next[seat.peer.address]).peer
        message: Message | None = what.route.message
        if seat.strategy is not None or isinstance(message, SvJoin):
            new = seat.strategy is None
            message, effects = self._strategy(seat).forward(what.route.message, there, self.now)
            self._perform(seat, effects)
            if new:
                self._forget_if_idle(seat)
        if message is not None:
            self._put(seat.peer.id, there.id, OnItsWay(Route(what.route.key, message), what.source))

    def _put(self, source: Id, target: Id, what: object) -> None:
        message = what.route.message if isinstance(what, OnItsWay) else what
        if isinstance(message, SvJoin):
            names = (self.seats[source].peer.address, self.seats[target].peer.address)
            self.joins.append((*names, message))
        super()._put(source, target, what)  # type: ignore[arg-type]
