"""What every construct draws from: the relations that a query can read, and how its parts are put together."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.expressions import Column, Expressions
from tests.fuzz.terms import Derived, Expr, Item, Named, Query, Select
from tests.fuzz.values import is_comparable

ITEMS_MAX = 4


@dataclass(frozen=True)
class Relation:
    """A source or view that can be read. `key`: columns of which no two rows have the same values; None if none are known."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Made:
    """A query with its columns, whose `sql` is their name. `any_of`: for each value of these columns the view has one of the query's rows; which
    one is free, so nothing may read the view."""

    query: Query
    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None
    any_of: tuple[str, ...] | None = None


@dataclass
class Maker:
    """What a construct draws from. `wild`: values at the limits of their types."""

    chance: random.Random
    expr: Expressions
    relations: list[Relation]
    wild: bool
    inner: Sequence[Callable[[Maker], Made]]
    """The constructs of which queries in FROM are made; one may be there twice."""
    names: int = 0
    nested: int = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    # FROM

    def read(self, relation: Relation | None = None) -> tuple[Any, list[Column], Relation]:
        """A relation in FROM, and its columns as an expression there reads them."""
        relation = relation or self.chance.choice([*self.relations, *self.relations[-2:]])
        alias = self.name("a")
        return Named(relation.name, alias), qualified(relation.columns, alias), relation

    def source(self) -> tuple[Any, list[Column], Relation | None]:
        """Like `read`, or a query in FROM."""
        if self.nested < 2 and self.maybe(0.3):
            self.nested += 1
            made = self.chance.choice(self.inner)(self)
            self.nested -= 1
            alias = self.name("q")
            return Derived(made.query, alias), qualified(made.columns, alias), None
        return self.read()

    # SELECT

    def columns_of(self, scope: Sequence[Column], least: int = 1) -> list[tuple[Expr, Column]]:
        """Some plain columns whose values can be compared, each with what it is."""
        free = [c for c in scope if not c.loose and is_comparable(c.type)]
        if not free:
            return [(self.expr.literal("int"), Column("", "int"))]
        chosen = self.chance.sample(free, min(len(free), max(least, self.chance.randint(1, ITEMS_MAX))))
        return [(Expr(c.sql, c.type), c) for c in chosen]

    def items(self, scope: Sequence[Column], *, compared: bool = False) -> list[tuple[Expr, Column]]:
        """Plain columns, and sometimes expressions. `compared`: whether their values must be comparable."""
        found = self.columns_of(scope)
        found += [(Expr(c.sql, c.type), c) for c in scope if not compared and "map<" in c.type and self.maybe(0.5)]
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            made = self.expr.any(scope, compared=compared)
            found.append((made, Column("", made.type)))
        return found

    def items_with_key(self, scope: Sequence[Column], key: Sequence[Expr] | None) -> list[tuple[Expr, Column]]:
        """As `items`, in most cases after all parts of the key, so that it is the query's."""
        items = self.items(scope)
        if key and self.maybe(0.7):
            items = [*((part, Column("", part.type)) for part in key), *(i for i in items if i[0] not in key)]
        return items

    def where(self, scope: Sequence[Column], probability: float = 0.25) -> tuple[Expr, ...]:
        return (self.expr.condition(scope),) if self.maybe(probability) else ()

    def made(
        self, items: Sequence[tuple[Expr, Column]], source: Any, key: Sequence[Expr] | None = None, **rest: Any
    ) -> Made:
        """`key`: of the query, as expressions; it is the query's if all of them are among the items."""
        named = [(expr, replace(column, sql=self.name("c"))) for expr, column in items]
        query = Select(tuple(Item(expr, column.sql) for expr, column in named), source, **rest)
        names: tuple[str, ...] | None = None
        if key and set(key) <= {expr for expr, _ in named}:
            names = tuple(next(column.sql for expr, column in named if expr == part) for part in key)
        return Made(query, tuple(column for _, column in named), names)


def qualified(columns: Sequence[Column], alias: str) -> list[Column]:
    return [replace(column, sql=f"{alias}.{column.sql}") for column in columns]


def key_of(source: Any, relation: Relation | None) -> list[Expr] | None:
    if relation is None or relation.key is None:
        return None
    types = {c.sql: c.type for c in relation.columns}
    return [Expr(f"{source.alias}.{name}", types[name]) for name in relation.key]
