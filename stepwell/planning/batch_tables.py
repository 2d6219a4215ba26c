"""The tables that definitions read from outside of the project: files, and tables of Spark's catalogs.

Guarantees: each such leaf of an analysed plan is a source of the pipeline, which is read once, or an error that names view, file and line. Two
leaves are one source if they read the same table or files, with the same options and columns. The optimiser cannot look into these leaves: it
would move filters and columns into some of them, and the source holds the whole table.

How it works: Spark itself resolves what is read, in every spelling (`spark.read`, `spark.table`, SQL, a path in SQL), so a definition may also
collect rows while it is loaded. Before a plan is optimised, each of its tables is named as data to be cached. Spark then puts the same opaque
leaf in its place, wherever it occurs, also in subqueries. Nothing is cached, because the plan is never run. A leaf of a stream is opaque.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import xxhash
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from base.text.variants import has_variants
from coordinator.topic_names import table_topic_of
from stepwell.catalyst.scala import scala_items
from stepwell.catalyst.types import UnsupportedType, arrow_schema
from stepwell.errors import Location, ProjectError, UnsupportedError
from stepwell.planning.leaves import leaves_of
from stepwell.project import refusals
from stepwell.project.tables import SourceSpec, check_names
from stepwell.spark.session import connection_lost
from stepwell.spark.table_rows import rows_of

BATCH_KINDS = ("LogicalRelation", "DataSourceV2Relation", "HiveTableRelation")
STREAM_KINDS = ("StreamingRelation", "StreamingRelationV2")
_OWN_OPTIONS = ("path", "paths")
_STORAGE_PREFIX = "fs."
"""Options of a file system are about how it is reached, and may be secrets that change. They are no part of what is read."""

_METADATA = "__metadata_col"
"""What Spark notes with a column about the file or the row, such as _metadata, and that a table does not have by itself."""

PATHS_SHOWN_MAX = 2
"""A handle shows so many paths, and the number of the others."""

_FILE = re.compile(r"path=(.*?); isDirectory=\w+; length=(\d+);.*?modification_time=(\d+)")
"""How Hadoop describes a file. It also has the time when the file was last read, which does not count."""

READ_ONCE = "is read once, when the pipeline gets it; `stepwell apply --reload` reads it again"

_FROM_OUTSIDE = "Write its rows to files (parquet, orc, json, csv or text) or to a table of Spark's catalog, or send them to a topic."


@dataclass(frozen=True)
class BatchTable:
    """A batch table as Spark reads it. `dataset` is the JVM's DataFrame over the whole table. `view` is one that reads it."""

    spec: SourceSpec
    dataset: Any
    view: str


@dataclass(frozen=True)
class TableLeaves:
    """The tables in one analysed plan. `handles`: by the expression id of a leaf's first column."""

    handles: Mapping[int, str] = field(default_factory=dict)
    to_hide: tuple[Any, ...] = ()

    def optimised_plan(self, analysed: Any, optimise: Callable[[], Any], spark: SparkSession) -> Any:
        """The optimised plan, in which the tables are opaque. `optimise` is the usual way, for a plan that has none to hide."""
        if not self.to_hide:
            return optimise()
        java: Any = spark._jsparkSession
        manager = java.sharedState().cacheManager()
        try:
            for dataset in self.to_hide:
                dataset.cache()
            hidden = manager.useCachedData(analysed, getattr(manager, "useCachedData$default$2")())
            return java.sessionState().optimizer().execute(hidden.clone())
        finally:
            for dataset in self.to_hide:
                dataset.unpersist()


