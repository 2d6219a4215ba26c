"""What makes variants, takes parts of them, casts them and asks for a variant's null. base/text/variants.py says what a variant is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from base.text.type_names import sql_type
from base.text.variants import FIELD, VARIANT, path_steps
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    VariantPart,
    cast,
    derive,
    generic,
    literal_value,
    strict,
    text,
    unsupported_expression,
)

_EVALUATION = "VariantExpressionEvalUtils"


def _parse_json(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand, repeated, fails, checked = arguments
    if literal_value(node, repeated, "a setting") or not literal_value(node, checked, "a setting"):
        raise unsupported_expression(
            node, "parse_json with settings of spark.sql.variant", "leave them out of the configuration"
        )
    fail = bool(literal_value(node, fails, "whether it is tried"))
    return generic("parse_json", VARIANT, operand, constants={"fail": fail}, raises=fail)


def _get(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand, path = arguments
    target, fail = arrow_type(node["targetType"]), bool(node["failOnError"])
    if not path.literal:
        return generic("variant_get", target, operand, path, constants={"fail": fail}, raises=True)
    if path.value is None:
        return derive(cast("NULL", target), target, operand)
    steps = path_steps(path.value)
    if steps is None:
        raise unsupported_expression(node, f"the path {path.value}", "write $ and then .name, ['name'] or [0]")
    made = _at(operand, target, steps, fail)
    return replace(made, part=VariantPart(made.sql, operand, steps)) if target == VARIANT else made


def _at(operand: Fragment, target: pa.DataType, steps: tuple[str | int, ...], fail: bool) -> Fragment:
    raises = fail and target != VARIANT
    return generic("variant_get", target, operand, constants={"fail": fail, "path": list(steps)}, raises=raises)


def cast_variant(operand: Fragment, target: pa.DataType, fail: bool) -> Fragment:
    """CAST of a variant, and TRY_CAST if it is not to fail."""
    part = operand.part
    if part is not None and part.sql == operand.sql:
        return _at(part.whole, target, part.steps, fail)
    return _at(operand, target, (), fail)


def cast_to_variant(node: TreeNode, operand: Fragment) -> Fragment:
    """CAST to VARIANT of a type whose values JSON has too. The others would need other kinds of values in variants."""
    _refuse_other_kinds(node, operand.type)
    return generic("to_variant", VARIANT, operand)


def _refuse_other_kinds(node: TreeNode, type_: pa.DataType) -> None:
    of_json = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_float64, pa.types.is_string)
    if not any(is_one(type_) for is_one in of_json):
        raise unsupported_expression(
            node,
            f"{sql_type(type_)} to VARIANT",
            "cast it to STRING or DOUBLE, or use parse_json(to_json(x)), whose values are those of JSON",
        )


def _object(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """Spark lets only structs, arrays and maps with keys of STRING through."""
    (operand,) = arguments
    for type_ in _scalars_within(operand.type):
        _refuse_other_kinds(node, type_)
    return generic("to_variant_object", VARIANT, operand)


def _scalars_within(type_: pa.DataType) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(type_):
        yield type_
    elif type_ != VARIANT:
        inner = [type_.item_type] if pa.types.is_map(type_) else [type_.field(n).type for n in range(type_.num_fields)]
        for each in inner:
            yield from _scalars_within(each)


_ENTRY = pa.struct([("pos", pa.int32()), ("key", pa.string()), ("value", VARIANT)])


def _entries(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The rows that variant_explode makes, as a list; see rules/generate.py."""
    (operand,) = arguments
    return generic("variant_entries", pa.list_(_ENTRY), operand)


def _is_null(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """False for NULL, which is no variant."""
    (operand,) = arguments
    is_null = f"struct_extract({operand.sql}, {text(FIELD)}) = 'null'"
    return derive(f"COALESCE({is_null}, FALSE)", pa.bool_(), operand)


def _is_valid(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    (operand,) = arguments
    return derive(f"(CASE WHEN {operand.sql} IS NOT NULL THEN TRUE END)", pa.bool_(), operand)


JAVA_METHODS: dict[tuple[str, str], Rule] = {
    (_EVALUATION, "parseJson"): _parse_json,
    (_EVALUATION, "isVariantNull"): _is_null,
    (_EVALUATION, "isValidVariant"): _is_valid,
}
"""By the class and the method to which Spark's optimiser turns a function."""

TABLE: dict[str, Rule] = {
    "ToVariantObject": strict(_object),
    "VariantExplode": strict(_entries),
    "VariantGet": strict(_get),
}
