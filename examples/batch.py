"""Spark's batch answer: the same project, evaluated by Spark over the whole input. It decides what is right.

Nothing here shares code with the engine. Spark's from_json parses the messages, Spark's window functions reduce an upsert topic to a
table, and the views are the project's own DataFrames. A difference from this answer is a defect of ours.

Sums of doubles are compared within a relative error of 1e-12, because Spark's sum depends on how it splits its input. Everything
else is compared exactly.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, YearMonthIntervalType

from base.text.type_names import quote_for_spark
from stepwell.planning.plans import ResolvedProject, ResolvedView
from stepwell.project.definitions import active, load_definitions, quiet_spark
from stepwell.project.elements import Definitions, SqlQuery
from stepwell.project.kafka_reader import KafkaRead, kafka_reads
from stepwell.project.tables import SourceSpec
from stepwell.project.text_types import declared_type, fit_frame

RELATIVE_ERROR_MAX = 1e-12
"""The allowed difference between Spark's sum of doubles, which is rounded at every addition, and ours, which is rounded once."""


class TopicMessage(NamedTuple):
    """A message as a consumer receives it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    timestamp_type: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A view's output compared with the batch answer. `duplicates`: the number of rows that are there too often. `lost`: the number of
    rows that are missing. `examples`: some of them, as text."""

    view: str
    rows: int
    duplicates: int
    lost: int
    examples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.duplicates and not self.lost


def batch_answer(
    resolved: ResolvedProject,
    inputs: Mapping[str, Sequence[TopicMessage]],
    errors: dict[str, Exception] | None = None,
    of_views: Mapping[str, Mapping[str, Sequence[TopicMessage]]] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, DataFrame]:
    """The content of every view, by name. `inputs`: all messages of every topic that a source reads. If Spark raises for a view, that ends the
    evaluation; with `errors` the view and all views over it are left out, and what was raised is put there. `of_views`: the messages for views
    that count others than `inputs`; only tables that a declaration makes of messages can differ so. `only`: some of the views, with all that
    they read."""
    if only is not None:
        resolved = replace(resolved, views=tuple(view for view in resolved.views if view.name in only))
    with quiet_spark(), kafka_reads(lambda read: _records(read, inputs)):
        definitions = load_definitions(resolved.project, resolved.spark)
        spark = definitions.spark
        with active(spark), _streams_as_tables():
            _show_sources(spark, resolved, inputs)
            return _views(spark, resolved, definitions, errors, (inputs, of_views or {}))


def _show_sources(spark: SparkSession, resolved: ResolvedProject, inputs: Mapping[str, Sequence[TopicMessage]]) -> None:
    """What views read from here on."""
    for source in resolved.sources:
        if source.format in ("record", "table"):  # the definitions read it by themselves
            continue
        (topic,) = source.topics
        table = _as_stored(source_table(spark, source, inputs.get(topic, ())), source.schema)
        if source.mode != "append":  # there the parsed messages are kept already (_parsed), and each is a row
            # Many views read it, so it is computed once: by the first of them, because a job of its own would cost more than its rows.
            table = table.localCheckpoint(eager=False)
        table.createOrReplaceTempView(quote_for_spark(source.handle))


