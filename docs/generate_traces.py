"""Writes the tables of docs/traces.md from overlaymq/trace/schema.py: python docs/generate_traces.py

Each table stands between two comments that name it; the text around them is written by hand. A test
compares the file with what this would write.
"""

from __future__ import annotations

import re
from pathlib import Path

from overlaymq.trace import libp2p, schema

TARGET = Path(__file__).with_name("traces.md")
KINDS = {
    schema.BINARY: "binary (16 bytes)",
    schema.WORD: "string, dictionary",
    schema.TEXT: "string",
    schema.INT32: "int32",
    schema.INT64: "int64",
}


def _default(column: schema.Column) -> str:
    if column.default is None:
        return "always there"
    return "empty" if column.default == "" else f"{column.default}"


def tables() -> dict[str, str]:
    """The tables by name."""
    fields = ["| field | column | if it has none | meaning |", "|---|---|---|---|"]
    fields += [
        f"| `{column.name}` | {KINDS[column.kind]} | {_default(column)} | {schema.FIELDS[column.name]} |"
        for column in schema.COLUMNS
    ]
    events = ["| event | what it says |", "|---|---|"]
    events += [f"| `{name}` | {text} |" for name, text in schema.EVENTS.items()]
    theirs = ["| ours | theirs |", "|---|---|"]
    theirs += [f"| `{ours}` | `{name}` |" for ours, name in libp2p.KINDS.items()]
    return {
        name: "\n".join(lines)
        for name, lines in (("fields", fields), ("events", events), ("libp2p", theirs))
    }


def page(text: str) -> str:
    """The file with its tables made anew."""
    for name, table in tables().items():
        between = re.compile(f"(<!-- {name} -->\n).*?(\n<!-- end of {name} -->)", re.DOTALL)
        text, found = between.subn(lambda match, table=table: match[1] + table + match[2], text)  # type: ignore[misc]
        if found != 1:
            raise SystemExit(f"{TARGET.name} has no place for the table {name!r}")
    return text


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text()))
