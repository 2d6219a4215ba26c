"""Every construct of a query that the fuzzer makes, one function each. `CONSTRUCTS` lists them.

To add a construct, write a function from a `Maker` to a `Made` and add its line to the table. What Stepwell does not run yet may be here:
its refusals are counted, and the comparison with Spark begins when it runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.expressions import BOOLEAN, Column, Expressions
from tests.fuzz.terms import (
    Derived,
    Expr,
    Item,
    Joined,
    Lateral,
    Named,
    Query,
    Recursive,
    Rows,
    Select,
    SetOperation,
    Unduplicated,
)
from tests.fuzz.values import FLOATS, INTEGERS

ITEMS_MAX = 4


@dataclass(frozen=True)
class Relation:
    """A source or view that can be read. `key`: columns of which no two rows have the same values; None if none are known."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Made:
    """A query with its columns, whose `sql` is their name. `any_of`: for each value of these columns the view has one of the query's rows; which
    one is free, so nothing may read the view."""

    query: Query
    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None
    any_of: tuple[str, ...] | None = None


@dataclass
class Maker:
    """What a construct draws from. `wild`: values at the limits of their types."""

    chance: random.Random
    expr: Expressions
    relations: list[Relation]
    wild: bool
    names: int = 0
    nested: int = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    # FROM

    def read(self, relation: Relation | None = None) -> tuple[Any, list[Column], Relation]:
        """A relation in FROM, and its columns as an expression there reads them."""
        relation = relation or self.chance.choice([*self.relations, *self.relations[-2:]])
        alias = self.name("a")
        return Named(relation.name, alias), qualified(relation.columns, alias), relation

    def source(self) -> tuple[Any, list[Column], Relation | None]:
        """Like `read`, or a query in FROM."""
        if self.nested < 2 and self.maybe(0.3):
            self.nested += 1
            made = CONSTRUCTS[self.chance.choice(INNER)](self)
            self.nested -= 1
            alias = self.name("q")
            return Derived(made.query, alias), qualified(made.columns, alias), None
        return self.read()

    # SELECT

    def columns_of(self, scope: Sequence[Column], least: int = 1) -> list[tuple[Expr, Column]]:
        """Some plain columns, each with what it is."""
        free = [c for c in scope if not c.loose]
        if not free:
            return [(self.expr.literal("int"), Column("", "int"))]
        chosen = self.chance.sample(free, min(len(free), max(least, self.chance.randint(1, ITEMS_MAX))))
        return [(Expr(c.sql, c.type), c) for c in chosen]

    def items(self, scope: Sequence[Column]) -> list[tuple[Expr, Column]]:
        """Plain columns, and sometimes expressions."""
        found = self.columns_of(scope)
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            made = self.expr.any(scope)
            found.append((made, Column("", made.type)))
        return found

    def where(self, scope: Sequence[Column], probability: float = 0.25) -> tuple[Expr, ...]:
        return (self.expr.condition(scope),) if self.maybe(probability) else ()

    def made(
        self, items: Sequence[tuple[Expr, Column]], source: Any, key: Sequence[Expr] | None = None, **rest: Any
    ) -> Made:
        """`key`: of the query, as expressions; it is the query's if all of them are among the items."""
        named = [(expr, replace(column, sql=self.name("c"))) for expr, column in items]
        query = Select(tuple(Item(expr, column.sql) for expr, column in named), source, **rest)
        names: tuple[str, ...] | None = None
        if key and set(key) <= {expr for expr, _ in named}:
            names = tuple(next(column.sql for expr, column in named if expr == part) for part in key)
        return Made(query, tuple(column for _, column in named), names)


def qualified(columns: Sequence[Column], alias: str) -> list[Column]:
    return [replace(column, sql=f"{alias}.{column.sql}") for column in columns]


def _key_of(source: Any, relation: Relation | None) -> list[Expr] | None:
    if relation is None or relation.key is None:
        return None
    types = {c.sql: c.type for c in relation.columns}
    return [Expr(f"{source.alias}.{name}", types[name]) for name in relation.key]


# One input


def project(m: Maker) -> Made:
    source, scope, relation = m.source()
    items = m.items(scope)
    key = _key_of(source, relation)
    if key and m.maybe(0.7):
        items = [*((part, Column("", part.type)) for part in key), *(i for i in items if i[0] not in key)]
    return m.made(items, source, key, where=m.where(scope, 0.4))