def _views(
    spark: SparkSession,
    resolved: ResolvedProject,
    definitions: Definitions,
    errors: dict[str, Exception] | None,
    counted: tuple[Mapping[str, Sequence[TopicMessage]], Mapping[str, Mapping[str, Sequence[TopicMessage]]]],
) -> dict[str, DataFrame]:
    """`counted`: the messages of all views, and of those that count others."""
    answers: dict[str, DataFrame] = {}
    inputs, of_views = counted
    waiting = [output.name for output in definitions.outputs if output.kind == "temporary_view"]
    read = {name for view in resolved.views for name in view.reads}
    for view in resolved.views:
        if view.name in of_views:
            _show_sources(spark, resolved, of_views[view.name])
        waiting = _show_temporary_views(spark, definitions, waiting)
        names = [quote_for_spark(name) for name in view.schema.names]
        parts = [flow.query(spark).selectExpr(*names) for flow in definitions.flows_of(view.name)]
        if view.kind != "sink":
            parts = [_as_stored(part, view.schema) for part in parts]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        try:
            # Without `errors` whoever reads the answer evaluates it, and is told of an error. A view that others read is evaluated once.
            if errors is not None or view.name in read:
                whole = whole.localCheckpoint(eager=errors is not None)
            content = answers[view.name] = whole
        except (PySparkException, Py4JJavaError) as error:
            if errors is None:
                raise
            errors[view.name] = error
            content = _without_answer(spark, view)
        if view.kind != "sink":
            content.createOrReplaceTempView(quote_for_spark(view.name))
        if view.name in of_views:
            _show_sources(spark, resolved, inputs)
    return answers


def _without_answer(spark: SparkSession, view: ResolvedView) -> DataFrame:
    """A frame like the view, which raises whatever is read of it."""
    row = spark.range(1).where(F.raise_error(F.lit(f"{view.name} has no answer")).isNull())
    return row.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in view.schema.fields))


def _as_stored(frame: DataFrame, schema: StructType) -> DataFrame:
    """The rows as a table stores them: Spark pads and checks what it writes into CHAR and VARCHAR columns."""
    declared = {field.name: type_ for field in schema.fields if (type_ := declared_type(field))}
    return fit_frame(frame, declared) if declared else frame


def _show_temporary_views(spark: SparkSession, definitions: Definitions, waiting: list[str]) -> list[str]:
    """Registers the views whose inputs all exist, and returns the others."""
    left = waiting
    while True:
        before, left = left, []
        for name in before:
            try:
                definitions.flows_of(name)[0].query(spark).createOrReplaceTempView(quote_for_spark(name))
            except AnalysisException as error:
                if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
                    raise
                left.append(name)
        if len(left) == len(before):
            return left


@contextlib.contextmanager
def _streams_as_tables() -> Iterator[None]:
    """In a batch, a stream is its table: `spark.readStream` and `STREAM(t)` read the rows that are there."""
    read_stream, statement_parse = SparkSession.readStream, SqlQuery.parse

    def parse(self: SqlQuery, spark: SparkSession) -> Any:
        plain = re.sub(r"\bSTREAM\s*\(\s*([\w.`]+)\s*\)", r"\1", self.statement, flags=re.IGNORECASE)
        plain = re.sub(r"\bFROM\s+STREAM\s+(?=[\w`])", "FROM ", plain, flags=re.IGNORECASE)
        return self.select(spark._jsparkSession.sessionState().sqlParser().parsePlan(plain))

    SparkSession.readStream, SqlQuery.parse = property(lambda self: self.read), parse  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        SparkSession.readStream, SqlQuery.parse = read_stream, statement_parse  # type: ignore[method-assign]


# Sources

_RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def _records(read: KafkaRead, inputs: Mapping[str, Sequence[TopicMessage]]) -> DataFrame:
    """What Spark's own Kafka source gives for these options, if it reads `inputs` from the offsets that they name. A start by word is the
    earliest."""
    options = {name.lower(): value for name, value in read.options.items()}
    start = options.get("startingoffsets", "")
    begins = json.loads(start) if start.startswith("{") else {}
    chosen = options.get("subscribe", "").split(",")
    if "assign" in options:
        chosen = list(json.loads(options["assign"]))
    if "subscribepattern" in options:
        chosen = [topic for topic in inputs if re.fullmatch(options["subscribepattern"], topic)]
    below = {topic.strip(): inputs.get(topic.strip(), ()) for topic in chosen}
    frame = _frame(read.spark, below)
    for topic, places in json.loads(options.get("assign", "{}")).items():
        frame = frame.filter((F.col("topic") != topic) | F.col("partition").isin(places))
    for topic, places in begins.items():
        for partition, offset in places.items():
            frame = frame.filter(f"topic != '{topic}' OR partition != {partition} OR offset >= {offset}")
    with_headers = options.get("includeheaders", "false").lower() == "true"
    frame = frame.localCheckpoint(eager=False)
    return frame if with_headers else frame.drop("headers")


