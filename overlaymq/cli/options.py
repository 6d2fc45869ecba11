"""The flags that every command with a node takes, gathered into one value.

They say the same as the ``[node]`` section of a configuration file and win over it. With none of them, nodes
meet at a loopback address (see ``opening``).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import click

from overlaymq.config import DEFAULT_PORT, Flow, Reliability, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

MEETING_POINT = f"127.0.0.1:{DEFAULT_PORT}"
ADMIN_ADDRESS = f"127.0.0.1:{DEFAULT_PORT + 1}"


@dataclass(frozen=True)
class NodeOptions:
    """Where and who a node is."""

    config: str | None = None
    listen: str | None = None
    seeds: tuple[str, ...] = ()
    advertise: str | None = None
    key_file: str | None = None
    admin: str | None = None
    trace: str | None = None
    trace_run: str | None = None
    meet: str = MEETING_POINT


@dataclass(frozen=True)
class TopicOptions:
    """Settings to create the topic with; none means that the topic is used as it is."""

    strategy: str | None = None
    reliability: str | None = None
    flow: str | None = None
    root: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """What was asked for."""
        return {key: value for key, value in vars(self).items() if value is not None}


_NODE_FLAGS = (
    click.option("--config", metavar="FILE", help="A TOML configuration file."),
    click.option("--listen", metavar="HOST:PORT", help="Listen here."),
    click.option(
        "--seed",
        "seeds",
        metavar="HOST:PORT",
        multiple=True,
        help="Join through this node; repeatable.",
    ),
    click.option("--advertise", metavar="HOST:PORT", help="Tell others to reach this node here."),
    click.option("--key-file", metavar="FILE", help="Keep the node's key, and so its id, here."),
    click.option(
        "--admin",
        metavar="HOST:PORT",
        help=f"Answer `status` here.  [default: {ADMIN_ADDRESS} if free]",
    ),
    click.option("--trace", metavar="DIR", help="Trace what happens to messages into files here."),
    click.option("--trace-run", metavar="NAME", help="Name of the run, the same on all hosts."),
    click.option(
        "--meet",
        metavar="HOST:PORT",
        default=MEETING_POINT,
        show_default=True,
        help="Where nodes with neither --listen nor --seed find each other.",
    ),
)

_TOPIC_FLAGS = (
    click.option("--strategy", type=click.Choice(get_args(Strategy)), help="Create the topic so."),
    click.option("--reliability", type=click.Choice(get_args(Reliability)), help="Create it so."),
    click.option("--flow", type=click.Choice(get_args(Flow)), help="Create it so."),
    click.option(
        "--root", type=click.Choice(["topic", "creator"]), help="Create it with its root there."
    ),
)

verbose_option = click.option(
    "-v", "--verbose", count=True, help="Log what the node does; twice for all."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")


def node_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the node flags; the command gets them as ``options``."""
    return _gathered(command, "options", NodeOptions, _NODE_FLAGS)


def topic_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the topic flags; the command gets them as ``creation``."""
    return _gathered(command, "creation", TopicOptions, _TOPIC_FLAGS)


def _gathered(
    command: Callable[..., None], name: str, kind: type[Any], flags: tuple[Callable[..., Any], ...]
) -> Callable[..., None]:
    fields = tuple(kind.__dataclass_fields__)

    @functools.wraps(command)
    def gathered(**arguments: Any) -> None:
        values = {field: arguments.pop(field) for field in fields}
        command(**arguments, **{name: kind(**values)})

    for flag in reversed(flags):
        gathered = flag(gathered)
    return gathered
