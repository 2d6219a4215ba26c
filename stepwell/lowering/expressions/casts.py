"""Casts as Spark's ANSI mode has them."""

from __future__ import annotations

import pyarrow as pa

from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import expression_type
from stepwell.lowering.expressions.fragment import Fragment, Rule, cast, derived, unsupported


def _cast(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    source, target = operand.type, expression_type(node["dataType"])
    if source == target:
        return operand
    if pa.types.is_null(source) or (pa.types.is_integer(source) and pa.types.is_integer(target)):
        return derived(cast(operand.sql, target), target, operand, raises=True)
    if pa.types.is_integer(source) and (pa.types.is_floating(target) or pa.types.is_string(target)):
        return derived(cast(operand.sql, target), target, operand)
    if pa.types.is_floating(source) and pa.types.is_float64(target):
        return derived(cast(operand.sql, target), target, operand)
    if pa.types.is_integer(source) and pa.types.is_decimal(target):
        return derived(cast(operand.sql, target), target, operand, raises=True)
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        return derived(cast(operand.sql, target), target, operand, raises=True)
    raise unsupported(node, f"{source} to {target}", "cast in the producer, or in steps")


TABLE: dict[str, Rule] = {"Cast": _cast}