def _frame(spark: SparkSession, messages: Mapping[str, Sequence[TopicMessage]]) -> DataFrame:
    """The messages of some topics as Spark's Kafka source has them."""
    found = []
    for topic, those in messages.items():
        for m in those:
            headers = [{"key": key, "value": value} for key, value in m.headers] or None
            row = (m.key, m.value, topic, m.partition, m.offset, m.timestamp, m.timestamp_type, headers)
            found.append(dict(zip(_RECORDS.names, row, strict=True)))
    return spark.createDataFrame(pa.Table.from_pylist(found, _RECORDS))


_CORRUPT = "_stepwell_corrupt"

# What follows is in Spark's SQL as text, for a Column of PySpark's costs a dozen calls of the JVM, and most tests compare.


def source_table(spark: SparkSession, source: SourceSpec, messages: Sequence[TopicMessage]) -> DataFrame:
    """The table that a source's messages represent, as Spark reads them. Malformed messages are left out."""
    frame = _frame(spark, {source.topics[0]: messages}).selectExpr(
        "*", "CAST(value AS STRING) AS text", "CAST(key AS STRING) AS name"
    )
    if source.mode == "changelog":
        return _changelog(frame, source)
    rows = _parsed(frame, source)
    return rows.selectExpr(*_columns(source)) if source.mode == "append" else _last(rows, source)


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(f.name, f.dataType) for f in schema.fields])


def _literal(text: str) -> str:
    """As Spark's parser reads it: a quote or a backslash in it is escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _column(source: SourceSpec, name: str) -> str:
    """A column of a message that has the column `row`: of the row, or of the record. A message without a row has none of both."""
    if of_record := dict(source.metadata).get(name):
        return f"IF(row IS NULL, NULL, {of_record})"
    return f"row.{quote_for_spark(name)}"


def _columns(source: SourceSpec) -> list[str]:
    return [f"{_column(source, field.name)} AS {quote_for_spark(field.name)}" for field in source.schema.fields]


def _parsed(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """The messages with a column `row`, which is null for a tombstone. Messages are left out if from_json refuses them, or if a NOT NULL
    column is null."""
    schema = _nullable(source.schema).add(_CORRUPT, StringType())
    parsed = F.from_json("text", schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    # Checkpointed, because the optimiser would parse the text once for every column that is used.
    frame = frame.withColumn("row", parsed).localCheckpoint(eager=False)
    of_record = dict(source.metadata)
    required = [f.name for f in source.schema.fields if not f.nullable and f.name not in of_record]
    there = [f"row.{quote_for_spark(name)} IS NOT NULL" for name in required]
    good = " AND ".join(["text IS NOT NULL", "trim(text) != ''", f"row.{_CORRUPT} IS NULL", *there])
    return frame.filter(f"({good}) OR text IS NULL" if source.mode == "upsert" else good)


def _keys_of(source: SourceSpec) -> list[str]:
    """The key columns as key_0, ... , from the message's key (an object or a bare value), or else from the row."""
    keys: list[str] = []
    for index, name in enumerate(source.key):
        inside, wrapped = (f"get_json_object(name, {_literal(path)})" for path in (f"$.{name}", f"$.payload.{name}"))
        bare = "get_json_object(concat('{\"k\":', name, '}'), '$.k')" if len(source.key) == 1 else "NULL"
        text = f"coalesce({wrapped}, {inside}, {bare}, name)"
        kind = source.schema[name].dataType.simpleString()
        keys.append(f"coalesce(CAST({text} AS {kind}), {_column(source, name)}) AS key_{index}")
    return keys


