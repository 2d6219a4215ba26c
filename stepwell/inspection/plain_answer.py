"""The answers to queries that need no Spark (plain_query.py).

Guarantee: such an answer is the one that Spark would give. A query of which that is not certain has none here: the view is not kept, lacks a
column or has two that differ only in case, a type is shown or ordered otherwise than here, or a setting may change what the text means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.evaluate import evaluate
from engine.model.circuit import Circuit, View
from io_kafka.formats.render import record
from stepwell.inspection.plain_query import OrderItem, PlainQuery
from stepwell.inspection.query_request import Found, QueryRequest
from stepwell.inspection.view_contents import StateHere
from stepwell.lowering.expressions.casts import as_text, kind
from stepwell.lowering.expressions.fragment import Fragment
from stepwell.project.loading import Project

SHOWN = frozenset({"integer", "float", "decimal", "string", "binary", "boolean", "date", "timestamp", "local"})
"""The kinds of types that are shown without Spark. Values of the others have parts, or units, that are written in other ways."""

ORDERED = SHOWN - {"float", "boolean"}
"""The kinds that Arrow orders as Spark does. It puts NaN elsewhere, and does not order booleans at all."""

OF_SQL = "spark.sql."
NEUTRAL = ("spark.sql.adaptive.", "spark.sql.shuffle.", "spark.sql.warehouse.")
"""The settings of Spark SQL that change no answer. Others may, such as whether names are compared with regard to case."""


def plain_answer(project: Project, circuit: Circuit, asked: QueryRequest, plain: PlainQuery) -> Found | None:
    """The answer of the databases on this host; None if Spark has to find it. `circuit`: that of the files. Raises NoState, CircuitChanged,
    StorageError and DataError."""
    if any(key.startswith(OF_SQL) and not key.startswith(NEUTRAL) for key in project.settings.spark):
        return None
    view = next((node for node in _kept_views(circuit) if node.name.lower() == plain.view.lower()), None)
    columns = None if view is None else _columns(view, plain)
    if view is None or columns is None:
        return None
    version, (table,) = StateHere.of(project, circuit).read([view.name])
    table = pa.table(table.columns, names=[name.lower() for name in table.column_names])
    found = _first(_in_order(table, plain.order, columns), plain.limit)
    shown = _first(found, asked.limit).select([name.lower() for name in columns])
    return {
        "step": version.step - 1 if version.step else None,
        "checkpoint": version.version,
        "columns": columns,
        "rows": _objects(columns, shown) if asked.as_json else _texts(shown),
        "more": found.num_rows > asked.limit,
    }


def _kept_views(circuit: Circuit) -> Sequence[View]:
    return [node for node in circuit.nodes_of(View).values() if node.kept]


def _columns(view: View, plain: PlainQuery) -> list[str] | None:
    """The names of the answer's columns; None if Spark has to answer. Spark names a column as the query does."""
    types = dict(zip((name.lower() for name in view.names), view.types, strict=True))
    columns = list(view.names if plain.columns is None else plain.columns)
    keys = [_name_of(key, columns) for key in plain.order]
    if len(types) != len(view.names) or len({name.lower() for name in columns}) != len(columns):
        return None
    if not all(_is_of(types, name, SHOWN) for name in columns) or not all(_is_of(types, key, ORDERED) for key in keys):
        return None
    return columns


def _name_of(key: OrderItem, columns: Sequence[str]) -> str | None:
    """The column by which is ordered; None for a position that the answer does not have."""
    if isinstance(key.by, str):
        return key.by
    return columns[key.by - 1] if 1 <= key.by <= len(columns) else None


def _is_of(types: Mapping[str, pa.DataType], name: str | None, kinds: frozenset[str]) -> bool:
    """Whether there is such a column, and its type is of one of these kinds."""
    return name is not None and name.lower() in types and kind(types[name.lower()]) in kinds


def _in_order(table: pa.Table, order: Sequence[OrderItem], columns: Sequence[str]) -> pa.Table:
    if not order:
        return table
    keys: list[tuple[str, str]] = []
    compared: dict[str, pa.ChunkedArray] = {}
    for index, key in enumerate(order):
        name = _name_of(key, columns)
        assert name is not None, "such a query is left to Spark"
        values = table.column(name.lower())
        nulls_last = pc.cast(pc.is_null(values), pa.int8())
        compared |= {f"n{index}": nulls_last, f"v{index}": values}
        keys += [(f"n{index}", "descending" if key.nulls_first else "ascending")]
        keys += [(f"v{index}", "descending" if key.descending else "ascending")]
    return table.take(pc.sort_indices(pa.table(compared), sort_keys=keys))


def _first(table: pa.Table, limit: int | None) -> pa.Table:
    return table if limit is None else table.slice(0, limit)


def _texts(shown: pa.Table) -> list[list[str | None]]:
    """One list per row, of what Spark's cast to STRING gives, and of hexadecimal digits for a BINARY."""
    numbered = pa.table(shown.columns, names=[f"c{i}" for i in range(shown.num_columns)])
    parts = [Fragment(f"c{i}", column.type, column=i) for i, column in enumerate(numbered.columns)]
    texts = tuple((part if pa.types.is_binary(part.type) else as_text(part)).expression for part in parts)
    columns = [
        [None if value is None else _value_text(value, column.type) for value in column.cast(pa.binary()).to_pylist()]
        for column in evaluate(None, texts, numbered).columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _value_text(value: bytes, type_: pa.DataType) -> str:
    return value.hex().upper() if pa.types.is_binary(type_) else value.decode(errors="replace")


def _objects(columns: list[str], shown: pa.Table) -> list[Any]:
    """One object per row, encoded like the messages of output topics."""
    parts = [column.combine_chunks() for column in shown.columns]
    return [json.loads(text) for text in record(columns, parts).to_pylist()]
