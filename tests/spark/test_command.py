"""`overlaymq analyze`: on the terminal, as JSON, as files, live, and when it cannot."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from overlaymq.cli import main
from overlaymq.cli.analyze import SHOWN, show
from overlaymq.trace import follow, output
from overlaymq.trace.analysis.tables import TABLES, presented

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import Small

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "artifacts"


def test_the_command_writes_everything_and_ends_with_its_verdict(
    spark: SparkSession, small: Small, tmp_path: Path
) -> None:
    """Strictly: losses without notice are a failure. The same traces give the same tables again."""
    options = ["--out", str(tmp_path), "--format", "parquet", "--strict", "--json"]
    done = CliRunner().invoke(main, ["analyze", str(small.directory), *options])
    assert done.exit_code == 1, done.output
    assert "report.html" in done.stderr
    said = json.loads(done.stdout)
    assert said == json.loads(json.dumps(output.as_json(small.found)))
    assert {path.stem for path in tmp_path.glob("*.parquet")} == set(TABLES)
    for name, table in small.found.tables.items():
        assert pq.read_table(tmp_path / f"{name}.parquet").equals(table.data), name
    assert json.loads((tmp_path / "headline.json").read_text()) == said["headline"]


def test_the_terminal_shows_the_main_things(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    show(small.found, everything=False)
    shown = capsys.readouterr().out
    for sentence in small.found.headline.sentences():
        assert sentence.text[:40] in shown
    assert f"losses  ({SHOWN} of {small.truth.lost_total})" in shown
    assert "latency_cdf" not in shown
    show(small.found, everything=True)
    assert "latency_cdf" in capsys.readouterr().out


def test_a_wrong_path_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["analyze", str(tmp_path / "absent")])
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "no such file or directory" in done.stderr


def test_a_missing_library_names_its_extra(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from overlaymq.cli import main; main(['analyze', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'overlaymq[spark]'" in done.stderr


def test_live_sums_agree_with_the_whole(spark: SparkSession, small: Small) -> None:
    seen: list[follow.Sums] = []
    with follow.following(spark, [str(small.directory)], seen.append, once=True) as query:
        assert query.awaitTermination(200)
        assert query.exception() is None
    last = seen[-1]
    assert last.events == small.truth.rows
    topics = {row["topic"]: row for row in small.found.tables["topics"].data.to_pylist()}
    assert {topic for _, topic in last.topics} == set(topics)
    for (_, topic), counts in last.topics.items():
        assert counts["PUBLISH"] == topics[topic]["published"]
        taken = counts["DELIVER"] - counts.get("UNDELIVERABLE", 0)
        assert taken == topics[topic]["delivered"] + topics[topic]["repeated"]


def test_files_that_come_later_are_seen(spark: SparkSession, small: Small, tmp_path: Path) -> None:
    """Half of the files are there, the other half comes while somebody looks."""
    found = sorted((small.directory / "synthetic").glob("*.parquet"))
    here = tmp_path / "run"
    here.mkdir()
    for path in found[::2]:
        shutil.copy(path, here)
    seen: list[int] = []
    with follow.following(spark, [str(tmp_path)], lambda sums: seen.append(sums.events)) as query:
        query.processAllAvailable()
        first = seen[-1]
        for path in found[1::2]:
            # As a writer does it: under a name that Spark does not see, then by rename.
            part = here / f".{path.name}.part"
            shutil.copy(path, part)
            part.rename(here / path.name)
        query.processAllAvailable()
    assert 0 < first < seen[-1] == small.truth.rows


def test_tables_as_csv_have_all_rows(small: Small, tmp_path: Path) -> None:
    output.write(small.found, tmp_path)
    with (tmp_path / "losses.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == small.truth.lost_total
    assert {row["evidence"] for row in rows} == {"link", "dropped", "subscriber"}


def test_a_table_too_long_for_memory_is_written_by_spark(
    spark: SparkSession, small: Small, tmp_path: Path
) -> None:
    frame = spark.range(50).selectExpr("'r' AS run_id", "id AS msg_seq", "'fault' AS event")
    table = presented("incidents", frame, frame, ["run", "seq", "event"], ["-seq"], limit=10)
    assert table.rows == 50
    assert table.data["seq"].to_pylist() == list(range(49, 39, -1))
    found = type(small.found)(small.found.headline, {**small.found.tables, "incidents": table})
    output.write(found, tmp_path, "parquet")
    assert pq.read_table(tmp_path / "incidents.parquet").num_rows == 50


def test_the_report_needs_nothing_from_elsewhere(small: Small, tmp_path: Path) -> None:
    report = output.write(small.found, tmp_path, title="<a title>")[0].read_text()
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?://", report)
    assert "&lt;a title&gt;" in report
    for sentence in small.found.headline.sentences():
        assert sentence.text.split(",")[0] in report
    assert report.count("<svg") >= 8
    assert len(report) < 2_000_000


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on PATH")
def test_the_report_in_a_real_browser(small: Small) -> None:
    """It renders, its script runs, and a picture of it is kept."""
    ARTIFACTS.mkdir(exist_ok=True)
    report = output.write(small.found, ARTIFACTS / "report", title="a synthetic run")[0]
    picture = ARTIFACTS / "report.png"
    picture.unlink(missing_ok=True)
    probe = report.with_name("probe.html")
    # Sorting the losses by their number, as a click on the heading does.
    click = (
        '<script>[...document.querySelectorAll("#losses th")]'
        '.find(one => one.textContent === "seq").click();</script></body>'
    )
    probe.write_text(report.read_text().replace("</body>", click))
    page = _chromium("--dump-dom", probe.as_uri())
    losses = page[page.index('id="losses"') :].partition("</table>")[0]
    cells = [re.findall(r'data-v="(-?\d+)"', row)[1] for row in losses.split("<tr>")[2:]]
    numbers = [int(cell) for cell in cells]
    assert len(numbers) == min(200, small.truth.lost_total)
    assert numbers == sorted(numbers)
    _chromium("--window-size=1280,3000", f"--screenshot={picture}", report.as_uri())
    assert picture.stat().st_size > 50_000


def _chromium(*arguments: str) -> str:
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                "chromium",
                *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--disable-sync", f"--user-data-dir={profile}"),
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    return done.stdout