def distinct(m: Maker) -> Made:
    source, scope, _ = m.source()
    items = m.items(scope)
    made = m.made(items, source, where=m.where(scope), distinct=True)
    return replace(made, key=tuple(c.sql for c in made.columns))


def drop_duplicates(m: Maker) -> Made:
    source, scope, _ = m.source()
    made = m.made(m.columns_of(scope, 2), source, where=m.where(scope))
    chosen = m.chance.sample(made.columns, m.chance.randint(1, len(made.columns)))
    key = tuple(c.sql for c in made.columns if c in chosen)
    if len(key) == len(made.columns):
        return replace(made, query=Unduplicated(made.query, key), key=key)
    return replace(made, query=Unduplicated(made.query, key), key=key, any_of=key)


# Aggregates


def call(m: Maker, scope: Sequence[Column], *, spread: bool = False) -> tuple[Expr, Column]:
    """An aggregate call. `spread`: with DISTINCT, and with FILTER."""
    counted = m.expr.column(scope)
    function = m.chance.choice(("count", "count", "sum", "sum", "avg", "min", "max"))
    inner = "DISTINCT " if spread and m.maybe(0.5) and function in ("count", "sum") else ""
    column = (
        counted if function in ("count", "min", "max") else m.expr.column([c for c in scope if _adds(m, c, function)])
    )
    if column is None or (function == "count" and not inner and m.maybe(0.5)):
        made, what = Expr("count(*)", "bigint"), Column("", "bigint")
    else:
        what = _result(m, function, column)
        argument = Expr(column.sql, column.type)
        if m.maybe(0.2) and column.type not in FLOATS and column.type in m.expr.pools:
            argument = m.expr.of_type(scope, column.type, 2)
        made = Expr(f"{function}({inner}{{0}})", what.type, (argument,))
    if spread and m.maybe(0.3):
        made = Expr("{0} FILTER (WHERE {1})", made.type, (made, m.expr.condition(scope, 1)))
    return made, what


def _adds(m: Maker, column: Column, function: str) -> bool:
    """Whether its sum may be compared. Spark adds numbers to an average as doubles, each sum of which is rounded; and doubles of both signs may
    cancel each other out, and leave what was rounded."""
    if column.type in FLOATS:
        return column.summable
    if function == "avg" and column.type == "bigint":
        return not m.wild
    return column.type in INTEGERS or column.type.startswith("decimal")


def _result(m: Maker, function: str, column: Column) -> Column:
    if function == "count":
        return Column("", "bigint")
    if function in ("min", "max"):
        return Column("", column.type, column.summable, "zero" if _has_floats(column.type) else "")
    if column.type.startswith("decimal"):
        precision, scale = map(int, column.type[len("decimal(") : -1].split(","))
        more = (10, 0) if function == "sum" else (4, 4)
        type_ = f"decimal({min(38, precision + more[0])},{min(38, scale + more[1])})"
        return Column("", type_)
    if function == "sum" and column.type in INTEGERS:
        return Column("", "bigint")
    return Column("", "double", function == "sum" and column.summable)


def _has_floats(type_: str) -> bool:
    return "float" in type_ or "double" in type_


def _grouped(m: Maker, source: Any, scope: list[Column], *, spread: bool = False, shape: str = "") -> Made:
    keys = m.columns_of(scope)[: m.chance.choice((1, 1, 2, 3))]
    if m.maybe(0.2) and not shape:
        made = m.expr.any(scope, 1)
        # A literal in GROUP BY is a position, or is no key at all.
        keys += [(made, Column("", made.type))] if made.operands else []
    keys = [(expr, replace(column, loose="")) for expr, column in keys]
    calls = [call(m, scope, spread=spread) for _ in range(m.chance.randint(0 if m.maybe(0.15) else 1, 3))]
    having: tuple[Expr, ...] = ()
    if calls and m.maybe(0.25) and not calls[0][1].loose:
        having = (Expr("{0} IS NOT NULL", BOOLEAN, (calls[0][0],)), Expr("count(*) > 1", BOOLEAN))
    group = tuple(expr for expr, _ in keys)
    return m.made(
        [*keys, *calls],
        source,
        None if shape else list(group),
        where=m.where(scope),
        group=group,
        shape=shape,
        having=having,
    )


