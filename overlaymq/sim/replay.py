"""Replaying a flight record: the same core, told the same things, must do the same.

``runtime/recorder.py`` wrote the record and ``runtime/record.py`` is its format. Here the core of a snapshot
is brought back to life, each recorded input goes into its ``handle`` with the recorded time, and the digest
of each effect is compared with the recorded one. What the application's upcalls answered is played back:
its code is not needed and not run. So a replay either is exact, or says at which step it first was not;
after that step it goes its own way, and nothing more can be concluded from it.

Two segments of one run that follow each other are replayed as one story; the second one's snapshot is not
needed then and not opened. A gap, another run, or a core that was made anew begins with its snapshot.
"""

from __future__ import annotations

import platform
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from overlaymq._version import VERSION
from overlaymq.core.reliability.upcalls import Joining, Upcalls
from overlaymq.runtime.record import (
    DIGEST,
    HEADER,
    MAGIC,
    SNAPSHOT,
    STEP,
    Header,
    RecordError,
    Step,
    UpcallsSet,
    Verdict,
    fingerprint,
    frames,
    load_header,
    load_snapshot,
    load_step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overlaymq.core.node import Node
    from overlaymq.core.reliability.upcalls import Tree
    from overlaymq.events import Effect


class Replayed(msgspec.Struct, frozen=True):
    """A step, what the core did this time, and how that differs from what was recorded ("" if not)."""

    step: Step
    effects: list[Effect]
    difference: str = ""


class Foreign:
    """Stands for an upcall's answer that no record can hold."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class Raised(Exception):
    """Stands for what an upcall raised: it reads the same."""

    def __repr__(self) -> str:
        return str(self)


class Segment:
    """One file of a record. Iterating gives the kind and the content of each frame after the header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise RecordError(f"{path} is no flight record, or one of another format")
            for kind, content in self._frames(file):
                if kind == HEADER:
                    self.header = load_header(content)
                    return
                break
        raise RecordError(f"{path} ends before it begins: it has no header")

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        with self.path.open("rb") as file:
            file.seek(len(MAGIC))
            frames_ = self._frames(file)
            next(frames_, None)  # the header
            yield from frames_

    def _frames(self, file: Any) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from frames(file)
        except EOFError:
            self.torn = True

    def wall(self, now: float) -> float:
        """Seconds since 1970, by the recorder's clock, of a time of its core."""
        return self.header.wall / 1e9 + now - self.header.clock


class Record:
    """The segments of one run, in order."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        found = [one for one in (path.with_name(path.name + ".1"), path) if one.exists()]
        if not found:
            raise RecordError(f"there is no file {path}")
        segments = [Segment(one) for one in found]
        last = segments[-1].header
        self.segments = [one for one in segments if one.header.run == last.run]
        self.earlier_run = next((one for one in segments if one.header.run != last.run), None)

    @property
    def header(self) -> Header:
        """What the oldest segment says."""
        return self.segments[0].header

    @property
    def torn(self) -> bool:
        """Whether the last frame of a file was cut off; known once it has been read."""
        return any(segment.torn for segment in self.segments)

    def count(self) -> int:
        """How many steps there are."""
        return sum(kind == STEP for segment in self.segments for kind, _ in segment)

    def differences_of_version(self) -> str:
        """What recorded it, where that is not what replays it now."""
        header = self.header
        pairs = {
            "overlaymq": (header.version, VERSION),
            "Python": (header.python, platform.python_version()),
            "msgspec": (header.msgspec, msgspec.__version__),
        }
        told = [f"{name} {was} (here {is_})" for name, (was, is_) in pairs.items() if was != is_]
        return f"it was recorded by {', '.join(told)}" if told else ""


class Replay:
    """One pass over a record. ``core`` is the node as it is before the step that comes next."""

    def __init__(self, record: Record) -> None:
        self.core: Node | None = None
        self.segment = record.segments[0]
        self.missing = 0
        """Steps lost between the segments."""
        self._record = record
        self._next = 0
        self._said: deque[Verdict | UpcallsSet] = deque()
        self._unlike = ""

    def steps(self) -> Iterator[Step]:
        """The recorded steps; hand each to ``run`` before the next."""
        for segment in self._record.segments:
            self.segment = segment
            follows = self.core is not None and segment.header.first == self._next
            if self.core is not None and not follows:
                self.missing += segment.header.first - self._next
            first = True
            for kind, content in segment:
                if kind == SNAPSHOT and not (first and follows):
                    self._revive(content)
                elif kind == STEP:
                    step = load_step(content)
                    self._next = step.number + 1
                    yield step
                first = False

    def _revive(self, content: bytes) -> None:
        snapshot = load_snapshot(content)
        self.core = snapshot.core
        for upcalls in snapshot.upcalls:
            self._set_upcalls(upcalls)

    def run(self, step: Step) -> Replayed:
        """Take one step."""
        if self.core is None:
            raise RecordError(f"{self.segment.path} has no snapshot to begin with")
        if isinstance(step.input, UpcallsSet):
            self._set_upcalls(step.input)
            return Replayed(step, [])
        self._said = deque(step.said)
        self._unlike = ""
        effects: list[Effect] = []
        raised = None
        try:
            effects = self.core.handle(step.input, step.now)
        except Exception as error:  # the recorded core may have raised anything
            raised = repr(error)
        return Replayed(step, effects, self._difference(step, effects, raised))

    def _difference(self, step: Step, effects: list[Effect], raised: str | None) -> str:
        if self._unlike:
            return self._unlike
        if self._said:
            return f"the core did not call {_called(self._said[0])}"
        if raised != step.raised:
            return (
                f"the core raised {raised or 'nothing'}; it had raised {step.raised or 'nothing'}"
            )
        digests = fingerprint(effects, self._record.header.payloads)
        if digests == step.digests:
            return ""
        is_, was = _pieces(digests), _pieces(step.digests)
        for number, (one, other) in enumerate(zip(is_, was, strict=False), start=1):
            if one != other:
                return f"effect {number} of {len(is_)} is another one"
        return f"there are {len(is_)} effects; there were {len(was)}"

    # --- the application's part, played ---

    def _set_upcalls(self, news: UpcallsSet) -> None:
        assert self.core is not None
        played = {name: self._played(name) for name in news.names}
        self.core.set_upcalls(news.topic, Upcalls(**played))

    def _played(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            while self._said:
                said = self._said.popleft()
                if isinstance(said, UpcallsSet):
                    self._set_upcalls(said)
                elif said.name == name:
                    return _answered(said, arguments[0], arguments[-1])
                else:
                    break
            self._unlike = f"the core called {name}, which it had not called"
            return arguments[0]

        return call


def _answered(verdict: Verdict, subject: Any, tree: Tree) -> Any:
    tree.effects.extend(verdict.asked)
    foreign: Any = None if verdict.foreign is None else Foreign(verdict.foreign)
    if isinstance(subject, Joining):
        subject.note = verdict.note if foreign is None else foreign
    if verdict.changed is not None:
        for field in verdict.changed.__struct_fields__:
            setattr(subject, field, getattr(verdict.changed, field))
    if verdict.raised is not None:
        raise Raised(verdict.raised)
    if foreign is not None:
        return foreign
    if verdict.accepted:
        return True
    return subject if verdict.same else verdict.answer


def _called(said: Verdict | UpcallsSet) -> str:
    return said.name if isinstance(said, Verdict) else "the upcall that set others"


def _pieces(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)]
