"""`overlaymq status`: what a running node knows, asked over its admin service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from overlaymq.cli.options import ADMIN_ADDRESS, json_option
from overlaymq.cli.output import console, counted, put_json, short
from overlaymq.cli.running import Exit, Failure, run
from overlaymq.errors import LinkRefused
from overlaymq.transport.grpc_admin import call_admin

if TYPE_CHECKING:
    from collections.abc import Iterable

Facts = dict[str, Any]


@click.command()
@click.argument("address", default=ADMIN_ADDRESS)
@click.option("--timeout", default=3.0, show_default=True, metavar="SECONDS")
@json_option
def status(address: str, timeout: float, as_json: bool) -> None:
    """Show a running node's ring, links, topics and counters.

    ADDRESS is where the node answers: it prints that when it starts, unless it is the default,
    127.0.0.1:7401.
    """

    async def command() -> Exit:
        facts = await ask(address, timeout)
        if as_json:
            put_json(facts)
        else:
            _show(facts)
        return Exit.OK

    run(command)


async def ask(address: str, timeout: float) -> Facts:
    """What the node at this admin address says of itself."""
    try:
        answer: Facts = json.loads(await call_admin(address, b"{}", timeout))
    except LinkRefused as error:
        raise Failure(
            f"{error}. Is a node running? Its status address is not the one that others join through; "
            "`overlaymq node` prints both when it starts, and --admin HOST:PORT chooses it",
            Exit.FAILED,
        ) from None
    return answer


def _show(facts: Facts) -> None:
    out = console()
    state = "an active member of its ring" if facts["active"] else "still joining"
    out.print(f"[bold]node {facts['id']}[/bold] at {escape(facts['address'])}, {state}")
    out.print(f"overlaymq {escape(facts['version'])}, protocol {facts['protocol']}")
    held = counted(facts["descriptors_held"], "topic descriptor")
    out.print(f"keeps {held} for the ring")
    if facts["recorder"] is not None:
        out.print(_recording(facts["recorder"]))
    if facts["statistics"]["trace"] is not None:
        out.print(_tracing(facts["statistics"]["trace"]))
    out.print(_peers("Neighbours on the ring (leaf set)", facts["leaf_set"]))
    out.print(_links(facts["links"]))
    out.print(_topics(facts["topics"]))
    if any(topic["tree"] for topic in facts["topics"]):
        out.print(_trees(facts["topics"]))
    out.print(_counters(facts["statistics"]))


def _recording(recorder: Facts) -> str:
    recorded = f"{counted(recorder['steps'], 'step')} to {escape(recorder['file'])}"
    if recorder["problem"]:
        return f"recording has ended after {recorded}: {escape(recorder['problem'])}"
    return f"has recorded {recorded}"


def _tracing(trace: Facts) -> str:
    traced = f"{counted(trace['written'], 'event')}, {trace['lost']} lost"
    if trace["problem"]:
        return f"tracing has ended after {traced}: {escape(trace['problem'])}"
    return f"has traced {traced}"


def _peers(title: str, peers: list[Facts]) -> Group | str:
    if not peers:
        return f"{title}: none, the node is alone"
    return _table(title, ("node", "address"), ((short(p["id"]), p["address"]) for p in peers))


def _links(links: list[Facts]) -> Group | str:
    if not links:
        return "Links: none open"
    rows = (
        (short(one["id"]), one["address"], "we" if one["dialled"] else "they", one["backlog"])
        for one in links
    )
    return _table("Links", ("node", "address", "who dialled", "bytes waiting"), rows)


def _topics(topics: list[Facts]) -> Group | str:
    if not topics:
        return "Topics: none in use here"
    columns = ("topic", "strategy", "reliability", "flow", "subscriptions here")
    return _table("Topics", columns, (_topic_row(topic) for topic in topics))


def _topic_row(topic: Facts) -> tuple[object, ...]:
    keys = ("strategy", "reliability", "flow", "subscriptions")
    return (_name(topic), *(topic[key] for key in keys))


def _name(topic: Facts) -> str:
    return f"{topic['name']}@{short(topic['creator'])}" if topic["creator"] else topic["name"]


def _trees(topics: list[Facts]) -> Group:
    rows = [
        (_name(topic), topic["tree"]["role"], kind, *_above_and_below(topic["tree"][kind]))
        for topic in topics
        if topic["tree"]
        for kind in ("content", "joins")
        if kind in topic["tree"]
    ]
    rows += [
        (
            _name(topic),
            topic["tree"]["role"],
            "gossip",
            _listed(views["in"]),
            _listed(views["partial"]),
        )
        for topic in topics
        if topic["tree"] and (views := topic["tree"].get("views"))
    ]
    return _table("Trees", ("topic", "this node is", "tree of", "above", "below"), rows)


def _above_and_below(around: Facts) -> tuple[str, str]:
    parent = around["parent"]
    return "nobody" if parent is None else short(parent["id"]), _listed(around["children"])


def _listed(peers: list[Facts]) -> str:
    return ", ".join(short(peer["id"]) for peer in peers) or "nobody"


def _counters(statistics: Facts) -> Group:
    numbers = {key: value for key, value in statistics.items() if isinstance(value, int)}
    rows = [*numbers.items()]
    rows += [(f"dropped: {reason}", count) for reason, count in sorted(statistics["drops"].items())]
    return _table("Counters", ("what", "count"), ((key, f"{value:,}") for key, value in rows))


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Group:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return Group(f"\n[bold]{title}[/bold]", table)
