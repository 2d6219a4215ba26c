"""WITH RECURSIVE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.constructs.joins import equality
from tests.fuzz.constructs.maker import Made, Maker
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Expr, Item, Joined, Lateral, Named, Recursive, Select, SetOperation

LEVELS = (1, 1, 2)
"""More would give more rows than a test can compare: a row may meet every other one at each level."""


def recursion(m: Maker) -> Made:
    """Rows that are joined with tables again and again, with what may stand in a recursive part."""
    left, scope, _ = m.source()
    alias = m.name("r")
    first = [(Item(expr, m.name("k")), column) for expr, column in m.columns_of(scope)[:3]]
    own = [Column(f"{alias}.{item.name}", column.type) for item, column in first]
    level = m.name("l")
    started = Select((*(item for item, _ in first), Item(Expr("0", "int"), level)), left, m.where(scope))
    levels = m.chance.choice(LEVELS)
    whole, read, where = m.chance.choice(SHAPES)(m, Named(alias, alias), own)
    following: list[Item] = []
    for (item, _), column in zip(first, own, strict=True):
        following.append(Item(_next(m, column, read), item.name))
    number = Column(f"{alias}.{level}", "int")
    following.append(Item(Expr(f"{number.sql} + 1", "int"), level))
    bound = Expr(f"{number.sql} < {levels}", BOOLEAN)
    part = Select(tuple(following), whole, (bound, *where), distinct=m.maybe(0.5))
    begun: Select | SetOperation = started
    if m.maybe(0.15):
        begun = SetOperation(started, started, "UNION ALL")
    names = (*(item.name for item, _ in first), level)
    source = Recursive(begun, part, names, alias)
    return m.made(m.items([*own, number]), source, where=m.where([*own, number], 0.15))


def _next(m: Maker, column: Column, read: list[Column]) -> Expr:
    """The value of this column at the next level. Its type must be the same."""
    alike = [c for c in read if c.type == column.type and not c.loose]
    if alike and m.maybe(0.7):
        chosen = m.chance.choice(alike)
        return Expr(chosen.sql, chosen.type)
    if m.maybe(0.2) and column.type in m.expr.pools:
        made = m.expr.of_type([column, *alike], column.type, 1)
        return Expr(f"CAST({{0}} AS {column.type})", column.type, (made,))
    return Expr(column.sql, column.type)


Part = tuple[Any, list[Column], tuple[Expr, ...]]
"""What is in FROM of the recursive part, what it can read there besides the recursion, and its conditions."""


def _joined(m: Maker, recursion: Named, own: list[Column]) -> Part:
    table, other, _ = m.read()
    on = equality(m, own, other) or m.expr.compare([*own, *other], 0)
    left, right = (recursion, table) if m.maybe(0.7) else (table, recursion)
    return Joined(left, right, "INNER", (on,)), other, m.where([*own, *other], 0.2)


def _with_query(m: Maker, recursion: Named, own: list[Column]) -> Part:
    """Joined with a query, which does not depend on the recursion."""
    table, other, _ = m.source()
    on = equality(m, own, other) or m.expr.compare([*own, *other], 0)
    return Joined(recursion, table, "INNER", (on,)), other, ()


def _left(m: Maker, recursion: Named, own: list[Column]) -> Part:
    table, other, _ = m.read()
    on = equality(m, own, other) or m.expr.compare([*own, *other], 0)
    return Joined(recursion, table, "LEFT", (on,)), other, ()


def _three(m: Maker, recursion: Named, own: list[Column]) -> Part:
    table, other, _ = m.read()
    third, more, _ = m.read()
    on = equality(m, own, other) or m.expr.compare([*own, *other], 0)
    also = equality(m, [*own, *other], more) or m.expr.compare([*own, *more], 0)
    return Joined(Joined(recursion, table, "INNER", (on,)), third, "INNER", (also,)), [*other, *more], ()


def _filtered(m: Maker, recursion: Named, own: list[Column]) -> Part:
    """IN or EXISTS over another table."""
    table, other, _ = m.read()
    column = m.expr.column([c for c in own if c.type in {o.type for o in other}])
    if column is None or m.maybe(0.5):
        on = equality(m, own, other) or m.expr.compare([*own, *other], 0)
        query = Select((Item(Expr("1", "int"), m.name("c")),), table, (on,))
        return recursion, [], (Expr(f"{m.chance.choice(('', 'NOT '))}EXISTS {{0}}", BOOLEAN, (query,)),)
    chosen = m.expr.of_type([c for c in other if not c.loose], column.type, 0)
    query = Select((Item(chosen, m.name("c")),), table, m.where(other, 0.2))
    return recursion, [], (Expr("{0} IN {1}", BOOLEAN, (Expr(column.sql, column.type), query)),)


def _exploded(m: Maker, recursion: Named, own: list[Column]) -> Part:
    alias, column = m.name("x"), m.name("e")
    parts = (m.expr.of_type(own, "int", 0), m.expr.of_type(own, "int", 0))
    array = Expr("array({0}, {1})", "array<int>", parts)
    outer = m.chance.choice(("", "OUTER "))
    text = f" LATERAL VIEW {outer}explode({{0}}) {alias} AS {column}"
    return Lateral(recursion, text, (array,)), [Column(f"{alias}.{column}", "int")], ()


SHAPES: tuple[Callable[[Maker, Named, list[Column]], Part], ...] = (
    _joined, _joined, _joined, _with_query, _left, _three, _filtered, _exploded,
)  # fmt: skip
