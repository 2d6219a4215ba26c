"""Queries over one input, row by row or as a set."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz import python_functions
from tests.fuzz.constructs.maker import Made, Maker, key_of, qualified
from tests.fuzz.expressions import MAP, MAPS, Column
from tests.fuzz.terms import Derived, Expr, Lateral, Unduplicated
from tests.fuzz.values import is_comparable


def project(m: Maker) -> Made:
    source, scope, relation = m.source()
    key = key_of(source, relation)
    return m.made(m.items_with_key(scope, key), source, key, where=m.where(scope, 0.4))


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


def generated(m: Maker) -> Made:
    """Rows by the other generators."""
    source, scope, _ = m.read()
    alias = m.name("x")
    names = [m.name("e"), m.name("e")]
    outer = m.chance.choice(("", "OUTER "))
    kind = m.chance.randrange(4)
    types = ["int", "string"]
    if kind == 0:
        parts = [m.expr.of_type(scope, "int", 1), m.expr.of_type(scope, "string", 1)] * 2
        call = "stack(2, {0}, {1}, {2}, {3})"
    elif kind == 1:
        structs = [m.expr.of_type(scope, "struct<a:int,b:string>", 1) for _ in range(2)]
        parts, call = structs, "inline(array({0}, {1}))"
    elif kind == 2:
        parts, call, types = [m.expr.of_type(scope, "string", 1)], "json_tuple({0}, 'a', 'b')", ["string", "string"]
    else:
        parts, call, types = [Expr(m.chance.choice(MAPS), MAP)], "explode({0})", ["string", "int"]
        own = m.expr.column(scope, MAP)
        parts = [Expr(own.sql, MAP)] if own else parts
    found = [Column(f"{alias}.{name}", type_) for name, type_ in zip(names, types, strict=True)]
    text = f" LATERAL VIEW {outer}{call} {alias} AS {', '.join(names)}"
    return m.made([*((Expr(c.sql, c.type), c) for c in found), *m.items(scope)], Lateral(source, text, tuple(parts)))


def unpivot(m: Maker) -> Made:
    """Columns of one type become rows."""
    source, scope, _ = m.source()
    kinds = [c.type for c in scope if not c.loose and is_comparable(c.type)]
    twice = [kind for kind in kinds if kinds.count(kind) > 1]
    if not twice:
        return project(m)
    type_ = m.chance.choice(twice)
    taken = [c for c in scope if c.type == type_ and not c.loose][:3]
    others = [c for c in scope if c not in taken and not c.loose][:3]
    inner = m.made([(Expr(c.sql, c.type), c) for c in (*others, *taken)], source, where=m.where(scope))
    alias, name, value, whole = m.name("q"), m.name("n"), m.name("v"), m.name("u")
    listed = ", ".join(c.sql for c in inner.columns[len(others) :])
    nulls = m.chance.choice(("", "INCLUDE NULLS ", "EXCLUDE NULLS "))
    text = f" UNPIVOT {nulls}({value} FOR {name} IN ({listed})) {whole}"
    found = [Column(f"{whole}.{c.sql}", c.type, c.summable) for c in inner.columns[: len(others)]]
    found += [Column(f"{whole}.{name}", "string"), Column(f"{whole}.{value}", type_)]
    return m.made([(Expr(c.sql, c.type), c) for c in found], Lateral(Derived(inner.query, alias), text, ()))


_IN_VARIANTS = frozenset({"smallint", "int", "bigint", "decimal(10,2)", "string", "boolean", "date", "timestamp"})
"""Not doubles, of which an older Java writes other digits into JSON."""


def variant(m: Maker) -> Made:
    """A VARIANT of some columns in FROM, and what is taken of it."""
    source, scope, _ = m.source()
    columns = [Expr(c.sql, c.type) for c in scope if not c.loose and c.type in _IN_VARIANTS][:3]
    parts = (*columns, m.expr.of_type(scope, "int", 1), m.expr.of_type(scope, "string", 1))
    fields = ", ".join(f"{{{place}}} AS f{place}" for place in range(len(parts)))
    whole = Expr(f"parse_json(to_json(struct({fields})))", "variant", parts)
    if m.maybe(0.3):
        condition = m.expr.condition(scope)
        whole = Expr("CASE WHEN {0} THEN {1} END", "variant", (condition, whole))
    inner = m.made([*m.columns_of(scope), (whole, Column("", "variant"))], source, where=m.where(scope))
    alias = m.name("q")
    value = f"{alias}.{inner.columns[-1].sql}"
    field = f"f{m.chance.randrange(len(parts) + 1)}"
    taken = [
        Expr(f"to_json({value})", "string"),
        Expr(f"{value}:{field}::string", "string"),
        Expr(f"try_variant_get({value}, '$.{field}', 'int')", "int"),
        Expr(f"try_cast({value}:{field} AS date)", "date"),
        Expr(f"is_variant_null({value}:{field})", "boolean"),
        Expr(f"to_json(array({value}, {value}:{field}))", "string"),
        Expr(f"cast({value} AS map<string, string>)['{field}']", "string"),
    ]
    chosen = m.chance.sample(taken, m.chance.randint(1, 3))
    outer = qualified(inner.columns[:-1], alias)
    items = [*((Expr(c.sql, c.type), c) for c in outer), *((expr, Column("", expr.type)) for expr in chosen)]
    where = (Expr(f"{value} IS NOT NULL", "boolean"),) if m.maybe(0.2) else ()
    whole_rows = Derived(inner.query, alias)
    if not m.maybe(0.3):
        return m.made(items, whole_rows, where=where)
    member = m.name("e")
    items += [
        (Expr(f"{member}.key", "string"), Column("", "string")),
        (Expr(f"{member}.pos", "int"), Column("", "int")),
    ]
    items += [(Expr(f"{member}.value::string", "string"), Column("", "string"))]
    function = m.chance.choice(("variant_explode", "variant_explode_outer"))
    return m.made(items, Lateral(whole_rows, f", LATERAL {function}({value}) {member}", ()), where=where)


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