class BatchTables:
    """The tables of one project. `found` has those that were met so far, by handle."""

    def __init__(self, pipeline: str, spark: SparkSession) -> None:
        self._pipeline, self._spark = pipeline, spark
        self.found: dict[str, BatchTable] = {}

    def in_plan(self, analysed: Any, view: str, location: Location, *, streaming: bool) -> TableLeaves:
        """Raises ProjectError for a leaf that no reader of Spark can read once, and for a stream in a flow that is not `streaming`."""
        handles: dict[int, str] = {}
        to_hide: list[Any] = []
        for leaf in leaves_of(analysed):
            kind = leaf.getClass().getSimpleName()
            if kind not in (*BATCH_KINDS, *STREAM_KINDS):
                continue
            if kind in STREAM_KINDS and not streaming:
                raise ProjectError(
                    "files or a table are read as a stream, and this is not a streaming flow",
                    "Write spark.read, or FROM without STREAM; or make this a streaming table (@dp.table).",
                    view=view,
                    location=location,
                )
            source = leaf if kind in BATCH_KINDS else self._as_batch(leaf, view, location)
            table = self._table(source, view, location)
            handles[leaf.output().head().exprId().id()] = table.spec.handle
            if kind in BATCH_KINDS:
                to_hide.append(self._dataset(leaf))
        return TableLeaves(handles, tuple(to_hide))

    def _table(self, leaf: Any, view: str, location: Location) -> BatchTable:
        schema = _schema_of(leaf)
        handle, what = _identity(leaf, schema, view, location)
        if not schema.fields:
            raise ProjectError(
                f"{what} has no columns",
                "Correct the files, or give the reader the columns: .schema(...).",
                view=view,
                location=location,
            )
        if handle not in self.found:
            _check_schema(schema, handle, view, location)
            spec = SourceSpec(
                handle=handle,
                topics=(table_topic_of(self._pipeline, _digest(handle)),),
                mode="append",
                key=(),
                schema=schema,
                starting_offsets="earliest",
                on_error="fail",
                dead_letter_topic=None,
                location=location,
                format="table",
                files=_digest_of_files(leaf),
                notes=(f"{what} {READ_ONCE}",),
            )
            self.found[handle] = BatchTable(spec, self._dataset(leaf), view)
        return self.found[handle]

    def _dataset(self, leaf: Any) -> Any:
        classic: Any = self._spark._jvm
        return getattr(classic, "org.apache.spark.sql.classic.Dataset").ofRows(self._spark._jsparkSession, leaf)

    def _as_batch(self, leaf: Any, view: str, location: Location) -> Any:
        """The leaf that reads the same in a batch. Raises UnsupportedError for a stream that is neither files nor a table."""
        java: Any = self._spark._jsparkSession
        try:
            if leaf.getClass().getSimpleName() == "StreamingRelationV2":
                name = ".".join(f"`{part}`" for part in _name_of_v2(leaf))
                if not name:
                    raise ValueError("it is no table of a catalog")
                (found,) = leaves_of(java.table(name).queryExecution().analyzed())
            else:
                table = leaf.dataSource().catalogTable()
                if table.isDefined():
                    (found,) = leaves_of(
                        java.table(table.get().identifier().quotedString()).queryExecution().analyzed()
                    )
                else:
                    reader = java.read().format(leaf.dataSource().className()).options(leaf.dataSource().options())
                    given = leaf.dataSource().userSpecifiedSchema()
                    reader = reader.schema(given.get()) if given.isDefined() else reader
                    (found,) = leaves_of(reader.load().queryExecution().analyzed())
        except (PySparkException, Py4JError, ValueError) as error:
            if connection_lost(error):
                raise
            raise UnsupportedError(
                f"the query reads a stream that Stepwell does not read ({leaf.sourceName()}): {refusals.first_line(error)}",
                'A stream is a topic (format("kafka")), files, or a table.',
                view=view,
                location=location,
            ) from None
        if more := _metadata_in(_schema_of(leaf)) - set(_names(found)):
            raise UnsupportedError(
                f"the query reads {', '.join(sorted(more))} of a stream of files or of a table",
                "Leave the column out, or read the files or the table in a materialized view, without STREAM.",
                view=view,
                location=location,
            )
        if _names(found) != _names(leaf):
            raise UnsupportedError(
                f"the stream has the columns {', '.join(_names(leaf))}, and a batch of it {', '.join(_names(found))}",
                "Give the reader the schema of the files: .schema(...).",
                view=view,
                location=location,
            )
        return found


def rows_reader(tables: Mapping[str, BatchTable]) -> Callable[[str], Iterator[pa.RecordBatch]]:
    """What reads the rows of a table, by its handle. It raises ProjectError, with view, file and line, for what Spark cannot read."""

    def read(handle: str) -> Iterator[pa.RecordBatch]:
        table = tables[handle]
        try:
            yield from rows_of(table.dataset, table.spec.schema)
        except Exception as error:
            if connection_lost(error) or not isinstance(error, PySparkException | Py4JError):
                raise
            raise ProjectError(
                f"{handle} cannot be read: {refusals.first_line(error)}",
                "Nothing of the table counts yet. Correct the files or the reader's options, and try again.",
                view=table.view,
                location=table.spec.location,
            ) from None

    return read


