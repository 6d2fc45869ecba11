"""The `overlaymq` command: run a node, publish, subscribe, look inside, and find out what is wrong.

One module a command. What they share: ``options`` (the flags every node takes), ``opening`` (from flags
to a running node), ``running`` (trio, signals, exit codes) and ``output`` (what is printed, and how).

Data goes to standard output and everything said about it to standard error, so a pipe gets only data.
"""

from __future__ import annotations

import click

from overlaymq._version import PROTOCOL, VERSION
from overlaymq.cli.analyze import analyze
from overlaymq.cli.doctor import doctor
from overlaymq.cli.node import node
from overlaymq.cli.pub import pub
from overlaymq.cli.running import EXIT_CODES
from overlaymq.cli.sim import sim
from overlaymq.cli.sim_compare import compare
from overlaymq.cli.sim_replay import replay
from overlaymq.cli.sim_scenario import scenario, soak
from overlaymq.cli.sim_topics import topics
from overlaymq.cli.status import status
from overlaymq.cli.sub import sub
from overlaymq.cli.trace import trace

CODE_TABLE = "\n".join(f"  {int(code):>3}  {code.meaning}" for code in EXIT_CODES)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"\b\nExit codes:\n{CODE_TABLE}",
)
@click.version_option(VERSION, message=f"overlaymq {VERSION}, protocol {PROTOCOL}")
def main() -> None:
    """Publish and subscribe without a broker.

    \b
    Try it in two terminals, no file needed:
      overlaymq sub prices
      overlaymq pub prices hi
    """


for _command in (node, pub, sub, status, doctor, sim, trace, analyze):
    main.add_command(_command)
for _command in (compare, replay, scenario, soak, topics):
    sim.add_command(_command)
