"""The functions in Python that random projects call."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

NAME = "shown_in_python"

DEFINITION = f"""
from pyspark.sql.types import StringType

spark.udf.register({NAME!r}, lambda *values: None if None in values else repr(values), StringType())
"""
"""The same function in a file of a project."""

TYPES = ("int", "bigint", "string", "boolean")
"""Of the arguments: those whose values Python writes in one way."""


def shown(*values: Any) -> str | None:
    return None if None in values else repr(values)


def register(spark: SparkSession) -> None:
    spark.udf.register(NAME, shown, StringType())
