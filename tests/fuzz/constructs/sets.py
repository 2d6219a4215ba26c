"""UNION, INTERSECT, EXCEPT, and rows that are written in the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.constructs.maker import Made, Maker
from tests.fuzz.expressions import Column
from tests.fuzz.terms import Expr, Rows, SetOperation
from tests.fuzz.values import DDL


def constant(m: Maker) -> Made:
    if m.maybe(0.5):
        alias = m.name("r")
        return m.made([(Expr(f"{alias}.id", "bigint"), Column("", "bigint"))], Rows(f"range(0, 4) {alias}"))
    types = m.chance.sample(list(DDL), 2)
    alias = m.name("v")
    rows = ", ".join(f"({m.expr.literal(types[0]).sql}, {m.expr.literal(types[1]).sql})" for _ in range(3))
    items = [(Expr(f"{alias}.x{i}", t), Column("", t)) for i, t in enumerate(types)]
    return m.made(items, Rows(f"VALUES {rows} AS {alias}(x0, x1)"))


def set_operation(kind: str) -> Callable[[Maker], Made]:
    def make(m: Maker) -> Made:
        left, scope, _ = m.source()
        items = m.items(scope, compared=kind != "UNION ALL")
        first = m.made(items, left, where=m.where(scope))
        right, other, _ = m.source()
        second = [(m.expr.of_type(other, column.type, 1), Column("", column.type)) for column in first.columns]
        query = SetOperation(first.query, m.made(second, right, where=m.where(other)).query, kind)
        # The second query's values may be other doubles than the first one's.
        columns = tuple(replace(column, summable=False) for column in first.columns)
        return Made(query, columns, None if kind.endswith("ALL") else tuple(c.sql for c in columns))

    return make
