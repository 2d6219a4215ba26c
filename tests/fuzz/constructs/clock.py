"""Queries that read the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.constructs.maker import Made, Maker, key_of
from tests.fuzz.constructs.single import project
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Expr, Item, Select

NOW = {
    "timestamp": ("now()", "now() - INTERVAL 1 HOUR", "now() + INTERVAL 1 DAY", "date_trunc('hour', now())"),
    "timestamp_ntz": (
        "localtimestamp()",
        "localtimestamp() - INTERVAL 30 MINUTES",
        "localtimestamp() + INTERVAL 2 DAYS",
    ),
    "date": ("current_date()", "current_date() - 1", "date_add(current_date(), 7)"),
}
"""Values of the clock, by the type of what they are compared with."""

OPERATORS = ("<", "<=", ">", ">=", ">", "<=")


def temporal_filter(m: Maker) -> Made:
    """Rows enter and leave as time passes: conjunctions of comparisons with the clock."""
    source, scope, relation = m.source()
    conditions = tuple(_compared(m, scope) for _ in range(m.chance.randint(1, 3)))
    key = key_of(source, relation)
    return m.made(m.items_with_key(scope, key), source, key, where=(*conditions, *m.where(scope)))


def of_clock(m: Maker) -> Made:
    """What is computed again at a tick: the clock in a projection, in a condition with OR, or in an aggregate."""
    made = project(m)
    query = made.query
    assert isinstance(query, Select)
    compared = _compared(m, [])
    match m.chance.randrange(3):
        case 0:
            text, type_ = m.chance.choice(
                (("unix_timestamp()", "bigint"), ("current_date()", "date"), ("now()", "timestamp"))
            )
            name = m.name("c")
            items = (*query.items, Item(Expr(text, type_), name))
            return replace(made, query=replace(query, items=items), columns=(*made.columns, Column(name, type_)))
        case 1:
            either = Expr("({0}) OR ({1})", BOOLEAN, (compared, m.expr.literal("boolean")))
            return replace(made, query=replace(query, where=(*query.where, either)))
        case _:
            source, scope, _ = m.source()
            counted = Expr("count_if({0})", "bigint", (_compared(m, scope),))
            return m.made([(counted, Column("", "bigint"))], source, group=())


def _compared(m: Maker, scope: Sequence[Column]) -> Expr:
    """A column, or a time that a step reaches, compared with the clock."""
    column = m.expr.column([c for c in scope if c.type in NOW])
    left = Expr("timestamp_seconds(1582938000)", "timestamp") if column is None else Expr(column.sql, column.type)
    now = Expr(m.chance.choice(NOW[left.type]), left.type)
    operands = (left, now) if m.maybe(0.7) else (now, left)
    return Expr(f"{{0}} {m.chance.choice(OPERATORS)} {{1}}", BOOLEAN, operands)
