"""A lowered circuit, run step by step over inserts and deletes, holds what Spark answers over the same tables in
batch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args
from zlib import crc32

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import VariantVal

from base.text.variants import FIELD
from engine.analysis.content import content_of
from engine.model.aggregates import FinalAggregate
from engine.model.circuit import Circuit, Output, ProjectNode, View
from engine.model.clock import ClockValue, TemporalFilter
from engine.model.joins import OuterJoin, SemiJoin
from engine.model.rows import LastByKey, Source
from engine.operators.table import operator_of
from engine.rows import zset
from engine.state.store import DictStore
from stepwell.catalyst.variants import text_of_binary
from stepwell.lowering.driver import lower
from stepwell.project.text_types import fit_frame
from tests.engine.contexts import contexts_of
from tests.engine.every_kind import OF_EVENT_TIME
from tests.engine.in_process import InProcess
from tests.engine.zsets import Rows, plus, to_table
from tests.sampling import sampled
from tests.small_jobs import small
from tests.stepwell.lowering import python_functions
from tests.stepwell.lowering.projects import Query, Workbench
from tests.stepwell.lowering.variants import VARIANTS

TABLES = {
    "t": "a bigint, b bigint, s string, d double",
    "u": "a bigint, c bigint, s string, d double",
}
STEPS = 4
ROUNDS = 8
WORKERS = (2, 3, 5)
"""Each query runs with one of these numbers, because all three would take a minute and a half longer. `make fuzz` draws others."""

_MONTHS, _YEARS = "cast(b AS INTERVAL MONTH)", "cast(a AS INTERVAL YEAR)"


def _shown(columns: str) -> str:
    """Interval columns as texts, because PySpark cannot collect intervals."""
    return ", ".join(f"cast({column} AS STRING) AS {column}" for column in columns.split())


RECURSIONS = {
    "numbers": "r(n) AS (SELECT b FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r",
    "constant numbers": "r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 6) SELECT n FROM r",
    "paths of a graph": (
        "r(x, y, l) AS (SELECT a, b, 0 FROM t UNION ALL SELECT r.x, t.b, l + 1 FROM r JOIN t ON r.y = t.a WHERE l < 2) SELECT x, y, l FROM r"
    ),
    "two tables": (
        "r(x, y, l) AS (SELECT a, c, 0 FROM u WHERE c > 0 UNION ALL SELECT t.b, u.c, l + 1 FROM r JOIN t ON r.y = t.a JOIN u ON t.b = u.a "
        "WHERE l < 2) SELECT x, y, count(*) AS n FROM r GROUP BY x, y"
    ),
    "distinct within a level": (
        "r(x, l) AS (SELECT a, 0 FROM t UNION ALL SELECT DISTINCT t.b, l + 1 FROM r JOIN t ON r.x = t.a WHERE l < 3) SELECT x, l FROM r"
    ),
    "outer join": (
        "r(x, l) AS (SELECT a, 0 FROM t UNION ALL SELECT coalesce(u.c, -1), l + 1 FROM r LEFT JOIN u ON r.x = u.a WHERE l < 3) "
        "SELECT x, l FROM r"
    ),
    "in and not exists": (
        "r(x, l) AS (SELECT a, 0 FROM t UNION ALL SELECT x + 1, l + 1 FROM r WHERE x IN (SELECT a FROM u) "
        "AND NOT EXISTS (SELECT 1 FROM t WHERE t.b = r.x AND t.s = 'x')) SELECT x, l FROM r"
    ),
    "a subquery that stands for a value": (
        "r(x, l) AS (SELECT a, 0 FROM t UNION ALL SELECT x + 1, l + 1 FROM r WHERE x < (SELECT max(c) FROM u)) SELECT x, l FROM r"
    ),
    "two queries of each level": (
        "r(x, l) AS (SELECT a, 0 FROM t UNION ALL (SELECT x + 1, l + 1 FROM r WHERE l < 3 "
        "UNION ALL SELECT u.c, l + 1 FROM r JOIN u ON r.x = u.a WHERE l < 2)) SELECT x, l FROM r"
    ),
    "lists of elements": (
        "r(x, l) AS (SELECT a, 0 FROM t UNION ALL SELECT explode(array(x + 1, u.c)), l + 1 FROM r JOIN u ON r.x = u.a WHERE l < 3) "
        "SELECT x, l FROM r"
    ),
    "of a recursion": (
        "r(n) AS (SELECT b FROM t WHERE b < 4 UNION ALL SELECT n + 1 FROM r WHERE n < 4), q(m) AS (SELECT DISTINCT n FROM r "
        "UNION ALL SELECT m + r.n FROM q JOIN r ON q.m = r.n WHERE m BETWEEN 1 AND 4) SELECT m FROM q"
    ),
    "joined with itself outside": (
        "r(x, l) AS (SELECT a, 0 FROM t UNION ALL SELECT t.b, l + 1 FROM r JOIN t ON r.x = t.a WHERE l < 2) "
        "SELECT p.x, q.l FROM r AS p JOIN r AS q ON p.x = q.x AND p.l = q.l - 1"
    ),
    "that never begins": "r(n) AS (SELECT b FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 3 AND 1 = 0) SELECT n FROM r",
    "with a limit": "r(n) AS (SELECT b FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r ORDER BY n DESC LIMIT 4",
    "as a value": "r(n) AS (SELECT b FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT a, (SELECT sum(n) FROM r) AS v FROM u",
}

_V = """parse_json(concat('{"n":', coalesce(a, -1), ',"l":[', coalesce(b, 'null'), ',1.50,2e0],"s":"', coalesce(s, '?'), '"}'))"""
_ROWS = f"(SELECT a, b, s, CASE WHEN b IS NOT NULL THEN {_V} END AS v FROM t)"
VARIANT_QUERIES = {
    "projected": f"SELECT a, v, v:l AS l, v:n::bigint AS n, struct(v AS x, b) AS st, array(v, v:s, NULL) AS arr FROM {_ROWS}",
    "as constants": "SELECT a, parse_json('{\"x\": [1, 1.50, 1e2, \"y\", null, true]}') AS v, array(parse_json('null')) AS w FROM t",
    "in a condition": f"SELECT a, v:l[0]::int AS x FROM {_ROWS} WHERE variant_get(v, '$.n', 'bigint') > 0 AND v:s::string <> 'x'",
    "joined": f"SELECT r.a, r.v, u.c FROM {_ROWS} AS r JOIN u ON r.a = u.a",
    "left join on a part": f"SELECT u.a, u.c, r.v FROM u LEFT JOIN {_ROWS} AS r ON u.c = r.v:n::bigint",
    "full join": f"SELECT r.a, r.v, u.c FROM {_ROWS} AS r FULL JOIN u ON r.a = u.a AND r.b > u.c",
    "united": f"SELECT v FROM {_ROWS} UNION ALL SELECT parse_json(cast(a AS string)) FROM u",
    "grouped by a part": f"SELECT v:s::string AS k, count(v) AS n, sum(v:l[0]::bigint) AS x, count(*) AS m FROM {_ROWS} GROUP BY 1",
    "chosen in groups": (
        f"SELECT s, max_by(v, struct(a, b)) AS x, min_by(v:s, struct(a, b)) AS y, max_by(v:l[1], struct(b, a)) AS z FROM {_ROWS} "
        f"GROUP BY s"
    ),
    "collected": f"SELECT a, sort_array(transform(collect_list(v), x -> to_json(x))) AS x FROM {_ROWS} GROUP BY a",
    "exploded": f"SELECT a, e FROM (SELECT a, explode(cast(v:l AS ARRAY<VARIANT>)) AS e FROM {_ROWS})",
    "in windows": (
        f"SELECT a, b, first_value(v) OVER w AS f, lag(v:l) OVER w AS l, row_number() OVER w AS n FROM {_ROWS} "
        "WINDOW w AS (PARTITION BY s ORDER BY a, b, to_json(v))"
    ),
    "the last of each key": (
        f"SELECT * FROM (SELECT s, v, row_number() OVER (PARTITION BY s ORDER BY a DESC, b, to_json(v)) AS n FROM {_ROWS}) WHERE "
        f"n = 1"
    ),
    "first rows": f"SELECT a, v FROM {_ROWS} ORDER BY a, b, to_json(v) LIMIT 4",
    "rows without a match": f"SELECT a, v FROM {_ROWS} WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)",
    "of a subquery": f"SELECT a, (SELECT max_by(v, struct(a, b, to_json(v))) FROM {_ROWS}) AS v FROM u",
    "in maps and structs": f"SELECT a, map('k', v) AS m, from_json(to_json(struct(v AS x)), 'x VARIANT, y VARIANT') AS st FROM {_ROWS}",
    "of VALUES": (
        "SELECT t.a, p.v FROM t JOIN (SELECT k, parse_json(j) AS v FROM VALUES (1, '[1.0, {}]'), (2, 'null'), (3, NULL) AS p(k, "
        "j)) AS p ON t.a = p.k"
    ),
    "cast to nested types": (
        f"SELECT a, cast(v AS STRUCT<n: INT, l: ARRAY<DECIMAL(5, 2)>, z: STRING>) AS x, cast(v:l AS ARRAY<STRING>) AS y, "
        f"try_cast(v AS MAP<STRING, STRING>) AS z FROM {_ROWS}"
    ),
    "members as rows": f"SELECT a, e.key, e.pos, e.value FROM {_ROWS}, LATERAL variant_explode(v) AS e",
    "elements as rows, outer": f"SELECT a, e.* FROM {_ROWS}, LATERAL variant_explode_outer(v:l) AS e WHERE e.pos IS NULL OR e.pos > 0",
    "neither members nor elements": f"SELECT a, e.* FROM {_ROWS}, LATERAL variant_explode_outer(v:s) AS e",
    "objects of rows": (
        f"SELECT a, to_variant_object(struct(s AS z, b AS y, map('m', v, 'k', NULL) AS x, array(a, NULL) AS w)) AS o FROM {_ROWS}"
    ),
}

ONE_ZERO = "(SELECT * FROM u WHERE cast(d AS STRING) = '0.0')"
"""The zeros without a sign, which are equal to those with one."""

QUERIES: dict[str, Query] = {
    **python_functions.QUERIES,
    "project": "SELECT a, b + 1 AS x, a AS again FROM t WHERE b > 0",
    "texts as CHAR and VARCHAR store them": lambda spark: fit_frame(
        spark.sql("SELECT s, b, concat(s, '  ') AS w, array(s, concat(s, ' ')) AS x, named_struct('f', s) AS y FROM t"),
        {"s": "char(3)", "w": "varchar(2)", "x": "array<char(1)>", "y": "struct<`f`:char(2)>"},
    ),
    **{
        f"intervals of months: {name}": f"SELECT {_shown(columns)} FROM ({query})"
        for name, columns, query in (
            (
                "sums",
                "k i j m",
                f"SELECT {_YEARS} AS k, sum({_MONTHS}) AS i, avg({_MONTHS}) AS j, max({_MONTHS}) AS m FROM t GROUP BY 1",
            ),
            ("distinct", "x", f"SELECT DISTINCT {_MONTHS} AS x FROM t"),
            (
                "join",
                "x y",
                f"SELECT x, y FROM (SELECT {_MONTHS} AS x FROM t) JOIN (SELECT cast(c AS INTERVAL MONTH) AS y FROM u) ON x = y",
            ),
            (
                "rows",
                "x y",
                f"SELECT {_YEARS} * 2 AS x, make_ym_interval(a, b) - {_MONTHS} AS y FROM t WHERE {_MONTHS} > INTERVAL '1' MONTH",
            ),
            (
                "window",
                "x y z",
                f"SELECT x, lag(x) OVER (PARTITION BY a ORDER BY x) AS y, max(x) OVER (PARTITION BY a ORDER BY x) AS z "
                f"FROM (SELECT a, {_MONTHS} AS x FROM t)",
            ),
            ("first", "x", f"SELECT x FROM (SELECT {_MONTHS} AS x FROM t ORDER BY x DESC LIMIT 3)"),
            (
                "constants",
                "x",
                "SELECT x FROM VALUES (INTERVAL '1-2' YEAR TO MONTH), (NULL), (INTERVAL '-3' YEAR) AS v(x)",
            ),
            ("lists", "x", f"SELECT explode(x) AS x FROM (SELECT collect_list({_MONTHS}) AS x FROM t GROUP BY a)"),
        )
    },
    **{f"recursion: {name}": f"WITH RECURSIVE {query}" for name, query in RECURSIONS.items()},
    **{
        f"zeros with signs: {name}": query  # of each group one form, because of both Spark takes the first that comes
        for name, query in (
            (
                "groups",
                "SELECT a, min(d) AS x, max(d) AS y, sum(d) AS z, avg(d) AS w, min(cast(d AS FLOAT)) AS f, count(DISTINCT b) AS n, "
                "count(DISTINCT s) AS m FROM t GROUP BY a, cast(d AS STRING)",
            ),
            ("everything", "SELECT min(d) AS x, max(d) AS y, sum(d) AS z FROM t WHERE cast(d AS STRING) = '-0.0'"),
            (
                "windows",
                "SELECT a, min(d) OVER w AS x, max(d) OVER w AS y, sum(d) OVER w AS z, min(d) OVER (PARTITION BY cast(d AS STRING)) AS u "
                "FROM t WINDOW w AS (PARTITION BY cast(d AS STRING) ORDER BY b)",
            ),
            (
                "joined",
                "SELECT t.b, min(u.d) AS x, max(u.d) AS y FROM t JOIN u ON t.a = u.a WHERE cast(u.d AS STRING) = '-0.0' GROUP BY t.b",
            ),
            ("distinct", "SELECT DISTINCT d, min(d) OVER (PARTITION BY cast(d AS STRING)) AS x FROM t"),
        )
    },
    "dropna of all columns, of some, and of rows without any": lambda spark: (
        spark.table("t")
        .dropna()
        .select("a", "b")
        .unionAll(spark.table("t").dropna(thresh=2, subset=["b", "s", "d"]).select("a", "b"))
        .unionAll(spark.table("t").dropna(how="all", subset=["d", "s"]).select("a", "b"))
    ),
    "having": "SELECT a, count(*) AS n, sum(b) AS total FROM t GROUP BY a HAVING count(*) > 1 AND sum(b) > 0",
    "expression over calls": "SELECT s, sum(b) / count(*) + max(a) AS x, a + 1 AS g FROM t GROUP BY a + 1, s",
    "no groups": "SELECT count(*) AS n, sum(b) AS total, min(s) AS low FROM t WHERE a > 1000",
    "filtered calls": (
        "SELECT a, count(*) FILTER (WHERE b > 1) AS n, sum(b) FILTER (WHERE s = 'x') AS total, count(a, b) AS both "
        "FROM t GROUP BY a"
    ),
    "extremes by nested keys": (
        "SELECT max(b) AS top, min(s) AS low, count(*) AS n FROM t GROUP BY array(a, b % 2), named_struct('x', s, 'y', array(s))"
    ),
    "one count distinct": "SELECT a, count(DISTINCT b) AS n, sum(DISTINCT b) AS total, max(b) AS top FROM t GROUP BY a",
    "a constant key whose normal form is another number": "SELECT DISTINCT a, CAST('-0.0' AS DOUBLE) AS z FROM t",
    "count distinct of two columns": "SELECT a, count(DISTINCT b, s) AS n FROM t GROUP BY a",
    "count distinct of two columns, of no row of some groups": "SELECT a, count(DISTINCT b, nullif(a, 2)) AS n FROM t GROUP BY a",
    "several count distinct": (
        "SELECT a, count(DISTINCT b) AS m, count(DISTINCT s) AS n, count(*) AS k, max(d) AS top FROM t GROUP BY a"
    ),
    "filtered count distinct": (
        "SELECT s, count(DISTINCT b) FILTER (WHERE a > 1) AS m, count(DISTINCT a) AS n, avg(b) AS mean FROM t GROUP BY s"
    ),
    "rollup": "SELECT a, s, count(*) AS n FROM t GROUP BY ROLLUP (a, s)",
    "two count distinct, by an expression": (
        "SELECT a + 1 AS g, count(DISTINCT b) AS m, count(DISTINCT s) AS n, sum(b) AS total FROM t GROUP BY a + 1"
    ),
    "rollup over a union": (
        "SELECT a, s, count(*) AS n FROM (SELECT a, s FROM t UNION ALL SELECT c, s FROM u) GROUP BY ROLLUP (a, s)"
    ),
    "cube over a union, with distincts": (
        "SELECT a, s, count(DISTINCT b) AS m, count(DISTINCT d) AS n "
        "FROM (SELECT a, s, b, d FROM t UNION ALL SELECT a, s, c, d FROM u) GROUP BY CUBE (a, s)"
    ),
    "several count distinct, of columns called gid": lambda spark: (
        spark.table("t")
        .select(F.col("a").alias("gid"), "b", "s")
        .groupBy("s")
        .agg(F.count_distinct("gid").alias("x"), F.count_distinct("b").alias("y"), F.max("gid").alias("z"))
    ),
    "group by a column called gid, over a rollup": (
        "SELECT gid, count(DISTINCT s) AS x, count(DISTINCT n) AS y, max(n) AS z "
        "FROM (SELECT a AS gid, s, count(*) AS n FROM t GROUP BY ROLLUP (a, s)) GROUP BY gid"
    ),
    "distinct": "SELECT DISTINCT a, s FROM t",
    "distinct doubles": "SELECT DISTINCT d FROM t",
    "group by doubles": "SELECT d, count(*) AS n FROM t GROUP BY d",
    "aggregate without calls": "SELECT count(*) AS n FROM (SELECT DISTINCT a FROM t)",
    "union all": "SELECT a, s FROM t UNION ALL SELECT c, s FROM u UNION ALL SELECT 7L, 'seven'",
    "union": "SELECT a, d FROM t UNION SELECT c, 1.0D FROM u",
    "union of all columns, renamed": (
        "SELECT k, v, count(*) AS n FROM (SELECT a AS k, c AS v, s, d FROM u UNION ALL SELECT * FROM t) GROUP BY k, v"
    ),
    "drop duplicates of all columns, renamed": lambda spark: spark.table("u").toDF("k", "v", "w", "x").dropDuplicates(),
    "drop duplicates, with a constant key": lambda spark: (
        spark.table("t").groupBy("a").count().selectExpr("a", "count", "1 AS one").dropDuplicates(["a", "one"])
    ),
    "drop duplicates, with a constant array as a key": lambda spark: (
        spark.table("t").selectExpr("a", "b", "array(1, 2) AS pair").dropDuplicates(["a", "pair"]).select("a", "pair")
    ),
    "except": "SELECT a, s FROM t EXCEPT SELECT a, s FROM u",
    "except doubles": "SELECT d FROM t EXCEPT SELECT d FROM u",
    "intersect": "SELECT a, d FROM t INTERSECT SELECT a, d FROM u",
    "join": "SELECT t.b, u.c FROM t JOIN u ON t.a + 1 = u.a AND t.b > u.c",
    "join on doubles": "SELECT t.a, u.c FROM t JOIN u ON t.d = u.d",
    "join on two keys": "SELECT t.b, u.c, t.d FROM t JOIN u ON t.a = u.a AND t.s = u.s",
    "join of one column with two": "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a AND t.a = u.c",
    "join on a row with two fields of one name": "SELECT x.b, u.c FROM t x JOIN t y ON x.b = y.b JOIN u ON (x.a, y.a) = (u.a, u.c)",
    "null-safe join": "SELECT t.b, u.c FROM t JOIN u ON t.a <=> u.a",
    "cross join": "SELECT t.a, u.c FROM t CROSS JOIN u WHERE t.b < u.c",
    "self-join": "SELECT x.a, y.s FROM t x JOIN t y ON x.a = y.b",
    "sums over a join": (
        "SELECT u.c, count(*) AS n, sum(t.b) AS total, avg(t.b) AS mean, count(t.s) AS named "
        "FROM t JOIN u ON t.a = u.a GROUP BY u.c"
    ),
    "sums over a join, of its right side": "SELECT t.b, sum(u.c) AS total FROM t JOIN u ON t.a = u.a GROUP BY t.b",
    "sums over a join, by columns of both": (
        "SELECT t.s, u.s AS r, u.a, sum(t.b) AS total FROM t JOIN u ON t.a = u.a GROUP BY t.s, u.s, u.a"
    ),
    "sums over a join, without groups": "SELECT count(*) AS n, sum(t.b) AS total FROM t JOIN u ON t.a = u.a",
    "sums over a join of nothing": "SELECT count(*) AS n, sum(t.b) AS total FROM t JOIN u ON t.a = u.a AND u.a > 99",
    "sums over a null-safe join": "SELECT u.c, sum(t.b) AS total FROM t JOIN u ON t.a <=> u.a GROUP BY u.c",
    "sums over a join on doubles": "SELECT t.d, u.c, count(*) AS n FROM t JOIN u ON t.d = u.d GROUP BY t.d, u.c",
    "sums over a self-join": "SELECT y.s, count(*) AS n, sum(x.b) AS total FROM t x JOIN t y ON x.a = y.b GROUP BY y.s",
    "sums over two joins": (
        "SELECT y.c, sum(t.b) AS total FROM t JOIN u x ON t.a = x.a JOIN u y ON t.s = y.s GROUP BY y.c"
    ),
    "sums of doubles over a join": "SELECT u.c, sum(t.d) AS total FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "sums of both sides of a join": (
        "SELECT u.s, sum(t.b) AS x, sum(u.c) AS y FROM t JOIN u ON t.a = u.a GROUP BY u.s"
    ),
    "extremes over a join": "SELECT u.c, max(t.b) AS top, count(*) AS n FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "distinct over a join": "SELECT u.c, count(DISTINCT t.b) AS n FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "sums over a join with a condition": (
        "SELECT u.s, sum(t.b) AS total FROM t JOIN u ON t.a = u.a AND t.b < u.c GROUP BY u.s"
    ),
    "sums of an expression over a join": "SELECT u.c, sum(t.b + 1) AS total FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "left join": "SELECT t.*, u.c, u.s AS r FROM t LEFT JOIN u ON t.a = u.a",
    "right join": "SELECT t.b, t.s, u.* FROM t RIGHT JOIN u ON t.a = u.a",
    "full join": "SELECT t.b, t.s, u.c, u.d FROM t FULL JOIN u ON t.a = u.a",
    "left join with a condition": "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.b > u.c",
    "right join with a condition": "SELECT t.b, u.a, u.c, u.s FROM t RIGHT JOIN u ON t.a + 1 = u.a AND t.b > u.c",
    "full join with a condition": "SELECT t.a, t.b, u.a AS k, u.c FROM t FULL JOIN u ON t.a = u.a AND u.c > t.b",
    "left join with a condition on each side": (
        "SELECT t.a, t.b, t.s, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.b > 1 AND u.c < 5"
    ),
    "full join with a condition on each side": (
        "SELECT t.a, t.b, u.a AS k, u.c FROM t FULL JOIN u ON t.a = u.a AND t.b > 1 AND u.c < 5 AND t.s IS NOT NULL"
    ),
    "full join on doubles": "SELECT t.a, t.d, u.d AS e, u.c FROM t FULL JOIN u ON t.d = u.d",
    "left join on doubles and a condition on them": "SELECT t.a, t.d, u.d AS e FROM t LEFT JOIN u ON t.a = u.a AND t.d >= u.d",
    "null-safe left join": "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a <=> u.a",
    "null-safe full join on doubles and text": (
        "SELECT t.a, t.d, t.s, u.d AS e, u.c FROM t FULL JOIN u ON t.d <=> u.d AND t.s = u.s"
    ),
    "left join without a key": "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.b < u.c",
    "full join without a key": "SELECT t.a, t.b, u.c, u.s FROM t FULL JOIN u ON t.b + 3 < u.c",
    "left join on true": "SELECT t.a, t.b, u.c FROM t LEFT JOIN (SELECT * FROM u WHERE c = 5 AND a = 3) u ON true",
    "full join on a constant": "SELECT t.a, u.c FROM (SELECT * FROM t WHERE a = 1) t FULL JOIN (SELECT * FROM u WHERE a = 2) u ON true",
    "left join with NOT IN's condition": "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON (t.a = u.a OR (t.a = u.a) IS NULL)",
    "full join using": "SELECT a, s, b, c FROM t FULL JOIN u USING (a, s)",
    "natural left join": "SELECT a, s, b, c FROM t NATURAL LEFT JOIN u",
    "right join using, and an aggregate": "SELECT a, count(*) AS n, sum(b) AS x, max(c) AS y FROM t RIGHT JOIN u USING (a) GROUP BY a",
    "full self-join": "SELECT x.a, x.b, y.b AS z, y.s FROM t x FULL JOIN t y ON x.a = y.b",
    "left self-join of an aggregate": (
        "WITH w AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT x.a, x.n, y.n AS m FROM w x LEFT JOIN w y ON x.a = y.a + 1"
    ),
    "two left joins": ("SELECT t.a, t.b, x.c, y.c AS z FROM t LEFT JOIN u x ON t.a = x.a LEFT JOIN u y ON x.c = y.a"),
    "a full join of a full join": (
        "SELECT t.a, x.c, y.c AS z, y.s FROM t FULL JOIN u x ON t.a = x.a FULL JOIN u y ON coalesce(t.a, x.a) = y.c"
    ),
    "an inner join above a left join": "SELECT t.a, x.c, y.c AS z FROM t LEFT JOIN u x ON t.a = x.a JOIN u y ON x.c <=> y.c",
    "sums of a left join": "SELECT u.c, count(*) AS n, count(u.a) AS m, sum(t.b) AS x FROM t LEFT JOIN u ON t.a = u.a GROUP BY u.c",
    "sums of a left join, by its key": "SELECT t.a, count(u.c) AS n FROM t LEFT JOIN u ON t.a = u.a GROUP BY t.a",
    "left join of VALUES": (
        "SELECT t.a, v.name FROM t LEFT JOIN VALUES (1L, 'one'), (2L, NULL), (7L, 'x') AS v(k, name) ON t.a = v.k"
    ),
    "left join of a constant column": "SELECT t.a, x.one, x.two FROM t LEFT JOIN (SELECT a, 1 AS one, c + 1 AS two FROM u) x ON t.a = x.a",
    "left join of structs": (
        "SELECT t.a, x.r, x.l FROM t LEFT JOIN (SELECT a, named_struct('c', c, 's', s) AS r, array(c) AS l FROM u) x ON t.a = x.a"
    ),
    "structs with other names": (
        "SELECT x.p, count(*) AS n, max(x.q[0].b) AS m FROM "
        "(SELECT (a, b) AS p, array((a, b)) AS q FROM t UNION ALL SELECT (c, 1L), array((a, c)) FROM u) x "
        "WHERE x.p NOT IN ((1L, 2L), (2L, 1L)) GROUP BY x.p"
    ),
    "rows without a match": "SELECT t.* FROM t LEFT JOIN u ON t.a = u.a WHERE u.a IS NULL",
    "rows without a match, by a condition": (
        "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.b > u.c WHERE u.a IS NULL"
    ),
    "rows whose match is NULL or missing": "SELECT t.a, u.a AS k, u.s FROM t LEFT JOIN u ON t.a = u.a WHERE u.c IS NULL AND t.b > 0",
    "rows without a match on the left": "SELECT u.a, u.c, t.s FROM t RIGHT JOIN u ON t.a = u.a AND t.s = u.s WHERE t.s IS NULL",
    "rows without a null-safe match": "SELECT t.a, t.b FROM t LEFT JOIN u ON t.a <=> u.a WHERE u.a IS NULL",
    "two equalities of one column": "SELECT t.a, t.b, u.s FROM t LEFT JOIN u ON t.a = u.a AND t.a = u.c",
    "an inner join of two equalities of one column": "SELECT t.a, t.b, u.s FROM t JOIN u ON t.a = u.a AND t.b = u.a",
    "subquery as a value": "SELECT a, b, (SELECT max(c) FROM u WHERE u.a = t.a) AS m FROM t",
    "subquery that counts": "SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a) AS n FROM t",
    "subquery that counts, in a condition": "SELECT a, b FROM t WHERE 0 = (SELECT count(*) FROM u WHERE u.a = t.a)",
    "subquery that counts, plus one": "SELECT a, (SELECT count(c) + 1 FROM u WHERE u.a = t.a AND u.c > 1) AS n FROM t",
    "subquery with HAVING": "SELECT a, (SELECT sum(c) FROM u WHERE u.a = t.a HAVING count(*) > 1) AS n FROM t",
    "subquery by two columns": "SELECT a, s, (SELECT min(c) FROM u WHERE u.a = t.a AND u.s = t.s) AS n FROM t",
    "subquery with another comparison": "SELECT a, b, (SELECT max(c) FROM u WHERE u.c < t.b) AS n FROM t",
    "two subqueries and an outer join": (
        "SELECT t.a, (SELECT max(c) FROM u WHERE u.a = t.a) AS m, w.c, (SELECT count(*) FROM u WHERE u.c = t.b) AS n "
        "FROM t LEFT JOIN u w ON w.a = t.a"
    ),
    "left join of LATERAL": "SELECT t.a, t.b, x.c FROM t LEFT JOIN LATERAL (SELECT c FROM u WHERE u.a = t.a) x",
    "left join of LATERAL with a condition": (
        "SELECT t.a, t.b, x.n FROM t LEFT JOIN LATERAL (SELECT count(*) AS n, max(c) AS m FROM u WHERE u.a = t.a) x ON x.m > t.b"
    ),
    "subquery of one row, as a value": (
        "SELECT a, (SELECT v.c + 1 FROM VALUES (1L, 5L), (2L, NULL) AS v(k, c) WHERE v.k = t.a) AS m FROM t"
    ),
    "counts of a full join of two aggregates": (  # TPC-DS q97
        "SELECT sum(CASE WHEN x.a IS NOT NULL AND y.a IS NULL THEN 1 ELSE 0 END) AS l, "
        "sum(CASE WHEN x.a IS NULL AND y.a IS NOT NULL THEN 1 ELSE 0 END) AS r, "
        "sum(CASE WHEN x.a IS NOT NULL AND y.a IS NOT NULL THEN 1 ELSE 0 END) AS both "
        "FROM (SELECT a, b FROM t GROUP BY a, b) x FULL JOIN (SELECT a, c FROM u GROUP BY a, c) y ON x.a = y.a AND x.b = y.c"
    ),
    "left joins of aggregates of rows without a match": (  # TPC-DS q78
        "WITH x AS (SELECT t.a, t.s, sum(t.b) AS q FROM t LEFT JOIN u ON t.a = u.a AND t.s = u.s WHERE u.a IS NULL GROUP BY t.a, t.s), "
        "y AS (SELECT u.a, u.s, sum(u.c) AS q FROM u LEFT JOIN t ON t.b = u.c WHERE t.b IS NULL GROUP BY u.a, u.s) "
        "SELECT x.a, x.q, coalesce(y.q, 0) AS r, x.q / coalesce(nullif(y.q, 0) + 1, 1) AS ratio "
        "FROM x LEFT JOIN y ON x.a = y.a WHERE coalesce(y.q, 0) >= 0"
    ),
    "a rollup of differences of left joins": (  # TPC-DS q80
        "SELECT s, a, sum(x) AS x FROM ("
        "SELECT t.s, t.a, t.b - coalesce(u.c, 0) AS x FROM t LEFT JOIN u ON t.a = u.a AND t.s = u.s JOIN u w ON t.b = w.c "
        "UNION ALL SELECT u.s, u.a, u.c - coalesce(t.b, 1) FROM u LEFT JOIN t ON t.a = u.c) GROUP BY ROLLUP (s, a)"
    ),
    "a left join whose filter wants a match": (  # TPC-DS q93
        "SELECT t.s, sum(CASE WHEN u.c IS NOT NULL THEN t.b - u.c ELSE t.b END) AS x "
        "FROM t LEFT JOIN u ON t.a = u.a AND t.s = u.s WHERE u.d > 0 GROUP BY t.s"
    ),
    "exists, as a value": "SELECT a, b, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AS e FROM t",
    "exists under or": "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b) OR b = 1",
    "in": "SELECT * FROM t WHERE a IN (SELECT c FROM u)",
    "in, under or": "SELECT * FROM t WHERE a IN (SELECT c FROM u) OR b = 1",
    "not in": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u)",
    "not in, without nulls": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u WHERE c IS NOT NULL AND c > 2)",
    "not in, correlated": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.s = t.s)",
    "not in, two columns": "SELECT a, b, s FROM t WHERE (a, s) NOT IN (SELECT c, s FROM u WHERE c > 1)",
    "not in, under or": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u) OR b = 1",
    "doubles not in, under or": f"SELECT a, d FROM t WHERE d NOT IN (SELECT d FROM {ONE_ZERO}) OR b = 1",
    "doubles not in, in a projection": (
        f"SELECT a, d, d NOT IN (SELECT d FROM {ONE_ZERO}) AS x, a NOT IN (SELECT -d FROM {ONE_ZERO}) AS y FROM t"
    ),
    "nested keys with doubles: joins": (
        "SELECT x.p, count(*) AS n FROM (SELECT a, named_struct('x', d, 'y', array(s)) AS p FROM t) x "
        "JOIN (SELECT c, named_struct('x', d, 'y', array(s)) AS p FROM u) y ON x.p = y.p GROUP BY x.p"
    ),
    "nested keys with doubles: groups": "SELECT p[0].d AS q, sum(a) AS x FROM (SELECT a, array(named_struct('d', d)) AS p FROM t) GROUP BY p",
    "nested keys with doubles: partitions": (
        "SELECT a, row_number() OVER (PARTITION BY p ORDER BY a, b, s, cast(d AS STRING)) AS x FROM (SELECT *, array(d, 1.5D) AS p FROM t)"
    ),
    "nested keys with doubles: sets": "SELECT DISTINCT struct(d, s) AS p FROM t EXCEPT SELECT struct(d, s) AS p FROM u WHERE c = 1",
    "nested keys with doubles: not in": f"SELECT a, d FROM t WHERE array(d) NOT IN (SELECT array(d) FROM {ONE_ZERO})",
    "structs with doubles not in, under or": (
        "SELECT a, p FROM (SELECT a, b, named_struct('x', d, 'y', s) AS p FROM t) "
        f"WHERE p NOT IN (SELECT named_struct('x', d, 'y', s) AS p FROM {ONE_ZERO}) OR b = 1"
    ),
    "a constant in": "SELECT a, b FROM t WHERE 2 IN (SELECT c FROM u)",
    "a constant not in": "SELECT a, b FROM t WHERE 1 NOT IN (SELECT 1 FROM u WHERE c > 7)",
    "lateral": "SELECT t.a, x.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a) x",
    "exists": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b)",
    "not exists": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b)",
    "correlated scalar subquery": "SELECT a, b FROM t WHERE b >= (SELECT max(c) FROM u WHERE u.a = t.a)",
    "range": "SELECT id, t.s FROM range(1, 4) JOIN t ON id = t.a",
    "values": "SELECT t.b, v.name FROM t JOIN VALUES (1L, 'one'), (2L, 'two'), (2L, NULL) AS v(k, name) ON t.a = v.k",
    "one row": "SELECT 1 AS x, 'a' AS y",
    "nothing": "SELECT a FROM t WHERE false",
    "count of nothing": "SELECT count(*) AS n FROM t WHERE 1 = 0",
    "first rows": "SELECT a, b, s FROM t ORDER BY b DESC NULLS LAST, s, a LIMIT 5",
    "first rows of a total order, which is dropped": (
        "SELECT n FROM (SELECT a, s, count(*) AS n FROM t GROUP BY a, s) ORDER BY s DESC, a LIMIT 4 OFFSET 2"
    ),
    "sums over first rows": "SELECT s, count(*) AS n, sum(b) AS x FROM (SELECT * FROM t ORDER BY b, s, a LIMIT 12) GROUP BY s",
    "in first rows": "SELECT * FROM t WHERE a IN (SELECT c FROM u ORDER BY c DESC LIMIT 6)",
    "join with first rows": (
        "SELECT t.b, x.c FROM t JOIN (SELECT a, c FROM u ORDER BY c NULLS LAST, a DESC LIMIT 7) x ON t.a = x.a"
    ),
    "not in first rows": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u WHERE c IS NOT NULL ORDER BY c LIMIT 3)",
    "first rows of first rows": (
        "SELECT a, s FROM (SELECT a, b, s FROM t ORDER BY b, a, s LIMIT 20) WHERE a > 0 ORDER BY a DESC, s LIMIT 4"
    ),
    "behind the first rows": "SELECT a, s FROM t ORDER BY a, s OFFSET 4",
    "extremes of values with floating-point numbers inside": (
        "SELECT a, b, (max(struct(d, b)) OVER w).b AS x, (min(struct(d, s, b)) OVER (PARTITION BY a)).b AS y, "
        "max_by(b, array(d, b)) OVER w AS z FROM t WINDOW w AS (PARTITION BY a ORDER BY b, s)"
    ),
    "extremes of values with floating-point numbers inside, in a frame": (
        "SELECT a, (max(struct(s, d, b)) OVER w).b AS x, (min(array(d, b)) OVER w)[1] AS y FROM t "
        "WINDOW w AS (PARTITION BY a ORDER BY b, s, cast(d AS STRING) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    ),
    "ranks": (
        "SELECT a, b, row_number() OVER w AS r, rank() OVER w AS k, dense_rank() OVER w AS e, percent_rank() OVER w AS p, "
        "cume_dist() OVER w AS c, ntile(2) OVER w AS n FROM t WINDOW w AS (PARTITION BY a ORDER BY b DESC)"
    ),
    "ranks, nulls first and last": (
        "SELECT s, d, rank() OVER (PARTITION BY s ORDER BY d NULLS LAST) AS x, "
        "dense_rank() OVER (PARTITION BY s ORDER BY d DESC NULLS FIRST) AS y, "
        "row_number() OVER (PARTITION BY s ORDER BY cast(d AS STRING) DESC) AS z FROM (SELECT s, d + 0.0D AS d FROM t)"
    ),
    "lag and lead": (
        "SELECT a, b, s, lag(b) OVER w AS x, lag(s, 2, 'none') OVER w AS y, lead(b, 1, a) OVER w AS z, lead(b) IGNORE NULLS OVER w AS u, "
        "lag(s, 2) IGNORE NULLS OVER w AS v, lag(b, -1, a + 1) OVER w AS k, lag(b, 0) OVER w AS l FROM t "
        "WINDOW w AS (PARTITION BY a ORDER BY b, s)"
    ),
    "first, last and nth": (
        "SELECT a, b, s, first_value(s) OVER w AS x, last(b) IGNORE NULLS OVER w AS y, nth_value(s, 2) OVER w AS z, any_value(s) OVER w AS n, "
        "nth_value(s, 2) IGNORE NULLS OVER (PARTITION BY a ORDER BY b, s ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS u, "
        "last_value(b) OVER (PARTITION BY a ORDER BY b, s ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS v "
        "FROM t WINDOW w AS (PARTITION BY a ORDER BY b, s)"
    ),
    "running totals": (
        "SELECT a, b, sum(b) OVER w AS x, avg(d) OVER w AS y, count(*) OVER w AS n, min(s) OVER w AS l, max(d) OVER w AS h "
        "FROM (SELECT a, b, s, d + 0.0D AS d FROM t) WINDOW w AS (PARTITION BY a ORDER BY b DESC)"
    ),
    "sliding totals": (
        "SELECT a, b, s, sum(b) OVER w AS x, avg(b) OVER w AS y, count(s) OVER w AS n, min(s) OVER w AS l, max(b) OVER w AS h, "
        "sum(b) OVER (PARTITION BY a ORDER BY b, s ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS z, "
        "max(s) OVER (PARTITION BY a ORDER BY b, s ROWS UNBOUNDED PRECEDING) AS m FROM t "
        "WINDOW w AS (PARTITION BY a ORDER BY b, s ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)"
    ),
    "sliding totals of doubles": (
        "SELECT a, b, sum(d) OVER (PARTITION BY a ORDER BY b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS x, "
        "sum(d) OVER (PARTITION BY b ORDER BY d RANGE BETWEEN 1.5 PRECEDING AND 0.5 FOLLOWING) AS y FROM (SELECT a, b, d + 0.0D AS d FROM t)"
    ),
    "totals at a distance": (
        "SELECT a, b, sum(b) OVER (PARTITION BY a ORDER BY b RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS x, "
        "count(*) OVER (PARTITION BY a ORDER BY b DESC RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING) AS y, "
        "max(a) OVER (ORDER BY b DESC NULLS FIRST RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS z, "
        "count(*) OVER (ORDER BY date_add(DATE'2024-01-31', cast(b AS INT)) RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS u, "
        "sum(b) OVER (ORDER BY date_add(DATE'2024-01-31', cast(b AS INT)) RANGE BETWEEN INTERVAL '2' DAY PRECEDING AND CURRENT ROW) AS t, "
        "count(*) OVER (ORDER BY timestamp_millis(b) RANGE BETWEEN INTERVAL '0.002' SECOND PRECEDING AND CURRENT ROW) AS v, "
        "sum(a) OVER (ORDER BY cast(b AS DECIMAL(9, 2)) RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING) AS w FROM t"
    ),
    "totals at a distance of months": (
        "SELECT a, n, sum(n) OVER (PARTITION BY a ORDER BY day RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW) AS u, "
        "count(*) OVER (ORDER BY day DESC RANGE BETWEEN INTERVAL '1-1' YEAR TO MONTH FOLLOWING AND "
        "INTERVAL '1-2' YEAR TO MONTH FOLLOWING) AS v, "
        "sum(n) OVER (ORDER BY at RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW) AS w, "
        "count(*) OVER (ORDER BY at RANGE BETWEEN INTERVAL 2 MONTHS PRECEDING AND INTERVAL 1 MONTH PRECEDING) AS x, "
        "max(n) OVER (PARTITION BY b ORDER BY at DESC NULLS FIRST RANGE BETWEEN INTERVAL 1 MONTH FOLLOWING AND UNBOUNDED FOLLOWING) AS y, "
        "min(n) OVER (ORDER BY local RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 1 YEAR PRECEDING) AS z, "
        "count(*) OVER (ORDER BY make_ym_interval(0, n) RANGE BETWEEN INTERVAL '0-3' YEAR TO MONTH PRECEDING AND CURRENT ROW) AS k "
        "FROM (SELECT a, b, n, date_add(DATE'2023-12-20', n * 9) AS day, at, CAST(at AS TIMESTAMP_NTZ) + make_ym_interval(n % 3, n) AS local "
        "FROM (SELECT a, b, n, IF(n = 7, NULL, TIMESTAMP'2024-01-28 00:00:00' + make_dt_interval(0, 11 * n)) AS at "
        "FROM (SELECT a, b, explode(sequence(CAST(coalesce(b, 0) % 3 AS INT), 150, 3)) AS n FROM t)))"
    ),
    "whole partitions": (
        "SELECT a, b, sum(b) OVER (PARTITION BY a) AS x, avg(b) OVER (PARTITION BY a) AS y, count(*) OVER (PARTITION BY s) AS n, "
        "max(d) OVER () AS h, min(b) OVER (PARTITION BY d) AS l, b - avg(b) OVER (PARTITION BY a, s) AS o "
        "FROM (SELECT a, b, s, d + 0.0D AS d FROM t)"
    ),
    "whole partitions, beside ranks": (
        "SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b) AS r, sum(b) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND "
        "UNBOUNDED FOLLOWING) AS x, count(b) OVER (PARTITION BY a ORDER BY b) AS n FROM t"
    ),
    "the first rows of a partition": (
        "SELECT * FROM (SELECT a, b, s, row_number() OVER (PARTITION BY a ORDER BY b, s) AS r FROM t) WHERE r <= 2"
    ),
    "the first rows of a partition, with ties": "SELECT a, b FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) <= 3",
    "rows of the first ranks, by doubles and without partitions": (
        "SELECT x.*, y.b AS z FROM (SELECT s, a, d + 0.0D AS d FROM t QUALIFY rank() OVER (PARTITION BY s, s ORDER BY d DESC, s) <= 2) x "
        "JOIN (SELECT a, b FROM t QUALIFY rank() OVER (ORDER BY b, a) <= 3) y ON x.a <=> y.a"
    ),
    "rows of the first dense ranks": (
        "SELECT a, b, s, r FROM (SELECT *, dense_rank() OVER (PARTITION BY a ORDER BY b NULLS LAST) AS r FROM t) WHERE r < 3"
    ),
    "rows of the first ranks": "SELECT a, b, s FROM t QUALIFY rank() OVER (PARTITION BY a ORDER BY b DESC) = 1",
    "rows of the first dense ranks, without partitions": (
        "SELECT * FROM (SELECT a, b, dense_rank() OVER (ORDER BY b) AS r, rank() OVER (ORDER BY a) AS q FROM t) WHERE r <= 2 OR q <= 2"
    ),
    "windows over aggregates": (
        "SELECT a, s, sum(b) AS total, sum(sum(b)) OVER (PARTITION BY a) AS of_a, rank() OVER (PARTITION BY a ORDER BY sum(b) DESC) AS r, "
        "sum(sum(b)) OVER (PARTITION BY a ORDER BY s) AS running FROM t GROUP BY a, s"
    ),
    "windows over a rollup": (
        "SELECT a, s, grouping(a) + grouping(s) AS lochierarchy, rank() OVER (PARTITION BY grouping(a) + grouping(s), "
        "CASE WHEN grouping(s) = 0 THEN a END ORDER BY sum(b) DESC) AS r FROM t GROUP BY ROLLUP (a, s)"
    ),
    "windows on windows": (
        "SELECT a, r, sum(r) OVER (PARTITION BY r ORDER BY a) AS x, lag(n) OVER (PARTITION BY r ORDER BY a, n) AS y FROM (SELECT a, b, "
        "rank() OVER (PARTITION BY a ORDER BY b) AS r, count(*) OVER (PARTITION BY b) AS n FROM t)"
    ),
    "sums over windows": (
        "SELECT s, sum(x) AS x, max(r) AS r FROM (SELECT s, sum(b) OVER (PARTITION BY a) AS x, "
        "rank() OVER (PARTITION BY a ORDER BY b) AS r FROM t) GROUP BY s"
    ),
    "a window joined with itself": (
        "WITH v AS (SELECT a, b, sum(b) AS total, avg(sum(b)) OVER (PARTITION BY a) AS mean, rank() OVER (PARTITION BY a ORDER BY b) AS rn "
        "FROM t GROUP BY a, b) SELECT v.a, v.total, v.mean, p.total AS psum, n.total AS nsum FROM v JOIN v p ON v.a = p.a AND v.rn = p.rn + 1 "
        "JOIN v n ON v.a = n.a AND v.rn = n.rn - 1 WHERE v.total > 0"
    ),
    "windows by doubles and by nothing": (
        "SELECT d, b, count(*) OVER (PARTITION BY d) AS n, rank() OVER (PARTITION BY d ORDER BY b) AS r, "
        "row_number() OVER (ORDER BY b, d) AS k, sum(b) OVER (PARTITION BY 1 ORDER BY b) AS x FROM (SELECT d + 0.0D AS d, b FROM t)"
    ),
    "a limit in a lateral subquery": (
        "SELECT t.a, x.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a ORDER BY c LIMIT 2) x"
    ),
    "value in a filter": "SELECT a, b FROM t WHERE b > (SELECT avg(c) FROM u)",
    "value in a projection": "SELECT a, b * 2 - (SELECT max(c) FROM u WHERE a = 1) AS x, d FROM t WHERE s = 'x'",
    "value of at most one row": "SELECT a, b, (SELECT DISTINCT c FROM u WHERE c = 5 AND a = 3) AS x FROM t",
    "value of the first row": "SELECT a, b FROM t WHERE b > (SELECT c FROM u WHERE c > 0 ORDER BY c LIMIT 1)",
    "value of no row": "SELECT a, (SELECT c FROM u WHERE c > 9) AS x FROM t",
    "value for no column": "SELECT count(*) AS n FROM t WHERE (SELECT max(c) FROM u WHERE a = 2) > 1",
    "value that guards a division": "SELECT a, b FROM t WHERE b <> coalesce((SELECT min(c) FROM u WHERE c = 0), 0) AND 6 DIV b > 1",
    "values in having": "SELECT a, sum(b) AS x FROM t GROUP BY a HAVING sum(b) > (SELECT avg(b) FROM t) OR a = (SELECT min(c) FROM u)",
    "values without rows of a table": "SELECT (SELECT max(c) FROM u) AS x, (SELECT min(s) FROM t WHERE b > 1) AS y",
    "values in a case, merged": (
        "SELECT a, CASE WHEN (SELECT count(*) FROM u WHERE c BETWEEN 1 AND 2) > 3 THEN (SELECT avg(a) FROM u WHERE c BETWEEN 1 AND 2) "
        "ELSE (SELECT sum(a) FROM u WHERE c BETWEEN 1 AND 2) END AS x, (SELECT max(s) FROM u WHERE c = 5) AS y FROM t WHERE b = 1"
    ),
    "value in an argument and in a FILTER": (
        "SELECT s, sum(b + (SELECT max(c) FROM u)) AS x, count(*) FILTER (WHERE b > (SELECT avg(c) FROM u)) AS n FROM t GROUP BY s"
    ),
    "value in a group": "SELECT a + (SELECT max(c) FROM u) AS g, count(*) AS n FROM t GROUP BY a + (SELECT max(c) FROM u)",
    "value within a value": "SELECT a FROM t WHERE b >= (SELECT max(c) FROM u WHERE a <= (SELECT min(b) FROM t WHERE a > 1))",
    "value in a join": "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a AND t.b + u.c > (SELECT max(c) FROM u WHERE a = 1)",
    "value in a key of a join": "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a + (SELECT min(c) FROM u WHERE c > 0) AND t.s = u.s",
    "value in a semi-join": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c + t.b > (SELECT max(c) FROM u WHERE a = 1))",
    "value in an anti join": "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c + t.b > (SELECT min(b) FROM t))",
    "value in an operand of not in": "SELECT a FROM t WHERE a + (SELECT min(c) FROM u WHERE c > 1) NOT IN (SELECT c FROM u WHERE c IS NOT NULL)",
    "values of doubles": "SELECT a, b, (SELECT max(d) FROM u) AS x FROM t WHERE d <= (SELECT max(d) FROM u WHERE d < 9)",
    "exists, alone": "SELECT a, b FROM t WHERE EXISTS (SELECT * FROM u WHERE c = 5 AND a = 2)",
    "not exists, alone": "SELECT a, b FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE c = 5 AND a = 2)",
    "exists, in a projection": "SELECT a, EXISTS (SELECT * FROM u WHERE c > 9) AS x, NOT EXISTS (SELECT 1 FROM u) OR b > 1 AS y FROM t",
    "in, in a projection": "SELECT a, a IN (SELECT c FROM u) AS x, b NOT IN (SELECT c FROM u WHERE c > 1) AS y FROM t",
    "except all": "SELECT a, s FROM t EXCEPT ALL SELECT a, s FROM u",
    "except all of doubles": "SELECT d FROM t EXCEPT ALL SELECT d FROM u",
    "intersect all": "SELECT a, s FROM t INTERSECT ALL SELECT a, s FROM u",
    "intersect all of doubles": "SELECT d FROM t INTERSECT ALL SELECT d FROM u",
    "sums over except all": "SELECT s, count(*) AS n FROM (SELECT s, a FROM t EXCEPT ALL SELECT s, a FROM u) GROUP BY s",
    "pivot": "SELECT * FROM (SELECT a, s, b FROM t) PIVOT (sum(b) FOR s IN ('x', 'y'))",
    "pivot, several calls": "SELECT * FROM (SELECT a, s, b FROM t) PIVOT (sum(b) AS x, count(*) AS n FOR s IN ('x' AS ex, '', NULL AS no))",
    "pivot of doubles": "SELECT * FROM (SELECT a, b, d FROM t) PIVOT (max(d) FOR b IN (0, 1, 5))",
    "pivot of strings": "SELECT * FROM (SELECT a, b, s FROM t) PIVOT (max(s) AS x FOR b IN (1, 2, NULL))",
    "pivot by two columns": "SELECT * FROM (SELECT a, b, s, d FROM t) PIVOT (avg(b) AS x FOR (a, s) IN ((1, 'x'), (2, 'y')))",
    "pivot by doubles": "SELECT * FROM (SELECT a, b, d FROM t) PIVOT (sum(b) FOR d IN (0.0D, 1.5D, double('NaN')))",
    "unpivot": "SELECT * FROM (SELECT a, b, s FROM t) UNPIVOT (v FOR n IN (a, b))",
    "unpivot, with nulls": "SELECT * FROM (SELECT a, b, s FROM t) UNPIVOT INCLUDE NULLS (v FOR n IN (a AS first, b AS other))",
    "grouping sets": (
        "SELECT a, s, grouping_id(a, s) AS g, count(DISTINCT b) AS n, sum(b) AS total FROM t GROUP BY GROUPING SETS ((a), (s), (a, s), ())"
    ),
    "rollup, having by grouping": (
        "SELECT sum(b) AS x, a, s, grouping(a) + grouping(s) AS level FROM t GROUP BY ROLLUP (a, s) HAVING grouping(a) = 0 AND sum(b) > 1"
    ),
    "one group in two columns": "SELECT a, a AS again, s, sum(b) AS total FROM t WHERE s IN (SELECT s FROM u) GROUP BY a, s",
    "explode": "SELECT a, x FROM t LATERAL VIEW explode(array(a, b, 7L)) e AS x",
    "explode, outer": "SELECT a, s, x FROM t LATERAL VIEW OUTER explode(filter(array(a, b), y -> y > 1)) e AS x",
    "explode alone": "SELECT explode(split(s, '')) AS x FROM t",
    "positions": "SELECT p, x, b FROM t LATERAL VIEW posexplode(sequence(0L, b)) e AS p, x WHERE x > 0",
    "positions, outer": "SELECT a, p, x FROM t LATERAL VIEW OUTER posexplode(if(a > 1, array(b, d), NULL)) e AS p, x",
    "inline": "SELECT a, p, q FROM t LATERAL VIEW inline(array(named_struct('p', b, 'q', s), NULL)) e",
    "inline, outer": "SELECT a, p FROM t LATERAL VIEW OUTER inline(if(a > 1, array(named_struct('p', b)), NULL)) e",
    "stack": "SELECT a, x, y FROM t LATERAL VIEW stack(2, a, s, b) e AS x, y",
    "explode of explode": (
        "SELECT a, x, y FROM t LATERAL VIEW explode(array(a, b)) e AS x LATERAL VIEW explode(array(x, b)) f AS y"
    ),
    "lateral join of a generator": "SELECT t.a, e.col FROM t, LATERAL explode(array(t.a, t.b)) e WHERE e.col > 0",
    "lateral left join of a generator": "SELECT t.a, e.x FROM t LEFT JOIN LATERAL explode(filter(array(t.a, t.b), y -> y > 1)) e(x)",
    "counts of exploded": "SELECT x, count(*) AS n, sum(a) AS total FROM t LATERAL VIEW explode(array(a, b)) e AS x GROUP BY x",
    "join of exploded": "SELECT x, u.c FROM (SELECT explode(array(a, b)) AS x FROM t) JOIN u ON x = u.a",
    "explode of an aggregate": (
        "SELECT a, x FROM (SELECT a, count(*) AS n FROM t GROUP BY a) LATERAL VIEW explode(sequence(1L, n)) e AS x"
    ),
    "explode of constants": "SELECT a, explode(array(1, 2)) AS x FROM t",
    "json members": (
        "SELECT a, x, y FROM t LATERAL VIEW json_tuple(concat('{\"a\":', b, ',\"s\":\"', s, '\"}'), 'a', 's') e AS x, y"
    ),
    "json": "SELECT j.a + 1 AS x, to_json(j) AS y FROM (SELECT from_json(concat('{\"a\":', b, '}'), 'a BIGINT') AS j FROM t)",
    "sliding windows": (
        "SELECT unix_micros(window.start) AS x, unix_micros(window.end) AS y, count(*) AS n FROM (SELECT timestamp_seconds(a) AS ts FROM t) "
        "GROUP BY window(ts, '4 seconds', '2 seconds')"
    ),
    "sliding windows that leave gaps out": (
        "SELECT unix_micros(window.start) AS x, s, sum(b) AS n FROM (SELECT timestamp_seconds(a) AS ts, s, b FROM t) "
        "GROUP BY window(ts, '3 seconds', '2 seconds', '1 second'), s"
    ),
    "sessions": (
        "SELECT unix_micros(session_window.start) AS x, unix_micros(session_window.end) AS y, count(*) AS n, sum(b) AS total "
        "FROM (SELECT timestamp_seconds(a * b) AS ts, b FROM t) GROUP BY session_window(ts, '2 seconds')"
    ),
    "sessions by keys": (
        "SELECT d, s, unix_micros(session_window.start) AS x, unix_micros(session_window.end) AS y, max(a) AS top, count(a) AS n "
        "FROM (SELECT timestamp_seconds(a * b) AS ts, a, s, d FROM t) GROUP BY s, session_window(ts, '1 second'), d"
    ),
    "sessions with gaps of their own": (
        "SELECT a + 1 AS g, unix_micros(session_window.start) AS x, unix_micros(session_window.end) AS y, count(*) AS n "
        "FROM (SELECT timestamp_seconds(b) AS ts, a, s FROM t) GROUP BY a + 1, session_window(ts, "
        "CASE WHEN s = 'x' THEN '4 seconds' WHEN s = 'y' THEN '0 seconds' ELSE '1 second' END)"
    ),
    "sessions of sessions": (
        "SELECT unix_micros(session_window.start) AS x, count(*) AS n FROM (SELECT session_window.start AS ts FROM "
        "(SELECT timestamp_seconds(a) AS ts, s FROM t) "
        "GROUP BY s, session_window(ts, '1 second')) GROUP BY session_window(ts, '2 seconds')"
    ),
    "maps": (
        "SELECT m['x'] AS x, array_join(map_keys(m), ',') AS k, to_json(m) AS j, n "
        "FROM (SELECT a AS n, map(coalesce(s, 'null'), b) AS m FROM t)"
    ),
    "explode of maps": "SELECT a, k, v FROM t LATERAL VIEW explode(map('b', b, coalesce(s, ''), a)) e AS k, v",
    "explode of maps with positions, outer": (
        "SELECT p, k, v FROM t LATERAL VIEW OUTER posexplode(if(a > 1, map('b', b), NULL)) e AS p, k, v"
    ),
    "numbers of rows of the first rank": (
        "SELECT a, b, row_number() OVER w AS n, rank() OVER w AS r FROM t WINDOW w AS (PARTITION BY a ORDER BY b) "
        "QUALIFY rank() OVER w = 1"
    ),
    "ranks of the first row": (
        "SELECT a, r + n + d AS three FROM (SELECT a, row_number() OVER w AS n, rank() OVER w AS r, dense_rank() OVER w AS d FROM t "
        "WINDOW w AS (PARTITION BY a ORDER BY b)) WHERE n = 1"
    ),
    "functions of one row": (
        "SELECT a, xxhash64(a, s) AS h, format_string('%d:%s', b, s) AS f, asin(sin(b / 10)) AS r, hex(s) AS x, "
        "unix_micros(from_utc_timestamp(timestamp_seconds(b * 86400), 'Europe/Paris')) AS z, "
        "size(sequence(DATE '2020-01-31', date_add(DATE '2020-06-30', CAST(b AS INT)), INTERVAL 1 MONTH)) AS n FROM t"
    ),
    "groups by a hash": (
        "SELECT pmod(hash(s, b), 3) AS bucket, count(*) AS n, max(levenshtein(s, 'abc')) AS far FROM t GROUP BY 1"
    ),
    "aggregates of NULL": (
        "SELECT s, count(DISTINCT a, NULL) AS n, approx_count_distinct(NULL) AS c, max(NULL) IS NULL AS x, first(NULL) IS NULL AS f, "
        "size(collect_list(NULL) RESPECT NULLS) AS l, max_by(a, NULL) AS m, max(struct(b, NULL)).b AS y FROM t GROUP BY s"
    ),
    "windows of NULL": (
        "SELECT a, max(NULL) OVER (ORDER BY a) IS NULL AS x, lag(NULL) OVER (PARTITION BY s ORDER BY a) IS NULL AS y, "
        "first_value(NULL) OVER (ORDER BY a) IS NULL AS z, size(collect_list(NULL) OVER (PARTITION BY a)) AS l FROM t"
    ),
    "windows that a constant orders, over sorted rows": (
        "SELECT a, b, s, row_number() OVER w AS r, rank() OVER w AS k, cume_dist() OVER w AS c, sum(a) OVER w AS x, last_value(b) OVER w AS z, "
        "sum(b) OVER (PARTITION BY s ORDER BY 1 ROWS UNBOUNDED PRECEDING) AS y "
        "FROM (SELECT * FROM t ORDER BY a, b, d) WINDOW w AS (PARTITION BY s ORDER BY (SELECT NULL))"
    ),
    **{
        f"columns without a type: {name}": query
        for name, query in (
            (
                "distinct",
                "SELECT a, x IS NULL AS y, coalesce(x, a) AS z, cast(x AS DATE) AS w, x <=> NULL AS v, x IN (1, 2) AS i "
                "FROM (SELECT DISTINCT NULL AS x, a FROM t)",
            ),
            (
                "of a rollup, in order",
                "SELECT a, x IS NULL AS n, grouping(x) AS g, count(*) AS c FROM (SELECT a, NULL AS x FROM t) GROUP BY ROLLUP (a, x) "
                "ORDER BY x, g, a, c LIMIT 3",
            ),
            (
                "within others",
                "SELECT a, x.f IS NULL AS n, size(y) AS m, z[0] IS NULL AS e FROM (SELECT DISTINCT a, named_struct('f', NULL, 'g', a) AS x, "
                "array(NULL, NULL) AS y, array(NULL) AS z FROM t)",
            ),
            (
                "united and grouped",
                "SELECT x IS NULL AS k, count(x) AS n, max(a) AS m FROM (SELECT NULL AS x, a FROM t UNION ALL SELECT NULL, a FROM u) GROUP BY x",
            ),
            (
                "joined",
                "SELECT t.a, v.x IS NULL AS n, q.y IS NULL AS m FROM t JOIN VALUES (NULL, 1), (NULL, 2) AS v(x, k) ON t.a = v.k "
                "LEFT JOIN (SELECT DISTINCT a, NULL AS y FROM u) AS q ON t.a = q.a",
            ),
            (
                "generated, in windows and of a subquery",
                "SELECT a, e IS NULL AS f, lag(x) OVER (PARTITION BY x ORDER BY a, b) IS NULL AS l, "
                "(SELECT max(n) FROM (SELECT NULL AS n FROM u)) IS NULL AS y "
                "FROM (SELECT a, b, NULL AS x, explode(array(NULL)) AS e FROM (SELECT DISTINCT a, b FROM t))",
            ),
        )
    },
    "count distinct of a constant": "SELECT s, count(DISTINCT 'k') AS x, sum(b) AS z FROM t GROUP BY s",
    "observed, below a LIMIT": lambda spark: (
        spark.table("t")
        .orderBy("a", "b", "s", "d")
        .observe("m", F.count(F.lit(1)).alias("n"))
        .select("a", "b")
        .limit(3)
    ),
    "observed": lambda spark: spark.table("t").observe("m", F.count(F.lit(1)).alias("n")).groupBy("a").count(),
    "view in a view": lambda spark: (
        spark.table("t").groupBy("a").count().groupBy("count").agg({"a": "max"}).withColumnRenamed("max(a)", "m")
    ),
    **{f"variants: {name}": query for name, query in VARIANT_QUERIES.items()},
}


@pytest.fixture(scope="module")
def bench(spark: SparkSession) -> Workbench:
    """Its sources are TABLES."""
    made = Workbench(spark)
    for table, ddl in TABLES.items():
        made.source(table, ddl, "changelog")
    return made


@dataclass(frozen=True)
class Round:
    """Changes of the tables, and a session in which the tables are those after the last change."""

    histories: dict[str, list[Rows]]
    batch: SparkSession


@pytest.fixture(scope="module")
def rounds(spark: SparkSession) -> Callable[[str], Round]:
    """A query gets one of a few rounds, because to make the tables costs as much as to ask the query. In round 0 Spark generates code, as it
    does for a user's query. This round has the queries that could depend on it."""

    @cache
    def made(number: int) -> Round:
        histories = {table: list(history(random.Random(f"{number}{table}"))) for table in TABLES}
        batch = small(spark) if number else spark.newSession()
        show_batch(batch, histories)
        return Round(histories, batch)

    return lambda name: made(0 if name.startswith("zeros") else crc32(name.encode()) % ROUNDS)