def aggregate(m: Maker) -> Made:
    source, scope, _ = m.source()
    return _grouped(m, source, scope)


def spread_aggregate(m: Maker) -> Made:
    source, scope, _ = m.source()
    return _grouped(m, source, scope, spread=True)


def grouping_sets(m: Maker) -> Made:
    source, scope, _ = m.source()
    return _grouped(m, source, scope, spread=m.maybe(0.3), shape=m.chance.choice(("ROLLUP", "CUBE")))


def total(m: Maker) -> Made:
    source, scope, _ = m.source()
    calls = [call(m, scope, spread=m.maybe(0.4)) for _ in range(m.chance.randint(1, 3))]
    return m.made(calls, source, where=m.where(scope), group=())


def over_calls(m: Maker) -> Made:
    """Expressions over aggregate calls."""
    source, scope, _ = m.source()
    keys = m.columns_of(scope)[:2]
    calls = [call(m, scope) for _ in range(2)]
    inner = [Column(expr.sql, column.type, loose=column.loose) for expr, column in (*keys, *calls)]
    found = m.expr.any([c for c in inner if not c.loose and "(" in c.sql] or inner, 1)
    return m.made([*keys, (found, Column("", found.type))], source, group=tuple(expr for expr, _ in keys))


def windowed(m: Maker) -> Made:
    """GROUP BY window(ts, ...)."""
    return _by_time(m, "window", ("'10 minutes'", "'1 day'", "'1 hour', '20 minutes'"))


def sessions(m: Maker) -> Made:
    """GROUP BY session_window(ts, gap)."""
    return _by_time(m, "session_window", ("'10 minutes'", "'1 day'", "'400 days'"))


def _by_time(m: Maker, function: str, sizes: Sequence[str]) -> Made:
    source, scope, _ = m.source()
    moment = m.expr.column(scope, "timestamp")
    if moment is None:
        return aggregate(m)
    window = Expr(f"{function}({{0}}, {m.chance.choice(sizes)})", "struct", (Expr(moment.sql, moment.type),))
    start = Expr("{0}.start", "timestamp", (window,))
    calls = [call(m, scope) for _ in range(2)]
    return m.made([(start, Column("", "timestamp")), *calls], source, [start], group=(window,))


# Two inputs


def equality(m: Maker, left: Sequence[Column], right: Sequence[Column]) -> Expr | None:
    pairs = [(a, b) for a in left for b in right if a.type == b.type and not a.loose and not b.loose]
    if m.maybe(0.15):  # Spark casts one of them
        numbers = [(a, b) for a in left for b in right if _is_number(a) and _is_number(b)]
        pairs = numbers or pairs
    if not pairs:
        return None
    a, b = m.chance.choice(pairs)
    operator = "<=>" if m.maybe(0.2) else "="
    sides = [Expr(a.sql, a.type), Expr(b.sql, b.type)]
    if m.maybe(0.2):
        computed = m.chance.randrange(2)
        sides[computed] = m.expr.of_type((left, right)[computed], sides[computed].type, 2)
    return Expr(f"{{0}} {operator} {{1}}", BOOLEAN, tuple(sides))


def _is_number(column: Column) -> bool:
    return not column.loose and (column.type in (*INTEGERS, *FLOATS) or column.type.startswith("decimal"))


def joined(m: Maker, kind: str, residual: float = 0.3) -> tuple[Joined, list[Column], list[Column]]:
    left, left_scope, _ = m.source()
    right, right_scope, _ = m.source()
    on = [e for e in (equality(m, left_scope, right_scope) for _ in range(m.chance.choice((1, 1, 2)))) if e]
    if not on or m.maybe(residual):
        on.append(m.expr.compare([*left_scope, *right_scope], 1))
    return Joined(left, right, kind, tuple(dict.fromkeys(on))), left_scope, right_scope


def _join(kind: str) -> Callable[[Maker], Made]:
    def make(m: Maker) -> Made:
        source, left, right = joined(m, kind)
        both = left if kind in ("LEFT SEMI", "LEFT ANTI") else [*left, *right]
        return m.made(m.items(both), source, where=m.where(both, 0.25))

    return make


