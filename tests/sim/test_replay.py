"""Replaying flight records: exactly, or saying where not; and nothing that a stranger wrote is run."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from overlaymq import ids
from overlaymq.config import Config, RecorderConfig
from overlaymq.core.node import Node
from overlaymq.core.questions import Questions
from overlaymq.core.reliability.registry import MODES
from overlaymq.core.reliability.upcalls import Tree, Upcalls
from overlaymq.core.supported import STRATEGIES
from overlaymq.core.topics import Topics
from overlaymq.events import Join, Leave, Lookup, OpenTopic, Publish, Received, Subscribe
from overlaymq.messages import Batch, Descriptor, Peer, Ping, TreeAnycast
from overlaymq.runtime.record import (
    MAGIC,
    SNAPSHOT,
    STEP,
    RecordError,
    Snapshot,
    dump,
    frame,
    frames,
    load_snapshot,
    load_step,
)
from overlaymq.runtime.recorder import Recorder
from overlaymq.sim.replay import Record, Replay
from overlaymq.sim.replay_words import About, Words, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overlaymq.events import Input
    from overlaymq.sim.replay import Replayed

ROOT = Path(__file__).resolve().parents[2]
ME = Peer(ids.hashed(b"me"), "10.0.0.1:7400", 1)
PEER = Peer(ids.hashed(b"peer"), "10.0.0.2:7400", 1)
TOPIC = Descriptor(
    ids.topic_id("prices"), "prices", "", ids.topic_id("prices"), "direct", "fifo", "patient"
)


def batch(sequence: int) -> Batch:
    return Batch(TOPIC.id, ME.id, 1, sequence, 1, b"AAPL 191.2")


STORY: list[Input] = [
    Join(()),
    OpenTopic(1, TOPIC),
    Subscribe(TOPIC),
    Publish(TOPIC, batch(0)),
    Received(PEER, Ping(7)),
    Publish(TOPIC, batch(1)),
    Lookup(2, ids.hashed(b"key")),
    Leave(),
]


def record_of(
    file: Path,
    story: Sequence[Input] = STORY,
    before: Callable[[Recorder, Node], None] | None = None,
) -> Path:
    """What a recorder writes of a core that is told this story."""

    async def tell() -> None:
        recorder = Recorder(RecorderConfig(file=str(file)), ME)
        core = Node(ME, Config(), Random(5))
        handle = recorder.watch(core)
        if before is not None:
            before(recorder, core)
        try:
            for second, input_ in enumerate(story):
                handle(input_, float(second))
        finally:
            await recorder.aclose()

    trio.run(tell)
    return file


def replayed(file: Path) -> list[Replayed]:
    replay = Replay(Record(file))
    return [replay.run(step) for step in replay.steps()]


def overlaymq(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "overlaymq", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


def test_the_same_core_does_the_same_again(tmp_path: Path) -> None:
    steps = replayed(record_of(tmp_path / "record"))
    assert [one.step.input for one in steps] == STORY
    assert [one.difference for one in steps] == [""] * len(STORY)
    assert sum(len(one.effects) for one in steps) > 10


@pytest.mark.parametrize("reliability", MODES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_and_mode_can_be_recorded(strategy: str, reliability: str) -> None:
    topic = msgspec.structs.replace(TOPIC, strategy=strategy, reliability=reliability)
    core = Node(ME, Config(), Random(5))
    for input_ in (Join(()), Subscribe(topic), Publish(topic, batch(0))):
        core.handle(input_, 0.0)
    again = load_snapshot(dump(Snapshot((), core), True)).core
    after = Publish(topic, batch(1))
    assert again.handle(after, 1.0) == core.handle(after, 1.0)


def test_a_torn_record_is_read_up_to_the_tear(tmp_path: Path) -> None:
    file = record_of(tmp_path / "record")
    whole = file.read_bytes()
    with file.open("rb") as opened:
        opened.seek(len(MAGIC))
        ends = [opened.tell() for _ in frames(opened)]  # of header, snapshot and each step
    for size in range(ends[-3], len(whole)):
        file.write_bytes(whole[:size])
        record = Record(file)
        steps = [step.number for step in Replay(record).steps()]
        assert steps == list(range(1, 1 + sum(end <= size for end in ends[2:])))
        assert record.torn is (size not in ends)


def test_a_damaged_step_ends_the_record(tmp_path: Path) -> None:
    file = record_of(tmp_path / "record")
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    record = Record(file)
    assert len(list(Replay(record).steps())) == len(STORY) - 1
    assert record.torn


@pytest.mark.parametrize("content", [b"", b"chapter one", MAGIC, MAGIC + frame(SNAPSHOT, b"x")])
def test_what_is_no_record_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "record"
    file.write_bytes(content)
    with pytest.raises(RecordError, match=str(file)):
        Record(file)


class Calls:
    """Pickles as a call of something."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def named(module: str, name: str) -> bytes:
    """A pickle that is nothing but a name."""
    raw = [one.encode() for one in (module, name)]
    parts = b"".join(b"\x8c" + bytes([len(one)]) + one for one in raw)
    return b"\x80\x05" + parts + b"\x93."


