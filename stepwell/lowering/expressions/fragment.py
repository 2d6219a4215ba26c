"""A piece of DuckDB SQL, with the facts that its parent needs.

Every rule keeps these invariants:
- `sql` can be used as an operand anywhere, because it is a column, a call, or in parentheses.
- Its value has exactly the DuckDB type `duck_type(type)`, so that rules can rely on widths and scales.
- `raises` is true if some row could make it raise. Only then must a parent that Spark evaluates lazily guard it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from engine.expressions.functions import Failure, patterns
from engine.expressions.generic import function_name
from engine.expressions.types import duck_type, quote_name
from engine.model.node import Column, Expression
from stepwell.catalyst.tree import TreeNode

# Some rules write an operand more than once, so the text of nested expressions could explode.
SQL_CHARACTERS_MAX = 1_000_000


class UnsupportedExpression(Exception):
    """There is no rule for an expression. The caller adds the view, file and line."""

    def __init__(self, kind: str, text: str, advice: str) -> None:
        super().__init__(f"expression {kind}{f' ({text})' if text else ''} is not supported: {advice}")
        self.kind = kind
        self.text = text
        self.advice = advice


@dataclass(frozen=True)
class VariantPart:
    """What the SQL `sql` takes of a variant: what is at the end of the path `steps`."""

    sql: str
    whole: Fragment
    steps: tuple[str | int, ...]


@dataclass(frozen=True)
class Fragment:
    """An expression in DuckDB's SQL, with what rules have to know of it. `value` is the value of a literal: None for NULL, otherwise a Python
    value. `part`: for a variant that is a part of another one, so that a cast of it can be one call. It counts only as long as the fragment has
    its SQL."""

    sql: str
    type: pa.DataType
    raises: bool = False
    column: Column | None = None
    literal: bool = False
    value: Any = None
    part: VariantPart | None = None

    @property
    def expression(self) -> Expression:
        return Expression(self.sql, self.type, self.column)


Rule = Callable[[TreeNode, tuple[Fragment, ...]], Fragment]


def derive(sql: str, type_: pa.DataType, *operands: Fragment, raises: bool = False) -> Fragment:
    """A fragment over operands. It can raise if `raises` is set or if one of the operands can raise."""
    if len(sql) > SQL_CHARACTERS_MAX:
        raise UnsupportedExpression("tree", f"{len(sql)} characters of SQL", "split the expression over several views")
    return Fragment(sql, type_, raises or any(operand.raises for operand in operands))


NUMBER_OF_INTERVAL = (
    "make a number of it first: timestampdiff(SECOND, TIMESTAMP'1970-01-01', TIMESTAMP'1970-01-01' + x)"
)
"""What to do with an interval x where only numbers are supported."""


def unsupported_expression(
    node: TreeNode, reason: str, advice: str = "write it with supported functions"
) -> UnsupportedExpression:
    return UnsupportedExpression(node.kind, reason, advice)


def cast(sql: str, type_: pa.DataType) -> str:
    return f"CAST({sql} AS {duck_type(type_)})"


def renamed_fields(fragment: Fragment, type_: pa.DataType) -> Fragment | None:
    """The fragment with `type_`, if that differs from its own in nothing but the names of fields of structs, at any depth; else None. Spark
    compares such values by the places of their fields. DuckDB goes by names, and a field that it does not find is null."""
    return fragment if fragment.type == type_ else convert_parts(fragment, type_, renamed_fields)


def convert_parts(
    operand: Fragment, target: pa.DataType, convert: Callable[[Fragment, pa.DataType], Fragment | None]
) -> Fragment | None:
    """A list, a map or a struct of the type `target`: `convert` gives each part its type there. Fields of structs go by their places, and keys
    of maps stay. None if `convert` gives None for a part, or if the types have no such parts in common."""
    own, sql = operand.type, operand.sql
    name = f"y{_levels(target)}"  # lists and maps within have another name
    if pa.types.is_list(own) and pa.types.is_list(target):
        element = convert(Fragment(name, own.value_type), target.value_type)
        if element is None:
            return None
        return derive(cast(f"list_transform({sql}, lambda {name}: {element.sql})", target), target, operand, element)
    if pa.types.is_map(own) and pa.types.is_map(target) and own.key_type == target.key_type:
        value = convert(Fragment(f"struct_extract({name}, 'value')", own.item_type), target.item_type)
        if value is None:
            return None
        entry = f"struct_pack(k := struct_extract({name}, 'key'), v := {value.sql})"
        entries = f"list_transform(map_entries({sql}), lambda {name}: {entry})"
        return derive(cast(f"map_from_entries({entries})", target), target, operand, value)
    if not (pa.types.is_struct(own) and pa.types.is_struct(target) and own.num_fields == target.num_fields):
        return None
    members: list[str] = []
    fields: list[Fragment] = []
    for former, field in zip(own, target, strict=True):
        made = convert(Fragment(f"struct_extract({sql}, {text(former.name)})", former.type), field.type)
        if made is None:
            return None
        members.append(f"{quote_name(field.name)} := {made.sql}")
        fields.append(made)
    packed = f"CASE WHEN {sql} IS NOT NULL THEN struct_pack({', '.join(members)}) END"
    return derive(cast(packed, target), target, operand, *fields)


def _levels(type_: pa.DataType) -> int:
    """How many lists and maps are in each other."""
    if pa.types.is_list(type_):
        return 1 + _levels(type_.value_type)
    if pa.types.is_map(type_):
        return 1 + _levels(type_.item_type)
    return max((_levels(field.type) for field in type_), default=0) if pa.types.is_struct(type_) else 0


def text(value: str) -> str:
    """A string literal. `chr` writes the character NUL, because NUL would end DuckDB's SQL text."""
    parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


