"""GROUP BY in its forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.constructs.maker import Made, Maker
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Derived, Expr, Lateral
from tests.fuzz.values import FLOATS, INTEGERS, INTERVALS, has_floats, is_comparable


def call(m: Maker, scope: Sequence[Column], *, spread: bool = False) -> tuple[Expr, Column]:
    """An aggregate call. `spread`: with DISTINCT, and with FILTER."""
    if m.maybe(0.3) and (found := other_call(m, scope)) is not None:
        made, what = found
        if spread and m.maybe(0.3) and not made.text.startswith("sort_array"):
            made = Expr("{0} FILTER (WHERE {1})", made.type, (made, m.expr.condition(scope, 1)))
        return made, what
    counted = m.expr.column(scope)
    function = m.chance.choice(("count", "count", "sum", "sum", "avg", "min", "max"))
    if counted is not None and not is_comparable(counted.type) and (spread or function in ("min", "max")):
        counted = None
        function = "count"
    inner = "DISTINCT " if spread and m.maybe(0.5) and function in ("count", "sum") else ""
    column = (
        counted if function in ("count", "min", "max") else m.expr.column([c for c in scope if _adds(m, c, function)])
    )
    if column is None or (function == "count" and not inner and m.maybe(0.5)):
        made, what = Expr("count(*)", "bigint"), Column("", "bigint")
    else:
        what = result_of(m, function, column)
        argument = Expr(column.sql, column.type)
        is_bounded = (function, column.type) != ("avg", "bigint")  # see _adds
        if m.maybe(0.2) and column.type not in FLOATS and column.type in m.expr.pools and is_bounded:
            argument = m.expr.of_type(scope, column.type, 2)
        made = Expr(f"{function}({inner}{{0}})", what.type, (argument,))
    if spread and m.maybe(0.3):
        made = Expr("{0} FILTER (WHERE {1})", made.type, (made, m.expr.condition(scope, 1)))
    return made, what


@dataclass(frozen=True)
class Other:
    """A call whose answer the values alone decide. `fits`: the types of its operands. In `type`, TYPE stands for the first one's."""

    text: str
    fits: tuple[Callable[[str], bool], ...]
    type: str = "TYPE"


def exact(type_: str) -> bool:
    return is_comparable(type_) and not has_floats(type_)


def is_type(*types: str) -> Callable[[str], bool]:
    return lambda type_: type_ in types


_NUMBERS = is_type(*INTEGERS)
_PAIR = "named_struct('a', {0}, 'b', {1})"
OTHERS = (
    Other("sort_array(collect_list({0}))", (exact,), "array<TYPE>"),
    Other("sort_array(collect_set({0}), false)", (exact,), "array<TYPE>"),
    Other("listagg({0}, ',') WITHIN GROUP (ORDER BY {0} DESC)", (is_type("string"),)),
    Other("listagg(DISTINCT {0}) WITHIN GROUP (ORDER BY {0})", (is_type("string"),)),
    Other("percentile_disc(0.5) WITHIN GROUP (ORDER BY {0})", (is_type("tinyint", "int"),), "double"),
    Other("median({0})", (is_type("smallint", "int"),), "double"),
    Other("percentile({0}, 0.25)", (is_type("tinyint", "int"),), "double"),
    Other("mode() WITHIN GROUP (ORDER BY {0})", (exact,)),
    *(Other(f"bit_{name}({{0}})", (_NUMBERS,)) for name in ("and", "or", "xor")),
    Other("bool_and({0})", (is_type("boolean"),)),
    Other("bool_or({0})", (is_type("boolean"),)),
    Other("count_if({0})", (is_type("boolean"),), "bigint"),
    Other("regr_count({0}, {1})", (_NUMBERS, _NUMBERS), "bigint"),
    Other("count(DISTINCT {0}, {1})", (exact, exact), "bigint"),
    Other("max_by({0}, named_struct('y', {1}, 'x', {0}))", (exact, exact)),
    Other("min_by({0}, named_struct('y', {1}, 'x', {0}))", (exact, exact)),
    Other(f"max({_PAIR})", (is_type("int"), is_type("string")), "struct<a:int,b:string>"),
    Other(f"min({_PAIR})", (is_type("int"), is_type("string")), "struct<a:int,b:string>"),
)


def other_call(m: Maker, scope: Sequence[Column]) -> tuple[Expr, Column] | None:
    """Any other aggregate function."""
    chosen = m.chance.choice(OTHERS)
    operands: list[Column] = []
    for fits in chosen.fits:
        column = m.expr.column([c for c in scope if fits(c.type)])
        if column is None:
            return None
        operands.append(column)
    type_ = chosen.type.replace("TYPE", operands[0].type)
    return Expr(chosen.text, type_, tuple(Expr(c.sql, c.type) for c in operands)), Column("", type_)


