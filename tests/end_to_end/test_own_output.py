# ruff: noqa: E501 (tables of cases read better in long lines)
"""What one project writes, a second one reads: keys of every type in every format and mode, and maps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.harness import Playground, renamed
from tests.end_to_end.test_placement import contents, crash_and_replay
from tests.end_to_end.threads import threads
from tests.schema_registry import SchemaRegistry, schema_registry


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


# Every type of a key, as a source declares it, and its values. Rows 1 to 4 are in the years that Protobuf's own types have.
KEYS: dict[str, tuple[str, list[str]]] = {
    "b": ("BOOLEAN", ["true", "false", "true", "true", "false", "false", "NULL"]),
    "i8": ("TINYINT", ["-128", "127", "0", "1", "2", "3", "NULL"]),
    "i16": ("SMALLINT", ["-32768", "32767", "0", "1", "2", "3", "NULL"]),
    "i32": ("INT", ["-2147483648", "2147483647", "0", "1", "2", "3", "NULL"]),
    "i64": ("BIGINT", ["-9223372036854775808", "9223372036854775807", "0", "9007199254740993", "2", "3", "NULL"]),
    "dec": ("DECIMAL(38, 10)", ["1234567890123456789012345678.0123456789", "-0.0000000001", "0", "1.5", "100", "-1", "NULL"]),
    "whole": ("DECIMAL(20, 0)", ["12345678901234567890", "-1", "0", "10", "100", "-2", "NULL"]),
    "s": ("STRING", ["''", "'null'", "'{\"s\":1}'", "'é\\n\\t\"\\\\ x'", "' x '", "'1'", "NULL"]),
    "c": ("CHAR(3)", ["'abc'", "'a  '", "'   '", "'x y'", "'1  '", "'ab '", "NULL"]),
    "vc": ("VARCHAR(5)", ["'abc'", "'a  '", "'é'", "'x y'", "'12345'", "'ab '", "NULL"]),
    "bin": ("BINARY", ["X''", "X'00FF'", "X'7B7D'", "X'0A'", "X'FFFFFF'", "X'31'", "NULL"]),
    "d": ("DATE", ["date'0001-01-01'", "date'9999-12-31'", "date'2024-02-29'", "date'1969-12-31'", "date'+10000-01-01'", "date'-0044-03-15'", "NULL"]),
    "ts": ("TIMESTAMP", ["timestamp'2024-01-01 00:00:00.000001'", "timestamp'2024-01-01 00:00:00'", "timestamp'1969-12-31 23:59:59.999999'", "timestamp'0001-01-01 00:00:00.001'",
                         "timestamp'+10000-01-01 00:00:00.5'", "timestamp'-0001-01-01 00:00:00.123456'", "NULL"]),
    "nt": ("TIMESTAMP_NTZ", ["timestamp_ntz'2024-01-01 00:00:00.000001'", "timestamp_ntz'2024-01-01 00:00:00.000002'", "timestamp_ntz'1969-12-31 23:59:59.999999'", "timestamp_ntz'9999-12-31 23:59:59.999999'",
                             "timestamp_ntz'+10000-01-01 00:00:00.5'", "timestamp_ntz'-0001-01-01 00:00:00.123456'", "NULL"]),
    "ym": ("INTERVAL YEAR TO MONTH", ["INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '-1-2' YEAR TO MONTH", "INTERVAL '0-0' YEAR TO MONTH", "INTERVAL '0-1' YEAR TO MONTH", "INTERVAL '100-0' YEAR TO MONTH",
                                      "INTERVAL '0-11' YEAR TO MONTH", "NULL"]),
}  # fmt: skip
IN_SUITE = (
    "json_upsert", "micros_changelog", "minutes_upsert", "avro_changelog", "proto_upsert", "proto_with_json", "csv_micros", "one_ts", "one_d",
    "as_string", "as_long", "as_int",
)  # fmt: skip
"""Each format, way to write times and format of keys once; the soak has them in both modes, and a key of each type alone."""
ROWS = 7
WITHIN = 4
MAPS = [
    "map('b', named_struct('n', 1, 'at', date'2024-01-01'), 'a', named_struct('n', 2, 'at', NULL))", "map()", "map('', named_struct('n', NULL, 'at', NULL))",
    "map('a\"\\n', named_struct('n', 3, 'at', date'1969-12-31'))", "map('x', NULL, 'y', named_struct('n', 1, 'at', NULL))", "NULL", "map('k', named_struct('n', -1, 'at', date'+12345-01-01'))",
]  # fmt: skip
MAP = "MAP<STRING, STRUCT<n: INT, at: DATE>>"

ALL = tuple(KEYS)
SCHEMAS_HAVE = tuple(name for name in KEYS if name != "ym")
CSV_HAS = tuple(name for name in KEYS if name not in ("ym", "bin", "s", "c", "vc"))
"""Without texts: `from_csv` reads an empty one as NULL."""


@dataclass(frozen=True)
class Case:
    """One output and the source that reads it. `within`: only rows that Protobuf has. `mapped`: with a column of maps."""

    key: tuple[str, ...]
    properties: str
    within: bool = False
    mapped: bool = True


MICROS = "'timestampFormat' = 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', 'dateFormat' = 'dd/MM/yyyy', 'timestampNTZFormat' = 'yyyyMMdd HHmmss.SSSSSS'"
MINUTES = "'timestampFormat' = 'dd.MM.yyyy HH:mm', 'timestampNTZFormat' = 'yyyy-MM-dd HH:mm'"
CASES: dict[str, Case] = {
    **{f"json_{mode}": Case(ALL, f"'mode' = '{mode}'") for mode in ("upsert", "changelog")},
    **{f"micros_{mode}": Case(ALL, f"'mode' = '{mode}', {MICROS}") for mode in ("upsert", "changelog")},
    **{f"minutes_{mode}": Case(ALL, f"'mode' = '{mode}', {MINUTES}") for mode in ("upsert", "changelog")},
    **{f"avro_{mode}": Case(SCHEMAS_HAVE, f"'mode' = '{mode}', 'format' = 'avro'") for mode in ("upsert", "changelog")},
    **{f"proto_{mode}": Case(SCHEMAS_HAVE, f"'mode' = '{mode}', 'format' = 'protobuf'", within=True) for mode in ("upsert", "changelog")},
    "avro_with_json": Case(SCHEMAS_HAVE, "'mode' = 'upsert', 'format' = 'avro', 'key.format' = 'json'"),
    "proto_with_json": Case(SCHEMAS_HAVE, "'mode' = 'upsert', 'format' = 'protobuf', 'key.format' = 'json'", within=True),
    "csv": Case(CSV_HAS, "'mode' = 'upsert', 'format' = 'csv'", mapped=False),
    "csv_micros": Case(CSV_HAS, f"'mode' = 'upsert', 'format' = 'csv', 'csv.sep' = ';', {MICROS}", mapped=False),
    "csv_minutes": Case(CSV_HAS, f"'mode' = 'upsert', 'format' = 'csv', {MINUTES}", mapped=False),
    **{f"one_{name}": Case((name,), "'mode' = 'upsert'") for name in ALL if name not in ("b", "c")},
    "as_string": Case(("s",), "'mode' = 'upsert', 'key.format' = 'string'", within=True),
    "as_long": Case(("i64",), "'mode' = 'changelog', 'key.format' = 'long'", within=True),
    "as_int": Case(("i32",), "'mode' = 'upsert', 'format' = 'avro', 'key.format' = 'int'", within=True),
}  # fmt: skip


def rows_of(case: Case) -> str:
    """A SELECT of the rows: id, the key's columns, and perhaps m."""
    lines = []
    for row in range(WITHIN if case.within else ROWS):
        values = [f"{row}", *(f"CAST({KEYS[name][1][row]} AS {plain(name)}) AS {name}" for name in case.key)]
        lines.append(
            f"SELECT {values[0]} AS id, {', '.join(values[1:])}"
            + (f", CAST({MAPS[row]} AS {MAP}) AS m" if case.mapped else "")
        )
    return " UNION ALL ".join(lines)


