"""The documentation is current: settings, exit codes, links, and code that at least compiles."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from overlaymq.cli.running import EXIT_CODES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_setting_is_documented_as_it_is() -> None:
    write = (
        "import runpy; print(runpy.run_path('docs/generate_configuration.py')['page'](), end='')"
    )
    made = subprocess.run(
        [sys.executable, "-c", write], cwd=ROOT, capture_output=True, text=True, check=True
    )
    current = (ROOT / "docs" / "configuration.md").read_text()
    assert current == made.stdout, "run: python docs/generate_configuration.py"


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for code in EXIT_CODES:
        assert f"| {int(code)} | {code.meaning} |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), target
            assert not anchor or anchor in _anchors(file), target


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_pages_compiles(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        inside = f"async def page():\n{textwrap.indent(block, '    ')}"
        ast.parse(inside, filename=page.name)