def _adds(m: Maker, column: Column, function: str) -> bool:
    """Whether its sum may be compared. Spark adds numbers to an average as doubles, each sum of which is rounded; and doubles of both signs may
    cancel each other out, and leave what was rounded."""
    if column.type in FLOATS:
        return column.summable
    if function == "avg" and column.type == "bigint":
        return not m.wild
    return column.type in (*INTEGERS, *INTERVALS) or column.type.startswith("decimal")


def result_of(m: Maker, function: str, column: Column) -> Column:
    if function == "count":
        return Column("", "bigint")
    if function in ("min", "max"):
        return Column("", column.type, column.summable, "zero" if has_floats(column.type) else "")
    if column.type.startswith("decimal"):
        precision, scale = map(int, column.type[len("decimal(") : -1].split(","))
        more = (10, 0) if function == "sum" else (4, 4)
        type_ = f"decimal({min(38, precision + more[0])},{min(38, scale + more[1])})"
        return Column("", type_)
    if function == "sum" and column.type in INTEGERS:
        return Column("", "bigint")
    if column.type in INTERVALS:
        return Column("", column.type if function == "sum" else "interval year to month")
    return Column("", "double", function == "sum" and column.summable)


def grouped(m: Maker, source: Any, scope: list[Column], *, spread: bool = False, shape: str = "") -> Made:
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
    return grouped(m, source, scope)


def spread_aggregate(m: Maker) -> Made:
    source, scope, _ = m.source()
    made = grouped(m, source, scope, spread=True)
    plain = [c for c in scope if not c.loose and exact(c.type)]
    if len(plain) < 2 or m.maybe(0.4):
        return made
    # Several DISTINCT arguments, for which Spark multiplies the rows.
    calls = [Expr("count(DISTINCT {0})", "bigint", (Expr(c.sql, c.type),)) for c in m.chance.sample(plain, 2)]
    keys = [(expr, replace(column, loose="")) for expr, column in m.columns_of(scope)[:1]]
    items = [*keys, call(m, scope), *((c, Column("", c.type)) for c in calls)]
    return m.made(items, source, [keys[0][0]], where=m.where(scope), group=(keys[0][0],))


def grouping_sets(m: Maker) -> Made:
    source, scope, _ = m.source()
    shape = m.chance.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
    return grouped(m, source, scope, spread=m.maybe(0.3), shape=shape)


def pivot(m: Maker) -> Made:
    """A column for each of some values."""
    source, scope, _ = m.source()
    by = m.expr.column([c for c in scope if c.type in ("int", "bigint", "string", "boolean", "date")])
    if by is None:
        return aggregate(m)
    keys = [item for item in m.columns_of(scope) if item[0].sql != by.sql][:2]
    expr, what = call(m, scope)
    if not keys or what.loose or not expr.operands or "WITHIN" in expr.text:  # Spark fails for an order in PIVOT
        return aggregate(m)
    items = [*keys, (Expr(by.sql, by.type), by), *((o, Column("", o.type)) for o in expr.operands)]
    inner = m.made(items, source, where=m.where(scope))
    alias, pivoted = m.name("q"), m.name("p")
    names = [column.sql for column in inner.columns]
    argument = expr.text.format(*names[len(keys) + 1 :])
    values = list(dict.fromkeys(m.expr.literal(by.type).sql for _ in range(2)))
    listed = ", ".join(f"{value} AS {pivoted}_{n}" for n, value in enumerate(values))
    text = f" PIVOT ({argument} FOR {names[len(keys)]} IN ({listed})) {pivoted}"
    found = [Column(f"{pivoted}.{c.sql}", c.type, loose="") for c in inner.columns[: len(keys)]]
    found += [Column(f"{pivoted}.{pivoted}_{n}", what.type) for n in range(len(values))]
    return m.made([(Expr(c.sql, c.type), c) for c in found], Lateral(Derived(inner.query, alias), text, ()))


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


def _moment(m: Maker, scope: Sequence[Column]) -> Expr:
    """A timestamp of the row."""
    for type_, text in (
        ("timestamp", "{0}"),
        ("date", "CAST({0} AS timestamp)"),
        ("timestamp_ntz", "CAST({0} AS timestamp)"),
    ):
        if (column := m.expr.column(scope, type_)) is not None:
            return Expr(text, "timestamp", (Expr(column.sql, type_),))
    column = m.expr.column([c for c in scope if c.type in ("tinyint", "smallint", "int")])
    return Expr(
        "timestamp_seconds({0})", "timestamp", (Expr(column.sql, column.type) if column else m.expr.literal("int"),)
    )


def _by_time(m: Maker, function: str, sizes: Sequence[str]) -> Made:
    source, scope, _ = m.source()
    window = Expr(f"{function}({{0}}, {m.chance.choice(sizes)})", "struct", (_moment(m, scope),))
    start = Expr("{0}.start", "timestamp", (window,))
    calls = [call(m, scope) for _ in range(2)]
    return m.made([(start, Column("", "timestamp")), *calls], source, [start], group=(window,))