@pytest.mark.parametrize("load", [load_snapshot, load_step])
def test_a_record_cannot_run_a_program(tmp_path: Path, load: Callable[[bytes], object]) -> None:
    proof = tmp_path / "proof"
    hostile = pickle.dumps(Calls(os.system, f"touch {proof}"))
    pickle.loads(hostile)
    assert proof.exists(), "the attack itself does not work"
    proof.unlink()
    with pytest.raises(RecordError, match="system"):
        load(hostile)
    assert not proof.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("overlaymq.config", "load"),
        ("overlaymq.config", "Path"),
        ("overlaymq.identity", "Identity"),
        ("overlaymq.core.node", "Node.handle"),
        ("overlaymq.core.node", "Node.__init__.__globals__"),
        ("overlaymq.core.node", "deque"),
        ("overlaymq.core.node", "get_args"),
        ("overlaymq.runtime.recorder", "Recorder"),
        ("overlaymq.runtime.record", "pickle"),
        ("random", "_inst"),
        ("random", "SystemRandom"),
    ],
)
def test_a_record_names_nothing_but_the_cores_own_classes(module: str, name: str) -> None:
    with pytest.raises(RecordError, match="which no record of a node does"):
        load_snapshot(named(module, name))


@given(st.binary(max_size=200))
def test_nonsense_is_refused_and_nothing_worse(content: bytes) -> None:
    with pytest.raises(RecordError):
        load_step(content)


def test_a_snapshot_of_something_else_is_refused() -> None:
    with pytest.raises(RecordError, match="not one of a node"):
        load_snapshot(dump(Snapshot((), PEER), True))


def test_a_step_with_something_else_than_an_input_is_refused() -> None:
    parts = ((1, 0.0, PEER), (), (b"", None))
    with pytest.raises(RecordError, match="not one of a node"):
        load_step(b"".join(dump(part, True) for part in parts))


def test_another_core_is_found_out_at_its_first_other_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = record_of(tmp_path / "record")
    monkeypatch.setattr(Topics, "open", lambda self, request, descriptor: [])
    steps = replayed(file)
    assert steps[0].difference == ""
    assert steps[1].difference == "there are 0 effects; there were 2"


def test_an_error_of_the_core_is_the_last_step_and_happens_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("the bug")

    file = tmp_path / "record"
    with monkeypatch.context() as patch:
        patch.setattr(Questions, "asked", fail)
        with pytest.raises(KeyError):
            record_of(file)
        steps = replayed(file)
    assert steps[-1].step.raised == "KeyError('the bug')"
    assert [one.difference for one in steps] == [""] * 7
    assert "had raised KeyError('the bug')" in replayed(file)[-1].difference


def test_upcalls_are_answered_by_the_record(tmp_path: Path) -> None:
    calls = []

    def set_upcalls(recorder: Recorder, core: Node) -> None:
        def on_forward(batch: Batch, tree: Tree) -> Batch | None:
            calls.append(batch)
            tree.set_timer(3600.0, len(calls))
            return None if len(calls) == 1 else batch

        upcalls = recorder.upcalls(TOPIC.id, Upcalls(on_forward=on_forward))
        core.set_upcalls(TOPIC.id, upcalls)

    file = record_of(tmp_path / "record", before=set_upcalls)
    assert len(calls) == 2
    steps = replayed(file)
    assert [one.difference for one in steps] == [""] * (1 + len(STORY))
    assert len(calls) == 2, "the application's code was run again"


def test_whether_an_anycast_was_accepted_is_in_the_record(tmp_path: Path) -> None:
    topic = msgspec.structs.replace(TOPIC, strategy="scribe", reliability="best_effort")
    anycasts = [TreeAnycast(topic.id, topic, PEER, number, b"job") for number in range(4)]
    story: list[Input] = [Join(()), Subscribe(topic)]
    story += [Received(PEER, anycast) for anycast in anycasts]
    calls = []
    answers: list[Any] = [False, True, "yes", None]

    def set_upcalls(recorder: Recorder, core: Node) -> None:
        def on_anycast(payload: bytes, origin: Peer, tree: Tree) -> bool:
            calls.append(payload)
            accepted: bool = answers[len(calls) - 1]
            return accepted

        core.set_upcalls(topic.id, recorder.upcalls(topic.id, Upcalls(on_anycast=on_anycast)))

    steps = replayed(record_of(tmp_path / "record", story, set_upcalls))
    assert len(calls) == 4
    assert [one.difference for one in steps] == [""] * (1 + len(story))