def _identity(leaf: Any, schema: StructType, view: str, location: Location) -> tuple[str, str]:
    """(handle, what is read, for users). The handle has a hash of what is not shown in it."""
    kind = leaf.getClass().getSimpleName()
    if kind == "LogicalRelation":
        relation, table = leaf.relation(), leaf.catalogTable()
        if relation.getClass().getSimpleName() != "HadoopFsRelation":
            raise _not_read(relation.getClass().getSimpleName(), view, location)
        options = _options(relation.options())
        if not table.isDefined():
            return _of_files(relation, options, schema)
        known = _options(table.get().storage().properties())
        others = {k: v for k, v in options.items() if known.get(k) != v}
        return _of_table(table.get().identifier().unquotedString(), others, schema)
    if kind == "HiveTableRelation":
        return _of_table(leaf.tableMeta().identifier().unquotedString(), {}, schema)
    name = _name_of_v2(leaf)
    if not name:
        raise _not_read(str(leaf.table().name()), view, location)
    options = {str(key): str(value) for key, value in leaf.options().asCaseSensitiveMap().items()}
    with contextlib.suppress(Py4JError):  # not every release has it
        if leaf.timeTravelSpec().isDefined():
            options["as of"] = leaf.timeTravelSpec().get().toString()
    return _of_table(".".join(name), options, schema)


def _of_files(relation: Any, options: Mapping[str, str], schema: StructType) -> tuple[str, str]:
    paths = sorted(str(path.toString()) for path in scala_items(relation.location().rootPaths()))
    format = str(relation.fileFormat().toString()).lower()
    shown = ", ".join(paths[:PATHS_SHOWN_MAX])
    more = f" and {len(paths) - PATHS_SHOWN_MAX} more" if len(paths) > PATHS_SHOWN_MAX else ""
    digest = _digest(json.dumps([paths, sorted(options.items()), schema.jsonValue()]))
    what = f"{format} {shown}{more}"
    return f"{what} #{digest[:8]}", what


def _digest_of_files(leaf: Any) -> str:
    """Returns a digest of the paths, sizes and times of the files, which Spark has listed already; nothing is read. It is empty for a table
    whose files Spark lists later, or which another system has."""
    try:
        listed = str(leaf.relation().location().allFiles().mkString("\n")).splitlines()
    except Py4JError as error:
        if connection_lost(error):
            raise
        return ""
    found = [_FILE.search(line) for line in listed]
    return _digest(json.dumps(sorted(each.groups() for each in found if each is not None))) if all(found) else ""


def _of_table(name: str, options: Mapping[str, str], schema: StructType) -> tuple[str, str]:
    """A table that is read with columns of metadata is another source than the same one without them."""
    what, metadata = f"table {name}", sorted(_metadata_in(schema))
    hidden: Any = [sorted(options.items()), metadata] if metadata else sorted(options.items())
    return f"{what} #{_digest(json.dumps(hidden))[:8]}" if options or metadata else what, what


def _metadata_in(schema: StructType) -> set[str]:
    return {column.name for column in schema.fields if _METADATA in column.metadata}


def _schema_of(leaf: Any) -> StructType:
    return StructType.fromJson(json.loads(leaf.schema().json()))


def _digest(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode())


def _not_read(what: str, view: str, location: Location) -> UnsupportedError:
    return UnsupportedError(
        f"the query reads a source that Stepwell does not read ({what})", _FROM_OUTSIDE, view=view, location=location
    )


def _check_schema(schema: StructType, handle: str, view: str, location: Location) -> None:
    check_names(schema, view, location)
    for column in schema.fields:
        try:
            (made,) = arrow_schema(StructType([column]))
            if has_variants(made.type):
                raise UnsupportedType("VARIANT")
            to_arrow_schema(StructType([column]), timezone="UTC")
        except (UnsupportedType, PySparkTypeError) as error:
            name = error.name if isinstance(error, UnsupportedType) else column.dataType.simpleString().upper()
            raise UnsupportedError(
                f"column {column.name} of {handle} has the type {name}, which is not supported in a table that is read once",
                "Write the table with another type, or give the reader a schema without the column: .schema(...).",
                view=view,
                location=location,
            ) from None


def _name_of_v2(leaf: Any) -> tuple[str, ...]:
    """Catalog, namespace and name; empty if it is no table of a catalog."""
    catalog, identifier = leaf.catalog(), leaf.identifier()
    if not (catalog.isDefined() and identifier.isDefined()):
        return ()
    found = identifier.get()
    return str(catalog.get().name()), *map(str, found.namespace()), str(found.name())


def _options(options: Any) -> dict[str, str]:
    found = {str(entry._1()): str(entry._2()) for entry in scala_items(options)}
    return {k: v for k, v in found.items() if k.lower() not in _OWN_OPTIONS and not k.startswith(_STORAGE_PREFIX)}


def _names(leaf: Any) -> list[str]:
    return [str(column.name()) for column in scala_items(leaf.output())]
