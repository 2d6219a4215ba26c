"""The rows of an answer, as a command shows them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from base.text.type_names import quote_for_spark
from stepwell.inspection.query_errors import AnswerBrokeOff, QueryError


def collect_rows(rows: DataFrame, limit: int, *, as_json: bool) -> list[Any]:
    """The rows. For programs they are objects, encoded like the messages of output topics. For users they are texts, cast by Spark.

    They are fetched as Arrow, because an Arrow stream marks its end. `collect` would treat a broken connection as the end of the rows.
    Raises QueryError, or AnswerBrokeOff."""
    unique = _with_unique_names(rows)
    try:
        if as_json:
            encoded = F.to_json(
                F.struct(*(F.col(quote_for_spark(name)) for name in unique.columns)), {"ignoreNullFields": "false"}
            )
            (objects,) = _texts(unique.select(encoded.cast("binary")).limit(limit).toArrow())
            return [json.loads(text) for text in objects if text is not None]
        found = unique.select(*map(_text, unique.dtypes)).limit(limit).toArrow()
        return list(zip(*_texts(found), strict=True))
    except PySparkException as error:
        raise QueryError(str(error).split("\n")[0]) from None
    except (EOFError, OSError, pa.ArrowInvalid, Py4JError) as error:
        raise AnswerBrokeOff(f"Spark broke off while it sent the answer: {error!r}", "Ask again.") from error


def _with_unique_names(rows: DataFrame) -> DataFrame:
    names = rows.columns
    if len(set(names)) == len(names):
        return rows
    return rows.toDF(*(f"{name}_{i}" if name in names[:i] else name for i, name in enumerate(names)))


def _text(column: tuple[str, str]) -> Any:
    name, kind = column
    value = F.col(quote_for_spark(name))
    return (F.hex(value) if kind == "binary" else value.cast("string")).cast("binary").alias(name)


def _texts(found: pa.Table) -> list[list[str | None]]:
    """The columns as texts. A STRING of Spark may hold any bytes, such as those of a binary field that was cast, and what is no UTF-8 is shown
    as U+FFFD."""
    return [
        [None if value is None else value.decode(errors="replace") for value in column.to_pylist()]
        for column in found.columns
    ]
