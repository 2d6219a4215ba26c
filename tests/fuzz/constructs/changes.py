"""AUTO CDC over changes with a sequence, and streaming tables that several flows fill."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.constructs.maker import Made, Maker, key_of
from tests.fuzz.constructs.single import project
from tests.fuzz.expressions import BOOLEAN, Column
from tests.fuzz.terms import Cdc, Expr, Flows, Item, Select
from tests.fuzz.values import has_floats

END_COLUMNS = ("__START_AT", "__END_AT")


def auto_cdc(m: Maker) -> Made:
    """Changes that name a key, a sequence and sometimes deletes. Two changes of a key have one sequence only if they are equal, or if the view
    may have any of them."""
    source, scope, relation = m.source()
    identity = key_of(source, relation)
    known = [c for c in scope if not c.loose and "map<" not in c.type]
    ordered = [c for c in known if not has_floats(c.type)]
    keys_of = [c for c in ordered if "<" not in c.type]
    if len(ordered) < 2 or not keys_of:
        return project(m)
    keys = m.chance.sample(keys_of, min(len(keys_of) - (len(keys_of) == len(ordered)), m.chance.choice((1, 1, 1, 2))))
    if not keys:
        return project(m)
    first = m.chance.choice([c for c in ordered if c not in keys])
    scd_type, any_of = m.chance.choice((1, 2)), False
    own = {part.sql for part in identity or ()}
    unique = bool(own) and own <= {c.sql for c in ordered} and m.maybe(0.5)
    if unique:  # no two changes have one key of their table
        columns = [c for c in known if c in keys or c == first or c.sql in own or m.maybe(0.6)]
        sequence = [first, *(c for c in columns if c.sql in own and c not in keys and c != first)]
        if {first.sql, *(c.sql for c in keys)} >= own:
            sequence = [first]
    else:
        any_of = scd_type == 1 and m.maybe(0.5)
        columns = [c for c in known if c in keys or c == first or ((any_of or c in ordered) and m.maybe(0.6))]
        sequence = [first] if any_of else [first, *(c for c in columns if c not in keys and c != first)]
    return _flow(m, source, columns, keys, sequence, scd_type=scd_type, any_of=any_of, unique=unique)


def _flow(
    m: Maker, source: object, columns: Sequence[Column], keys: Sequence[Column], sequence: Sequence[Column],
    *, scd_type: int, any_of: bool, unique: bool,
) -> Made:  # fmt: skip
    names = {c.sql: m.name("c") for c in columns}
    own = [Column(names[c.sql], c.type, c.summable) for c in columns]
    there = tuple(Expr(f"{c.sql} IS NOT NULL", BOOLEAN) for c in [*keys, *sequence[:1]])
    where = (*(there if m.maybe(0.93) else ()), *m.where(list(columns), 0.15))
    changes = Select(tuple(Item(Expr(c.sql, c.type), names[c.sql]) for c in columns), source, where)
    key_names = tuple(names[c.sql] for c in keys)
    parts = [names[c.sql] for c in sequence]
    order = parts[0] if len(parts) == 1 else f"struct({', '.join(parts)})"
    deletes = m.expr.condition(own, 1) if m.maybe(0.75) else None
    rest = [c.sql for c in own if c.sql not in key_names]
    chosen = tuple(n for n in (c.sql for c in own) if n in key_names or m.maybe(0.7)) if m.maybe(0.4) else None
    shown = [c for c in own if chosen is None or c.sql in chosen]
    tracked = None
    if scd_type == 2 and m.maybe(0.85):  # of one or two columns, so that changes often agree
        candidates = [c.sql for c in shown if c.sql not in key_names and c.sql != parts[0]]
        tracked = tuple(m.chance.sample(candidates, min(len(candidates), m.chance.choice((1, 1, 2))))) or None
    query = Cdc(changes, key_names, Expr(order, ""), deletes, scd_type, chosen, tracked, m.maybe(0.5) and bool(rest),
                tuple(c.sql for c in own), any_of, unique)  # fmt: skip
    if scd_type == 2:
        types = {c.sql: c.type for c in own}
        kind = types[parts[0]] if len(parts) == 1 else f"struct<{','.join(f'{p}:{types[p]}' for p in parts)}>"
        shown += [Column(name, kind) for name in END_COLUMNS]
        return Made(query, tuple(shown), (*key_names, END_COLUMNS[0]))
    return Made(query, tuple(shown), key_names, key_names if any_of else None)


def several_flows(m: Maker) -> Made:
    """A table that two or three queries fill."""
    source, scope, _ = m.source()
    first = m.made(m.items(scope), source, where=m.where(scope))
    queries = [first.query]
    for _ in range(m.chance.choice((1, 1, 2))):
        other, columns, _ = m.source()
        items = [
            Item(Expr(f"CAST({{0}} AS {c.type})", c.type, (m.expr.of_type(columns, c.type, 1),)), c.sql)
            for c in first.columns
        ]
        queries.append(Select(tuple(items), other, m.where(columns)))
    return Made(Flows(tuple(queries)), tuple(Column(c.sql, c.type) for c in first.columns))