def cross_join(m: Maker) -> Made:
    left, left_scope, _ = m.read()
    right, right_scope, _ = m.read()
    both = [*left_scope, *right_scope]
    return m.made(m.items(both), Joined(left, right, "CROSS", ()), where=m.where(both, 0.6))


def self_join(m: Maker) -> Made:
    left, left_scope, relation = m.read()
    right, right_scope, _ = m.read(relation)
    both = [*left_scope, *right_scope]
    on = equality(m, left_scope, right_scope) or m.expr.compare(both, 0)
    return m.made(m.items(both), Joined(left, right, "INNER", (on,)), where=m.where(both, 0.3))


def sums_over_join(m: Maker) -> Made:
    """Sums of one side, by columns of the other: these are taken before the join."""
    source, left, right = joined(m, "INNER", residual=0.1)
    summed, by = (left, right) if m.maybe(0.5) else (right, left)
    calls = [call(m, summed) for _ in range(m.chance.randint(1, 3))]
    keys = m.columns_of(by)[: m.chance.choice((0, 1, 2))]
    group = tuple(expr for expr, _ in keys)
    return m.made([*keys, *calls], source, list(group), group=group)


def three_joined(m: Maker) -> Made:
    source, left, right = joined(m, "INNER")
    third, scope, _ = m.read()
    both = [*left, *right]
    on = equality(m, both, scope) or m.expr.compare([*both, *scope], 0)
    every = [*both, *scope]
    return m.made(m.items(every), Joined(source, third, "INNER", (on,)), where=m.where(every, 0.2))


def recursion(m: Maker) -> Made:
    """Rows that are joined with a table again and again."""
    left, scope, _ = m.read()
    alias = m.name("r")
    first = [(Item(expr, m.name("k")), column) for expr, column in m.columns_of(scope)[:3]]
    own = [Column(f"{alias}.{item.name}", column.type, loose=column.loose) for item, column in first]
    table, other, _ = m.read()
    on = equality(m, own, other) or m.expr.compare([*own, *other], 0)
    following: list[Expr] = []
    for column in own:
        alike = [c for c in other if c.type == column.type and not c.loose and not column.loose]
        chosen = m.chance.choice(alike) if alike and m.maybe(0.7) else column
        following.append(Expr(chosen.sql, chosen.type))
    level = m.name("l")
    query = Select((*(item for item, _ in first), Item(Expr("0", "int"), level)), left)
    names = (*(item.name for item, _ in first), level)
    source = Recursive(query, table, (on,), tuple(following), names, m.chance.choice((1, 2)), alias)
    return m.made(m.items([*own, Column(f"{alias}.{level}", "int")]), source)


def with_values(m: Maker) -> Made:
    """A join with rows that are written in the query."""
    left, scope, _ = m.read()
    alias = m.name("v")
    column = m.expr.column([c for c in scope if c.type in m.expr.pools and "<" not in c.type])
    if column is None:
        return constant(m)
    listed = [m.expr.literal(column.type).sql for _ in range(m.chance.randint(1, 3))]
    rows = ", ".join(f"({value}, {number})" for number, value in enumerate(listed))
    right = Rows(f"VALUES {rows} AS {alias}(k, n)")
    on = Expr(f"{{0}} = {alias}.k", BOOLEAN, (Expr(column.sql, column.type),))
    both = [*scope, Column(f"{alias}.n", "int")]
    return m.made(m.items(both), Joined(left, right, "INNER", (on,)))


def constant(m: Maker) -> Made:
    if m.maybe(0.5):
        alias = m.name("r")
        return m.made([(Expr(f"{alias}.id", "bigint"), Column("", "bigint"))], Rows(f"range(0, 4) {alias}"))
    types = m.chance.sample(list(m.expr.pools), 2)
    alias = m.name("v")
    rows = ", ".join(f"({m.expr.literal(types[0]).sql}, {m.expr.literal(types[1]).sql})" for _ in range(3))
    items = [(Expr(f"{alias}.x{i}", t), Column("", t)) for i, t in enumerate(types)]
    return m.made(items, Rows(f"VALUES {rows} AS {alias}(x0, x1)"))