def plain(name: str) -> str:
    kind = KEYS[name][0]
    return "STRING" if "CHAR" in kind else kind


def texts(case: Case) -> str:
    """Columns that say all of a row in JSON."""
    shown = {"bin": "hex(bin)"}
    columns = [f"{shown.get(name, f'CAST({name} AS STRING)')} AS {name}" for name in case.key]
    return ", ".join(["id", *columns, *(["to_json(m) AS m"] if case.mapped else [])])


def first_project(cases: Mapping[str, Case]) -> str:
    views = "".join(
        f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('topic' = '@{name}', 'key' = '{', '.join(case.key)}', {case.properties}) AS\n"
        f"  SELECT v.* FROM ({rows_of(case)}) AS v LEFT ANTI JOIN gone ON gone.id = v.id;\n"
        for name, case in cases.items()
    )
    return "CREATE STREAMING TABLE gone (id INT) USING kafka TBLPROPERTIES ('subscribe' = '@gone');\n" + views


def second_project(first: str, cases: Mapping[str, Case]) -> str:
    text = ""
    for name, case in cases.items():
        columns = ", ".join(
            ["id INT", *(f"{key} {KEYS[key][0]}" for key in case.key), *([f"m {MAP}"] if case.mapped else [])]
        )
        text += (
            f"CREATE STREAMING TABLE {name} ({columns}) USING kafka\n"
            f"  TBLPROPERTIES ('subscribe' = '{first}{name}', 'key' = '{', '.join(case.key)}', {case.properties});\n"
            f"CREATE MATERIALIZED VIEW read_{name} TBLPROPERTIES ('topic' = '@{name}', 'mode' = 'upsert', 'key' = 'id') AS SELECT {texts(case)} FROM {name};\n"
        )
    return text


