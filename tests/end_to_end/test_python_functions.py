"""Functions in Python in a whole pipeline: the batch answer for any number of workers and after crashes, and what a function's error does."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from typing import Any

import pytest

from coordinator.starting.errors import CircuitChanged
from engine.errors import DataError
from tests.end_to_end.harness import Playground, Resolved, renamed
from tests.end_to_end.test_placement import contents, crash_and_replay
from tests.end_to_end.threads import threads

HELPER = "helper_of_end_to_end"

DEFINITIONS = """
import sys
from collections.abc import Iterator

import pandas as pd
from pyspark import pipelines as dp
from pyspark.sql import functions as F

sys.path.insert(0, FOLDER)
from helper_of_end_to_end import cleaned

LIMIT = 3

@F.udf("string")
def name_of(text):
    return cleaned(text)

@F.pandas_udf("bigint")
def weighted(amounts: pd.Series, factors: pd.Series) -> pd.Series:
    return amounts * factors.clip(upper=LIMIT)

spark.udf.register("parity", lambda n: "even" if n % 2 == 0 else "odd", "string")

@dp.materialized_view(table_properties={"topic": "~by_name", "mode": "upsert", "key": "name"})
def by_name():
    sales = spark.table("sales")
    return sales.groupBy(name_of("name").alias("name")).agg(F.sum(weighted("amount", "factor")).alias("total"))

@dp.materialized_view(table_properties={"topic": "~odd", "mode": "changelog"})
def odd():
    return spark.sql("SELECT id, parity(amount) AS p, parity(total) AS q FROM sales JOIN by_name USING (name) WHERE parity(id) = 'odd'")
""".replace("@", "@@").replace("~", "@")

SQL = """
CREATE STREAMING TABLE sales (id BIGINT NOT NULL, name STRING, amount BIGINT NOT NULL, factor BIGINT NOT NULL)
  USING kafka TBLPROPERTIES ('subscribe' = '@sales', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW parities TBLPROPERTIES ('topic' = '@parities', 'mode' = 'upsert', 'key' = 'p')
  AS SELECT parity(amount) AS p, count(*) AS n FROM sales GROUP BY parity(amount);
"""

CLEANED = """
TITLES = {"mr", "ms"}

def cleaned(text):
    words = [word for word in (text or "").lower().split() if word not in TITLES]
    if "bad" in words:
        raise ValueError(f"a bad name: {text}")
    return " ".join(words)
"""


def project(play: Playground, helper: str = CLEANED, name: str = HELPER) -> Resolved:
    """The project with its module, which is there only while the project is planned: workers have to get along without the file."""
    module = play.folder / f"{name}.py"
    module.write_text(helper)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    text = DEFINITIONS.replace("FOLDER", repr(str(play.folder))).replace(HELPER, name)
    files = {"a.py": text, "b.sql": SQL}
    conf: dict[str, Any] = {"stepwell.step.rows.max": 9, "stepwell.workers": 2}
    try:
        resolved = play.resolve(files, conf)
    finally:
        module.unlink()
        sys.path.remove(str(play.folder))
    return replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))


def send(play: Playground, first: int) -> None:
    """Sales in two partitions; later ones replace and delete earlier ones."""
    for partition in range(2):
        ids = range(first + partition, first + 24, 2)
        names = ("Mr Ada", "ada", "Ms Bo", None)
        rows = [{"id": n % 30, "name": names[n % 4], "amount": n, "factor": n % 6} for n in ids]
        play.send("sales", [(str(row["id"]), None if n % 11 == 10 else row) for n, row in enumerate(rows)], partition)


@pytest.mark.long
def test_views_over_python_functions_are_the_batch_answer_after_crashes(play: Playground) -> None:
    play.topic("sales", 2)
    resolved = project(play)
    other = renamed(resolved, "-w3", 3)
    send(play, 0)
    crash_and_replay(play, resolved, in_threads=False)  # in Spark's own Python processes
    crash_and_replay(play, other, in_threads=True)
    send(play, 12 + 30)
    for run in (resolved, other):
        play.run(run, threads())
    module = play.folder / f"{HELPER}.py"
    module.write_text(CLEANED)
    play.spark.sparkContext.addPyFile(str(module))  # Spark's own workers have to find the module by its name
    assert min(play.check(resolved).values()) > 1
    assert play.check_steps(other) == play.check_steps(resolved)
    assert contents(play, other) == contents(play, resolved)


@pytest.mark.long
def test_a_function_that_raises_leaves_its_view_without_an_answer_and_a_changed_one_is_another_circuit(
    play: Playground,
) -> None:
    play.topic("sales", 2)
    name = "helper_that_raises"
    resolved = project(play, CLEANED, name)
    good = [{"id": n, "name": "ada", "amount": n, "factor": 1} for n in range(9)]
    play.send("sales", [(str(row["id"]), row) for row in good])
    play.run(resolved, threads())
    written = play.read("by_name")
    play.send("sales", [("99", {"id": 99, "name": "Ms bad", "amount": 1, "factor": 1})])
    said = (
        r"view by_name, step 1: \[PYTHON_FUNCTION\] the function name_of \(transformations/a\.py:\d+\) raised ValueError: a bad name: Ms bad "
        r"\(at transformations/a\.py:\d+\) for the arguments \('Ms bad'\)"
    )
    for _ in range(2):
        with pytest.raises(DataError, match=said):
            play.run(resolved, threads())
    assert play.read("by_name") == written
    unchanged = project(play, f"# a comment\n{CLEANED}", name)
    assert unchanged.spec.circuit.fingerprint == resolved.spec.circuit.fingerprint
    mended = project(play, CLEANED.replace('raise ValueError(f"a bad name: {text}")', "return None"), name)
    with pytest.raises(CircuitChanged, match="by_name"):
        play.run(mended, threads())
    play.run(mended, threads(), full_refresh=True)
    assert len(play.read("by_name")) > len(written)
