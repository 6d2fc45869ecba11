"""What is printed, and how.

Payloads come from other machines: control characters in them are escaped, so that a message cannot
repaint the terminal. In JSON a payload that is not text is given as base64 under another key.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

if TYPE_CHECKING:
    from overlaymq.runtime.message import Message


def say(text: str) -> None:
    """Tell the person at the terminal something; not data."""
    click.secho(text, fg="bright_black", err=True)


def put(line: str) -> None:
    """One line of data, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def put_json(value: dict[str, Any]) -> None:
    """One JSON object on one line."""
    put(json.dumps(value, ensure_ascii=False))


def console() -> Console:
    """For tables; wide enough for them when the output is not a terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def short(node_id: str) -> str:
    """Enough of a node id to tell nodes apart."""
    return node_id[:8]


def counted(number: int, thing: str) -> str:
    """1 hop, 2 hops."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def printable(payload: bytes) -> str:
    """A payload as one line of text."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return repr(payload)[2:-1]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def latency(message: Message) -> float:
    """Milliseconds from publishing to now, if the clocks of both machines agree."""
    return (time.time_ns() - message.published_at) / 1e6


def described(message: Message) -> str:
    """A message as `sub` shows it."""
    took = latency(message)
    when = f"{took:.1f} ms" if took >= 0 else f"{took:.1f} ms: the clocks differ"
    headers = "".join(f" {key}={value}" for key, value in message.headers.items())
    facts = (
        f"from {short(message.origin)} #{message.seq}, {counted(message.hops, 'hop')}, {when}"
        f"{printable(headers.encode())}"
    )
    text = printable(message.payload)
    if sys.stdout.isatty():
        facts = click.style(facts, fg="bright_black")
    return f"{text}  ({facts})"


def as_record(message: Message) -> dict[str, Any]:
    """A message as `sub --json` shows it."""
    return {
        "topic": message.topic,
        **_payload(message.payload),
        "headers": dict(message.headers),
        "origin": message.origin,
        "epoch": message.epoch,
        "seq": message.seq,
        "hops": message.hops,
        "published_at": message.published_at,
        "latency_ms": round(latency(message), 3),
    }


def _payload(payload: bytes) -> dict[str, str]:
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}
