"""AUTO CDC: the query that turns a stream of changes into the table that they describe.

`dp.create_auto_cdc_flow` and `CREATE FLOW ... AS AUTO CDC INTO` name a stream of changes, the key columns, a sequence and, if they like, a
condition for deletes. Here they become an ordinary query over the changes. So the answer depends on the changes alone and not on the order in
which they arrive, and a change that is taken back is forgotten.

- SCD type 1 keeps, for every key, the change of the greatest sequence, unless it is a delete. It is the first row of each partition by
  row_number(), which the circuit keeps as a TopK.
- SCD type 2 keeps every version of a row, with the sequences from which (`__START_AT`) and up to which (`__END_AT`) it was in force. Consecutive
  changes of a key that agree in all tracked columns are one version, which shows the last of them.

Where changes with one key have one sequence, Spark leaves the answer open but decides between an update and a delete: under type 1 the update
counts, under type 2 the delete (apache/spark, Scd1BatchProcessor and Scd2BatchProcessor). The same holds here. Among others the whole row
decides, in canonical order, because that is how row_number() and lead() order rows that tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType, StructType

from base.text.type_names import quote_for_spark
from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.event_time import WATERMARK
from stepwell.catalyst.scala import scala_items
from stepwell.errors import Location, ProjectError, UnsupportedError, did_you_mean

START, END = "__START_AT", "__END_AT"
"""The columns that SCD type 2 adds, under Spark's names."""

RESERVED_PREFIX = "__spark_autocdc_"
"""Spark refuses changes that have columns of such names, and the columns in between have them here."""

_SEQUENCE, _DELETED, _RANK, _NEXT, _OPENS, _CLOSES, _END = (
    RESERVED_PREFIX + name for name in ("sequence", "deleted", "rank", "next", "opens", "closes", "end")
)

NOTES = {
    1: "AUTO CDC: if changes of one key have one sequence, an update goes before a delete, and of several updates the first in canonical "
    "order counts; Spark takes any",
    2: "AUTO CDC: if changes of one key have one sequence, a delete goes before an update, and of several updates the last in canonical "
    "order counts; Spark takes any",
}
"""What `dry-run` says, by the SCD type."""

Rows = Callable[[SparkSession], DataFrame]
Value = Callable[[SparkSession], Column]


@dataclass(frozen=True)
class ColumnChoice:
    """Some columns by name, or all except some."""

    names: tuple[str, ...]
    excluded: bool = False