KINDS_OF: dict[str, set[type]] = {}
"""The kinds of nodes of each query that was run."""

NOT_IN_A_VIEW = {LastByKey, Output, ClockValue, TemporalFilter} | OF_EVENT_TIME
"""The first two belong to tables and outputs; tests/end_to_end compares them with Spark. test_clock.py compares those that read the clock.
test_event_time.py compares those of event time, which are in streaming tables only, with Structured Streaming."""


NAMED = (
    "aggregates of NULL", "columns without a type: distinct", "columns without a type: joined", "count distinct of a constant",
    "count distinct of two columns, of no row of some groups",
    "doubles not in, in a projection", "nested keys with doubles: not in", "no groups", "numbers of rows of the first rank",
    "python: of no rows", "rows of the first ranks, by doubles and without partitions", "totals at a distance of months",
    "value that guards a division", "whole partitions", "windows that a constant orders, over sorted rows", "zeros with signs: groups",
)  # fmt: skip
"""Breakages are noticed by these."""

CHOSEN = sampled([name for name in QUERIES if name not in VARIANTS], 2, NAMED)
IN_SUITE = {name for name in CHOSEN if isinstance(name, str)}


@pytest.mark.parametrize("name", [*CHOSEN, *(pytest.param(name, marks=pytest.mark.soak) for name in sorted(VARIANTS))])
def test_a_lowered_query_holds_what_spark_answers(bench: Workbench, rounds: Callable[[str], Round], name: str) -> None:
    circuit = lower(bench.beside().view("v", QUERIES[name]).project())
    KINDS_OF[name] = {type(node) for node in circuit.nodes}
    histories = rounds(name).histories
    content: Rows = Counter()
    store = DictStore()
    for change in steps_of(circuit, store, histories):
        content = plus(content, change)
    answer = _comparable(_batch(rounds(name).batch, name))
    assert _comparable(content) == answer
    assert _comparable(_asked_for(circuit, [store])) == answer
    if _exchanges_matter(circuit):
        workers = WORKERS[crc32(name.encode()) % len(WORKERS)]
        assert _comparable(_with_workers(circuit, workers, histories)) == answer, f"{workers} workers"


