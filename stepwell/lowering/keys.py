"""Normalised values for keys. For grouping and joining, Spark treats -0.0 and 0.0 as equal, and all NaNs as equal, also within structs and
arrays. The engine compares keys by their bytes, so they are normalised before."""

from __future__ import annotations

import pyarrow as pa

from base.text.type_names import sql_type
from base.text.variants import has_variants
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.trees import call

# The expressions that Spark itself puts around the keys of a join.
_NORMAL = ("NormalizeNaNAndZero", "KnownFloatingPointNormalized")


def normal_key(tree: TreeNode, type_: pa.DataType) -> TreeNode:
    """`tree`, whose values have this type, normalised for use as a key. What Spark has normalised stays as it is. Spark does so with the
    conditions of joins, but before it drops the `isnull` of a NOT IN over values that cannot be NULL, which makes an equality of it. Raises
    UnsupportedPlan for variants."""
    refuse_variants(type_)
    return tree if _is_normal(tree, type_) else call("NormalizeNaNAndZero", child=tree)


def refuse_variants(type_: pa.DataType) -> None:
    """Raises UnsupportedPlan for values that are compared. In the few functions that take variants Spark compares their bytes, which differ for
    equal values, and elsewhere it refuses them."""
    if has_variants(type_):
        raise UnsupportedPlan(
            "Aggregate",
            f"values of type {sql_type(type_)} are compared here, which is not supported",
            "Compare to_json(v), or a part of it with a type, such as v:name::STRING",
        )


def normal(tree: TreeNode, type_: pa.DataType) -> TreeNode:
    """`tree`, whose values have this type, normalised as a value that an aggregate function compares. Raises UnsupportedPlan for floating-point
    values within others, which Spark's functions compare in several ways."""
    if pa.types.is_nested(type_) and holds_floating(type_):
        raise UnsupportedPlan(
            "Aggregate",
            f"a value of type {sql_type(type_)} that an aggregate function compares has floating-point values inside, "
            "which is not supported yet",
            "Use the fields as values of their own, or cast them to a decimal",
        )
    return normal_key(tree, type_)


def holds_floating(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(holds_floating(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_floating(type_))


def _is_normal(tree: TreeNode, type_: pa.DataType) -> bool:
    if tree.kind in _NORMAL or not holds_floating(type_):
        return True
    if tree.kind == "CreateNamedStruct":
        return all(_is_normal(value, field.type) for value, field in zip(tree.children[1::2], type_, strict=True))
    return tree.kind == "CreateArray" and all(_is_normal(value, type_.value_type) for value in tree.children)
