"""What is over ordered rows: LIMIT, and functions OVER windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.constructs.maker import Made, Maker, qualified
from tests.fuzz.constructs.single import project
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Derived, Expr, Select
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
