"""CHAR(n) and VARCHAR(n) in declarations: what queries see, and what a view stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from base.text.type_names import ELEMENT
from io_kafka.formats.text_limits import TextLimit
from stepwell.catalyst.tree import TreeNode, walk_all
from stepwell.errors import ProjectError
from stepwell.lowering.driver import lower
from stepwell.planning.plans import FlowPlan, ResolvedProject, ResolvedView
from stepwell.planning.resolver import resolve
from stepwell.project.text_types import declared_type
from tests.stepwell.folder import project

SOURCES = """
CREATE STREAMING TABLE codes (code CHAR({size}), name VARCHAR({length}) NOT NULL, more ARRAY<STRUCT<x: CHAR(2)>>, n INT)
  USING kafka TBLPROPERTIES ('subscribe' = 'codes');
"""


def resolved(root: Path, spark: SparkSession, text: str, size: int = 3, length: int = 5) -> ResolvedProject:
    return resolve(project(root, {"s.sql": SOURCES.format(size=size, length=length), "v.sql": text}), spark)


def view(root: Path, spark: SparkSession, text: str) -> ResolvedView:
    return resolved(root, spark, f"CREATE MATERIALIZED VIEW v {text}").views[0]


def expression(node: TreeNode) -> str:
    """The expression for a test: the class of each call with its arguments, or the name of the Java function that it calls."""
    if node.kind in ("Literal", "AttributeReference"):
        return str(node["value"] if node.kind == "Literal" else node["name"])
    name = node.kind if node.kind != "StaticInvoke" else node["functionName"]
    return f"{name}({', '.join(map(expression, node.children))})"


def shown(flow: FlowPlan) -> str:
    return " ".join(f"{node.kind} {expression(node)}" for node in walk_all(flow.tree))


def test_a_source_knows_its_limits_and_queries_see_strings(tmp_path: Path, spark: SparkSession) -> None:
    found = resolved(tmp_path, spark, "CREATE MATERIALIZED VIEW v AS SELECT * FROM codes")
    (source,) = found.sources
    assert source.limits == (
        TextLimit(("code",), 3, True), TextLimit(("name",), 5, False), TextLimit(("more", ELEMENT, "x"), 2, True),
    )  # fmt: skip
    assert source.schema.simpleString() == "struct<code:string,name:string,more:array<struct<x:string>>,n:int>"
    assert [declared_type(field) for field in source.schema] == [
        "char(3)",
        "varchar(5)",
        "array<struct<`x`:char(2)>>",
        None,
    ]
    assert [declared_type(field) for field in found.views[0].schema] == [
        declared_type(field) for field in source.schema
    ]
    assert "WriteSide" not in shown(found.views[0].flows[0]), "what is stored already is not checked again"


@pytest.mark.parametrize(
    ("query", "has", "has_not"),
    [
        ("SELECT n FROM codes WHERE code = 'a'", "EqualTo(code, a  )", "StaticInvoke"),
        ("SELECT n FROM codes WHERE name = 'a'", "EqualTo(name, a)", "StaticInvoke"),
        ("SELECT n FROM codes WHERE code IN ('a', 'bcd')", "In(code, a  , bcd)", "StaticInvoke"),
        (
            "SELECT code AS c FROM codes UNION ALL SELECT concat(code, 'x') FROM codes",
            "charTypeWriteSideCheck(c",
            "StringRPad",
        ),
        ("SELECT cast(n AS CHAR(2)) AS c FROM codes", "Cast(n)", "WriteSide"),
    ],
)
def test_a_query_reads_what_spark_reads_of_a_table(
    tmp_path: Path, spark: SparkSession, query: str, has: str, has_not: str
) -> None:
    text = shown(view(tmp_path, spark, f"AS {query}").flows[0])
    assert has in text
    assert has_not not in text


def test_a_declared_column_is_checked_and_padded(tmp_path: Path, spark: SparkSession) -> None:
    found = view(tmp_path, spark, "(Name CHAR(5), same CHAR(3), n INT) AS SELECT name, code AS same, n FROM codes")
    assert [declared_type(field) for field in found.schema] == ["char(5)", "char(3)", None]
    checks = [node for node in walk_all(found.flows[0].tree) if "WriteSideCheck" in str(node.get("functionName"))]
    assert len(checks) == 1 and expression(checks[0]).startswith("charTypeWriteSideCheck(name")


def test_a_flow_of_a_table_is_checked_too(tmp_path: Path, spark: SparkSession) -> None:
    text = """
        CREATE STREAMING TABLE out (name VARCHAR(2));
        CREATE FLOW f AS INSERT INTO out BY NAME SELECT name FROM STREAM codes;
        CREATE FLOW g AS INSERT INTO out BY NAME SELECT substr(name, 1, 2) AS name FROM STREAM codes;
    """
    (out,) = resolved(tmp_path, spark, text).views
    assert ["varcharTypeWriteSideCheck" in shown(flow) for flow in out.flows] == [True, True]


def test_the_state_belongs_to_the_lengths_of_char_and_not_of_varchar(tmp_path: Path, spark: SparkSession) -> None:
    def fingerprint(name: str, size: int, length: int) -> str:
        root = tmp_path / name
        root.mkdir()
        found = resolved(root, spark, "CREATE MATERIALIZED VIEW v AS SELECT code, n FROM codes", size, length)
        return lower(found).fingerprint

    first = fingerprint("a", 3, 5)
    assert first == fingerprint("b", 3, 6)
    assert first != fingerprint("c", 4, 5)


@pytest.mark.parametrize("key", ["spark.sql.preserveCharVarcharTypeInfo", "spark.sql.charAsVarchar"])
def test_settings_that_give_these_types_another_meaning_are_refused(
    tmp_path: Path, spark: SparkSession, key: str
) -> None:
    with pytest.raises(ProjectError, match=f"{key} = true would change answers"):
        resolved(tmp_path, spark, f"SET {key} = true; CREATE MATERIALIZED VIEW v AS SELECT code FROM codes;")
