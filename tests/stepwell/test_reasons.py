"""The reason that `stepwell plan` gives for a rebuilt view: what was left out or changed, and not what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coordinator.revisions.planned import plan_change
from tests.stepwell.test_planned import facts_of, view
from tests.stepwell.test_tables_that_change import planned

SOURCES = """
CREATE STREAMING TABLE s (id BIGINT, c STRING, x INT) USING kafka TBLPROPERTIES ('subscribe' = 's');
CREATE STREAMING TABLE ch (id BIGINT, v BIGINT, w BIGINT, op STRING) USING kafka TBLPROPERTIES ('subscribe' = 'ch');
CREATE STREAMING TABLE ev (at TIMESTAMP, x INT) USING kafka TBLPROPERTIES ('subscribe' = 'ev');
"""


def of(query: str) -> str:
    return f"CREATE MATERIALIZED VIEW a AS {query};\n"


def of_changes(keys: str, sequence: str) -> str:
    return (
        f"CREATE STREAMING TABLE a TBLPROPERTIES ('topic' = 'a', 'mode' = 'upsert', 'key' = '{keys}') FLOW AUTO CDC FROM STREAM ch "
        f"KEYS ({keys}) APPLY AS DELETE WHEN op = 'd' SEQUENCE BY {sequence} COLUMNS * EXCEPT (op) STORED AS SCD TYPE 1;\n"
    )


def of_windows(columns: str, minutes: int) -> str:
    return (
        f"CREATE STREAMING TABLE a TBLPROPERTIES ('topic' = 'a', 'mode' = 'upsert', 'key' = 'st') AS SELECT window.start AS st, {columns} "
        f"FROM STREAM ev WATERMARK at DELAY OF INTERVAL 5 MINUTES GROUP BY window(at, '{minutes} minutes');\n"
    )


CASES = {
    "DISTINCT": (of("SELECT DISTINCT c, x FROM s"), of("SELECT c, x FROM s"), "DISTINCT: left out now"),
    "UNION": (
        of("SELECT c, x FROM s UNION SELECT c, id FROM s"),
        of("SELECT c, x FROM s UNION ALL SELECT c, id FROM s"),
        "DISTINCT: left out now",
    ),
    "GROUP BY": (
        of("SELECT c, max(x) AS t FROM s GROUP BY c"),
        of("SELECT c, x AS t FROM s"),
        "aggregate by c: max(x): left out now",
    ),
    "SEQUENCE BY": (of_changes("id", "v"), of_changes("id", "w"), "of each id by w desc"),
    "KEYS": (of_changes("id", "v"), of_changes("w", "v"), "of each id, and is first 1 rows of each w now"),
    "a window": (of_windows("count(*) AS n", 10), of_windows("count(*) AS n", 5), "600000000"),
    "an aggregate": (
        of_windows("count(*) AS n", 10),
        of_windows("count(*) AS n, max(x) AS m", 10),
        "count(*), max(x)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_what_was_changed(spark: SparkSession, tmp_path: Path, case: str) -> None:
    before, after, reason = CASES[case]
    was, _ = planned(spark, tmp_path / "before", SOURCES + before)
    now, _ = planned(spark, tmp_path / "after", SOURCES + after)
    found = view(plan_change(was, now, facts_of(was)), "a")
    assert reason in found.why
    assert "error(" not in found.why and "error(" not in found.first
