"""GROUP BY in its forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.fuzz.constructs.maker import Made, Maker
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Expr
from tests.fuzz.values import FLOATS, INTEGERS, INTERVALS, has_floats, is_comparable


def call(m: Maker, scope: Sequence[Column], *, spread: bool = False) -> tuple[Expr, Column]:
    """An aggregate call. `spread`: with DISTINCT, and with FILTER."""
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
    return grouped(m, source, scope, spread=True)


def grouping_sets(m: Maker) -> Made:
    source, scope, _ = m.source()
    return grouped(m, source, scope, spread=m.maybe(0.3), shape=m.chance.choice(("ROLLUP", "CUBE")))


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
