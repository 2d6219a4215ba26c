# ruff: noqa: E501 (tables of cases read better in long lines)
"""The whole API of the installed `pyspark.pipelines` and of its SQL, by reflection: everything in it is in the tables of docs/sql.md, and nothing of
it is silently ignored."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stepwell.errors import ProjectError
from stepwell.planning.leaves import boundary
from stepwell.project.auto_cdc import AutoCdcQuery
from stepwell.project.definitions import Definitions, load_definitions, quiet_spark
from stepwell.project.elements import FlowDefinition
from stepwell.project.flow_conf import conf_in_force
from stepwell.project.tables import output_notes
from tests.stepwell.folder import SPEC, project

DOCS = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
ANSWERS = ("supported", "no effect", "refused")

DECORATED = "@dp.{function}({arguments})\ndef t(): return spark.table('s')\n"
CALLED = "dp.create_streaming_table('x')\ndp.create_streaming_table('y')\ndp.{function}({arguments})\n"
FLOW = "dp.create_streaming_table('x')\ndp.create_streaming_table('y')\n" + DECORATED
CALLS = {"table": DECORATED, "materialized_view": DECORATED, "temporary_view": DECORATED, "append_flow": FLOW}
"""How a function is written. All others are CALLED."""

BASE: dict[str, dict[str, str]] = {
    "append_flow": {"target": "'x'"},
    "create_streaming_table": {"name": "'t'"},
    "create_sink": {"name": "'t'", "format": "'kafka'", "options": "{'topic': 'o'}"},
    "create_auto_cdc_flow": {"target": "'x'", "source": "'s'", "keys": "['k']", "sequence_by": "'n'"},
}
"""The arguments of a call in which nothing is probed."""

COMMON = {
    "name": "'other'",
    "comment": "'about it'",
    "spark_conf": "{'spark.sql.caseSensitive': 'true'}",
    "table_properties": "{'key': 'k'}",
    "partition_cols": "['k']",
    "cluster_by": "['k']",
    "schema": "'k INT, n BIGINT'",
    "format": "'kafka'",
    "target": "'y'",
}
PROBES: dict[str, dict[str, str]] = {
    "create_sink": {"format": "'memory'", "options": "{'topic': 'p'}"},
    "create_auto_cdc_flow": {
        "source": "'r'",
        "keys": "['k', 'op']",
        "sequence_by": "'n + 1'",
        "apply_as_deletes": "\"op = 'd'\"",
        "column_list": "['k']",
        "except_column_list": "['op']",
        "stored_as_scd_type": "2",
        "track_history_column_list": "['n'], stored_as_scd_type=2",
        "track_history_except_column_list": "['n'], stored_as_scd_type=2",
    },
}
"""An argument other than that of BASE, by function and parameter; COMMON has those of several functions."""


def written(function: str, arguments: dict[str, str]) -> str:
    text = ", ".join(f"{name}={value}" for name, value in arguments.items())
    head = "from pyspark import pipelines as dp\n"
    return head + CALLS.get(function, CALLED).format(function=function, arguments=text)


def load(root: Path, spark: SparkSession, files: dict[str, str]) -> Definitions:
    with quiet_spark():
        return load_definitions(project(root, files), spark)


def shape(found: Definitions) -> list[Any]:
    """What was understood, without what differs between two readings of the same text."""
    outputs = [
        (o.kind, o.name, o.schema, o.format, o.properties, o.comment, o.stored_by, output_notes(o))
        for o in found.outputs
    ]
    flows = [
        (f.name, f.target, f.comment, f.notes, conf_in_force(f.spark_conf), plan(f, found.spark)) for f in found.flows
    ]
    return [*outputs, *flows, *found.notes]


def plan(flow: FlowDefinition, spark: SparkSession) -> str:
    """The analysed plan of an AUTO CDC query, without the numbers of expressions. Of the others the kind, and the columns that are renamed."""
    if not isinstance(flow.query, AutoCdcQuery):
        return f"{type(flow.query).__name__} {getattr(flow.query, 'columns', ())}"
    for name in ("s", "r"):
        boundary(name, StructType.fromDDL("k INT, n BIGINT, op STRING"), True, spark).createOrReplaceTempView(name)
    frame = flow.query(spark)
    return re.sub(r"#\d+L?", "", frame._jdf.queryExecution().analyzed().toString()) + flow.query.target


def rows(section: str) -> list[list[str]]:
    """The rows of the first table below a heading of docs/sql.md."""
    text = DOCS.split(f"### {section}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def answers() -> dict[tuple[str, str], str]:
    found = {}
    for functions, parameter, answer in rows("In Python"):
        for function in functions.split(", "):
            assert (function, parameter) not in found, f"{function}({parameter}) is in two rows"
            found[function, parameter] = next(known for known in ANSWERS if answer.startswith(known))
    return found


def installed() -> list[tuple[str, str]]:
    functions = {name: getattr(dp, name) for name in dp.__all__}
    return [
        (name, parameter)
        for name, function in functions.items()
        for parameter in inspect.signature(function).parameters
    ]


def test_the_table_has_the_installed_api_and_nothing_else() -> None:
    assert sorted(answers()) == sorted(installed())


def test_no_parameter_is_silently_ignored(tmp_path: Path, spark: SparkSession) -> None:
    """With each parameter the definitions are others than without it, and they have a note if the table says that it has no effect."""
    bases = {}
    for number, ((function, parameter), answer) in enumerate(answers().items()):
        if parameter == "query_function":
            continue  # PySpark itself passes it
        base = BASE.get(function, {})
        if function not in bases:
            bases[function] = shape(load(tmp_path / function, spark, {"a.py": written(function, base)}))
        probe = PROBES.get(function, {}).get(parameter) or COMMON[parameter]
        found = load(tmp_path / str(number), spark, {"a.py": written(function, {**base, parameter: probe})})
        assert shape(found) != bases[function], f"dp.{function} ignores {parameter}={probe}"
        noted = any(output_notes(output) for output in found.outputs)
        assert noted == (answer == "no effect"), f"dp.{function}({parameter}={probe}) is documented as {answer}"


def test_decorators_work_without_parentheses(tmp_path: Path, spark: SparkSession) -> None:
    for function in ("table", "materialized_view", "temporary_view"):
        text = written(function, {})
        bare = load(tmp_path / function, spark, {"a.py": text.replace("()\n", "\n", 1)})
        assert shape(bare) == shape(load(tmp_path / f"{function}2", spark, {"a.py": text}))


HEAD = "from pyspark import pipelines as dp\n"
NO_EFFECT = [
    (
        "@dp.materialized_view(spark_conf={'spark.executor.memory': '4g'})\ndef t(): ...",
        "spark.executor.memory = 4g has no effect",
    ),
    (
        "@dp.table(spark_conf={'spark.sql.shuffle.partitions': '9'})\ndef t(): ...",
        "spark.sql.shuffle.partitions = 9 has no effect",
    ),
    (
        "@dp.table(table_properties={'quality': 'gold', 'delta.x': '1'})\ndef t(): ...",
        "delta.x, quality have no effect",
    ),
    ("@dp.table(format='delta')\ndef t(): ...", "format delta has no effect"),
    ("@dp.table(partition_cols=['a'], cluster_by=['b'])\ndef t(): ...", "partition_cols a has no effect"),
]


@pytest.mark.parametrize(("text", "says"), NO_EFFECT)
def test_what_has_no_effect_is_noted(tmp_path: Path, spark: SparkSession, text: str, says: str) -> None:
    found = load(tmp_path, spark, {"a.py": HEAD + text})
    notes = [*output_notes(found.outputs[0]), *found.flows[0].notes]
    assert any(says in note for note in notes), notes


REFUSED = [
    ("@dp.table(spark_conf={'spark.sql.ansi.enabled': 'false'})\ndef t(): ...",
        r"a\.py:2: t: spark.sql.ansi.enabled = false would change answers.*\n.*try_cast"),
    ("@dp.table(spark_conf={'spark.sql.legacy.sizeOfNull': 'true'})\ndef t(): ...", r"a\.py:2: t: .*would change answers"),
    ("@dp.table(spark_conf={'spark.sql.optimizer.excludedRules': ''})\ndef t(): ...", r"a\.py:2: t: .*would change answers"),
    ("from pyspark.sql.types import *\ndp.create_streaming_table('t', schema=StructType().add('a', IntegerType(), True, {'CURRENT_DEFAULT': '1'}))",
     r"a\.py:3: t: column a has DEFAULT"),
    ("@dp.append_flow(target='t', once=True)\ndef f(): ...", r"a\.py:2: once is not in pyspark.pipelines\n.*read once"),
    ("@dp.view\ndef f(): ...", r"a\.py:2: view is not in pyspark.pipelines\n.*temporary_view"),
    ("dp.create_auto_cdc_from_snapshot_flow('t', 's', ['k'])", r"a\.py:2: create_auto_cdc_from_snapshot_flow is not"),
    ("dp.create_auto_cdc_flow('t', 's', ['k'], 'n', apply_as_truncates='true')", r"a\.py:2: apply_as_truncates is not .*\n.*delete for every key"),
    ("dp.create_auto_cdc_flow('t', 's', ['k'], 'n', ignore_null_updates=True)", r"a\.py:2: ignore_null_updates is not .*\n.*max_by"),
    ("dp.create_auto_cdc_flow('t', 's', [], 'n')", r"a\.py:2: t: AUTO CDC: no key"),
    ("dp.create_auto_cdc_flow('t', 's', ['a.b'], 'n')", r"a\.py:2: t: keys has a.b, which is not the name of a column"),
    ("from pyspark.sql.functions import expr\ndp.create_auto_cdc_flow('t', 's', [expr('k + 1')], 'n')", r"a\.py:3: t: keys has .*k \+ 1.*not the name"),
    ("dp.create_auto_cdc_flow('t', 's', ['k'], 'n', track_history_column_list=['n'])", r"a\.py:2: .*unless stored_as_scd_type is 2"),
    ("dp.create_auto_cdc_flow('t', 's', ['k'], 'n')", r"a\.py:2: t: flow t fills t, which is not defined"),
    ("dp.create_sink('t', 'kafka', {'topic': 'o'})\ndp.create_auto_cdc_flow('t', 's', ['k'], 'n')", r"a\.py:3: t: AUTO CDC fills a sink"),
    ("dp.create_streaming_table('t')\ndp.create_auto_cdc_flow('t', 's', ['k'], 'n')\n@dp.append_flow(target='t')\ndef f(): ...",
     r"a\.py:3: t: AUTO CDC fills t, and so does flow f"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_refused_in_python(tmp_path: Path, spark: SparkSession, text: str, says: str) -> None:
    with pytest.raises(ProjectError, match=says):
        load(tmp_path, spark, {"a.py": HEAD + text})


OF_ANSWERS = [
    ("spark.sql.columnNameOfCorruptRecord", "bad", "from_json('{', 'a INT, bad STRING')"),
    ("spark.sql.columnNameOfCorruptRecord", "_Corrupt_Record", "from_json('{', '_corrupt_record STRING')"),
    (
        "spark.sql.json.enablePartialResults",
        "false",
        """from_json('{"a": {"b": "x", "c": 1}}', 'a STRUCT<b: INT, c: INT>')""",
    ),
    ("spark.sql.jsonGenerator.ignoreNullFields", "false", "to_json(named_struct('a', NULL))"),
    ("spark.sql.icu.caseMappings.enabled", "false", "initcap('\u00df')"),
]


@pytest.mark.parametrize(("key", "value", "expression"), OF_ANSWERS)
def test_a_setting_that_changes_an_answer_of_spark_is_refused(
    tmp_path: Path, spark: SparkSession, key: str, value: str, expression: str
) -> None:
    answers = []
    for setting in ({}, {key: value}):
        session = spark.newSession()
        for each in setting.items():
            session.conf.set(*each)
        answers.append(str(session.sql(f"SELECT {expression} AS x").collect()))
    assert answers[0] != answers[1]
    view = "CREATE MATERIALIZED VIEW v AS SELECT 1 AS k;"
    wholly = f"{SPEC}configuration:\n  {key}: '{value}'\n"
    for name, text, spec in (("flow", f"SET {key} = {value}; {view}", SPEC), ("project", view, wholly)):
        with pytest.raises(ProjectError, match=f"{key} = {value} would change answers"), quiet_spark():
            load_definitions(project(tmp_path / name, {"a.sql": text}, spec), spark)


CDC = "AUTO CDC INTO t FROM STREAM s KEYS (k) SEQUENCE BY n"
STATEMENTS: dict[str, list[tuple[str, str, str]]] = {
    "CREATE STREAMING TABLE": [
        ("(columns)", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t (k INT)"),
        ("USING", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t USING kafka"),
        ("TBLPROPERTIES", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t TBLPROPERTIES ('key' = 'k')"),
        ("COMMENT", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t COMMENT 'about'"),
        ("IF NOT EXISTS", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE IF NOT EXISTS t"),
        ("PARTITIONED BY, CLUSTER BY", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t PARTITIONED BY (k)"),
        ("DEFAULT COLLATION", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t DEFAULT COLLATION UNICODE_CI"),
        ("AS SELECT", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t AS SELECT * FROM STREAM s"),
        ("FLOW AUTO CDC", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t FLOW AUTO CDC FROM STREAM s KEYS (k) SEQUENCE BY n"),
    ],
    "CREATE MATERIALIZED VIEW": [
        ("(columns)", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE MATERIALIZED VIEW t (k INT) AS SELECT 1 AS k"),
        ("USING", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE MATERIALIZED VIEW t USING kafka AS SELECT 1 AS k"),
        ("TBLPROPERTIES", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE MATERIALIZED VIEW t TBLPROPERTIES ('key' = 'k') AS SELECT 1 AS k"),
        ("COMMENT", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE MATERIALIZED VIEW t COMMENT 'about' AS SELECT 1 AS k"),
        ("IF NOT EXISTS", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE MATERIALIZED VIEW IF NOT EXISTS t AS SELECT 1 AS k"),
        ("PARTITIONED BY, CLUSTER BY", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE MATERIALIZED VIEW t CLUSTER BY (k) AS SELECT 1 AS k"),
        ("DEFAULT COLLATION", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE MATERIALIZED VIEW t DEFAULT COLLATION UNICODE_CI AS SELECT 1 AS k"),
        ("AS SELECT", "CREATE STREAMING TABLE t", "CREATE MATERIALIZED VIEW t AS SELECT 1 AS k"),
    ],
    "CREATE TEMPORARY VIEW": [
        ("AS SELECT", "CREATE STREAMING TABLE t", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k"),
        ("COMMENT", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k", "CREATE TEMPORARY VIEW t COMMENT 'about' AS SELECT 1 AS k"),
        ("(columns)", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k", "CREATE TEMPORARY VIEW t (m) AS SELECT 1 AS k"),
        ("OR REPLACE", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k", "CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 1 AS k"),
        ("GLOBAL", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k", "CREATE GLOBAL TEMPORARY VIEW t AS SELECT 1 AS k"),
    ],
    "CREATE VIEW": [
        ("AS SELECT", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k", "CREATE VIEW t AS SELECT 1 AS k"),
        ("TBLPROPERTIES", "CREATE VIEW t AS SELECT 1 AS k", "CREATE VIEW t TBLPROPERTIES ('a' = 'b') AS SELECT 1 AS k"),
    ],
    "CREATE FLOW": [
        ("AS INSERT INTO ... BY NAME", "CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t; CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1 AS k"),
        ("AS AUTO CDC INTO", "CREATE STREAMING TABLE t", f"CREATE STREAMING TABLE t; CREATE FLOW f AS {CDC}"),
        ("COMMENT", f"CREATE STREAMING TABLE t; CREATE FLOW f AS {CDC}", f"CREATE STREAMING TABLE t; CREATE FLOW f COMMENT 'about' AS {CDC}"),
    ],
    "SET": [("key = value", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k", "SET spark.sql.caseSensitive = true; CREATE TEMPORARY VIEW t AS SELECT 1 AS k")],
    "USE, SET CATALOG": [("", "CREATE TEMPORARY VIEW t AS SELECT 1 AS k", "USE somewhere; CREATE TEMPORARY VIEW t AS SELECT 1 AS k")],
}  # fmt: skip
"""By the statement of the table in docs/sql.md: a part of it, a file without that part, and one with it."""

COMMANDS = ("IF NOT EXISTS", "OR REPLACE")
"""Words that mean nothing in a definition, with or without a note."""


def test_the_table_of_statements_has_a_probe_for_every_row() -> None:
    listed = {(statement, part) for statements, part, _ in rows("In SQL") for statement in _statements(statements)}
    assert listed == {(statement, part) for statement, probes in STATEMENTS.items() for part, _, _ in probes}


def _statements(text: str) -> list[str]:
    return [text] if text.startswith("USE") else text.split(", ")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_part_of_a_statement_is_silently_ignored(tmp_path: Path, spark: SparkSession, statement: str) -> None:
    documented = {(s, part): answer for text, part, answer in rows("In SQL") for s in _statements(text)}
    for number, (part, without, probe) in enumerate(STATEMENTS[statement]):
        answer = documented[statement, part]
        if answer.startswith("refused"):
            with pytest.raises(ProjectError, match=r"a\.sql:1: t: "):
                load(tmp_path / f"{number}", spark, {"a.sql": probe})
            continue
        found = load(tmp_path / f"{number}", spark, {"a.sql": probe})
        base = load(tmp_path / f"{number}-base", spark, {"a.sql": without})
        assert part in COMMANDS or shape(found) != shape(base), f"{probe}: {part} is ignored"
        noted = bool([*found.notes, *(note for output in found.outputs for note in output_notes(output))])
        assert part in COMMANDS or noted == (answer.startswith("no effect") or "notes" in answer), f"{probe}: {answer}"


FIELDS = {
    "CREATE STREAMING TABLE t": "name columns partitioning tableSpec ifNotExists",
    "CREATE STREAMING TABLE t AS SELECT 1": "name columns partitioning tableSpec query originalText ifNotExists",
    "CREATE MATERIALIZED VIEW t AS SELECT 1": "name columns partitioning tableSpec query originalText ifNotExists",
    "CREATE STREAMING TABLE t FLOW AUTO CDC FROM STREAM s KEYS (k) SEQUENCE BY n": (
        "name columns partitioning tableSpec ifNotExists source keys deleteCondition sequenceByExpr includeColumns excludeColumns "
        "storedAsScdType trackHistoryColumns trackHistoryExceptColumns"
    ),
    "CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1": "name flowOperation comment",
    f"CREATE FLOW f AS {CDC}": "name flowOperation comment",
}
PARTS = {
    ("CREATE STREAMING TABLE t", "tableSpec"): (
        "properties provider options location comment collation serde external constraints"
    ),
    ("CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1", "flowOperation"): (
        "table partitionSpec userSpecifiedCols query overwrite ifPartitionNotExists byName replaceCriteriaOpt withSchemaEvolution"
    ),
    (f"CREATE FLOW f AS {CDC}", "flowOperation"): (
        "targetTable source keys deleteCondition sequenceByExpr includeColumns excludeColumns storedAsScdType trackHistoryColumns "
        "trackHistoryExceptColumns"
    ),
}


def _fields(java: Any) -> str:
    return " ".join(java.productElementName(index) for index in range(java.productArity()))


def test_sparks_commands_have_the_parts_that_are_read(spark: SparkSession) -> None:
    """If this fails after an upgrade: read in `sql_files` what is new, or refuse it, and then renew it here."""
    parse = spark._jsparkSession.sessionState().sqlParser().parsePlan
    for statement, fields in FIELDS.items():
        assert _fields(parse(statement)) == fields, statement
    for (statement, part), fields in PARTS.items():
        assert _fields(getattr(parse(statement), part)()) == fields, (statement, part)


SQL_REFUSED = [
    ("CREATE STREAMING TABLE t (a STRING) OPTIONS ('x' = 'y')", r"a\.sql:1: .*Options are not supported"),
    ("CREATE STREAMING TABLE t LOCATION '/x'", r"a\.sql:1: .*Specifying location is not supported"),
    ("CREATE OR REFRESH STREAMING TABLE t", r"a\.sql:1: OR REFRESH is not supported\n.*Leave OR REFRESH out"),
    ("CREATE STREAMING TABLE t;\nCREATE FLOW f AS AUTO CDC INTO t FROM STREAM s KEYS (k) APPLY AS TRUNCATE WHEN true SEQUENCE BY n",
     r"a\.sql:2: APPLY AS TRUNCATE is not supported\n.*delete for every key"),
    ("CREATE STREAMING TABLE t;\nCREATE FLOW f AS AUTO CDC INTO t FROM STREAM s KEYS (k) IGNORE NULL UPDATES SEQUENCE BY n",
     r"a\.sql:2: IGNORE NULL UPDATES is not supported\n.*max_by"),
    ("CREATE STREAMING TABLE t;\nCREATE FLOW f AS AUTO CDC INTO t FROM STREAM s KEYS (k) SEQUENCE BY n TRACK HISTORY ON (n)",
     r"a\.sql:2: t: .*SCD type 1, which keeps none"),
    (f"CREATE STREAMING TABLE t;\nCREATE FLOW f AS {CDC};\nCREATE FLOW g AS {CDC};", r"a\.sql:2: t: AUTO CDC fills t, and so does flow g"),
    (f"CREATE MATERIALIZED VIEW t AS SELECT 1 AS k;\nCREATE FLOW f AS {CDC};", r"a\.sql:2: t: AUTO CDC fills a materialized view"),
    ("SET spark.sql.ansi.enabled = false;\nCREATE TEMPORARY VIEW t AS SELECT 1 AS k", r"a\.sql:2: t: .*would change answers"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), SQL_REFUSED)
def test_refused_in_sql(tmp_path: Path, spark: SparkSession, text: str, says: str) -> None:
    with pytest.raises(ProjectError) as raised:
        load(tmp_path, spark, {"a.sql": text})
    assert raised.match(says)