def test_every_kind_of_node_is_in_a_query() -> None:
    """A kind of node without a query would never be compared with Spark."""
    if not KINDS_OF.keys() >= IN_SUITE:
        pytest.skip("only some of the queries have run")
    missing = set(get_args(ProjectNode)).difference(*KINDS_OF.values()) - NOT_IN_A_VIEW
    assert not missing, f"no query in QUERIES has {', '.join(sorted(kind.__name__ for kind in missing))}"


@pytest.mark.parametrize(
    ("query", "key", "derived"),
    [
        ("SELECT a, count(*) AS n FROM t GROUP BY a", ("a",), True),
        ("SELECT a, count(*) AS n FROM t GROUP BY a", (), True),
        ("SELECT count(*) AS n FROM t", ("n",), True),
        ("SELECT a, count(*) AS n FROM t GROUP BY a, s", ("a",), False),  # the key must be watched
        ("SELECT a, count(*) AS n FROM t GROUP BY a, s", (), True),
        ("SELECT a + 1 AS g, n FROM (SELECT a, count(*) AS n FROM t GROUP BY a)", ("g",), False),
        ("SELECT DISTINCT a FROM t", ("a",), False),
        ("SELECT a, b FROM t", (), False),
    ],
)
def test_a_view_over_an_aggregate_stores_nothing_unless_its_key_must_be_watched(
    spark: SparkSession, query: str, key: tuple[str, ...], derived: bool
) -> None:
    bench = Workbench(spark).source("t", TABLES["t"], "changelog").view("v", query, key=key)
    view = lower(bench.project()).nodes[-1]
    assert isinstance(view, View)
    assert view.kept
    assert view.derived == derived


