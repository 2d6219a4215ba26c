"""Every function of one row that Spark has is lowered in one form at least, or docs/sql.md says that it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stepwell.catalyst.read import read
from stepwell.catalyst.types import UnsupportedType
from stepwell.lowering.expressions import UnsupportedExpression, fragment_of

ROOT = Path(__file__).parents[3]
RULES = "org.apache.spark.sql.catalyst.optimizer."
FOLDS = (
    "ConstantFolding",
    "ConvertToLocalRelation",
    "NullPropagation",
    "SimplifyConditionals",
    "BooleanSimplification",
    "OptimizeCsvJsonExprs",
)
"""The optimiser computes the examples, which are constants, unless these rules are left out."""

OF_CONSTANTS = {"e", "pi", "typeof", "version", "schema_of_json"}
"""They have constants alone for arguments. The optimiser always computes them, so that a circuit never has them."""

OF_THE_RUN = {"now", "current_timestamp", "localtimestamp", "current_date", "curdate"}
"""The optimiser computes them. In a project, subqueries are in their place before that (stepwell/planning/clock.py)."""


@pytest.fixture
def unfolded(spark: SparkSession) -> Iterator[SparkSession]:
    key = "spark.sql.optimizer.excludedRules"
    before = spark.conf.get(key)
    spark.conf.set(key, ",".join([before, *(RULES + rule for rule in FOLDS)]))
    yield spark
    spark.conf.set(key, before)


def examples(spark: SparkSession) -> Iterator[tuple[str, list[str]]]:
    """The name of each function and the queries in its documentation."""
    jvm: Any = spark.sparkContext._jvm
    registry = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    named, names = registry.listFunction().iterator(), set()
    while named.hasNext():
        names.add(named.next().funcName())
    for name in sorted(names):
        info = registry.lookupFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)).get()
        yield name, re.findall(r"> (SELECT .*?);", info.getExamples(), re.DOTALL)


def lowers(spark: SparkSession, sql: str) -> bool | None:
    """None if the query is more than an expression over constants, or is none that this session runs."""
    try:
        tree = read(spark.sql(sql)._jdf.queryExecution().optimizedPlan())
    except (PySparkException, Py4JError):
        return None
    if tree.kind != "Project" or tree.children[0].kind != "OneRowRelation":
        return None
    try:
        for expression in tree["projectList"]:
            fragment_of(expression, lambda identity: pytest.fail(f"{sql} has a column"))
    except (UnsupportedExpression, UnsupportedType):
        return False
    return True


def said_to_be_refused() -> set[str]:
    """The names in the lists of docs/sql.md."""
    text = (ROOT / "docs" / "sql.md").read_text()
    part = text.split("**Refused**, whatever their arguments are:", 1)[1].split("\n## ", 1)[0]
    lists = [listed.split(":", 1)[1] for listed in part.split("\n- ")[1:]]
    return {name.strip() for listed in lists for name in listed.split(",")}


@pytest.mark.soak
def test_every_function_of_spark_runs_or_is_said_to_be_refused(unfolded: SparkSession) -> None:
    refused = said_to_be_refused()
    seen = {name: [lowers(unfolded, sql) for sql in queries] for name, queries in examples(unfolded)}
    missing = {name for name, found in seen.items() if False in found and True not in found} - OF_CONSTANTS
    assert sorted(missing - refused) == [], "docs/sql.md does not say that they are refused"
    right = {name for name, found in seen.items() if True in found and False not in found} - OF_THE_RUN
    assert sorted(right & refused) == [], "docs/sql.md says that they are refused"
    assert sum(True in found for found in seen.values()) > 290