def _set_operation(kind: str) -> Callable[[Maker], Made]:
    def make(m: Maker) -> Made:
        left, scope, _ = m.source()
        items = m.items(scope)
        first = m.made(items, left, where=m.where(scope))
        right, other, _ = m.source()
        second = [(m.expr.of_type(other, column.type, 1), Column("", column.type)) for column in first.columns]
        query = SetOperation(first.query, m.made(second, right, where=m.where(other)).query, kind)
        # The second query's values may be other doubles than the first one's.
        columns = tuple(replace(column, summable=False) for column in first.columns)
        return Made(query, columns, None if kind.endswith("ALL") else tuple(c.sql for c in columns))

    return make


# Subqueries


def _subquery(m: Maker, outer: Sequence[Column], *, correlated: float) -> tuple[Any, list[Column], tuple[Expr, ...]]:
    source, scope, _ = m.read()
    link = equality(m, outer, scope) if m.maybe(correlated) else None
    return source, scope, (*((link,) if link else ()), *m.where(scope, 0.3))


def in_subquery(m: Maker) -> Made:
    source, scope, _ = m.source()
    inner, inner_scope, where = _subquery(m, scope, correlated=0.2)
    column = m.expr.column([c for c in scope if c.type in {o.type for o in inner_scope}])
    left = Expr(column.sql, column.type) if column else m.expr.literal("int")
    chosen = m.expr.of_type(inner_scope, left.type, 0)
    query = Select((Item(chosen, m.name("c")),), inner, where)
    test = Expr(f"{{0}} {m.chance.choice(('IN', 'IN', 'NOT IN'))} {{1}}", BOOLEAN, (left, query))
    if m.maybe(0.25):
        test = Expr("{0} OR {1}", BOOLEAN, (test, m.expr.compare(scope, 0)))
    return m.made(m.items(scope), source, where=(test, *m.where(scope, 0.2)))


def exists(m: Maker) -> Made:
    source, scope, _ = m.source()
    inner, _, where = _subquery(m, scope, correlated=0.85)
    query = Select((Item(Expr("1", "int"), m.name("c")),), inner, where)
    test = Expr(f"{m.chance.choice(('', 'NOT '))}EXISTS {{0}}", BOOLEAN, (query,))
    return m.made(m.items(scope), source, where=(test, *m.where(scope, 0.2)))


def scalar_subquery(m: Maker) -> Made:
    source, scope, _ = m.source()
    inner, inner_scope, where = _subquery(m, scope, correlated=0.6)
    expr, column = call(m, inner_scope)
    query = Select((Item(expr, m.name("c")),), inner, where, ())
    value = Expr("{0}", column.type, (query,))
    if column.loose or m.maybe(0.6):
        return m.made([*m.items(scope), (value, column)], source)
    left = m.expr.of_type(scope, column.type, 0)
    return m.made(m.items(scope), source, where=(Expr("{0} <= {1}", BOOLEAN, (left, value)),))


def lateral(m: Maker) -> Made:
    source, scope, _ = m.read()
    inner, inner_scope, where = _subquery(m, scope, correlated=0.9)
    made = m.made(m.columns_of(inner_scope), inner, where=where)
    alias = m.name("l")
    both = [*scope, *qualified(made.columns, alias)]
    return m.made(m.items(both), Lateral(source, f", LATERAL ({{0}}) {alias}", (made.query,)))


# What is over ordered rows, and rows from one


def _order(m: Maker, scope: Sequence[Column]) -> str:
    """By every column, so that rows that tie are equal."""
    return ", ".join(
        f"{c.sql} {m.chance.choice(('ASC', 'DESC'))} NULLS {m.chance.choice(('FIRST', 'LAST'))}" for c in scope
    )


def limit(m: Maker) -> Made:
    source, scope, _ = m.source()
    items = [i for i in m.columns_of(scope, 2) if not _has_floats(i[1].type)]
    if not items:
        return project(m)
    made = m.made(items, source, where=m.where(scope))
    assert isinstance(made.query, Select)
    rows = m.chance.choice((0, 1, 2, 3, 5))
    offset = f" OFFSET {m.chance.choice((1, 2))}" if m.maybe(0.15) else ""
    tail = Expr(f"ORDER BY {_order(m, made.columns)} LIMIT {rows}{offset}", "")
    return replace(made, query=replace(made.query, tail=(tail,)), key=None)