@pytest.mark.parametrize(
    ("query", "anti"),
    [
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a WHERE u.a IS NULL", True),
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.s = u.s WHERE u.s IS NULL AND t.b > 1", True),
        ("SELECT t.a, u.c FROM t RIGHT JOIN u ON t.a = u.a AND t.s = u.s WHERE t.s IS NULL", True),
        ("SELECT t.a, u.c FROM t FULL JOIN u ON t.a = u.a WHERE u.a IS NULL", False),  # a right row may have it
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a WHERE u.c IS NULL", False),  # a match may have it
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a WHERE t.a IS NULL", False),
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a <=> u.a WHERE u.a IS NULL", False),
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a WHERE u.a IS NULL OR t.b = 1", False),
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.b > u.c WHERE u.a IS NULL", False),
    ],
)
def test_a_left_join_that_asks_for_rows_without_a_match_is_an_anti_join(
    bench: Workbench, query: str, anti: bool
) -> None:
    kinds = [type(node) for node in lower(bench.beside().view("v", query).project()).nodes]
    assert (SemiJoin in kinds, OuterJoin in kinds) == (anti, not anti)


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL"])
def test_streaming_tables_on_either_side_of_an_outer_join_give_the_same_circuit(spark: SparkSession, kind: str) -> None:
    def circuit(streaming: bool) -> str:
        bench = Workbench(spark, streaming=streaming)
        for table, ddl in TABLES.items():
            bench.source(table, ddl, "changelog")
        query = f"SELECT t.a, t.b, u.c FROM t {kind} JOIN u ON t.a = u.a AND t.b > u.c"
        return lower(bench.view("v", query).view("w", "SELECT count(c) AS n FROM v").project()).to_json()

    assert circuit(streaming=True) == circuit(streaming=False)


