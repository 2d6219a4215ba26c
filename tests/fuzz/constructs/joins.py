"""Queries over several inputs that are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.fuzz.constructs.aggregates import call, result_of
from tests.fuzz.constructs.maker import Made, Maker, qualified
from tests.fuzz.constructs.sets import constant
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Derived, Expr, Joined, Rows
from tests.fuzz.values import FLOATS, INTEGERS, is_comparable


def equality(m: Maker, left: Sequence[Column], right: Sequence[Column]) -> Expr | None:
    pairs = [(a, b) for a in left for b in right if a.type == b.type and not a.loose and not b.loose]
    if m.maybe(0.15):  # Spark casts one of them
        numbers = [(a, b) for a in left for b in right if is_number(a) and is_number(b)]
        pairs = numbers or pairs
    if not pairs:
        return None
    a, b = m.chance.choice(pairs)
    operator = "<=>" if m.maybe(0.2) else "="
    sides = [Expr(a.sql, a.type), Expr(b.sql, b.type)]
    if m.maybe(0.2):
        computed = m.chance.randrange(2)
        sides[computed] = m.expr.of_type((left, right)[computed], sides[computed].type, 2)
    return Expr(f"{{0}} {operator} {{1}}", BOOLEAN, tuple(sides))


def is_number(column: Column) -> bool:
    return not column.loose and (column.type in (*INTEGERS, *FLOATS) or column.type.startswith("decimal"))


def joined(m: Maker, kind: str, residual: float = 0.3) -> tuple[Joined, list[Column], list[Column]]:
    left, left_scope, _ = m.source()
    right, right_scope, _ = m.source()
    on = [e for e in (equality(m, left_scope, right_scope) for _ in range(m.chance.choice((1, 1, 2)))) if e]
    if not on or m.maybe(residual):
        on.append(m.expr.compare([*left_scope, *right_scope], 1))
    return Joined(left, right, kind, tuple(dict.fromkeys(on))), left_scope, right_scope


def join_of(kind: str) -> Callable[[Maker], Made]:
    def make(m: Maker) -> Made:
        source, left, right = joined(m, kind)
        both = left if kind in ("LEFT SEMI", "LEFT ANTI") else [*left, *right]
        return m.made(m.items(both), source, where=m.where(both, 0.25))

    return make


def cross_join(m: Maker) -> Made:
    left, left_scope, _ = m.read()
    right, right_scope, _ = m.read()
    both = [*left_scope, *right_scope]
    return m.made(m.items(both), Joined(left, right, "CROSS", ()), where=m.where(both, 0.6))


def self_join(m: Maker) -> Made:
    left, left_scope, relation = m.read()
    right, right_scope, _ = m.read(relation)
    both = [*left_scope, *right_scope]
    on = equality(m, left_scope, right_scope) or m.expr.compare(both, 0)
    return m.made(m.items(both), Joined(left, right, "INNER", (on,)), where=m.where(both, 0.3))


def sums_over_join(m: Maker) -> Made:
    """Sums of one side, by columns of the other: these are taken before the join, if it has equalities alone and no key of a side is a group."""
    if m.maybe(0.3):
        source, left, right = joined(m, "INNER", residual=0.1)
        sides = [left, right] if m.maybe(0.5) else [right, left]
        calls = [call(m, sides[0]) for _ in range(m.chance.randint(1, 3))]
    else:
        one, first, relation = m.read()
        other, second, _ = m.read(relation if m.maybe(0.5) else None)
        pairs = [(a, b) for a in first for b in second if a.type == b.type and not a.loose and not b.loose]
        equal = [(a, b) for a, b in pairs if is_comparable(a.type)]
        if not equal:
            return three_joined(m)
        a, b = m.chance.choice(equal)
        source = Joined(one, other, "INNER", (Expr(f"{a.sql} = {b.sql}", BOOLEAN),))
        sides = [first, second] if m.maybe(0.5) else [second, first]
        calls = [_linear(m, sides[0]) for _ in range(m.chance.randint(1, 3))]
    keys = m.columns_of(sides[1])[: m.chance.choice((0, 1, 2))]
    group = tuple(expr for expr, _ in keys)
    return m.made([*keys, *calls], source, list(group), group=group)


def _linear(m: Maker, scope: Sequence[Column]) -> tuple[Expr, Column]:
    """A count, or a sum or average of exact numbers."""
    column = m.expr.column([c for c in scope if c.type in INTEGERS[:3] or c.type.startswith("decimal(10")])
    if column is None or m.maybe(0.3):
        return Expr("count(*)", "bigint"), Column("", "bigint")
    function = m.chance.choice(("count", "sum", "avg"))
    what = Column("", "bigint") if function == "count" else result_of(m, function, column)
    return Expr(f"{function}({{0}})", what.type, (Expr(column.sql, column.type),)), what


def three_joined(m: Maker) -> Made:
    source, left, right = joined(m, "INNER")
    third, scope, _ = m.read()
    both = [*left, *right]
    on = equality(m, both, scope) or m.expr.compare([*both, *scope], 0)
    every = [*both, *scope]
    return m.made(m.items(every), Joined(source, third, "INNER", (on,)), where=m.where(every, 0.2))


def read_twice(m: Maker) -> Made:
    """One query, of which a join reads two copies. Parts of them are one node of the circuit."""
    m.nested += 1
    made = m.chance.choice(m.inner)(m)
    m.nested -= 1
    sides, scopes = [], []
    for _ in range(2):
        alias = m.name("q")
        sides.append(Derived(made.query, alias))
        scopes.append(qualified(made.columns, alias))
    both = [*scopes[0], *scopes[1]]
    on = equality(m, *scopes) or m.expr.compare(both, 0)
    kind = m.chance.choice(("INNER", "LEFT", "FULL", "LEFT SEMI", "LEFT ANTI"))
    shown = scopes[0] if kind in ("LEFT SEMI", "LEFT ANTI") else both
    return m.made(m.items(shown), Joined(sides[0], sides[1], kind, (on,)), where=m.where(shown, 0.2))


def with_values(m: Maker) -> Made:
    """A join with rows that are written in the query."""
    left, scope, _ = m.read()
    alias = m.name("v")
    column = m.expr.column([c for c in scope if c.type in m.expr.pools and "<" not in c.type])
    if column is None:
        return constant(m)
    listed = [m.expr.literal(column.type).sql for _ in range(m.chance.randint(1, 3))]
    rows = ", ".join(f"({value}, {number})" for number, value in enumerate(listed))
    right = Rows(f"VALUES {rows} AS {alias}(k, n)")
    on = Expr(f"{{0}} = {alias}.k", BOOLEAN, (Expr(column.sql, column.type),))
    both = [*scope, Column(f"{alias}.n", "int")]
    return m.made(m.items(both), Joined(left, right, "INNER", (on,)))
