"""Queries within expressions, and LATERAL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fuzz.constructs.aggregates import call
from tests.fuzz.constructs.joins import equality
from tests.fuzz.constructs.maker import Made, Maker, qualified
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Expr, Item, Joined, Lateral, Select
from tests.fuzz.values import has_floats, is_comparable


def _subquery(m: Maker, outer: Sequence[Column], *, correlated: float) -> tuple[Any, list[Column], tuple[Expr, ...]]:
    source, scope, _ = m.read()
    link = equality(m, outer, scope) if m.maybe(correlated) else None
    return source, scope, (*((link,) if link else ()), *m.where(scope, 0.3))


def in_subquery(m: Maker) -> Made:
    source, scope, _ = m.source()
    inner, inner_scope, where = _subquery(m, scope, correlated=0.2)
    shared = [c for c in scope if c.type in {o.type for o in inner_scope}]
    with_zeros = [c for c in shared if has_floats(c.type)]  # of which two equal values may have other bytes
    column = m.expr.column(with_zeros if with_zeros and m.maybe(0.4) else shared)
    left = Expr(column.sql, column.type) if column else m.expr.literal("int")
    chosen = m.expr.of_type(inner_scope, left.type, 0)
    is_value = m.maybe(0.3)
    if (
        is_value
    ):  # with a NULL on either side, Spark's answer is another one where a view above asks for the value in a condition
        where = (*where, Expr("{0} IS NOT NULL", BOOLEAN, (chosen,)))
    query = Select((Item(chosen, m.name("c")),), inner, where)
    test = Expr(f"{{0}} {m.chance.choice(('IN', 'IN', 'NOT IN'))} {{1}}", BOOLEAN, (left, query))
    if is_value:
        known = Expr("{0} IS NOT NULL", BOOLEAN, (left,))
        return m.made([*m.items(scope), (test, Column("", BOOLEAN))], source, where=(known,))
    if m.maybe(0.35):
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


def anywhere(m: Maker) -> Made:
    """Subqueries as values, below OR and CASE, of several columns, and in the condition of a join."""
    source, scope, _ = m.source()
    tests = [m.chance.choice((_exists, _in_several, _compared))(m, scope) for _ in range(m.chance.choice((1, 1, 2)))]
    match m.chance.randrange(4):
        case 0:  # as values
            return m.made([*m.items(scope), *((test, Column("", BOOLEAN)) for test in tests)], source)
        case 1:
            value = Expr("CASE WHEN {0} THEN 1 ELSE 0 END", "int", tuple(tests[:1]))
            return m.made([*m.items(scope), (value, Column("", "int"))], source, where=tuple(tests[1:]))
        case 2:
            right, other, _ = m.read()
            on = equality(m, scope, other) or m.expr.compare([*scope, *other], 0)
            both = [*scope, *other]
            test = m.chance.choice((_exists, _in_several))(m, scope)  # Spark has no correlated value there
            return m.made(m.items(both), Joined(source, right, "INNER", (on, test)))
        case _:
            whole = tests[0] if len(tests) == 1 else Expr("({0}) OR ({1})", BOOLEAN, tuple(tests))
            negated = Expr("NOT ({0})", BOOLEAN, (whole,)) if m.maybe(0.3) else whole
            return m.made(m.items(scope), source, where=(negated, *m.where(scope, 0.3)))


def _exists(m: Maker, scope: Sequence[Column]) -> Expr:
    inner, _, where = _subquery(m, scope, correlated=0.8)
    query = Select((Item(Expr("1", "int"), m.name("c")),), inner, where)
    return Expr(f"{m.chance.choice(('', 'NOT '))}EXISTS {{0}}", BOOLEAN, (query,))


def _in_several(m: Maker, scope: Sequence[Column]) -> Expr:
    """One or two columns IN, or NOT IN."""
    inner, inner_scope, where = _subquery(m, scope, correlated=0.3)
    known = {c.type for c in inner_scope}
    columns = [c for c in scope if c.type in known and not c.loose and is_comparable(c.type)]
    if not columns:
        return _exists(m, scope)
    left = m.chance.sample(columns, min(len(columns), m.chance.choice((1, 2, 2))))
    items = tuple(Item(m.expr.of_type(inner_scope, c.type, 0), m.name("c")) for c in left)
    places = ", ".join(f"{{{n}}}" for n in range(len(left)))
    text = f"({places}) {m.chance.choice(('IN', 'NOT IN'))} {{{len(left)}}}"
    return Expr(text, BOOLEAN, (*(Expr(c.sql, c.type) for c in left), Select(items, inner, where)))


def _compared(m: Maker, scope: Sequence[Column]) -> Expr:
    """A column with the one value of a subquery."""
    inner, inner_scope, where = _subquery(m, scope, correlated=0.5)
    expr, column = call(m, inner_scope)
    if column.loose or not is_comparable(column.type):
        return _exists(m, scope)
    query = Select((Item(expr, m.name("c")),), inner, where, ())
    left = m.expr.of_type(scope, column.type, 0)
    return Expr(f"{{0}} {m.chance.choice(('<=', '=', '<=>', '<>'))} {{1}}", BOOLEAN, (left, query))


def lateral(m: Maker) -> Made:
    source, scope, _ = m.read()
    inner, inner_scope, where = _subquery(m, scope, correlated=0.9)
    made = m.made(m.columns_of(inner_scope), inner, where=where)
    alias = m.name("l")
    both = [*scope, *qualified(made.columns, alias)]
    return m.made(m.items(both), Lateral(source, f", LATERAL ({{0}}) {alias}", (made.query,)))