LATE = {
    "sums over a join on doubles", "sums of doubles over a join", "sums of both sides of a join", "extremes over a join", "distinct over a join",
    "sums over a join with a condition", "sums of an expression over a join",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [name for name in QUERIES if ("over" in name and "join" in name) or "both sides" in name]
)
def test_sums_are_taken_before_a_join_where_they_may_be(bench: Workbench, name: str) -> None:
    circuit = lower(bench.beside().view("v", QUERIES[name]).project())
    assert any(isinstance(node, FinalAggregate) for node in circuit.nodes) == (name not in LATE)


@pytest.mark.parametrize(
    ("query", "early"),
    [
        ("SELECT t.b, sum(u.c) AS total FROM t JOIN u ON t.a = u.a GROUP BY t.b", False),  # a row of u a key
        ("SELECT u.c, sum(t.b) AS total FROM t JOIN u ON t.a = u.a GROUP BY u.c", True),
        ("SELECT u.c, count(*) AS n FROM t JOIN u ON t.a = u.a GROUP BY u.c", True),
        ("SELECT u.c, count(*) AS n FROM u JOIN t ON t.a = u.a GROUP BY u.c", True),
    ],
)
def test_there_is_nothing_to_add_up_on_the_side_that_has_a_row_a_key(
    spark: SparkSession, query: str, early: bool
) -> None:
    bench = Workbench(spark).source("t", TABLES["t"]).source("u", TABLES["u"], "upsert", ("a",))
    circuit = lower(bench.view("v", query).project())
    assert any(isinstance(node, FinalAggregate) for node in circuit.nodes) == early


