"""What the Scribe experiments measure of one network, and the rows and figures made of several.

The paper's results are "the average of the results obtained with each topology" (JSAC IV.A). So every figure
is worked out for each network and the mean is taken; a maximum is the mean of the maxima. Beside each maximum
the largest of all networks is shown, as the paper's words allow that reading too. A ratio of two figures is
that of their means, as the paper's are (4031 over 950 for the links that carry most). Spreads over networks
are standard deviations of the counts in each bin of a figure, averaged over the bins: our reading of the
captions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overlaymq.sim.experiments.base import Curve, Row, Series, cdf, histogram
from overlaymq.sim.published import TARGETS, row
from overlaymq.sim.published_strategies import PAPER_LAN_LINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overlaymq.sim.scribe_world import Multicast, World
    from overlaymq.sim.topology.graph import Floats, Indexes

CDF_STEP = 0.05
"""The grid on which the spread of the cumulative figures is taken: a guess."""
MOST_POINTS = 600
"""Points of a cumulative curve that are kept: a guess, finer than any screen."""


class Found(msgspec.Struct, kw_only=True):
    """What one network gave. Arrays over groups, members of the first, nodes, and directed links."""

    sizes: Sequence[int]
    average_penalty: Floats
    worst_penalty: Floats
    member_penalty: Floats
    tables: Indexes
    entries: Indexes
    scribe: Indexes
    joins: Indexes
    ip: Indexes
    core_links: int
    naive_max: float
    faulty: int
    """Trees with something wrong, or a message that did not take exactly one transmission per edge."""
    events: int

    @property
    def paper_links(self) -> int:
        """How many links the paper would count."""
        return PAPER_LAN_LINKS + self.core_links


KINDS: dict[str, Callable[[Found], Indexes]] = {
    "Scribe": lambda one: one.scribe,
    "IP multicast": lambda one: one.ip,
}
PENALTIES: dict[str, Callable[[Found], Floats]] = {
    "RAD": lambda one: one.average_penalty,
    "RMD": lambda one: one.worst_penalty,
}
"""Of each group."""


class Penalties:
    """Delays of the groups' messages, gathered as they are sent."""

    def __init__(self) -> None:
        self.average: list[float] = []
        self.worst: list[float] = []
        self.members: Floats | None = None

    def add(self, multicast: Multicast) -> None:
        """One more group; the first is the largest, whose members are looked at one by one."""
        if not len(multicast.by_ip):
            return
        if self.members is None:
            self.members = multicast.by_tree / multicast.by_ip
        self.average.append(multicast.average_penalty)
        self.worst.append(multicast.worst_penalty)


def gather(world: World, penalties: Penalties, faulty: int, naive_max: float) -> Found:
    """Everything that is measured once all messages have been sent."""
    tables, entries = world.node_stress()
    assert penalties.members is not None
    return Found(
        sizes=[len(group.members) for group in world.groups],
        average_penalty=np.array(penalties.average),
        worst_penalty=np.array(penalties.worst),
        member_penalty=penalties.members,
        tables=tables,
        entries=entries,
        scribe=world.batches.per_link(),
        joins=world.joins.per_link(),
        ip=world.ip_stress(),
        core_links=2 * len(world.network.topology.links),
        naive_max=naive_max,
        faulty=faulty,
        events=world.simulation.events,
    )


class Rows:
    """Rows of figures over several networks. Ranges hold only at the size that was published."""

    def __init__(self, found: Sequence[Found], judged: bool) -> None:
        self._found = found
        self._judged = judged
        self.rows: list[Row] = []

    def add(self, key: str, measured: float, *, always: bool = False) -> None:
        """A value that is one already; ``always``: its range holds at any size."""
        made = row(key, measured)
        if not (always or self._judged):
            made = msgspec.structs.replace(made, low=None, high=None)
        self.rows.append(made)

    def mean(self, key: str, of: Callable[[Found], float]) -> None:
        """The mean over networks."""
        self.add(key, float(np.mean([of(one) for one in self._found])))

    def ratio(self, key: str, of: Callable[[Found], float], over: Callable[[Found], float]) -> None:
        """The mean of one figure over the mean of another."""
        upper, lower = (np.mean([float(which(one)) for one in self._found]) for which in (of, over))
        self.add(key, float(upper / lower))

    def largest(self, key: str, of: Callable[[Found], float]) -> None:
        """The mean of a maximum, and the largest of all."""
        self.mean(key, of)
        if len(self._found) > 1:
            metric = f"{TARGETS[key].metric}, the largest of all networks"
            highest = max(float(of(one)) for one in self._found)
            made = row(key, highest, metric=metric)
            self.rows.append(msgspec.structs.replace(made, low=None, high=None))


