"""Normalised values for keys. For grouping and joining, Spark treats -0.0 and 0.0 as equal, and all NaNs as equal. So
keys are normalised before they are compared."""

from __future__ import annotations

import pyarrow as pa

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.trees import call

# The expressions that Spark itself puts around the keys of a join.
_NORMAL = ("NormalizeNaNAndZero", "KnownFloatingPointNormalized")


def normal(tree: TreeNode, type_: pa.DataType) -> TreeNode:
    """`tree`, whose values have this type, normalised for use as a key."""
    if pa.types.is_floating(type_) and tree.kind not in _NORMAL:
        return call("NormalizeNaNAndZero", child=tree)
    if pa.types.is_nested(type_) and holds_floating(type_):
        raise UnsupportedPlan(
            "Aggregate",
            f"a key of type {type_} has floating-point values inside, which is not supported yet",
            "Use the fields as keys of their own, or cast them to a decimal",
        )
    return tree


def holds_floating(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(holds_floating(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_floating(type_))