@dataclass(frozen=True)
class AutoCdcQuery:
    """The content of `target`. `columns` are those that it has, and `tracked` those whose values tell versions apart (type 2). None means all of
    them. `sequence` and `deletes` read the columns of `source`."""

    target: str
    location: Location
    source: Rows
    keys: tuple[str, ...]
    sequence: Value
    deletes: Value | None
    scd_type: int
    columns: ColumnChoice | None = None
    tracked: ColumnChoice | None = None

    def check(self) -> None:
        """Raises ProjectError for what can be told without the changes."""
        if not self.keys:
            raise self._error("no key is named", "Name the columns that tell the rows of the table apart.")
        if self.tracked is not None and self.scd_type != 2:
            raise self._error(
                "history is tracked under SCD type 1, which keeps none",
                "Write STORED AS SCD TYPE 2 (stored_as_scd_type=2), or leave the tracked columns out.",
            )

    def __call__(self, spark: SparkSession) -> DataFrame:
        """Raises ProjectError if the columns of the changes do not fit, and Spark's AnalysisException for an expression."""
        changes = self.source(spark)
        names = changes.schema.names
        self._refuse_reserved(names)
        self._refuse_watermark(changes)
        keys = [self._column_named(key, names, "the key") for key in self.keys]
        kept = self._columns_of(self.columns, names)
        if lost := [key for key in keys if key not in kept]:
            raise self._error(f"the key {lost[0]} is not among the columns of the table", "A table needs its keys.")
        tracked = self._columns_of(self.tracked, [name for name in kept if name not in keys])
        sequence = self.sequence(spark)
        order = _parts(_SEQUENCE, changes.select(sequence.alias(_SEQUENCE)).schema[_SEQUENCE].dataType)
        deleted = self._is_delete(spark, sequence, keys)
        changes = changes.select("*", sequence.alias(_SEQUENCE), deleted.alias(_DELETED))
        if self.scd_type == 1:
            return _current(changes, keys, order).select(*map(_column, kept))
        return _history(changes, keys, order, tracked).select(*map(_column, (*kept, START, END)))

    def _is_delete(self, spark: SparkSession, sequence: Column, keys: Sequence[str]) -> Column:
        """Whether a change is a delete. Every change is asked this, so a change without a key or a sequence is noticed here."""

        def missing(what: str) -> Column:
            return F.raise_error(F.lit(f"AUTO CDC into {self.target}: a change has no {what}."))

        asked = F.when(sequence.isNull(), missing("sequence (SEQUENCE BY is null)"))
        for key in keys:
            asked = asked.when(_column(key).isNull(), missing(f"key ({key} is null)"))
        if self.deletes is not None:
            asked = asked.when(self.deletes(spark), F.lit(True))
        return asked.otherwise(F.lit(False))

    def _refuse_reserved(self, names: Sequence[str]) -> None:
        added = {START.lower(), END.lower()} if self.scd_type == 2 else set()
        for name in names:
            if name.lower() in added or name.lower().startswith(RESERVED_PREFIX):
                raise self._error(
                    f"the changes have a column {name}, which is a name of AUTO CDC's own",
                    "Read them through a temporary view that renames it or leaves it out.",
                )

    def _refuse_watermark(self, changes: DataFrame) -> None:
        """A watermark would be above the query's own functions OVER rows, of which the user knows nothing."""
        if WATERMARK in Analysed.read(changes._jdf.queryExecution().analyzed().toJSON()).kinds:
            raise self._error(
                "the changes are read with a watermark, which is not supported here",
                "Leave WATERMARK (withWatermark) out: the sequence decides which change is the last, and none comes too late.",
            )

    def _columns_of(self, choice: ColumnChoice | None, names: Sequence[str]) -> list[str]:
        """The columns of the choice, in the order of `names`."""
        if choice is None:
            return list(names)
        named = {self._column_named(name, names, "the column") for name in choice.names}
        return [name for name in names if (name in named) != choice.excluded]

    def _column_named(self, wanted: str, names: Sequence[str], what: str) -> str:
        """The column `wanted`, as it is spelled in `names`. Spark ignores case in names."""
        found = next((name for name in names if name.lower() == wanted.lower()), None)
        if found is None:
            raise self._error(f"{what} {wanted} is not there", did_you_mean(wanted, names, "columns"))
        return found

    def _error(self, message: str, what_to_do: str) -> ProjectError:
        return ProjectError(f"AUTO CDC: {message}", what_to_do, view=self.target, location=self.location)


def _current(changes: DataFrame, keys: Sequence[str], order: Sequence[Column]) -> DataFrame:
    """SCD type 1: the last change of every key, if it is no delete."""
    last = Window.partitionBy(*map(_column, keys)).orderBy(*(part.desc() for part in order), F.col(_DELETED).asc())
    ranked = changes.withColumn(_RANK, F.row_number().over(last))
    return ranked.where((F.col(_RANK) == 1) & ~F.col(_DELETED))


def _history(changes: DataFrame, keys: Sequence[str], order: Sequence[Column], tracked: Sequence[str]) -> DataFrame:
    """SCD type 2: the last change of every version, with the columns `START` and `END`.

    A change opens a version if it does not go on with that of the change before it, and closes one if the next change does not go on with it.
    What is between is left out, so that the change before a closing one is the one that opened the version."""
    by_key = Window.partitionBy(*map(_column, keys))
    in_time = by_key.orderBy(*(part.asc() for part in order))
    last_of_instant = by_key.orderBy(*(part.asc() for part in order), F.col(_DELETED).asc())
    sequence, deleted, following = F.col(_SEQUENCE), F.col(_DELETED), F.col(_NEXT)
    instants = changes.withColumn(_NEXT, F.lead(sequence).over(last_of_instant)).where(~sequence.eqNullSafe(following))

    def agrees(neighbour: Callable[[Column], Column]) -> Column:
        """Whether the neighbour is an update too, with the same tracked values."""
        same = (_column(name).eqNullSafe(neighbour(_column(name)).over(in_time)) for name in tracked)
        return reduce(Column.__and__, same, neighbour(deleted).over(in_time).eqNullSafe(F.lit(False)))

    versions = instants.select(
        *map(_column, changes.columns),
        (~deleted & ~agrees(F.lag)).alias(_OPENS),
        (~deleted & ~agrees(F.lead)).alias(_CLOSES),
        F.lead(sequence).over(in_time).alias(_END),
    )
    ends = versions.where(F.col(_OPENS) | F.col(_CLOSES))
    opened = F.when(F.col(_OPENS), sequence).otherwise(F.lag(sequence).over(in_time))
    return ends.withColumn(START, opened).withColumn(END, F.col(_END)).where(F.col(_CLOSES))