def failure(error_class: str, message: str) -> str:
    """SQL that raises when a row reaches it."""
    return f"error({text(f'[{error_class}] {message}')})"


def literal_value(node: TreeNode, fragment: Fragment, what: str) -> Any:
    """The value of an operand that must be a constant."""
    if not fragment.literal:
        raise unsupported_expression(node, f"{what} is not a constant", f"write {what} as a literal")
    return fragment.value


def literal_pattern(node: TreeNode, fragment: Fragment, what: str) -> None:
    """Refuses an operand that is no constant, or a Java pattern that Python cannot match, so that `dry-run` finds it."""
    pattern = literal_value(node, fragment, what)
    try:
        if pattern is not None:
            patterns.translate(pattern)
    except Failure as error:
        raise unsupported_expression(node, str(error), f"write {what} without it") from error


def strict(rule: Rule, last_first: bool = False) -> Rule:
    """The rule of an expression that is null if one of its operands is null. Spark does not evaluate the operands after a null one. So an
    operand that can raise is evaluated only where the operands before it are not null. Division evaluates its last operand first."""

    def guarded_rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        order = list(reversed(arguments)) if last_first else list(arguments)
        for index, operand in enumerate(order):
            before = [other.sql for other in order[:index] if not other.literal or other.value is None]
            if operand.raises and before:
                present = " AND ".join(f"{sql} IS NOT NULL" for sql in before)
                order[index] = replace(operand, sql=cast(f"CASE WHEN {present} THEN {operand.sql} END", operand.type))
        return rule(node, tuple(reversed(order)) if last_first else tuple(order))

    return guarded_rule


def call(function: str, type_: pa.DataType, *operands: Fragment | str, raises: bool = False) -> Fragment:
    """A call of a DuckDB function, or of one in engine/expressions/functions. The function itself returns a value of this type."""
    written = ", ".join(operand if isinstance(operand, str) else operand.sql for operand in operands)
    fragments = [operand for operand in operands if isinstance(operand, Fragment)]
    return derive(f"{function}({written})", type_, *fragments, raises=raises)


def calls(function: str, type_: pa.DataType, raises: bool = False) -> Rule:
    """The rule of an expression that is a call of one function with the expression's arguments."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        return call(function, type_, *arguments, raises=raises)

    return rule


def generic(
    function: str, type_: pa.DataType, *operands: Fragment, constants: Any = None, raises: bool = False
) -> Fragment:
    """A call of a function that takes any type (see engine/expressions/generic.py), for the operands' types."""
    name = function_name(function, [operand.type for operand in operands], type_, constants)
    return call(name, type_, *operands, raises=raises)


def floor_divide(sql: str, by: int) -> str:
    """Integer division that rounds down, like Java's floorDiv. DuckDB's // rounds toward zero."""
    return f"(({sql} - (({sql} % {by}) + {by}) % {by}) // {by})"