def last_rows(play: Playground, cases: Mapping[str, Case]) -> dict[str, list[str]]:
    """By case."""
    there = play.read_all([play.prefix + name for name in cases])
    last = {name: {message.key: message.value for message in there[play.prefix + name]} for name in cases}
    return {name: sorted(value.decode() for value in each.values() if value is not None) for name, each in last.items()}


def rows_by_case(spark: SparkSession, cases: Mapping[str, Case]) -> dict[str, list[str]]:
    """Spark's answer, of all cases in one query."""
    parts = (
        f"SELECT '{name}', to_json(struct(*), map('ignoreNullFields', 'false')) FROM (SELECT {texts(case)} FROM ({rows_of(case)}))"
        for name, case in cases.items()
    )
    found: dict[str, list[str]] = {name: [] for name in cases}
    for name, text in spark.sql(" UNION ALL ".join(parts)).collect():
        found[name].append(text)
    return found


def as_stored(case: Case, rows: list[str]) -> list[str]:
    """A NULL map is an empty one in Protobuf. It is the same as what the second project reads."""
    return [row.replace('"m":null', '"m":"{}"') for row in rows] if "protobuf" in case.properties else rows


@pytest.mark.long
@pytest.mark.parametrize("names", [IN_SUITE, pytest.param(tuple(CASES), marks=pytest.mark.soak)], ids=["some", "all"])
def test_a_second_project_reads_every_key_that_a_first_one_writes(
    play: Playground, registry: SchemaRegistry, names: tuple[str, ...]
) -> None:
    cases = {name: CASES[name] for name in names}
    settings: dict[str, Any] = {"stepwell.registry.url": registry.url, "stepwell.workers": 2}
    play.topic("gone")
    (play.folder / "second").mkdir()
    second = Playground(play.spark, play.servers, play.folder / "second", f"{play.prefix}second.")
    one = play.resolve({"a.sql": first_project(cases)}, settings)
    play.run(one, threads())
    two = second.resolve({"a.sql": second_project(play.prefix, cases)}, settings)
    expected = rows_by_case(play.spark, cases)
    for gone in ((), (1, 3)):
        if gone:
            play.send("gone", [{"id": id_} for id_ in gone])
            play.run(one, threads())
        second.run(two, threads())
        found = last_rows(second, cases)
        for name, case in cases.items():
            there = sorted(row for row in expected[name] if json.loads(row)["id"] not in gone)
            assert there and found[name] == as_stored(case, there), name


