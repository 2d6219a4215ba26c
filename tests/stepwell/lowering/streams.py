"""Structured Streaming as the oracle of event time: one micro-batch for each step, and the batch without data that Spark runs when the watermark
has moved.

All tables are one stream of files, in which a row names its table. So a step, which is one file, is one micro-batch, also of a query over
several tables.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

Rows = Sequence[tuple[Any, ...]]
Query = str | Callable[[SparkSession], DataFrame]


class SparkStreams:
    """Runs queries in append mode. `tables`: the DDL of each table, all of them with the same columns."""

    def __init__(self, spark: SparkSession, folder: Path, tables: Sequence[str], ddl: str) -> None:
        self.spark = spark.newSession()
        self.spark.conf.set("spark.sql.shuffle.partitions", "1")
        self.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "true")
        self._folder = folder / "in"
        self._folder.mkdir(parents=True)
        self._checkpoints = folder / "checkpoints"
        self._names = [part.split()[0] for part in ddl.split(",")]
        self._steps = 0
        self._queries: dict[str, Any] = {}
        self._seen: dict[str, Counter[str]] = {}
        whole = self.spark.readStream.schema(f"table_ string, {ddl}").json(str(self._folder))
        for table in tables:
            whole.where(f"table_ = '{table}'").drop("table_").createOrReplaceTempView(table)

    def start(self, name: str, query: Query) -> None:
        frame = self.spark.sql(query) if isinstance(query, str) else query(self.spark)
        writer = frame.writeStream.format("memory").queryName(name).outputMode("append")
        self._queries[name] = writer.option("checkpointLocation", str(self._checkpoints / name)).start()
        self._seen[name] = Counter()

    def step(self, rows: Mapping[str, Rows]) -> dict[str, Counter[str]]:
        """What every query puts out in the step with these rows."""
        lines = [
            json.dumps({"table_": table, **{n: _plain(v) for n, v in zip(self._names, row, strict=True)}})
            for table, of_table in rows.items()
            for row in of_table
        ]
        hidden = self._folder / f".{self._steps}.json"
        hidden.write_text("\n".join(lines))
        hidden.rename(self._folder / f"{self._steps}.json")
        self._steps += 1
        out = {}
        for name, query in self._queries.items():
            query.processAllAvailable()
            now = Counter(text_of(tuple(row)) for row in self.spark.table(name).collect())
            out[name] = now - self._seen[name]
            self._seen[name] = now
        return out

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()


def text_of(row: tuple[Any, ...]) -> str:
    return repr(tuple(_value(value) for value in row))


def _value(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _value(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return {name: _value(part) for name, part in value.items()}
    return value.replace(tzinfo=None).isoformat() if isinstance(value, datetime) else value


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
