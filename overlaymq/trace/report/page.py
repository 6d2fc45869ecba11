"""The report: what matters in words and large figures, then plots, then the tables.

Losses and broken promises come first and are open; the rest of the tables are folded. Tables show their first
rows only: the files beside the report have all of them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlaymq._version import VERSION
from overlaymq.trace.analysis.headline import milliseconds
from overlaymq.trace.report.plots import plots

if TYPE_CHECKING:
    from overlaymq.trace.analysis.headline import Headline
    from overlaymq.trace.analysis.tables import Table
    from overlaymq.trace.analysis.whole import Found

SHOWN = 200
"""Rows of a table on the page."""
FIRST = ("losses", "order", "topics")
ALARMING = ("losses", "order", "negative_latency")
IDS = ("node", "origin", "peer", "last_node", "old_parent", "new_parent")


def page(found: Found, title: str = "") -> str:
    """The whole report as one HTML text."""
    headline = found.headline
    name = title or ", ".join(row["run"] for row in found.tables["runs"].data.to_pylist())
    order = [*FIRST, *(one for one in found.tables if one not in (*FIRST, "latency_cdf"))]
    body = "".join(
        (
            f"<h1>{escape(_verdict(headline))}</h1>",
            f'<p class="sub">{escape(name)} · {escape(_scope(found))}</p>',
            f'<div class="cards">{"".join(_cards(headline))}</div>',
            f'<ul class="words">{_words(headline)}</ul>',
            f'<h2>Plots</h2><div class="plots">{"".join(_figure(*one) for one in plots(found))}</div>',
            f"<h2>Tables</h2>{''.join(_table(found.tables[one]) for one in order)}",
            f"<footer>overlaymq {VERSION}. Every table is a file beside this page; what each means is in "
            "docs/analysis.md.</footer>",
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(_verdict(headline))}</title><style>{_beside('report.css')}</style></head>"
        f"<body><main>{body}</main><script>{_beside('report.js')}</script></body></html>\n"
    )


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _verdict(headline: Headline) -> str:
    problems = []
    if headline.silent:
        problems.append(f"{headline.silent:,} deliveries lost without notice")
    if headline.untaken:
        problems.append(f"{headline.untaken:,} thrown away by full subscriptions")
    if headline.announced:
        problems.append(f"{headline.announced:,} lost and announced")
    if headline.violations:
        problems.append(f"{headline.violations:,} out of promised order")
    if problems:
        return "; ".join(problems)
    if not headline.expected:
        return "Nothing was expected"
    what = "Everything" if headline.sample >= 1 else f"Everything in a sample of {headline.traced}"
    return f"{what} was delivered, in order"


def _scope(found: Found) -> str:
    headline = found.headline
    starts = [
        row["start_ns"] for row in found.tables["runs"].data.to_pylist() if not row["virtual"]
    ]
    when = ""
    if starts:
        when = f"{datetime.fromtimestamp(min(starts) / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC, "
    sampled = "" if headline.sample >= 1 else f", {headline.traced} of the messages traced"
    return (
        f"{when}{headline.seconds:,.0f} s, {headline.nodes:,} nodes, {headline.topics:,} topics, "
        f"{headline.events:,} events{sampled}"
    )


def _cards(headline: Headline) -> list[str]:
    ratio = headline.delivery_ratio
    cards = [
        _card(
            "-" if ratio is None else _ratio(ratio),
            f"of {headline.expected:,} expected deliveries happened",
            None if ratio is None else not headline.lost,
        ),
        _card(
            f"{headline.lost:,}",
            f"lost, {headline.silent:,} of them without notice"
            + (f", {headline.untaken:,} for want of room" if headline.untaken else ""),
            not headline.lost,
        ),
        _card(f"{headline.violations:,}", "broke a promised order", not headline.violations),
        _card(
            milliseconds(headline.p50_ms), f"median delay; 99 % in {milliseconds(headline.p99_ms)}"
        ),
        _card(
            "-" if headline.rmr is None else f"{headline.rmr:.3f}",
            f"redundancy (RMR): {headline.duplicates:,} duplicates",
        ),
    ]
    if headline.repairs or headline.unrepaired:
        cards.append(
            _card(
                milliseconds(headline.repair_p50_ms),
                f"median repair; parents lost: {headline.repairs + headline.unrepaired:,}",
            )
        )
    if headline.rad is not None:
        cards.append(
            _card(f"{headline.rad:.2f}", f"times the direct delay (RAD); RMD {headline.rmd:.2f}")
        )
    return cards


def _ratio(ratio: float) -> str:
    """Never 100 % while something is missing."""
    text = f"{ratio:.3%}"
    return "99.999+%" if text == "100.000%" and ratio < 1 else text.replace("100.000%", "100%")


def _card(value: str, about: str, good: bool | None = None) -> str:
    kind = {True: " good", False: " bad", None: ""}[good]
    return f'<div class="card{kind}"><b>{escape(value)}</b><span>{escape(about)}</span></div>'


def _words(headline: Headline) -> str:
    kinds = {True: "good", False: "bad", None: ""}
    return "".join(
        f'<li class="{kinds[one.good]}">{escape(one.text)}</li>' for one in headline.sentences()
    )


def _figure(title: str, about: str, drawing: str) -> str:
    if not drawing:
        return ""
    return f'<figure><h3>{escape(title)}</h3><p class="about">{escape(about)}</p>{drawing}</figure>'


def _table(table: Table) -> str:
    alarm = table.name in ALARMING and table.rows > 0
    opened = " open" if table.name in FIRST and table.rows else ""
    shown = min(table.rows, SHOWN)
    count = "none" if not table.rows else f"{table.rows:,} rows"
    if table.rows > shown:
        count = f"first {shown:,} of {table.rows:,} rows"
    title = table.name.replace("_", " ").capitalize()
    return (
        f'<details class="table{" bad" if alarm else ""}" id="{table.name}"{opened}>'
        f'<summary><h3>{title}</h3> <span class="rows">· {count}</span></summary>'
        f'<p class="about">{escape(table.about)}</p>{_rows(table, shown) if shown else ""}</details>'
    )


def _rows(table: Table, shown: int) -> str:
    columns = table.data.column_names
    rows = table.data.slice(0, shown).to_pylist()
    numeric = {name for name in columns if any(isinstance(row[name], int | float) for row in rows)}
    head = "".join(
        f"<th{' class=n' if name in numeric else ''}>{escape(name.replace('_', ' '))}</th>"
        for name in columns
    )
    lines = "".join(
        "<tr>" + "".join(_cell(name, row[name], name in numeric) for name in columns) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _cell(name: str, value: Any, number: bool) -> str:
    kind = ' class="n"' if number else ""
    if value is None:
        return f'<td{kind} data-v="">-</td>'
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, int):
        return f'<td{kind} data-v="{value}">{value:,}</td>'
    if isinstance(value, float):
        return f'<td{kind} data-v="{value!r}">{value:,.4g}</td>'
    if name in IDS and value:
        return f'<td title="{escape(value)}"><code>{escape(value[:8])}</code></td>'
    return f"<td>{escape(str(value))}</td>"
