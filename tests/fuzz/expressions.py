"""Random expressions with typed operands.

Most are templates: the SQL texts by which `tests/stepwell/expressions` compares every entry of the lowering table with Spark. The columns of a
template are replaced by operands of the same types, so an expression that is added to the table is in the fuzzer as soon as it has its cases.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pyspark.sql import DataFrame

from tests.fuzz.terms import Expr
from tests.fuzz.values import DDL, FLOATS, INTEGERS, Value, is_comparable, literal
from tests.stepwell.expressions import edges, random_rows

BOOLEAN = "boolean"
INTERVAL = "interval day to second"
MAP = "map<string,int>"
MAPS = ("map('a', 1)", "map('a', 1, 'b', NULL)", "map('b', 0, 'a', 2)", f"CAST(map() AS {MAP})", f"CAST(NULL AS {MAP})")
_PIECES = re.compile(r"'(?:[^'\\]|\\.|'')*'|\.?\w+")


def _edge_types() -> dict[str, str]:
    """The edge table's columns with Spark's names of their types."""
    columns = re.split(r", (?=\w+ )(?![^<(]*[>)])", edges.DDL)
    return {
        name: kind.replace(": ", ":").replace(", ", ",") for name, kind in (column.split(" ", 1) for column in columns)
    }


EDGE_TYPES = _edge_types()


_PARAMETERS = re.compile(r"(\w+|\([\w\s,]+\))\s*->")
"""Of lambda functions. Their names are no columns, even if a column has the same one."""


@dataclass(frozen=True)
class Template:
    """`text` has a place for each of the operands, whose types these are. `case`: the text that it was made of."""

    case: str
    text: str
    operands: tuple[str, ...]
    type: str


def template_of(case: str, type_: str) -> Template:
    operands: list[str] = []
    places: dict[str, int] = {}
    own = {name for names in _PARAMETERS.findall(case) for name in re.findall(r"\w+", names)}

    def piece(found: re.Match[str]) -> str:
        word = found[0]
        called = case[found.end() :].lstrip().startswith("(")
        is_alias = case[: found.start()].rstrip().lower().endswith(" as")
        if word not in EDGE_TYPES or called or word in own or is_alias:
            return word.replace("{", "{{").replace("}", "}}")
        if word not in places:
            places[word] = len(operands)
            operands.append(EDGE_TYPES[word])
        return f"{{{places[word]}}}"

    return Template(case, _PIECES.sub(piece, case), tuple(operands), type_)


_NAMED_BY_OPERANDS = re.compile(r"struct\(|arrays_zip\(|map_from_entries\(")


@lru_cache(maxsize=1)
def cases() -> tuple[str, ...]:
    """Without window(), which may stand in SELECT alone, and without structs whose fields have the names of the operands: with other operands
    they have another type, and EXCEPT over structs with other names of fields is none of Spark's."""
    return tuple(
        case
        for case in random_rows.EXPRESSIONS
        if "window(" not in case and "{" not in _PIECES.sub("", case) and not _NAMED_BY_OPERANDS.match(case)
    )


_types: dict[str, str] = {}


def templates(chance: random.Random, edge: DataFrame, count: int) -> list[Template]:
    """Some templates. `edge`: a frame with the edge table's columns, by which Spark says the types of results."""
    chosen = chance.sample(cases(), count)
    unknown = [case for case in chosen if case not in _types]
    if unknown:
        schema = edge.selectExpr(*(f"{case} AS r{i}" for i, case in enumerate(unknown))).schema
        _types.update((case, f.dataType.simpleString()) for case, f in zip(unknown, schema.fields, strict=True))
    return [template_of(case, _types[case]) for case in chosen]


@dataclass(frozen=True)
class Column:
    """What an expression may read. `summable`: sums of its values are exact, whatever their order. A `loose` column is compared with Spark's
    less than exactly ("sum", "zero": see compare.py), so nothing may be computed from it."""

    sql: str
    type: str
    summable: bool = False
    loose: str = ""


