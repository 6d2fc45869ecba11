"""`overlaymq sim replay`: what a recorded node was told and what it did, told again by the same core."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click
import msgspec

from overlaymq import ids
from overlaymq.cli.options import json_option
from overlaymq.cli.output import counted, put, put_json, say
from overlaymq.cli.running import Exit
from overlaymq.cli.sim import explained
from overlaymq.errors import OverlayError
from overlaymq.runtime.naming import split
from overlaymq.sim.replay import Record, Replay
from overlaymq.sim.replay_words import About, Words, plain, printable

if TYPE_CHECKING:
    from overlaymq.core.node import Node
    from overlaymq.runtime.record import Step
    from overlaymq.sim.replay import Replayed, Segment


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--from", "first", type=int, default=0, metavar="N", help="Show from this step on.")
@click.option("--to", "last", type=int, metavar="N", help="Replay no further than this step.")
@click.option(
    "--only",
    default="",
    metavar="KIND",
    help="Show steps with such an input, effect, message or event, for instance LeafProbe.",
)
@click.option(
    "--peer",
    default="",
    metavar="ID",
    help="Show steps about this node: how its id begins, or its address.",
)
@click.option("--topic", metavar="NAME", help="Show steps about this topic.")
@click.option("--break-at", type=int, metavar="N", help="Stop in the debugger before this step.")
@json_option
def replay(
    file: str,
    first: int,
    last: int | None,
    only: str,
    peer: str,
    topic: str | None,
    break_at: int | None,
    as_json: bool,
) -> None:
    """Replay a flight record, and check that each effect is as it was.

    Ends with 1 if one is not, and says which.
    """
    with explained():
        wanted = About(only, peer, ids.topic_id(*split(topic)) if topic is not None else None)
        record = Record(file)
        show = _Lines(record) if as_json else _Text(record)
        try:
            code = _run(record, show, wanted, first, last, break_at)
        except BrokenPipeError:  # whoever reads our output has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = Exit.OK
    sys.exit(code)


def _run(
    record: Record,
    show: _Text,
    wanted: About,
    first: int,
    last: int | None,
    break_at: int | None,
) -> Exit:
    replay = Replay(record)
    done = 0
    difference = ""
    show.header()
    try:
        for step in replay.steps():
            if last is not None and step.number > last:
                break
            show.meet(replay.core)
            if step.number == break_at:
                _pause(replay.core, step)
            replayed = replay.run(step)
            done += 1
            difference = replayed.difference
            if difference or (
                step.number >= first and wanted.wants(step.input, [*replayed.effects])
            ):
                show.step(replay.segment, replayed)
            if difference:
                break
    except OverlayError as error:
        difference = str(error)
    show.end(replay, done, difference)
    return Exit.FAILED if difference else Exit.OK


def _pause(core: Node | None, step: Step) -> None:
    """`core` is about to be given `step.input` at `step.now`: set a breakpoint in it and go on."""
    breakpoint()  # the flag asks for it


class _Text:
    """For people."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._words = Words()
        self._core: Node | None = None

    def meet(self, core: Node | None) -> None:
        """A core comes to life: it knows topics by name."""
        if core is not None and core is not self._core:
            self._core = core
            self._words.learn((*core.active_topics(), *core.topics.held))

    def header(self) -> None:
        """Who recorded this, when and how much."""
        header = self._record.header
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(header.wall / 1e9))
        lost = header.first - 1
        put(f"node {printable(header.node)} at {printable(header.address)}, from {began} on")
        put(f"overlaymq {printable(header.version)}, Python {printable(header.python)}")
        put(f"{counted(self._record.count(), 'step')}, {counted(lost, 'earlier one')} let go")
        if not header.payloads:
            put("without payloads: bodies are zeros of the same length")
        if self._record.earlier_run is not None:
            say(f"{self._record.earlier_run.path} is of an earlier run: replay it by itself")

    def step(self, segment: Segment, replayed: Replayed) -> None:
        """One step."""
        step = replayed.step
        put(f"#{step.number} {_clock(segment, step)} {self._words.input(step.input)}")
        for said in step.said:
            put(f"    upcall {self._words.text(said)}")
        for effect in replayed.effects:
            put(f"    {self._words.effect(effect)}")
        if step.raised is not None:
            put(f"    the core raised {printable(step.raised)}")
        if replayed.difference:
            put(f"    DIFFERS: {printable(replayed.difference)}")

    def end(self, replay: Replay, done: int, difference: str) -> None:
        """How it went."""
        if replay.missing:
            say(f"{counted(replay.missing, 'step')} between the two files did not fit: a gap")
        if self._record.torn:
            say("the record ends in the middle of a step; it was read up to there")
        if not difference:
            say(f"{counted(done, 'step')} replayed: every effect is as it was")
            return
        versions = self._record.differences_of_version()
        why = f"; {versions}, use those" if versions else ""
        say(f"not reproduced after {counted(done, 'step')}: {printable(difference)}{why}")


class _Lines(_Text):
    """For scripts."""

    def header(self) -> None:
        header = msgspec.to_builtins(self._record.header)
        put_json({"record": {**header, "steps": self._record.count()}})

    def step(self, segment: Segment, replayed: Replayed) -> None:
        step = replayed.step
        put_json(
            {
                "step": step.number,
                "now": step.now,
                "time": segment.wall(step.now),
                "input": plain(step.input),
                "upcalls": plain(step.said),
                "effects": plain(replayed.effects),
                "raised": step.raised,
                "difference": replayed.difference,
            }
        )

    def end(self, replay: Replay, done: int, difference: str) -> None:
        versions = self._record.differences_of_version()
        put_json(
            {
                "replayed": done,
                "exact": not difference,
                "difference": difference,
                "versions": versions,
                "missing": replay.missing,
                "torn": self._record.torn,
            }
        )


def _clock(segment: Segment, step: Step) -> str:
    wall = segment.wall(step.now)
    return f"{time.strftime('%H:%M:%S', time.localtime(wall))}.{int(wall % 1 * 1e6):06d}"
