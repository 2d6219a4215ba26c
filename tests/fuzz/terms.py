"""Queries as trees, which become SQL or DataFrame code, and which a reducer can take apart.

    Query   Select | SetOperation | Unduplicated, and what fills a table: Flows | Cdc
    From    Named | Derived | Joined | Lateral | Recursive | Rows

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
    """A recursion in FROM: the rows of `first`, and those that `following` makes of the rows of the level before, which it reads by `alias`."""

    first: Query
    following: Query
    names: tuple[str, ...]
    alias: str

    @property
    def sql(self) -> str:
        whole = f"{self.alias}({', '.join(self.names)}) AS (({self.first.sql}) UNION ALL ({self.following.sql}))"
        return f"(WITH RECURSIVE {whole} SELECT * FROM {self.alias}) {self.alias}"


@dataclass(frozen=True)
class Select(Query):
    """`group`: None without GROUP BY; empty for one group of everything. `shape`: ROLLUP, CUBE or GROUPING SETS. `tail`: ORDER BY and LIMIT."""

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
            text += f" GROUP BY {self._grouping(keys)}"
        if self.having:
            text += f" HAVING {conjunction(self.having)}"
        return text + "".join(f" {part.sql}" for part in self.tail)

    def _grouping(self, keys: str) -> str:
        assert self.group
        if self.shape == "GROUPING SETS":
            return f"GROUPING SETS (({keys}), ({self.group[-1].sql}), ())"
        return f"{self.shape} ({keys})" if self.shape else keys


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


@dataclass(frozen=True)
class Flows(Query):
    """The queries that fill one table, which have the same columns."""

    queries: tuple[Query, ...]

    @property
    def sql(self) -> str:
        return " UNION ALL ".join(f"({query.sql})" for query in self.queries)


@dataclass(frozen=True)
class Cdc(Query):
    """AUTO CDC over the rows of `changes`. `sequence` and `deletes` read its columns, `names`. `chosen` and `tracked` are columns by name
    (None: all), which the definition says as the rest of all if `excluded`. `any_of`: the view may have any change of the greatest sequence of a
    key; otherwise changes of one key with one sequence are equal, or there are none of them if they are `unique`.

    `sql` is what the view must hold, computed in another way than in stepwell/project/auto_cdc.py."""

    changes: Select
    keys: tuple[str, ...]
    sequence: Expr
    deletes: Expr | None
    scd_type: int
    chosen: tuple[str, ...] | None
    tracked: tuple[str, ...] | None
    excluded: bool
    names: tuple[str, ...]
    any_of: bool
    unique: bool

    @property
    def shown(self) -> tuple[str, ...]:
        return self.names if self.chosen is None else tuple(name for name in self.names if name in self.chosen)

    @property
    def sql(self) -> str:
        given = f"SELECT *, {self.sequence.sql} AS s__, {self._deleted()} AS d__ FROM ({self.changes.sql})"
        return self._history(given) if self.scd_type == 2 else self._current(given)

    def _deleted(self) -> str:
        missing = " OR ".join(f"{name} IS NULL" for name in (self.sequence.sql, *self.keys))
        deleted = "false" if self.deletes is None else f"coalesce({self.deletes.sql}, false)"
        return f"CASE WHEN {missing} THEN raise_error('no key or no sequence') WHEN {deleted} THEN true ELSE false END"

    def _current(self, given: str) -> str:
        """Every change that no later one of its key follows, unless it is a delete."""
        newest = f"SELECT *, max(s__) OVER (PARTITION BY {', '.join(self.keys)}) AS n__ FROM ({given})"
        shown = f"{'' if self.any_of or self.unique else 'DISTINCT '}{', '.join(self.shown)}"
        return f"SELECT {shown} FROM ({newest}) WHERE NOT d__ AND s__ <=> n__"

    def _history(self, given: str) -> str:
        """The changes of a key are divided into islands: a delete is one of its own, and so are updates that agree one after the other."""
        keys, shown = ", ".join(self.keys), [name for name in self.shown if name not in self.keys]
        tracked = shown if self.tracked is None else self.tracked
        over = f"OVER (PARTITION BY {keys} ORDER BY s__)"
        agrees = " AND ".join(
            ["NOT d__", f"NOT lag(d__, 1, true) {over}", *(f"{n} <=> lag({n}) {over}" for n in tracked)]
        )
        different = given if self.unique else f"SELECT DISTINCT * FROM ({given})"
        marked = f"SELECT *, CASE WHEN {agrees} THEN 0 ELSE 1 END AS m__ FROM ({different})"
        islands = f"SELECT *, sum(m__) {over} AS i__ FROM ({marked})"
        last = ", ".join(f"max_by({name}, s__) AS {name}" for name in ["d__", *shown])
        versions = f"SELECT {keys}, i__, min(s__) AS s__, {last} FROM ({islands}) GROUP BY {keys}, i__"
        ends = f"SELECT *, lead(s__) OVER (PARTITION BY {keys} ORDER BY i__) AS e__ FROM ({versions})"
        return f"SELECT {', '.join(self.shown)}, s__ AS __START_AT, e__ AS __END_AT FROM ({ends}) WHERE NOT d__"


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
            return f"{frame_or_sql(inner)}.dropDuplicates({list(key)!r})"
        case Select():
            return _select_frame(query)
    raise NoForm(f"{type(query).__name__} has no DataFrame form")


def frame_or_sql(query: Query) -> str:
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
    if not is_dataclass(tree) or isinstance(tree, type | Cdc):  # with fewer columns, the order of changes may be open
        return
    for field in fields(tree):
        value = getattr(tree, field.name)
        if isinstance(value, tuple) and value:
            if not isinstance(
                tree, Expr | Lateral | Unduplicated
            ):  # the text has a place for each operand; a view is any_of its key
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
        case Flows(queries):
            yield from queries
        case Cdc():
            yield tree.changes
            yield from (replace(tree, deletes=None), replace(tree, tracked=None), replace(tree, chosen=None))
            if tree.changes.where:
                yield replace(tree, changes=replace(tree.changes, where=tree.changes.where[:-1]))
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
