"""Functions of a user's in Python, of every form, and queries that call them. The tables are those of test_against_spark.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, IntegerType, LongType, MapType, StringType, StructType

from tests.stepwell.lowering.projects import Query

OFFSET = 7


@F.udf(LongType(), useArrow=True)
def shifted(x: int | None, by: int | None = OFFSET) -> int | None:
    return None if x is None or by is None else x + by


@F.udf(StringType(), useArrow=False)
def joined(*parts: Any) -> str:
    return "|".join(map(repr, parts))


@F.udf(StructType().add("low", LongType()).add("text", StringType()), useArrow=True)
def described(x: int | None, text: str | None) -> dict[str, Any]:
    return {"low": x, "text": f"{text}!"}


@F.udf(ArrayType(LongType()), useArrow=False)
def upto(x: int | None) -> list[int] | None:
    return None if x is None else list(range(x))


@F.udf(MapType(StringType(), LongType()), useArrow=True)
def mapped(text: str | None, x: int | None) -> dict[str, int | None]:
    return {"text": len(text or ""), "x": x}


@F.pandas_udf(DoubleType())  # type: ignore[call-overload]
def halved(values: pd.Series) -> pd.Series:
    return values / 2


@F.pandas_udf(StructType().add("a", LongType()).add("b", DoubleType()))  # type: ignore[call-overload]
def both(x: pd.Series, y: pd.Series) -> pd.DataFrame:
    return pd.DataFrame({"a": x.fillna(0).astype("int64"), "b": y})


@F.pandas_udf(LongType())  # type: ignore[call-overload]
def added(batches: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.Series]:
    for x, y in batches:
        yield x.fillna(0).astype("int64") + y.fillna(0).astype("int64")


@F.arrow_udf(LongType())
def squared(x: pa.Array) -> pa.Array:
    return pc.multiply(x, x)


@F.arrow_udf(StringType())
def upper(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    for batch in batches:
        yield pc.utf8_upper(batch)


@F.udf(IntegerType(), useArrow=True)
def nothing() -> int:
    return int(np.int64(42))


@F.pandas_udf(DoubleType(), F.PandasUDFType.GROUPED_AGG)
def middle(values: pd.Series) -> float | None:
    kept = values.dropna()
    return float(kept.median()) if len(kept) else None


@F.pandas_udf(StringType(), F.PandasUDFType.GROUPED_AGG)
def listed(numbers: pd.Series, words: pd.Series) -> str:
    return repr(sorted(zip(numbers.fillna(-1).astype("int64"), words.fillna("-"), strict=True)))


@F.arrow_udf(LongType(), F.ArrowUDFType.GROUPED_AGG)
def greatest(values: pa.Array, by: pa.Array) -> Any:
    return pc.max(pc.add(values, by))


def _registered(query: str) -> Query:
    def run(spark: SparkSession) -> DataFrame:
        spark.udf.register("shifted", shifted)
        spark.udf.register("joined", joined)
        return spark.sql(query)

    return run


QUERIES: dict[str, Query] = {
    "python: of one row, in a projection": lambda spark: spark.table("t").select(
        "a", shifted("b").alias("x"), described("a", "s").alias("y"), nothing().alias("z")
    ),
    "python: by way of pickles": lambda spark: spark.table("t").select(
        "s", joined("a", "b", "s", "d").alias("x"), upto("b").alias("y")
    ),
    "python: a map": lambda spark: spark.table("t").select(
        mapped("s", "b")["text"].alias("x"), mapped("s", "b")["x"].alias("y")
    ),
    "python: of pandas": lambda spark: spark.table("t").select(
        halved("d").alias("x"), both("a", "d").alias("y"), added("a", "b").alias("z")
    ),
    "python: of arrow": lambda spark: spark.table("t").select(squared("b").alias("x"), upper("s").alias("y")),
    "python: nested, of all forms": lambda spark: spark.table("t").select(
        shifted(shifted("a")).alias("x"),
        joined(upto(squared(shifted(shifted("b") - 7) - 7))).alias("y"),
        halved(halved("d") + shifted("a")).alias("z"),
    ),
    "python: in a filter": lambda spark: spark.table("t").where((shifted("b") > 8) & F.col("a").isNotNull()),
    "python: in a condition of a join": lambda spark: (
        spark.table("t")
        .join(spark.table("u"), shifted(spark.table("t")["a"]) == spark.table("u")["c"] + 7)
        .select("b", "c")
    ),
    "python: of columns of two tables": _registered(
        "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a AND shifted(t.b, u.c) > 3"
    ),
    "python: as a key, and over an aggregate": _registered(
        "SELECT shifted(a) AS k, joined(sum(shifted(b)), count(*)) AS x FROM t GROUP BY shifted(a) HAVING shifted(count(*)) > 8"
    ),
    "python: by names of parameters": _registered(
        "SELECT shifted(b, by => a) AS x, shifted(by => a, x => b) AS y FROM t"
    ),
    "python: of constants": _registered("SELECT shifted(1L) AS x, joined('a', NULL, 1.5BD) AS y, s FROM t"),
    "python: in subqueries": _registered(
        "SELECT a, s FROM t WHERE shifted(b) IN (SELECT shifted(c) FROM u) AND b < (SELECT max(shifted(c)) FROM u)"
    ),
    "python: beside a window": _registered(
        "SELECT s, joined(row_number() OVER (PARTITION BY s ORDER BY a, b, d)) AS x, sum(shifted(b)) OVER (PARTITION BY s) AS y FROM t"
    ),
    "python: of the groups": lambda spark: (
        spark.table("t")
        .groupBy((F.col("a") + 1).alias("k"), "s")
        .agg(middle("b").alias("x"), listed("b", "s").alias("y"))
    ),
    "python: of a group by names, over a function": lambda spark: (
        spark.table("t").groupBy(shifted("a").alias("k")).agg(greatest(by=F.col("a"), values=shifted("b")).alias("x"))
    ),
    "python: of all rows": lambda spark: spark.table("t").agg(
        (middle("b") + 1).alias("x"), listed("a", "s").alias("y")
    ),
    "python: of no rows": lambda spark: spark.table("t").where("a > 1000").agg(listed("a", "s").alias("y")),
    "python: in a LEFT JOIN and an ORDER BY": _registered(
        "SELECT t.a, t.b, x.n FROM t LEFT JOIN (SELECT shifted(a) AS k, count(*) AS n FROM u GROUP BY 1) x ON t.a + 7 = x.k "
        "ORDER BY joined(t.a, t.b, t.s, t.d) LIMIT 7"
    ),
}
