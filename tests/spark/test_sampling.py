"""A sampled run says so: its counts are a share of what happened."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.trace import schema
from overlaymq.trace.analysis import reading, sampling
from overlaymq.trace.analysis.headline import Headline
from overlaymq.trace.report.page import _verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(500)  # the first test of the session starts Spark


def headline(**known: Any) -> Headline:
    plain = dict.fromkeys((one.name for one in fields(Headline)), 0)
    return Headline(**{**plain, "expected": 50, "published": 10, "sampled_unlike": False, **known})


def sentences(one: Headline) -> str:
    return " ".join(sentence.text for sentence in one.sentences())


def test_the_headline_says_which_share_was_traced() -> None:
    """A tenth of the messages was reported as if it were all."""
    whole = headline(sample=1.0, sample_most=1.0)
    assert "traced" not in sentences(whole)
    assert _verdict(whole) == "Everything was delivered, in order"
    tenth = headline(sample=0.1, sample_most=0.1)
    assert "Only 10 % of the messages were traced" in sentences(tenth)
    assert _verdict(tenth) == "Everything in a sample of 10 % was delivered, in order"


def test_nodes_that_sample_differently_are_a_warning() -> None:
    """What one traces and the other does not looks lost."""
    unlike = headline(sample=0.1, sample_most=0.5, sampled_unlike=True)
    (warning,) = (one for one in unlike.sentences() if "10 % to 50 %" in one.text)
    assert warning.good is False
    assert "may only be untraced" in warning.text


def test_shares_are_read_by_run(spark: SparkSession) -> None:
    told = [("a", 0.25), ("a", 0.5), ("b", 0.1), ("c", None)]
    rows = [
        schema.to_values(
            schema.Row(
                run_id=run,
                schema_version=schema.SCHEMA_VERSION,
                event=schema.NODE,
                reason=reason,
                ts_wall_ns=0,
                ts_mono_ns=0,
                extra="" if share is None or reason != "up" else schema.packed(sample=share),
            )
        )
        for run, share in told
        for reason in ("up", "active")
    ]
    control = spark.createDataFrame(rows, reading.SCHEMA)
    assert sampling.shares(control) == {"a": (0.25, 0.5), "b": (0.1, 0.1), "c": (1.0, 1.0)}
