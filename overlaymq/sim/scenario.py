"""Scenarios: what is asked of a network and what goes wrong meanwhile, and the schedule a seed makes of it.

A ``Scenario`` is a TOML file: workload x faults x seeds. Its values may be ranges, ``[low, high]``, of
which each seed draws one. ``resolve(scenario, seed)`` gives the ``Plan``: a concrete schedule of actions at
virtual times on nodes known by number, with nothing left to chance but what the plan's seed decides inside
the run. A plan is a TOML file as well, so a failing one can be made smaller and kept (``shrink``).

A node's id follows from the plan's seed and its number alone. So the planner knows who is next to whom on
the ring (for adjacent crashes), and a plan from which nodes were taken leaves the others where they were.

Everything is drawn from ``Random`` objects that are named by the scenario and the seed: the same pair gives
the same plan on every machine.

Departures keep ``MIN_UP`` nodes up, because a fault seed counts only with 64 nodes (design, section 8).
Nobody joins or returns from the moment a partition ends until the rings had time to merge: the
newcomer would be a member of an accidental one of them, and no check could tell of which.
"""

from __future__ import annotations

import tomllib
from heapq import heapify, heappop, heappush
from importlib import resources
from math import log
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from overlaymq.config import PastryConfig
from overlaymq.errors import ConfigError
from overlaymq.ids import Id, hashed

MIN_UP = 66
"""Two more than the 64 that a counted seed needs: two planned departures may be in one instant."""
RETURN_AFTER = (1.0, 30.0)
"""Seconds between a crash and the return: within and after the time detection takes. A guess."""
SPLIT_KEPT = 5.0
"""Nobody joins so shortly before a partition, for the same reason as after one."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(ge=0)]
Range: TypeAlias = float | tuple[float, float]
Decoded = TypeVar("Decoded")
Wish: TypeAlias = tuple[float, str, int]
"""A time, what is to happen, and to whom: -1 leaves that to chance."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a scenario's file; unknown keys are errors."""


class NetworkSection(Section, frozen=True, kw_only=True):
    """Who is how far from whom. ``delay``: one way, in a constant network; across a plane; or of a mean
    physical link in a transit-stub network of 78 routers, where a way has about five."""

    model: Literal["constant", "plane", "transit-stub"] = "constant"
    delay: Range = 0.02


class Workload(Section, frozen=True, kw_only=True):
    """What happens on purpose, or at least in the course of nature."""

    lookups_per_second: Range = 20.0
    hot_share: Range = 0.0
    """Share of the lookups whose key is near a node that has just come or gone; the others are uniform."""
    joins: Range = 0
    join_burst: Range = 0
    """That many nodes more join within a second (a flash crowd)."""
    crashes: Range = 0
    adjacent_crashes: Range = 0
    """How many groups of neighbours on the ring crash, each group at once."""
    adjacent: Range = 2
    """How many nodes such a group has; a leaf set survives l/2 - 1 (Pastry Middleware 2001)."""
    leaves: Range = 0
    returned: Range = 0.0
    """Share of the departed nodes that come back with a larger incarnation."""
    half_life: Range = 0.0
    """Seconds in which half of the nodes go, and as many new ones come; 0: nobody does."""
    graceful: Range = 0.2
    """Share of those that say goodbye."""


class Partition(Section, frozen=True, kw_only=True):
    """A part of the nodes is cut off, from ``at`` for ``lasts`` seconds. One-way: it is heard no more."""

    at: Range
    lasts: Range
    share: Range = 0.3
    one_way: bool = False
    groups: Range = 0
    """If any: not a share of all, but that many groups of neighbours on the ring,"""
    adjacent: Range = 8
    """of so many nodes each; a leaf set survives l/2 - 1 (Pastry Middleware 2001),"""
    between: Range = 4
    """with so many left between two groups."""


class FaultSection(Section, frozen=True, kw_only=True):
    """What goes wrong with messages (all the time) and nodes (at times)."""

    loss: Range = 0.0
    duplication: Range = 0.0
    reordering: Range = 0.0
    jitter: Range = 0.0
    link_break: Range | None = None
    slow_nodes: Range = 0
    """How many slowdowns; each is of one node and for a while."""
    slowness: Range = 0.1
    """Seconds a slow node takes for an input."""
    slow_seconds: Range = 10.0
    skew: Range = 0.0
    """Clock rates differ from 1 by up to this, either way."""
    partitions: tuple[Partition, ...] = ()


