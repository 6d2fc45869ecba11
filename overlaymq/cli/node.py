"""`overlaymq node`: be a member of the overlay, and tell who comes and goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import trio

from overlaymq.cli.opening import opened
from overlaymq.cli.options import json_option, node_options, verbose_option
from overlaymq.cli.output import counted, put, put_json, say, short
from overlaymq.cli.running import Exit, run
from overlaymq.runtime.admin import status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overlaymq.cli.options import NodeOptions
    from overlaymq.runtime.node import Node

LOOK_EVERY = 0.25
"""Seconds between two looks at the leaf set: a guess that a person feels as at once."""


@click.command()
@node_options
@click.option(
    "--record", metavar="FILE", help="Record what happens, for `sim replay`. Holds payloads."
)
@json_option
@verbose_option
def node(options: NodeOptions, record: str | None, as_json: bool, verbose: int) -> None:
    """Run a node until Ctrl-C.

    It listens, joins, and prints its neighbours on the ring as they come and go.
    """

    async def command() -> Exit:
        tell = Narrator(as_json)
        async with opened(options, record) as running:
            tell.started(running)
            await _watch_neighbours(running, tell)
        return Exit.OK

    run(command, verbose=verbose)


class Narrator:
    """Tells what happens to a node, for people or as JSON lines."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def started(self, node: Node) -> None:
        """The node has joined."""
        facts = {"id": node.id, "address": node.address, "admin": node.admin_address}
        listening = f"listening on {node.address}, status on {node.admin_address or 'no port'}"
        self._tell("started", facts, f"node {short(node.id)} {listening}")
        if not self._as_json:
            say("Links are not encrypted yet. Ctrl-C ends the node.")

    def came(self, id_: str, address: str, size: int) -> None:
        """A node is a neighbour now."""
        self._neighbour("neighbour_joined", "+", id_, address, size)

    def went(self, id_: str, address: str, size: int) -> None:
        """A node is no neighbour any more."""
        self._neighbour("neighbour_left", "-", id_, address, size)

    def _neighbour(self, event: str, sign: str, id_: str, address: str, size: int) -> None:
        facts = {"id": id_, "address": address, "neighbours": size}
        self._tell(event, facts, f"{sign} {short(id_)} {address}  ({counted(size, 'neighbour')})")

    def _tell(self, event: str, facts: dict[str, Any], text: str) -> None:
        if self._as_json:
            put_json({"event": event, **facts})
        else:
            put(text)


async def _watch_neighbours(node: Node, tell: Narrator) -> None:
    known: dict[str, str] = {}
    while True:
        if set(node.neighbours()) != known.keys():
            leaves = _leaves(status(node)["leaf_set"])
            for id_ in known.keys() - leaves.keys():
                tell.went(id_, known[id_], len(leaves))
            for id_ in leaves.keys() - known.keys():
                tell.came(id_, leaves[id_], len(leaves))
            known = leaves
        await trio.sleep(LOOK_EVERY)


def _leaves(peers: Iterable[dict[str, str]]) -> dict[str, str]:
    return {peer["id"]: peer["address"] for peer in peers}
