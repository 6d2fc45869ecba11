"""Which share of the messages was traced (``trace.sample``): every node says so when it comes up.

All nodes trace the same messages, so ratios, delays and order of a sample are those of the whole, within
chance. Counts are of the sample alone and are not scaled: a share of messages is not the same share of a
node's or a second's traffic. Nodes that sample differently make losses out of nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from overlaymq.trace import schema as S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def shares(control: DataFrame) -> dict[str, tuple[float, float]]:
    """The least and the greatest share that a node traced, by run. Who does not say has traced everything."""
    told = F.get_json_object("extra", "$.sample").try_cast("double")
    share = F.coalesce(told, F.lit(1.0))
    came_up = control.where((F.col("event") == S.NODE) & (F.col("reason") == "up"))
    found = came_up.groupBy("run_id").agg(F.min(share).alias("least"), F.max(share).alias("most"))
    return {row.run_id: (row.least, row.most) for row in found.collect()}