class Scenario(Section, frozen=True, kw_only=True):
    """The whole file."""

    about: str
    system: Literal["pastry"] = "pastry"
    nodes: Range = 80
    seconds: Range = 90.0
    """How long the workload and the faults last."""
    quiet: float = 90.0
    """How long after them the ring must be exact again: the stated time of the quiet checks."""
    merge: float = 0.0
    """How long after a partition the rings must be one again: the stated time of healing."""
    invariants: tuple[str, ...]
    network: NetworkSection = NetworkSection()
    workload: Workload = Workload()
    faults: FaultSection = FaultSection()
    pastry: dict[str, Any] = {}
    """Settings of the ring that differ from the defaults."""


# --- plans -----------------------------------------------------------------------------------------

Deed = Literal["join", "crash", "leave", "return", "slow", "skew", "part", "one-way", "heal"]


class Action(Section, frozen=True, kw_only=True, omit_defaults=True):
    """At a time, something happens to a node, or to a group of nodes."""

    at: Positive
    do: Deed
    node: int = -1
    nodes: tuple[int, ...] = ()
    value: float = 0.0


class Plan(Section, frozen=True, kw_only=True):
    """A scenario and a seed, resolved."""

    scenario: str
    seed: int
    system: Literal["pastry"] = "pastry"
    nodes: Annotated[int, msgspec.Meta(ge=1)]
    """Numbers 0 to one less are there from the start,"""
    absent: tuple[int, ...] = ()
    """but for these."""
    seconds: Positive
    quiet: Positive
    merge: Positive = 0.0
    invariants: tuple[str, ...]
    lookups_per_second: Positive
    hot_share: Share = 0.0
    model: Literal["constant", "plane", "transit-stub"] = "constant"
    delay: Positive
    loss: Share = 0.0
    duplication: Share = 0.0
    reordering: Share = 0.0
    jitter: Positive = 0.0
    link_break: float | None = None
    pastry: dict[str, Any] = {}
    actions: tuple[Action, ...] = ()


def node_id(seed: int, number: int) -> Id:
    """The id of a plan's node."""
    return hashed(b"overlaymq scenario node", str(seed).encode(), str(number).encode())


def resolve(scenario: Scenario, name: str, seed: int, nodes: int | None = None) -> Plan:
    """The schedule of one seed; ``nodes`` overrides the size, for small trials.

    ``name`` is a scenario's or a file's. Chance is named by it without its path, or else a seed that fails
    in one place would be another one elsewhere.
    """
    return Planner(scenario, Path(name).stem, seed, nodes).plan()


