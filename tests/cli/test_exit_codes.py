"""Exit codes mean something, and an error is a clear text that says what to do, never a traceback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.cli.output import counted, printable
from overlaymq.cli.pub import Receipts
from overlaymq.cli.running import EXIT_CODES, Exit, Failure, code_of
from overlaymq.config import Config, DeliveryConfig
from overlaymq.errors import ConfigError, JoinFailed, OverlayError, TopicUnavailable
from overlaymq.testing import network

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_nobody_subscribes(start: Callable[..., Any], point: str) -> None:
    pub = start("pub", "prices", "hi", "--meet", point, "--timeout", "0.5")
    assert pub.finish() == 1
    assert "nobody subscribes to 'prices' after 0.5 s" in pub.said


def test_publishing_into_the_void_is_allowed(start: Callable[..., Any], point: str) -> None:
    pub = start("pub", "prices", "hi", "--meet", point, "--wait-subscribers", "0")
    assert pub.finish() == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("pub",), "Missing argument"),
        (("pub", "t", "x", "--header", "novalue"), "expected KEY=VALUE"),
        (("pub", "t", "x", "--header", "key=\udcff"), "expected UTF-8"),
        (("sub", "prices/*"), "patterns only choose settings"),
        (("sub", "\udcff"), "expected text that UTF-8 can encode"),
        (("sub", "t", "--reliability", "replicated"), "not built yet"),
        (("node", "--listen", "nonsense"), "expected host:port"),
        (("node", "--config", "no-such-file.toml"), "cannot be read"),
    ],
)
def test_usage(
    start: Callable[..., Any], point: str, arguments: tuple[str, ...], text: str
) -> None:
    running = start(*arguments, "--meet", point)
    assert running.finish() == 2
    assert text in running.said


def test_a_configuration_error_names_the_key(start: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("[pastry]\nleaf_set_size = 3\n")
    node = start("node", "--config", str(file))
    assert node.finish() == 2
    assert "pastry.leaf_set_size: expected" in node.said


def test_a_file_configures_a_node(start: Callable[..., Any], tmp_path: Path, unused: str) -> None:
    file = tmp_path / "node.toml"
    key = tmp_path / "key.pem"
    file.write_text(f'[node]\nlisten = "{unused}"\nkey_file = "{key}"\n')
    first = start("node", "--config", str(file), "--json")
    started = first.record(event="started")
    assert started["address"] == unused
    first.interrupt()
    again = start("node", "--config", str(file), "--json", OVERLAYMQ_NODE_LISTEN="127.0.0.1:0")
    restarted = again.record(event="started")
    assert restarted["id"] == started["id"]
    assert restarted["address"] != unused


def test_no_seed_answers(start: Callable[..., Any], unused: str) -> None:
    node = start("node", "--seed", unused)
    assert node.finish() == 3
    assert unused in node.said


def test_too_few_messages_in_time(start: Callable[..., Any], point: str) -> None:
    sub = start("sub", "prices", "--meet", point, "--count", "2", "--timeout", "1")
    assert sub.finish() == 4
    assert "0 of 2 messages came within 1 s" in sub.said


def test_help_lists_every_exit_code(start: Callable[..., Any]) -> None:
    shown = start("--help")
    assert shown.finish() == 0
    for code in EXIT_CODES:
        assert f"{int(code)}  {code.meaning}" in shown.printed


def test_verbose_logs_to_standard_error(start: Callable[..., Any], point: str) -> None:
    pub = start("pub", "t", "x", "--meet", point, "--wait-subscribers", "0", "-v", "--json")
    assert pub.finish() == 0
    assert "overlaymq.node" in pub.said
    assert json.loads(pub.printed)["published"] == 1


def test_errors_have_codes() -> None:
    assert code_of(ConfigError()) == Exit.USAGE
    assert code_of(JoinFailed()) == Exit.CANNOT_JOIN
    assert code_of(TopicUnavailable()) == Exit.TIMED_OUT
    assert code_of(OverlayError()) == Exit.FAILED


def test_a_payload_cannot_repaint_the_terminal() -> None:
    assert printable(b"\x1b[2Jhi\n") == "\\x1b[2Jhi\\n"
    assert printable("grün".encode()) == "grün"
    assert printable(b"\xff\x00") == "\\xff\\x00"


def test_counted() -> None:
    assert counted(1, "hop") == "1 hop"
    assert counted(2000, "hop") == "2,000 hops"


async def test_pub_asks_every_receipt() -> None:
    """It looked at the last one only, and reported success for what a lossy topic had dropped before."""
    small = Config(delivery=DeliveryConfig(window=64 * 1024))
    async with network(2, small) as nodes:
        await nodes[0].create("t", flow="lossy", root="creator")
        async with nodes[1].subscribe("t") as subscription:
            await subscription.wait_ready()
            receipts = Receipts()
            for _ in range(50):
                await receipts.add(nodes[0].publish_nowait("t", bytes(20_000)))
            await receipts.ask_all()
            dropped = nodes[0].statistics().skipped_for_slow_children
            assert (receipts.sent, receipts.failed) == (50 - dropped, dropped)
            assert dropped > 0
            with pytest.raises(Failure, match="did not leave this node") as failure:
                receipts.check()
            assert failure.value.code == 1