def test_an_upcalls_wrong_answer_is_in_the_record(tmp_path: Path) -> None:
    def set_upcalls(recorder: Recorder, core: Node) -> None:
        answer: Any = object()
        upcalls = recorder.upcalls(TOPIC.id, Upcalls(on_forward=lambda *_: answer))
        core.set_upcalls(TOPIC.id, upcalls)

    steps = replayed(record_of(tmp_path / "record", before=set_upcalls))
    assert [one.difference for one in steps] == [""] * (1 + len(STORY))
    assert any("<object object at" in str(one.step.said) for one in steps)


def test_steps_are_told_in_words() -> None:
    words = Words([TOPIC])
    me = f"{ids.short(ME.id)} (10.0.0.1:7400)"
    assert words.input(Join((ME,))) == f"asked to Join(seeds=[{me}])"
    assert words.input(Subscribe(TOPIC)) == "asked to Subscribe(descriptor='prices')"
    assert words.input(Received(ME, Ping(7))).endswith(f"from {me}")
    assert printable("\x1b[2J") == "\\x1b[2J"


def test_a_step_is_about_its_peers_topics_and_kinds() -> None:
    publish = Publish(TOPIC, batch(0))
    assert About(kind="batch", topic=TOPIC.id).wants(publish, [])
    assert About(peer=ids.short(ME.id)).wants(publish, [])
    assert not About(peer=PEER.address).wants(publish, [])
    assert not About(topic=ids.topic_id("other")).wants(publish, [])
    assert About(peer=PEER.address).wants(Received(PEER, Ping(7)), [])


def test_the_command_tells_the_story(tmp_path: Path) -> None:
    file = record_of(tmp_path / "record")
    result = overlaymq("sim", "replay", str(file), PYTHONHASHSEED="7")
    assert result.returncode == 0, result.stderr
    assert f"node {ids.text(ME.id)} at 10.0.0.1:7400" in result.stdout
    assert "8 steps, 0 earlier ones let go" in result.stdout
    assert "asked to Subscribe(descriptor='prices')" in result.stdout
    assert "8 steps replayed: every effect is as it was" in result.stderr


def test_the_command_shows_what_is_asked_for_as_json(tmp_path: Path) -> None:
    file = record_of(tmp_path / "record")
    wanted = ("--topic", "prices", "--only", "Publish", "--from", "5", "--json")
    result = overlaymq("sim", "replay", str(file), *wanted)
    assert result.returncode == 0, result.stderr
    header, step, end = map(json.loads, result.stdout.splitlines())
    assert header["record"]["steps"] == len(STORY)
    assert step["step"] == 6
    assert step["input"]["batch"]["topic"] == ids.text(TOPIC.id)
    assert end == {
        **{"replayed": 8, "exact": True, "difference": "", "versions": ""},
        **{"missing": 0, "torn": False},
    }


def test_the_command_ends_with_1_where_a_step_differs(tmp_path: Path) -> None:
    file = record_of(tmp_path / "record")
    raw = file.read_bytes()
    parts = ((9, 9.0, Lookup(3, ME.id)), (), (b"another!", None))
    forged = frame(STEP, b"".join(dump(part, True) for part in parts))
    file.write_bytes(raw + forged)
    result = overlaymq("sim", "replay", str(file), "--from", "9")
    assert result.returncode == 1
    assert "DIFFERS: " in result.stdout
    assert "not reproduced after 9 steps" in result.stderr


def test_the_command_stops_in_the_debugger_before_a_step(tmp_path: Path) -> None:
    file = record_of(tmp_path / "record")
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import sys\n"
        "def look():\n"
        "    seen = sys._getframe(1).f_locals\n"
        "    print('HERE', type(seen['core']).__name__, seen['step'].number)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    result = overlaymq(
        *("sim", "replay", str(file), "--break-at", "3", "--only", "nothing"),
        PYTHONBREAKPOINT="probe.look",
        PYTHONPATH=path,
    )
    assert "HERE Node 3" in result.stdout, result.stderr


def test_a_missing_file_is_told_in_one_line(tmp_path: Path) -> None:
    result = overlaymq("sim", "replay", str(tmp_path / "nowhere"))
    assert result.returncode == 1
    assert result.stderr == f"overlaymq: there is no file {tmp_path / 'nowhere'}\n"
