"""Queries within expressions, and LATERAL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fuzz.constructs.aggregates import call
from tests.fuzz.constructs.joins import equality
from tests.fuzz.constructs.maker import Made, Maker, qualified
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Expr, Item, Lateral, Select


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