class Planner:
    """Draws a plan. ``up`` are the numbers of the nodes that run, as far as the plan has got."""

    def __init__(self, scenario: Scenario, name: str, seed: int, nodes: int | None) -> None:
        self.scenario = scenario
        self.name = name
        self.seed = seed
        self.size = nodes or round(self._draw("nodes", scenario.nodes))
        self.min_up = min(MIN_UP, max(2, self.size - 2))
        self.seconds = self._draw("seconds", scenario.seconds)
        self.up = list(range(self.size))
        self.wishes: list[Wish] = []
        self.next_number = self.size
        self.actions: list[Action] = []
        self.partitions = [self._partition(i) for i in range(len(scenario.faults.partitions))]

    def plan(self) -> Plan:
        """All of it."""
        faults, workload, scenario = self.scenario.faults, self.scenario.workload, self.scenario
        self.wishes = self._wishes()
        heapify(self.wishes)
        while self.wishes:
            self._grant(*heappop(self.wishes))
        self._slowdowns()
        self._skews()
        self._cut()
        self.actions.sort(key=lambda action: action.at)
        return Plan(
            scenario=self.name,
            seed=self.seed,
            system=scenario.system,
            nodes=self.size,
            seconds=self.seconds,
            quiet=scenario.quiet,
            merge=scenario.merge,
            invariants=scenario.invariants,
            lookups_per_second=self._draw("lookups", workload.lookups_per_second),
            hot_share=self._draw("hot", workload.hot_share),
            model=scenario.network.model,
            delay=self._draw("delay", scenario.network.delay),
            loss=self._draw("loss", faults.loss),
            duplication=self._draw("duplication", faults.duplication),
            reordering=self._draw("reordering", faults.reordering),
            jitter=self._draw("jitter", faults.jitter),
            link_break=None
            if faults.link_break is None
            else self._draw("link_break", faults.link_break),
            pastry=scenario.pastry,
            actions=tuple(self.actions),
        )

    # --- chance ------------------------------------------------------------------------------------

    def _random(self, what: str) -> Random:
        return Random(f"overlaymq scenario {self.name} {self.seed} {what}")

    def _draw(self, what: str, value: Range) -> float:
        if not isinstance(value, tuple):
            return round(float(value), 6)
        return round(self._random(what).uniform(*value), 6)

    def _times(self, what: str, count: float) -> list[float]:
        random = self._random(f"{what} times")
        return [round(random.uniform(0, self.seconds), 3) for _ in range(round(count))]

    # --- who comes and goes ------------------------------------------------------------------------

    def _wishes(self) -> list[Wish]:
        workload = self.scenario.workload
        wishes: list[Wish] = []
        for what, count in (
            ("join", workload.joins),
            ("crash", workload.crashes),
            ("leave", workload.leaves),
            ("adjacent", workload.adjacent_crashes),
        ):
            wishes += [(at, what, -1) for at in self._times(what, self._draw(what, count))]
        burst = round(self._draw("burst", workload.join_burst))
        random = self._random("burst times")
        start = random.uniform(0, self.seconds / 2)
        wishes += [(round(start + random.random(), 3), "join", -1) for _ in range(burst)]
        return wishes + self._churn()

    def _churn(self) -> list[Wish]:
        """Departures as of nodes with exponential sessions, and as many arrivals (protocols.md 1.9)."""
        half_life = self._draw("half_life", self.scenario.workload.half_life)
        if not half_life:
            return []
        graceful = self._draw("graceful", self.scenario.workload.graceful)
        random = self._random("churn")
        rate = self.size * log(2) / half_life
        wishes: list[Wish] = []
        for arrival in (False, True):
            at = random.expovariate(rate)
            while at < self.seconds:
                departure = "leave" if random.random() < graceful else "crash"
                wishes.append((round(at, 3), "join" if arrival else departure, -1))
                at += random.expovariate(rate)
        return wishes

    def _grant(self, at: float, wish: str, node: int) -> None:
        random = self._random(f"grant {at} {wish} {len(self.actions)}")
        if wish == "join":
            self._join(at)
        elif wish == "return":
            self.actions.append(Action(at=at, do="return", node=node))
            self.up.append(node)
        elif wish == "adjacent":
            size = round(self._draw(f"adjacent {at}", self.scenario.workload.adjacent))
            for number in self._neighbours(random, size):
                self._depart(at, "crash", number, random)
        elif len(self.up) > self.min_up:
            number = self.up[random.randrange(len(self.up))]
            self._depart(at, "crash" if wish == "crash" else "leave", number, random)

    def _neighbours(self, random: Random, size: int) -> list[int]:
        if len(self.up) - size < self.min_up:
            return []
        ring = sorted(self.up, key=lambda number: node_id(self.seed, number))
        first = random.randrange(len(ring))
        return [ring[(first + step) % len(ring)] for step in range(size)]

    def _join(self, at: float) -> None:
        if self._merging(at):
            return
        self.actions.append(Action(at=at, do="join", node=self.next_number))
        self.up.append(self.next_number)
        self.next_number += 1

    def _depart(
        self, at: float, deed: Literal["crash", "leave"], number: int, random: Random
    ) -> None:
        self.actions.append(Action(at=at, do=deed, node=number))
        self.up.remove(number)
        back = round(at + random.uniform(*RETURN_AFTER), 3)
        returned = self._draw("returned", self.scenario.workload.returned)
        if random.random() < returned and back < self.seconds and not self._merging(back):
            heappush(self.wishes, (back, "return", number))

    # --- faults ------------------------------------------------------------------------------------

    def _slowdowns(self) -> None:
        faults = self.scenario.faults
        count = self._draw("slow", faults.slow_nodes)
        for index, at in enumerate(self._times("slow", count)):
            number = self._random(f"slow {index}").randrange(self.size)
            seconds = self._draw(f"slowness {index}", faults.slowness)
            end = at + self._draw(f"slow seconds {index}", faults.slow_seconds)
            self.actions.append(Action(at=at, do="slow", node=number, value=seconds))
            if end < self.seconds:
                self.actions.append(Action(at=round(end, 3), do="slow", node=number))

    def _skews(self) -> None:
        most = self._draw("skew", self.scenario.faults.skew)
        if most:
            random = self._random("rates")
            for number in range(self.next_number):
                rate = round(1 + random.uniform(-most, most), 6)
                self.actions.append(Action(at=0.0, do="skew", node=number, value=rate))

    def _partition(self, index: int) -> tuple[float, float]:
        partition = self.scenario.faults.partitions[index]
        at = self._draw(f"partition {index} at", partition.at)
        return at, at + self._draw(f"partition {index} lasts", partition.lasts)

    def _merging(self, at: float) -> bool:
        merge = self.scenario.merge
        return any(
            start - SPLIT_KEPT <= at <= start or end <= at <= end + merge
            for start, end in self.partitions
        )

    def _cut(self) -> None:
        for index, (start, end) in enumerate(self.partitions):
            partition = self.scenario.faults.partitions[index]
            if partition.groups:
                side = self._groups(index, start)
            else:
                random = self._random(f"partition {index} side")
                share = self._draw(f"partition {index} share", partition.share)
                # Nodes that come later have a side, too.
                side = tuple(n for n in range(self.next_number) if random.random() < share)
            deed: Deed = "one-way" if partition.one_way else "part"
            self.actions.append(Action(at=round(start, 3), do=deed, nodes=side))
            self.actions.append(Action(at=round(end, 3), do="heal"))

    def _groups(self, index: int, start: float) -> tuple[int, ...]:
        partition = self.scenario.faults.partitions[index]
        ring = sorted(self._up_at(start), key=lambda number: node_id(self.seed, number))
        at = self._random(f"partition {index} place").randrange(len(ring))
        side: list[int] = []
        for group in range(round(self._draw(f"partition {index} groups", partition.groups))):
            size = round(self._draw(f"partition {index} adjacent {group}", partition.adjacent))
            # In a small trial somebody must be left for newcomers to meet.
            size = min(size, 3 * len(ring) // 4 - len(side))
            side += [ring[(at + step) % len(ring)] for step in range(size)]
            at += size + round(self._draw(f"partition {index} between {group}", partition.between))
        return tuple(sorted(set(side)))

    def _up_at(self, time: float) -> set[int]:
        up = set(range(self.size))
        for action in sorted(self.actions, key=lambda action: action.at):
            if action.at < time and action.do in ("join", "return"):
                up.add(action.node)
            elif action.at < time and action.do in ("crash", "leave"):
                up.discard(action.node)
        return up


# --- files -----------------------------------------------------------------------------------------


def names() -> list[str]:
    """The scenarios that come with the package."""
    files = resources.files("overlaymq.sim") / "scenarios"
    return sorted(file.name[:-5] for file in files.iterdir() if file.name.endswith(".toml"))


def load(name: str) -> Scenario:
    """A scenario by its name, or from a file."""
    return _decoded(_read(name), Scenario, name)


def load_plan(path: str) -> Plan:
    """A plan from a file."""
    return _decoded(_read(path), Plan, path)


def is_plan(name: str) -> bool:
    """Whether a file holds a plan rather than a scenario."""
    return name.endswith(".toml") and "seed" in _read(name)


def pastry_config(settings: dict[str, Any]) -> PastryConfig:
    """The ring's settings, where they are not the defaults."""
    return _decoded(settings, PastryConfig, "pastry")


def _read(name: str) -> dict[str, Any]:
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise ConfigError(f"{name}: no such file")
        return _parsed(path.read_text(encoding="utf-8"), name)
    if name not in names():
        raise ConfigError(f"no scenario is called {name!r}; there are {', '.join(names())}")
    file = resources.files("overlaymq.sim") / "scenarios" / f"{name}.toml"
    return _parsed(file.read_text(encoding="utf-8"), name)


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from error


def _decoded(data: dict[str, Any], type_: type[Decoded], name: str) -> Decoded:
    try:
        return msgspec.convert(data, type_)
    except msgspec.ValidationError as error:
        # The message names the key: "... - at `$.faults.loss`".
        raise ConfigError(f"{name}: {error}") from error


def plan_toml(plan: Plan) -> str:
    """A plan as a file that ``load_plan`` reads back."""
    fields = msgspec.to_builtins(plan)
    actions = fields.pop("actions")
    settings = fields.pop("pastry")
    lines = [f"{key} = {_toml(value)}" for key, value in fields.items() if value is not None]
    if settings:
        lines += ["", "[pastry]", *(f"{key} = {_toml(value)}" for key, value in settings.items())]
    for action in actions:
        lines += ["", "[[actions]]", *(f"{key} = {_toml(value)}" for key, value in action.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    # JSON's numbers, strings, booleans and lists of them are TOML's as well.
    return msgspec.json.encode(value).decode()


def seeds_of(text: str) -> range:
    """``7`` or ``1-1000``; an error if there are none."""
    first, _, last = text.partition("-")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise ConfigError(f"{text!r} are no seeds; write 7 or 1-1000")
    return seeds
