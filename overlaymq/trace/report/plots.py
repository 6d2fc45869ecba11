"""Which plots the report has, from which tables.

Runs are kept apart: where there are several, a line belongs to one of them and bears its name. Of more lines
than there are colours those are drawn that need a look most.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from overlaymq.trace import schema as S
from overlaymq.trace.analysis.headline import milliseconds
from overlaymq.trace.report.svg import Series, bars, lines

if TYPE_CHECKING:
    from overlaymq.trace.analysis.whole import Found

Key = TypeVar("Key")
Plot = tuple[str, str, str]
"""Title, what it shows, the drawing."""
LINES = 8
"""As many as there are colours."""
SILENT = "without notice"
UNTAKEN = "for want of room"
KINDS = (SILENT, UNTAKEN, "announced")
"""Of losses, as the headline has them."""
BARS = 400
POINTS = 240


def plots(found: Found) -> list[Plot]:
    """Those for which there is data."""
    made = (
        *_delays(found),
        _throughput(found),
        _losses(found),
        _depths(found),
        _repairs(found),
        _stress(found, "nodes", "sent", "messages sent", "node"),
        _stress(found, "links", "messages", "messages", "link"),
    )
    return [one for one in made if one[2]]


def _several(found: Found) -> bool:
    return found.tables["runs"].rows > 1


def _name(found: Found, run: str, name: str) -> str:
    """Of what belongs to a run."""
    return f"{run}: {name}" if _several(found) else name


def _most(weights: dict[Key, float]) -> list[Key]:
    """The weightiest, in the order given, as many as there are colours."""
    heaviest = set(sorted(weights, key=lambda key: weights[key], reverse=True)[:LINES])
    return [key for key in weights if key in heaviest]


def _percent(share: float) -> str:
    return f"{share:.4g}%" if share else "0"


def _delays(found: Found) -> list[Plot]:
    drawn = []
    for scope, about in (
        ("strategy", "Share of messages that arrived within the time, by strategy."),
        ("topic", "The same by topic."),
        ("hops", "The same by the number of overlay links passed."),
    ):
        curves: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for row in found.tables["latency_cdf"].data.to_pylist():
            if row["by"] == scope:
                point = (row["ms"], 100 * row["share"])
                curves[row["run"], row["value"] or "unknown"].append(point)
        if scope == "topic" and len(curves) < 2:
            continue
        names = _most({name: _time_of_share(curve, 99.0) for name, curve in curves.items()})
        drawing = lines(
            [Series(_name(found, *name), curves[name], steps=True) for name in names],
            x="milliseconds from publication to delivery",
            y="share of messages",
            log_x=True,
            x_text=milliseconds_short,
            y_text=_percent,
            y_most=100.0,
        )
        few = f" The {LINES} slowest of {len(curves):,}." if len(curves) > LINES else ""
        drawn.append((f"Delay by {scope}", about + few, drawing))
    return drawn


def milliseconds_short(value: float) -> str:
    """For an axis of powers of ten."""
    return f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s"


def _time_of_share(curve: list[tuple[float, float]], share: float) -> float:
    return next((ms for ms, passed in curve if passed >= share), 0.0)


Rate = dict[float, int]
"""Messages by second."""


def _throughput(found: Found) -> Plot:
    rates: dict[tuple[str, str], Rate] = defaultdict(lambda: defaultdict(int))
    for row in found.tables["throughput"].data.to_pylist():
        rates[row["run"], row["event"]][row["at_s"]] += row["messages"]
    words = {S.PUBLISH: "published", S.DELIVER: "delivered", S.SEND: "sent"}
    about = "Messages a second over all topics and nodes."
    if _several(found):
        words = {S.DELIVER: "delivered"}
        about = "Messages delivered a second over all topics and nodes, by run."
    ordered = [(run, event) for event in words for run, known in sorted(rates) if known == event]
    drawn = _over_time(found, {(run, words[event]): rates[run, event] for run, event in ordered})
    drawing = lines(drawn, x="seconds since the start", y="messages a second")
    return ("Throughput", about, drawing)


def _over_time(found: Found, rates: dict[tuple[str, str], Rate]) -> list[Series]:
    """A line for each (run, name), those with the most messages."""
    chosen = _most({key: sum(rate.values()) for key, rate in rates.items()})
    return [Series(_name(found, *key), _thinned(rates[key])) for key in chosen]


def _thinned(rate: Rate) -> list[tuple[float, float]]:
    """Means over equal spans, so that a long run has no more points than a plot shows."""
    last = max(rate)
    span = max(1.0, -(-last // POINTS))
    sums: dict[float, float] = defaultdict(float)
    for second in range(int(last) + 1):
        sums[second // span * span] += rate.get(float(second), 0) / span
    return sorted(sums.items())


def _losses(found: Found) -> Plot:
    rates: dict[tuple[str, str], Rate] = defaultdict(lambda: defaultdict(int))
    columns = ("run", "published_s", "announced", "untaken")
    for run, at, announced, untaken in zip(
        *(found.tables["losses"].data[name].to_pylist() for name in columns), strict=True
    ):
        kind = "announced" if announced else UNTAKEN if untaken else SILENT
        rates[run, kind][float(int(at))] += 1
    order = sorted(rates, key=lambda key: (key[0], KINDS.index(key[1])))
    ordered = {key: rates[key] for key in order}
    drawing = lines(_over_time(found, ordered), x="seconds since the start", y="lost a second")
    about = "Lost (message, subscriber) pairs by time of publication"
    if len(ordered) == 1:  # one line has no legend
        about += f", all {order[0][1]}"
    return ("Losses over time", f"{about}.", drawing)


def _depths(found: Found) -> Plot:
    curves: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in found.tables["trees"].data.to_pylist():
        curves[row["run"], row["topic"]].append((row["at_s"], row["depth_most"]))
    largest = _most({key: max(depth for _, depth in curves[key]) for key in sorted(curves)})
    drawn = [Series(_name(found, *key), curves[key], steps=True) for key in largest]
    drawing = lines(drawn, x="seconds since the start", y="greatest depth", y_whole=True)
    return ("Depth of the trees", "Links from the root to the farthest node, by topic.", drawing)


def _repairs(found: Found) -> Plot:
    took: dict[str, list[float]] = defaultdict(list)
    data = found.tables["repairs"].data
    for run, ms in zip(data["run"].to_pylist(), data["duration_ms"].to_pylist(), strict=True):
        if ms is not None:
            took[run].append(ms)
    count = sum(map(len, took.values()))
    if count < 2:
        return ("", "", "")
    drawing = lines(
        [
            Series(_name(found, run, "repairs"), _shares(took[run]), steps=True)
            for run in _most({run: max(took[run]) for run in sorted(took)})
        ],
        x="time from losing a parent to having another",
        y="share of repairs",
        log_x=True,
        x_text=milliseconds_short,
        y_text=_percent,
        y_most=100.0,
    )
    longest = milliseconds(max(map(max, took.values())))
    return ("Repair times", f"{count:,} repairs; the longest took {longest}.", drawing)


def _shares(times: list[float]) -> list[tuple[float, float]]:
    """Which share took no longer."""
    return [
        (max(ms, 1e-3), 100 * (index + 1) / len(times)) for index, ms in enumerate(sorted(times))
    ]


def _stress(found: Found, name: str, column: str, unit: str, what: str) -> Plot:
    table = found.tables[name]
    rows = table.data.sort_by([(column, "descending")]).to_pylist()
    if not rows:
        return ("", "", "")
    every = max(1, -(-len(rows) // BARS))
    values = [(_carrier(found, row), float(row[column])) for row in rows[::every]]
    first = rows[0]
    total = sum(row[column] for row in rows if row["run"] == first["run"])
    busiest = first[column] / total if total else 0.0
    of_all = f"all in {first['run']}" if _several(found) else "all"
    about = f"{table.rows:,} {what}s, the busiest first; it carries {busiest:.1%} of {of_all}."
    drawing = bars(values, x=f"{what}s, the busiest first", y=unit)
    return (f"{what.capitalize()} stress", about, drawing)


def _carrier(found: Found, row: dict[str, Any]) -> str:
    """A node, or a link."""
    to = f" to {row['peer'][:8]}" if "peer" in row else ""
    return _name(found, row["run"], row["node"][:8] + to)