# --- delay -----------------------------------------------------------------------------------------


def delay_rows(rows: Rows, found: Sequence[Found]) -> None:
    """Fig 7, and section IV.B."""
    rows.mean("SC-5", lambda one: float(np.median(one.average_penalty)))
    rows.mean("SC-6", lambda one: float(np.median(one.worst_penalty)))
    rows.largest("SC-7", lambda one: float(one.average_penalty.max()))
    rows.largest("SC-8", lambda one: float(one.worst_penalty.max()))
    if len({len(one.average_penalty) for one in found}) == 1 < len(found):
        for median, largest, penalty in (("SC-5", "SC-7", "RAD"), ("SC-6", "SC-8", "RMD")):
            by_rank = np.mean([PENALTIES[penalty](one) for one in found], axis=0)
            rows.add(f"{median}/rank", float(np.median(by_rank)))
            rows.add(f"{largest}/rank", float(by_rank.max()))
    if len(found) > 1:
        rows.add("SC-9/RAD", spread_of_cdf([one.average_penalty for one in found]))
        rows.add("SC-9/RMD", spread_of_cdf([one.worst_penalty for one in found]))
    rows.mean("SC-10", lambda one: float(one.member_penalty.mean()))
    rows.mean("SC-11", lambda one: float(np.median(one.member_penalty)))
    rows.mean("SC-12", lambda one: float((one.member_penalty < 2.25).mean()))
    rows.mean("SC-13", lambda one: float((one.member_penalty < 4).mean()))
    rows.mean("SC-14", lambda one: float((one.member_penalty < 1).mean()))


def delay_series(found: Sequence[Found]) -> dict[str, Series]:
    """Fig 7, and the delay penalties of the largest group's members."""
    average = np.concatenate([one.average_penalty for one in found])
    worst = np.concatenate([one.worst_penalty for one in found])
    members = np.concatenate([one.member_penalty for one in found])
    return {
        "delay": Series(
            title="Delay penalty relative to IP multicast per group",
            x_label="delay penalty",
            y_label="share of groups",
            curves={"RAD": thinned(cdf(average.tolist())), "RMD": thinned(cdf(worst.tolist()))},
            kind="cdf",
        ),
        "members": Series(
            title="Delay penalty of the members of the largest group",
            x_label="RDP",
            y_label="share of members",
            curves={"RDP": thinned(cdf(members.tolist()))},
            kind="cdf",
            log_x=True,
        ),
    }


# --- node stress -----------------------------------------------------------------------------------


def node_rows(rows: Rows, found: Sequence[Found]) -> None:
    """Fig 8 and 9."""
    rows.mean("SC-15/mean", lambda one: float(one.tables.mean()))
    rows.mean("SC-15/median", lambda one: float(np.median(one.tables)))
    rows.largest("SC-15/max", lambda one: float(one.tables.max()))
    rows.mean("SC-17/mean", lambda one: float(one.entries.mean()))
    rows.mean("SC-17/median", lambda one: float(np.median(one.entries)))
    rows.largest("SC-17/max", lambda one: float(one.entries.max()))
    if len(found) > 1:
        rows.add("SC-16", spread_of_bins([one.tables for one in found]))
        rows.add("SC-18", spread_of_bins([one.entries for one in found]))


def node_series(found: Sequence[Found]) -> dict[str, Series]:
    """Fig 8 and 9."""
    tables = np.concatenate([one.tables for one in found])
    entries = np.concatenate([one.entries for one in found])
    return {
        "tables": node_figure("Children tables per node", {"Scribe": tables}),
        "entries": node_figure("Children table entries per node", {"Scribe": entries}),
    }