def _column(name: str) -> Column:
    """The column of exactly this name, which may have dots and backticks."""
    return F.col(quote_for_spark(name))


def _parts(name: str, data_type: DataType) -> list[Column]:
    """The values by which rows are ordered as by this column. A struct has the order of its fields."""
    return list(_fields(F.col(name), data_type))


def _fields(value: Column, data_type: DataType) -> Iterator[Column]:
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _fields(value.getField(field.name), field.dataType)
    else:
        yield value


# What users write, in Python


def read_table(name: str) -> Rows:
    return lambda spark: spark.readStream.table(name)


def value_of(column: Column, what: str, location: Location, target: str) -> Value:
    """The value that a parameter gives. PySpark makes a column of Spark Connect of a text, which a session without Connect cannot read."""
    text = _connect_text(column)
    if isinstance(text, _Name):
        return lambda spark: F.col(text)
    if text is not None:
        return lambda spark: F.expr(text)
    if not isinstance(column, ClassicColumn):
        raise UnsupportedError(
            f"{what} is a column of Spark Connect, {column}",
            "Write it as a text, or with the functions of pyspark.sql.functions.",
            view=target,
            location=location,
        )
    return lambda spark: column


def names_of(
    columns: Iterable[Column] | None, what: str, spark: SparkSession, location: Location, target: str
) -> tuple[str, ...]:
    """The names of the columns of a list. Raises ProjectError for anything that is not the name of one column."""
    found = []
    for column in columns or ():
        parts = _name_parts(column, spark)
        if len(parts) != 1:
            raise ProjectError(
                f"{what} has {_connect_text(column) or column}, which is not the name of a column",
                "Write the names alone, without tables and without expressions; `a.b` in backticks is one name.",
                view=target,
                location=location,
            )
        found.append(parts[0])
    return tuple(found)


class _Name(str):
    """The text of a reference to a column, as opposed to that of an expression."""


def _connect_text(column: Column) -> str | None:
    """The text of which PySpark made a column of Spark Connect: a ColumnReference or an SQLExpression. None if the column is neither."""
    if isinstance(column, ClassicColumn):
        return None
    inner: Any = vars(column)["_expr"]
    if (name := getattr(inner, "_unparsed_identifier", None)) is not None:
        return _Name(name)
    text = getattr(inner, "_expr", None)
    return text if isinstance(text, str) else None


def _name_parts(column: Column, spark: SparkSession) -> tuple[str, ...]:
    """The parts of a column's name. Empty if it is an expression."""
    text = _connect_text(column)
    if isinstance(column, ClassicColumn):
        node = column._jc.node()
        kind = node.getClass().getSimpleName()
        if kind == "UnresolvedAttribute":
            return tuple(map(str, scala_items(node.nameParts())))
        text = node.expression() if kind == "SqlExpression" else None
    if text is None:
        return ()
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        return tuple(map(str, scala_items(parser.parseMultipartIdentifier(text))))
    except PySparkException:
        return ()


# What users write, in SQL


def java_column(expression: Any, spark: SparkSession) -> Column:
    """The column of one of the JVM's expressions."""
    jvm: Any = spark._jvm
    return ClassicColumn(getattr(jvm, "org.apache.spark.sql.classic.ExpressionUtils").column(expression))