@dataclass
class Expressions:
    """`pools`: the values of each type. `used`: the templates that were taken."""

    chance: random.Random
    pools: dict[str, list[Value]]
    templates: Sequence[Template]
    used: set[str] = field(default_factory=set)

    def literal(self, type_: str) -> Expr:
        value = None if self.chance.random() < 0.08 else self.chance.choice(self.pools[type_])
        return Expr(literal(value, type_), type_)

    def column(self, scope: Sequence[Column], type_: str | None = None) -> Column | None:
        known = [c for c in scope if not c.loose and (type_ is None or c.type == type_)]
        return self.chance.choice(known) if known else None

    def of_type(self, scope: Sequence[Column], type_: str, depth: int = 2) -> Expr:
        """An expression of this type over some columns."""
        if depth > 0 and self.chance.random() < 0.35:
            found = self._computed(scope, type_, depth)
            if found is not None:
                return found
        column = self.column(scope, type_)
        if column is not None and self.chance.random() < 0.85:
            return Expr(column.sql, type_)
        return self._leaf(scope, type_)

    def any(self, scope: Sequence[Column], depth: int = 2, *, compared: bool = True) -> Expr:
        """A column or an expression that an output can hold. `compared`: whether its values must be comparable."""
        column = self.column([c for c in scope if not compared or is_comparable(c.type)])
        if column is not None and self.chance.random() < 0.5:
            return Expr(column.sql, column.type)
        fitting = [t for t in self.templates if _is_output(t.type) and (not compared or is_comparable(t.type))]
        if fitting and self.chance.random() < 0.6:
            return self._filled(self.chance.choice(fitting), scope, depth - 1)
        return self.of_type(scope, self.chance.choice(list(DDL)), depth)

    def condition(self, scope: Sequence[Column], depth: int = 2) -> Expr:
        makers: list[Callable[[], Expr]] = [lambda: self.compare(scope, depth)] * 4
        makers += [lambda: self.null_test(scope), lambda: self.in_list(scope), lambda: self.compare_rows(scope, depth)]
        if depth > 0:
            makers += [lambda: self.connected(scope, depth), lambda: self.of_type(scope, BOOLEAN, depth)]
        return self.chance.choice(makers)()

    def compare(self, scope: Sequence[Column], depth: int) -> Expr:
        column = self.column([c for c in scope if c.type in DDL])
        left = Expr(column.sql, column.type) if column else self.literal("int")
        right = self.of_type(scope, left.type, depth - 1)
        operator = self.chance.choice(("=", "<", ">=", "<>", "<=>", ">="))
        return Expr(f"{{0}} {operator} {{1}}", BOOLEAN, (left, right))

    def compare_rows(self, scope: Sequence[Column], depth: int) -> Expr:
        """(a, b) beside another row, or beside a list of rows."""
        columns = [c for c in scope if c.type in DDL and "<" not in c.type and not c.loose]
        if len(columns) < 2:
            return self.compare(scope, depth)
        left = tuple(Expr(column.sql, column.type) for column in self.chance.sample(columns, 2))

        def row() -> tuple[Expr, ...]:
            return tuple(self.of_type(scope, each.type, depth - 1) for each in left)

        operator = self.chance.choice(("=", "<", ">=", "<>", "<=>", "IN", "NOT IN"))
        if "IN" not in operator:
            return Expr(f"({{0}}, {{1}}) {operator} ({{2}}, {{3}})", BOOLEAN, (*left, *row()))
        return Expr(f"({{0}}, {{1}}) {operator} (({{2}}, {{3}}), ({{4}}, {{5}}))", BOOLEAN, (*left, *row(), *row()))

    def null_test(self, scope: Sequence[Column]) -> Expr:
        column = self.column(scope)
        left = Expr(column.sql, column.type) if column else self.literal("int")
        return Expr(f"{{0}} IS {self.chance.choice(('', 'NOT ', 'NOT '))}NULL", BOOLEAN, (left,))

    def in_list(self, scope: Sequence[Column]) -> Expr:
        column = self.column([c for c in scope if c.type in DDL and "<" not in c.type])
        if column is None:
            return self.null_test(scope)
        values = tuple(self.literal(column.type) for _ in range(self.chance.randint(1, 3)))
        listed = ", ".join(f"{{{i + 1}}}" for i in range(len(values)))
        negated = self.chance.choice(("", "NOT "))
        return Expr(f"{{0}} {negated}IN ({listed})", BOOLEAN, (Expr(column.sql, column.type), *values))

    def connected(self, scope: Sequence[Column], depth: int) -> Expr:
        left, right = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
        if self.chance.random() < 0.2:
            return Expr("NOT ({0})", BOOLEAN, (left,))
        return Expr(f"({{0}}) {self.chance.choice(('AND', 'OR', 'OR'))} ({{1}})", BOOLEAN, (left, right))

    def _computed(self, scope: Sequence[Column], type_: str, depth: int) -> Expr | None:
        fitting = [t for t in self.templates if t.type == type_]
        if fitting and self.chance.random() < 0.7:
            return self._filled(self.chance.choice(fitting), scope, depth - 1)
        if type_ not in DDL:
            return None

        def part() -> Expr:
            return self.of_type(scope, type_, depth - 1)

        match self.chance.randrange(4):
            case 0:
                condition = self.condition(scope, depth - 1)
                return Expr("CASE WHEN {0} THEN {1} ELSE {2} END", type_, (condition, part(), part()))
            case 1:
                return Expr("coalesce({0}, {1})", type_, (part(), part()))
            case 2:
                return Expr("if({0}, {1}, {2})", type_, (self.condition(scope, depth - 1), part(), part()))
            case _:
                return Expr("nullif({0}, {1})", type_, (part(), part()))

    def _filled(self, template: Template, scope: Sequence[Column], depth: int) -> Expr:
        self.used.add(template.case)
        operands = tuple(self.of_type(scope, type_, depth) for type_ in template.operands)
        return Expr(f"({template.text})", template.type, operands)

    def _leaf(self, scope: Sequence[Column], type_: str) -> Expr:
        if type_ == INTERVAL:
            return Expr(
                "({0} - {1})", type_, (self.of_type(scope, "timestamp", 0), self.of_type(scope, "timestamp", 0))
            )
        if type_ == MAP:
            return Expr(self.chance.choice(MAPS), type_)
        if type_ == "interval day":
            return Expr("({0} - {1})", type_, (self.of_type(scope, "date", 0), self.of_type(scope, "date", 0)))
        narrower = [c for c in scope if not c.loose and _widens(c.type, type_)]
        if narrower and self.chance.random() < 0.4:
            column = self.chance.choice(narrower)
            return Expr(f"CAST({{0}} AS {type_})", type_, (Expr(column.sql, column.type),))
        return self.literal(type_) if type_ in self.pools else Expr(f"CAST(NULL AS {type_})", type_)


def _widens(source: str, target: str) -> bool:
    """Whether every value of one type is one of the other, or its text."""
    if target == "string":
        return source in INTEGERS or source in ("boolean", "date", "string") or source.startswith("decimal")
    if source in INTEGERS and target in INTEGERS:
        return INTEGERS.index(source) < INTEGERS.index(target)
    return source in ("tinyint", "smallint") and target in FLOATS


def _is_output(type_: str) -> bool:
    """Whether a message can have it. The keys of a map have to be strings there."""
    if any(
        word in type_
        for word in ("interval day", "interval hour", "interval minute", "interval second", "void", "variant")
    ):
        return False
    return type_.count("map<") == type_.count("map<string,")