def window_function(m: Maker) -> Made:
    source, scope, _ = m.source()
    plain = [c for c in scope if not c.loose and not _has_floats(c.type)]
    if not plain:
        return project(m)
    by = ", ".join(c.sql for c in m.chance.sample(plain, min(len(plain), m.chance.choice((1, 1, 2)))))
    function = m.chance.choice(
        ("row_number()", "rank()", "dense_rank()", "count(*)", "sum({0})", "max({0})", "lag({0})")
    )
    numbers = m.expr.column([c for c in plain if c.type in INTEGERS[:3]])
    if "{0}" in function and numbers is None:
        function = "row_number()"
    operands = (Expr(numbers.sql, numbers.type),) if "{0}" in function and numbers else ()
    type_ = "int" if function[0] in "rd" else "bigint" if function[0] in "cs" else numbers.type if numbers else "int"
    order = f" ORDER BY {_order(m, plain)}"
    if function[0] in "csm" and m.maybe(0.5):
        order = ""
    ranked = Expr(f"{function} OVER (PARTITION BY {by}{order})", type_, operands)
    made = m.made(
        [*((Expr(c.sql, c.type), c) for c in plain), (ranked, Column("", type_))], source, where=m.where(scope, 0.2)
    )
    if function[0] in "rd" and m.maybe(0.5):
        alias, number = m.name("w"), made.columns[-1]
        best = Expr(f"{alias}.{number.sql} <= {m.chance.choice((1, 2))}", BOOLEAN)
        inner = qualified(made.columns, alias)
        return m.made([(Expr(c.sql, c.type), c) for c in inner], Derived(made.query, alias), where=(best,))
    return made


def explode(m: Maker) -> Made:
    source, scope, _ = m.read()
    array = m.expr.column([c for c in scope if c.type.startswith("array<")])
    if array is not None:
        operand = Expr(array.sql, array.type)
    else:
        parts = (m.expr.of_type(scope, "int", 0), m.expr.of_type(scope, "int", 0))
        operand = Expr("array({0}, {1})", "array<int>", parts)
    alias, column = m.name("x"), m.name("e")
    element = Column(f"{alias}.{column}", operand.type[len("array<") : -1])
    outer = m.chance.choice(("", "OUTER "))
    text, more = f" LATERAL VIEW {outer}explode({{0}}) {alias} AS {column}", []
    if m.maybe(0.3):
        text, more = (
            f" LATERAL VIEW {outer}posexplode({{0}}) {alias} AS p{column}, {column}",
            [Column(f"{alias}.p{column}", "int")],
        )
    both = [*scope, element, *more]
    return m.made([(Expr(element.sql, element.type), element), *m.items(both)], Lateral(source, text, (operand,)))


INNER = (
    "project",
    "project",
    "union all",
    "union all",
    "union",
    "inner join",
    "aggregate",
    "distinct",
    "anti join",
    "except",
)
"""Of which the queries in FROM are made."""

CONSTRUCTS: dict[str, Callable[[Maker], Made]] = {
    "project": project,
    "distinct": distinct,
    "drop duplicates": drop_duplicates,
    "aggregate": aggregate,
    "aggregate with DISTINCT and FILTER": spread_aggregate,
    "aggregate of everything": total,
    "expression over calls": over_calls,
    "grouping sets": grouping_sets,
    "window(ts)": windowed,
    "session_window(ts)": sessions,
    "inner join": _join("INNER"),
    "left join": _join("LEFT"),
    "right join": _join("RIGHT"),
    "full join": _join("FULL"),
    "semi join": _join("LEFT SEMI"),
    "anti join": _join("LEFT ANTI"),
    "cross join": cross_join,
    "self-join": self_join,
    "sums over a join": sums_over_join,
    "three tables": three_joined,
    "recursion": recursion,
    "values": with_values,
    "constant rows": constant,
    "union all": _set_operation("UNION ALL"),
    "union": _set_operation("UNION"),
    "intersect": _set_operation("INTERSECT"),
    "except": _set_operation("EXCEPT"),
    "intersect all": _set_operation("INTERSECT ALL"),
    "except all": _set_operation("EXCEPT ALL"),
    "in": in_subquery,
    "exists": exists,
    "scalar subquery": scalar_subquery,
    "lateral": lateral,
    "limit": limit,
    "window function": window_function,
    "explode": explode,
}