CARRIED = """
CREATE STREAMING TABLE people (id INT, likes MAP<STRING, INT>, team STRING) USING kafka
  TBLPROPERTIES ('subscribe' = '@people', 'mode' = 'upsert', 'key' = 'id');
CREATE STREAMING TABLE events (who INT, tags MAP<STRING, ARRAY<MAP<STRING, DOUBLE>>>) USING kafka
  TBLPROPERTIES ('subscribe' = '@events', 'mode' = 'changelog');
CREATE STREAMING TABLE teams (team STRING, seen MAP<STRING, TIMESTAMP>) USING kafka
  TBLPROPERTIES ('subscribe' = '@teams', 'on.error' = 'skip');
CREATE MATERIALIZED VIEW joined TBLPROPERTIES ('topic' = '@joined', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT p.id, p.likes, p.likes['x'] AS x, t.seen FROM people p LEFT JOIN (SELECT team, max_by(seen, size(seen)) AS seen FROM teams GROUP BY team) t ON p.team = t.team;
CREATE MATERIALIZED VIEW tagged TBLPROPERTIES ('topic' = '@tagged', 'mode' = 'changelog') AS
  SELECT e.who, e.tags, p.likes FROM events e JOIN people p ON p.id = e.who;
CREATE MATERIALIZED VIEW entries TBLPROPERTIES ('topic' = '@entries', 'mode' = 'changelog') AS
  SELECT id, k, v, map(k, v, 'of', id) AS again FROM people LATERAL VIEW explode(likes) AS k, v;
CREATE MATERIALIZED VIEW shared TBLPROPERTIES ('topic' = '@shared', 'mode' = 'upsert', 'key' = 'team') AS
  SELECT team, collect_list(likes) AS all_likes, count(likes) AS n FROM people GROUP BY team;
CREATE MATERIALIZED VIEW top TBLPROPERTIES ('topic' = '@top', 'mode' = 'changelog') AS
  SELECT id, likes FROM people ORDER BY id DESC LIMIT 3;
CREATE MATERIALIZED VIEW windowed TBLPROPERTIES ('topic' = '@windowed', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, likes, lag(likes) OVER (PARTITION BY team ORDER BY id) AS before, first_value(likes) OVER (PARTITION BY team ORDER BY id) AS first FROM people;
CREATE MATERIALIZED VIEW latest TBLPROPERTIES ('topic' = '@latest', 'mode' = 'upsert', 'key' = 'team') AS
  SELECT team, likes FROM (SELECT *, row_number() OVER (PARTITION BY team ORDER BY id DESC) AS n FROM people) WHERE n = 1;
CREATE MATERIALIZED VIEW both TBLPROPERTIES ('topic' = '@both', 'mode' = 'changelog') AS
  SELECT id, likes FROM people WHERE id IN (SELECT who FROM events) UNION ALL SELECT id, map_filter(likes, (k, v) -> v > 1) FROM people;
"""


@pytest.mark.soak
def test_maps_are_carried_through_views_with_retractions(play: Playground) -> None:
    for name, partitions in (("people", 2), ("events", 2), ("teams", 1)):
        play.topic(name, partitions)
    resolved = play.resolve({"a.sql": CARRIED}, {"stepwell.step.rows.max": 4, "stepwell.workers": 1})
    runs = [resolved, renamed(resolved, "-w3", 3)]
    for turn in range(2):
        for id_ in range(6):
            likes: Any = {"x": id_ + turn, f"y{id_}": None} if id_ % 3 else None if turn else {}
            value = None if turn and id_ == 5 else {"id": id_, "likes": likes, "team": "ab"[id_ % 2]}
            play.send("people", [({"id": id_}, value)], id_ % 2)
        one, other = (
            {"b": [{"z": 0.5, "a": -0.0}], "a": []},
            {"a": [], "b": [{"z": 0.5, "a": -0.0}]},
        )  # an order of their own
        for who in range(1, 4):
            rows: list[Any] = [
                {"op": "c", "before": None, "after": {"who": who, "tags": tags}} for tags in (one, other, None)
            ]
            if turn:
                rows = [
                    {"op": "d", "before": {"who": who, "tags": one}, "after": None},
                    {"op": "u", "before": {"who": who, "tags": None}, "after": {"who": who, "tags": {}}},
                ]
            play.send("events", rows, who % 2)
        play.send(
            "teams",
            [
                {"team": "a", "seen": {"p": f"202{turn}-01-01T00:00:00.000Z"}},
                '{"team": "a", "seen": {"p": "x"}}',
                '{"team": "b", "seen": [1]}',
            ],
        )
        for run in runs:
            if turn:
                play.run(run, threads())
            else:
                crash_and_replay(play, run, in_threads=True)
    assert contents(play, runs[1]) == contents(play, resolved)
    assert play.check(resolved) == {
        "joined": 5,
        "tagged": 6,
        "entries": 6,
        "shared": 2,
        "top": 3,
        "windowed": 5,
        "latest": 2,
        "both": 8,
    }
