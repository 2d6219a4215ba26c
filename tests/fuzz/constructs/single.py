"""Queries over one input, row by row or as a set."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz import python_functions
from tests.fuzz.constructs.maker import Made, Maker, key_of
from tests.fuzz.expressions import Column
from tests.fuzz.terms import Expr, Lateral, Unduplicated


def project(m: Maker) -> Made:
    source, scope, relation = m.source()
    items = m.items(scope)
    key = key_of(source, relation)
    if key and m.maybe(0.7):
        items = [*((part, Column("", part.type)) for part in key), *(i for i in items if i[0] not in key)]
    return m.made(items, source, key, where=m.where(scope, 0.4))


def distinct(m: Maker) -> Made:
    source, scope, _ = m.source()
    items = m.items(scope, compared=True)
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


def python_function(m: Maker) -> Made:
    """A function in Python in a projection, and sometimes in a filter."""
    source, scope, relation = m.source()
    operands = [Expr(c.sql, c.type) for c in scope if not c.loose and c.type in python_functions.TYPES][:3]
    made = Expr(
        f"{python_functions.NAME}({', '.join(f'{{{place}}}' for place in range(len(operands)))})",
        "string",
        tuple(operands),
    )
    where = (Expr("{0} > '(1'", "boolean", (made,)),) if m.maybe(0.3) else ()
    return m.made([*m.columns_of(scope), (made, Column("", "string"))], source, key_of(source, relation), where=where)