def _last(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """The last message of every key, without the keys whose last message is a deletion. A deletion that an update of another key implies counts
    in the partition of the key's own messages alone."""
    keys = ", ".join(f"key_{i}" for i in range(len(source.key)))
    messages = frame.selectExpr("*", *_keys_of(source))
    if "implied" in frame.columns:
        home = f"max(IF(implied, NULL, partition)) OVER (PARTITION BY {keys}) AS home"
        messages = messages.selectExpr("*", home).filter("NOT implied OR partition = home")
    rank = f"row_number() OVER (PARTITION BY {keys} ORDER BY partition DESC, offset DESC) AS rank"
    ranked = messages.selectExpr("*", rank)
    return ranked.filter("rank = 1 AND row IS NOT NULL").selectExpr(*_columns(source))


def _changelog(frame: DataFrame, source: SourceSpec) -> DataFrame:
    row = _nullable(source.schema)
    envelope = StructType([StructField("before", row), StructField("after", row), StructField("op", StringType())])
    wrapped = StructType([StructField("payload", envelope)])
    frame = frame.withColumns(
        {"plain_change": F.from_json("text", envelope), "wrapped_change": F.from_json("text", wrapped)}
    )
    is_wrapped = "get_json_object(text, '$.payload') IS NOT NULL"
    frame = frame.selectExpr("*", f"IF({is_wrapped}, wrapped_change.payload, plain_change) AS change")
    # A tombstone has no change. So it deletes as `d` does where there is a key, and says nothing where there is none.
    if source.key:
        name = "coalesce(name, to_json(change.before)) AS name"
        row_now = "IF(change.op != 'd', change.after, NULL) AS row"
        messages = frame.selectExpr(*_RECORDS.names, name, row_now, "false AS implied")
        return _last(messages.unionAll(_implied_deletions(frame, source, row)), source)
    came = frame.filter("change.after IS NOT NULL").selectExpr("change.after.*")
    gone = frame.filter("change.before IS NOT NULL AND change.op IN ('u', 'd')").selectExpr("change.before.*")
    if not any("map<" in field.dataType.simpleString() for field in source.schema.fields):
        return came.exceptAll(gone)
    # Spark subtracts no rows with maps, so their texts stand for them.
    left, right = (_numbered(rows) for rows in (came, gone))
    return left.join(right, ["_text", "_number"], "left_anti").drop("_text", "_number")


def _implied_deletions(frame: DataFrame, source: SourceSpec, row: StructType) -> DataFrame:
    """The deletion of the former row by each update that changes the key."""
    keys = [quote_for_spark(name) for name in source.key]
    known = [f"change.before.{key} IS NOT NULL" for key in keys]
    differs = " OR ".join(f"NOT change.before.{key} <=> change.after.{key}" for key in keys)
    moved = frame.filter(" AND ".join(["change.op = 'u'", "change.after IS NOT NULL", *known, f"({differs})"]))
    gone = f"CAST(NULL AS {row.simpleString()}) AS row"
    return moved.selectExpr(*_RECORDS.names, "to_json(change.before) AS name", gone, "true AS implied")


def _numbered(rows: DataFrame) -> DataFrame:
    """With the text of each row, and its number among the rows of the same text."""
    text = rows.selectExpr("*", "to_json(struct(*), map('ignoreNullFields', 'false')) AS _text")
    return text.selectExpr("*", "row_number() OVER (PARTITION BY _text ORDER BY 0) AS _number")


# Comparison


def published(spark: SparkSession, view: ResolvedView, messages: Sequence[TopicMessage]) -> DataFrame:
    """The content that an output topic's messages represent."""
    assert view.output is not None
    if view.output.mode == "changelog":
        return _sum_of_changes(spark, view, messages)
    values = messages
    if view.output.mode == "upsert":
        latest = {m.key: m for m in sorted(messages, key=lambda m: (m.partition, m.offset))}
        values = [m for m in latest.values() if m.value is not None]
    return _rows(spark, view, [m.value for m in values])


def _rows(spark: SparkSession, view: ResolvedView, values: Sequence[bytes | None]) -> DataFrame:
    texts = pa.array([v.decode() for v in values if v is not None], pa.string())
    # From an Arrow table, which Spark parses while it plans: no job is needed.
    frame = spark.createDataFrame(pa.table({"text": texts}))
    row = F.from_json("text", _nullable(view.schema), {"mode": "FAILFAST"}).alias("row")
    return frame.select(row).selectExpr("row.*")


def _sum_of_changes(spark: SparkSession, view: ResolvedView, messages: Sequence[TopicMessage]) -> DataFrame:
    weights: Counter[str] = Counter()
    for message in messages:
        assert message.value is not None
        change = json.loads(message.value, parse_float=_Literal, parse_int=_Literal)
        for image, weight in ((change["before"], -1), (change["after"], 1)):
            if image is not None:
                weights[_dump(image)] += weight
    return _rows(spark, view, [text.encode() for text, weight in weights.items() for _ in range(weight)])


class _Literal(str):
    """A number exactly as it was written."""


def _dump(value: Any) -> str:
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def compare(view: str, found: DataFrame, expected: DataFrame) -> Comparison:
    """Compares two contents as multisets of rows."""
    left, right = _bag(found), _bag(expected)
    extra: list[str] = []
    missing: list[str] = []
    for exact in left.keys() | right.keys():
        have, want = left.get(exact, []), right.get(exact, [])
        unmatched = _unmatched(have, want)
        extra += [f"extra {exact} {row}" for row in unmatched[0]]
        missing += [f"missing {exact} {row}" for row in unmatched[1]]
    rows = sum(len(rows) for rows in left.values())
    return Comparison(view, rows, len(extra), len(missing), tuple(extra[:3] + missing[:3]))


Inexact = tuple[float | None, ...]


def _bag(frame: DataFrame) -> dict[str, list[Inexact]]:
    """Groups the rows by their exact values; each group holds the doubles and floats of its rows."""
    types = [f.dataType.typeName() for f in frame.schema.fields]
    inexact = [i for i, name in enumerate(types) if name in ("double", "float")]
    bag: defaultdict[str, list[Inexact]] = defaultdict(list)
    # PySpark cannot collect year-month intervals.
    months = {f.name for f in frame.schema.fields if isinstance(f.dataType, YearMonthIntervalType)}
    if months:
        texts = (f"CAST({quote_for_spark(n)} AS STRING)" if n in months else quote_for_spark(n) for n in frame.columns)
        frame = frame.selectExpr(*texts)
    for row in frame.collect():
        exact = repr(tuple(value for i, value in enumerate(row) if i not in inexact))
        bag[exact].append(tuple(row[i] for i in inexact))
    return {exact: sorted(rows, key=_order) for exact, rows in bag.items()}


def _order(row: Inexact) -> tuple[tuple[int, float], ...]:
    return tuple((0, 0.0) if v is None else (2, 0.0) if math.isnan(v) else (1, v) for v in row)


def _unmatched(have: list[Inexact], want: list[Inexact]) -> tuple[list[Inexact], list[Inexact]]:
    if len(have) == len(want) and all(_close(a, b) for a, b in zip(have, want, strict=True)):
        return [], []
    rest = list(want)
    extra = []
    for row in have:
        match = next((i for i, other in enumerate(rest) if _close(row, other)), None)
        if match is None:
            extra.append(row)
        else:
            rest.pop(match)
    return extra, rest


def _close(left: Inexact, right: Inexact) -> bool:
    return all(
        (a is None and b is None)
        or (
            a is not None
            and b is not None
            and (a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=RELATIVE_ERROR_MAX))
        )
        for a, b in zip(left, right, strict=True)
    )
