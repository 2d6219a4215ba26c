"""NOT NULL below a column is not checked, so a NULL there is seen by every query: the answer is Spark's over the rows that were read."""

from __future__ import annotations

from tests.end_to_end.harness import Playground, Value

SQL = """
CREATE STREAMING TABLE t (id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL, b: STRING> NOT NULL, l ARRAY<STRUCT<x: INT NOT NULL>>)
  USING kafka TBLPROPERTIES ('subscribe' = '@t');
CREATE STREAMING TABLE plain (id BIGINT, s STRUCT<a: INT, b: STRING> NOT NULL) USING kafka TBLPROPERTIES ('subscribe' = '@t');

CREATE MATERIALIZED VIEW nulls TBLPROPERTIES ('topic' = '@nulls') AS SELECT id FROM t WHERE s.a IS NULL;
CREATE MATERIALIZED VIEW counts TBLPROPERTIES ('topic' = '@counts', 'mode' = 'changelog') AS
  SELECT count(s.a) AS n, count(*) AS m FROM t;
CREATE MATERIALIZED VIEW zeros TBLPROPERTIES ('topic' = '@zeros') AS SELECT id, coalesce(s.a, 0) AS z FROM t;
CREATE MATERIALIZED VIEW within TBLPROPERTIES ('topic' = '@within') AS SELECT id, filter(l, e -> e.x IS NULL) AS z FROM t;

CREATE MATERIALIZED VIEW declared (id BIGINT, s STRUCT<a: INT NOT NULL, b: STRING> NOT NULL) AS SELECT id, s FROM plain;
CREATE MATERIALIZED VIEW of_declared TBLPROPERTIES ('topic' = '@of_declared') AS SELECT id FROM declared WHERE s.a IS NULL;
CREATE STREAMING TABLE both;
CREATE FLOW first AS INSERT INTO both BY NAME SELECT named_struct('a', 1, 'b', 'x') AS s FROM STREAM t;
CREATE FLOW second AS INSERT INTO both BY NAME SELECT s FROM STREAM plain;
CREATE MATERIALIZED VIEW of_both TBLPROPERTIES ('topic' = '@of_both') AS SELECT s.b FROM both WHERE s.a IS NULL;
"""
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructField, StructType

columns = [("id", LongType()), ("m", ArrayType(IntegerType(), False)), ("n", MapType(StringType(), IntegerType(), False))]
schema = StructType([StructField(name, kind, False) for name, kind in columns])
dp.create_streaming_table("lists", schema=schema, format="kafka", table_properties={"subscribe": "@t"})

def view(name, query):
    def made():
        return SparkSession.active().sql(query)
    dp.materialized_view(made, name=name, table_properties={"topic": "@" + name})

view("elements", "SELECT id, exists(m, x -> x IS NULL) AS e, coalesce(m[0], 7) AS f, array_compact(m) AS g, "
                 "coalesce(n['k'], 7) AS h, exists(map_values(n), x -> x IS NULL) AS i FROM lists")
view("rows_of_null", "SELECT id, x FROM (SELECT id, explode(m) AS x FROM lists) WHERE x IS NULL")
view("values_of_null", "SELECT id, k FROM (SELECT id, explode(n) AS (k, v) FROM lists) WHERE v IS NULL")
"""


def test_a_null_below_a_column_that_says_not_null_is_seen(play: Playground) -> None:
    play.topic("t")
    rows: list[Value] = [
        {"id": i, "s": {"a": a, "b": "y"}, "l": [{"x": a}, {"x": 2}], "m": [a, 5], "n": {"k": a, "l": 1}}
        for i, a in enumerate([None, 3, None])
    ]
    play.send("t", rows)
    resolved = play.resolve({"views.sql": SQL, "lists.py": PYTHON})
    play.run(resolved)
    assert play.check(resolved) == {
        "nulls": 2, "counts": 1, "zeros": 3, "within": 3, "of_declared": 2, "of_both": 2,
        "elements": 3, "rows_of_null": 2, "values_of_null": 2,
    }  # fmt: skip