class _Row(tuple[Any, ...]):
    """A row that equals another one if their texts are equal: -0.0 differs from 0.0, and NaN equals itself."""

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _rows(table: pa.Table) -> Rows:
    """As `to_rows`, with rows of this kind."""
    result: Rows = Counter()
    for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        result[_Row(row)] += weight
    return Counter({row: weight for row, weight in result.items() if weight})


@pytest.mark.parametrize(
    ("query", "early"),
    [
        ("SELECT a FROM t WHERE b > (SELECT avg(c) FROM u)", True),
        ("SELECT a, EXISTS (SELECT 1 FROM u) AS x FROM t", True),
        ("SELECT a FROM t WHERE b > (SELECT avg(c) FROM u HAVING count(*) > 2)", True),
        ("SELECT a FROM t WHERE b > (SELECT max(c) FROM u)", False),
        ("SELECT a FROM t WHERE b > (SELECT avg(d) FROM u)", False),
        ("SELECT a FROM t WHERE b > (SELECT sum(c) FROM u GROUP BY a HAVING a = 1)", False),
        ("SELECT sum(c) AS x FROM u", False),
    ],
)
def test_a_value_is_summed_where_the_rows_lie(bench: Workbench, query: str, early: bool) -> None:
    circuit = lower(bench.beside().view("v", query).project())
    assert any(isinstance(node, FinalAggregate) for node in circuit.nodes) == early


