"""Queries as trees, which become SQL or DataFrame code, and which a reducer can take apart.

    Query   Select | SetOperation
    From    Named | Derived | Joined | Lateral | Literal rows

Nodes are plain data. An `Expr` is a text with places for its operands, which are expressions or queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Expr:
    """`text` has {0}, {1}, ... for the operands. `type`: Spark's name of the result's type."""

    text: str
    type: str
    operands: tuple[Any, ...] = ()

    @property
    def sql(self) -> str:
        return self.text.format(*(f"({o.sql})" if isinstance(o, Query) else o.sql for o in self.operands))


class Query:
    """A query. `sql` is its text."""

    @property
    def sql(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Item:
    expr: Expr
    name: str


@dataclass(frozen=True)
class Named:
    """A table or view."""

    name: str
    alias: str

    @property
    def sql(self) -> str:
        return f"{self.name} {self.alias}"


@dataclass(frozen=True)
class Rows:
    """Rows written in the query: VALUES, or range()."""

    text: str

    @property
    def sql(self) -> str:
        return self.text


@dataclass(frozen=True)
class Derived:
    """A query in FROM."""

    query: Query
    alias: str

    @property
    def sql(self) -> str:
        return f"({self.query.sql}) {self.alias}"


@dataclass(frozen=True)
class Joined:
    """`kind`: INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI or LEFT ANTI. `on`: a conjunction; empty only for CROSS."""

    left: Any
    right: Any
    kind: str
    on: tuple[Expr, ...]

    @property
    def sql(self) -> str:
        on = f" ON {conjunction(self.on)}" if self.on else ""
        return f"{self.left.sql} {self.kind} JOIN {self.right.sql}{on}"


@dataclass(frozen=True)
class Lateral:
    """What is computed for each row of `left`: `text` has a place for each operand, which is an expression or a query."""

    left: Any
    text: str
    operands: tuple[Any, ...]

    @property
    def sql(self) -> str:
        return f"{self.left.sql}{self.text.format(*(o.sql for o in self.operands))}"


@dataclass(frozen=True)
class Recursive:
    """A recursion in FROM: the rows of `first`, whose last column is the level, and at each further level `items` of those rows joined with
    `table`."""

    first: Query
    table: Any
    on: tuple[Expr, ...]
    items: tuple[Expr, ...]
    names: tuple[str, ...]
    levels: int
    alias: str

    @property
    def sql(self) -> str:
        items = ", ".join(item.sql for item in self.items)
        level = f"{self.alias}.{self.names[-1]}"
        joined = f"{self.alias} JOIN {self.table.sql} ON {conjunction(self.on)}"
        following = f"SELECT {items}, {level} + 1 FROM {joined} WHERE {level} < {self.levels}"
        whole = f"{self.alias}({', '.join(self.names)}) AS ({self.first.sql} UNION ALL {following})"
        return f"(WITH RECURSIVE {whole} SELECT * FROM {self.alias}) {self.alias}"


@dataclass(frozen=True)
class Select(Query):
    """`group`: None without GROUP BY; empty for one group of everything. `shape`: ROLLUP or CUBE. `tail`: ORDER BY and LIMIT."""

    items: tuple[Item, ...]
    source: Any
    where: tuple[Expr, ...] = ()
    group: tuple[Expr, ...] | None = None
    shape: str = ""
    having: tuple[Expr, ...] = ()
    distinct: bool = False
    tail: tuple[Expr, ...] = ()

    @property
    def sql(self) -> str:
        items = ", ".join(f"{item.expr.sql} AS {item.name}" for item in self.items)
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{items} FROM {self.source.sql}"
        if self.where:
            text += f" WHERE {conjunction(self.where)}"
        if self.group:
            keys = ", ".join(key.sql for key in self.group)
            text += f" GROUP BY {f'{self.shape} ({keys})' if self.shape else keys}"
        if self.having:
            text += f" HAVING {conjunction(self.having)}"
        return text + "".join(f" {part.sql}" for part in self.tail)


@dataclass(frozen=True)
class SetOperation(Query):
    """`kind`: UNION ALL, UNION, INTERSECT, EXCEPT, INTERSECT ALL or EXCEPT ALL."""

    left: Query
    right: Query
    kind: str

    @property
    def sql(self) -> str:
        return f"({self.left.sql}) {self.kind} ({self.right.sql})"


@dataclass(frozen=True)
class Unduplicated(Query):
    """dropDuplicates over some columns. SQL has no form of it."""

    query: Query
    key: tuple[str, ...]

    @property
    def sql(self) -> str:
        raise NoForm("dropDuplicates has no SQL form")


class NoForm(Exception):
    """A tree has no form of the asked kind."""


def conjunction(conditions: tuple[Expr, ...]) -> str:
    return " AND ".join(f"({c.sql})" for c in conditions)


# DataFrames

_METHODS = {"UNION ALL": "unionAll", "UNION": "union", "INTERSECT": "intersect", "EXCEPT": "subtract",
            "INTERSECT ALL": "intersectAll", "EXCEPT ALL": "exceptAll"}  # fmt: skip
_JOINS = {"INNER": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full", "CROSS": "cross", "LEFT SEMI": "left_semi",
          "LEFT ANTI": "left_anti"}  # fmt: skip


def frame(query: Query) -> str:
    """Python code of a DataFrame over `spark` and `F`. Raises NoForm for what is only written in SQL."""
    match query:
        case SetOperation(left, right, kind):
            text = f"{frame(left)}.{_METHODS[kind]}({frame(right)})"
            return f"{text}.distinct()" if kind == "UNION" else text
        case Unduplicated(inner, key):
            return f"{_frame_or_sql(inner)}.dropDuplicates({list(key)!r})"
        case Select():
            return _select_frame(query)
    raise NoForm(f"{type(query).__name__} has no DataFrame form")


def _frame_or_sql(query: Query) -> str:
    """For a query that may have a part without a DataFrame form, and is in one that has no SQL form."""
    try:
        return frame(query)
    except NoForm:
        return f"spark.sql({query.sql!r})"


def _select_frame(query: Select) -> str:
    if query.shape or query.having or query.tail:
        raise NoForm("grouping sets, HAVING and LIMIT are written in SQL")
    text = _from_frame(query.source)
    for condition in query.where:
        text += f".where({condition.sql!r})"
    items = [f"F.expr({item.expr.sql!r}).alias({item.name!r})" for item in query.items]
    if query.group is None:
        text += f".select({', '.join(items)})"
    else:
        keys = [item for item in query.items if item.expr in query.group]
        calls = [item for item in query.items if item.expr not in query.group]
        if {key.expr for key in keys} != set(query.group) or not calls:
            raise NoForm("groupBy shows its keys, and computes something")
        text += f".groupBy({', '.join(f'F.expr({k.expr.sql!r}).alias({k.name!r})' for k in keys)})"
        text += f".agg({', '.join(f'F.expr({c.expr.sql!r}).alias({c.name!r})' for c in calls)})"
        text += f".select({', '.join(repr(item.name) for item in query.items)})"
    return f"{text}.distinct()" if query.distinct else text


def _from_frame(source: Any) -> str:
    match source:
        case Named(name, alias):
            return f"spark.table({name!r}).alias({alias!r})"
        case Derived(query, alias):
            return f"{frame(query)}.alias({alias!r})"
        case Joined(left, right, "CROSS", ()):
            return f"{_from_frame(left)}.crossJoin({_from_frame(right)})"
        case Joined(left, right, kind, on) if on:
            return f"{_from_frame(left)}.join({_from_frame(right)}, F.expr({conjunction(on)!r}), {_JOINS[kind]!r})"
    raise NoForm(f"{type(source).__name__} is written in SQL")


# Reduction


def walk(tree: Any) -> Iterator[Any]:
    """The tree and all trees in it."""
    yield tree
    if is_dataclass(tree):
        for field in fields(tree):
            value = getattr(tree, field.name)
            for child in value if isinstance(value, tuple) else (value,):
                yield from walk(child)


def tables_of(tree: Any) -> set[str]:
    """The tables and views that a query reads."""
    return {node.name for node in walk(tree) if isinstance(node, Named)}


def smaller(tree: Any) -> Iterator[Any]:
    """Trees with one part less, the largest parts first. Many of them mean nothing; whoever asks has to try."""
    yield from _alternatives(tree)
    if not is_dataclass(tree) or isinstance(tree, type):
        return
    for field in fields(tree):
        value = getattr(tree, field.name)
        if isinstance(value, tuple) and value:
            if not isinstance(tree, Expr | Lateral):  # the text has a place for each operand
                for at in range(len(value)):
                    yield replace(tree, **{field.name: value[:at] + value[at + 1 :]})
            for at, child in enumerate(value):
                for other in smaller(child):
                    yield replace(tree, **{field.name: (*value[:at], other, *value[at + 1 :])})
        elif is_dataclass(value):
            for other in smaller(value):
                yield replace(tree, **{field.name: other})


def _alternatives(tree: Any) -> Iterator[Any]:
    match tree:
        case SetOperation(left, right, _):
            yield from (left, right)
        case Unduplicated(query, _):
            yield query
        case Joined(left, right, kind, _):
            yield from (left, right)
            if kind not in ("INNER", "CROSS"):
                yield replace(tree, kind="INNER")
        case Lateral(left, _, _):
            yield left
        case Derived(Select() as inner, _):
            yield inner.source
        case Select():
            if tree.distinct:
                yield replace(tree, distinct=False)
            if tree.shape:
                yield replace(tree, shape="")
        case Expr(_, kind, operands):
            for operand in operands:
                if isinstance(operand, Expr) and operand.type == kind and operand != tree:
                    yield operand
            if operands and not any(isinstance(o, Query) for o in operands):
                yield Expr(f"CAST(NULL AS {kind})", kind)
