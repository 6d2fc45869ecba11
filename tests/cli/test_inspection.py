"""`status` tells what a node knows; `doctor` tells why one cannot join."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

from overlaymq.cli.options import ADMIN_ADDRESS
from overlaymq.trace.files import files, recover, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _findings(doctor: Any, check: str) -> list[dict[str, str]]:
    report = json.loads(doctor.printed)
    return [found for found in report["checks"] if found["check"].startswith(check)]


def test_status_shows_ring_topics_and_counters(start: Callable[..., Any], point: str) -> None:
    node = start("node", "--meet", point, "--json", "--admin", "127.0.0.1:0")
    started = node.record(event="started")
    sub = start("sub", "prices", "--meet", point, "--events", "--json", "--admin", "127.0.0.1:0")
    ready = sub.record(event="Ready")
    asked = start("status", ready["admin"], "--json")
    assert asked.finish() == 0
    facts = json.loads(asked.printed)
    assert facts["id"] == ready["id"]
    assert facts["active"] is True
    assert [peer["id"] for peer in facts["leaf_set"]] == [started["id"]]
    assert [topic["name"] for topic in facts["topics"]] == ["prices"]
    assert facts["topics"][0]["subscriptions"] == 1
    assert facts["statistics"]["links"] == 1
    shown = start("status", ready["admin"])
    assert shown.finish() == 0
    for text in ("Neighbours", "Links", "Topics", "Counters", "prices", started["id"][:8]):
        assert text in shown.printed


def test_status_without_a_node(start: Callable[..., Any], unused: str) -> None:
    asked = start("status", unused, "--timeout", "1")
    assert asked.finish() == 1
    assert "Is a node running?" in asked.said


def test_doctor_finds_nothing_wrong(start: Callable[..., Any], point: str) -> None:
    node = start("node", "--meet", point, "--json", "--admin", "127.0.0.1:0")
    admin = node.record(event="started")["admin"]
    doctor = start("doctor", "--seed", point, "--admin", admin, "--json")
    assert doctor.finish() == 0
    assert json.loads(doctor.printed)["ok"] is True
    texts = [found["text"] for found in _findings(doctor, "seed")]
    assert texts[0] == "accepts TCP connections"
    assert "let us in" in texts[1]
    assert _findings(doctor, "clock")[0]["verdict"] == "ok"


def test_doctor_names_each_problem_and_what_to_do(
    start: Callable[..., Any], point: str, unused: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        stranger = f"127.0.0.1:{deaf.getsockname()[1]}"
        flags = ("--listen", stranger, "--seed", unused, "--seed", stranger)
        unknown = "no-such-host.invalid:7400"
        doctor = start("doctor", *flags, "--seed", unknown, "--admin", point, "--json")
        assert doctor.finish() == 1
    assert "cannot be listened on" in _findings(doctor, "port")[0]["text"]
    assert "no TCP connection" in _findings(doctor, f"seed {unused}")[0]["text"]
    assert "no handshake" in _findings(doctor, f"seed {stranger}")[1]["text"]
    assert "does not resolve" in _findings(doctor, f"seed {unknown}")[0]["text"]
    assert _findings(doctor, "clock")[0]["verdict"] == "note"
    problems = [found for found in _findings(doctor, "") if found["verdict"] == "problem"]
    assert len(problems) == 5
    assert all(found["advice"] for found in problems)


def test_doctor_goes_on_after_an_address_it_cannot_read(
    start: Callable[..., Any], unused: str
) -> None:
    doctor = start("doctor", "--listen", "nowhere", "--seed", unused, "--admin", unused, "--json")
    assert doctor.finish() == 1
    assert _findings(doctor, "port")[0]["text"].startswith("listen: 'nowhere' is not an address")
    assert "no TCP connection" in _findings(doctor, f"seed {unused}")[0]["text"]
    doctor = start("doctor", "--seed", "nowhere", "--admin", unused, "--json")
    assert doctor.finish() == 1
    assert "is not an address" in _findings(doctor, "seed nowhere")[0]["text"]


def test_a_busy_status_port_is_told_in_one_line(start: Callable[..., Any], point: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        busy = f"127.0.0.1:{held.getsockname()[1]}"
        node = start("node", "--listen", point, "--admin", busy)
        assert node.finish() == 2
    assert f"cannot answer status on {busy}: Address already in use" in node.said
    assert "add_port" not in node.said


def test_port_0_takes_a_free_one_and_meets_nobody(start: Callable[..., Any], point: str) -> None:
    flags = ("--listen", "127.0.0.1:0", "--meet", point, "--admin", "127.0.0.1:0", "--json")
    started = start("node", *flags).record(event="started")
    assert started["address"] != point
    assert started["admin"] not in ("", ADMIN_ADDRESS)


def test_doctor_warns_of_wildcards_proxies_and_bad_files(
    start: Callable[..., Any], unused: str
) -> None:
    environment = {"http_proxy": "http://proxy.invalid:3128"}
    flags = ("--listen", "0.0.0.0:0", "--advertise", "0.0.0.0:7400", "--admin", unused)
    doctor = start("doctor", *flags, **environment)
    assert doctor.finish() == 1
    assert "is a wildcard, which nobody can dial" in doctor.printed
    assert "http_proxy set: links between nodes ignore it" in doctor.printed
    doctor = start("doctor", "--config", "no-such-file.toml", "--json")
    assert doctor.finish() == 1
    assert _findings(doctor, "configuration")[0]["verdict"] == "problem"


def test_a_traced_node_s_status_says_so_and_its_trace_survives_kill_9(
    start: Callable[..., Any], point: str, tmp_path: Path
) -> None:
    admin = "127.0.0.1:0"
    traced = ("--trace", str(tmp_path), "--trace-run", "r1", "--admin", admin, "--json")
    node = start("node", "--meet", point, *traced, OVERLAYMQ_TRACE_FLUSH_EVERY="0.05")
    started = node.record(event="started")
    deadline = time.monotonic() + 30
    while not (found := [row for row in rows(files(tmp_path)) if row.reason == "active"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # a look at a file of another process
    status = start("status", started["admin"])
    assert status.finish() == 0
    assert "has traced" in status.printed
    node.process.kill()
    node.process.wait()
    assert [row.node_id for row in found] == [started["id"]]
    assert [path.parent.name for path in recover(tmp_path / "r1")] == ["r1"]
