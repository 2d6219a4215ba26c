"""What is over ordered rows: LIMIT, functions OVER windows, and what reads the order of an ORDER BY below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.fuzz.constructs.aggregates import Other, exact, is_type
from tests.fuzz.constructs.maker import Made, Maker, qualified
from tests.fuzz.constructs.single import project
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Derived, Expr, Item, Lateral, Select, Unduplicated
from tests.fuzz.values import INTEGERS, has_floats, is_comparable


def _order(m: Maker, scope: Sequence[Column]) -> str:
    """By every column, so that rows that tie are equal."""
    return ", ".join(
        f"{c.sql} {m.chance.choice(('ASC', 'DESC'))} NULLS {m.chance.choice(('FIRST', 'LAST'))}" for c in scope
    )


def limit(m: Maker) -> Made:
    source, scope, _ = m.source()
    items = [i for i in m.columns_of(scope, 2) if not has_floats(i[1].type)]
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
    plain = [c for c in scope if not c.loose and not has_floats(c.type) and is_comparable(c.type)]
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


PLACES = (
    "percent_rank()", "cume_dist()", "ntile(3)", "lead({0})", "lag({0}, 2, {0})", "lead({0}, 1) IGNORE NULLS", "first_value({0})",
    "last_value({0})", "nth_value({0}, 2)", "first_value({0}) IGNORE NULLS", "last_value({0}) IGNORE NULLS",
)  # fmt: skip
"""Functions that need an order and have no frame of their own."""
FRAMED = (
    "count({0})",
    "sum({0})",
    "min({0})",
    "max({0})",
    "avg({0})",
    "first_value({0})",
    "last_value({0})",
    "nth_value({0}, 2)",
)
AGGREGATES = (
    *(Other(f"{name}({{0}}) OVER", (exact,), "array<TYPE>") for name in ("collect_list", "array_agg")),
    Other("sort_array(collect_set({0}) OVER", (exact,), "array<TYPE>"),
    Other("listagg({0}, ',') OVER", (is_type("string"),)),
    Other("mode({0}, true) OVER", (exact,)),
    Other("percentile({0}, 0.25) OVER", (is_type("tinyint", "int"),), "double"),
    *(Other(f"bit_{name}({{0}}) OVER", (is_type(*INTEGERS),)) for name in ("and", "or", "xor")),
    Other("bool_and({0}) OVER", (is_type("boolean"),)),
    Other("count_if({0}) OVER", (is_type("boolean"),), "bigint"),
    *(
        Other(f"{name}({{0}}, named_struct('y', {{1}}, 'x', {{0}})) OVER", (exact, exact))
        for name in ("max_by", "min_by")
    ),
    Other("first({0}) FILTER (WHERE {1}) OVER", (exact, is_type("boolean"))),
    Other("last({0}) FILTER (WHERE {1} IS NOT NULL) OVER", (exact, exact)),
)
"""Functions that GROUP BY has too, over frames of ROWS. A bracket that is open is closed behind the window."""
ROWS = (
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)  # fmt: skip
DISTANCES = {
    "int": ("1", "2"), "bigint": ("1", "3"), "tinyint": ("1", "2"), "date": ("1", "400"), "decimal(10,2)": ("1.5", "0.01"),
    "timestamp": ("INTERVAL '1' DAY", "INTERVAL '400' DAY"),
}  # fmt: skip
"""Of RANGE frames, by the type of what they are ordered by."""
IN_MONTHS = ("INTERVAL '1' MONTH", "INTERVAL '25' MONTH")
"""Of dates and timestamps too. Both ends of a frame are of one type."""


def framed_window(m: Maker) -> Made:
    """Functions over frames, and those of places, in a total order; or over a range, in which rows that tie are together."""
    source, scope, _ = m.source()
    plain = [c for c in scope if not c.loose and not has_floats(c.type) and is_comparable(c.type)]
    if not plain:
        return project(m)
    by = f"PARTITION BY {m.chance.choice(plain).sql} " if m.maybe(0.85) else ""
    calls: list[tuple[Expr, Column]] = []
    for _ in range(m.chance.choice((1, 1, 2))):
        if m.maybe(0.3) and (call := _aggregate_over(m, plain, by)) is not None:
            calls.append(call)
            continue
        ranged = m.expr.column([c for c in plain if c.type in DISTANCES])
        order, frame, function = _order(m, plain), "", m.chance.choice(PLACES)
        if m.maybe(0.6):
            function, frame = m.chance.choice(FRAMED), f" {m.chance.choice(ROWS)}"
            if ranged is not None and m.maybe(0.5):
                function = m.chance.choice(FRAMED[:5])
                order = f"{ranged.sql} {m.chance.choice(('ASC', 'DESC'))} NULLS {m.chance.choice(('FIRST', 'LAST'))}"
                distances = DISTANCES[ranged.type]
                if ranged.type in ("date", "timestamp") and m.maybe(0.4):
                    distances = IN_MONTHS
                ends = [m.chance.choice(distances) for _ in range(2)]
                frame = (
                    f" RANGE BETWEEN {ends[0]} PRECEDING AND {m.chance.choice(('CURRENT ROW', f'{ends[1]} FOLLOWING'))}"
                )
        adds = function.startswith(("sum", "avg"))
        column = m.expr.column([c for c in plain if not adds or c.type in INTEGERS[:3]])
        if column is None:
            continue
        operands = (Expr(column.sql, column.type),) if "{0}" in function else ()
        type_ = _window_type(function, column.type)
        calls.append((Expr(f"{function} OVER ({by}ORDER BY {order}{frame})", type_, operands), Column("", type_)))
    if not calls:
        return project(m)
    return m.made([*((Expr(c.sql, c.type), c) for c in plain), *calls], source, where=m.where(scope, 0.2))


def _aggregate_over(m: Maker, plain: Sequence[Column], by: str) -> tuple[Expr, Column] | None:
    """Any other aggregate function over some rows of a total order."""
    chosen = m.chance.choice(AGGREGATES)
    operands = [m.expr.column([c for c in plain if fits(c.type)]) for fits in chosen.fits]
    if None in operands:
        return None
    known = [Expr(c.sql, c.type) for c in operands if c is not None]
    type_ = chosen.type.replace("TYPE", known[0].type)
    ends = ")" * (chosen.text.count("(") - chosen.text.count(")"))
    over = f"{chosen.text} ({by}ORDER BY {_order(m, plain)} {m.chance.choice(ROWS)}){ends}"
    return Expr(over, type_, tuple(known)), Column("", type_)


def _window_type(function: str, operand: str) -> str:
    match function.split("(")[0]:
        case "percent_rank" | "cume_dist" | "avg":
            return "double"
        case "ntile":
            return "int"
        case "count" | "sum":
            return "bigint"
    return operand


def _in_some_order(m: Maker, plain: Sequence[Column]) -> str:
    """By all of these columns in any order, so that rows that tie are equal in them."""
    return f"ORDER BY {_order(m, m.chance.sample(plain, len(plain)))}"


def _plain(scope: Sequence[Column]) -> list[Column]:
    return [c for c in scope if not c.loose and not has_floats(c.type) and is_comparable(c.type)]


def _first_of(m: Maker, outer: Sequence[Column], most: int) -> tuple[Select, list[Column]] | None:
    """A subquery that refers to the query around it and takes its first rows. It does not select all that it is ordered by, and the ORDER BY
    stands beside the LIMIT or one query below. The key is not null: Spark sorts partitions by it, and that does not keep the order of rows if
    some keys are null."""
    source, scope, _ = m.read()
    plain = _plain(scope)
    pairs = [(a, b) for a in outer for b in plain if a.type == b.type and not a.loose]
    if not pairs:
        return None
    left, right = m.chance.choice(pairs)
    equal = f"{left.sql} {m.chance.choice(('=', '=', '<=>'))} {right.sql}"
    link = Expr(f"{equal} AND {right.sql} IS NOT NULL", BOOLEAN)
    order, where = _in_some_order(m, plain), m.where(plain, 0.3)
    if m.maybe(0.2):
        where = (*where, m.expr.compare([*outer, *plain], 0))
    limit = "" if m.maybe(0.1) and most > 1 else f"LIMIT {m.chance.choice((1, 1, 2, 3)) if most > 1 else 1}"
    offset = f"OFFSET {m.chance.choice((1, 2))}" if not limit or m.maybe(0.15) else ""
    chosen = m.chance.sample(plain, m.chance.randint(1, min(2, len(plain))) if most > 1 else 1)
    columns = [replace(c, sql=m.name("c")) for c in chosen]
    items = tuple(Item(Expr(c.sql, c.type), named.sql) for c, named in zip(chosen, columns, strict=True))
    if m.maybe(0.25):
        below: Any = Select(
            tuple(Item(Expr(c.sql, c.type), c.sql.split(".")[-1]) for c in plain), source, (), tail=(Expr(order, ""),)
        )
        inner = Derived(below, source.alias)
        return Select(items, inner, (link, *where), tail=(Expr(f"{limit} {offset}", ""),)), columns
    return Select(items, source, (link, *where), tail=(Expr(f"{order} {limit} {offset}", ""),)), columns


def first_of_subquery(m: Maker) -> Made:
    """The latest row: a value that is the first of a subquery, or IN its first rows."""
    source, scope, _ = m.read()
    found = _first_of(m, scope, 1)
    if found is None:
        return project(m)
    query, (column,) = found
    if m.maybe(0.7):
        return m.made([*m.items(scope), (Expr("{0}", column.type, (query,)), column)], source)
    left = m.expr.of_type(scope, column.type, 0)
    return m.made(m.items(scope), source, where=(Expr("{0} <=> {1}", BOOLEAN, (left, query)), *m.where(scope, 0.2)))


def lateral_limit(m: Maker) -> Made:
    """The first rows for each row, by LATERAL."""
    source, scope, _ = m.read()
    found = _first_of(m, scope, 3)
    if found is None:
        return project(m)
    query, columns = found
    alias = m.name("l")
    both = [*scope, *qualified(columns, alias)]
    if m.maybe(0.5):
        return m.made(m.items(both), Lateral(source, f", LATERAL ({{0}}) {alias}", (query,)))
    on = m.expr.compare(both, 0) if m.maybe(0.4) else Expr("true", BOOLEAN)
    return m.made(m.items(both), Lateral(source, f" LEFT JOIN LATERAL ({{0}}) {alias} ON {{1}}", (query, on)))


_READERS = ("first({0})", "last({0})", "collect_list({0})", "first({0}) IGNORE NULLS", "any_value({0})")


def order_below(m: Maker) -> Made:
    """What reads the order of a query in FROM: aggregates, functions OVER a partition without an order of its own, dropDuplicates."""
    source, scope, _ = m.read()
    plain = _plain(scope)
    if len(plain) < 2:
        return project(m)
    names = [replace(c, sql=m.name("c")) for c in plain]
    items = tuple(Item(Expr(c.sql, c.type), named.sql) for c, named in zip(plain, names, strict=True))
    limit = f" LIMIT {m.chance.choice((3, 5, 8))}" if m.maybe(0.3) else ""
    key_place, value_place = m.chance.sample(range(len(plain)), 2)
    known = Expr(f"{plain[key_place].sql} IS NOT NULL", BOOLEAN)  # as above
    ordered = Select(items, source, (known, *m.where(scope, 0.2)), tail=(Expr(_in_some_order(m, names) + limit, ""),))
    alias = m.name("o")
    below, inner = Derived(ordered, alias), qualified(names, alias)
    key, value = inner[key_place], inner[value_place]
    operand = (Expr(value.sql, value.type),)
    match m.chance.randrange(3):
        case 0:
            text = m.chance.choice(_READERS)
            type_ = f"array<{value.type}>" if "list" in text else value.type
            by = Expr(key.sql, key.type)
            made = [(by, key), (Expr(text, type_, operand), Column("", type_))]
            return m.made(made, below, where=m.where(inner, 0.2), group=(by,))
        case 1:
            text = m.chance.choice(("first_value({0})", "last_value({0})", "any_value({0})", "collect_list({0})"))
            type_ = f"array<{value.type}>" if "list" in text else value.type
            over = Expr(f"{text} OVER (PARTITION BY {key.sql})", type_, operand)
            return m.made([*m.columns_of(inner), (over, Column("", type_))], below)
        case _:
            made_query = m.made([(Expr(c.sql, c.type), c) for c in inner], below)
            by_name = (made_query.columns[inner.index(key)].sql,)
            return replace(made_query, query=Unduplicated(made_query.query, by_name), key=by_name)