def node_figure(title: str, counts: dict[str, Indexes]) -> Series:
    """A distribution over nodes."""
    return Series(
        title=title,
        x_label="number",
        y_label="share of nodes",
        curves={name: present(histogram(values.tolist())) for name, values in counts.items()},
    )


# --- link stress -----------------------------------------------------------------------------------


def link_rows(rows: Rows, found: Sequence[Found]) -> None:
    """Fig 10, and section IV.D."""
    rows.mean("SC-19", lambda one: one.paper_links)
    for kind, of in KINDS.items():
        _kind_rows(rows, kind, of)
        if len(found) > 1:
            rows.add(f"SC-24/{kind}", spread_of_bins([of(one)[of(one) > 0] for one in found]))
    rows.ratio("SC-20/ratio", lambda one: one.scribe.sum(), lambda one: one.ip.sum())
    rows.ratio("SC-23/ratio", lambda one: one.scribe.max(), lambda one: one.ip.max())
    rows.mean("SC-25", lambda one: one.naive_max)
    rows.ratio("SC-26", lambda one: one.joins.sum(), lambda one: one.scribe.sum())
    rows.ratio("SC-26/max", lambda one: one.joins.max(), lambda one: one.scribe.max())


def _kind_rows(rows: Rows, kind: str, of: Callable[[Found], Indexes]) -> None:
    rows.mean(f"SC-20/{kind}", lambda one: float(of(one).sum()))
    rows.mean(f"SC-21/{kind}", lambda one: float(of(one).sum() / one.paper_links))
    rows.mean(f"SC-21/{kind}, real", lambda one: float(of(one).mean()))
    rows.mean(f"SC-22/{kind}", lambda one: padded_median(of(one), one.paper_links))
    rows.largest(f"SC-23/{kind}", lambda one: float(of(one).max()))


def link_series(found: Sequence[Found]) -> dict[str, Series]:
    """Fig 10; links without stress left out, as there."""
    curves = {
        "Scribe": np.concatenate([one.scribe for one in found]),
        "Scribe, joining": np.concatenate([one.joins for one in found]),
        "IP multicast": np.concatenate([one.ip for one in found]),
    }
    return {"links": link_figure(curves, len(found))}


def link_figure(stress: dict[str, Indexes], networks: int) -> Series:
    """How many links have each stress but none, in one network."""
    curves = {}
    for name, values in stress.items():
        numbers, counts = np.unique(values[values > 0], return_counts=True)
        curves[name] = Curve(numbers.tolist(), (counts / networks).tolist())
    return Series(
        title="Link stress",
        x_label="messages over a link",
        y_label="links",
        curves=curves,
        log_x=True,
    )


# --- helpers ---------------------------------------------------------------------------------------


def padded_median(stress: Indexes, links: int) -> float:
    """The median over so many links, those that do not exist being idle."""
    idle = max(links - len(stress), 0)
    return float(np.median(np.concatenate((stress, np.zeros(idle, np.int64)))))


def spread_of_cdf(values: Sequence[Floats]) -> float:
    """How much the number of groups below a penalty differs between networks, averaged over penalties."""
    low = min(float(one.min()) for one in values)
    high = max(float(one.max()) for one in values)
    grid = np.arange(low, high, CDF_STEP)
    counts = np.array([np.searchsorted(np.sort(one), grid, side="right") for one in values])
    return float(counts.std(axis=0).mean())


def spread_of_bins(values: Sequence[Indexes]) -> float:
    """How much the height of a bin differs between networks, averaged over the bins."""
    bins = 1 + max(int(one.max()) for one in values)
    counts = np.array([np.bincount(one, minlength=bins) for one in values])
    return float(counts.std(axis=0).mean())


def present(curve: Curve) -> Curve:
    """Without what never happens."""
    pairs = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y > 0]
    return Curve([x for x, _ in pairs], [y for _, y in pairs])


def thinned(curve: Curve) -> Curve:
    """With at most so many points, evenly from the first to the last."""
    count = len(curve.x)
    if count <= MOST_POINTS:
        return curve
    kept = np.unique(np.linspace(0, count - 1, MOST_POINTS).astype(int)).tolist()
    return Curve([curve.x[index] for index in kept], [curve.y[index] for index in kept])
