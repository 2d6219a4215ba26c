"""The try_ functions: null instead of the operation's own error.

Spark marks an operation with the mode TRY, or puts TryEval around it. Only the operation itself is tried: an operand that fails still fails the
row. So operands that can fail are computed before, and DuckDB's TRY sees their values. TRY refuses `error(...)`, which counts as volatile; what
our own SQL raises is a branch of its CASE, and becomes a null.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa

from base.text.type_names import sql_type
from base.text.variants import VARIANT
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import expression_type
from stepwell.lowering.expressions.fragment import Fragment, Rule, cast, derive, unsupported_expression

_RAISED = re.compile(r"error\('(?:[^']|'')*'\)")
_LAST_FIRST = frozenset({"Divide", "IntegralDivide", "Remainder", "Pmod"})
_ADVICE = "use CASE to guard the operation"


def is_tried(node: TreeNode) -> bool:
    """Whether the operation gives null instead of an error. The old way of a cast differs from that for other types than these."""
    mode = node.get("evalMode")
    reads_time = node.kind == "Cast" and node["dataType"] in ("date", "timestamp", "timestamp_ntz")
    of_parts = node.kind in ("GetTimestamp", "MakeTimestamp") and not node.get("failOnError", True)
    return mode == "TRY" or (mode == "LEGACY" and reads_time) or of_parts


def lower_try(rule: Rule, node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The fragment of an operation that is tried."""
    if node.get("evalMode") == "LEGACY" and not (
        pa.types.is_string(arguments[0].type) or pa.types.is_temporal(arguments[0].type)
    ):
        raise unsupported_expression(
            node,
            f"a try_ function that makes {sql_type(expression_type(node['dataType']))} of {sql_type(arguments[0].type)}",
            "use timestamp_seconds(x) for a number of seconds, or CAST with CASE to guard it",
        )
    if node.kind == "Cast" and pa.types.is_nested(arguments[0].type) and arguments[0].type != VARIANT:
        raise unsupported_expression(
            node, f"a cast of {sql_type(arguments[0].type)} that is tried", "use transform, and try each element"
        )
    order = range(len(arguments))
    bound: dict[int, str] = {}
    for index in order:
        if arguments[index].raises:
            before = order[index + 1 :] if node.kind in _LAST_FIRST else order[:index]
            guards = [f"{arguments[other].sql} IS NOT NULL" for other in before]
            if node.kind in _LAST_FIRST:  # a divisor that is zero is looked at first
                guards += [f"{arguments[other].sql} <> 0" for other in before]
            present = " AND ".join(guards)
            guarded = f"CASE WHEN {present} THEN {arguments[index].sql} END" if present else arguments[index].sql
            bound[index] = cast(guarded, arguments[index].type)
    bare = tuple(
        replace(argument, sql=f"tried.a{index}", raises=False) if index in bound else argument
        for index, argument in enumerate(arguments)
    )
    result = rule(node, bare)
    sql = f"TRY({_RAISED.sub('NULL', result.sql)})"
    if bound:
        values = ", ".join(f"a{index} := {value}" for index, value in bound.items())
        sql = f"list_extract(list_transform([struct_pack({values})], lambda tried: {sql}), 1)"
    return derive(cast(sql, result.type), result.type, *(arguments[index] for index in bound))


def _try_eval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """TryEval tries its operands too. Their errors become null inside, which is the same only where nothing looks at a null."""
    (operand,) = arguments
    if any(argument_raises(child) for child in node.children[0].children):
        raise unsupported_expression(node, "an operand that is computed", _ADVICE)
    return derive(cast(f"TRY({_RAISED.sub('NULL', operand.sql)})", operand.type), operand.type)


def argument_raises(tree: TreeNode) -> bool:
    """Whether an operand is more than a column, a constant, or a cast of one."""
    if tree.kind == "Cast":
        return argument_raises(tree.children[0])
    return tree.kind not in ("AttributeReference", "Literal")


TABLE: dict[str, Rule] = {"TryEval": _try_eval}
