"""Writes docs/configuration.md from overlaymq/config.py: python docs/generate_configuration.py

The defaults come from the Structs, the texts from the strings beneath the fields, which Python drops and
`ast` keeps. A test compares the file with what this would write.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlaymq import config
from overlaymq.config import Config, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = Path(__file__).with_name("configuration.md")

# What is said of fields that config.py leaves to their names.
TEXTS = {
    "node.listen": "Where to listen; port 0 takes a free one.",
    "node.advertise": "What others are told, if it differs from where the node listens.",
    "node.seeds": "Nodes to join through. None: found an overlay.",
    "admin.enabled": "Whether `overlaymq status` is answered.",
    "defaults.strategy": "How a topic's messages find its subscribers.",
    "defaults.reliability": "What is promised. `ordered` needs `scribe` or `sv`; `replicated` is not built.",
    "defaults.flow": "What a slow subscriber means: see the [guide](guide.md#when-a-subscriber-is-slow).",
}
TYPES = {"Count": "at least 1", "Seconds": "seconds, above 0", "str": "text", "bool": "true, false"}

INTRODUCTION = """\
# Configuration

<!-- Written by docs/generate_configuration.py from overlaymq/config.py: change that, then run it. -->

One TOML file, environment variables and keyword arguments. The strongest first:

1. keyword arguments of `open_node`, and flags of the command line;
2. environment variables `OVERLAYMQ_<SECTION>_<KEY>`, such as `OVERLAYMQ_NODE_LISTEN`
   (`OVERLAYMQ_NODE_SEEDS` takes addresses separated by commas);
3. the file;
4. the defaults below.

A wrong key or value raises `ConfigError`, which names the key and what was expected; nothing is ignored.

```toml
[node]
listen = "0.0.0.0:7400"
seeds = ["10.0.0.5:7400"]
key_file = "node.pem"

[topics."telemetry/*"]
flow = "lossy"

[topics."orders"]
reliability = "fifo"
flow = "lossless"
```

Every default says where it comes from: a paper, another implementation, a measurement, or a guess.
"""


def sections() -> dict[str, type[Any]]:
    """The sections of the file, in order; topics are told apart."""
    kinds = {name: type(getattr(Config(), name)) for name in Config.__struct_fields__}
    return {name: kind for name, kind in kinds.items() if name != "topics"}


def texts_of(kind: type[Any]) -> dict[str, tuple[str, str]]:
    """Each field's annotation and the string beneath it."""
    source = ast.parse(Path(config.__file__).read_text())
    body = next(
        node.body
        for node in source.body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    found: dict[str, tuple[str, str]] = {}
    for statement, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = (ast.unparse(statement.annotation), _string(following))
    return found


def _string(statement: ast.stmt) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
    return ""


def written(value: object) -> str:
    """A value as the file would have it."""
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case tuple():
            return "`[]`"
        case int() if value >= 64 * 1024 and value % 1024 == 0:  # a size, not a count
            mib, kib = value / 1024**2, value // 1024
            return f"`{value}` ({mib:g} MiB)" if mib >= 1 else f"`{value}` ({kib} KiB)"
    return f"`{value}`"


def described(annotation: str) -> str:
    """A type in words."""
    aliases = {name: getattr(config, name) for name in ("Strategy", "Reliability", "Flow")}
    if annotation in aliases:
        return ", ".join(f"`{choice}`" for choice in aliases[annotation].__args__)
    if annotation.startswith("Literal"):
        return annotation[len("Literal[") : -1]
    if annotation.startswith("tuple"):
        return "list of text"
    bounds = re.findall(r"(ge|le|multiple_of)=(\d+)", annotation)
    words = {"ge": "at least", "le": "at most", "multiple_of": "a multiple of"}
    return TYPES.get(annotation) or ", ".join(f"{words[key]} {number}" for key, number in bounds)


def rows(section: str, kind: type[Any]) -> Iterator[str]:
    """One line of the table for each key."""
    defaults = kind()
    for key, (annotation, text) in texts_of(kind).items():
        meaning = text or TEXTS[f"{section}.{key}"]
        meaning = meaning.replace("|", "\\|").replace("design.md section 3", "the design")
        meaning = re.sub(r"protocols\.md [\d.]+", "the project's protocol notes", meaning)
        meaning = re.sub(r"peers\.md [\d.]+", "the project's survey of peers", meaning)
        default = written(getattr(defaults, key))
        yield f"| `{key}` | {default} | {described(annotation)} | {meaning} |"


def page() -> str:
    """The whole file."""
    parts = [INTRODUCTION]
    for section, kind in sections().items():
        parts.append(f"\n## [{section}]\n\n{kind.__doc__}\n")
        parts.append("| key | default | values | meaning and source |\n|---|---|---|---|")
        parts += rows(section, kind)
    keys = ", ".join(f"`{key}`" for key in TopicConfig.__struct_fields__)
    parts.append(
        f'\n## [topics."PATTERN"]\n\nThe keys of `[defaults]` ({keys}) for the topics that match: an exact '
        "name first, then the pattern\nwith the longest text before its `*`. Keys that a pattern leaves out "
        "are taken from `[defaults]`.\n"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(page())
