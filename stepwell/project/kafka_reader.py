"""`spark.readStream.format("kafka")` and `spark.read.format("kafka")` in definitions: who is asked for the rows.

Spark's own Kafka source is not on the class path, and would ask the broker while a query is planned. So the readers of PySpark are watched
while definitions run: what they are given is kept, and `load()` of a reader of Kafka returns what `provide` returns. All other readers are
Spark's own.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming import DataStreamReader
from pyspark.sql.utils import to_str

from stepwell.errors import Location

_NAMES = ("kafka", "org.apache.spark.sql.kafka010.kafkasourceprovider")

_GIVEN = "_stepwell_given"
"""The attribute of a reader under which its `_Given` is kept."""


@dataclass(frozen=True)
class KafkaRead:
    """One call of `load()`. `spark` is the reader's session. `has_schema`: whether the definition gave the reader a schema."""

    spark: SparkSession
    options: Mapping[str, str]
    streaming: bool
    has_schema: bool


@dataclass
class _Given:
    """What a reader was given so far. A value of None is one that was not given, as for Spark."""

    format: str = ""
    options: dict[str, str] = field(default_factory=dict)
    has_schema: bool = False


@contextlib.contextmanager
def kafka_reads(provide: Callable[[KafkaRead], DataFrame]) -> Iterator[None]:
    """While the body runs, readers of Kafka get their rows from `provide`."""
    with _watch(DataStreamReader, True, provide), _watch(DataFrameReader, False, provide):
        yield


@contextlib.contextmanager
def _watch(reader: Any, streaming: bool, provide: Callable[[KafkaRead], DataFrame]) -> Iterator[None]:
    names = ("format", "schema", "option", "options", "load")
    before = {name: reader.__dict__[name] for name in names}

    def options_of(self: Any) -> _Given:
        return self.__dict__.setdefault(_GIVEN, _Given())  # type: ignore[no-any-return]

    def format(self: Any, source: str) -> Any:
        options_of(self).format = str(source)
        return before["format"](self, source)

    def schema(self: Any, schema: Any) -> Any:
        options_of(self).has_schema = True
        return before["schema"](self, schema)

    def option(self: Any, key: str, value: Any) -> Any:
        _put(options_of(self), key, value)
        return before["option"](self, key, value)

    def options(self: Any, **options: Any) -> Any:
        for key, value in options.items():
            _put(options_of(self), key, value)
        return before["options"](self, **options)

    def load(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        found = options_of(self)
        if found.format.lower() not in _NAMES:
            return before["load"](self, path)
        return provide(KafkaRead(self._spark, dict(found.options), streaming, found.has_schema))

    for method in (format, schema, option, options, load):
        setattr(reader, method.__name__, method)
    try:
        yield
    finally:
        for name in names:
            setattr(reader, name, before[name])


def _put(given: _Given, key: str, value: Any) -> None:
    """Keeps an option. The last spelling and the last value of a name count: Spark ignores case in names."""
    text = to_str(value)
    if text is None:
        return
    for known in [known for known in given.options if known.lower() == key.lower()]:
        del given.options[known]
    given.options[key] = text


_NOT_OF_A_PROJECT = ("stepwell", "pyspark", "py4j")


def calling_line(root: Path) -> Location | None:
    """The innermost line of a file of the project that is being executed now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if path.is_absolute() and path.is_relative_to(root) and package not in _NOT_OF_A_PROJECT:
            return Location(str(path.relative_to(root)), frame.f_lineno)
        frame = frame.f_back
    return None