def history(chance: random.Random) -> Iterator[Rows]:
    """A change a step; later ones take back some of what is there."""
    present: list[tuple[Any, ...]] = []
    for _ in range(STEPS):
        change: Rows = Counter()
        for row in chance.sample(present, len(present) // 3):
            present.remove(row)
            change[row] -= 1
        for _ in range(9):
            row = _Row(
                (
                    chance.choice([None, 0, 1, 2, 3]),
                    chance.choice([None, 0, 1, 2, 5]),
                    chance.choice([None, "", "x", "y"]),
                    chance.choice([None, 0.0, -0.0, 1.5, float("inf"), NAN]),
                )
            )
            present.append(row)
            change[row] += 1
        yield Counter({row: weight for row, weight in change.items() if weight})


# One object, so that equal rows are equal to Counter.
NAN = float("nan")


def _asked_for(circuit: Circuit, stores: Sequence[DictStore]) -> Rows:
    """The content of the one view, as a query reads it after the last step from the state of every worker."""
    view = next(index for index, node in enumerate(circuit.nodes) if isinstance(node, View))
    whole: Rows = Counter()
    for number, store in enumerate(stores):
        contexts = contexts_of(circuit, store, STEPS, owns_keyless=number == 0)
        whole = plus(whole, _rows(content_of(circuit, view, contexts)))
    return whole


def _exchanges_matter(circuit: Circuit) -> bool:
    """Whether several operators have state, so that one relies on where another says that its rows lie."""
    return any(isinstance(node, OuterJoin) for node in circuit.nodes)


def _with_workers(circuit: Circuit, workers: int, histories: dict[str, list[Rows]]) -> Rows:
    """The content of the one view after the last step on several workers."""
    machine = InProcess(circuit, workers)
    types = {node.handle: node.types for node in circuit.nodes if isinstance(node, Source)}
    for step in range(STEPS):
        machine.step({handle: to_table(histories[handle][step], kinds) for handle, kinds in types.items()})
    return _asked_for(circuit, machine.stores)


def steps_of(circuit: Circuit, store: DictStore, histories: dict[str, list[Rows]]) -> Iterator[Rows]:
    """The change of the one view at every step, node after node, on one worker."""
    for step in range(STEPS):
        contexts = contexts_of(circuit, store, step)
        changes: list[pa.Table] = []
        for index, node in enumerate(circuit.nodes):
            if isinstance(node, Source):
                changes.append(to_table(histories[node.handle][step], node.types))
                continue
            operate = operator_of(node).step
            assert operate is not None
            changes.append(operate(node, [changes[i] for i in node.inputs], contexts(index)))
            assert changes[-1].schema.types == zset.schema_of(node.types).types, (index, node)
            if isinstance(node, View):
                yield _rows(changes[-1])


def _batch(session: SparkSession, name: str) -> Rows:
    """Spark's answer over what is in the tables after the last step."""
    query = QUERIES[name]
    frame = session.sql(query) if isinstance(query, str) else query(session)
    return Counter(_Row(_plain(value) for value in row) for row in frame.collect())


def show_batch(session: SparkSession, histories: dict[str, list[Rows]]) -> None:
    """Makes the tables of the session those after the last step."""
    for table, ddl in TABLES.items():
        whole: Rows = Counter()
        for change in histories[table]:
            whole = plus(whole, change)
        # In one partition: then no plan needs a shuffle.
        session.createDataFrame(list(whole.elements()), ddl).coalesce(1).createOrReplaceTempView(table)


def _plain(value: Any) -> Any:
    """A value as Arrow has it."""
    match value:
        case Row():
            return {name: _plain(part) for name, part in value.asDict().items()}
        case VariantVal():
            return {FIELD: text_of_binary(bytes(value.value), bytes(value.metadata))}
        case dict():
            return [(key, _plain(part)) for key, part in value.items()]
        case list():
            return [_plain(part) for part in value]
        case _:
            return value


def _comparable(rows: Rows) -> Counter[str]:
    """Rows by their text: NaN equals itself, -0.0 differs from 0.0."""
    counted: Counter[str] = Counter()
    for row, weight in rows.items():
        counted[repr(row)] += weight
    return counted
