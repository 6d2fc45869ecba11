"""`overlaymq doctor`: why a node cannot join.

It takes the same flags as a node and tries, one by one, everything that a node with these flags needs:
see ``checks`` for what is tried. Each finding says what was seen and, if it is a problem, what to do.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from overlaymq.cli.checks import PROBLEM, Finding, examine
from overlaymq.cli.options import json_option, node_options, verbose_option
from overlaymq.cli.output import console, counted, put_json
from overlaymq.cli.running import Exit, run

if TYPE_CHECKING:
    from overlaymq.cli.options import NodeOptions

STYLES = {"ok": "green", "problem": "bold red", "note": "yellow"}


@click.command()
@node_options
@json_option
@verbose_option
def doctor(options: NodeOptions, as_json: bool, verbose: int) -> None:
    """Find out why a node with these flags cannot join.

    Nothing is changed, and no node is started. Ends with 1 if there is a problem.
    """

    async def command() -> Exit:
        findings: list[Finding] = []
        async for finding in examine(options):
            findings.append(finding)
            if not as_json:
                _show(finding)
        problems = sum(finding.verdict == PROBLEM for finding in findings)
        if as_json:
            put_json({"ok": not problems, "checks": [asdict(finding) for finding in findings]})
        else:
            _sum_up(problems)
        return Exit.FAILED if problems else Exit.OK

    run(command, verbose=verbose)


def _show(finding: Finding) -> None:
    out = console()
    style = STYLES[finding.verdict]
    out.print(
        f"[{style}]{finding.verdict:<8}[/] {escape(f'{finding.check}: {finding.text}')}",
        soft_wrap=True,
    )
    if finding.advice:
        out.print(f"         -> {escape(finding.advice)}", soft_wrap=True)


def _sum_up(problems: int) -> None:
    if problems:
        console().print(f"[bold red]{counted(problems, 'problem')} found.[/]")
    else:
        console().print("[green]No problem found: a node with these flags can join.[/]")
