"""The import law: which part of the package may know which other.

The core is a state machine without I/O, clocks or chance of its own; each outside library has one
home. Both are read off the source, so a forbidden import fails here even when no test runs it.
A name is matched by its dotted prefix: `from a.b import c` counts as `a.b.c`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "overlaymq"
GENERATED = "overlaymq.transport._pb"

PURE = [f"overlaymq.{name}" for name in ("ids", "messages", "events", "config", "errors")]
# What would give the core a clock, chance, I/O or a second thread.
IMPURE_STDLIB = {
    *("time", "random", "secrets", "uuid", "os", "io", "pathlib", "logging", "socket", "select"),
    *("asyncio", "threading", "queue", "multiprocessing", "subprocess", "concurrent", "importlib"),
}

# Outside module -> the modules that may import it (patterns of dotted names).
HOMES = {
    "grpc": ["overlaymq.transport.grpc_core"],
    "asyncio": ["overlaymq.transport.grpc*", "overlaymq.transport._io*"],
    GENERATED: ["overlaymq.transport.codec", "overlaymq.trace.libp2p"],
    "trio": [
        *("overlaymq.runtime*", "overlaymq.transport*", "overlaymq.testing*"),
        *("overlaymq.cli*", "overlaymq.demo*"),
    ],
    "cryptography": ["overlaymq.identity"],
    "pyarrow": ["overlaymq.trace*"],
    "pyspark": ["overlaymq.trace*"],
    "numpy": ["overlaymq.sim*", "overlaymq.trace*"],
    "scipy": ["overlaymq.sim*", "overlaymq.trace*"],
    "matplotlib": ["overlaymq.sim*", "overlaymq.trace*"],
}

LONGEST = 650
"""Lines of a module: the house limit of about 600, and what "about" may mean."""

HEAVY = ["pyspark", "pyarrow", "numpy", "scipy", "pandas", "matplotlib", "click", "rich"]


@dataclass(frozen=True)
class Import:
    importer: str
    target: str
    line: int
    types_only: bool

    def is_of(self, module: str) -> bool:
        return self.target == module or self.target.startswith(module + ".")

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _scan(source: str, importer: str, *, is_package: bool = False) -> Iterator[Import]:
    """Every import of a module, those inside functions and `if TYPE_CHECKING` included."""

    def visit(node: ast.AST, types_only: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in _targets(node, importer, is_package):
                yield Import(importer, target, node.lineno, types_only)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                yield from visit(statement, True)
            for statement in node.orelse:
                yield from visit(statement, types_only)
            return
        for child in ast.iter_child_nodes(node):
            yield from visit(child, types_only)

    return visit(ast.parse(source), False)


def _targets(node: ast.Import | ast.ImportFrom, importer: str, is_package: bool) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = importer.split(".")
        kept = parts[: len(parts) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    return [f"{base}.{alias.name}" for alias in node.names]


def _package_imports() -> list[Import]:
    return [
        found
        for path in sorted(PACKAGE.rglob("*.py"))
        if not _module_name(path).startswith(GENERATED)
        for found in _scan(
            path.read_text(), _module_name(path), is_package=path.name == "__init__.py"
        )
    ]


def _is_pure(found: Import, companions: list[str], forbidden: set[str]) -> bool:
    if any(found.is_of(module) for module in companions):
        return True
    if found.types_only and found.target == "random.Random":
        return True
    top = found.target.partition(".")[0]
    return (top in sys.stdlib_module_names and top not in forbidden) or top == "msgspec"


def _breaches(imports: list[Import]) -> list[str]:
    breaches = []
    for found in imports:
        if found.importer.startswith("overlaymq.core"):
            lawful = _is_pure(found, [*PURE, "overlaymq.core"], IMPURE_STDLIB)
        elif any(found.importer == pure or found.importer.startswith(f"{pure}.") for pure in PURE):
            reads_files = found.importer == "overlaymq.config"
            lawful = _is_pure(found, PURE, set() if reads_files else IMPURE_STDLIB)
        else:
            lawful = True
        for module, homes in HOMES.items():
            if found.is_of(module):
                lawful &= any(fnmatchcase(found.importer, home) for home in homes)
        if not lawful:
            breaches.append(str(found))
    return breaches


def test_every_module_keeps_the_import_law() -> None:
    imports = _package_imports()
    assert imports, "nothing was scanned"
    assert _breaches(imports) == []


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("overlaymq.core.node", "import time"),
        ("overlaymq.core.node", "from random import Random"),
        ("overlaymq.core.node", "def f():\n    import trio"),
        ("overlaymq.core.node", "from .. import identity"),
        ("overlaymq.core.node", "from overlaymq.runtime import driver"),
        ("overlaymq.core.node", "import numpy"),
        ("overlaymq.events", "from overlaymq.core import node"),
        ("overlaymq.ids", "import os"),
        ("overlaymq.messages.data", "import time"),
        ("overlaymq.config", "import trio"),
        ("overlaymq.runtime.node", "from grpc import aio"),
        ("overlaymq.runtime.node", "import asyncio"),
        ("overlaymq.runtime.node", "import numpy.linalg"),
        ("overlaymq.transport.grpc", "from ._pb.overlaymq.v1 import frame_pb2"),
        ("overlaymq.transport.memory", "import grpc"),
        ("overlaymq.transport.grpc_link", "import grpc"),
        ("overlaymq.transport.codec", "import cryptography.x509"),
        ("overlaymq.sim.engine", "import trio"),
        ("overlaymq.sim.engine", "import pyarrow"),
    ],
)
def test_a_breach_is_found(importer: str, source: str) -> None:
    assert _breaches(list(_scan(source, importer)))


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("overlaymq.core.node", "from ..ids import NodeId"),
        ("overlaymq.core.node", "from .pastry import leafset\nimport heapq, msgspec"),
        ("overlaymq.core.node", "if TYPE_CHECKING:\n    from random import Random"),
        ("overlaymq.transport.grpc_core", "import asyncio\nfrom grpc import aio"),
        ("overlaymq.transport._io_loop", "import asyncio"),
        ("overlaymq.transport.codec", "from overlaymq.transport._pb.overlaymq.v1 import frame_pb2"),
        ("overlaymq.identity", "from cryptography import x509"),
        ("overlaymq.trace.spark", "import pyspark, numpy"),
    ],
)
def test_a_lawful_import_passes(importer: str, source: str) -> None:
    assert _breaches(list(_scan(source, importer))) == []


def test_importing_the_package_is_light() -> None:
    probe = f"import sys, overlaymq; print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_no_module_is_too_long_to_read() -> None:
    """What we have written by hand, that is. Reference: the house rules."""
    lengths = {
        _module_name(path): len(path.read_text().splitlines())
        for path in PACKAGE.rglob("*.py")
        if not _module_name(path).startswith(GENERATED)
    }
    assert lengths, "nothing was found"
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}
